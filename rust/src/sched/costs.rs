//! What steps with drafts take, learned from steps.
//!
//! A step is drafting and a pass of the target. Passes are told apart by sequences and by tokens that were really drafted
//! ([`Passes`]), whoever drafted them: a source may find nothing in most steps, and those are quick. Drafting is told
//! apart by source, see [`Drafting`].
//!
//! What was not measured yet follows the passes' rows: one sequence with three drafted tokens takes about as long as four
//! sequences without. So what an engine's probe at start or other numbers of sequences have shown tells whether longer
//! drafts can pay before any was tried, and what none take before that was measured; with what was measured itself, the
//! curve is only the shape in between.

use std::collections::{BTreeMap, VecDeque};

/// Steps that are remembered of a kind.
const RECENT: usize = 8;
/// Steps without drafts that are measured for a number of sequences before they are believed; without a probe, before any
/// with drafts.
const PLAIN: usize = 3;
/// A drafted token costs at least this share of a step without drafts: masks, sampling, the row itself.
pub(super) const LEAST_COST: f64 = 0.01;
/// Beyond the most rows measured, each row is thought to cost this share of what those before did: optimistic, so that
/// it is tried.
const BEYOND: f64 = 0.5;
/// So much of some rows is about as many.
const NEAR: f64 = 0.75;
/// Share of the sequences from which on those with drafts are taken for neighbours.
const CROWD: f64 = 0.5;
/// Parts of a token in which few drafted tokens are told apart.
const PARTS: f64 = 4.0;

/// Seconds of the last [`RECENT`] steps of a kind.
///
/// What holds a step up never makes it faster, and on a busy machine one step in five is held up, for as long as several
/// take. In a mean of a few such steps, some length always seems cheap: of two lengths that take the same, the better one
/// is the one that was lucky. So a kind takes what its fastest steps did, but for one of eight, which may be an error.
#[derive(Debug, Default)]
struct Recent {
    seconds: VecDeque<f64>,
    cost: f64,
}

