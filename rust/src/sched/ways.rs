//! Which sources of drafts a step asks.
//!
//! Sources draft one after the other, each for what may follow the drafts of those before it. So one that guesses worse
//! takes the places that a later one would fill better, and one that is slow may not be worth its time in a large batch:
//! the configured order says nothing of either. A [`Way`] is a part of the chain, from its beginning or to its end. Each
//! way learns what its steps take and how much of its drafts is accepted, and the one with the most expected tokens per
//! second is taken. An untried way is thought to take what the cheapest other one does. Now and then another than the best
//! has a few steps, with a short draft where none would seem to pay, more and more rarely as long as the best stays the
//! same.
//!
//! Sources that a client's request brings along (forced tokens, its prediction) belong to no way: they are always asked.

use super::draft_len::{FIRST, Lengths, NOISE, Prior, Prospect};
use crate::config::DraftSource;
use crate::sequence::Acceptance;
use std::time::Duration;

/// Steps from one trial of another way to the next, at first and at most; and the steps of a trial: in the first ones a
/// source may still have to catch up.
const PERIODS: (u32, u32) = (48, 3072);
const TRIAL_STEPS: u32 = 4;

/// Some of the sources, in their order, and what is known of drafting by them.
#[derive(Debug, Default)]
pub struct Way {
    sources: Vec<DraftSource>,
    /// Lengths, and what steps take.
    pub lengths: Lengths,
    /// How much is accepted, over all sequences.
    pub acceptance: Acceptance,
}

/// All ways; the first asks all sources.
#[derive(Debug)]
pub struct Ways {
    ways: Vec<Way>,
    best: usize,
    /// A way under trial, and the steps that it has left.
    trial: Option<(usize, u32)>,
    /// The way that was tried last.
    tried: usize,
    since: u32,
    period: u32,
}

impl Ways {
    /// The ways through the guessing ones of `sources`, which are in their order.
    pub fn new(sources: &[DraftSource]) -> Self {
        let guesses = |s: &&DraftSource| !matches!(s, DraftSource::Forced | DraftSource::Prediction);
        let chain: Vec<DraftSource> = sources.iter().filter(guesses).copied().collect();
        let later = (1..chain.len()).map(|i| &chain[i..]);
        let earlier = (1..chain.len()).rev().map(|i| &chain[..i]);
        let parts = std::iter::once(&chain[..]).chain(later).chain(earlier);
        let ways = parts.map(|part| Way { sources: part.to_vec(), ..Way::default() }).collect();
        Ways { ways, best: 0, trial: None, tried: 0, since: 0, period: PERIODS.0 }
    }

    /// What is known of a way.
    pub fn get(&self, way: usize) -> &Way {
        &self.ways[way]
    }

    /// The way that is the best as far as known.
    pub fn best(&self) -> &Way {
        &self.ways[self.best]
    }

    /// Whether `source` is asked for a sequence that allows these: where it allows none of the way's, all that it does.
    pub fn asks(&self, way: usize, source: DraftSource, allows: impl Fn(DraftSource) -> bool) -> bool {
        let ours = &self.ways[way].sources;
        let free = !self.ways[0].sources.contains(&source);
        allows(source) && (free || ours.contains(&source) || !ours.iter().any(|s| allows(*s)))
    }

    /// The way for a step and its draft lengths; `prospects` tells those of the step's sequences by a way.
    pub fn choose(
        &mut self,
        prospects: impl Fn(&Ways, usize) -> Vec<Prospect>,
        ragged: bool,
    ) -> (usize, Vec<u32>) {
        let of: Vec<Vec<Prospect>> = (0..self.ways.len()).map(|way| prospects(self, way)).collect();
        let priors = self.priors(&of);
        let (way, trial) = match self.ways.len() {
            1 => (0, false),
            _ => self.next(&of, ragged, &priors),
        };
        (way, self.ways[way].lengths.choose(&of[way], ragged, &priors[way], trial))
    }

    /// What each way's steps may take, by others of its own or else by the cheapest way's.
    fn priors(&self, prospects: &[Vec<Prospect>]) -> Vec<Prior> {
        let longest = prospects.iter().flatten().map(|p| p.most).max().unwrap_or(0).max(FIRST);
        let of = |(way, of): (&Way, &Vec<Prospect>)| way.lengths.prior(of.len(), longest);
        let own: Vec<Prior> = self.ways.iter().zip(prospects).map(of).collect();
        let price = |prior: &&Prior| prior[FIRST as usize];
        let known = own.iter().filter(|prior| !prior.is_empty());
        let cheapest = known.min_by(|a, b| price(a).total_cmp(&price(b))).cloned().unwrap_or_default();
        own.into_iter().map(|prior| if prior.is_empty() { cheapest.clone() } else { prior }).collect()
    }

