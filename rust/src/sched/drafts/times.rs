//! What passes take, learned from passes.

use super::Hope;
use std::collections::{BTreeMap, VecDeque};

/// Passes of about as many rows that are remembered: enough that some of them were not held up, and few enough that a
/// change shows soon.
const RECENT: usize = 8;
/// Of these the fastest that count: what holds a pass up never makes it faster, and on a busy machine one in five is held
/// up.
const UNDISTURBED: usize = 2;
/// The same of drafting, which takes a pass or none, so that the mean counts: the slowest alone are left out.
const DRAFTED: usize = 6;
/// Classes of rows in a power of two: passes of one class take about as long, and each is seen often.
const CLASSES: u32 = 4;
/// Steps until what was seen is fully doubted, at first: some seconds, in which texts may have changed.
const DOUBTED: f64 = 48.0;
/// The same at most, after looks in vain: then looks cost next to nothing.
const MOST_DOUBTED: f64 = 3072.0;
/// Steps until it is forgotten what passes took: some may all have been held up, by far more than doubts allow for.
const FORGOTTEN: u64 = 3072;

/// How far something is doubted, from 0 to 1: by how long ago it was seen, and how often a look was in vain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doubt {
    /// In steps. Every look brings it half way to the present.
    seen: f64,
    /// Steps until it is fully doubted.
    period: f64,
}

impl Default for Doubt {
    /// Full doubt.
    fn default() -> Self {
        Doubt { seen: f64::NEG_INFINITY, period: DOUBTED }
    }
}

impl Doubt {
    pub(super) fn at(&self, hope: Hope) -> f64 {
        hope.map_or(0.0, |now| ((now as f64 - self.seen) / self.period).min(1.0))
    }

    /// Takes a look; `doubted`: it is the best only if the doubt is right.
    pub(super) fn look(&mut self, now: u64, doubted: bool) {
        self.seen = now as f64 - self.period * self.at(Some(now)) / 2.0;
        self.period = if doubted { (self.period * 2.0).min(MOST_DOUBTED) } else { DOUBTED };
    }
}

/// Seconds by a number of rows: a probe's curve, and for each [`class`] of rows the factor that passes took longer. Without
/// a probe the curve is flat: more rows than were seen are thought to cost nothing, until they are seen.
#[derive(Debug)]
pub(super) struct Times {
    probed: Vec<(u32, f64)>,
    /// How many of [`RECENT`] passes count, the fastest.
    fastest: usize,
    seen: BTreeMap<u32, Seen>,
}

/// Passes of a class.
#[derive(Debug, Default)]
struct Seen {
    last: VecDeque<f64>,
    factor: f64,
    doubt: Doubt,
    /// The step of the last.
    step: u64,
}

impl Times {
    /// Of passes that take as long as they ever did, if nothing holds them up. `probed`: a probe's rows, rising, and seconds.
    pub(super) fn of_passes(probed: &[(u32, f64)]) -> Self {
        Times { probed: probed.to_vec(), fastest: UNDISTURBED, seen: BTreeMap::new() }
    }

    /// Of what takes a pass or none.
    pub(super) fn of_drafting() -> Self {
        Times { probed: Vec::new(), fastest: DRAFTED, seen: BTreeMap::new() }
    }

    /// Whether anything is known.
    pub(super) fn known(&self) -> bool {
        !self.probed.is_empty() || self.settled().next().is_some()
    }

    /// Seconds of a pass of so many rows.
    pub(super) fn of(&self, rows: u32) -> f64 {
        self.curve(rows) * self.factor(rows)
    }

    /// The probe's curve, on straight lines from one point to the next, the last of which goes on.
    fn curve(&self, rows: u32) -> f64 {
        let mut lines = self.probed.windows(2);
        let line = lines.find(|line| rows <= line[1].0).or(self.probed.windows(2).last());
        let Some([low, high]) = line else { return self.probed.first().map_or(1.0, |probed| probed.1) };
        low.1 + (high.1 - low.1) / f64::from(high.0 - low.0) * (f64::from(rows) - f64::from(low.0))
    }

    /// Classes that were seen more than once: a single pass that was held up would rule out what is never tried again.
    fn settled(&self) -> impl DoubleEndedIterator<Item = (u32, &Seen)> {
        self.seen.iter().filter(|(_, seen)| seen.last.len() > 1).map(|(class, seen)| (*class, seen))
    }

    /// How much longer passes of so many rows take than on the curve, on straight lines between classes that were seen.
    fn factor(&self, rows: u32) -> f64 {
        let at = class(rows);
        let low = self.settled().rfind(|(class, _)| *class <= at);
        let high = self.settled().find(|(class, _)| *class >= at);
        match (low, high) {
            (Some((low, a)), Some((high, b))) if low < high => {
                a.factor + (b.factor - a.factor) * f64::from(at - low) / f64::from(high - low)
            }
            (low, high) => low.or(high).map_or(1.0, |(_, seen)| seen.factor),
        }
    }

