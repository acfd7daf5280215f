//! Attaches drafts to the jobs of a step, and learns from them.

use super::Engine;
use crate::config::DraftSource;
use crate::exec::cost::Work;
use crate::exec::{Ask, Done, Drafters, Job, Round};
use crate::sched::drafts::{Choice, Prospect};
use crate::sequence::{Planned, Sequence};
use crate::vocab::Vocab;
use std::collections::HashMap;
use std::time::{Duration, Instant};

impl Engine {
    /// Attaches drafts to those `jobs` that compute one last known token; returns their tokens. Each job has the index of its
    /// sequence. First comes what is found without a model; then it is chosen who goes on, and how far.
    pub(super) fn draft(&mut self, jobs: &mut [(usize, Job)]) -> u64 {
        let most = self.config.speculative.disable_by_batch_size;
        if self.drafters.sources.is_empty() || most.is_some_and(|most| self.running.len() > most as usize) {
            return 0;
        }
        self.decide(jobs);
        self.limit(jobs);
        self.ask_ahead(jobs);
        if self.config.speculative.adaptive {
            self.choose(jobs);
        }
        self.ask_models(jobs);
        self.level(jobs);
        self.ask_hidden(jobs);
        let drafted = jobs.iter().map(|(_, job)| job.draft.tokens.len() as u64).sum();
        self.tally.totals.computed_tokens += drafted;
        self.tally.totals.drafted_tokens += drafted;
        drafted
    }

    /// Decides for each sequence that has its first token whether a source that is far behind it is to catch up. Where it does
    /// not pay it is decided again when the output has doubled: the longer an output is, the longer it will be.
    fn decide(&mut self, jobs: &[(usize, Job)]) {
        let decoding = jobs.iter().filter(|(_, job)| job.tokens.len() == 1).count();
        let (adaptive, most) = (self.config.speculative.adaptive, self.config.speculative.draft_len());
        for (index, job) in jobs.iter().filter(|(_, job)| job.sample && job.tokens.len() == 1) {
            let sequence = &mut self.running[*index];
            let generated = sequence.generated();
            if sequence.catches_up.is_some_and(|(yes, at)| yes || generated < at * 2) {
                continue;
            }
            let delays = self.drafters.models.iter_mut().filter_map(|(source, drafter)| {
                drafter.delay(job.slot, sequence.tokens()).map(|delay| (*source, delay))
            });
            let behind = delays.max_by(|a, b| a.1.total_cmp(&b.1));
            // The first token waits for nobody.
            if behind.is_some() && generated == 0 {
                continue;
            }
            let so_far = f64::from(generated);
            let expected = (self.tally.length - so_far).max(so_far);
            let tokens = f64::from(sequence.most() - sequence.known()).min(expected);
            let step = (decoding, sequence.known(), most);
            let pays =
                |(source, delay)| !adaptive || self.drafts.pays(source, &self.cost, step, (delay, tokens));
            sequence.catches_up = Some((behind.is_none_or(pays), generated));
        }
    }

    /// Plans for each job the longest draft that it may have: of equal parts of the step's tokens and rows of logits, and of KV
    /// that running sequences do not need; kept prefixes make room.
    fn limit(&mut self, jobs: &mut [(usize, Job)]) {
        let (most, accept) = (self.config.speculative.draft_len(), self.config.speculative.acceptance());
        // A prompt beside drafts would be computed in a pass of its own, behind which they could not be taken back.
        let beside_prompt =
            self.caps.even_drafts.is_some() && jobs.iter().any(|(_, job)| job.tokens.len() > 1);
        let mut wanting = Vec::new();
        for (index, job) in &mut *jobs {
            let sequence = &self.running[*index];
            job.draft.acceptance = sequence.acceptance_mode().unwrap_or(accept);
            let allowed = self.drafters.sources.iter().any(|name| sequence.allows(*name));
            let alone = job.tokens.len() == 1 && !beside_prompt;
            if job.sample && alone && allowed && sequence.draft_len(most) > 0 {
                wanting.push(*index);
            }
        }
        let tokens = jobs.iter().map(|(_, job)| job.tokens.len() as u64).sum::<u64>();
        let rows = jobs.iter().filter(|(_, job)| job.sample).count() as u64;
        let rows = (self.caps.max_logits / self.caps.n_vocab as u64).saturating_sub(rows);
        let tokens = u64::from(self.step_tokens()).saturating_sub(tokens);
        let kv = self.caps.kv_total.saturating_sub(self.held());
        let room = tokens.min(rows).min(kv) / wanting.len().max(1) as u64;
        // What cannot be taken back is not guessed; what is forced need not be.
        let rollback = if self.caps.rollback == 0 { u32::MAX } else { self.caps.rollback };
        let room = rollback.min(u32::try_from(room).unwrap_or(u32::MAX));
        for index in wanting {
            let sequence = &mut self.running[index];
            let slot = self.caps.kv_per_slot.saturating_sub(sequence.known());
            sequence.planned.length = sequence.draft_len(most).min(slot).min(room);
        }
    }

