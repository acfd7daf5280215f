//! How far a model's positions reach: what it was trained for, or more where they are scaled.

use crate::config::{EngineConfig, RopeScaling};
use crate::error::{Error, Result};

/// Settings of RoPE, as a context takes them.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Rope {
    /// How positions are scaled.
    pub scaling: RopeScaling,
    /// By how much. None: as the model says, as is all that follows.
    pub freq_scale: Option<f64>,
    /// Base frequency.
    pub freq_base: Option<f64>,
    /// YaRN: tokens of context that were trained.
    pub yarn_orig_ctx: Option<u32>,
    /// YaRN: how far positions are extrapolated.
    pub yarn_ext_factor: Option<f64>,
    /// YaRN: factor of attention's scores.
    pub yarn_attn_factor: Option<f64>,
    /// YaRN: rotations below which dimensions are interpolated.
    pub yarn_beta_slow: Option<f64>,
    /// YaRN: rotations above which they are left as they are.
    pub yarn_beta_fast: Option<f64>,
}

impl Rope {
    /// The longest context, and the settings that it takes, of a model that was trained for so many tokens. `must`: a
    /// context that it does not reach is refused, else shortened.
    ///
    /// # Errors
    /// `Invalid` naming `engine.context` where that is too long, and what to set.
    pub(super) fn of(engine: &EngineConfig, trained: u32, must: bool) -> Result<(Rope, u32)> {
        let scales = matches!(engine.rope_scaling, RopeScaling::Linear | RopeScaling::Yarn);
        let mut rope = Rope {
            scaling: engine.rope_scaling,
            freq_scale: engine.rope_freq_scale,
            freq_base: engine.rope_freq_base,
            yarn_orig_ctx: engine.yarn_orig_ctx,
            yarn_ext_factor: engine.yarn_ext_factor,
            yarn_attn_factor: engine.yarn_attn_factor,
            yarn_beta_slow: engine.yarn_beta_slow,
            yarn_beta_fast: engine.yarn_beta_fast,
        };
        let reach = rope.freq_scale.map_or(trained, |scale| (f64::from(trained) / scale) as u32);
        let asked = if engine.context == 0 { reach } else { engine.context };
        if asked <= reach || rope.freq_base.is_some() {
            return Ok((rope, asked));
        }
        if scales && rope.freq_scale.is_none() {
            rope.freq_scale = Some(f64::from(trained) / f64::from(asked));
            return Ok((rope, asked));
        }
        if !must {
            return Ok((rope, reach));
        }
        let why = format!(
            "{asked} is more than the {reach} tokens that the model's positions reach: set {reach} or less, or have them scaled with engine.rope_scaling \"yarn\""
        );
        Err(Error::invalid(
            "engine.context",
            if rope.freq_scale.is_some() { format!("{why} and without engine.rope_freq_scale") } else { why },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(engine: &EngineConfig, must: bool) -> Result<(Rope, u32)> {
        Rope::of(engine, 4096, must)
    }

    #[test]
    fn a_context_is_what_positions_reach() {
        let engine = |context| EngineConfig { context, ..EngineConfig::default() };
        assert_eq!(of(&engine(0), true).unwrap().1, 4096);
        assert_eq!(of(&engine(1000), true).unwrap().1, 1000);
        let (rope, context) = of(&engine(8192), false).unwrap();
        assert_eq!((rope.freq_scale, context), (None, 4096));
        let error = of(&engine(8192), true).unwrap_err().to_string();
        assert!(error.contains("engine.context") && error.contains("4096"), "{error}");
        // What the error says helps.
        for scaling in [RopeScaling::Yarn, RopeScaling::Linear] {
            let scaled = EngineConfig { rope_scaling: scaling, ..engine(8192) };
            let (rope, context) = of(&scaled, true).unwrap();
            assert_eq!((rope.freq_scale, context), (Some(0.5), 8192));
        }
        let plain = EngineConfig { rope_scaling: RopeScaling::None, ..engine(8192) };
        assert!(of(&plain, true).is_err());
    }

    #[test]
    fn a_scale_or_a_base_reaches_further() {
        let scaled =
            |context| EngineConfig { context, rope_freq_scale: Some(0.25), ..EngineConfig::default() };
        assert_eq!([0, 16384, 5000].map(|n| of(&scaled(n), true).unwrap().1), [16384, 16384, 5000]);
        let error = of(&scaled(20_000), true).unwrap_err().to_string();
        assert!(error.contains("16384") && error.contains("without engine.rope_freq_scale"), "{error}");
        let based = EngineConfig { context: 20_000, rope_freq_base: Some(1e6), ..EngineConfig::default() };
        assert_eq!(of(&based, true).unwrap().1, 20_000);
    }
}
