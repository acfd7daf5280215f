//! What a client asks for ([`RequestSpec`]) and its only validation ([`Request::new`]).

use crate::config::{Acceptance, DraftSource};
use crate::error::{Error, Result};
use crate::grammar::GrammarSpec;
use crate::types::Token;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod decide;
mod lacks;

pub use decide::{Decide, Path};
pub use lacks::{Feature, Lacks};

/// A request as the Python layer writes it, in JSON. Everything but `prompt` has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// Prompt tokens, at least one.
    pub prompt: Vec<Token>,
    /// Choices, 1..=128.
    #[serde(default = "one")]
    pub n: u32,
    /// Most tokens to generate per choice, at least 1; none = the server's default, or the room left in the context.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// End tokens are not sampled before this many tokens.
    #[serde(default)]
    pub min_tokens: u32,
    /// How tokens are drawn.
    #[serde(default)]
    pub sampling: Sampling,
    /// Up to 16 non-empty strings that end a choice; they are not part of the output.
    #[serde(default)]
    pub stop: Vec<String>,
    /// Up to 128 tokens that end a choice, as end tokens do; they are not part of the output.
    #[serde(default)]
    pub stop_token_ids: Vec<Token>,
    /// The stop string that ended a choice is part of its text.
    #[serde(default)]
    pub include_stop_str_in_output: bool,
    /// Special tokens add nothing to the text.
    #[serde(default = "yes")]
    pub skip_special_tokens: bool,
    /// The only tokens that may be sampled; none = all.
    #[serde(default)]
    pub allowed_token_ids: Option<Vec<Token>>,
    /// End tokens are not sampled where anything else is allowed.
    #[serde(default)]
    pub ignore_eos: bool,
    /// Log-probabilities wanted, with this many alternatives (0..=20).
    #[serde(default)]
    pub logprobs: Option<u32>,
    /// Among which tokens the probabilities of output tokens are.
    #[serde(default)]
    pub logprobs_of: LogprobsOf,
    /// Log-probabilities of the prompt's tokens after the first wanted, with this many alternatives (0..=20).
    #[serde(default)]
    pub prompt_logprobs: Option<u32>,
    /// Where each token came from is told.
    #[serde(default)]
    pub origins: bool,
    /// The constraint.
    #[serde(default)]
    pub grammar: Option<GrammarSpec>,
    /// If set, the request is a decision: it asks for the probabilities of texts and generates nothing.
    #[serde(default)]
    pub decide: Option<Decide>,
    /// What it wants of speculation.
    #[serde(default)]
    pub speculative: Speculative,
    /// What the output is expected to be, as tokens, no more than the context; drafts are taken from it.
    #[serde(default)]
    pub prediction: Vec<Token>,
    /// A number for the API key that sent it, for fairness between clients.
    #[serde(default)]
    pub client: u64,
    /// How urgent it is: lower first.
    #[serde(default)]
    pub priority: i64,
    /// A number for its `cache_salt`: KV is shared only between equal salts. 0 = none.
    #[serde(default)]
    pub cache_salt: u64,
    /// Planted fault, for tests; refused by every engine but the weightless one.
    #[serde(default)]
    pub fault: Option<Fault>,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// How tokens are drawn. Names and ranges are the field's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// 0 (argmax) to 2; below a millionth it counts as 0.
    pub temperature: f32,
    /// Most likely tokens kept; 0 = all.
    pub top_k: u32,
    /// Probability mass kept, 0 (the likeliest token alone) to 1.
    pub top_p: f32,
    /// Tokens less likely than this times the likeliest are dropped, 0 to 1.
    pub min_p: f32,
    /// Subtracted once from tokens already generated, -2 to 2.
    pub presence_penalty: f32,
    /// Subtracted once per occurrence among the generated tokens, -2 to 2.
    pub frequency_penalty: f32,
    /// Divides positive and multiplies negative logits of tokens in prompt or output; > 0, 1 = none.
    pub repetition_penalty: f32,
    /// Added to the logits of these tokens, up to 1,024 of them, -100 to 100.
    pub logit_bias: BTreeMap<Token, f32>,
    /// Same seed, same output; none = drawn at admission.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: BTreeMap::new(),
            seed: None,
        }
    }
}

/// What a request wants of speculation; its text does not depend on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Speculative {
    /// False: nothing is drafted.
    pub enabled: bool,
    /// Most tokens drafted ahead in one step, if less than the server's; 0 = none.
    pub max_draft_len: Option<u32>,
    /// Sources that may be asked, of those that the server has; none = all of them.
    pub sources: Option<Vec<DraftSource>>,
    /// How its drafts are accepted, if not as the server says.
    pub acceptance: Option<Acceptance>,
}