    /// Asks for what needs no model.
    fn ask_ahead(&mut self, jobs: &mut [(usize, Job)]) {
        let Engine { running, drafters: Drafters { sources, ahead, .. }, vocab, .. } = self;
        if let Some(ahead) = ahead {
            let all = jobs.iter_mut().filter(|(index, _)| running[*index].planned.length > 0);
            let mut asks: Vec<_> = all.map(|(index, job)| ask(job, &running[*index], sources)).collect();
            ahead.propose(&mut asks);
            asks.iter_mut().for_each(|ask| end(ask, 0, vocab));
        }
        for (index, job) in jobs {
            let planned = &mut running[*index].planned;
            (planned.found, planned.sources) = (job.draft.tokens.clone(), job.draft.sources.clone());
        }
    }

    /// A sequence has ended: later ones of its group may draft from its output.
    pub(super) fn remember(&mut self, sequence: &Sequence) {
        if let Some(ahead) = &mut self.drafters.ahead {
            let (prompt, output) = sequence.tokens().split_at(sequence.prompt_len() as usize);
            let output = if sequence.decides() { &[] } else { output };
            ahead.end(sequence.age, sequence.group(), (prompt, output));
        }
    }

    /// Plans who drafts for each job behind what was found for it, and how far.
    fn choose(&mut self, jobs: &mut [(usize, Job)]) {
        let Engine { running, drafters, drafts, target, cost, .. } = self;
        let models = drafters.models.iter();
        let models: Vec<_> = models.map(|(name, drafter)| (*name, drafter.reach())).collect();
        let prospect = |(index, _): &(usize, Job)| {
            let sequence = &running[*index];
            let Planned { length: most, sources, .. } = &sequence.planned;
            let allowed = |(name, _): &&(DraftSource, u32)| *most > 0 && sequence.allows(*name);
            Prospect {
                found: parts(sources).map(|(source, _, count)| (source, count)).collect(),
                models: models.iter().filter(allowed).copied().collect(),
                most: *most,
                known: sequence.known(),
                acceptance: sequence.acceptance,
            }
        };
        let prospects: Vec<_> = jobs.iter().map(prospect).collect();
        let work = |lengths: &[u32]| {
            let jobs = jobs.iter().map(|(_, job)| job).zip(lengths.iter().copied());
            let runs = jobs.clone().map(|(job, length)| (job.slot, job.tokens.len() as u32 + length));
            let mut runs: Vec<_> = runs.collect();
            runs.sort_unstable();
            Work::of_jobs(jobs, &target.kv().passes(&runs))
        };
        let Choice { model, lengths } = drafts.choose(&prospects, cost, work);
        for ((index, job), length) in jobs.iter_mut().zip(lengths) {
            job.draft.cut(length.found as usize);
            let Sequence { acceptance, planned, .. } = &mut running[*index];
            (planned.length, planned.model) = (length.all, model.filter(|_| length.all > length.found));
            let idle = |source: &DraftSource| source.is_model() && planned.model != Some(*source);
            DraftSource::ALL.iter().filter(|s| idle(s)).for_each(|s| acceptance[*s as usize].idle());
        }
    }

