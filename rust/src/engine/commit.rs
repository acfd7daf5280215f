//! What comes of the outcomes of jobs: tokens that are told, choices that end.

use super::Engine;
use super::waiting::Arrival;
use crate::config::DraftSource;
use crate::error::{Error, panic_text};
use crate::exec::{Outcome, Round};
use crate::metrics::fates;
use crate::types::{End, Event, Origin, Slot, Token, Usage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

impl Engine {
    pub(super) fn commit(&mut self, outcomes: Vec<(Slot, Outcome)>) {
        let mut mask_time = Duration::ZERO;
        for (slot, outcome) in outcomes {
            let index = self.running.iter().position(|s| s.slot == Some(slot));
            let index = index.expect("each job is a running sequence's. This is a bug.");
            let committed = outcome.and_then(|round| {
                mask_time += round.mask_time;
                self.drafters.each().for_each(|drafter| drafter.observe(&round));
                self.commit_one(index, *round)
            });
            let sequence = &mut self.running[index];
            let event = match committed {
                Ok(None) => continue,
                Ok(Some(event)) => event,
                Err(error) => sequence.last_event(End::Failed(error)),
            };
            let healthy = event.end.as_ref().map(|end| matches!(end, End::Finished(_)));
            sequence.last_token = self.tally.told(event, sequence.arrival, sequence.last_token);
            if let Some(healthy) = healthy {
                let sequence = self.running.remove(index);
                self.vacate(sequence, healthy);
            }
        }
        if mask_time > Duration::ZERO {
            self.tally.totals.mask.observe(mask_time.as_secs_f64());
        }
    }

    fn commit_one(&mut self, index: usize, mut round: Round) -> Result<Option<Event>, Error> {
        let sequence = &mut self.running[index];
        let (accepted, refusal) = (accepted(&round), round.refusal);
        let sources = std::mem::take(&mut round.job.draft.sources);
        let wanted = round.job.sample && sequence.wants_origins();
        let origins = wanted.then(|| origins(&round.job.draft.tokens, &sources, accepted as usize));
        let drafts = round.job.sample && !self.drafters.is_empty();
        let cached = sequence.cached;
        let committed = catch_unwind(AssertUnwindSafe(|| sequence.commit(round)));
        let mut committed = committed
            .unwrap_or_else(|p| Err(Error::Executor(format!("commit failed: {}", panic_text(p.as_ref())))));
        let totals = &mut self.tally.totals;
        totals.cached_tokens += u64::from(sequence.cached - cached);
        let mut event = committed.as_mut().ok().and_then(Option::as_mut);
        if let (Some(origins), Some(event)) = (origins, &mut event) {
            event.origins = origins;
            // An engine that draws by itself may give more tokens at once.
            event.origins.resize(event.tokens.len(), Origin::default());
        }
        if drafts {
            let emitted = accepted.min(event.as_ref().map_or(0, |e| e.tokens.len() as u32));
            totals.accepted_tokens += u64::from(emitted);
            let fates = fates(&sources, (emitted, accepted), refusal);
            totals.drafting.take(emitted, &fates);
            for (source, fates) in fates {
                let drafts = &mut sequence.drafts[source as usize];
                drafts.drafted += fates.drafted as u32;
                drafts.accepted += fates.accepted as u32;
                drafts.refused += (fates.target + fates.grammar) as u32;
            }
            event.into_iter().for_each(|event| event.usage.drafts = sequence.drafts);
        }
        committed
    }

    /// Ends everything that runs, and all that waits too if `waiting`.
    pub(super) fn end_all(&mut self, error: &Error, waiting: bool) {
        let running = std::mem::take(&mut self.running);
        // What was admitted before counts as running: part of its answer may have been sent.
        let admitted = std::mem::take(&mut self.waiting.admitted);
        let end = End::Failed(error.clone());
        for sequence in running.into_iter().chain(admitted) {
            self.disown(&sequence);
            self.tally.told(sequence.last_event(end.clone()), sequence.arrival, sequence.last_token);
        }
        if waiting {
            self.waiting.drain().iter().for_each(|arrival| self.end_arrival(arrival, &end));
        }
    }

    pub(super) fn end_arrival(&mut self, arrival: &Arrival, end: &End) {
        let spec = arrival.request.spec();
        let usage = Usage { prompt: spec.prompt.len() as u32, ..Usage::default() };
        for choice in 0..spec.n {
            let event = Event { end: Some(end.clone()), ..Event::silent(arrival.id, choice, usage) };
            self.tally.told(event, arrival.arrived, None);
        }
    }
}

/// Where the tokens of a round came from: those of the draft that were accepted, and what the target drew after them.
fn origins(drafted: &[Token], sources: &[(DraftSource, u32)], accepted: usize) -> Vec<Origin> {
    let who = sources.iter().flat_map(|(source, count)| std::iter::repeat_n(*source, *count as usize));
    let mut drafted = drafted.iter().copied().zip(who);
    let kept = drafted.by_ref().take(accepted);
    let mut origins: Vec<_> =
        kept.map(|(_, source)| Origin { source: Some(source), refused: Vec::new() }).collect();
    origins.push(Origin { source: None, refused: drafted.collect() });
    origins
}

/// Drafted tokens that a round kept: an engine that draws by itself may have gone on without a draft.
pub(super) fn accepted(round: &Round) -> u32 {
    let kept = round.computed - round.job.start - round.job.tokens.len() as u32;
    kept.min(round.job.draft.tokens.len() as u32)
}
