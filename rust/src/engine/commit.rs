//! What comes of the outcomes of jobs: tokens that are told, sequences that end.

use super::Engine;
use crate::config::DraftSource;
use crate::error::{Error, panic_text};
use crate::exec::{ExecError, Outcome, Round};
use crate::metrics::fates;
use crate::types::{End, Event, Origin, Slot, Token};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

impl Engine {
    pub(super) fn commit(&mut self, outcomes: Vec<(Slot, Outcome)>) -> Result<(), ExecError> {
        let mut mask_time = Duration::ZERO;
        for (slot, outcome) in outcomes {
            let index = self.running.iter().position(|s| s.slot == Some(slot));
            let index = index.expect("each job is a running sequence's. This is a bug.");
            let committed = outcome.map_err(|e| e.0).and_then(|round| {
                mask_time += round.mask_time;
                self.drafters.each().for_each(|drafter| drafter.observe(&round));
                self.commit_one(index, *round)
            });
            self.settle(index, committed);
        }
        if mask_time > Duration::ZERO {
            self.tally.totals.mask.observe(mask_time.as_secs_f64());
        }
        Ok(())
    }

    fn commit_one(&mut self, index: usize, mut round: Round) -> Result<Option<Event>, Error> {
        let (accepted, refusal) = (accepted(&round) as u32, round.refusal);
        let sources = std::mem::take(&mut round.job.draft.sources);
        let wanted = round.job.sample && self.running[index].wants_origins();
        let origins = wanted.then(|| origins(&round.job.draft.tokens, &sources, accepted as usize));
        let drafts = round.job.sample && !self.drafters.is_empty();
        let cached = self.running[index].cached;
        let committed = catch_unwind(AssertUnwindSafe(|| self.running[index].commit(round)));
        let mut committed = committed
            .unwrap_or_else(|p| Err(Error::Executor(format!("commit failed: {}", panic_text(p.as_ref())))));
        self.tally.totals.cached_tokens += u64::from(self.running[index].cached - cached);
        if let (Some(origins), Ok(Some(event))) = (origins, &mut committed) {
            event.origins = origins;
            // An engine that draws by itself may give more tokens at once.
            event.origins.resize(event.tokens.len(), Origin::default());
        }
        if drafts {
            let event = committed.as_mut().ok().and_then(Option::as_mut);
            let emitted = accepted.min(event.as_ref().map_or(0, |e| e.tokens.len() as u32));
            self.tally.totals.accepted_tokens += u64::from(emitted);
            let fates = fates(&sources, (emitted, accepted), refusal);
            let sequence = &mut self.running[index];
            self.tally.totals.drafting.take(emitted, &fates);
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

    /// Ends what has come to its end.
    fn settle(&mut self, index: usize, committed: Result<Option<Event>, Error>) {
        match committed {
            Err(error) => {
                let sequence = self.running.remove(index);
                self.end_sequence(sequence, Err(error));
            }
            Ok(None) => {}
            Ok(Some(event)) => {
                let sequence = &mut self.running[index];
                sequence.last_token = self.tally.told(&event, sequence.arrival, sequence.last_token);
                let healthy = event.end.as_ref().map(|end| !matches!(end, End::Failed(_)));
                self.report.events.push(event);
                if let Some(healthy) = healthy {
                    let sequence = self.running.remove(index);
                    self.vacate(sequence, healthy);
                }
            }
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
pub(super) fn accepted(round: &Round) -> u64 {
    let kept = u64::from(round.computed - round.job.start) - round.job.tokens.len() as u64;
    kept.min(round.job.draft.tokens.len() as u64)
}
