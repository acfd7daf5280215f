//! Attaches drafts to the jobs of a step, and learns from them.

use super::Engine;
use super::commit::accepted;
use crate::config::DraftSource;
use crate::exec::cost::Work;
use crate::exec::{Ask, Done, Drafters, ExecError, Job, Pass, Round};
use crate::sched::Share;
use crate::sched::drafts::{Choice, Length, Prospect};
use crate::sequence::{Planned, Sequence};
use crate::types::Slot;
use crate::vocab::Vocab;
use std::collections::HashMap;
use std::time::Instant;

/// What a step leaves to the drafts of one sequence.
struct Room {
    /// Tokens of the step's budget, rows of logits, and KV tokens that neither running sequences nor kept prefixes need.
    tokens: u64,
    /// KV tokens that one slot may hold.
    per_slot: u32,
}

impl Room {
    /// Tokens that may be drafted for `sequence`, at most `most`.
    fn of(&self, sequence: &Sequence, most: u32) -> u32 {
        let slot = self.per_slot.saturating_sub(sequence.known());
        sequence.draft_len(most).min(slot).min(u32::try_from(self.tokens).unwrap_or(u32::MAX))
    }
}

impl Engine {
    /// Attaches drafts to those `jobs` that compute one last known token; `shares` are the jobs' shares. First comes what
    /// is found without a model; then it is chosen who goes on, and how far.
    pub(super) fn draft(&mut self, shares: &[Share], jobs: &mut [Job]) {
        let most = self.config.speculative.disable_by_batch_size;
        if self.drafters.is_empty() || most.is_some_and(|most| self.running.len() > most as usize) {
            return;
        }
        self.decide(shares, jobs);
        let most = self.most(shares, jobs);
        let accept = self.config.speculative.acceptance();
        for (job, share) in jobs.iter_mut().zip(shares) {
            job.draft.acceptance = self.running[share.index].acceptance_mode().unwrap_or(accept);
        }
        self.ask_ahead(shares, jobs, &most);
        for (job, share) in jobs.iter().zip(shares) {
            let (found, sources) = (job.draft.tokens.clone(), job.draft.sources.clone());
            self.running[share.index].planned = Planned { found, sources, ..Planned::default() };
        }
        if self.config.speculative.adaptive {
            let Choice { model, lengths } = self.choose(shares, jobs, &most);
            for ((job, share), length) in jobs.iter_mut().zip(shares).zip(&lengths) {
                plan(job, &mut self.running[share.index], *length, model);
            }
            let lengths: Vec<u32> = lengths.iter().map(|length| length.all).collect();
            self.ask(shares, jobs, &lengths, |source| Some(source) == model);
        } else {
            self.ask(shares, jobs, &most, |_| true);
            for (job, share) in jobs.iter().zip(shares) {
                self.running[share.index].planned.length = job.draft.tokens.len() as u32;
            }
        }
        self.ask_hidden(shares, jobs);
        let drafted = drafted(jobs);
        self.tally.totals.computed_tokens += drafted;
        self.tally.totals.drafted_tokens += drafted;
    }

    /// Decides for each sequence that has its first token whether a source that is far behind it is to catch up. Where it does
    /// not pay it is decided again when the output has doubled: the longer an output is, the longer it will be.
    fn decide(&mut self, shares: &[Share], jobs: &[Job]) {
        let decoding = jobs.iter().filter(|job| job.tokens.len() == 1).count();
        let (adaptive, most) = (self.config.speculative.adaptive, self.config.speculative.draft_len());
        for (share, _) in shares.iter().zip(jobs).filter(|(_, job)| job.sample && job.tokens.len() == 1) {
            let sequence = &mut self.running[share.index];
            let stands = |(yes, at)| yes || sequence.generated() < at * 2;
            if sequence.catches_up.is_some_and(stands) {
                continue;
            }
            let slot = sequence.slot.expect("a running sequence has a slot. This is a bug.");
            let delays = self.drafters.models.iter().filter_map(|(source, drafter)| {
                drafter.delay(slot, sequence.tokens()).map(|delay| (*source, delay))
            });
            let behind = delays.max_by(|a, b| a.1.total_cmp(&b.1));
            // The first token waits for nobody.
            if behind.is_some() && sequence.generated() == 0 {
                continue;
            }
            let generated = f64::from(sequence.generated());
            let expected = (self.tally.output_length() - generated).max(generated);
            let tokens = f64::from(sequence.most() - sequence.known()).min(expected);
            let step = (decoding, sequence.known(), most);
            let pays =
                |(source, delay)| !adaptive || self.drafts.pays(source, &self.cost, step, (delay, tokens));
            sequence.catches_up = Some((behind.is_none_or(pays), sequence.generated()));
        }
    }

