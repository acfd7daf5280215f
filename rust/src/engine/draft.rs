//! Attaches drafts to the jobs of a step.

use super::Engine;
use super::accepted;
use crate::config::DraftSource;
use crate::exec::{Ask, Draft, ExecError, Job, Outcome, Round};
use crate::sched::Share;
use crate::sched::draft_len::{Prospect, Room};
use crate::sched::ways::{PastDraft, Ways, tried};
use crate::sequence::{Acceptance, Late, Sequence};
use crate::types::Slot;
use crate::vocab::Vocab;
use std::time::Duration;

/// Most logits of one step (256 MiB of them): drafts add rows of the vocabulary's width.
const MOST_LOGITS: u64 = 64 << 20;

impl Engine {
    /// Attaches drafts to those `jobs` that compute one last known token; `shares` are the jobs' shares. First come
    /// forced tokens, which cost nothing; then sources and lengths are chosen; then these sources are asked in their order,
    /// each for what may follow the drafts of those before it.
    pub(super) fn draft(&mut self, shares: &[Share], jobs: &mut [Job]) {
        if self.drafters.is_empty() {
            return;
        }
        self.decide(shares, jobs);
        let most = self.most(shares, jobs);
        self.ask_sources(shares, jobs, &most, None);
        let (way, lengths) = self.choose(shares, jobs, &most);
        let accept = self.config.speculative.acceptance();
        for ((job, share), length) in jobs.iter_mut().zip(shares).zip(&lengths) {
            (job.draft.planned, job.draft.way) = (*length, way);
            let sequence = &mut self.running[share.index];
            job.draft.acceptance = sequence.acceptance_mode().unwrap_or(accept);
            job.draft.cut(*length as usize);
            if job.draft.tokens.len() == *length as usize {
                sequence.acceptance.iter_mut().for_each(Acceptance::idle);
            }
            note(&mut job.draft, DraftSource::Forced);
        }
        self.ask_sources(shares, jobs, &lengths, Some(way));
        self.ask_hidden(shares, jobs);
        if let Some(rates) = &self.config.speculative.synthetic_acceptance {
            jobs.iter_mut().for_each(|job| job.draft.decreed = Some(decreed(job, rates)));
        }
        let drafted = drafted(jobs);
        self.tally.totals.computed_tokens += drafted;
        self.tally.totals.drafted_tokens += drafted;
    }

    /// Decides for each sequence that has its first token whether a source that is far behind it is to catch up; again
    /// where that no longer stands.
    fn decide(&mut self, shares: &[Share], jobs: &[Job]) {
        let decoding = jobs.iter().filter(|job| job.tokens.len() == 1).count();
        for (share, _) in shares.iter().zip(jobs).filter(|(_, job)| job.sample && job.tokens.len() == 1) {
            let sequence = &mut self.running[share.index];
            let before = sequence.late_sources;
            if before.is_some_and(|late| late.stands(decoding)) {
                continue;
            }
            let slot = sequence.slot.expect("a running sequence has a slot. This is a bug.");
            let delays =
                self.drafters.iter().filter_map(|(_, drafter)| drafter.delay(slot, sequence.tokens()));
            let delay = delays.reduce(f64::max);
            // The first token waits for nobody.
            if delay.is_some() && sequence.generated() == 0 {
                continue;
            }
            let tokens = f64::from(sequence.most() - sequence.known()).min(self.tally.output_length());
            let pays = |delay| self.ways.pays(decoding, delay, tokens);
            self.decided += u64::from(delay.is_some() && before.is_none());
            let trial = before.is_none() && tried(self.decided) || !self.config.speculative.adaptive;
            let asked = delay.is_none_or(pays) || trial;
            sequence.late_sources = Some(Late { asked, beside: decoding });
        }
    }

