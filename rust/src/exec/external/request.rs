//! Jobs to requests of an engine that schedules by itself.

use crate::error::{Error, Result};
use crate::exec::Job;
use crate::grammar::Grammar;
use crate::types::Token;
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// How an engine gets constraints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrammarFormat {
    /// As the request has them: our own grammar runs inside the engine.
    Spec,
    /// As Lark, for llguidance.
    Lark,
}

/// How all requests of an engine are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestOptions {
    pub(super) format: GrammarFormat,
    /// Each request has a seed, also those that name none.
    pub(super) seeded: bool,
    /// KV is shared between API keys.
    pub(super) shared: bool,
    /// The last answer to a request counts its drafts.
    pub(super) counted: bool,
}

/// A request; the same as `Request` in `python/llgtrt/engines/__init__.py`.
#[derive(Debug, Clone, IntoPyObject)]
pub(super) struct EngineRequest {
    pub(super) id: u64,
    pub(super) prompt: Vec<Token>,
    pub(super) max_tokens: u32,
    pub(super) min_tokens: u32,
    /// 0 = the likeliest token.
    pub(super) temperature: f32,
    /// 0 = all.
    pub(super) top_k: u32,
    pub(super) top_p: f32,
    pub(super) min_p: f32,
    pub(super) presence_penalty: f32,
    pub(super) frequency_penalty: f32,
    pub(super) repetition_penalty: f32,
    /// None where tokens may be drawn in any way.
    pub(super) seed: Option<u64>,
    pub(super) logit_bias: BTreeMap<Token, f32>,
    pub(super) allowed_token_ids: Option<Vec<Token>>,
    /// Tokens that end the output, the model's own first.
    pub(super) stop_token_ids: Vec<Token>,
    /// Tokens that are drawn only where no other one can be: the model's own end tokens, if the request ignores them.
    pub(super) avoided_token_ids: Vec<Token>,
    /// Alternatives for each token; None = no log-probabilities.
    pub(super) logprobs: Option<u32>,
    pub(super) prompt_logprobs: Option<u32>,
    /// KV is shared only between equal salts; None = with all that have none.
    pub(super) cache_salt: Option<String>,
    /// Lower first.
    pub(super) priority: i64,
    /// The constraint: a `GrammarSpec` in JSON, or Lark.
    pub(super) grammar: Option<String>,
}

impl EngineRequest {
    /// What a sequence asks, with the prompt that its job has to compute.
    ///
    /// # Errors
    /// `Grammar` where the constraint cannot be given to the engine.
    pub(super) fn new(
        id: u64,
        job: &Job,
        prompt: Vec<Token>,
        options: RequestOptions,
    ) -> Result<EngineRequest> {
        let spec = job.sampler.request().spec();
        let s = &spec.sampling;
        // The likeliest token is the one of one.
        let greedy = s.temperature == 0.0 || s.top_p == 0.0 || s.top_k == 1;
        let (own, ends) = (job.sampler.eog(), job.sampler.ends().iter());
        let drawn = s.seed.is_some() || options.seeded;
        let salt = (if options.shared { 0 } else { spec.client }, spec.cache_salt);
        Ok(EngineRequest {
            id,
            prompt,
            max_tokens: job.budget,
            min_tokens: spec.min_tokens,
            temperature: if greedy { 0.0 } else { s.temperature },
            top_k: if greedy { 0 } else { s.top_k },
            top_p: if greedy { 1.0 } else { s.top_p },
            min_p: if greedy { 0.0 } else { s.min_p },
            presence_penalty: s.presence_penalty,
            frequency_penalty: s.frequency_penalty,
            repetition_penalty: s.repetition_penalty,
            // Engines take signed numbers.
            seed: (drawn && !greedy).then(|| job.sampler.seed() >> 1),
            logit_bias: s.logit_bias.clone(),
            allowed_token_ids: spec.allowed_token_ids.clone(),
            stop_token_ids: own.iter().chain(ends.filter(|end| !own.contains(end))).copied().collect(),
            avoided_token_ids: if spec.ignore_eos { own.to_vec() } else { Vec::new() },
            logprobs: spec.logprobs,
            prompt_logprobs: spec.prompt_logprobs,
            cache_salt: (salt != (0, 0)).then(|| format!("{:x}-{:x}", salt.0, salt.1)),
            priority: spec.priority,
            grammar: match options.format {
                GrammarFormat::Spec => {
                    spec.grammar.as_ref().map(serde_json::to_string).transpose().map_err(|e| {
                        Error::Executor(format!(
                            "a constraint cannot be written as JSON: {e}. This is a bug."
                        ))
                    })?
                }
                GrammarFormat::Lark => job.grammar.as_ref().map(lark).transpose()?,
            },
        })
    }
}

/// The constraint as Lark.
///
/// # Errors
/// Where it has several parts, which no such engine takes, or would exhaust the engine's stack.
fn lark(grammar: &Grammar) -> Result<String> {
    grammar.guide().ok_or_else(|| {
        let why = "a grammar of several parts, or whose rules are nested too deeply, is not possible on TensorRT-LLM's LLM \
                   API; make it one, and simpler";
        Error::grammar("", "llguidance", why)
    })
}