    /// How far it is doubted what passes of so many rows take: each as far as the next class that was seen.
    pub(super) fn doubt(&self, rows: &[u32], hope: Hope) -> f64 {
        let of = |rows: &u32| {
            self.seen.range(class(*rows)..).next().map_or(Doubt::default(), |(_, seen)| seen.doubt)
        };
        rows.iter().map(|rows| of(rows).at(hope)).fold(0.0, f64::max)
    }

    /// Learns what passes of so many rows took together. What is doubted changes with it, as far as it is doubted: a machine
    /// that became slower is slower everywhere.
    pub(super) fn learn(&mut self, rows: &[u32], seconds: f64, now: u64) {
        let old = self.seen.values_mut().filter(|seen| now > seen.step + FORGOTTEN);
        old.for_each(|seen| seen.last.clear());
        let slower = seconds.max(1e-9) / rows.iter().map(|rows| self.of(*rows)).sum::<f64>();
        for at in rows.iter().map(|rows| class(*rows)) {
            let before = self.factor(at);
            let guessed = self.settled().all(|(class, _)| class < at);
            let seen = self.seen.entry(at).or_default();
            seen.add(before * slower, self.fastest);
            seen.step = now;
            // More rows than were seen were a guess, and nothing has changed.
            let changed = if guessed { 1.0 } else { self.factor(at) / before };
            for (_, other) in self.seen.iter_mut().filter(|(class, _)| **class != at) {
                other.factor *= changed.powf(other.doubt.at(Some(now)));
            }
        }
    }

    /// Takes a look at passes of so many rows; see [`Doubt::look`].
    pub(super) fn look(&mut self, rows: &[u32], now: u64, doubted: bool) {
        for rows in rows {
            let Some(seen) = self.seen.get_mut(&class(*rows)) else { continue };
            if seen.doubt.at(Some(now)) == 1.0 && seen.last.len() > 1 {
                // What was so long ago is soon forgotten.
                seen.last = VecDeque::from([seen.factor; 2]);
            }
            seen.doubt.look(now, doubted);
        }
    }
}

impl Seen {
    fn add(&mut self, factor: f64, fastest: usize) {
        self.last.truncate(RECENT - 1);
        self.last.push_front(factor);
        let mut sorted = Vec::from_iter(self.last.iter().copied());
        sorted.sort_unstable_by(f64::total_cmp);
        // The same share of fewer.
        sorted.truncate((fastest * sorted.len()).div_ceil(RECENT));
        self.factor = sorted.iter().sum::<f64>() / sorted.len() as f64;
    }
}

/// The least number of rows of the same class: up to twice [`CLASSES`] each has one of its own.
fn class(rows: u32) -> u32 {
    let low = (rows / CLASSES).checked_ilog2().unwrap_or(0);
    rows >> low << low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_a_quarter_apart() {
        assert!((0..=8).all(|rows| class(rows) == rows));
        assert_eq!(
            [9, 10, 15, 16, 19, 20, 31, 32, 39, 100].map(class),
            [8, 10, 14, 16, 16, 20, 28, 32, 32, 96]
        );
    }

    #[test]
    fn passes_around_those_that_were_seen_follow_the_probe() {
        let about = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
        let probe = [(1, 0.010), (4, 0.016), (16, 0.040)];
        let mut times = Times::of_passes(&probe);
        assert!(about(times.of(8), 0.024) && about(times.of(28), 0.064));
        // A single one may have been held up.
        times.learn(&[1], 9.0, 1);
        assert!(about(times.of(1), 0.010));
        // Twice as long as the probe said, and so are others.
        (0..3).for_each(|_| times.learn(&[1], 0.020, 1));
        assert!(about(times.of(4), 0.032));
        // What was seen is believed, and tells what is in between.
        times.look(&[1], 1, false);
        (0..9).for_each(|_| times.learn(&[16], 0.040, 1));
        assert!(about(times.of(16), 0.040) && about(times.of(28), 0.064) && times.of(8) > 0.025, "{times:?}");
        // Two passes that took a fifth longer together.
        let expected = times.of(4) + times.of(8);
        (0..9).for_each(|_| times.learn(&[4, 8], 1.2 * expected, 1));
        assert!(about(times.of(4) + times.of(8), 1.2 * expected), "{}", times.of(4) + times.of(8));
    }

    #[test]
    fn what_is_doubted_changes_with_what_is_seen() {
        let mut times = Times::of_passes(&[(1, 0.010), (64, 0.040)]);
        for rows in [1, 8, 64] {
            (0..8).for_each(|_| times.learn(&[rows], 0.010, 0));
            times.look(&[rows], 0, false);
            times.look(&[rows], 0, false);
        }
        let before = times.of(64);
        times.look(&[8], 1000, true);
        (0..8).for_each(|_| times.learn(&[8], 0.030, 1000));
        assert!(times.of(64) > 2.0 * before && times.of(1) > 0.02, "{} {}", times.of(64), times.of(1));
    }
}