    /// Tokens that may be drafted for each job.
    fn most(&self, shares: &[Share], jobs: &[Job]) -> Vec<u32> {
        let most = self.config.speculative.max_draft_len;
        let sequence = |share: &Share| &self.running[share.index];
        let allowed = |share: &Share| self.drafters.iter().any(|(name, _)| sequence(share).allows(*name));
        let wants: Vec<bool> = jobs
            .iter()
            .zip(shares)
            .map(|(job, share)| {
                job.sample && job.tokens.len() == 1 && allowed(share) && sequence(share).draft_len(most) > 0
            })
            .collect();
        let room = self.room(jobs).split(wants.iter().filter(|wants| **wants).count());
        let of = |(share, wants): (&Share, &bool)| if *wants { room.of(sequence(share), most) } else { 0 };
        shares.iter().zip(&wants).map(of).collect()
    }

    /// The way through the sources for a step, and the draft length of each job.
    fn choose(&mut self, shares: &[Share], jobs: &[Job], most: &[u32]) -> (usize, Vec<u32>) {
        let Engine { running, drafters, ways, .. } = self;
        let guessing = drafters.iter().filter(|(name, _)| *name != DraftSource::Forced);
        let guessing: Vec<_> = guessing.map(|(name, drafter)| (*name, drafter.reach())).collect();
        let prospects = |ways: &Ways, way: usize| -> Vec<Prospect> {
            let prospect = |((job, share), most): ((&Job, &Share), &u32)| {
                let sequence = &running[share.index];
                let forced = job.draft.tokens.len() as u32;
                let asked = guessing.iter().filter(|(name, _)| ways.asks(way, *name, |s| sequence.allows(s)));
                let reach = asked.map(|(_, reach)| *reach).max().unwrap_or(0);
                let known = sequence.acceptance.get(way).copied().unwrap_or_default();
                Prospect { forced, odds: ways.get(way).odds(known), most: (*most).min(reach.max(forced)) }
            };
            jobs.iter().zip(shares).zip(most).map(prospect).collect()
        };
        match self.config.speculative.adaptive {
            true => ways.choose(prospects),
            false => (0, prospects(ways, 0).iter().map(|prospect| prospect.most).collect()),
        }
    }

    /// Asks the source of forced tokens, or the others that are on a way, for drafts of up to these lengths.
    fn ask_sources(&mut self, shares: &[Share], jobs: &mut [Job], lengths: &[u32], way: Option<usize>) {
        let Engine { running, drafters, ways, .. } = self;
        let forced = way.is_none();
        for (name, drafter) in
            drafters.iter_mut().filter(|(name, _)| (*name == DraftSource::Forced) == forced)
        {
            let jobs = jobs.iter_mut().zip(shares).zip(lengths);
            let asks = jobs.filter_map(|((job, share), length)| {
                let sequence = &running[share.index];
                let want = length.saturating_sub(job.draft.tokens.len() as u32);
                let asked = ways.asks(way.unwrap_or(0), *name, |s| sequence.allows(s));
                (want > 0 && asked).then(|| ask(job, sequence, want))
            });
            let mut asks: Vec<Ask<'_>> = asks.collect();
            if asks.is_empty() {
                continue;
            }
            let before: Vec<_> = asks.iter().map(|ask| ask.draft.tokens.len() as u32).collect();
            drafter.propose(&mut asks);
            asks.iter_mut().zip(before).for_each(|(ask, before)| tidy(ask, before, *name, &self.vocab));
        }
    }

    /// Asks for the hidden states that sources will draft from, in a step without prompt chunks: with them the engine
    /// computes logits for every token of a batch.
    fn ask_hidden(&mut self, shares: &[Share], jobs: &mut [Job]) {
        if jobs.iter().any(|job| job.tokens.len() > 1) {
            return;
        }
        let wanting = || self.drafters.iter().filter(|(_, drafter)| drafter.wants_hidden());
        for (job, share) in jobs.iter_mut().zip(shares).filter(|(job, _)| job.sample) {
            job.draft.hidden = wanting().any(|(name, _)| self.running[share.index].allows(*name));
        }
    }

