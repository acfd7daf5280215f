//! One running choice: what is known of it, what is computed of it, and how a round is committed.
//!
//! A sequence knows `tokens` (prompt and output) and has KV for the first `computed` of them; `computed <= known`
//! always. Closing that gap is all that a step does: prompt, prompt chunk, last token and recomputation after a
//! preemption are the same thing.

use crate::config::{self, DraftSource};
use crate::error::{Error, Result};
use crate::exec::{Draft, Job, Round};
use crate::grammar::Grammar;
use crate::request::Request;
use crate::sampler::Sampler;
use crate::text::TextOut;
use crate::types::{Drafted, End, Event, FinishReason, RequestId, Slot, Token, TokenLogprob, Usage};
use crate::vocab::Vocab;
use std::sync::Arc;
use std::time::Instant;

/// A decision whether a draft model that is far behind shall catch up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// It shall.
    pub asked: bool,
    /// Sequences that decoded then.
    pub beside: usize,
}

impl Late {
    /// Whether it holds where so many sequences decode: what does not pay for many may pay for fewer.
    pub fn stands(self, sequences: usize) -> bool {
        self.asked || sequences * 4 > self.beside * 3
    }
}

/// One choice of one request.
pub struct Sequence {
    /// The request it belongs to.
    pub request: RequestId,
    /// Index of the choice.
    pub choice: u32,
    /// When the request arrived.
    pub arrival: Instant,
    /// When its last token was emitted.
    pub last_token: Option<Instant>,
    /// Admission number: lower is older.
    pub age: u64,
    /// Prompt tokens whose KV came from an earlier request.
    pub cached: u32,
    /// The slot it holds while it runs.
    pub slot: Option<Slot>,
    /// How its drafts have fared, by the way through the sources.
    pub acceptance: Vec<Acceptance>,
    /// What became of its drafts, by the number of their source.
    pub drafts: [Drafted; DraftSource::ALL.len()],
    /// Whether a draft model that is far behind shall catch up; None where that is not decided yet.
    pub late_sources: Option<Late>,
    /// A job of it is with the executor.
    pub in_flight: bool,
    /// The client is gone; it ends when its job comes back.
    pub cancelled: bool,
    spec: Arc<Request>,
    vocab: Arc<Vocab>,
    tokens: Vec<Token>,
    computed: u32,
    /// Moved into the job while in flight.
    sampler: Option<Sampler>,
    grammar: Option<Grammar>,
    text: TextOut,
}

impl Sequence {
    /// A sequence that has computed nothing. `seed` stands in where the request has none.
    pub fn new(
        id: (RequestId, u32),
        spec: Arc<Request>,
        vocab: Arc<Vocab>,
        seed: u64,
        arrival: Instant,
    ) -> Self {
        let sampler = Sampler::new(&spec, id.1, seed, vocab.clone());
        let text = TextOut::new(vocab.clone(), &spec.spec().stop);
        Sequence {
            request: id.0,
            choice: id.1,
            arrival,
            last_token: None,
            age: 0,
            cached: 0,
            slot: None,
            acceptance: Vec::new(),
            drafts: Default::default(),
            late_sources: None,
            in_flight: false,
            cancelled: false,
            tokens: spec.spec().prompt.clone(),
            spec,
            vocab,
            computed: 0,
            sampler: Some(sampler),
            grammar: None,
            text,
        }
    }

    /// Gives it its constraint, at the beginning.
    pub fn constrain(&mut self, grammar: Option<Grammar>) {
        self.grammar = grammar;
    }

    /// All known tokens: prompt, then output.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Tokens whose KV the slot holds.
    pub fn computed(&self) -> u32 {
        self.computed
    }

    /// Known tokens without KV; at least 1 for a sequence that runs.
    pub fn gap(&self) -> u32 {
        self.known() - self.computed
    }

