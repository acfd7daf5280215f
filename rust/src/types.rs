//! Plain data that crosses module and process borders: ids, events, usage.

use crate::config::DraftSource;
use crate::error::Error;
pub use llgtrt_grammar::types::{Narrowed, Token};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A request's id, unique within one handle, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// A place in the engine that holds one sequence's KV. Engines number them from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot(pub u32);

impl Slot {
    /// The slot's number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why a choice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FinishReason {
    /// An end token, a stop string, or the end of the grammar.
    Stop,
    /// `max_tokens` or the context's end.
    Length,
    /// Cancelled by the client.
    Cancelled,
}

/// Log-probabilities (natural logarithm) of one emitted token under the raw logits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// The emitted token.
    pub token: Token,
    /// Its log-probability: log-softmax of the raw logits, before mask, penalties and temperature.
    pub logprob: f32,
    /// The `top_logprobs` most likely tokens, best first, lowest id first on ties.
    pub top: Vec<(Token, f32)>,
    /// The probability of all tokens together that the constraint allows there, by the same logits. None without a constraint,
    /// or where origins and raw log-probabilities were not both asked for.
    pub allowed: Option<f32>,
}

/// Counts of one choice. `prompt`, `cached`, `queued` and `compiling` are the same for all choices of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt: u32,
    /// Prompt tokens whose KV was taken from an earlier request.
    pub cached: u32,
    /// Generated tokens, the end token included.
    pub completion: u32,
    /// Of those, what a section of reasoning has, its end marker included.
    #[serde(default)]
    pub reasoning: u32,
    /// A draw was not taken because the output, which is constrained, could not have been completed behind it.
    #[serde(default)]
    pub shortened: bool,
    /// From the request's arrival to its admission.
    pub queued: Duration,
    /// Of that, until its constraint was compiled or found in the cache; zero without a constraint.
    pub compiling: Duration,
    /// What became of drafts, by the number of their source.
    pub drafts: [Drafted; DraftSource::ALL.len()],
}

/// Tokens that a source drafted for one choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drafted {
    /// Given to the target.
    pub drafted: u32,
    /// Emitted.
    pub accepted: u32,
    /// Looked at, and not what the target or the grammar wanted.
    pub refused: u32,
}

/// Which options of a decision are still possible after each next token, and how likely each token is. All probabilities together
/// are 1, or 0 if no token continues an option.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Successors {
    /// For each option, the probability of the tokens after which only this option remains.
    pub settled: Vec<f64>,
    /// The tokens after which several options remain, each with its probability.
    pub open: Vec<(Token, f64)>,
}

/// News of one choice. Events of one choice that wait are merged, so their number never exceeds the choices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The request.
    pub request: RequestId,
    /// Index of the choice within the request, 0..n.
    pub choice: u32,
    /// New text, valid UTF-8; may be empty while a character or a stop string is undecided.
    pub text: String,
    /// New tokens, in order; they may run ahead of `text`.
    pub tokens: Vec<Token>,
    /// One entry per token where log-probabilities were asked for, else empty.
    pub logprobs: Vec<TokenLogprob>,
    /// One entry per token where origins were asked for, else empty.
    pub origins: Vec<Origin>,
    /// Those of further prompt tokens, from the second on, on choice 0 where they were asked for.
    pub prompt_logprobs: Vec<TokenLogprob>,
    /// For a decision, one entry for each place of the choice's path, in order; otherwise empty.
    pub successors: Vec<Successors>,
    /// Counts so far.
    pub usage: Usage,
    /// Of its constraint, on the choice's last event.
    pub narrowed: Vec<Narrowed>,
    /// Set on the choice's last event.
    pub end: Option<End>,
}

/// Where an emitted token came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Who drafted it; None = the target drew it with no draft of it before.
    pub source: Option<DraftSource>,
    /// What was drafted from this place on in its stead, in order, and by whom.
    pub refused: Vec<(Token, DraftSource)>,
}

/// How a choice ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum End {
    /// By itself.
    Finished(FinishReason),
    /// By an error: its own (grammar, sampler) or the engine's.
    Failed(Error),
}

impl Event {
    /// Counts of a choice, and no other news.
    pub fn silent(request: RequestId, choice: u32, usage: Usage) -> Self {
        Event {
            request,
            choice,
            text: String::new(),
            tokens: Vec::new(),
            logprobs: Vec::new(),
            origins: Vec::new(),
            prompt_logprobs: Vec::new(),
            successors: Vec::new(),
            usage,
            narrowed: Vec::new(),
            end: None,
        }
    }

    /// Appends a later event of the same choice.
    pub fn merge(&mut self, later: Event) {
        debug_assert_eq!((self.request, self.choice), (later.request, later.choice));
        self.text.push_str(&later.text);
        self.tokens.extend(later.tokens);
        self.logprobs.extend(later.logprobs);
        self.origins.extend(later.origins);
        self.prompt_logprobs.extend(later.prompt_logprobs);
        self.successors.extend(later.successors);
        self.usage = later.usage;
        self.narrowed.extend(later.narrowed);
        self.end = later.end;
    }
}

/// Why a drafted token was not kept as one that more may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The target drew another token.
    Target,
    /// The grammar allows no such token there.
    Grammar,
    /// It was accepted, and is an end token.
    End,
}