    /// Tokens that may be drafted for each job.
    fn most(&self, shares: &[Share], jobs: &[Job]) -> Vec<u32> {
        let most = self.config.speculative.draft_len();
        let sequence = |share: &Share| &self.running[share.index];
        let allowed = |share: &Share| self.drafters.sources.iter().any(|name| sequence(share).allows(*name));
        let wants: Vec<bool> = jobs
            .iter()
            .zip(shares)
            .map(|(job, share)| {
                job.sample && job.tokens.len() == 1 && allowed(share) && sequence(share).draft_len(most) > 0
            })
            .collect();
        let room = self.room(jobs, wants.iter().filter(|wants| **wants).count());
        let of = |(share, wants): (&Share, &bool)| if *wants { room.of(sequence(share), most) } else { 0 };
        shares.iter().zip(&wants).map(of).collect()
    }

    /// Tokens of a draft that the target can take back; what is forced, it need not.
    fn most_guessed(&self) -> u64 {
        if self.caps.rollback == 0 { u64::MAX } else { self.caps.rollback.into() }
    }

    /// Who drafts in a step for each job behind what was found for it, and how far.
    fn choose(&mut self, shares: &[Share], jobs: &[Job], most: &[u32]) -> Choice {
        let Engine { running, drafters, drafts, target, cost, .. } = self;
        let models = drafters.models.iter();
        let models: Vec<_> = models.map(|(name, drafter)| (*name, drafter.reach())).collect();
        let prospect = |((job, share), most): ((&Job, &Share), &u32)| {
            let sequence = &running[share.index];
            let allowed = |(name, _): &&(DraftSource, u32)| *most > 0 && sequence.allows(*name);
            Prospect {
                found: job.draft.sources.clone(),
                models: models.iter().filter(allowed).copied().collect(),
                most: *most,
                known: sequence.known(),
                acceptance: sequence.acceptance,
            }
        };
        let prospects: Vec<_> = jobs.iter().zip(shares).zip(most).map(prospect).collect();
        let work = |lengths: &[u32]| {
            let passes = target.kv().passes(&runs(jobs, lengths));
            Work::of_jobs(jobs.iter().zip(lengths.iter().copied()), &passes)
        };
        drafts.choose(&prospects, cost, work)
    }

    /// Asks for what needs no model, up to these lengths.
    fn ask_ahead(&mut self, shares: &[Share], jobs: &mut [Job], lengths: &[u32]) {
        let Engine { running, drafters, vocab, .. } = self;
        let Some(ahead) = &drafters.ahead else { return };
        let all = jobs.iter_mut().zip(shares).zip(lengths).filter(|(_, want)| **want > 0);
        let mut asks: Vec<_> = all
            .map(|((job, share), want)| ask(job, &running[share.index], &drafters.sources, *want))
            .collect();
        ahead.propose(&mut asks);
        asks.iter_mut().for_each(|ask| end(ask, 0, vocab));
    }

    /// Asks those models that `who` names, each for drafts of up to these lengths, and learns how long models take.
    fn ask(
        &mut self,
        shares: &[Share],
        jobs: &mut [Job],
        lengths: &[u32],
        who: impl Fn(DraftSource) -> bool,
    ) {
        let Engine { running, drafters, drafts, vocab, .. } = self;
        let Drafters { sources, models, .. } = drafters;
        for (name, drafter) in models.iter_mut().filter(|(name, _)| who(*name)) {
            let wanted = |(job, length): (&Job, &u32)| length.saturating_sub(job.draft.tokens.len() as u32);
            let wants: Vec<u32> = jobs.iter().zip(lengths).map(wanted).collect();
            let asked = |share: &Share, want: u32| want > 0 && running[share.index].allows(*name);
            let all = jobs.iter_mut().zip(shares).zip(wants);
            let all = all.filter(|((_, share), want)| asked(share, *want));
            let mut asks: Vec<Ask<'_>> =
                all.map(|((job, share), want)| ask(job, &running[share.index], sources, want)).collect();
            if asks.is_empty() {
                continue;
            }
            let before: Vec<_> = asks.iter().map(|ask| ask.draft.tokens.len() as u32).collect();
            let begin = Instant::now();
            drafter.propose(&mut asks);
            let took = begin.elapsed().saturating_sub(drafter.caught_up());
            asks.iter_mut().zip(&before).for_each(|(ask, before)| tidy(ask, *before, *name, vocab));
            if let Some(work) = Ask::work(&asks) {
                drafts.learn_drafting(*name, work, took);
            }
            let more = |ask: &Ask<'_>, before: u32| (ask.draft.tokens.len() as u32).saturating_sub(before);
            let told = asks
                .iter()
                .zip(before)
                .map(|(ask, before)| (ask.slot, ask.late, more(ask, before), ask.drawn));
            for (slot, late, drafted, drawn) in told.collect::<Vec<_>>() {
                let Some(sequence) = running.iter_mut().find(|s| s.slot == Some(slot)) else { continue };
                if late {
                    sequence.planned.model = None;
                } else {
                    sequence.acceptance[*name as usize].learn_drawn(drafted, drawn);
                }
            }
        }
    }