    /// Number of known tokens.
    pub fn known(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// Tokens that it may come to hold: prompt and all of max_tokens.
    pub fn most(&self) -> u32 {
        self.prompt_len() + self.spec.max_tokens()
    }

    /// Most tokens that it is worth drafting ahead, where the server drafts up to `most`: the last of max_tokens comes
    /// with them.
    pub fn draft_len(&self, most: u32) -> u32 {
        let left = self.spec.max_tokens() - self.generated();
        self.spec.spec().speculative.most(most).min(left.saturating_sub(1))
    }

    /// Whether it lets `source` draft for it, and that is worth while.
    pub fn allows(&self, source: DraftSource) -> bool {
        let ready = match source {
            DraftSource::DraftModel => self.late_sources.is_some_and(|late| late.asked),
            DraftSource::Prediction => !self.prediction().is_empty(),
            DraftSource::Forced | DraftSource::PromptLookup | DraftSource::MlpSpeculator => true,
        };
        ready && self.spec.spec().speculative.allows(source)
    }

    /// Learns how a draft by a way through the sources has fared; see [`Acceptance::learn`].
    pub fn learn(&mut self, way: usize, accepted: u32, stopped: bool) {
        self.acceptance.resize(self.acceptance.len().max(way + 1), Acceptance::default());
        self.acceptance[way].learn(accepted, stopped, Acceptance::OF_ONE);
    }

    /// How its drafts are accepted, if not as the server says.
    pub fn acceptance_mode(&self) -> Option<config::Acceptance> {
        self.spec.spec().speculative.acceptance
    }

    /// What the client expects as output; empty where it said nothing.
    pub fn prediction(&self) -> &[Token] {
        &self.spec.spec().prediction
    }

    /// Tokens of the prompt.
    pub fn prompt_len(&self) -> u32 {
        self.spec.spec().prompt.len() as u32
    }

    /// Output tokens so far, the end token excluded.
    pub fn generated(&self) -> u32 {
        self.known() - self.prompt_len()
    }

    /// Takes a slot that holds the first `computed` of its tokens.
    pub fn place(&mut self, slot: Slot, computed: u32) {
        assert!(computed < self.known(), "at least one token must be left to compute. This is a bug.");
        self.slot = Some(slot);
        self.computed = computed;
    }

    /// Gives its slot up.
    pub fn unplace(&mut self) -> Option<Slot> {
        self.computed = 0;
        self.late_sources = None;
        self.slot.take()
    }

    /// The work of one step: the first `count` tokens of the gap. Moves sampler and grammar out until [`commit`].
    ///
    /// [`commit`]: Sequence::commit
    pub fn job(&mut self, count: u32) -> Job {
        assert!(
            !self.in_flight && count >= 1 && count <= self.gap(),
            "job of {count} tokens. This is a bug."
        );
        let (start, end) = (self.computed as usize, (self.computed + count) as usize);
        self.in_flight = true;
        Job {
            slot: self.slot.expect("a running sequence has a slot. This is a bug."),
            start: self.computed,
            tokens: self.tokens[start..end].to_vec(),
            sample: end == self.tokens.len(),
            draft: Draft::default(),
            sampler: self.sampler.take().expect("the sampler is here unless in flight. This is a bug."),
            grammar: self.grammar.take(),
        }
    }

    /// Takes a round, token by token: an end token, stop string, grammar end or the last allowed token cuts it there.
    ///
    /// None if nothing is to be told (a prompt chunk).
    ///
    /// # Errors
    /// Where the grammar refuses a token that its mask allowed.
    pub fn commit(&mut self, round: Round) -> Result<Option<Event>> {
        let sampled = round.job.sample;
        self.in_flight = false;
        self.sampler = Some(round.job.sampler);
        self.grammar = round.job.grammar;
        self.computed = round.computed;
        if !sampled {
            return Ok(None);
        }
        let mut event = self.event();
        let mut logprobs = round.logprobs.into_iter();
        for token in round.tokens {
            let end = match self.take(token, logprobs.next(), &mut event) {
                // What was drawn before it is told, as it is where each token has a round of its own.
                Err(error) if !event.tokens.is_empty() => {
                    event.end = Some(End::Failed(error));
                    return Ok(Some(event));
                }
                taken => taken?,
            };
            if end.is_some() {
                self.finish(&mut event, end);
                return Ok(Some(event));
            }
        }
        let over = self.grammar.as_ref().is_some_and(Grammar::is_ended);
        let end = if round.ended || over { Some(FinishReason::Stop) } else { None };
        self.finish(&mut event, end);
        assert!(event.end.is_some() || self.computed < self.known(), "the gap is closed. This is a bug.");
        Ok(Some(event))
    }

    fn take(
        &mut self,
        token: Token,
        logprob: Option<TokenLogprob>,
        event: &mut Event,
    ) -> Result<Option<FinishReason>> {
        event.usage.completion += 1;
        if self.vocab.is_eog(token) {
            return Ok(Some(FinishReason::Stop));
        }
        if let Some(grammar) = &mut self.grammar {
            grammar.commit(token)?;
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.commit(token);
        }
        self.tokens.push(token);
        event.tokens.push(token);
        event.logprobs.extend(logprob);
        let pushed = self.text.push(token);
        event.text.push_str(&pushed.text);
        if pushed.stopped {
            return Ok(Some(FinishReason::Stop));
        }
        let over = self.grammar.as_ref().is_some_and(Grammar::is_ended);
        if self.generated() >= self.spec.max_tokens() {
            return Ok(Some(if over { FinishReason::Stop } else { FinishReason::Length }));
        }
        Ok(over.then_some(FinishReason::Stop))
    }

    fn finish(&mut self, event: &mut Event, end: Option<FinishReason>) {
        if let Some(reason) = end {
            event.text.push_str(&self.text.finish());
            event.end = Some(End::Finished(reason));
        }
    }

    /// An event without news; its counts are those of now.
    pub fn event(&self) -> Event {
        Event {
            request: self.request,
            choice: self.choice,
            text: String::new(),
            tokens: Vec::new(),
            logprobs: Vec::new(),
            usage: Usage {
                prompt: self.prompt_len(),
                cached: self.cached,
                completion: self.generated(),
                drafts: self.drafts,
            },
            end: None,
        }
    }

    /// The last event of a sequence that ends by an error or a cancellation.
    pub fn last_event(&self, end: Result<FinishReason, Error>) -> Event {
        let end = match end {
            Ok(reason) => End::Finished(reason),
            Err(error) => End::Failed(error),
        };
        Event { end: Some(end), ..self.event() }
    }
}

/// Probabilities that drafted tokens are accepted; forced ones don't count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Odds {
    /// That the first token is drafted at all, and accepted.
    pub first: f64,
    /// That one more is, after an accepted one.
    pub next: f64,
}

