//! An engine that schedules by itself, as the scheduler sees it.

use super::interface::{Answer, Engine, Report};
use super::request::{EngineRequest, RequestOptions};
use crate::error::Error;
use crate::exec::cost::Work;
use crate::exec::{Caps, Done, ExecError, Job, Kv, Outcome, Round, Target};
use crate::grammar::{Cursor, Grammar};
use crate::types::{Slot, Token, TokenLogprob};
use std::collections::HashMap;
use std::time::Instant;

/// A request of the engine, which serves one sequence.
#[derive(Default)]
struct InFlight {
    id: u64,
    /// Tokens of the sequence that have a round behind them.
    computed: u32,
    /// What waits for the sequence's next round.
    tokens: Vec<Token>,
    logprobs: Vec<TokenLogprob>,
    /// They complete the output, and wait for the engine's last answer.
    held: bool,
    scores: Vec<TokenLogprob>,
    /// The engine has ended the output: "stop" or "length".
    finish: Option<String>,
    failed: Option<Error>,
    cached: Option<u32>,
    drafted: (u32, u32),
}

/// What a slot is used for.
#[derive(Default)]
struct Place {
    /// Prompt tokens of earlier jobs, which wait for those behind them.
    prompt: Vec<Token>,
    flight: Option<InFlight>,
}

/// Turns jobs into requests, and what comes back into rounds.
pub(super) struct ExternalTarget<E> {
    engine: E,
    /// The engine's name, for messages.
    name: &'static str,
    options: RequestOptions,
    caps: Caps,
    places: Vec<Place>,
    /// The slots of requests that have not ended.
    slots: HashMap<u64, Slot>,
    next: u64,
    /// The engine has ended, and takes no more requests.
    broken: bool,
}

impl<E: Engine> ExternalTarget<E> {
    pub(super) fn new(engine: E, name: &'static str, options: RequestOptions, caps: Caps) -> Self {
        let places = (0..caps.slots).map(|_| Place::default()).collect();
        ExternalTarget { engine, name, options, caps, places, slots: HashMap::new(), next: 0, broken: false }
    }

    /// Submits a sequence's request with its first job that needs a new token.
    fn begin(&mut self, job: &Job) -> Result<(), ExecError> {
        let place = &mut self.places[job.slot.index()];
        let known = place.flight.as_ref().map_or(place.prompt.len() as u32, |flight| flight.computed);
        if known != job.start {
            return Err(ExecError(format!(
                "slot {} has {known} tokens, a job starts at {}. This is a bug.",
                job.slot.0, job.start
            )));
        }
        if place.flight.is_some() {
            return Ok(());
        }
        place.prompt.extend(&job.tokens);
        if job.sample {
            self.submit(job);
        }
        Ok(())
    }

    fn submit(&mut self, job: &Job) {
        self.next += 1;
        let place = &mut self.places[job.slot.index()];
        let prompt = std::mem::take(&mut place.prompt);
        let request = EngineRequest::new(self.next, job, prompt, self.options);
        let failed = request.and_then(|request| self.engine.submit(request)).err();
        if failed.is_none() {
            self.slots.insert(self.next, job.slot);
        }
        place.flight = Some(InFlight { id: self.next, computed: job.start, failed, ..InFlight::default() });
    }

    /// Takes all that the engine has reported and nobody has read.
    ///
    /// # Errors
    /// Where the engine has ended.
    fn take_ready(&mut self) -> Result<(), ExecError> {
        while let Some(report) = self.engine.ready() {
            self.take(report)?;
        }
        Ok(())
    }

    /// # Errors
    /// Where the engine has ended.
    fn take(&mut self, report: Report) -> Result<(), ExecError> {
        let answer = match report {
            Report::Answer(answer) => answer,
            Report::Broken(why) => {
                self.broken = true;
                return Err(ExecError(format!("{}: {why}", self.name)));
            }
        };
        // Late: nobody waits for it any more.
        let Some(slot) = self.slots.get(&answer.id).copied() else { return Ok(()) };
        if answer.finish.is_some() || answer.error.is_some() {
            self.slots.remove(&answer.id);
        }
        if let Some(flight) = &mut self.places[slot.index()].flight {
            flight.take(answer, self.name);
        }
        Ok(())
    }

    /// A job's outcome: what has come for it, which may be nothing.
    fn outcome(&mut self, mut job: Job) -> Outcome {
        let Some(flight) = &mut self.places[job.slot.index()].flight else {
            return Ok(Box::new(Round::new(job)));
        };
        // A constraint may end before the engine has ended the output, with which the count of its drafts comes.
        flight.held = self.options.counted && flight.goes_on() && flight.completes(&mut job)?;
        if flight.waits() {
            return Ok(Box::new(Round::waiting(job)));
        }
        // Tokens that came before a failure go first.
        if flight.tokens.is_empty()
            && let Some(error) = flight.failed.take()
        {
            return Err(error);
        }
        let ended = flight.end(&mut job, self.name)?;
        let tokens = std::mem::take(&mut flight.tokens);
        let round = Round {
            logprobs: std::mem::take(&mut flight.logprobs),
            scores: std::mem::take(&mut flight.scores),
            reused: flight.cached,
            speculated: std::mem::take(&mut flight.drafted),
            ended,
            ..Round::new(job)
        };
        flight.computed = round.computed + tokens.len().saturating_sub(1) as u32;
        Ok(Box::new(Round { computed: flight.computed, tokens, ..round }))
    }

