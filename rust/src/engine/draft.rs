//! Attaches drafts to the jobs of a step.

use super::Engine;
use crate::exec::{Ask, Draft, Job};
use crate::sched::Share;
use crate::sched::draft_len::Room;
use crate::types::Token;
use crate::vocab::Vocab;
use std::borrow::Cow;

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
            let asking: Vec<_> = (0..jobs.len()).map(|i| wants(i, &jobs[i], &room)).collect();
            let asks = jobs.iter_mut().zip(shares).zip(&asking).filter(|(_, want)| **want > 0);
            let mut asks: Vec<Ask<'_>> =
                asks.map(|((job, share), want)| ask(job, running[share.index].tokens(), *want)).collect();
            if asks.is_empty() {
                continue;
            }
            let drafts = drafter.propose(&mut asks);
            drop(asks);
            let asked = jobs.iter_mut().zip(asking).filter(|(_, want)| *want > 0);
            asked.zip(drafts).for_each(|((job, want), draft)| append(job, draft, want, &self.vocab));
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

fn drafted(jobs: &[Job]) -> u64 {
    jobs.iter().map(|j| j.draft.tokens.len() as u64).sum()
}

fn ask<'a>(job: &'a mut Job, known: &'a [Token], want: u32) -> Ask<'a> {
    let drafted = &job.draft.tokens;
    let known = if drafted.is_empty() { Cow::Borrowed(known) } else { Cow::Owned([known, drafted].concat()) };
    Ask { known, drafted: drafted.len() as u32, grammar: job.grammar.as_mut(), want }
}

/// Adds a source's draft up to where it must end: nothing comes after an end token, and no more than was asked for.
fn append(job: &mut Job, mut more: Draft, want: u32, vocab: &Vocab) {
    more.tokens.truncate(want as usize);
    let end = more.tokens.iter().position(|&t| vocab.is_eog(t) || t as usize >= vocab.len());
    more.tokens.truncate(end.unwrap_or(more.tokens.len()));
    // Masks without a token stay: verify needs them all the same.
    if job.draft.tokens.is_empty() && job.draft.masks.is_empty() {
        more.masks.truncate(more.tokens.len() + 1);
        job.draft = more;
    } else {
        job.draft.tokens.append(&mut more.tokens);
    }
}