/// Adds to the last `most` measurements; these, from the fastest on.
fn remember(recent: &mut VecDeque<f64>, most: usize, seconds: f64) -> Vec<f64> {
    if recent.len() == most {
        recent.pop_front();
    }
    recent.push_back(seconds);
    let mut sorted: Vec<f64> = recent.iter().copied().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

impl Recent {
    fn add(&mut self, seconds: f64) {
        let sorted = remember(&mut self.seconds, RECENT, seconds.max(1e-9));
        self.cost = sorted[sorted.len() / RECENT];
    }

    /// Whether it was measured more than once: a single step that was held up would rule out what is never tried again.
    fn settled(&self) -> bool {
        self.seconds.len() > 1
    }
}

/// Measured steps by what tells them apart.
type Measured = BTreeMap<u32, Recent>;

/// The nearest settled measurements at or below `at` and at or above it.
fn around(measured: &Measured, at: f64) -> [Option<(f64, f64)>; 2] {
    let settled = |(_, recent): &(&u32, &Recent)| recent.settled();
    let value = |(key, recent): (&u32, &Recent)| (f64::from(*key), recent.cost);
    let below = measured.range(..=at.floor() as u32).rfind(settled);
    [below.map(value), measured.range(at.ceil() as u32..).find(settled).map(value)]
}

/// Seconds at `at`: those measured, and in between and beyond what follows the curve `shape`; None where nothing was
/// measured.
fn follow(measured: &Measured, at: f64, shape: impl Fn(f64) -> f64) -> Option<f64> {
    // How the measurements differ from the curve.
    let differs = |(key, seconds): (f64, f64)| seconds / shape(key);
    let differs = match around(measured, at) {
        [Some(low), Some(high)] if low.0 < high.0 => {
            let part = (at - low.0) / (high.0 - low.0);
            differs(low) * (1.0 - part) + differs(high) * part
        }
        [low, high] => differs(low.or(high)?),
    };
    Some(shape(at) * differs)
}

/// Seconds at `at` on straight lines from one measurement to the next; beyond the last one, they rise half as fast as up
/// to there.
fn line(measured: &Measured, at: f64) -> Option<f64> {
    match around(measured, at) {
        [Some(last), None] => {
            let [_, first] = around(measured, 0.0);
            let slope = first.filter(|first| first.0 < last.0);
            let slope = slope.map_or(0.0, |first| (last.1 - first.1).max(0.0) / (last.0 - first.0));
            Some(last.1 + BEYOND * slope * (at - last.0))
        }
        _ => follow(measured, at, |_| 1.0),
    }
}

/// What the target's passes take.
#[derive(Debug, Default)]
pub struct Passes {
    /// By rows, at start.
    probed: Measured,
    /// By [`class`] of rows, whatever they are.
    rows: Measured,
    /// By [`class`] of sequences, and by drafted tokens (mean over the sequences, in [`PARTS`] of a token).
    drafted: BTreeMap<u32, Measured>,
    /// Differing lengths cost nothing extra.
    pub(super) ragged: bool,
}

impl Passes {
    /// Knows what an engine's probe at start has shown: seconds of passes with so many rows.
    pub fn new(probed: &[(u32, f64)]) -> Self {
        let mut passes = Passes::default();
        for (rows, seconds) in probed {
            // The best of some.
            let recent = passes.probed.entry(*rows).or_default();
            [seconds; 2].into_iter().for_each(|seconds| recent.add(*seconds));
        }
        passes
    }

    /// Seconds of a pass of `sequences` without drafts. Everything is compared with them, and a single one may have been
    /// held up: before a few were measured it is what a probe says of so many rows, and None without a probe.
    pub fn none(&self, sequences: usize) -> Option<f64> {
        let none = self.drafted.get(&class(sequences as u32)).and_then(|measured| measured.get(&0));
        match none.filter(|none| none.seconds.len() >= PLAIN) {
            Some(none) => Some(none.cost),
            None => (!self.probed.is_empty()).then(|| self.by_rows(sequences as f64)),
        }
    }

    /// Whether anything tells what drafts for `sequences` may take.
    pub fn tells(&self, sequences: usize) -> bool {
        let measured = self.drafted.get(&class(sequences as u32));
        self.probed.len() > 1 || self.rows.len() > 1 || measured.is_some_and(|measured| measured.len() > 1)
    }

    /// Seconds of a pass of `sequences` with `drafted` tokens each; None where [`none`](Self::none) is.
    pub fn at(&self, sequences: usize, drafted: f64) -> Option<f64> {
        let none = self.none(sequences)?;
        let shape = |parts: f64| self.by_rows(sequences as f64 * (1.0 + parts / PARTS));
        let at = drafted * PARTS;
        let measured = self.drafted.get(&class(sequences as u32));
        let seconds = measured.and_then(|measured| follow(measured, at, shape)).unwrap_or_else(|| shape(at));
        // What made the most drafted tokens that were measured dearer than so many rows, as gaps between slots, may be
        // there once, and not for each token.
        let seconds = match measured.map(|measured| around(measured, at)) {
            Some([Some(most), None]) => seconds.min(most.1 + shape(at) - shape(most.0)),
            _ => seconds,
        };
        Some(seconds.max(none * (1.0 + LEAST_COST * drafted)))
    }

    /// Least seconds of a pass in which `finders` of the sequences, wherever they are, have drafts of `each` tokens: where
    /// differing lengths cost passes, one of a token for each sequence, and one for each run of neighbours with drafts. 0
    /// where they cost none, or where so many have drafts that most are neighbours.
    pub fn apart(&self, sequences: usize, finders: f64, each: f64) -> f64 {
        let n = sequences as f64;
        if self.ragged || finders > n * CROWD {
            return 0.0;
        }
        let runs = (finders * (1.0 - finders / n)).max(1.0);
        self.by_rows(n) + runs * self.by_rows(each)
    }

    /// Whether steps with about as many rows, or more, were measured.
    pub fn reach(&self, rows: f64) -> bool {
        self.rows.range(class((rows * NEAR) as u32)..).any(|(_, recent)| recent.settled())
    }

    /// Seconds of a pass with so many rows, or any constant where nothing tells one number of them from another.
    pub(super) fn by_rows(&self, rows: f64) -> f64 {
        let probed = |rows: f64| line(&self.probed, rows).unwrap_or(1.0);
        match self.probed.is_empty() {
            true => line(&self.rows, rows).unwrap_or(1.0),
            false => follow(&self.rows, rows, probed).unwrap_or_else(|| probed(rows)),
        }
    }

    /// Learns that a pass of `sequences` with so many drafted tokens in all took this long.
    pub fn learn(&mut self, sequences: usize, drafted: u32, seconds: f64) {
        let mean = f64::from(drafted) / sequences.max(1) as f64;
        // Where sources seldom find something, parts of a token count; further up, noise is more than a part costs.
        let parts = if mean < 1.0 { (mean * PARTS).round() } else { mean.round() * PARTS };
        let measured = self.drafted.entry(class(sequences as u32)).or_default();
        measured.entry(parts as u32).or_default().add(seconds);
        self.rows.entry(class(sequences as u32 + drafted)).or_default().add(seconds);
    }
}

/// Seconds that a source, or several one after the other, take for a token of all sequences that ask.
///
/// A token may be found at once or take a pass of a model, and the mean is what counts; but for one of eight, which may
/// have been held up.
#[derive(Debug, Default)]
pub struct Drafting {
    /// By class of sequences that ask: of the last steps, and their mean.
    seconds: BTreeMap<u32, (VecDeque<f64>, f64)>,
}

/// Steps whose drafting is remembered, for each number of sequences.
const DRAFTING: usize = 16;

impl Drafting {
    /// Whether anything was measured.
    pub fn known(&self) -> bool {
        !self.seconds.is_empty()
    }

    /// Seconds of a token for `asking` sequences, by the nearest number of them that was measured; 0 where nothing was.
    /// `passes` tell how much longer more sequences take.
    pub fn per_token(&self, asking: usize, passes: &Passes) -> f64 {
        let wanted = class(asking as u32);
        match self.seconds.iter().min_by_key(|(class, _)| class.abs_diff(wanted)) {
            None => 0.0,
            Some((near, (_, mean))) if *near == wanted => *mean,
            Some((near, (_, mean))) => {
                mean * passes.by_rows(f64::from(wanted)) / passes.by_rows(f64::from(*near))
            }
        }
    }

    /// Learns that up to `length` tokens for each of `asking` sequences took this long.
    pub fn learn(&mut self, asking: usize, length: u32, seconds: f64) {
        let (recent, mean) = self.seconds.entry(class(asking as u32)).or_default();
        let mut sorted = remember(recent, DRAFTING, seconds / f64::from(length.max(1)));
        sorted.truncate(sorted.len() - sorted.len() / RECENT);
        *mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
    }
}

/// Up to 8 sequences or rows one by one, then in classes a quarter apart.
pub fn class(n: u32) -> u32 {
    if n <= 8 {
        return n;
    }
    let power = n.ilog2();
    n >> (power - 2) << (power - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-6
    }

    #[test]
    fn rows_tell_what_drafts_may_take_before_any_was_measured() {
        let mut passes = Passes::new(&[(1, 0.010), (4, 0.016), (16, 0.040)]);
        assert!(passes.tells(1) && !Passes::default().tells(1));
        assert!(Passes::default().at(1, 3.0).is_none());
        assert!(about(passes.none(8).unwrap(), 0.024) && about(passes.at(1, 3.0).unwrap(), 0.016));
        (0..3).for_each(|_| passes.learn(1, 0, 0.020));
        // Twice as long as the probe said, with drafts as without.
        assert!(about(passes.at(1, 3.0).unwrap(), 0.032) && about(passes.at(1, 9.0).unwrap(), 0.056));
        // Beyond the largest pass each row takes half as much as those before: a guess that is tried.
        assert!(about(passes.at(1, 25.0).unwrap(), 2.0 * (0.040 + 0.5 * 0.002 * 10.0)));
        // What was measured is believed, and tells the passes around it from their rows.
        (0..2).for_each(|_| passes.learn(1, 9, 0.112));
        assert!(about(passes.at(1, 9.0).unwrap(), 0.112));
        assert!((0.032..0.07).contains(&passes.at(1, 3.0).unwrap()));
    }

    #[test]
    fn what_a_pass_takes_once_is_not_taken_for_each_token() {
        let mut passes = Passes::new(&[(1, 0.010), (4, 0.016), (16, 0.040)]);
        // As often as others with so many rows take what the probe said, these take 0.020 more.
        (0..3).for_each(|_| passes.learn(8, 0, 0.044));
        (0..RECENT).for_each(|_| passes.learn(1, 7, 0.024));
        (0..RECENT).for_each(|_| passes.learn(2, 14, 0.040));
        assert!(about(passes.none(8).unwrap(), 0.044) && about(passes.at(8, 1.0).unwrap(), 0.060));
    }

    #[test]
    fn a_step_that_was_held_up_rules_nothing_out() {
        let mut passes = Passes::default();
        passes.learn(2, 0, 1.0);
        assert!(passes.none(2).is_none());
        (0..2).for_each(|_| passes.learn(2, 0, 0.01));
        assert!(about(passes.none(2).unwrap(), 0.01));
        passes.learn(2, 4, 1.0);
        assert!(passes.at(2, 2.0).unwrap() < 0.011);
        passes.learn(2, 4, 0.02);
        assert!(about(passes.at(2, 2.0).unwrap(), 0.02));
        // A single fast one of many is an error.
        (0..RECENT).for_each(|_| passes.learn(2, 4, 0.03));
        passes.learn(2, 4, 0.001);
        assert!(about(passes.at(2, 2.0).unwrap(), 0.03));
    }

    #[test]
    fn few_drafts_in_many_sequences_take_a_pass_of_their_own() {
        let mut passes = Passes::new(&[(1, 0.010), (4, 0.040), (16, 0.080)]);
        let near = |passes: &Passes, finders, each, seconds| about(passes.apart(16, finders, each), seconds);
        assert!(near(&passes, 1.0, 4.0, 0.080 + 0.040) && near(&passes, 4.0, 4.0, 0.080 + 3.0 * 0.040));
        assert!(passes.apart(16, 12.0, 4.0) == 0.0 && passes.apart(1, 1.0, 4.0) == 0.0);
        passes.ragged = true;
        assert!(passes.apart(16, 1.0, 4.0) == 0.0);
    }

    #[test]
    fn few_drafted_tokens_are_told_apart() {
        let mut passes = Passes::default();
        (0..3).for_each(|_| passes.learn(8, 0, 0.01));
        (0..2).for_each(|_| passes.learn(8, 2, 0.02));
        (0..2).for_each(|_| passes.learn(8, 8, 0.03));
        assert!(about(passes.at(8, 0.25).unwrap(), 0.02) && about(passes.at(8, 1.0).unwrap(), 0.03));
    }

    #[test]
    fn drafting_takes_its_mean_and_follows_the_number_of_sequences() {
        let (mut drafting, passes) =
            (Drafting::default(), Passes::new(&[(1, 0.010), (4, 0.016), (16, 0.040)]));
        assert!(!drafting.known() && drafting.per_token(4, &passes) == 0.0);
        // A pass in every second step, and one of eight that was held up.
        for step in 0..DRAFTING {
            let seconds = if step % 8 == 7 { 9.0 } else { 0.008 * (step % 2) as f64 };
            drafting.learn(4, 4, seconds);
        }
        let mean = 0.002 * 6.0 / 14.0;
        assert!(drafting.known() && about(drafting.per_token(4, &passes), mean));
        assert!(about(drafting.per_token(16, &passes), mean * 40.0 / 16.0));
    }
}
