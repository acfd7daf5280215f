//! Jobs on their way through drafters that work by themselves: out to them, and back to the target.

use super::Engine;
use super::draft::{allows, tidy};
use crate::config::DraftSource;
use crate::exec::{Collected, Job, JobId, Order};
use std::collections::VecDeque;

/// A job that a drafter is to get.
struct Wanted {
    job: JobId,
    source: DraftSource,
    /// Tokens that its draft is to come to.
    length: u32,
}

/// What is between the drafters and the target.
#[derive(Default)]
pub(super) struct Orders {
    /// Found in the step at hand.
    wanted: Vec<Wanted>,
    /// Came back, and wait for a step with room.
    back: VecDeque<Job>,
    /// Tokens and rows of logits of those that came back and are in the step at hand.
    pub(super) ahead: (u32, u32),
}

impl Orders {
    /// Has `source` draft for a job until its draft has `length` tokens. Where several are asked, the first is.
    pub(super) fn want(&mut self, job: JobId, source: DraftSource, length: u32) {
        if !self.has(job) {
            self.wanted.push(Wanted { job, source, length });
        }
    }

    /// Whether a drafter is to get this job.
    pub(super) fn has(&self, job: JobId) -> bool {
        self.wanted.iter().any(|wanted| wanted.job == job)
    }

    /// Whether there are jobs that could be started at once.
    pub(super) fn any(&self) -> bool {
        !self.back.is_empty()
    }

    /// Forgets all jobs; those that are out are nobody's.
    pub(super) fn clear(&mut self) {
        *self = Orders::default();
    }
}

impl Engine {
    /// Gives jobs to the drafters that are to have them; gives back the others.
    pub(super) fn send_out(&mut self, jobs: Vec<Job>) -> Vec<Job> {
        let wanted = std::mem::take(&mut self.orders.wanted);
        let mut rest = Vec::new();
        let mut out: Vec<(DraftSource, Order)> = Vec::new();
        for job in jobs {
            let wanted = wanted.iter().find(|wanted| wanted.job == job.id);
            match wanted.map(|w| (w, w.length.saturating_sub(job.draft.tokens.len() as u32))) {
                Some((wanted, want)) if want > 0 => out.push((wanted.source, self.order(job, want))),
                _ => rest.push(job),
            }
        }
        for (name, drafter) in &mut self.drafters.models {
            let (its, others) = out.into_iter().partition::<Vec<_>, _>(|(source, _)| source == name);
            out = others;
            if let Some(remote) = drafter.remote().filter(|_| !its.is_empty()) {
                remote.order(its.into_iter().map(|(_, order)| order).collect());
            }
        }
        rest
    }

    fn order(&self, job: Job, want: u32) -> Order {
        let sequence = self.running.iter().find(|s| s.in_flight == Some(job.id));
        let sequence = sequence.expect("its job was made in this step. This is a bug.");
        Order {
            known: sequence.tokens().to_vec(),
            prompt: sequence.prompt_len(),
            allows: allows(sequence, &self.drafters.sources),
            want,
            late: false,
            job,
        }
    }

    /// Jobs that came back from drafters, as many as one step takes; what was cancelled meanwhile ends here.
    pub(super) fn take_back(&mut self) -> Vec<Job> {
        for index in 0..self.drafters.models.len() {
            let (name, drafter) = &mut self.drafters.models[index];
            let (name, Some(remote)) = (*name, drafter.remote()) else { continue };
            let Collected { orders, passes } = remote.collect();
            for (work, took) in passes {
                self.drafts.learn_drafting(name, work, took);
            }
            for order in orders {
                self.came_back(name, order);
            }
        }
        let rows = self.caps.max_logits / self.caps.n_vocab as u64;
        let mut jobs = Vec::new();
        self.orders.ahead = (0, 0);
        while let Some(job) = self.orders.back.front() {
            let drafted = job.draft.tokens.len() as u32;
            let (tokens, outputs) = self.orders.ahead;
            let ahead = (tokens + job.tokens.len() as u32 + drafted, outputs + 1 + drafted);
            if !jobs.is_empty() && (ahead.0 > self.step_tokens() || u64::from(ahead.1) > rows) {
                break;
            }
            self.orders.ahead = ahead;
            jobs.extend(self.orders.back.pop_front());
        }
        jobs
    }

    fn came_back(&mut self, source: DraftSource, mut order: Order) {
        // Where all that ran was ended meanwhile, nobody waits for it.
        let Some(index) = self.running.iter().position(|s| s.in_flight == Some(order.job.id)) else { return };
        let before: u32 = order.job.draft.sources.iter().map(|(_, count)| count).sum();
        tidy(&mut order.ask(), before, source, &self.vocab);
        let Order { job, late, .. } = order;
        let drafted = job.draft.tokens.len() as u32;
        self.tally.totals.computed_tokens += u64::from(drafted - before);
        self.tally.totals.drafted_tokens += u64::from(drafted - before);
        let sequence = &mut self.running[index];
        if late {
            sequence.planned.model = None;
        }
        if !self.config.speculative.adaptive {
            sequence.planned.length = drafted;
        }
        if sequence.cancelled {
            self.settle(index, Ok(None));
        } else {
            self.orders.back.push_back(job);
        }
    }
}
