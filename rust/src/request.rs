//! What a client asks for ([`RequestSpec`]) and its only validation ([`Request::new`]).

use crate::error::{Error, Result};
use crate::grammar::GrammarSpec;
use crate::types::Token;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A request as the Python layer writes it, in JSON. Everything but `prompt` has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// Prompt tokens, at least one.
    pub prompt: Vec<Token>,
    /// Choices, 1..=128.
    #[serde(default = "one")]
    pub n: u32,
    /// Most tokens to generate per choice, at least 1; none = the room left in the context.
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
    /// End tokens are not sampled where anything else is allowed.
    #[serde(default)]
    pub ignore_eos: bool,
    /// Log-probabilities wanted, with this many alternatives (0..=20).
    #[serde(default)]
    pub logprobs: Option<u32>,
    /// The constraint.
    #[serde(default)]
    pub grammar: Option<GrammarSpec>,
    /// A number for the API key that sent it, for fairness between clients.
    #[serde(default)]
    pub client: u64,
    /// Planted fault, for tests; refused by every engine but the weightless one.
    #[serde(default)]
    pub fault: Option<Fault>,
}

fn one() -> u32 {
    1
}

/// How tokens are drawn. Names and ranges are the field's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// 0 (argmax) to 2.
    pub temperature: f32,
    /// Most likely tokens kept; 0 = all.
    pub top_k: u32,
    /// Probability mass kept, in (0, 1].
    pub top_p: f32,
    /// Tokens less likely than this times the likeliest are dropped, 0 to 1.
    pub min_p: f32,
    /// Subtracted once from tokens already generated, -2 to 2.
    pub presence_penalty: f32,
    /// Subtracted once per occurrence among the generated tokens, -2 to 2.
    pub frequency_penalty: f32,
    /// Divides positive and multiplies negative logits of tokens in prompt or output; > 0, 1 = none.
    pub repetition_penalty: f32,
    /// Added to the logits of these tokens, -100 to 100.
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
    /// Planted faults are allowed.
    pub faults: bool,
}

/// A valid request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    spec: RequestSpec,
    max_tokens: u32,
}

impl Request {
    /// Checks a spec; the only place where requests are validated.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the field as OpenAI's API names it.
    pub fn new(spec: RequestSpec, limits: &Limits) -> Result<Request> {
        let room = limits.context.saturating_sub(spec.prompt.len() as u32);
        let max_tokens = spec.max_tokens.unwrap_or(room);
        if max_tokens == 0 {
            return Err(Error::invalid("max_tokens", "must be at least 1"));
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
