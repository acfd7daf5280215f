//! Which sources of drafts a step asks.
//!
//! Sources draft one after the other, each for what may follow the drafts of those before it. So one that guesses worse
//! takes the places that a later one would fill better, and one that is slow may not be worth its time in a large batch:
//! the configured order says nothing of either. A [`Way`] is a part of the chain, from its beginning or to its end. Each
//! way learns how long its drafting takes, how much it finds and how much of that is accepted; what the target's passes
//! take is known to all. The way with the most expected tokens per second is taken. Now and then another that might be
//! better has a few steps, the first at once, then more and more rarely as long as the best stays the same: it drafts
//! what would be best if its hopes came true, and ends where they are gone.
//!
//! Passes, too, are measured again now and then with another length than the best, where it would be the best
//! if it took somewhat less than is thought.
//!
//! A draft model that would have to read a long prompt first is asked only where the time that it saves until the
//! sequence's likely end is more than the reading takes; some sequences are tried whatever it takes ([`tried`]), so that
//! what is known stays true.
//!
//! Sources that a client's request brings along (forced tokens, its prediction) belong to no way: they are always asked.

mod found;

use super::costs::{Drafting, Passes, class};
use super::draft_len::{Asked, LEAST_GAIN, NOISE, Prospect, best, longest, speed, uniform};
use crate::config::DraftSource;
use crate::sequence::{Acceptance, Odds};
use found::Found;
use std::collections::BTreeMap;
use std::time::Duration;

/// Tokens that are drafted where nothing is known of longer drafts.
const FIRST: u32 = 2;
/// Steps from one trial of another way to the next, at first and at most; and the steps of a trial: in the first ones a
/// source may still have to catch up.
const PERIODS: (u32, u32) = (48, 3072);
/// The same for ways that were never tried.
const SOON: u32 = 12;
const TRIAL_STEPS: u32 = 4;
/// Steps with about as many sequences from one look at another length to the next, at first and at most.
const LOOKS: (u32, u32) = (24, 1536);
/// Steps of a look where drafts pay: a single one may have been held up, and drafting goes on if that was the one without.
const LOOK_STEPS: u32 = 3;
/// What would pay if it cost so much less than is thought is looked at again; and where passes of as many rows were never
/// measured.
const DOUBTS: (f64, f64) = (1.5, 3.0);
/// Steps for which a choice not to draft stands: to choose takes some percent of a very short step.
const IDLE: u32 = 3;
/// The first so many sequences that a draft model is behind for are tried, and at last one of so many.
const TRIED: (u64, u64) = (16, 256);

/// Some of the sources, in their order, and what is known of drafting by them.
#[derive(Debug, Default)]
pub struct Way {
    sources: Vec<DraftSource>,
    drafting: Drafting,
    /// How much is accepted, over all sequences.
    acceptance: Acceptance,
    found: Found,
}

impl Way {
    /// How a sequence's drafts are accepted of which this is known.
    pub fn odds(&self, of: Acceptance) -> Odds {
        of.odds(self.acceptance.odds(Odds::UNKNOWN, Acceptance::GUESSED), Acceptance::LIKE_ALL)
    }

    /// Seconds that drafting takes, and the pass, on average: where no sequence finds anything, the pass is a quick one.
    fn parts(&self, asked: Asked, passes: &Passes) -> (f64, f64) {
        let n = asked.sequences as f64;
        let pass = |drafted: f64| passes.at(asked.sequences, drafted).unwrap_or(f64::INFINITY);
        let forced = f64::from(asked.forced) / n;
        if asked.guessed == 0 {
            return (0.0, pass(forced));
        }
        let (found, share) = (self.found.often(), self.found.share());
        let none = (1.0 - found).powf(asked.asking as f64);
        let drafted = self.finds(asked) / n / (1.0 - none);
        let each = f64::from(asked.guessed) / asked.asking as f64 * share;
        let least = passes.apart(asked.sequences, asked.asking as f64 * found / (1.0 - none), each);
        let pass = none * pass(forced) + (1.0 - none) * pass(forced + drafted).max(least);
        (self.drafting.per_token(asked.asking, passes) * f64::from(asked.longest), pass)
    }

    /// Tokens beyond forced ones that are drafted where this is asked for, on average.
    fn finds(&self, asked: Asked) -> f64 {
        f64::from(asked.guessed) * self.found.often() * self.found.share()
    }

    /// Seconds of a step that asks for this, on average.
    fn seconds(&self, asked: Asked, passes: &Passes) -> f64 {
        let (drafting, pass) = self.parts(asked, passes);
        drafting + pass
    }

