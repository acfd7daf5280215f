//! The target's executor as a [`Target`].

use super::drawn::{Drawn, round_of};
use super::interface::{Answer, Executor, Finish, Told};
use super::orders::{Abilities, Order};
use super::walk::Walk;
use crate::config::Acceptance;
use crate::error::Error;
use crate::exec::cost::Work;
use crate::exec::{Caps, Done, ExecError, Job, Kv, Outcome, Round, Target};
use crate::grammar::Grammar;
use crate::types::{Slot, Token};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A draft model's logits on their way to the target: by slot, the tokens that were drawn, and what from.
pub(super) type Logits = Arc<Mutex<HashMap<Slot, (Vec<Token>, Py<PyAny>)>>>;

/// A request that is with the executor.
struct Flight {
    slot: Slot,
    /// It stays in flight from round to round.
    streams: bool,
    /// Whose tokens it draws; None between the rounds of one that streams.
    job: Option<Job>,
    /// Since the job began.
    begun: Instant,
    /// Tokens of its text: those that were sent, and those that were given to jobs.
    known: usize,
    /// Drawn and not yet given to a job.
    tokens: Vec<Token>,
    logprobs: Vec<f32>,
    finish: Option<Finish>,
    /// Blocks of KV that it found, where it began with the choice's prompt.
    reused: Option<u32>,
    failed: Option<Error>,
    /// It has given tokens to jobs.
    gave: bool,
}

/// TensorRT-LLM with the model that decides.
pub(super) struct TrtTarget {
    caps: Caps,
    executor: Executor,
    abilities: Abilities,
    /// Most draft tokens of a request.
    most: usize,
    /// Tokens drafted ahead where the request says nothing; 0 = there is no speculation.
    drafts: u32,
    /// Tokens of a block of KV.
    block: u32,
    logits: Logits,
    /// By slot: the text that the scheduler takes for computed.
    texts: Vec<Vec<Token>>,
    flights: HashMap<u64, Flight>,
    /// By slot.
    current: Vec<Option<u64>>,
    /// Of the step at hand.
    done: Done,
    /// The executor has ended, and takes no more requests.
    broken: bool,
}

/// What a target is made of beside its executor.
pub(super) struct Parts {
    pub(super) caps: Caps,
    pub(super) abilities: Abilities,
    pub(super) most: usize,
    pub(super) drafts: u32,
    pub(super) block: u32,
    pub(super) logits: Logits,
}

impl TrtTarget {
    pub(super) fn new(executor: Executor, parts: Parts) -> Self {
        let Parts { caps, abilities, most, drafts, block, logits } = parts;
        let slots = caps.slots as usize;
        TrtTarget {
            caps,
            executor,
            abilities,
            most,
            drafts,
            block,
            logits,
            texts: vec![Vec::new(); slots],
            flights: HashMap::new(),
            current: vec![None; slots],
            done: Done::default(),
            broken: false,
        }
    }

    fn begin(&mut self, job: Job) -> Result<(), ExecError> {
        let text = &mut self.texts[job.slot.index()];
        if text.len() != job.start as usize {
            return Err(ExecError(format!(
                "slot {} holds {} tokens, a job starts at {}. This is a bug.",
                job.slot.0,
                text.len(),
                job.start
            )));
        }
        text.extend(&job.tokens);
        if !job.sample {
            // The executor computes prompts whole, in chunks of its own.
            let round = round_of(job, Vec::new(), Duration::ZERO);
            self.tell(round.job.slot, Ok(Box::new(round)));
            return Ok(());
        }
        if let Some(id) = self.current[job.slot.index()] {
            let flight = self.flights.get_mut(&id).expect("what is current is in flight. This is a bug.");
            if flight.streams && flight.known == text.len() && job.draft.tokens.is_empty() {
                (flight.job, flight.begun) = (Some(job), Instant::now());
                self.settle(id);
                return Ok(());
            }
            self.drop_flight(id);
        }
        self.fly(job);
        Ok(())
    }