    fn leave(&mut self, slot: Slot) {
        let place = std::mem::take(&mut self.places[slot.index()]);
        if let Some(flight) = place.flight
            && self.slots.remove(&flight.id).is_some()
        {
            self.engine.cancel(flight.id);
        }
    }
}

impl InFlight {
    fn goes_on(&self) -> bool {
        self.finish.is_none() && self.failed.is_none()
    }

    /// Whether the sequence has to wait for the engine's next answer.
    fn waits(&self) -> bool {
        self.goes_on() && (self.tokens.is_empty() || self.held)
    }

    /// Whether nothing may follow the new tokens.
    fn completes(&self, job: &mut Job) -> Result<bool, Error> {
        let Some(grammar) = job.grammar.as_mut().filter(|_| !self.tokens.is_empty()) else {
            return Ok(false);
        };
        Ok(behind(grammar, &self.tokens)?.is_ended())
    }

    fn take(&mut self, answer: Answer, name: &str) {
        self.logprobs.extend(answer.logprobs.into_iter().filter_map(logprob));
        self.scores.extend(answer.prompt_logprobs.into_iter().filter_map(logprob));
        self.tokens.extend(answer.tokens);
        self.cached = answer.cached.or(self.cached);
        self.finish = answer.finish;
        self.failed = answer.error.map(|why| Error::Executor(format!("{name}: {why}")));
        self.drafted = (self.drafted.0 + answer.drafted.0, self.drafted.1 + answer.drafted.1);
    }

    /// Puts the end token there where the engine leaves it out; true where the grammar asks for the end, which is no token
    /// then.
    ///
    /// # Errors
    /// Where the engine has ended an output that may not end there.
    fn end(&mut self, job: &mut Job, name: &str) -> Result<bool, Error> {
        let at = self.tokens.iter().position(|token| job.sampler.is_end(*token));
        if at.is_none() && self.finish.as_deref() != Some("stop") {
            return match (self.tokens.is_empty(), &self.finish) {
                (true, Some(reason)) => {
                    Err(Error::Executor(format!("{name} ended the output before it was complete ({reason})")))
                }
                _ => Ok(false),
            };
        }
        let ends = job.sampler.ends();
        let end = at.map_or(job.sampler.rules().end().unwrap_or(ends[0]), |at| self.tokens[at]);
        self.tokens.truncate(at.unwrap_or(self.tokens.len()));
        let rules = job.sampler.rules();
        if let Some(grammar) = &mut job.grammar {
            let mut cursor = behind(grammar, &self.tokens)?;
            if cursor.is_ended() {
                return Ok(true);
            }
            let next = cursor.mask()?;
            if rules.is_end(&next) {
                return Ok(true);
            }
            if !job.sampler.ends().iter().any(|end| next.allows(*end)) {
                let why = format!("{name} ended the output where its constraint does not let it end");
                return Err(Error::Executor(why));
            }
        }
        self.tokens.push(end);
        Ok(false)
    }
}

/// The grammar behind these tokens, or where it ends within them.
fn behind<'a>(grammar: &'a mut Grammar, tokens: &[Token]) -> Result<Cursor<'a>, Error> {
    let mut cursor = grammar.cursor();
    for token in tokens {
        if cursor.is_ended() {
            break;
        }
        cursor.push(*token)?;
    }
    Ok(cursor)
}

/// A token with its log-probability, followed by the likeliest ones.
fn logprob(all: Vec<(Token, f32)>) -> Option<TokenLogprob> {
    let ((token, logprob), top) = all.split_first()?;
    Some(TokenLogprob { token: *token, logprob: *logprob, top: top.to_vec(), allowed: None })
}

impl<E: Engine> Target for ExternalTarget<E> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn kv(&self) -> &dyn Kv {
        self
    }

    fn kv_mut(&mut self) -> &mut dyn Kv {
        self
    }

    fn run(&mut self, jobs: Vec<Job>) -> Result<Done, ExecError> {
        let began = Instant::now();
        jobs.iter().try_for_each(|job| self.begin(job))?;
        self.take_ready()?;
        // A prompt's earlier part is done at once.
        let waits = |job: &Job| self.places[job.slot.index()].flight.as_ref().is_some_and(InFlight::waits);
        if jobs.iter().all(waits) && !jobs.is_empty() {
            let report = self.engine.next()?;
            self.take(report)?;
            self.take_ready()?;
        }
        let work = Work::of_jobs(jobs.iter().map(|job| (job, 0)), &[jobs.len() as u32]);
        let outcomes = jobs.into_iter().map(|job| (job.slot, self.outcome(job))).collect();
        Ok(Done { outcomes, passes: vec![(work, began.elapsed())] })
    }

    fn reset(&mut self) -> Result<(), ExecError> {
        (0..self.caps.slots).for_each(|slot| self.leave(Slot(slot)));
        if self.broken { Err(ExecError(format!("{} has ended", self.name))) } else { Ok(()) }
    }
}

impl<E: Engine> Kv for ExternalTarget<E> {
    fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        if keep > 0 {
            return Err(ExecError("a request cannot go on from an earlier place. This is a bug.".into()));
        }
        self.leave(slot);
        Ok(())
    }

    fn copy(&mut self, _from: Slot, _to: Slot, _len: u32) -> Result<(), ExecError> {
        Err(ExecError("a request cannot be copied. This is a bug.".into()))
    }
}

#[cfg(test)]
mod tests;