    /// The best lengths, and their tokens per second.
    fn best(&self, prospects: &[Prospect], passes: &Passes) -> (Vec<u32>, f64) {
        best(prospects, passes.ragged, |asked| self.seconds(asked, passes))
    }

    /// The best lengths, and their tokens per second, if the next drafts fare as well as one may hope: half as many
    /// refused, in half the time; all accepted, of a way that was never tried.
    fn hopes(&self, prospects: &[Prospect], passes: &Passes) -> (Vec<u32>, f64) {
        let better = |odds: f64| 1.0 - (1.0 - odds) / 2.0;
        let hope = |p: &Prospect| match self.drafting.known() {
            true => Odds { first: better(p.odds.first), next: better(p.odds.next) },
            false => Odds { first: 1.0, next: 1.0 },
        };
        let prospects: Vec<_> = prospects.iter().map(|p| Prospect { odds: hope(p), ..*p }).collect();
        let seconds = |asked| {
            let (drafting, pass) = self.parts(asked, passes);
            drafting / 2.0 + pass
        };
        best(&prospects, passes.ragged, seconds)
    }
}

/// When to measure another length than the best, with about as many sequences.
#[derive(Debug, Default)]
struct Looks {
    /// Steps since the last look.
    since: u32,
    /// Steps from one look to the next.
    period: u32,
    looks: u32,
    /// A length that is looked at, and for how many steps more.
    looking: Option<(u32, u32)>,
    /// The best length when it was last looked for another.
    best: u32,
    /// Steps for which the choice not to draft stands.
    idle: u32,
    /// Seconds that each token came earlier by a draft model in the last choices than without drafts, a mean in which
    /// later ones weigh more; None where nothing is known.
    saved: Option<f64>,
}

/// All ways; the first asks all sources.
#[derive(Debug)]
pub struct Ways {
    ways: Vec<Way>,
    passes: Passes,
    /// By class of sequences.
    looks: BTreeMap<u32, Looks>,
    best: usize,
    /// A way under trial, and the steps that it has left.
    trial: Option<(usize, u32)>,
    /// The way that was tried last.
    tried: usize,
    /// Steps since the last trial of a way that had been tried before.
    since: u32,
    period: u32,
    /// When one that was never tried has its turn, in steps as counted by `since`.
    soon: u32,
}

/// One sequence's draft in a step that is over. Forced tokens count as drafted, but not as asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastDraft {
    /// Tokens that were asked for beyond forced ones; where a source was late, those that there are.
    pub asked: u32,
    /// Forced tokens in the draft.
    pub forced: u32,
    /// Tokens in the draft.
    pub tokens: u32,
    /// A source was late, see [`Draft::late`](crate::exec::Draft::late).
    pub late: bool,
}

impl Ways {
    /// The ways through the guessing ones of `sources`, which are in their order; `probed`: see [`Passes::new`];
    /// `ragged`: differing lengths cost nothing extra.
    pub fn new(sources: &[DraftSource], probed: &[(u32, f64)], ragged: bool) -> Self {
        let guesses = |s: &&DraftSource| !matches!(s, DraftSource::Forced | DraftSource::Prediction);
        let chain: Vec<DraftSource> = sources.iter().filter(guesses).copied().collect();
        let later = (1..chain.len()).map(|i| &chain[i..]);
        let earlier = (1..chain.len()).rev().map(|i| &chain[..i]);
        let parts = std::iter::once(&chain[..]).chain(later).chain(earlier);
        let ways: Vec<_> = parts.map(|part| Way { sources: part.to_vec(), ..Way::default() }).collect();
        let (mut passes, looks) = (Passes::new(probed), BTreeMap::new());
        passes.ragged = ragged;
        // The first trial comes at once, of the first way.
        let (tried, since, period) = (ways.len() - 1, PERIODS.0, PERIODS.0);
        Ways { ways, passes, looks, best: 0, trial: None, tried, since, period, soon: 0 }
    }

    /// What is known of a way.
    pub fn get(&self, way: usize) -> &Way {
        &self.ways[way]
    }

    /// Whether `source` is asked for a sequence that allows these: where it allows none of the way's, all that it does.
    pub fn asks(&self, way: usize, source: DraftSource, allows: impl Fn(DraftSource) -> bool) -> bool {
        let ours = &self.ways[way].sources;
        let free = !self.ways[0].sources.contains(&source);
        allows(source) && (free || ours.contains(&source) || !ours.iter().any(|s| allows(*s)))
    }

