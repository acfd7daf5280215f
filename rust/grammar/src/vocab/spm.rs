//! SentencePiece by scores: the pair whose merged token has the highest score is merged first, the leftmost of equal
//! ones; characters that are no token become byte tokens. What llama.cpp does for its kind "llama".

use crate::types::Token;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

const NONE: usize = usize::MAX;

/// The tables of a SentencePiece vocabulary.
pub(super) struct Spm {
    /// Text, as the vocabulary writes it, to id and score.
    tokens: HashMap<String, (Token, f32), ahash::RandomState>,
    bytes: Box<[Option<Token>; 256]>,
    /// A text, and what follows an added token, begins with a space.
    space_prefix: bool,
}

/// A run of characters that is one token, or one character; linked to its neighbours.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    len: usize,
    prev: usize,
    next: usize,
}

/// Highest score first, then leftmost; `size` tells whether the pair still is what it was.
type Pair = (i32, Reverse<usize>, usize, usize);

impl Spm {
    /// `tokens` are those that text may become; `bytes` the token of each byte that has one.
    pub(super) fn new(
        tokens: impl Iterator<Item = (String, Token, f32)>,
        bytes: [Option<Token>; 256],
        space_prefix: bool,
    ) -> Self {
        let tokens = tokens.map(|(text, id, score)| (text, (id, score))).collect();
        Spm { tokens, bytes: Box::new(bytes), space_prefix }
    }

    /// Appends the ids of `text`; `prefix` allows the space in front.
    pub(super) fn encode(&self, text: &str, prefix: bool, out: &mut Vec<Token>) {
        let space = if prefix && self.space_prefix { "▁" } else { "" };
        let text = [space, &text.replace(' ', "▁")].concat();
        let mut symbols = characters(&text);
        let mut pairs: BinaryHeap<Pair> =
            (1..symbols.len()).filter_map(|right| self.pair(&text, &symbols, right - 1, right)).collect();
        while let Some((_, Reverse(left), right, size)) = pairs.pop() {
            let (l, r) = (symbols[left], symbols[right]);
            if l.len == 0 || r.len == 0 || l.len + r.len != size {
                continue;
            }
            symbols[left].len = size;
            symbols[left].next = r.next;
            symbols[right].len = 0;
            if r.next != NONE {
                symbols[r.next].prev = left;
            }
            pairs.extend(self.pair(&text, &symbols, l.prev, left));
            pairs.extend(self.pair(&text, &symbols, left, r.next));
        }
        for symbol in symbols.iter().filter(|s| s.len > 0) {
            let piece = &text[symbol.start..symbol.start + symbol.len];
            match self.tokens.get(piece) {
                Some((id, _)) => out.push(*id),
                None => out.extend(piece.bytes().filter_map(|b| self.bytes[usize::from(b)])),
            }
        }
    }

    fn pair(&self, text: &str, symbols: &[Symbol], left: usize, right: usize) -> Option<Pair> {
        if left == NONE || right == NONE {
            return None;
        }
        let size = symbols[left].len + symbols[right].len;
        let start = symbols[left].start;
        let (_, score) = self.tokens.get(&text[start..start + size])?;
        Some((ordered(*score), Reverse(left), right, size))
    }
}

fn characters(text: &str) -> Vec<Symbol> {
    let starts = text.char_indices().enumerate();
    let symbol = |(i, (start, c)): (usize, (usize, char))| Symbol {
        start,
        len: c.len_utf8(),
        prev: i.checked_sub(1).unwrap_or(NONE),
        next: if start + c.len_utf8() == text.len() { NONE } else { i + 1 },
    };
    starts.map(symbol).collect()
}

/// An integer that orders as the score does; both zeros are equal.
fn ordered(score: f32) -> i32 {
    let bits = (score + 0.0).to_bits() as i32;
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spm(tokens: &[(&str, f32)]) -> Spm {
        let list = tokens.iter().enumerate().map(|(i, (t, s))| ((*t).to_owned(), 1000 + i as Token, *s));
        Spm::new(list, std::array::from_fn(|b| Some(b as Token)), true)
    }

    fn ids(spm: &Spm, text: &str) -> Vec<Token> {
        let mut out = Vec::new();
        spm.encode(text, false, &mut out);
        out
    }

    #[test]
    fn scores_order_as_integers() {
        let scores =
            [f32::NEG_INFINITY, -1e9, -2.5, -1.0, -f32::MIN_POSITIVE, 0.0, 1e-30, 7.0, f32::INFINITY];
        assert!(scores.windows(2).all(|w| ordered(w[0]) < ordered(w[1])));
        assert_eq!(ordered(-0.0), ordered(0.0));
    }

    #[test]
    fn the_best_score_merges_first() {
        let spm = spm(&[("a", 0.0), ("b", 0.0), ("c", 0.0), ("ab", -2.0), ("bc", -1.0), ("abc", -3.0)]);
        assert_eq!(ids(&spm, "abc"), [1005]);
        assert_eq!(ids(&spm, "abb"), [1003, 1001]);
        assert_eq!(ids(&spm, "bcb"), [1004, 1001]);
    }

    #[test]
    fn equal_scores_merge_from_the_left() {
        let spm = spm(&[("a", 0.0), ("aa", -1.0), ("aaa", -2.0)]);
        assert_eq!(ids(&spm, "aaa"), [1002]);
        assert_eq!(ids(&spm, "aaaaa"), [1001, 1002]);
    }

    #[test]
    fn unknown_characters_become_bytes() {
        let spm = spm(&[("a", 0.0), ("▁", 0.0), ("▁a", -1.0)]);
        assert_eq!(ids(&spm, "é a"), [0xc3, 0xa9, 1002]);
        assert_eq!(ids(&spm, "\0"), [0]);
        let mut out = Vec::new();
        spm.encode("a", true, &mut out);
        assert_eq!(out, [1002]);
    }
}
