//! What a small context tells about a model before KV is laid out.

use super::context::{Context, KvType, Shape};
use super::devices::Gpus;
use super::forward::Llama;
use super::{Parts, probe, refused};
use crate::config::{Config, KvCacheType};
use crate::error::Error;
use crate::exec::{Caps, ExecError};
use std::path::Path;
use std::time::Duration;

/// Time for the probe.
const PROBE: Duration = Duration::from_millis(800);

/// What a small context with slots told about the model.
pub(super) struct Found {
    pub(super) kv: KvType,
    pub(super) token_bytes: f64,
    /// Bytes of a sequence's state; 0 where it has none.
    pub(super) state_bytes: f64,
    /// Bytes that passes take on each GPU, beside KV.
    pub(super) computing: Vec<u64>,
    pub(super) probe: Option<probe::Found>,
}

impl Found {
    fn differs(&self) -> bool {
        self.probe.as_ref().is_some_and(|p| p.differ > 0)
    }

    pub(super) fn equal(&self) -> bool {
        self.probe.as_ref().is_some_and(|p| p.differ == 0 && p.rows > 0)
    }
}

/// Finds a KV type that the model takes, measures it, and probes. Where the type is left to us and our kernels don't compute
/// the attention, rows in F16 depend on their neighbours, and those in BF16 do not.
pub(super) fn look(gguf: &Path, parts: &Parts, config: &Config, gpus: &Gpus) -> Result<Found, Error> {
    let on_gpus = parts.layout.on_gpus() > 0;
    let found = look_at(kv_type(config), gguf, parts, gpus)?;
    if config.engine.kv_cache_type == KvCacheType::Auto && !on_gpus && found.differs() {
        let other = look_at(KvType::Bf16, gguf, parts, gpus)?;
        return Ok(if other.equal() { other } else { found });
    }
    Ok(found)
}

fn look_at(kv: KvType, gguf: &Path, parts: &Parts, gpus: &Gpus) -> Result<Found, Error> {
    let Parts { model, file, rope, .. } = parts;
    let cells = probe::SLOTS * probe::TOKENS;
    let paged = parts.paged();
    let shape = Shape {
        shared: false,
        sequences: probe::SLOTS,
        cells,
        // On GPUs with room for a whole pass, to see how much memory that takes.
        batch: if parts.on_host { cells } else { cells.max(parts.pass()) },
        pass: parts.pass(),
        kv,
        paged,
        rollback: 0,
        rope: *rope,
    };
    let open = |kv| parts.context(&Shape { kv, ..shape });
    let before = gpus.free();
    let (kv, context) = match open(shape.kv) {
        Err(why) if shape.kv == KvType::Q8_0 => {
            log::warn!("engine.kv_cache_type: q8_0 does not fit this model ({why}); bf16 is used");
            (KvType::Bf16, open(KvType::Bf16))
        }
        context => (shape.kv, context),
    };
    let mut context = context.map_err(|why| refused(gguf, &format!("cannot be served: {why}")))?;
    let computing = before.iter().zip(gpus.free()).map(|(before, after)| before.saturating_sub(after));
    let broken = |e: ExecError| refused(gguf, &format!("cannot be served: {e}"));
    let (token_bytes, first) = measure(&mut context).map_err(broken)?;
    let state_bytes = if model.is_recurrent() { first } else { 0.0 };
    let computing = Vec::from_iter(computing);
    let mut found = Found { kv, token_bytes, state_bytes, computing, probe: None };
    if !model.is_recurrent() {
        let caps = Caps {
            n_embd: model.n_embd(),
            kv_per_slot: file.trained.min(probe::TOKENS),
            ..Caps::of_rows(model.n_vocab(), probe::SLOTS, probe::TOKENS)
        };
        // As if rows took no time: so gaps that are filled are probed, too.
        let mut engine = Llama::new(context, caps, false, f64::INFINITY);
        let probe = probe::run(&mut engine, PROBE).map_err(broken)?;
        if !probe.finite {
            return Err(refused(gguf, "is damaged: its weights give scores that are no numbers"));
        }
        found.probe = Some(probe);
    }
    Ok(found)
}

/// The configured type of K and V. Left to us, it is F16, as in llama.cpp: in Q8_0, Qwen2.5 0.5B gives other answers, as some of
/// its keys are far larger than the others.
pub fn kv_type(config: &Config) -> KvType {
    match config.engine.kv_cache_type {
        KvCacheType::Q8_0 => KvType::Q8_0,
        KvCacheType::Bf16 => KvType::Bf16,
        KvCacheType::Auto | KvCacheType::F16 => KvType::F16,
    }
}

/// Bytes of one KV token and of a sequence's first, and whether the model computes anything.
fn measure(context: &mut Context) -> Result<(f64, f64), ExecError> {
    const MORE: u32 = 32;
    let mut size = |from: u32, n: u32| -> Result<usize, ExecError> {
        context.clear();
        for position in from..from + n {
            context.push(0, position, 0, position == 0);
        }
        context.decode().map_err(|e| ExecError(e.to_string()))?;
        if from == 0 && !context.logits(0).is_some_and(|row| row.iter().all(|x| x.is_finite())) {
            return Err(ExecError("its weights give scores that are no numbers".into()));
        }
        Ok(context.state_size(0))
    };
    let (one, more) = (size(0, 1)?, size(1, MORE)?);
    context.remove(0, 0);
    Ok(((more.saturating_sub(one) as f64 / f64::from(MORE)).max(1.0), one as f64))
}