    /// Hands a request in for a job.
    fn fly(&mut self, mut job: Job) {
        let slot = job.slot;
        let walk = self.walk(&mut job);
        let (walk, streams) = match walk {
            Ok(Some(walk)) => walk,
            Ok(None) => {
                let round = Round { ended: true, ..round_of(job, Vec::new(), Duration::ZERO) };
                return self.tell(slot, Ok(Box::new(round)));
            }
            Err(error) => return self.tell(slot, Err(error)),
        };
        let text = self.texts[slot.index()].clone();
        let known = text.len();
        let most = if streams { job.budget } else { job.budget.min(walk.draft.len() as u32 + 1) };
        let mut order = Order::new(&job.sampler, &walk, (text, most), self.abilities);
        order.streaming = true;
        // Later rounds find the KV of earlier ones.
        order.return_perf_metrics = known == job.sampler.request().spec().prompt.len();
        let logits = if walk.draft.is_empty() { None } else { self.draft_logits(&job) };
        match self.executor.enqueue(order, logits, walk) {
            Err(error) => self.tell(slot, Err(error)),
            Ok(number) => {
                self.current[slot.index()] = Some(number);
                let flight = Flight {
                    slot,
                    streams,
                    job: Some(job),
                    begun: Instant::now(),
                    known,
                    tokens: Vec::new(),
                    logprobs: Vec::new(),
                    finish: None,
                    reused: None,
                    failed: None,
                    gave: false,
                };
                self.flights.insert(number, flight);
            }
        }
    }

    /// The masks of a job's request, and whether it streams; None where nothing but the end may follow.
    fn walk(&self, job: &mut Job) -> Result<Option<(Walk, bool)>, Error> {
        job.draft.cut(self.most);
        let streams = job.sampler.request().spec().speculative.most(self.drafts) == 0;
        let mut walk = Walk::new(&job.sampler, self.texts[job.slot.index()].len());
        if let Some(grammar) = &mut job.grammar {
            if job.draft.masks.is_empty() {
                job.draft.masks.push(grammar.mask()?);
            }
            if walk.rules.is_end(&job.draft.masks[0]) {
                return Ok(None);
            }
        }
        walk.runs_on = streams;
        walk.draft.clone_from(&job.draft.tokens);
        walk.known = std::mem::take(&mut job.draft.masks);
        walk.grammar = match streams {
            true => job.grammar.as_ref().map(Grammar::fork),
            false => job.grammar.take(),
        };
        Ok(Some((walk, streams)))
    }

    /// What the draft model drew the whole draft from, where that is to decide.
    fn draft_logits(&self, job: &Job) -> Option<Py<PyAny>> {
        let (tokens, logits) =
            self.logits.lock().unwrap_or_else(PoisonError::into_inner).remove(&job.slot)?;
        let theirs = job.draft.acceptance == Acceptance::Rejection && tokens.starts_with(&job.draft.tokens);
        theirs.then_some(logits)
    }

    fn hear(&mut self, told: Told) -> Result<(), ExecError> {
        let id = match told {
            Told::Broken(why) => {
                self.broken = true;
                return Err(ExecError(why));
            }
            Told::Failed(id, error) => {
                // Late: nobody waits for it any more.
                let Some(flight) = self.flights.get_mut(&id) else { return Ok(()) };
                flight.failed.get_or_insert(error);
                id
            }
            Told::Answer(Answer { id, tokens, logprobs, finish, reused, .. }) => {
                let Some(flight) = self.flights.get_mut(&id) else { return Ok(()) };
                flight.tokens.extend(tokens);
                flight.logprobs.extend(logprobs);
                flight.finish = flight.finish.or(finish);
                flight.reused = reused;
                id
            }
        };
        self.settle(id);
        Ok(())
    }