    /// The way for a step, and whether that is a trial.
    fn next(&mut self, prospects: &[Vec<Prospect>], ragged: bool, priors: &[Prior]) -> (usize, bool) {
        let each = self.ways.iter().zip(prospects).zip(priors);
        let speeds: Vec<f64> =
            each.map(|((way, of), prior)| way.lengths.expected(of, ragged, prior)).collect();
        let best = (0..speeds.len()).max_by(|a, b| speeds[*a].total_cmp(&speeds[*b])).unwrap_or(0);
        if speeds[best] > speeds[self.best] * (1.0 + NOISE) {
            (self.best, self.period, self.since) = (best, PERIODS.0, 0);
        }
        if let Some((way, left)) = self.trial {
            self.trial = (left > 1).then_some((way, left - 1));
            return (way, true);
        }
        self.since += 1;
        if self.since < self.period {
            return (self.best, false);
        }
        (self.since, self.period) = (0, (self.period * 2).min(PERIODS.1));
        let after = |way| (way + 1) % self.ways.len();
        self.tried = after(self.tried);
        if self.tried == self.best {
            self.tried = after(self.tried);
        }
        self.trial = Some((self.tried, TRIAL_STEPS - 1));
        (self.tried, true)
    }

    /// Learns that a step of nothing but these drafts by `way` took this long. Without drafts all ways are the same.
    pub fn learn(&mut self, way: usize, lengths: &[u32], took: Duration) {
        let drafted = lengths.iter().any(|length| *length > 0);
        let same = self.ways.iter_mut().enumerate().filter(|(i, _)| !drafted || *i == way);
        same.for_each(|(_, way)| way.lengths.learn(lengths, took));
    }

