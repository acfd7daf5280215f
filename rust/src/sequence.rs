//! One running choice: what is known of it, what is computed of it, and how a round is committed.
//!
//! A sequence knows `tokens` (prompt and output) and has KV for the first `computed` of them; `computed <= known`
//! always. Closing that gap is all that a step does: prompt, prompt chunk, last token and recomputation after a
//! preemption are the same thing.

mod commit;
pub mod odds;

use crate::config::{self, DraftSource};
use crate::exec::{Draft, Job, OutputGroup, Score};
use crate::grammar::{Compiled, Grammar, GrammarSpec};
use crate::request::Request;
use crate::sampler::Sampler;
use crate::text::TextOut;
use crate::types::{Drafted, End, Event, RequestId, Slot, Token, Usage};
use crate::vocab::Vocab;
use odds::Acceptance;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a step asks for one sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planned {
    /// Tokens of the draft.
    pub length: u32,
    /// The model that was asked to reach this length; None, too, where it was late.
    pub model: Option<DraftSource>,
    /// What was found without a model, whether it was drafted or not.
    pub found: Vec<Token>,
    /// Who found each of these.
    pub sources: Vec<DraftSource>,
}

/// One choice of one request.
pub struct Sequence {
    /// The request it belongs to.
    pub request: RequestId,
    /// Index of the choice.
    pub choice: u32,
    /// When the request arrived.
    pub arrival: Instant,
    /// From there to its admission.
    pub queued: Duration,
    /// Of that, until its constraint was compiled.
    pub compiling: Duration,
    /// When its last token was emitted.
    pub last_token: Option<Instant>,
    /// Admission number: lower is older.
    pub age: u64,
    /// Prompt tokens whose KV came from an earlier request.
    pub cached: u32,
    /// The slot it holds while it runs.
    pub slot: Option<Slot>,
    /// When exactly so many tokens are computed, its slot is copied to be kept. Each comes with whether it is a part of the
    /// prompt that no other request is known to share. The next one is last.
    pub marks: Vec<(u32, bool)>,
    /// How its drafts have fared, by the number of their source.
    pub acceptance: [Acceptance; DraftSource::ALL.len()],
    /// The draft of the step at hand.
    pub planned: Planned,
    /// What became of its drafts, by the number of their source.
    pub drafts: [Drafted; DraftSource::ALL.len()],
    /// Whether a draft model that is far behind shall catch up, and the output's length when that was decided; None where it
    /// is not decided yet.
    pub catches_up: Option<(bool, u32)>,
    spec: Arc<Request>,
    vocab: Arc<Vocab>,
    /// The hash of its constraint, 0 for none.
    constraint: u64,
    tokens: Vec<Token>,
    computed: u32,
    /// Prompt tokens after the first whose log-probabilities were told.
    scored: u32,
    /// Number of [`Successors`](crate::types::Successors) that were sent.
    decided: u32,
    /// Moved into the job of a step until its outcome is there.
    sampler: Option<Sampler>,
    grammar: Option<Grammar>,
    /// Until its first job.
    compiled: Option<Compiled>,
    text: TextOut,
    /// Output tokens of reasoning.
    reasoning: u32,
    /// A draw was not taken because the output could not have been completed behind it.
    shortened: bool,
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
        let sampler = Sampler::new(spec.clone(), id.1, seed, vocab.clone());
        let text = TextOut::new(vocab.clone(), spec.spec());
        let constraint = spec.spec().grammar.as_ref().map_or(0, hash);
        let mut tokens = spec.spec().prompt.clone();
        if let Some(decide) = &spec.spec().decide {
            tokens.extend_from_slice(&decide.paths[id.1 as usize].tokens);
        }
        Sequence {
            request: id.0,
            choice: id.1,
            arrival,
            queued: arrival.elapsed(),
            compiling: Duration::ZERO,
            last_token: None,
            age: 0,
            cached: 0,
            slot: None,
            marks: Vec::new(),
            acceptance: Default::default(),
            planned: Planned::default(),
            drafts: Default::default(),
            catches_up: None,
            tokens,
            spec,
            vocab,
            constraint,
            computed: 0,
            scored: 0,
            decided: 0,
            sampler: Some(sampler),
            grammar: None,
            compiled: None,
            text,
            reasoning: 0,
            shortened: false,
        }
    }

    /// Gives it its constraint, which begins with its first job, and the time from its arrival until that was compiled.
    pub fn constrain(&mut self, compiled: Option<(Compiled, Duration)>) {
        if let Some((compiled, took)) = compiled {
            (self.compiled, self.compiling) = (Some(compiled), took);
        }
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

    /// Tokens of the gap before the next of its marks, or all.
    pub fn until_mark(&self) -> u32 {
        let next = self.marks.last().filter(|(mark, _)| *mark > self.computed);
        next.map_or(self.gap(), |(mark, _)| mark - self.computed)
    }

    /// Number of known tokens.
    pub fn known(&self) -> u32 {
        self.tokens.len() as u32
    }

    /// KV tokens that it holds once the next token is known.
    pub fn holds(&self) -> u32 {
        self.known() + 1
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
            DraftSource::DraftModel => self.catches_up.is_some_and(|(yes, _)| yes),
            DraftSource::Prediction => !self.prediction().is_empty(),
            _ => true,
        };
        ready && self.spec.spec().speculative.allows(source)
    }

    /// Whether it is told where each token came from.
    pub fn wants_origins(&self) -> bool {
        self.spec.spec().origins
    }

    /// How its drafts are accepted, if not as the server says.
    pub fn acceptance_mode(&self) -> Option<config::Acceptance> {
        self.spec.spec().speculative.acceptance
    }

    /// What the client expects as output; empty where it said nothing.
    pub fn prediction(&self) -> &[Token] {
        &self.spec.spec().prediction
    }

    /// Its client, and the number of its salt: whose KV it may share.
    pub fn scope(&self) -> (u64, u64) {
        let spec = self.spec.spec();
        (spec.client, spec.cache_salt)
    }

    /// From whose earlier outputs it may draft.
    pub fn group(&self) -> OutputGroup {
        let (client, salt) = self.scope();
        (client, salt, self.constraint)
    }

    /// How urgent it is: lower first.
    pub fn priority(&self) -> i64 {
        self.spec.spec().priority
    }

    /// Tokens of the prompt.
    pub fn prompt_len(&self) -> u32 {
        self.spec.spec().prompt.len() as u32
    }

    /// Output tokens so far, the end token excluded.
    pub fn generated(&self) -> u32 {
        self.known() - self.prompt_len()
    }

    /// Whether log-probabilities of prompt tokens are still to be told: until then the whole prompt is computed.
    pub fn scores(&self) -> bool {
        let wanted = self.choice == 0 && self.spec.spec().prompt_logprobs.is_some();
        wanted && self.scored + 1 < self.prompt_len()
    }

    /// Index of the first token after which a decision asks for the next token; None if this is no decision.
    fn decides_from(&self) -> Option<u32> {
        let decide = self.spec.spec().decide.as_ref()?;
        Some(self.prompt_len() + decide.paths[self.choice as usize].from - 1)
    }

    /// Whether it is a decision, which generates nothing.
    pub fn decides(&self) -> bool {
        self.spec.spec().decide.is_some()
    }

    /// The tokens whose KV may come from another sequence, and one more, which this sequence computes.
    pub fn shareable(&self) -> &[Token] {
        let end = self.decides_from().map_or(self.known(), |first| first + 1);
        &self.tokens[..end as usize]
    }

    /// How many of its next tokens fit into this many rows of logits.
    pub fn within(&self, rows: u32) -> u32 {
        match self.decides_from() {
            Some(first) => first.saturating_sub(self.computed).saturating_add(rows),
            None if self.scores() => rows,
            None => u32::MAX,
        }
    }

    /// How many rows of logits its next `count` tokens need, without the row for a new token.
    pub fn rows(&self, count: u32) -> u32 {
        match self.decides_from() {
            Some(first) => (self.computed + count).saturating_sub(first.max(self.computed)),
            None if self.scores() => count,
            None => 0,
        }
    }

    /// What a job for the known tokens from `start` to `end` is to tell of the prompt.
    fn score(&self, start: usize, end: usize) -> Option<Score> {
        let top = self.spec.spec().prompt_logprobs.filter(|_| self.scores())?;
        let last = (end + 1).min(self.prompt_len() as usize);
        Some(Score { targets: self.tokens.get(start + 1..last)?.to_vec(), top })
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
        self.catches_up = None;
        self.slot.take()
    }

    /// The work of one step: the first `count` tokens of the gap. Moves sampler and grammar out until [`commit`].
    ///
    /// [`commit`]: Sequence::commit
    pub fn job(&mut self, count: u32) -> Job {
        assert!(count >= 1 && count <= self.gap(), "job of {count} tokens. This is a bug.");
        let (start, end) = (self.computed as usize, (self.computed + count) as usize);
        self.planned = Planned::default();
        if let Some(compiled) = self.compiled.take() {
            self.grammar = Some(compiled.begin_for(self.scope()));
        }
        Job {
            slot: self.slot.expect("a running sequence has a slot. This is a bug."),
            start: self.computed,
            tokens: self.tokens[start..end].to_vec(),
            sample: end == self.tokens.len() && !self.decides(),
            score: self.score(start, end),
            decides: if self.decides() { self.rows(count) } else { 0 },
            draft: Draft::default(),
            budget: self.spec.max_tokens() - self.generated(),
            sampler: self.sampler.take().expect("the sampler is here between steps. This is a bug."),
            grammar: self.grammar.take(),
        }
    }

    /// An event without news; its counts are those of now.
    pub fn event(&self) -> Event {
        let usage = Usage {
            prompt: self.prompt_len(),
            cached: self.cached,
            queued: self.queued,
            compiling: self.compiling,
            completion: if self.decides() { 0 } else { self.generated() },
            reasoning: self.reasoning,
            shortened: self.shortened,
            drafts: self.drafts,
        };
        Event::silent(self.request, self.choice, usage)
    }

    /// The last event of a sequence that ends by an error or a cancellation.
    pub fn last_event(&self, end: End) -> Event {
        Event { end: Some(end), ..self.event() }
    }
}

/// A number that is the same for equal constraints.
fn hash(constraint: &GrammarSpec) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{constraint:?}").hash(&mut hasher);
    hasher.finish().max(1)
}