impl Odds {
    /// Expected where nothing is known at all.
    pub const UNKNOWN: Odds = Odds { first: 0.7, next: 0.7 };
}

/// How often drafted tokens are accepted, of one sequence or of all; forced ones don't count. Sums in which each round
/// weighs less than the next.
#[derive(Debug, Clone, Copy, Default)]
pub struct Acceptance {
    rounds: f64,
    first: f64,
    next: f64,
    stopped: f64,
}

/// What is this much below the expected is so by chance.
const CHANCE: f64 = 0.75;

/// Adds to a sum of which `memory` is left.
pub fn fade(sum: &mut f64, memory: f64, new: f64) {
    *sum = *sum * memory + new;
}

impl Acceptance {
    /// What is remembered of one sequence: about twenty rounds.
    pub const OF_ONE: f64 = 0.95;
    /// What is remembered over all sequences: about a hundred.
    pub const OF_ALL: f64 = 0.99;
    /// What is left of it when one more token was generated without a draft: what was refused some sentences before says
    /// little of what comes.
    const WITHOUT: f64 = 0.98;
    /// Rounds, and tokens beyond a round's first, that what is expected of a sequence weighs as much as: its first refusal,
    /// of whose next tokens as many would be accepted as ever, should not end its drafts. Sequences differ in whether
    /// something is found at all, and less in how far that reaches.
    pub const LIKE_ALL: [f64; 2] = [3.5, 15.0];
    /// The same for what is expected where nothing is known at all.
    pub const GUESSED: [f64; 2] = [1.5, 1.5];

    /// Takes a round in which `accepted` tokens were kept; `stopped`: the draft reached further, or ended before it
    /// should have. `memory`: what is left of earlier rounds.
    pub fn learn(&mut self, accepted: u32, stopped: bool, memory: f64) {
        fade(&mut self.rounds, memory, 1.0);
        fade(&mut self.first, memory, f64::from(accepted.min(1)));
        if accepted > 0 {
            fade(&mut self.next, memory, f64::from(accepted - 1));
            fade(&mut self.stopped, memory, f64::from(u8::from(stopped)));
        }
    }

    /// Takes a round of one token without a draft.
    pub fn idle(&mut self) {
        for sum in [&mut self.rounds, &mut self.first, &mut self.next, &mut self.stopped] {
            fade(sum, Acceptance::WITHOUT, 0.0);
        }
    }

    /// What is likely, where `expected` was before anything was learned, and weighs as much as so many rounds and tokens.
    pub fn odds(&self, expected: Odds, [rounds, tokens]: [f64; 2]) -> Odds {
        let part = |yes: f64, no: f64, (expected, weight): (f64, f64)| {
            let rate = (yes + weight * expected) / (yes + no + weight);
            // Nothing is certain.
            rate.clamp(0.0, 0.98)
        };
        let first = part(self.first, self.rounds - self.first, (expected.first, rounds));
        // Whoever is worse than expected at the first token is likely to be at the others.
        let next = expected.next * (first / (CHANCE * expected.first.max(1e-9))).min(1.0);
        Odds { first, next: part(self.next, self.stopped, (next, tokens)) }
    }
}