    /// Asks for the hidden states that sources will draft from, in a step without prompt chunks: with them the engine
    /// computes logits for every token of a batch.
    fn ask_hidden(&mut self, shares: &[Share], jobs: &mut [Job]) {
        if jobs.iter().any(|job| job.tokens.len() > 1) {
            return;
        }
        let wanting = || self.drafters.models.iter().filter(|(_, drafter)| drafter.wants_hidden());
        for (job, share) in jobs.iter_mut().zip(shares).filter(|(job, _)| job.sample) {
            job.draft.hidden = wanting().any(|(name, _)| self.running[share.index].allows(*name));
        }
    }

    /// Learns what passes took, and how drafts have fared.
    pub(super) fn learn(&mut self, done: &Done) {
        for Pass { work, took } in &done.passes {
            self.cost.learn(*work, *took);
            let totals = &mut self.tally.totals;
            totals.steps += 1;
            totals.step.observe((self.drafting + *took).as_secs_f64());
            totals.verify.observe(took.as_secs_f64());
        }
        let choices = self.running.iter().fold(HashMap::new(), |mut choices, sequence| {
            *choices.entry(sequence.request).or_insert(0.0) += 1.0;
            choices
        });
        let rounds = done.outcomes.iter().filter_map(|(_, outcome)| outcome.as_deref().ok());
        for round in rounds.filter(|round| round.job.sample) {
            let sequence = self.running.iter_mut().find(|s| s.slot == Some(round.job.slot));
            let sequence = sequence.expect("each job is a running sequence's. This is a bug.");
            for (source, kept, stopped) in fared(round, &sequence.planned) {
                sequence.acceptance[source as usize].learn(kept, stopped);
                // What is expected of newcomers is no request's alone, however many choices it has.
                self.drafts.learn_accepted(source, (kept, stopped), 1.0 / choices[&sequence.request]);
            }
        }
    }

    /// What the step and the running sequences leave to the drafts of each of so many; kept prefixes make room for them.
    fn room(&self, jobs: &[Job], sequences: usize) -> Room {
        let tokens = jobs.iter().map(|j| j.tokens.len() as u64).sum::<u64>();
        let rows = jobs.iter().filter(|j| j.sample).count() as u64;
        let more_rows = (self.caps.max_logits / self.caps.n_vocab as u64).saturating_sub(rows);
        let more_tokens = u64::from(self.step_tokens()).saturating_sub(tokens);
        let needed: u64 = self.running.iter().map(|s| u64::from(s.holds())).sum();
        let kv = self.caps.kv_total.saturating_sub(needed);
        let tokens = more_tokens.min(more_rows).min(kv) / sequences.max(1) as u64;
        let tokens = tokens.min(self.most_guessed());
        Room { tokens, per_slot: self.caps.kv_per_slot }
    }
}

/// What happens to a slot happens to it on the target and in the drafters.
impl Engine {
    /// Keeps the first `keep` tokens of a slot; with 0 it is empty.
    pub(super) fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        self.drafters.each().for_each(|drafter| drafter.keep(slot, keep));
        self.target.kv_mut().truncate(slot, keep)
    }

    /// Makes the empty slot `to` hold the first `len` tokens of `from`.
    pub(super) fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        self.target.kv_mut().copy(from, to, len)?;
        self.drafters.each().for_each(|drafter| drafter.copy(from, to, len));
        Ok(())
    }
}

