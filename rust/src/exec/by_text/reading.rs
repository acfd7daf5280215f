//! A text in the draft model's tokens, kept up to date as the text grows.
//!
//! It is cut into segments of some tokens of the target, where words begin. A segment that is closed is encoded once. The last
//! one is encoded again whenever the text has grown: its last word may be another token then. What the tokens of the text are
//! depends on the text alone.

use super::pair::{VocabPair, begins_word, spelled};
use crate::types::Token;

/// Tokens of the target behind which a segment ends with the word, and twice as many end it anywhere.
pub(super) const SEGMENT: usize = 32;

/// The text of one slot.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    /// In the target's tokens.
    read: Vec<Token>,
    /// In the draft model's own.
    own: Vec<Token>,
    /// The ends of closed segments, in tokens of both kinds.
    closed: Vec<(usize, usize)>,
}

impl Reading {
    /// Reads a text of the target's tokens with `more` behind it. Returns how many of the own tokens stayed as they were, from the
    /// first on.
    pub(super) fn read<'a>(
        &mut self,
        pair: &VocabPair,
        text: impl Iterator<Item = &'a Token> + Clone,
        more: &[u8],
    ) -> usize {
        let common = self.read.iter().zip(text.clone()).take_while(|(a, b)| a == b).count();
        let (start, kept) = self.reopen(common);
        let before = self.own.split_off(kept);
        self.read.truncate(start);
        if start == 0 {
            self.own.extend(pair.own.bos());
        }
        let mut segment = Vec::new();
        for token in text.skip(start) {
            self.take(pair, *token, &mut segment);
        }
        segment.extend_from_slice(more);
        self.own.extend(spelled(&pair.own, &segment));
        kept + before.iter().zip(&self.own[kept..]).take_while(|(a, b)| a == b).count()
    }

    /// Opens all segments again that reach beyond the first `len` tokens; the end of the last closed one.
    fn reopen(&mut self, len: usize) -> (usize, usize) {
        let closed = self.closed.partition_point(|(end, _)| *end <= len);
        self.closed.truncate(closed);
        self.closed.last().copied().unwrap_or_default()
    }

    fn take(&mut self, pair: &VocabPair, token: Token, segment: &mut Vec<u8>) {
        let (same, bytes) = (pair.to_own(token), pair.target.bytes(token));
        let open = self.read.len() - self.closed.last().map_or(0, |(end, _)| *end);
        let word = || matches!((segment.last(), bytes.first()), (Some(a), Some(b)) if begins_word(*a, *b));
        if same.is_some() || open >= 2 * SEGMENT || open >= SEGMENT && word() {
            self.close(pair, segment);
        }
        self.read.push(token);
        match same {
            Some(same) => {
                self.own.push(same);
                self.close(pair, segment);
            }
            // Special tokens that the draft model lacks are left out.
            None if pair.target.is_special(token) => {}
            None => segment.extend_from_slice(bytes),
        }
    }

    fn close(&mut self, pair: &VocabPair, segment: &mut Vec<u8>) {
        self.own.extend(spelled(&pair.own, segment));
        segment.clear();
        self.closed.push((self.read.len(), self.own.len()));
    }

    /// The text in the draft model's tokens.
    pub(super) fn own(&self) -> &[Token] {
        &self.own
    }

    /// How many own tokens the first `len` tokens of the target are, at least: up to the end of a segment.
    pub(super) fn own_of(&self, len: usize) -> usize {
        if len >= self.read.len() {
            return self.own.len();
        }
        let closed = self.closed.partition_point(|(end, _)| *end <= len);
        closed.checked_sub(1).map_or(0, |last| self.closed[last].1)
    }

    /// The first `len` tokens, up to the end of a segment.
    pub(super) fn part(&self, len: usize) -> Self {
        let mut part = self.clone();
        let (start, kept) = part.reopen(len);
        part.read.truncate(start);
        part.own.truncate(kept);
        part
    }
}