    /// Asks models for drafts of the planned lengths, all where none was chosen, and learns how long they take.
    fn ask_models(&mut self, jobs: &mut [(usize, Job)]) {
        let Engine { running, drafters, drafts, vocab, config, .. } = self;
        let Drafters { sources, models, .. } = drafters;
        for (name, drafter) in models.iter_mut() {
            let asked = |(index, job): &&mut (usize, Job)| {
                let Planned { length, model, .. } = running[*index].planned;
                let chosen = model == Some(*name) || !config.speculative.adaptive;
                chosen && length > job.draft.tokens.len() as u32 && running[*index].allows(*name)
            };
            let asked = jobs.iter_mut().filter(asked);
            let asked = asked.map(|(index, job)| (*index, ask(job, &running[*index], sources)));
            let (indices, mut asks): (Vec<_>, Vec<_>) = asked.unzip();
            if asks.is_empty() {
                continue;
            }
            let before: Vec<_> = asks.iter().map(|ask| ask.draft.tokens.len() as u32).collect();
            let begin = Instant::now();
            drafter.propose(&mut asks);
            let took = begin.elapsed().saturating_sub(drafter.caught_up());
            drafts.costs[*name as usize].learn(Ask::work(&asks), took);
            let told = asks.iter_mut().zip(before).map(|(ask, before)| {
                end(ask, before, vocab);
                let drafted = ask.draft.tokens.len() as u32;
                ask.draft.sources.resize(drafted as usize, *name);
                (ask.late, drafted.saturating_sub(before), ask.drawn)
            });
            for (index, (late, drafted, drawn)) in indices.into_iter().zip(told.collect::<Vec<_>>()) {
                if late {
                    running[index].planned.model = None;
                } else {
                    running[index].acceptance[*name as usize].learn_drawn(drafted, drawn);
                }
            }
        }
    }

    /// Makes drafts equally long where only what the last pass computed can be taken back.
    fn level(&mut self, jobs: &mut [(usize, Job)]) {
        let Some(most) = self.caps.even_drafts else { return };
        let lengths = jobs.iter().map(|(_, job)| job.draft.tokens.len());
        let even = even_length(&lengths.collect::<Vec<_>>(), most as usize);
        for (index, job) in jobs {
            let drafted = job.draft.tokens.len();
            let left = if drafted < even { 0 } else { even };
            if left < drafted {
                job.draft.cut(left);
                let planned = &mut self.running[*index].planned;
                planned.length = left as u32;
                planned.model = planned.model.filter(|_| left > 0);
            }
        }
    }

    /// Asks for the hidden states that sources will draft from, in a step without prompt chunks: with them the engine
    /// computes logits for every token of a batch.
    fn ask_hidden(&mut self, jobs: &mut [(usize, Job)]) {
        if jobs.iter().any(|(_, job)| job.tokens.len() > 1) {
            return;
        }
        for (index, job) in jobs.iter_mut().filter(|(_, job)| job.sample) {
            let mut wanting = self.drafters.models.iter().filter(|(_, drafter)| drafter.wants_hidden());
            job.draft.hidden = wanting.any(|(name, _)| self.running[*index].allows(*name));
        }
    }

    /// Learns what passes took, beside what was spent on `drafting` before, and how drafts have fared.
    pub(super) fn learn(&mut self, done: &Done, drafting: Duration) {
        for (work, took) in &done.passes {
            self.cost.learn(*work, *took);
            let totals = &mut self.tally.totals;
            totals.steps += 1;
            totals.step.observe((drafting + *took).as_secs_f64());
            totals.verify.observe(took.as_secs_f64());
        }
        let mut choices = HashMap::new();
        self.running.iter().for_each(|sequence| *choices.entry(sequence.request).or_insert(0.0) += 1.0);
        let rounds = done.outcomes.iter().filter_map(|(_, outcome)| outcome.as_deref().ok());
        for round in rounds.filter(|round| round.job.sample) {
            let sequence = self.running.iter_mut().find(|s| s.slot == Some(round.job.slot));
            let sequence = sequence.expect("each job is a running sequence's. This is a bug.");
            for (source, kept, stopped) in fared(round, &sequence.planned) {
                sequence.acceptance[source as usize].learn(kept, stopped);
                // What is expected of newcomers is no request's alone, however many choices it has.
                let share = 1.0 / choices[&sequence.request];
                self.drafts.acceptance[source as usize].learn_of_all(kept, stopped, share);
            }
        }
    }
}

