//! The seam between the scheduler and the engines: plain data and four traits.
//!
//! A [`Target`] verifies jobs: it advances each job's KV ([`Kv`]) over tokens that are already known and gives back new
//! tokens. An engine that hands out logits implements [`Forward`] only, and [`sampled::Sampled`] lifts it to a
//! `Target`; an engine that samples by itself implements `Target` directly. A [`Drafter`] proposes tokens ahead of it.
//!
//! A [`Job`] owns everything of its sequence that the engine needs, its grammar included: it is moved out of the
//! sequence for [`Target::run`] and comes back in the [`Round`].
//!
//! A step runs all of its jobs, and all of them come back. An engine that schedules by itself works on while the scheduler does
//! other things: a job for which it has nothing yet comes back without tokens, and is the same in the next step (`external`).

pub mod ahead;
pub mod by_text;
mod caps;
#[cfg(feature = "llama")]
mod cores;
pub mod cost;
pub mod draft_model;
mod draft_walk;
mod drafter;
mod earlier;
#[cfg(feature = "python")]
mod exception;
mod external;
pub mod head;
pub mod helpers;
#[cfg(feature = "llama")]
pub mod llama;
pub(crate) mod memory;
pub mod mlp;
mod ngrams;
pub mod open;
pub mod sampled;
pub mod toy;
mod trtllm;
pub mod verify;

pub use caps::{Caps, Copying, Info, Promise};
pub use drafter::{Ask, Drafter, Drafters};
pub use earlier::OutputGroup;
#[cfg(feature = "python")]
pub(crate) use external::install as install_external;
#[cfg(feature = "python")]
pub(crate) use trtllm::install as install_trtllm;

use crate::config::{Acceptance, DraftSource};
use crate::error::{Error, Result};
use crate::grammar::{Cursor, Grammar, Next};
use crate::sampler::Sampler;
use crate::types::{Refusal, Slot, Successors, Token, TokenLogprob};
use cost::Work;
use std::time::Duration;

/// Hears a line about what is being done while an engine is opened.
pub type Tell<'a> = &'a dyn Fn(String);

/// Tokens proposed ahead of the target, to be verified in one pass.
#[derive(Debug, Default)]
pub struct Draft {
    /// The proposed tokens, in order.
    pub tokens: Vec<Token>,
    /// Who proposed each of them.
    pub sources: Vec<DraftSource>,
    /// A source wants the hidden state that the round ends with.
    pub hidden: bool,
    /// How its tokens are accepted.
    pub acceptance: Acceptance,
    /// For acceptance by rejection: what each token was drawn from, as (token, probability). Empty, or missing at the
    /// end, for a token that was not drawn: all probability was its.
    pub probs: Vec<Vec<(Token, f32)>>,
    /// What the grammar lets come, as far as drafting has asked it, for the first positions after the job's tokens: up to one for each drafted
    /// token and one for what follows them. Verify reuses them.
    pub masks: Vec<Next>,
}

impl Draft {
    /// Adds what may come at the cursor, `width` tokens wide, behind the first `at` tokens, unless it is there.
    fn fill(&mut self, at: usize, cursor: &mut Cursor<'_>, width: usize) -> Result<()> {
        if self.masks.len() == at {
            self.masks.push(cursor.mask()?.widened(width));
        }
        Ok(())
    }

    /// Keeps the first `len` tokens, and what belongs to them.
    pub fn cut(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.sources.truncate(len);
        self.probs.truncate(self.tokens.len());
        self.masks.truncate(self.tokens.len() + 1);
    }
}

/// Log-probabilities of known tokens, wanted of a prompt chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The known tokens that follow the first, the second, … of the job's tokens.
    pub targets: Vec<Token>,
    /// Alternatives for each.
    pub top: u32,
}

/// One sequence's work for one step.
#[derive(Debug)]
pub struct Job {
    /// Where the sequence's KV lives.
    pub slot: Slot,
    /// KV tokens that the slot holds now; `tokens[0]` goes to this position.
    pub start: u32,
    /// Known tokens to compute: a prompt chunk, or the last token. Never empty.
    pub tokens: Vec<Token>,
    /// Whether a new token is wanted after the last of `tokens`; false for all but a prompt's last chunk.
    pub sample: bool,
    /// What is wanted of `tokens` themselves.
    pub score: Option<Score>,
    /// For a decision: the next token is asked for after each of the last `decides` tokens. 0 if `sample` or `score` is set.
    pub decides: u32,
    /// Proposed tokens after `tokens`; empty unless `sample`.
    pub draft: Draft,
    /// Tokens that the sequence may still generate, at least 1.
    pub budget: u32,
    /// The sampler: parameters and the counts that penalties need.
    pub sampler: Sampler,
    /// The committed grammar, if constrained.
    pub grammar: Option<Grammar>,
}