    /// Ends the job of a flight if what it waits for is there.
    fn settle(&mut self, id: u64) {
        let Some(flight) = self.flights.get_mut(&id) else { return };
        let over = flight.finish.is_some() || flight.failed.is_some();
        if flight.job.is_none() || !(over || flight.streams && !flight.tokens.is_empty()) {
            return;
        }
        let job = flight.job.take().expect("seen above. This is a bug.");
        let (slot, began) = (flight.slot, flight.begun);
        if let Some(error) = flight.failed.take() {
            self.drop_flight(id);
            return self.tell(slot, Err(error));
        }
        if flight.gave && flight.tokens.is_empty() && flight.finish == Some(Finish::Length) {
            // An older release ends requests early on an engine that takes draft tokens.
            self.land(id);
            return self.fly(job);
        }
        flight.gave = true;
        let drawn = Drawn {
            tokens: std::mem::take(&mut flight.tokens),
            logprobs: std::mem::take(&mut flight.logprobs),
            finish: flight.finish,
            reused: flight.reused.map(|blocks| blocks * self.block),
        };
        let walk = if over { self.land(id) } else { None };
        let outcome = drawn.outcome(job, walk);
        if let Ok(round) = &outcome {
            let text = &mut self.texts[slot.index()];
            text.extend(&round.tokens[..(round.computed as usize) - text.len()]);
            if let Some(flight) = self.flights.get_mut(&id) {
                flight.known = text.len() + 1;
            }
            self.learn(round, began);
        }
        self.tell(slot, outcome);
    }

    /// A request took so long; the executor does not tell of its passes.
    fn learn(&mut self, round: &Round, began: Instant) {
        let drafted = round.job.draft.tokens.len() as u32;
        let work =
            Work::of_jobs([(&round.job, drafted)].into_iter(), &[round.job.tokens.len() as u32 + drafted]);
        self.done.passes.push((work, began.elapsed()));
    }

    fn tell(&mut self, slot: Slot, outcome: Outcome) {
        self.done.outcomes.push((slot, outcome));
    }

    /// Forgets a flight that has ended; what its masks came from.
    fn land(&mut self, id: u64) -> Option<Arc<Mutex<Walk>>> {
        if let Some(flight) = self.flights.remove(&id) {
            self.current[flight.slot.index()].take_if(|current| *current == id);
        }
        self.executor.finish(id)
    }

    /// Forgets a flight and ends its request.
    fn drop_flight(&mut self, id: u64) {
        self.executor.cancel(id);
        self.land(id);
    }

    fn leave(&mut self, slot: Slot) {
        if let Some(id) = self.current[slot.index()] {
            self.drop_flight(id);
        }
    }
}

impl Target for TrtTarget {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn run(&mut self, jobs: Vec<Job>) -> Result<Done, ExecError> {
        jobs.into_iter().try_for_each(|job| self.begin(job))?;
        loop {
            let waits = self.flights.values().any(|flight| flight.job.is_some());
            let told = if waits { Some(self.executor.told()?) } else { self.executor.told_already() };
            let Some(told) = told else { return Ok(std::mem::take(&mut self.done)) };
            self.hear(told)?;
        }
    }

    fn kv(&self) -> &dyn Kv {
        self
    }

    fn kv_mut(&mut self) -> &mut dyn Kv {
        self
    }

    fn reset(&mut self) -> Result<(), ExecError> {
        for id in self.flights.keys().copied().collect::<Vec<_>>() {
            self.drop_flight(id);
        }
        while self.executor.told_already().is_some() {}
        self.done = Done::default();
        self.texts.iter_mut().for_each(Vec::clear);
        if self.broken { Err(ExecError("the executor has ended".into())) } else { Ok(()) }
    }
}

impl Kv for TrtTarget {
    fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        self.leave(slot);
        self.texts[slot.index()].truncate(keep as usize);
        Ok(())
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        self.texts[to.index()] = self.texts[from.index()][..len as usize].to_vec();
        Ok(())
    }
}
