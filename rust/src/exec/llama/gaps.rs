//! Which gaps between slots are filled.
//!
//! In the slots layout a pass takes consecutive slots and pieces of equal length. Where two runs of one length have idle
//! slots between them, these may get as many tokens, which go again after the pass: rows computed for nothing, in place of
//! another pass over the weights. That is done where the rows cost less than a pass.

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

/// For each but the last of `runs` (slot and tokens, by rising slots), whether the gap after it is to be filled, where so
/// many rows cost as much as a pass; `fits` tells whether a slot has room for so many tokens.
pub(super) fn filled(runs: &[(u32, u32)], rows_of_a_pass: f64, fits: impl Fn(u32, u32) -> bool) -> Vec<bool> {
    let fill = |pair: &[(u32, u32)]| {
        let [(before, tokens), (after, others)] = *pair else { return false };
        let mut gap = before + 1..after;
        let rows = f64::from(tokens) * gap.len() as f64;
        rows > 0.0 && tokens == others && rows < rows_of_a_pass && gap.all(|slot| fits(slot, tokens))
    };
    runs.windows(2).map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_gap_is_filled_where_that_is_cheaper() {
        let runs = [(0, 1), (2, 1), (6, 1), (7, 2), (9, 2)];
        assert_eq!(filled(&runs, 2.5, |_, _| true), [true, false, false, true]);
        assert_eq!(filled(&runs, f64::INFINITY, |slot, n| (slot, n) != (8, 2)), [true, true, false, false]);
        assert_eq!(filled(&runs, 0.0, |_, _| true), [false; 4]);
        assert!(filled(&[], 9.0, |_, _| true).is_empty());
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

    proptest! {
        #[test]
        fn no_other_way_is_cheaper(busy in proptest::collection::vec(any::<bool>(), 2..12), each in 1u32..4) {
            let runs: Vec<_> = (0..).zip(&busy).filter(|(_, busy)| **busy).map(|(slot, _)| (slot, each)).collect();
            prop_assume!(runs.len() > 1);
            // In rows: a pass costs as much as five.
            let cost = |filled: &[bool]| passes(&runs, filled).into_iter().map(|rows| 5 + rows).sum::<u32>();
            let chosen = cost(&filled(&runs, 5.0, |_, _| true));
            for way in 0..1u32 << (runs.len() - 1) {
                let way: Vec<bool> = (0..runs.len() - 1).map(|i| way >> i & 1 == 1).collect();
                prop_assert!(chosen <= cost(&way));
            }
        }
    }
}