impl Job {
    /// Rows of logits that it needs.
    fn outputs(&self) -> usize {
        let known = if self.score.is_some() { self.tokens.len() } else { usize::from(self.sample) };
        known + self.decides as usize + self.draft.tokens.len()
    }
}

/// What a verified job gives back.
#[derive(Debug)]
pub struct Round {
    /// The job, with its sampler and grammar **as they were** before: commit is the sequence's.
    pub job: Job,
    /// KV tokens that the slot holds now: those of the job and of the accepted drafts.
    pub computed: u32,
    /// The accepted drafts and one more token (none more where the grammar ended); empty if `sample` was false, or where an
    /// engine that schedules by itself has nothing yet (`computed` is the job's `start` then).
    pub tokens: Vec<Token>,
    /// One entry per token of `tokens` where the sampler asks for it, else empty.
    pub logprobs: Vec<TokenLogprob>,
    /// One entry for each target of the job's score.
    pub scores: Vec<TokenLogprob>,
    /// One entry for each token that [`Job::decides`] counts.
    pub successors: Vec<Successors>,
    /// The target's last hidden state at the last accepted position, where a drafter asked for it.
    pub hidden: Option<Vec<f32>>,
    /// What the target's head reads of each token that was computed and is kept; empty where it has none.
    pub features: Vec<f32>,
    /// Set where the grammar allows nothing but the end after `tokens`.
    pub ended: bool,
    /// Of an engine that drafts by itself: tokens that it has drafted since the last round, and those that it accepted.
    pub speculated: (u32, u32),
    /// Why the first drafted token that was not accepted was refused; None where there is no such token, or where
    /// verifying failed.
    pub refusal: Option<Refusal>,
    /// A draw was not taken because the output could not have been completed behind it.
    pub shortened: bool,
    /// What failed behind `tokens`: the sequence ends with it, and its slot may hold more than `computed` tokens.
    pub failure: Option<Error>,
    /// Prompt tokens whose KV an engine that keeps prompts by itself reused, where it has told so by now.
    pub reused: Option<u32>,
    /// Time spent on masks.
    pub mask_time: Duration,
}

impl Round {
    /// Drafted tokens that it kept: an engine that draws by itself may have gone on without a draft.
    pub fn accepted(&self) -> u32 {
        let kept = (self.computed - self.job.start).saturating_sub(self.job.tokens.len() as u32);
        kept.min(self.job.draft.tokens.len() as u32)
    }

    /// A round of an engine that schedules by itself and has nothing yet: the job comes again in the next step.
    #[cfg(feature = "python")]
    fn waiting(job: Job) -> Self {
        Round { computed: job.start, ..Round::new(job) }
    }

    /// Whether nothing has come of its job.
    pub fn waits(&self) -> bool {
        self.computed == self.job.start
    }

    /// A round without new tokens, in which those that the job knows are computed.
    fn new(job: Job) -> Self {
        Round {
            computed: job.start + job.tokens.len() as u32,
            job,
            tokens: Vec::new(),
            logprobs: Vec::new(),
            scores: Vec::new(),
            successors: Vec::new(),
            hidden: None,
            features: Vec::new(),
            ended: false,
            speculated: (0, 0),
            refusal: None,
            shortened: false,
            failure: None,
            reused: None,
            mask_time: Duration::ZERO,
        }
    }
}

/// The whole executor's failure: every running sequence ends.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct ExecError(pub String);

/// A verified job, or why one sequence failed: its job is lost then, the scheduler ends it and releases the slot.
pub type Outcome = Result<Box<Round>>;

/// What a target did in a step.
#[derive(Debug, Default)]
pub struct Done {
    /// The outcome of each job, by its slot, in any order.
    pub outcomes: Vec<(Slot, Outcome)>,
    /// The passes that it took: what each computed, and the time from its start until its outcomes were there.
    pub passes: Vec<(Work, Duration)>,
}

