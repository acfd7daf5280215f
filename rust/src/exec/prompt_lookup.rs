//! Drafts from the sequence's own tokens: what followed the same few tokens before will follow them again.
//!
//! Prompt lookup decoding (Saxena, 2023). It costs one look through the known tokens and pays where output repeats its
//! prompt or itself: extraction, editing, lists of alike objects.

use super::{Ask, Drafter};
use crate::config::PromptLookupConfig;
use crate::types::Token;
use std::borrow::Cow;

/// Proposes what followed the longest earlier occurrence of the last tokens; of equally long ones the latest.
#[derive(Debug, Clone, Copy)]
pub struct PromptLookup {
    shortest: usize,
    longest: usize,
    /// Tokens of a draft.
    most: u32,
}

impl PromptLookup {
    /// A drafter; `config` is valid.
    pub fn new(config: &PromptLookupConfig) -> Self {
        let PromptLookupConfig { min_ngram, max_ngram, max_draft_len } = *config;
        let most = max_draft_len.unwrap_or(u32::MAX);
        PromptLookup { shortest: min_ngram as usize, longest: max_ngram as usize, most }
    }

    /// Where to go on, as an index into `known`.
    fn find(&self, known: &[Token]) -> Option<usize> {
        let (last, before) = known.split_last()?;
        let (mut best, mut length) = (None, self.shortest - 1);
        for end in (0..before.len()).rev().filter(|&end| before[end] == *last) {
            let earlier = before[..end].iter().rev().zip(before.iter().rev());
            let same = 1 + earlier.take(self.longest - 1).take_while(|(a, b)| a == b).count();
            if same > length {
                (best, length) = (Some(end + 1), same);
            }
            if length == self.longest {
                break;
            }
        }
        best
    }

    /// Up to `want` tokens after `known`.
    fn after(&self, known: &[Token], want: u32) -> Option<Vec<Token>> {
        let from = self.find(known)?;
        // A text that repeats itself at a short distance goes on repeating itself.
        Some(known[from..].iter().cycle().take(want.min(self.most) as usize).copied().collect())
    }
}

impl Drafter for PromptLookup {
    fn reach(&self) -> u32 {
        self.most
    }

    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        for ask in asks {
            let drafted = &ask.draft.tokens;
            let known = if drafted.is_empty() {
                Cow::Borrowed(ask.known)
            } else {
                [ask.known, drafted].concat().into()
            };
            ask.draft.tokens.extend(self.after(&known, ask.want).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(known: &[Token], want: u32) -> Vec<Token> {
        PromptLookup { shortest: 2, longest: 3, most: 5 }.after(known, want).unwrap_or_default()
    }

    #[test]
    fn the_longest_match_wins_and_then_the_latest() {
        assert_eq!(proposed(&[1, 2, 3, 7, 2, 3, 8, 5, 1, 2, 3], 2), [7, 2]);
        assert_eq!(proposed(&[9, 2, 3, 7, 6, 2, 3, 8, 5, 2, 3], 2), [8, 5]);
    }

    #[test]
    fn a_short_match_or_none_proposes_nothing() {
        assert!(proposed(&[2, 3, 7, 3], 4).is_empty());
        assert!(proposed(&[1, 2, 3], 4).is_empty());
        assert!(proposed(&[1], 4).is_empty());
    }

    #[test]
    fn a_repetition_goes_on() {
        assert_eq!(proposed(&[5, 1, 2, 1, 2, 1, 2], 4), [1, 2, 1, 2]);
        // No further than it may.
        assert_eq!(proposed(&[5, 1, 2, 1, 2, 1, 2], 9), [1, 2, 1, 2, 1]);
    }
}