/// Tokens that are drafted for these jobs.
pub(super) fn drafted(jobs: &[Job]) -> u64 {
    jobs.iter().map(|j| j.draft.tokens.len() as u64).sum()
}

/// Slots and tokens of jobs that get drafts of these lengths, by rising slots.
fn runs(jobs: &[Job], lengths: &[u32]) -> Vec<(Slot, u32)> {
    let run = |(job, length): (&Job, &u32)| (job.slot, job.tokens.len() as u32 + length);
    let mut runs: Vec<_> = jobs.iter().zip(lengths).map(run).collect();
    runs.sort_unstable();
    runs
}

/// How a step's guesses have fared, of each source that came to be judged: tokens that were right, and whether its part
/// reached further or ended before it should have. What was found is judged by the tokens that came, a model's by what was
/// kept of the draft.
fn fared(round: &Round, planned: &Planned) -> Vec<(DraftSource, u32, bool)> {
    let mut fared = Vec::new();
    let (mut before, came) = (0, round.tokens.len());
    let right = planned.found.iter().zip(&round.tokens).take_while(|(a, b)| a == b).count();
    for (source, count) in &planned.sources {
        if before > right || before >= came {
            break;
        }
        let count = *count as usize;
        let kept = (right - before).min(count);
        if *source != DraftSource::Forced {
            fared.push((*source, kept as u32, kept < count && before + kept < came));
        }
        before += count;
    }
    fared.extend(model_fared(round, planned));
    fared
}

/// The same of models.
fn model_fared(round: &Round, planned: &Planned) -> Vec<(DraftSource, u32, bool)> {
    let kept = accepted(round) as u32;
    let sources = &round.job.draft.sources;
    let silent = planned.model.filter(|model| sources.iter().all(|(source, _)| source != model));
    let mut before = 0;
    let mut fared = Vec::new();
    for (source, count) in sources.iter().copied().chain(silent.map(|model| (model, 0))) {
        if kept < before {
            break;
        }
        let asked = if Some(source) == planned.model { planned.length.saturating_sub(before) } else { count };
        let kept = (kept - before).min(count);
        before += count;
        if source.is_model() && asked > 0 {
            fared.push((source, kept, kept < asked));
        }
    }
    fared
}

/// Plans a draft of this length, in which `model` goes on behind what was found.
fn plan(job: &mut Job, sequence: &mut Sequence, length: Length, model: Option<DraftSource>) {
    job.draft.cut(length.found as usize);
    let model = model.filter(|_| length.all > length.found);
    for source in DraftSource::ALL.into_iter().filter(|source| source.is_model() && model != Some(*source)) {
        sequence.acceptance[source as usize].idle();
    }
    (sequence.planned.length, sequence.planned.model) = (length.all, model);
}

fn ask<'a>(job: &'a mut Job, sequence: &'a Sequence, sources: &[DraftSource], want: u32) -> Ask<'a> {
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
        allows: allows(sequence, sources),
        drawn: 0,
        late: false,
    }
}

/// Which sources may draft for a sequence, of those that are asked at all.
fn allows(sequence: &Sequence, sources: &[DraftSource]) -> [bool; DraftSource::ALL.len()] {
    DraftSource::ALL.map(|source| sources.contains(&source) && sequence.allows(source))
}

/// Ends a draft where it must end: no more than was asked for, and nothing after an end token, which is left out itself
/// unless it was drawn: what was drawn must be judged.
fn end(ask: &mut Ask<'_>, before: u32, vocab: &Vocab) {
    let most = (before + ask.want) as usize;
    let tokens = ask.draft.tokens.iter().take(most);
    let end = tokens.copied().position(|t| vocab.is_eog(t) || t as usize >= vocab.len());
    let drawn = |end: usize| ask.draft.probs.get(end).is_some_and(|q| !q.is_empty());
    ask.draft.cut(end.map_or(most, |end| end + usize::from(drawn(end))));
}

/// Ends a draft where it must end, and notes that what nobody has drafted before is from `source`.
fn tidy(ask: &mut Ask<'_>, before: u32, source: DraftSource, vocab: &Vocab) {
    end(ask, before, vocab);
    let noted: u32 = ask.draft.sources.iter().map(|(_, count)| count).sum();
    let new = ask.draft.tokens.len() as u32 - noted;
    if new > 0 {
        ask.draft.sources.push((source, new));
    }
}
