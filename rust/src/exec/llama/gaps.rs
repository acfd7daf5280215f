//! Which gaps between slots are filled.
//!
//! In the slots layout a pass takes consecutive slots and pieces of equal length. Where two runs of one length have idle
//! slots between them, these may get as many tokens, which go again after the pass: rows computed for nothing, in place of
//! another pass over the weights. Which is cheaper differs from machine to machine, and not by a fixed price of a row: on
//! one, 1, 4, 8 and 16 rows take 1, 4.3, 4.5 and 7.6 times as long as one, so that a gap between two single rows is not
//! worth filling, and those between eight are. So the cheapest of all ways is taken, for the times that the probe measured.

use crate::exec::pace::on_lines;

/// Seconds of passes by their rows, measured.
#[derive(Debug, Default)]
pub(super) struct Times(Vec<(u32, f64)>);

impl Times {
    /// Of these rows and seconds, in rising order.
    pub(super) fn new(measured: &[(u32, f64)]) -> Self {
        Times(measured.to_vec())
    }

    fn of(&self, rows: u32) -> f64 {
        on_lines(&self.0, f64::from(rows))
    }
}

/// Rows of each pass that the library makes of runs (slot and tokens, by rising slots), where the gaps that `filled` names
/// are filled: always of consecutive slots, as long as the shortest of their runs reaches (`llama_batch_allocr::split_equal`).
pub(super) fn passes(runs: &[(u32, u32)], filled: &[bool]) -> Vec<u32> {
    let mut left: Vec<(u32, u32)> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        left.push(*run);
        if filled.get(i) == Some(&true) {
            left.extend((run.0 + 1..runs[i + 1].0).map(|slot| (slot, run.1)));
        }
    }
    let mut passes = Vec::new();
    while let Some(first) = left.iter().position(|(_, tokens)| *tokens > 0) {
        let next = |i: &usize| left[*i].1 > 0 && left[*i].0 as usize == left[first].0 as usize + i - first;
        let last = (first..left.len()).take_while(next).last().unwrap_or(first);
        let shortest = left[first..=last].iter().map(|(_, tokens)| *tokens).min().unwrap_or(0);
        left[first..=last].iter_mut().for_each(|(_, tokens)| *tokens -= shortest);
        passes.push((last - first + 1) as u32 * shortest);
    }
    passes
}

/// Runs in consecutive slots: a pass of their own, or several where their lengths differ.
#[derive(Debug, Clone, Copy)]
struct Block {
    first: u32,
    last: u32,
    /// Tokens of each run; None where they differ.
    each: Option<u32>,
}

/// For each but the last of `runs` (slot and tokens, by rising slots), whether the gap after it is to be filled; `fits`
/// tells whether a slot has room for so many tokens.
pub(super) fn filled(runs: &[(u32, u32)], times: &Times, fits: impl Fn(u32, u32) -> bool) -> Vec<bool> {
    let mut blocks: Vec<Block> = Vec::new();
    for &(slot, tokens) in runs {
        match blocks.last_mut().filter(|block| block.last + 1 == slot) {
            Some(block) => (block.last, block.each) = (slot, block.each.filter(|each| *each == tokens)),
            None => blocks.push(Block { first: slot, last: slot, each: Some(tokens) }),
        }
    }
    let joined = join(&blocks, times, fits);
    let after = |slot: u32| blocks.iter().zip(&joined).any(|(block, joined)| *joined && block.last == slot);
    runs.iter().take(runs.len().saturating_sub(1)).map(|(slot, _)| after(*slot)).collect()
}