    /// Learns what a step of these rounds took and how much of their drafts was kept. Where sequences come and go there
    /// is almost always one that a source is late for: such steps count too, but for the time in which it caught up.
    pub(super) fn learn(&mut self, (drafting, took): (Duration, Duration), outcomes: &[(Slot, Outcome)]) {
        let rounds: Vec<&Round> = outcomes.iter().filter_map(|(_, o)| o.as_deref().ok()).collect();
        let caught_up: Duration = self.drafters.iter_mut().map(|(_, drafter)| drafter.caught_up()).sum();
        let drafts: Vec<PastDraft> = rounds.iter().map(|r| drafted_of(&r.job.draft)).collect();
        let alone = rounds.iter().all(|r| r.job.tokens.len() == 1) && rounds.len() == outcomes.len();
        let pass = alone.then(|| took.saturating_sub(drafting));
        let way = rounds.first().map_or(0, |r| r.job.draft.way);
        self.ways.learn(way, &drafts, (drafting.saturating_sub(caught_up), pass));
        for (round, drafted) in rounds.into_iter().zip(drafts).filter(|(_, drafted)| drafted.asked > 0) {
            let way = round.job.draft.way;
            let kept = (accepted(round) as u32).saturating_sub(drafted.forced);
            let sequence = self.running.iter_mut().find(|s| s.slot == Some(round.job.slot));
            let sequence = sequence.expect("the slot runs. This is a bug.");
            sequence.learn(way, kept, kept < drafted.asked);
            self.ways.accepted(way, drafted, kept);
        }
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

/// What the scheduler learns from a draft.
fn drafted_of(draft: &Draft) -> PastDraft {
    let forced = forced(draft);
    let tokens = draft.tokens.len() as u32;
    let wanted = if draft.late { tokens } else { draft.planned };
    PastDraft { asked: wanted.saturating_sub(forced), forced, tokens, late: draft.late }
}

/// Tokens of a draft that the grammar forces; they come first.
fn forced(draft: &Draft) -> u32 {
    draft.sources.first().filter(|(name, _)| *name == DraftSource::Forced).map_or(0, |(_, count)| *count)
}

/// Draws how many tokens of a draft are kept at these rates; forced ones are, always.
fn decreed(job: &Job, rates: &[f64]) -> u32 {
    let forced = forced(&job.draft) as usize;
    let drafted = job.draft.tokens.len();
    let kept = |i: &usize| job.sampler.chance(*i) < rates[(*i - forced).min(rates.len() - 1)];
    (forced + (forced..drafted).take_while(kept).count()) as u32
}

fn ask<'a>(job: &'a mut Job, sequence: &'a Sequence, want: u32) -> Ask<'a> {
    let Job { slot, draft, grammar, sampler, .. } = job;
    Ask {
        slot: *slot,
        known: sequence.tokens(),
        prompt: sequence.prompt_len(),
        prediction: sequence.prediction(),
        draft,
        grammar: grammar.as_mut(),
        sampler,
        want,
    }
}

/// Ends a draft where it must end: no more than was asked for, and nothing after an end token, which is left out itself
/// unless it was drawn: what was drawn must be judged.
fn tidy(ask: &mut Ask<'_>, before: u32, source: DraftSource, vocab: &Vocab) {
    let most = (before + ask.want) as usize;
    let tokens = ask.draft.tokens.iter().take(most);
    let end = tokens.copied().position(|t| vocab.is_eog(t) || t as usize >= vocab.len());
    let drawn = |end: usize| ask.draft.probs.get(end).is_some_and(|q| !q.is_empty());
    ask.draft.cut(end.map_or(most, |end| end + usize::from(drawn(end))));
    note(ask.draft, source);
}

/// Notes that what nobody has drafted before is from `source`.
fn note(draft: &mut Draft, source: DraftSource) {
    let noted: u32 = draft.sources.iter().map(|(_, count)| count).sum();
    let new = draft.tokens.len() as u32 - noted;
    if new > 0 {
        draft.sources.push((source, new));
    }
}
