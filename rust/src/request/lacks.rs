//! What an engine cannot do: one table, so that requests which need it are refused in the same words.

use super::{LogprobsOf, RequestSpec};
use crate::config::Acceptance;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a request may ask for and some engines cannot give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Feature {
    /// Biases of single tokens.
    LogitBias,
    /// Log-probabilities of the prompt.
    PromptLogprobs,
    /// Log-probabilities of the drawn tokens.
    Logprobs,
    /// Log-probabilities of tokens that were not drawn.
    TopLogprobs,
    /// Log-probabilities among the tokens that may be drawn.
    AllowedLogprobs,
    /// Dropping what is much less likely than the likeliest token.
    MinP,
    /// Constraints on the output.
    Grammar,
    /// Only some tokens may be drawn.
    AllowedTokens,
    /// End tokens are not drawn.
    IgnoreEos,
    /// End tokens are not drawn at first.
    MinTokens,
    /// Acceptance of drafts by their probabilities.
    Rejection,
    /// A say in how drafts are accepted.
    Acceptance,
    /// KV is not shared between salts.
    CacheSalt,
    /// Probabilities of options.
    Decisions,
    /// The same draws for the same seed.
    Seed,
    /// A say in what is drafted.
    DraftChoice,
    /// End tokens are not drawn at first, although the constraint lets the output end.
    ConstrainedMinTokens,
}

impl Feature {
    /// The request's field, and whether it asks for the feature.
    fn wanted(self, spec: &RequestSpec) -> (&'static str, bool) {
        match self {
            Feature::LogitBias => ("logit_bias", !spec.sampling.logit_bias.is_empty()),
            Feature::PromptLogprobs => ("prompt_logprobs", spec.prompt_logprobs.is_some()),
            Feature::Logprobs => ("logprobs", spec.logprobs.is_some()),
            Feature::TopLogprobs => ("top_logprobs", spec.logprobs.is_some_and(|top| top > 0)),
            Feature::AllowedLogprobs => ("logprobs_of", spec.logprobs_of == LogprobsOf::Allowed),
            Feature::MinP => ("min_p", spec.sampling.min_p > 0.0),
            Feature::Grammar => ("response_format", spec.grammar.is_some()),
            Feature::AllowedTokens => ("allowed_token_ids", spec.allowed_token_ids.is_some()),
            Feature::IgnoreEos => ("ignore_eos", spec.ignore_eos),
            Feature::MinTokens => ("min_tokens", spec.min_tokens > 0),
            Feature::Rejection => {
                ("speculative.acceptance", spec.speculative.acceptance == Some(Acceptance::Rejection))
            }
            Feature::Acceptance => ("speculative.acceptance", spec.speculative.acceptance.is_some()),
            Feature::CacheSalt => ("cache_salt", spec.cache_salt != 0),
            Feature::Decisions => ("questions", spec.decide.is_some()),
            Feature::Seed => ("seed", spec.sampling.seed.is_some() && spec.sampling.temperature > 0.0),
            Feature::DraftChoice => {
                let own = &spec.speculative;
                ("speculative", !own.enabled || own.max_draft_len.is_some() || own.sources.is_some())
            }
            Feature::ConstrainedMinTokens => ("min_tokens", spec.min_tokens > 0 && spec.grammar.is_some()),
        }
    }
}

/// What an engine lacks, and its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lacks {
    /// As a request's refusal names it.
    pub engine: String,
    /// What it cannot do.
    pub features: Vec<Feature>,
}

impl Lacks {
    /// Refuses a request that needs what is not there.
    ///
    /// # Errors
    /// `Invalid` of the field that asks for it.
    pub(super) fn check(&self, spec: &RequestSpec) -> Result<()> {
        let mut wanted = self.features.iter().map(|feature| feature.wanted(spec));
        match wanted.find(|(_, wanted)| *wanted) {
            None => Ok(()),
            Some((field, _)) => {
                Err(Error::invalid(field, format!("is not possible on {}; leave it out", self.engine)))
            }
        }
    }
}