impl Default for Speculative {
    fn default() -> Self {
        Speculative { enabled: true, max_draft_len: None, sources: None, acceptance: None }
    }
}

impl Speculative {
    /// Most tokens that may be drafted ahead, where the server drafts up to `most`.
    pub fn most(&self, most: u32) -> u32 {
        if self.enabled { self.max_draft_len.map_or(most, |own| own.min(most)) } else { 0 }
    }

    /// Whether `source` may be asked.
    pub fn allows(&self, source: DraftSource) -> bool {
        self.sources.as_ref().is_none_or(|sources| sources.contains(&source))
    }
}

/// Among which tokens log-probabilities are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogprobsOf {
    /// All tokens, before biases, penalties and constraints.
    #[default]
    Raw,
    /// Those that may be drawn: the constraint and the request allow them.
    Allowed,
}

/// Faults that tests plant through a request on the weightless engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The sampler panics at this generated position.
    SamplerPanic(u32),
    /// The grammar panics at this generated position.
    GrammarPanic(u32),
    /// The engine panics when this generated position is computed.
    EnginePanic(u32),
    /// The engine process aborts when this generated position is computed.
    EngineAbort(u32),
}

/// What a request may be on this engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Token ids are below this.
    pub n_vocab: u32,
    /// Longest prompt + output, in tokens.
    pub context: u32,
    /// Longest prompt, in tokens: less than the context where prompts are not chunked.
    pub max_prompt: u32,
    /// Most output tokens per choice of a request that says nothing of that.
    pub default_output: u32,
    /// Planted faults are allowed.
    pub faults: bool,
    /// What the engine cannot do.
    pub lacks: Lacks,
}

impl Limits {
    /// Of a small engine with a vocabulary of so many tokens.
    pub(crate) fn small(n_vocab: usize) -> Self {
        Limits {
            n_vocab: n_vocab as u32,
            context: 64,
            max_prompt: 64,
            default_output: u32::MAX,
            faults: false,
            lacks: Default::default(),
        }
    }
}

/// A valid request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    spec: RequestSpec,
    max_tokens: u32,
}

/// Most choices of one request.
pub const MAX_CHOICES: u32 = 128;
/// Most stop strings of one request.
pub const MAX_STOPS: usize = 16;
/// Longest stop string in bytes; text that may begin one is held back.
pub const MAX_STOP_BYTES: usize = 1024;
/// Most tokens that end a choice.
pub const MAX_STOP_TOKENS: usize = 128;
/// Most entries of a logit bias.
pub const MAX_BIASES: usize = 1024;
/// Temperatures below are 0: quotients by them overflow.
const LEAST_TEMPERATURE: f32 = 1e-6;
/// Most alternatives per token.
pub const MAX_TOP_LOGPROBS: u32 = 20;

impl Request {
    /// Checks a spec; the only place where requests are validated.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the field as OpenAI's API names it.
    pub fn new(mut spec: RequestSpec, limits: &Limits) -> Result<Request> {
        let room = check_prompt(&spec, limits)?;
        check_output(&spec, limits)?;
        check_sampling(&spec.sampling, limits)?;
        limits.lacks.check(&spec)?;
        if spec.sampling.temperature < LEAST_TEMPERATURE {
            spec.sampling.temperature = 0.0;
        }
        let default = limits.default_output.max(spec.min_tokens).min(room);
        let max_tokens = match &spec.decide {
            // There must be room for one more token than is computed.
            Some(decide) => decide::check(&spec, decide, limits)? + 1,
            None => spec.max_tokens.unwrap_or(default),
        };
        if max_tokens > room {
            return Err(context_exceeded(
                "max_tokens",
                format!(
                    "the context is {} tokens, but {} prompt tokens and {max_tokens} output tokens were asked for; \
                     shorten the prompt or lower max_tokens to {room}",
                    limits.context,
                    spec.prompt.len()
                ),
            ));
        }
        Ok(Request { spec, max_tokens })
    }

    /// The validated spec.
    pub fn spec(&self) -> &RequestSpec {
        &self.spec
    }

    /// Most tokens per choice, with the default filled in.
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens
    }
}

fn context_exceeded(what: &str, why: String) -> Error {
    Error::invalid_code(what, why, "context_length_exceeded")
}

