//! Tokens that are found in the text before the model sees it.

use crate::error::{Error, Result};
use crate::types::Token;
use aho_corasick::{AhoCorasick, MatchKind};
use std::ops::Range;

/// A token that is found by its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddedToken {
    pub(super) id: Token,
    pub(super) text: String,
    /// Swallows the white space before it.
    pub(super) lstrip: bool,
    /// Swallows the white space after it.
    pub(super) rstrip: bool,
    /// Only where no letter, digit or underscore touches it.
    pub(super) single_word: bool,
}

impl AddedToken {
    /// Found everywhere, swallows nothing.
    pub(super) fn new(id: Token, text: &str) -> Self {
        AddedToken { id, text: text.to_owned(), lstrip: false, rstrip: false, single_word: false }
    }
}

/// A piece of the text that is one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) range: Range<usize>,
    pub(super) id: Token,
}

/// Finds added tokens: leftmost first, the longest of those.
pub(super) struct Finder {
    automaton: Option<AhoCorasick>,
    tokens: Vec<AddedToken>,
}

impl Finder {
    pub(super) fn new(tokens: Vec<AddedToken>) -> Result<Self> {
        let tokens: Vec<AddedToken> = tokens.into_iter().filter(|t| !t.text.is_empty()).collect();
        if tokens.is_empty() {
            return Ok(Finder { automaton: None, tokens });
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|t| &t.text))
            .map_err(|e| Error::invalid("tokenizer", format!("too many added tokens: {e}")))?;
        Ok(Finder { automaton: Some(automaton), tokens })
    }

    /// Appends the tokens inside `within`, in order. White space is swallowed inside `around` only.
    pub(super) fn find(&self, text: &str, within: Range<usize>, around: Range<usize>, cuts: &mut Vec<Cut>) {
        let Some(automaton) = &self.automaton else { return };
        let bytes = text.as_bytes();
        let blank = |b: u8| b.is_ascii_whitespace() || b == 0x0b;
        let mut floor = around.start;
        for m in automaton.find_iter(&text[within.clone()]) {
            let token = &self.tokens[m.pattern().as_usize()];
            let (mut start, mut end) = (within.start + m.start(), within.start + m.end());
            if start < floor || (token.single_word && !is_whole_word(text, start..end)) {
                continue;
            }
            while token.lstrip && start > floor && blank(bytes[start - 1]) {
                start -= 1;
            }
            while token.rstrip && end < around.end && blank(bytes[end]) {
                end += 1;
            }
            floor = end;
            cuts.push(Cut { range: start..end, id: token.id });
        }
    }
}

fn is_whole_word(text: &str, range: Range<usize>) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    !text[..range.start].ends_with(word) && !text[range.end..].starts_with(word)
}

/// The ranges between the cuts.
pub(super) fn gaps(cuts: &[Cut], len: usize) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(cuts.iter().map(|c| c.range.end));
    let ends = cuts.iter().map(|c| c.range.start).chain(std::iter::once(len));
    starts.zip(ends).map(|(start, end)| start..end).filter(|r| !r.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tokens: Vec<AddedToken>, text: &str) -> Vec<(Token, &str)> {
        let mut cuts = Vec::new();
        Finder::new(tokens).unwrap().find(text, 0..text.len(), 0..text.len(), &mut cuts);
        cuts.into_iter().map(|c| (c.id, &text[c.range])).collect()
    }

    #[test]
    fn leftmost_longest() {
        let tokens = vec![AddedToken::new(1, "  "), AddedToken::new(2, "   "), AddedToken::new(3, "")];
        assert_eq!(found(tokens, "a     b"), [(2, "   "), (1, "  ")]);
    }

    #[test]
    fn strips_white_space_but_not_other_tokens() {
        let strip = |id, text| AddedToken { lstrip: true, rstrip: true, ..AddedToken::new(id, text) };
        assert_eq!(
            found(vec![strip(1, "<a>"), strip(2, "<b>")], "x <a>\u{b}\n <b>y"),
            [(1, " <a>\u{b}\n "), (2, "<b>")]
        );
    }

    #[test]
    fn single_words_touch_no_letter() {
        let token = AddedToken { single_word: true, ..AddedToken::new(1, "ab") };
        assert_eq!(found(vec![token], "ab abc éab _ab ab."), [(1, "ab"), (1, "ab")]);
    }

    #[test]
    fn gaps_are_what_is_between() {
        let cut = |range| Cut { range, id: 0 };
        assert_eq!(gaps(&[cut(0..2), cut(3..4), cut(4..5)], 9), [2..3, 5..9]);
        assert!(gaps(&[], 0).is_empty());
    }
}