    /// The way for a step and its draft lengths, forced tokens included; `prospects` tells those of the step's sequences
    /// by a way; `ragged`: differing lengths cost nothing extra.
    pub fn choose(&mut self, prospects: impl Fn(&Ways, usize) -> Vec<Prospect>) -> (usize, Vec<u32>) {
        // No way reaches further than the one that asks all.
        let all = prospects(self, 0);
        let n = all.len();
        if self.passes.none(n).is_none() || longest(&all) == 0 || self.stands(&all) {
            return (self.best, vec![0; n]);
        }
        let others = (1..self.ways.len()).map(|way| prospects(self, way));
        let mut of: Vec<Vec<Prospect>> = std::iter::once(all).chain(others).collect();
        if !self.passes.tells(n) {
            of.iter_mut().flatten().for_each(|p| p.most = p.most.min(FIRST));
        }
        let best_of = |(way, of): (&Way, &Vec<Prospect>)| way.best(of, &self.passes);
        let mut found: Vec<_> = self.ways.iter().zip(&of).map(best_of).collect();
        let speeds: Vec<f64> = found.iter().map(|(_, speed)| *speed).collect();
        let (way, trial) = self.next(&of, &speeds);
        let (lengths, speed) = found.swap_remove(way);
        let best = lengths.iter().max().copied().unwrap_or(0);
        if trial {
            let hoped = || self.ways[way].hopes(&of[way], &self.passes).0;
            return (way, if best > 0 { lengths } else { hoped() });
        }
        let without = self.without(n);
        let looks = self.looks.entry(class(n as u32)).or_default();
        // Nobody waits for the source that has to read prompts where others draft.
        let reads = self.ways[way].sources.contains(&DraftSource::DraftModel);
        let saved = if reads { (1.0 / without - 1.0 / speed).max(0.0) } else { 0.0 };
        looks.saved = Some(looks.saved.map_or(saved, |mean| mean + 0.1 * (saved - mean)));
        looks.idle = if best == 0 { IDLE } else { 0 };
        match looks.next(best, longest(&of[way])) {
            Some(other) if best == 0 && self.may_pay(way, &of[way], other) => (way, uniform(&of[way], other)),
            Some(other) if best > 0 => (way, changed(&lengths, &of[way], (best, other))),
            _ => (way, lengths),
        }
    }

    /// Whether it was chosen shortly ago not to draft, and there is neither a forced token nor a trial nor a look.
    fn stands(&mut self, prospects: &[Prospect]) -> bool {
        let looks = self.looks.entry(class(prospects.len() as u32)).or_default();
        let other = self.trial.is_some() || looks.looking.is_some();
        if looks.idle == 0 || other || prospects.iter().any(|p| p.forced > 0) {
            return false;
        }
        looks.idle -= 1;
        looks.since += 1;
        self.since += 1;
        true
    }

    /// Whether drafts of this length would pay if the pass took less than is thought.
    fn may_pay(&self, way: usize, prospects: &[Prospect], length: u32) -> bool {
        let way = &self.ways[way];
        let seconds = |asked| {
            let (drafting, pass) = way.parts(asked, &self.passes);
            let rows = asked.sequences as f64 + f64::from(asked.forced) + way.finds(asked);
            drafting + pass / if self.passes.reach(rows) { DOUBTS.0 } else { DOUBTS.1 }
        };
        speed(prospects, length, seconds) > self.without(prospects.len()) * (1.0 + LEAST_GAIN)
    }

    /// The way for a step, and whether that is a trial.
    fn next(&mut self, prospects: &[Vec<Prospect>], speeds: &[f64]) -> (usize, bool) {
        let best = (0..speeds.len()).max_by(|a, b| speeds[*a].total_cmp(&speeds[*b])).unwrap_or(0);
        if speeds[best] > speeds[self.best] * (1.0 + NOISE) {
            (self.best, self.period, self.since, self.soon) = (best, PERIODS.0, 0, SOON);
        }
        let least = speeds[self.best] * (1.0 + LEAST_GAIN);
        let promises = |way: usize| self.ways[way].hopes(&prospects[way], &self.passes).1 > least;
        if let Some((way, left)) = self.trial.take().filter(|(way, _)| promises(*way)) {
            self.trial = (left > 1).then_some((way, left - 1));
            return (way, true);
        }
        self.since += 1;
        let new = |way: usize| !self.ways[way].drafting.known();
        let again = self.since >= self.period;
        if !again && (self.since < self.soon || !(0..self.ways.len()).any(new)) {
            return (self.best, false);
        }
        // The best is tried, too, where it does not draft.
        let without = self.without(prospects[self.best].len());
        let other = |way: &usize| *way != self.best || speeds[*way] <= without;
        let after = (1..=self.ways.len()).map(|i| (self.tried + i) % self.ways.len()).filter(other);
        let tried = after.filter(|way| again || new(*way)).find(|way| promises(*way));
        if again {
            (self.since, self.period) = (0, (self.period * 2).min(PERIODS.1));
        }
        self.soon = self.since + SOON;
        let Some(tried) = tried else { return (self.best, false) };
        (self.tried, self.trial) = (tried, Some((tried, TRIAL_STEPS - 1)));
        (tried, true)
    }