/// Tokens left for the output, at least 1.
fn check_prompt(spec: &RequestSpec, limits: &Limits) -> Result<u32> {
    if spec.prompt.is_empty() {
        return Err(Error::invalid("prompt", "is empty; send at least one token"));
    }
    check_ids("prompt", &spec.prompt, limits)?;
    let length = u32::try_from(spec.prompt.len()).unwrap_or(u32::MAX);
    let most = limits.max_prompt.min(limits.context.saturating_sub(1));
    if length > most {
        return Err(context_exceeded(
            "prompt",
            format!("has {length} tokens; at most {most} fit; shorten it"),
        ));
    }
    Ok(limits.context - length)
}

fn check_ids<'a>(what: &str, ids: impl IntoIterator<Item = &'a Token>, limits: &Limits) -> Result<()> {
    match ids.into_iter().find(|t| **t >= limits.n_vocab) {
        None => Ok(()),
        Some(t) => {
            Err(Error::invalid(what, format!("has token id {t}; ids go from 0 to {}", limits.n_vocab - 1)))
        }
    }
}

fn at_most(what: &str, count: usize, most: usize) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    Err(Error::invalid(what, format!("has {count} entries; at most {most}")))
}

fn check_output(spec: &RequestSpec, limits: &Limits) -> Result<()> {
    within("n", f64::from(spec.n), 1.0, f64::from(MAX_CHOICES))?;
    if spec.max_tokens == Some(0) {
        return Err(Error::invalid("max_tokens", "must be at least 1"));
    }
    if let Some(most) = spec.max_tokens
        && spec.min_tokens > most
    {
        return Err(Error::invalid(
            "min_tokens",
            format!("is {}, more than max_tokens {most}", spec.min_tokens),
        ));
    }
    at_most("stop", spec.stop.len(), MAX_STOPS)?;
    at_most("stop_token_ids", spec.stop_token_ids.len(), MAX_STOP_TOKENS)?;
    check_ids("stop_token_ids", &spec.stop_token_ids, limits)?;
    let allowed = spec.allowed_token_ids.as_deref();
    if allowed.is_some_and(<[Token]>::is_empty) {
        return Err(Error::invalid(
            "allowed_token_ids",
            "is empty; name at least one token, or leave it out",
        ));
    }
    at_most("allowed_token_ids", allowed.map_or(0, <[Token]>::len), limits.n_vocab as usize)?;
    check_ids("allowed_token_ids", allowed.unwrap_or_default(), limits)?;
    if spec.stop.iter().any(|s| s.is_empty() || s.len() > MAX_STOP_BYTES) {
        return Err(Error::invalid("stop", format!("each string must have 1 to {MAX_STOP_BYTES} bytes")));
    }
    if spec.logprobs_of == LogprobsOf::Allowed && spec.logprobs.is_none() {
        return Err(Error::invalid("logprobs_of", "needs log-probabilities: set logprobs, or leave it out"));
    }
    within("top_logprobs", f64::from(spec.logprobs.unwrap_or(0)), 0.0, f64::from(MAX_TOP_LOGPROBS))?;
    within(
        "prompt_logprobs",
        f64::from(spec.prompt_logprobs.unwrap_or(0)),
        0.0,
        f64::from(MAX_TOP_LOGPROBS),
    )?;
    at_most("prediction", spec.prediction.len(), limits.context as usize)?;
    check_ids("prediction", &spec.prediction, limits)?;
    if spec.fault.is_some() && !limits.faults {
        return Err(Error::invalid("fault", "is for tests of the weightless engine only"));
    }
    Ok(())
}

fn check_sampling(s: &Sampling, limits: &Limits) -> Result<()> {
    within("temperature", f64::from(s.temperature), 0.0, 2.0)?;
    within("min_p", f64::from(s.min_p), 0.0, 1.0)?;
    within("presence_penalty", f64::from(s.presence_penalty), -2.0, 2.0)?;
    within("frequency_penalty", f64::from(s.frequency_penalty), -2.0, 2.0)?;
    within("top_p", f64::from(s.top_p), 0.0, 1.0)?;
    if !(s.repetition_penalty > 0.0 && s.repetition_penalty <= 10.0) {
        let why = format!("is {}; it must be above 0 and at most 10", s.repetition_penalty);
        return Err(Error::invalid("repetition_penalty", why));
    }
    at_most("logit_bias", s.logit_bias.len(), MAX_BIASES)?;
    check_ids("logit_bias", s.logit_bias.keys(), limits)?;
    s.logit_bias.values().try_for_each(|bias| within("logit_bias", f64::from(*bias), -100.0, 100.0))
}

/// NaN is outside of every range.
fn within(what: &str, value: f64, least: f64, most: f64) -> Result<()> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(Error::invalid(what, format!("is {value}; it must be from {least} to {most}")))
}

#[cfg(test)]
mod tests;
