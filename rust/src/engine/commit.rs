//! What comes of the outcomes of jobs: tokens that are told, choices that end.

use super::Engine;
use super::waiting::Arrival;
use crate::config::DraftSource;
use crate::error::{Error, caught};
use crate::exec::{Outcome, Round};
use crate::metrics::fates;
use crate::types::{End, Event, Origin, Slot, Token, Usage};
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
        let (accepted, refusal) = (round.accepted(), round.refusal);
        let speculated = round.speculated;
        if !round.waits() {
            self.tally.totals.computed_tokens += round.job.tokens.len() as u64;
        }
        let sources = std::mem::take(&mut round.job.draft.sources);
        let wanted = round.job.sample && sequence.wants_origins();
        let origins = wanted.then(|| origins(&round.job.draft.tokens, &sources, accepted as usize));
        let drafts = round.job.sample && !self.drafters.sources.is_empty();
        let cached = sequence.cached;
        let mut committed = caught("commit", || sequence.commit(round));
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
        } else if let (Some(event), (1.., accepted)) = (event, speculated) {
            let drafts = &mut sequence.drafts[DraftSource::DraftModel as usize];
            drafts.drafted += speculated.0;
            drafts.accepted += accepted;
            totals.drafted_tokens += u64::from(speculated.0);
            totals.accepted_tokens += u64::from(accepted);
            event.usage.drafts = sequence.drafts;
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
fn origins(drafted: &[Token], sources: &[DraftSource], accepted: usize) -> Vec<Origin> {
    let kept = sources.iter().take(accepted);
    let kept = kept.map(|source| Origin { source: Some(*source), ..Origin::default() });
    let refused = drafted.iter().copied().zip(sources.iter().copied()).skip(accepted).collect();
    kept.chain([Origin { source: None, refused }]).collect()
}