/// The length at which drafts of these lengths, those that are shorter left out, keep the most tokens; with the token that each
/// follows they are at most `most`.
fn even_length(lengths: &[usize], most: usize) -> usize {
    let drafts = |length: usize| lengths.iter().filter(|own| **own >= length).count();
    let fits = |length: &usize| drafts(*length) * (length + 1) <= most;
    (1..=lengths.iter().copied().max().unwrap_or(0))
        .filter(fits)
        .max_by_key(|length| length * drafts(*length))
        .unwrap_or(0)
}

/// How a step's guesses have fared, of each source that came to be judged: tokens that were right, and whether its part
/// reached further or ended before it should have. What was found is judged by the tokens that came, a model's by what was
/// kept of the draft.
fn fared(round: &Round, planned: &Planned) -> Vec<(DraftSource, u32, bool)> {
    let right = planned.found.iter().zip(&round.tokens).take_while(|(a, b)| a == b).count() as u32;
    let (came, kept) = (round.tokens.len() as u32, round.accepted());
    let judged = parts(&planned.sources).take_while(|(_, before, _)| *before <= right && *before < came);
    let found =
        judged.filter(|(source, ..)| *source != DraftSource::Forced).map(|(source, before, count)| {
            let kept = (right - before).min(count);
            (source, kept, kept < count && before + kept < came)
        });
    let drafted = &round.job.draft.sources;
    let silent = planned.model.filter(|model| !drafted.contains(model));
    let silent = silent.map(|model| (model, drafted.len() as u32, 0));
    let judged = parts(drafted).chain(silent).take_while(|(_, before, _)| *before <= kept);
    let models = judged.filter(|(source, ..)| source.is_model()).filter_map(|(source, before, count)| {
        let asked = if Some(source) == planned.model { planned.length.saturating_sub(before) } else { count };
        let kept = (kept - before).min(count);
        (asked > 0).then_some((source, kept, kept < asked))
    });
    found.chain(models).collect()
}

/// The parts of a draft: whose each is, how many tokens are before it, and how many it has.
fn parts(sources: &[DraftSource]) -> impl Iterator<Item = (DraftSource, u32, u32)> {
    sources.chunk_by(|a, b| a == b).scan(0, |end, part| {
        let before = std::mem::replace(end, *end + part.len() as u32);
        Some((part[0], before, part.len() as u32))
    })
}

/// Asks for what a draft lacks of the planned length.
fn ask<'a>(job: &'a mut Job, sequence: &'a Sequence, sources: &[DraftSource]) -> Ask<'a> {
    let Job { slot, draft, grammar, sampler, .. } = job;
    Ask {
        slot: *slot,
        age: sequence.age,
        group: sequence.group(),
        known: sequence.tokens(),
        prompt: sequence.prompt_len(),
        prediction: sequence.prediction(),
        want: sequence.planned.length - draft.tokens.len() as u32,
        draft,
        grammar: grammar.as_mut(),
        sampler,
        allows: DraftSource::ALL.map(|source| sources.contains(&source) && sequence.allows(source)),
        drawn: 0,
        late: false,
    }
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

#[cfg(test)]
mod tests {
    use super::even_length;

    #[test]
    fn even_drafts_keep_the_most_tokens() {
        for (lengths, most, even) in [
            (&[4, 4, 4][..], 100, 4),
            (&[0, 0, 5], 100, 5),
            (&[1, 1, 1, 2], 100, 1),
            (&[1, 3, 3], 100, 3),
            (&[8, 8], 10, 4),
            (&[3], 3, 2),
            (&[3], 1, 0),
            (&[], 100, 0),
        ] {
            assert_eq!(even_length(lengths, most), even, "{lengths:?}, {most}");
        }
    }
}
