//! Drafts from the sequence's own tokens: what followed the same few tokens before will follow them again.
//!
//! Prompt lookup decoding (Saxena, 2023). It costs one look through the known tokens and pays where output repeats its
//! prompt or itself: extraction, editing, lists of alike objects.

use super::{Ask, Draft, Drafter};
use crate::config::PromptLookupConfig;
use crate::types::Token;

/// Proposes what followed the longest earlier occurrence of the last tokens; of equally long ones the latest.
#[derive(Debug, Clone, Copy)]
pub struct PromptLookup {
    shortest: usize,
    longest: usize,
}

impl PromptLookup {
    /// A drafter; `config` is valid.
    pub fn new(config: &PromptLookupConfig) -> Self {
        PromptLookup { shortest: config.min_ngram as usize, longest: config.max_ngram as usize }
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
}

impl Drafter for PromptLookup {
    fn propose(&mut self, asks: &mut [Ask<'_>]) -> Vec<Draft> {
        let draft = |ask: &Ask<'_>| {
            let from = self.find(&ask.known)?;
            // A text that repeats itself at a short distance goes on repeating itself.
            let repeated = ask.known[from..].iter().cycle();
            Some(Draft { tokens: repeated.take(ask.want as usize).copied().collect(), ..Draft::default() })
        };
        asks.iter().map(|ask| draft(ask).unwrap_or_default()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(known: &[Token], want: u32) -> Vec<Token> {
        let ask = Ask { known: known.into(), drafted: 0, grammar: None, want };
        PromptLookup { shortest: 2, longest: 3 }.propose(&mut [ask]).remove(0).tokens
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
        assert_eq!(proposed(&[5, 1, 2, 1, 2, 1, 2], 5), [1, 2, 1, 2, 1]);
    }
}
