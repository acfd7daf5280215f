//! Attaches drafts to the jobs of a step.

use super::Engine;
use crate::exec::{Ask, Draft, Job};
use crate::sched::Share;
use crate::sched::draft_len::Room;
use crate::vocab::Vocab;

/// Most logits of one step (256 MiB of them): drafts add rows of the vocabulary's width.
const MOST_LOGITS: u64 = 64 << 20;

impl Engine {
    /// Asks the sources in their order for drafts for those `jobs` that compute one last known token; `shares` are the
    /// jobs' shares.
    pub(super) fn draft(&mut self, shares: &[Share], jobs: &mut [Job]) {
        let most = self.config.speculative.max_draft_len;
        for source in 0..self.drafters.len() {
            let room = self.room(jobs);
            let (name, drafter) = &mut self.drafters[source];
            let sequence = |i: &usize| &self.running[shares[*i].index];
            let mut asking: Vec<usize> = (0..jobs.len()).filter(|&i| wants_draft(&jobs[i])).collect();
            asking.retain(|i| sequence(i).allows(*name));
            let room = room.split(asking.len());
            asking.retain(|i| room.of(sequence(i), most) > 0);
            if asking.is_empty() {
                continue;
            }
            let ask = |i| Ask { known: sequence(i).tokens(), want: room.of(sequence(i), most) };
            let asks: Vec<Ask<'_>> = asking.iter().map(ask).collect();
            let drafts = drafter.propose(&asks);
            let drafts: Vec<Draft> =
                asks.iter().zip(drafts).map(|(ask, draft)| usable(draft, ask.want, &self.vocab)).collect();
            asking.into_iter().zip(drafts).for_each(|(i, draft)| jobs[i].draft = draft);
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

fn wants_draft(job: &Job) -> bool {
    job.sample && job.tokens.len() == 1 && job.draft.tokens.is_empty()
}

fn drafted(jobs: &[Job]) -> u64 {
    jobs.iter().map(|j| j.draft.tokens.len() as u64).sum()
}

/// The draft up to where it must end: nothing comes after an end token, and no more than was asked for.
fn usable(mut draft: Draft, want: u32, vocab: &Vocab) -> Draft {
    draft.tokens.truncate(want as usize);
    let end = draft.tokens.iter().position(|&t| vocab.is_eog(t) || t as usize >= vocab.len());
    draft.tokens.truncate(end.unwrap_or(draft.tokens.len()));
    draft.masks.truncate(draft.tokens.len());
    draft
}