/// The memory of KV that takes pages as they are written, in tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct KvMemory {
    /// Tokens for which pages are held, those of kept prefixes and refused drafts included.
    pub resident: u64,
    /// Tokens whose pages were returned to the system since the start.
    pub returned: u64,
}

/// The KV of an engine, in slots.
pub trait Kv {
    /// Keeps the first `keep` KV tokens of a slot, no fewer than [`Kv::floor`]; 0 empties it.
    ///
    /// # Errors
    /// Where the whole executor failed.
    fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError>;
    /// Makes `to` hold the first `len` KV tokens of `from`, no fewer than its [`Kv::floor`]. `to` must be empty and differ.
    ///
    /// # Errors
    /// Where the whole executor failed.
    fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError>;
    /// Fewest tokens, besides none, that the slot can be cut to: what is needed behind fewer may be gone.
    fn floor(&self, _slot: Slot) -> u32 {
        0
    }
    /// Returns a slot's KV as bytes that [`Kv::restore`] reads; None where the engine cannot save it.
    fn save(&mut self, _slot: Slot) -> Option<Vec<u8>> {
        None
    }
    /// Puts saved KV into an empty slot; false leaves the slot empty.
    fn restore(&mut self, _slot: Slot, _kv: &[u8]) -> bool {
        false
    }
    /// Whether the machine has so little memory left that what is kept should go. Asked often, and looks up rarely.
    fn short_of_memory(&mut self) -> bool {
        false
    }
    /// What memory the KV takes; all zeros where all of it is allocated at the start.
    fn memory(&self) -> KvMemory {
        KvMemory::default()
    }
    /// Rows of each pass that runs of these slots and tokens, by rising slots, would take.
    fn passes(&self, runs: &[(Slot, u32)]) -> Vec<u32> {
        one_pass(runs)
    }
}

/// The rows where all runs of a step share one pass.
pub(crate) fn one_pass(runs: &[(Slot, u32)]) -> Vec<u32> {
    vec![runs.iter().map(|(_, tokens)| tokens).sum()]
}

/// An engine as the scheduler sees it.
pub trait Target: Send {
    /// Constant facts.
    fn caps(&self) -> &Caps;
    /// Its KV.
    fn kv(&self) -> &dyn Kv;
    /// Its KV, to be changed between steps.
    fn kv_mut(&mut self) -> &mut dyn Kv;
    /// Does these jobs, at most one for each slot.
    ///
    /// # Errors
    /// Only for a failure of the whole executor; [`Target::reset`] is next.
    fn run(&mut self, jobs: Vec<Job>) -> Result<Done, ExecError>;
    /// After a failure: empties all slots.
    ///
    /// # Errors
    /// Where that fails, too: nothing that the engine holds can be trusted.
    fn reset(&mut self) -> Result<(), ExecError> {
        (0..self.caps().slots).try_for_each(|slot| self.kv_mut().truncate(Slot(slot), 0))
    }
}

/// One slot's piece of a forward pass.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The slot.
    pub slot: Slot,
    /// Position of `tokens[0]`; equals the KV tokens the slot holds.
    pub start: u32,
    /// Tokens to compute, never empty.
    pub tokens: &'a [Token],
    /// Logits are wanted for the last `outputs` of `tokens` (0..=len).
    pub outputs: u32,
    /// Hidden states are wanted for the same rows.
    pub hidden: bool,
}

/// Borrowed result of a forward pass.
#[derive(Debug, Default)]
pub struct Rows<'a> {
    /// One row of `n_vocab` raw logits for each wanted output, in the order of the runs.
    pub logits: Vec<&'a [f32]>,
    /// One hidden state per wanted output of the runs that asked; empty if none did.
    pub hidden: Vec<&'a [f32]>,
    /// As many numbers of each token of all runs, for the engine's head; empty where it has none.
    pub features: &'a [f32],
}

/// An engine that hands out logits.
pub trait Forward: Kv + Send {
    /// Constant facts.
    fn caps(&self) -> &Caps;
    /// Computes the runs (at most one per slot, sorted by slot, within `max_step_tokens`); KV grows by each run's
    /// tokens. On an error no slot's KV has grown.
    ///
    /// # Errors
    /// Where the whole executor failed.
    fn forward(&mut self, runs: &[Run<'_>]) -> Result<Rows<'_>, ExecError>;
    /// How long the last step took, if the engine simulates time. Otherwise it is measured.
    fn took(&self) -> Option<Duration> {
        None
    }
}