/// For each block, whether it shares a pass with the next in the cheapest way to compute all.
fn join(blocks: &[Block], times: &Times, fits: impl Fn(u32, u32) -> bool) -> Vec<bool> {
    // Of the first so many blocks: seconds, and blocks before the last pass.
    let mut best = vec![(0.0, 0)];
    for (end, last) in blocks.iter().enumerate() {
        // Alone; where lengths differ that takes whatever it takes.
        let alone = last.each.map_or(0.0, |each| times.of((last.last - last.first + 1) * each));
        let mut cheapest = (best[end].0 + alone, end);
        for begin in (0..end).rev() {
            let Some(each) = last.each.filter(|_| blocks[begin].each == last.each) else { break };
            if !(blocks[begin].last + 1..blocks[begin + 1].first).all(|slot| fits(slot, each)) {
                break;
            }
            let seconds = best[begin].0 + times.of((last.last - blocks[begin].first + 1) * each);
            if seconds < cheapest.0 {
                cheapest = (seconds, begin);
            }
        }
        best.push(cheapest);
    }
    let mut joined = vec![false; blocks.len()];
    let mut end = blocks.len();
    while end > 0 {
        let begin = best[end].1;
        joined[begin..end - 1].fill(true);
        end = begin;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn machine() -> Times {
        Times::new(&[(1, 10.0), (4, 45.0), (16, 77.0)])
    }

    #[test]
    fn times_follow_what_was_measured() {
        let near = |rows: u32, seconds: f64| (machine().of(rows) - seconds).abs() < 1e-9;
        assert!(near(1, 10.0) && near(4, 45.0) && near(10, 61.0) && near(16, 77.0));
        assert!(near(31, 10.0 + 30.0 * 67.0 / 15.0) && near(2, 10.0 + 35.0 / 3.0));
        assert!(Times::default().of(3) == 0.0);
    }

    #[test]
    fn a_gap_is_filled_where_that_is_cheaper() {
        let every_second = |n: u32| (0..n).map(|i| (2 * i, 1)).collect::<Vec<_>>();
        let any = |_, _| true;
        assert_eq!(filled(&every_second(2), &machine(), any), [false]);
        assert_eq!(filled(&every_second(8), &machine(), any), [true; 7]);
        // Many rows each: rows for nothing cost more than passes.
        let long: Vec<_> = every_second(8).iter().map(|(slot, _)| (*slot, 11)).collect();
        assert_eq!(filled(&long, &machine(), any), [false; 7]);
        // A full slot in a gap, runs of other lengths, no measurements.
        assert!(!filled(&every_second(8), &machine(), |slot, _| slot != 7)[3]);
        let cheap = Times::new(&[(1, 10.0), (4, 10.3), (16, 11.5)]);
        assert_eq!(
            filled(&[(0, 1), (2, 1), (4, 3), (6, 3), (7, 3)], &cheap, any),
            [true, false, true, false]
        );
        assert_eq!(filled(&[(0, 1), (2, 1)], &Times::default(), any), [false]);
        assert!(filled(&[], &cheap, any).is_empty());
    }

    #[test]
    fn passes_are_of_consecutive_slots_and_equal_lengths() {
        assert_eq!(passes(&[(0, 1), (1, 1), (2, 1)], &[]), [3]);
        assert_eq!(passes(&[(0, 1), (2, 1), (3, 1)], &[]), [1, 2]);
        assert_eq!(passes(&[(0, 2), (2, 2), (3, 2)], &[true, false]), [8]);
        // Three tokens of all; then what is left of the first, and of the two others.
        assert_eq!(passes(&[(4, 5), (5, 3), (6, 4), (7, 7)], &[]), [12, 2, 2, 3]);
        assert!(passes(&[], &[]).is_empty());
    }

    /// Seconds where these gaps are filled.
    fn seconds(runs: &[(u32, u32)], filled: &[bool], times: &Times) -> f64 {
        passes(runs, filled).into_iter().map(|rows| times.of(rows)).sum()
    }

    proptest! {
        #[test]
        fn no_other_way_is_cheaper(busy in proptest::collection::vec(any::<bool>(), 2..12), each in 1u32..4) {
            let runs: Vec<_> = (0..).zip(&busy).filter(|(_, busy)| **busy).map(|(slot, _)| (slot, each)).collect();
            prop_assume!(runs.len() > 1);
            let chosen = seconds(&runs, &filled(&runs, &machine(), |_, _| true), &machine());
            for way in 0..1u32 << (runs.len() - 1) {
                let way: Vec<bool> = (0..runs.len() - 1).map(|i| way >> i & 1 == 1).collect();
                prop_assert!(chosen <= seconds(&runs, &way, &machine()) + 1e-9);
            }
        }
    }
}
