//! Where the last tokens of a text came before: an index that grows with the text, so that the text is not searched.
//!
//! It holds the places of all runs of the fewest tokens that make a match, those of one hash in a chain, the latest first.

use crate::types::Token;
use std::collections::HashMap;

/// Between texts that did not follow each other. No token is this.
const GAP: Token = Token::MAX;

/// A text with its places.
#[derive(Debug, Clone, Default)]
pub(super) struct Ngrams {
    /// Tokens of the runs that are indexed.
    least: usize,
    tokens: Vec<Token>,
    /// By the hash of a run: behind which token its last one ends.
    last: HashMap<u64, usize, ahash::RandomState>,
    /// By the place behind a run: the place before it of the same hash, 0 where there is none.
    before: Vec<u32>,
}

impl Ngrams {
    /// An empty text, whose runs of `least` tokens are indexed.
    pub(super) fn new(least: usize) -> Self {
        Ngrams { least, before: vec![0], ..Ngrams::default() }
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The token at a place; None at the end of a text.
    pub(super) fn at(&self, place: usize) -> Option<Token> {
        self.tokens.get(place).copied().filter(|token| *token != GAP)
    }

    pub(super) fn push(&mut self, token: Token) {
        self.tokens.push(token);
        let place = self.tokens.len();
        let before = self.run(place).and_then(|run| self.last.insert(run, place)).unwrap_or(0);
        self.before.push(before as u32);
    }

    /// Begins another text.
    pub(super) fn gap(&mut self) {
        self.push(GAP);
    }

    /// Keeps the first `len` tokens.
    pub(super) fn cut(&mut self, len: usize) {
        for place in (len + 1..=self.tokens.len()).rev() {
            let before = self.before[place] as usize;
            match self.run(place) {
                Some(run) if before == 0 => drop(self.last.remove(&run)),
                Some(run) => drop(self.last.insert(run, before)),
                None => {}
            }
            self.before.truncate(place);
            self.tokens.truncate(place - 1);
        }
    }

    /// The hash of the run before a place.
    fn run(&self, place: usize) -> Option<u64> {
        Some(self.last.hasher().hash_one(&self.tokens[place.checked_sub(self.least)?..place]))
    }

    /// Finds the longest earlier occurrence of the last tokens of `tail`, comparing at most `longest` of them. The token that follows
    /// it must be allowed by `may`. Returns the length of the match and the place behind it; of equally long matches, the latest.
    pub(super) fn find(
        &self,
        tail: &[Token],
        longest: usize,
        may: impl Fn(Token) -> bool,
    ) -> Option<(usize, usize)> {
        let run = tail.get(tail.len().checked_sub(self.least)?..)?;
        let mut place = self.last.get(&self.last.hasher().hash_one(run)).copied().unwrap_or(0);
        let mut best: Option<(usize, usize)> = None;
        while place > 0 && best.is_none_or(|(same, _)| same < longest) {
            let pairs = self.tokens[..place].iter().rev().zip(tail.iter().rev());
            let same = pairs.take(longest).take_while(|(a, b)| a == b).count();
            let longer = same >= self.least && best.is_none_or(|(best, _)| same > best);
            if longer && self.at(place).is_some_and(&may) {
                best = Some((same, place));
            }
            place = self.before[place] as usize;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by looking at all places.
    fn searched(text: &[Token], tail: &[Token], lengths: (usize, usize)) -> Option<(usize, usize)> {
        let same = |at: usize| {
            let pairs = text[..at].iter().rev().zip(tail.iter().rev());
            pairs.take(lengths.1).take_while(|(a, b)| a == b).count()
        };
        let places = (1..text.len()).filter(|at| text[*at] != GAP && text[*at] != 3);
        places.map(|at| (same(at), at)).filter(|(same, _)| *same >= lengths.0).max()
    }

    #[test]
    fn the_index_finds_what_a_search_finds() {
        let mut state = 7_u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        for least in 1..4 {
            let mut ngrams = Ngrams::new(least);
            for _ in 0..2000 {
                match below(20) {
                    0 => ngrams.gap(),
                    1 => ngrams.cut(ngrams.tokens().len().saturating_sub(below(9))),
                    _ => ngrams.push(below(4) as Token),
                }
                let longest = least + below(4);
                let tail = ngrams.tokens().to_vec();
                let found = ngrams.find(&tail, longest, |token| token != 3);
                assert_eq!(found, searched(&tail, &tail, (least, longest)), "{least} {longest} {tail:?}");
            }
        }
    }
}
