//! Attaches drafts to the jobs of a step.

use super::Engine;
use crate::config::DraftSource;
use crate::exec::{Ask, Draft, ExecError, Job};
use crate::sched::Share;
use crate::sched::draft_len::Room;
use crate::types::{Slot, Token};
use crate::vocab::Vocab;

/// Most logits of one step (256 MiB of them): drafts add rows of the vocabulary's width.
const MOST_LOGITS: u64 = 64 << 20;

impl Engine {
    /// Asks the sources in their order for drafts for those `jobs` that compute one last known token, each source for
    /// what may follow the drafts of those before it; `shares` are the jobs' shares.
    pub(super) fn draft(&mut self, shares: &[Share], jobs: &mut [Job]) {
        let most = self.config.speculative.max_draft_len;
        for source in 0..self.drafters.len() {
            let room = self.room(jobs);
            let (name, drafter) = &mut self.drafters[source];
            let running = &self.running;
            let wants = |i: usize, job: &Job, room: &Room| {
                let sequence = &running[shares[i].index];
                let wants = job.sample && job.tokens.len() == 1 && sequence.allows(*name);
                if wants { room.of(sequence, job.draft.tokens.len() as u32, most) } else { 0 }
            };
            let asking = (0..jobs.len()).filter(|&i| wants(i, &jobs[i], &room) > 0).count();
            let room = room.split(asking);
            let wanted: Vec<_> = (0..jobs.len()).map(|i| wants(i, &jobs[i], &room)).collect();
            let asks = jobs.iter_mut().zip(shares).zip(wanted).filter(|(_, want)| *want > 0);
            let mut asks: Vec<Ask<'_>> =
                asks.map(|((job, share), want)| ask(job, running[share.index].tokens(), want)).collect();
            if asks.is_empty() {
                continue;
            }
            let before: Vec<_> = asks.iter().map(|ask| ask.draft.tokens.len() as u32).collect();
            drafter.propose(&mut asks);
            asks.iter_mut().zip(before).for_each(|(ask, before)| tidy(ask, before, *name, &self.vocab));
        }
        let drafted = drafted(jobs);
        self.tally.totals.computed_tokens += drafted;
        self.tally.totals.drafted_tokens += drafted;
    }

    /// What the step and the running sequences leave to drafts.
    fn room(&self, jobs: &[Job]) -> Room {
        let tokens: u64 = jobs.iter().map(|j| j.tokens.len() as u64).sum::<u64>() + drafted(jobs);
        let rows = jobs.iter().filter(|j| j.sample).count() as u64 + drafted(jobs);
        let more_rows = (MOST_LOGITS / self.caps.n_vocab as u64).saturating_sub(rows);
        let more_tokens = u64::from(self.step_tokens()).saturating_sub(tokens);
        let needed: u64 = self.running.iter().map(|s| u64::from(s.known()) + 1).sum();
        let held = needed + self.slots.kept_tokens() + drafted(jobs);
        Room {
            tokens: u32::try_from(more_tokens.min(more_rows)).unwrap_or(u32::MAX),
            kv: self.caps.kv_total.saturating_sub(held),
            per_slot: self.caps.kv_per_slot,
        }
    }
}

/// What happens to a slot happens to it on the target and in the drafters.
impl Engine {
    /// Empties an idle slot.
    pub(super) fn release(&mut self, slot: Slot) -> Result<(), ExecError> {
        self.drafters.iter_mut().for_each(|(_, drafter)| drafter.keep(slot, 0));
        self.target.release(slot)
    }

    /// Keeps the first `keep` tokens of an idle slot.
    pub(super) fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        self.drafters.iter_mut().for_each(|(_, drafter)| drafter.keep(slot, keep));
        self.target.truncate(slot, keep)
    }

    /// Makes the empty slot `to` hold the first `len` tokens of `from`.
    pub(super) fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        self.target.copy(from, to, len)?;
        self.drafters.iter_mut().for_each(|(_, drafter)| drafter.copy(from, to, len));
        Ok(())
    }
}

fn drafted(jobs: &[Job]) -> u64 {
    jobs.iter().map(|j| j.draft.tokens.len() as u64).sum()
}

fn ask<'a>(job: &'a mut Job, known: &'a [Token], want: u32) -> Ask<'a> {
    let Job { slot, draft, grammar, sampler, .. } = job;
    Ask { slot: *slot, known, draft, grammar: grammar.as_mut(), sampler, want }
}

/// Ends a draft where it must end: nothing comes after an end token, and no more than was asked for. Then notes what of
/// it is whose.
fn tidy(ask: &mut Ask<'_>, before: u32, source: DraftSource, vocab: &Vocab) {
    let Draft { tokens, sources, masks, .. } = ask.draft;
    tokens.truncate((before + ask.want) as usize);
    let end = tokens.iter().position(|&t| vocab.is_eog(t) || t as usize >= vocab.len());
    tokens.truncate(end.unwrap_or(tokens.len()));
    masks.truncate(tokens.len() + 1);
    let mut rest = tokens.len() as u32;
    for (_, count) in sources.iter_mut() {
        *count = rest.min(*count);
        rest -= *count;
    }
    if rest > 0 {
        sources.push((source, rest));
    }
}
