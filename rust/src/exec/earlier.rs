//! Earlier outputs, in which prompt lookup looks, too: those of the same client and salt under the same constraint. Their
//! tokens are bounded; the group of outputs that grew least lately goes first.

use super::ngrams::Ngrams;
use crate::types::Token;
use std::collections::HashMap;

/// Whose outputs belong together: a client, a salt of its, and the hash of a constraint, 0 for none.
pub type OutputGroup = (u64, u64, u64);

/// Outputs by whose they are.
#[derive(Debug)]
pub(super) struct Earlier {
    groups: HashMap<OutputGroup, Outputs>,
    /// Tokens of a run that is indexed.
    least: usize,
    /// Most tokens of all.
    most: usize,
    held: usize,
    /// Outputs that came so far.
    count: u64,
}

/// Those of one group.
#[derive(Debug)]
struct Outputs {
    text: Ngrams,
    /// The number of the last one.
    last: u64,
}

impl Earlier {
    /// None yet; no more than `most` tokens will be kept.
    pub(super) fn new(least: usize, most: usize) -> Self {
        Earlier { groups: HashMap::new(), least, most, held: 0, count: 0 }
    }

    pub(super) fn of(&self, group: OutputGroup) -> Option<&Ngrams> {
        self.groups.get(&group).map(|outputs| &outputs.text)
    }

    /// Adds an output; of one that is too long its end.
    pub(super) fn add(&mut self, group: OutputGroup, tokens: &[Token]) {
        let room = self.most.saturating_sub(1);
        if tokens.is_empty() || room == 0 {
            return;
        }
        self.count += 1;
        let new = || Outputs { text: Ngrams::new(self.least), last: 0 };
        let outputs = self.groups.entry(group).or_insert_with(new);
        outputs.last = self.count;
        self.held -= outputs.text.tokens().len();
        outputs.text.gap();
        tokens[tokens.len().saturating_sub(room)..].iter().for_each(|token| outputs.text.push(*token));
        self.held += outputs.text.tokens().len();
        while self.held > self.most && self.groups.len() > 1 {
            self.drop_oldest();
        }
        if self.held > self.most {
            self.halve(group);
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.groups.iter().min_by_key(|(_, outputs)| outputs.last).map(|(group, _)| *group);
        let gone = oldest.and_then(|group| self.groups.remove(&group));
        self.held -= gone.map_or(0, |outputs| outputs.text.tokens().len());
    }

    /// Keeps the later half of what may be kept of one group, so that this is seldom done.
    fn halve(&mut self, group: OutputGroup) {
        let Some(outputs) = self.groups.get_mut(&group) else { return };
        let old = outputs.text.tokens();
        let mut text = Ngrams::new(self.least);
        old[old.len() - self.most / 2..].iter().for_each(|token| text.push(*token));
        self.held -= old.len() - text.tokens().len();
        outputs.text = text;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_bounded_and_the_oldest_go_first() {
        let mut earlier = Earlier::new(2, 100);
        let held = |earlier: &Earlier| {
            let held = earlier.groups.values().map(|outputs| outputs.text.tokens().len()).sum::<usize>();
            assert!(held == earlier.held && held <= 100, "{held}, {}", earlier.held);
            held
        };
        for group in 0..4 {
            earlier.add((group, 0, 0), &[1; 24]);
        }
        assert_eq!(held(&earlier), 100);
        earlier.add((0, 0, 0), &[2; 9]);
        assert!(earlier.of((1, 0, 0)).is_none() && held(&earlier) == 85);
        assert_eq!(earlier.of((0, 0, 0)).unwrap().find(&[2, 2], 4, |_| true), Some((2, 34)));
        // One that takes all of it, and one that is longer.
        for step in 0..50 {
            let output: Vec<_> = (0..40).map(|i| step * 40 + i).collect();
            earlier.add((7, 1, 2), &output);
            held(&earlier);
            let found = earlier.of((7, 1, 2)).unwrap().find(&output[20..30], 9, |_| true);
            assert_eq!(found.map(|(same, _)| same), Some(9));
        }
        assert_eq!(earlier.groups.len(), 1);
        let long: Vec<_> = (0..500).collect();
        earlier.add((7, 1, 2), &long);
        assert_eq!(held(&earlier), 50);
        assert!(earlier.of((7, 1, 2)).unwrap().find(&[480, 481], 9, |_| true).is_some());
    }

    #[test]
    fn groups_are_apart_and_none_is_kept_without_room() {
        let mut earlier = Earlier::new(2, 100);
        earlier.add((1, 2, 3), &[1, 2, 3]);
        for other in [(1, 2, 4), (1, 3, 3), (2, 2, 3)] {
            assert!(earlier.of(other).is_none());
        }
        let mut none = Earlier::new(2, 0);
        none.add((1, 2, 3), &[1, 2, 3]);
        assert!(none.of((1, 2, 3)).is_none());
    }
}