    /// Tokens per second without drafts.
    fn without(&self, sequences: usize) -> f64 {
        self.passes.none(sequences).map_or(0.0, |seconds| sequences as f64 / seconds)
    }

    /// Whether drafts for one of `sequences` are worth a delay of so many seconds, if `tokens` are to come.
    pub fn pays(&self, sequences: usize, delay: f64, tokens: f64) -> bool {
        let saved = self.looks.get(&class(sequences as u32)).and_then(|looks| looks.saved);
        saved.is_none_or(|saved| saved * tokens > delay)
    }

    /// Learns from a step with these drafts by `way` what drafting took, and the pass where nothing else was in it.
    pub fn learn(
        &mut self,
        way: usize,
        drafts: &[PastDraft],
        (drafting, pass): (Duration, Option<Duration>),
    ) {
        if let Some(pass) = pass {
            let tokens = drafts.iter().map(|draft| draft.tokens).sum();
            self.passes.learn(drafts.len(), tokens, pass.as_secs_f64());
        }
        let asking = drafts.iter().filter(|draft| draft.asked > 0 && !draft.late);
        if let Some(longest) = asking.clone().map(|draft| draft.asked).max() {
            self.ways[way].drafting.learn(asking.count(), longest, drafting.as_secs_f64());
        }
    }

    /// Learns that `accepted` tokens of a draft by `way` were kept, forced ones left out; see [`Acceptance::learn`].
    pub fn accepted(&mut self, way: usize, draft: PastDraft, accepted: u32) {
        let way = &mut self.ways[way];
        way.acceptance.learn(accepted, accepted < draft.asked, Acceptance::OF_ALL);
        way.found.learn(draft.asked, draft.tokens - draft.forced);
    }
}

impl Looks {
    /// Another length than `best` to measure in this step, if it is time to.
    fn next(&mut self, best: u32, longest: u32) -> Option<u32> {
        if let Some((length, left)) = self.looking {
            self.looking = (left > 1).then_some((length, left - 1));
            return Some(length.min(longest));
        }
        if self.best.abs_diff(best) > 1 || (self.best == 0) != (best == 0) {
            (self.best, self.period) = (best, LOOKS.0);
        }
        self.period = self.period.max(LOOKS.0);
        self.since += 1;
        if self.since < self.period {
            return None;
        }
        self.since = 0;
        // Without drafts, what short ones would cost, and the longest, whose rows may cost hardly more; else twice as
        // much, the neighbours, and none.
        let others = match best {
            0 => [FIRST, longest, 1, longest],
            _ => [best * 2, best + 1, best - 1, 0],
        };
        let other = others[self.looks as usize % others.len()].min(longest);
        self.looks += 1;
        // Where drafts pay, each of them is measured before looks become rarer; where they don't, looks are dear.
        if best == 0 || self.looks.is_multiple_of(others.len() as u32) {
            self.period = (self.period * 2).min(LOOKS.1);
        }
        if other != best {
            self.looking = Some((other, if best > 0 { LOOK_STEPS } else { 2 } - 1));
        }
        (other != best).then_some(other)
    }
}

/// These lengths, with the longest of them `to` in place of `from`, and the others so much longer or at most so long.
fn changed(lengths: &[u32], prospects: &[Prospect], (from, to): (u32, u32)) -> Vec<u32> {
    let of = |(length, prospect): (&u32, &Prospect)| match *length {
        0 => 0,
        length => (length + to.saturating_sub(from)).min(to).min(prospect.most),
    };
    lengths.iter().zip(prospects).map(of).collect()
}

/// Whether the `i`th sequence, counted from 1, that a draft model is behind for is tried whatever it takes: the first
/// ones, then more and more rarely.
pub fn tried(i: u64) -> bool {
    i <= TRIED.0 || i.is_multiple_of((i.next_power_of_two() / 2).clamp(TRIED.0, TRIED.1))
}

#[cfg(test)]
mod tests;