    /// Learns that `accepted` tokens of a draft by `way` were kept; see [`Acceptance::learn`].
    pub fn accepted(&mut self, way: usize, accepted: u32, stopped: bool) {
        self.ways[way].acceptance.learn(accepted, stopped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DraftSource::{DraftModel, Forced, MlpSpeculator, Prediction, PromptLookup};

    /// What drafting by a way is really like: acceptance, and a drafted token's cost in steps.
    type Truth = fn(&[DraftSource]) -> (f64, f64);

    /// Runs steps of four sequences; how often each way was taken in the second half.
    fn run(ways: &mut Ways, steps: u32, truth: Truth) -> Vec<u32> {
        let mut taken = vec![0; ways.ways.len()];
        for step in 0..steps {
            let of = |ways: &Ways, way: usize| {
                let rate = ways.get(way).acceptance.rate(Acceptance::UNKNOWN);
                vec![Prospect { forced: 0, rate, most: 6 }; 4]
            };
            let (way, lengths) = ways.choose(of, false);
            let (rate, cost) = truth(&ways.ways[way].sources);
            let length = lengths[0];
            let seconds = 0.01 * (1.0 + f64::from(length) * (0.1 + cost));
            ways.learn(way, &lengths, Duration::from_secs_f64(seconds));
            // Of the draft, as many as are kept on average.
            let kept = (1..=length).map(|i| rate.powi(i.cast_signed())).sum::<f64>();
            if length > 0 {
                let spare = f64::from(step % 10) / 10.0;
                let accepted = (kept + spare).floor() as u32;
                ways.accepted(way, accepted.min(length), accepted < length);
            }
            taken[way] += u32::from(step > steps / 2);
        }
        taken
    }

    fn with(source: DraftSource) -> impl Fn(&Ways) -> usize {
        move |ways| ways.ways.iter().position(|way| way.sources == [source]).unwrap()
    }

    #[test]
    fn ways_are_the_parts_from_the_beginning_and_to_the_end() {
        let ways = Ways::new(&[Forced, Prediction, PromptLookup, MlpSpeculator, DraftModel]);
        let of: Vec<_> = ways.ways.iter().map(|way| way.sources.clone()).collect();
        assert_eq!(
            of,
            [
                vec![PromptLookup, MlpSpeculator, DraftModel],
                vec![MlpSpeculator, DraftModel],
                vec![DraftModel],
                vec![PromptLookup, MlpSpeculator],
                vec![PromptLookup],
            ]
        );
        assert_eq!(Ways::new(&[Forced]).ways.len(), 1);
    }

    #[test]
    fn a_better_source_is_not_kept_waiting_by_a_worse_one() {
        let truth: Truth = |sources| (if sources == [DraftModel] { 0.95 } else { 0.6 }, 0.02);
        let mut ways = Ways::new(&[MlpSpeculator, DraftModel]);
        let taken = run(&mut ways, 2000, truth);
        assert!(taken[with(DraftModel)(&ways)] > 900, "{taken:?}");
    }

    #[test]
    fn a_source_that_became_slow_is_given_up() {
        let fast: Truth = |sources| (if sources == [DraftModel] { 0.95 } else { 0.6 }, 0.02);
        let slow: Truth = |sources| match sources.contains(&DraftModel) {
            true => (0.95, 0.9),
            false => (0.6, 0.02),
        };
        let mut ways = Ways::new(&[MlpSpeculator, DraftModel]);
        run(&mut ways, 500, fast);
        let taken = run(&mut ways, 8000, slow);
        assert!(taken[with(MlpSpeculator)(&ways)] > 3500, "{taken:?}");
    }

    #[test]
    fn a_request_that_allows_nothing_of_the_way_has_what_it_allows() {
        let ways = Ways::new(&[Forced, PromptLookup, DraftModel]);
        let way = with(DraftModel)(&ways);
        assert!(ways.asks(way, PromptLookup, |source| source == PromptLookup));
        assert!(!ways.asks(way, PromptLookup, |_| true));
        assert!(ways.asks(way, Forced, |_| true) && !ways.asks(way, Forced, |source| source != Forced));
    }

    /// How much faster than without drafts the first `steps` steps of 8 to 16 sequences are. `truth`: of the ways;
    /// `costs`: seconds of a step and, beside that, of each row of it.
    fn speedup(steps: u32, truth: Truth, (fixed, row): (f64, f64)) -> f64 {
        let mut ways = Ways::new(&[PromptLookup, MlpSpeculator, DraftModel]);
        let mut random = 0x5eed_u64;
        let mut chance = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 40) as f64 / f64::from(1 << 24)
        };
        let (mut spent, mut plain) = (0.0, 0.0);
        for step in 0..steps {
            let n = 16 - (step / 5 % 9) as usize;
            let of = |ways: &Ways, way: usize| {
                let rate = ways.get(way).acceptance.rate(Acceptance::UNKNOWN);
                let most = if ways.get(way).sources == [MlpSpeculator] { 3 } else { 10 };
                vec![Prospect { forced: 0, rate, most }; n]
            };
            let (way, lengths) = ways.choose(of, false);
            let (rate, cost) = truth(&ways.ways[way].sources);
            let rows = row * n as f64;
            let seconds = fixed + rows + rows * f64::from(lengths[0]) * (1.0 + cost);
            // One step in five is held up, as on a busy machine.
            let noise = (0.9 + 0.2 * chance()) * if chance() < 0.2 { 1.0 + 3.0 * chance() } else { 1.0 };
            ways.learn(way, &lengths, Duration::from_secs_f64(seconds * noise));
            spent += seconds;
            for length in lengths {
                let kept = (0..length).take_while(|_| chance() < rate).count() as u32;
                if length > 0 {
                    ways.accepted(way, kept, kept < length);
                }
                plain += (fixed + rows) / n as f64 * f64::from(1 + kept);
            }
        }
        plain / spent
    }

    #[test]
    fn trials_cost_little_where_nothing_pays_and_find_what_does() {
        let truth: Truth = |sources| match sources {
            [PromptLookup] => (0.35, 0.05),
            [MlpSpeculator] => (0.8, 0.2),
            [DraftModel] => (0.85, 0.5),
            [PromptLookup, MlpSpeculator] => (0.6, 0.15),
            [MlpSpeculator, DraftModel] => (0.82, 0.5),
            _ => (0.65, 0.5),
        };
        // As on the demo pair, where a drafted token takes what a generated one does; then a target where it does not.
        let (small, large) = ((0.0002, 0.0004), (0.02, 0.001));
        let found = [(300, small), (3000, small), (1500, large)].map(|(n, costs)| speedup(n, truth, costs));
        assert!(found[0] > 0.85 && found[1] > 0.97 && found[2] > 1.05, "{found:?}");
    }
}
