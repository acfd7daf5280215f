//! Drafts that no model makes: what the grammar forces, what came next in the same state of the grammar before, what the
//! client predicts, and what followed the same tokens before, in the text or in earlier outputs.
//!
//! One walk asks all of them for each token, the surest source first, and takes only tokens that the grammar allows. So one draft
//! can hold a key that the schema forces, white space that came in earlier outputs, and a value from the prompt. The walk
//! computes the grammar's mask at each token; verification reuses the masks of the tokens that the draft keeps.
//!
//! Predicted outputs are OpenAI's; prompt lookup decoding is Saxena's (2023).

use super::earlier::{Earlier, OutputGroup};
use super::helpers::Helpers;
use super::ngrams::Ngrams;
use super::{Ask, Draft};
use crate::config::{DraftSource, PromptLookupConfig, SpeculativeConfig};
use crate::error::{Result, caught};
use crate::grammar::{Cursor, Grammar};
use crate::types::Token;
use std::collections::HashMap;
use std::sync::Arc;

/// Tokens that must be as predicted before a draft goes on after an edit.
const LEAST_PREDICTED: usize = 2;
/// Tokens of a prediction that are compared.
const MOST_PREDICTED: usize = 32;

/// Drafts from what is there.
#[derive(Debug)]
pub struct Ahead {
    /// Width of a row of logits, in tokens.
    width: usize,
    lookup: PromptLookupConfig,
    helpers: Arc<Helpers>,
    /// The texts of sequences that run, by their numbers.
    texts: HashMap<u64, Known>,
    earlier: Earlier,
}

/// The text of a sequence, indexed.
#[derive(Debug)]
struct Known {
    ngrams: Ngrams,
    /// Tokens that are known; what is behind them was drafted.
    len: usize,
}

impl Ahead {
    /// Drafts for a target whose rows have `width` tokens.
    pub fn new(config: &SpeculativeConfig, width: usize, helpers: Arc<Helpers>) -> Self {
        let lookup = config.prompt_lookup.clone();
        let earlier = Earlier::new(lookup.min_ngram as usize, lookup.history_tokens as usize);
        Ahead { width, lookup, helpers, texts: HashMap::new(), earlier }
    }

    /// Makes the draft of each ask, which has none yet. Grammars are as before afterwards.
    pub fn propose(&mut self, asks: &mut [Ask<'_>]) {
        let fresh = || Known { ngrams: Ngrams::new(self.lookup.min_ngram as usize), len: 0 };
        let mut texts: Vec<_> =
            asks.iter().map(|ask| self.texts.remove(&ask.age).unwrap_or_else(fresh)).collect();
        let masked = |ask: &Ask<'_>| ask.grammar.as_ref().is_some_and(|grammar| !grammar.is_dormant());
        let new = |(ask, text): (&Ask<'_>, &Known)| {
            ask.known.len().saturating_sub(text.len) + if masked(ask) { self.width } else { 0 }
        };
        let numbers = asks.iter().zip(&texts).map(new).sum();
        let both = asks.iter_mut().zip(&mut texts);
        self.helpers.each(numbers, both, &mut Vec::new(), |(ask, text), ()| {
            // What fails here, verifying meets again, and says so.
            let _ = caught("drafting", || self.draft(ask, text));
        });
        self.texts.extend(asks.iter().map(|ask| ask.age).zip(texts));
    }

    /// A sequence has ended. Others of its group may draft from its `output`, which comes with the last tokens before it.
    pub fn end(&mut self, age: u64, group: OutputGroup, (prompt, output): (&[Token], &[Token])) {
        self.texts.remove(&age);
        if !output.is_empty() {
            let before = prompt.len().saturating_sub(self.lookup.max_ngram as usize);
            self.earlier.add(group, &[&prompt[before..], output].concat());
        }
    }

    fn draft(&self, ask: &mut Ask<'_>, known: &mut Known) -> Result<()> {
        let Ask { prompt, prediction, want, allows, grammar, draft, group, .. } = ask;
        let Known { ngrams, len } = known;
        ngrams.cut(*len);
        ask.known[*len..].iter().for_each(|token| ngrams.push(*token));
        *len = ask.known.len();
        let mut cursor = grammar.as_deref_mut().map(Grammar::cursor);
        let mut text = Text {
            own: ngrams,
            earlier: self.earlier.of(*group),
            prompt: *prompt as usize,
            prediction,
            longest: self.lookup.max_ngram as usize,
            followed: None,
            is_off: false,
        };
        while cursor.as_ref().is_none_or(|cursor| !cursor.is_ended()) {
            let at = draft.tokens.len();
            cursor.as_mut().map_or(Ok(()), |cursor| draft.fill(at, cursor, self.width))?;
            if at >= *want as usize {
                break;
            }
            let next = self.next(draft, cursor.as_ref(), &mut text, allows);
            let Some((source, token)) = next else { break };
            // False for an end token, which need not be drafted, and for what the grammar refuses.
            if !cursor.as_mut().map_or(Ok(true), |cursor| cursor.push(token))? {
                break;
            }
            text.push(token);
            draft.tokens.push(token);
            draft.sources.push(source);
        }
        Ok(())
    }

    /// The next token, and who proposes it.
    fn next(
        &self,
        draft: &Draft,
        cursor: Option<&Cursor<'_>>,
        text: &mut Text<'_>,
        allows: &[bool],
    ) -> Option<(DraftSource, Token)> {
        let mask = draft.masks.get(draft.tokens.len());
        let looked_up = draft.sources.iter().filter(|by| **by == DraftSource::PromptLookup).count();
        let most_looked_up = self.lookup.max_draft_len.map_or(usize::MAX, |most| most as usize);
        let may = |token: Token| mask.is_none_or(|mask| mask.allows(token));
        let mut by = |source| match source {
            DraftSource::Forced => mask?.single(),
            DraftSource::Prediction => text.predicted(may),
            DraftSource::Grammar => cursor?.usual(mask?.mask()?),
            _ if looked_up < most_looked_up => text.looked_up(may),
            _ => None,
        };
        [DraftSource::Forced, DraftSource::Prediction, DraftSource::Grammar, DraftSource::PromptLookup]
            .into_iter()
            .filter(|source| allows[*source as usize])
            .find_map(|source| Some((source, by(source)?)))
    }
}

/// What is known and drafted, and what it is compared with.
struct Text<'a> {
    own: &'a mut Ngrams,
    /// Earlier outputs of its group.
    earlier: Option<&'a Ngrams>,
    /// So many of the own tokens are the prompt.
    prompt: usize,
    prediction: &'a [Token],
    /// Most tokens of a match by prompt lookup.
    longest: usize,
    /// What was found to go on with, and the place in it.
    followed: Option<(From, usize)>,
    /// The output is not where the prediction is: it is not looked for again within a draft.
    is_off: bool,
}

/// A text that may be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Prediction,
    Own,
    Earlier,
}

impl Text<'_> {
    /// What the client predicts next, from the place in the prediction that the output has come to: where its last tokens
    /// stand. Of several such places the one with the longest match is taken, then the nearest to where the output would be
    /// without edits. So after an edit the draft begins again with the first few tokens that are as predicted.
    fn predicted(&mut self, may: impl Fn(Token) -> bool) -> Option<Token> {
        let output = &self.own.tokens()[self.prompt..];
        let length = output.len();
        let lengths = (LEAST_PREDICTED.min(length), MOST_PREDICTED);
        let place = match self.followed {
            Some((From::Prediction, at)) => Some(at),
            _ if self.prediction.is_empty() || self.is_off => return None,
            _ if length == 0 => Some(0),
            _ => found(self.prediction, output, (length, lengths), &may),
        };
        self.is_off = place.is_none();
        self.follow(From::Prediction, place?, may)
    }

    /// What followed the longest earlier occurrence of the last tokens, in the text or in earlier outputs; of equally long ones
    /// the latest in the text. A text that repeats itself at a short distance goes on repeating itself.
    fn looked_up(&mut self, may: impl Fn(Token) -> bool) -> Option<Token> {
        let (from, at) = match self.followed {
            Some(followed @ (From::Own | From::Earlier, _)) => followed,
            _ => self.repeated(&may)?,
        };
        self.follow(from, at, may)
    }

    fn repeated(&self, may: impl Fn(Token) -> bool) -> Option<(From, usize)> {
        let tail = self.own.tokens();
        let own = self.own.find(tail, self.longest, &may);
        let all = own.is_some_and(|(same, _)| same == self.longest);
        let earlier = self.earlier.filter(|_| !all).and_then(|text| text.find(tail, self.longest, &may));
        match (own, earlier) {
            (Some((same, at)), other) if other.is_none_or(|(longer, _)| longer <= same) => {
                Some((From::Own, at))
            }
            (_, earlier) => earlier.map(|(_, at)| (From::Earlier, at)),
        }
    }

    fn follow(&mut self, from: From, at: usize, may: impl Fn(Token) -> bool) -> Option<Token> {
        let token = self.token(from, at).filter(|token| may(*token));
        self.followed = token.map(|_| (from, at));
        token
    }

    /// The token at a place of what may be followed.
    fn token(&self, from: From, at: usize) -> Option<Token> {
        match from {
            From::Prediction => self.prediction.get(at).copied(),
            From::Own => self.own.at(at),
            From::Earlier => self.earlier.and_then(|text| text.at(at)),
        }
    }

    /// Goes on with a token; what is followed stays so where it has the same one.
    fn push(&mut self, token: Token) {
        let same = self.followed.filter(|(from, at)| self.token(*from, *at) == Some(token));
        self.followed = same.map(|(from, at)| (from, at + 1));
        self.own.push(token);
    }
}

/// The place in `text` behind the longest match with the end of `tail` that goes on with a token that may come; `lengths`: of
/// a match, at least and at most. Of equally long ones the nearest to `expected`.
fn found(
    text: &[Token],
    tail: &[Token],
    (expected, (shortest, longest)): (usize, (usize, usize)),
    may: &impl Fn(Token) -> bool,
) -> Option<usize> {
    let last = tail.last()?;
    let mut best = None;
    for at in (1..text.len()).rev().filter(|at| text[at - 1] == *last) {
        let pairs = text[..at].iter().rev().zip(tail.iter().rev());
        let same = pairs.take(longest).take_while(|(a, b)| a == b).count();
        let rank = (same, std::cmp::Reverse(at.abs_diff(expected)));
        if same >= shortest && best.is_none_or(|(best, _)| rank > best) && may(text[at]) {
            best = Some((rank, at));
            // From here on places are further away.
            if same == longest && at <= expected {
                break;
            }
        }
    }
    best.map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexed(known: &[Token]) -> Ngrams {
        let mut ngrams = Ngrams::new(2);
        known.iter().for_each(|token| ngrams.push(*token));
        ngrams
    }

    fn text<'a>(own: &'a mut Ngrams, prediction: &'a [Token]) -> Text<'a> {
        Text { own, earlier: None, prompt: 0, prediction, longest: 3, followed: None, is_off: false }
    }

    fn goes_on(mut text: Text<'_>, want: usize) -> Vec<Token> {
        let next = |_| {
            let next = text.looked_up(|_| true)?;
            text.push(next);
            Some(next)
        };
        (0..want).map_while(next).collect()
    }

    fn looked_up(known: &[Token], want: usize) -> Vec<Token> {
        goes_on(text(&mut indexed(known), &[]), want)
    }

    fn place(output: &[Token], prediction: &[Token]) -> Option<usize> {
        let mut output = indexed(output);
        let mut text = text(&mut output, prediction);
        text.predicted(|_| true)?;
        text.followed.map(|(_, at)| at)
    }

    #[test]
    fn an_earlier_output_is_followed_where_it_matches_longer() {
        let mut outputs = indexed(&[1, 2, 3, 4]);
        outputs.gap();
        [5, 2, 3, 6, 7].iter().for_each(|token| outputs.push(*token));
        let of = |known: &[Token]| {
            let mut own = indexed(known);
            goes_on(Text { earlier: Some(&outputs), ..text(&mut own, &[]) }, 5)
        };
        assert_eq!(of(&[5, 2, 3]), [6, 7]);
        // It ends where the output did.
        assert_eq!(of(&[1, 2, 3]), [4]);
        assert_eq!(of(&[2, 3, 9, 2, 3]), [9, 2, 3, 9, 2]);
        assert_eq!(of(&[2, 3, 9, 5, 2, 3]), [6, 7]);
    }

    #[test]
    fn the_longest_match_wins_and_then_the_latest() {
        assert_eq!(looked_up(&[1, 2, 3, 7, 2, 3, 8, 5, 1, 2, 3], 2), [7, 2]);
        assert_eq!(looked_up(&[9, 2, 3, 7, 6, 2, 3, 8, 5, 2, 3], 2), [8, 5]);
    }

    #[test]
    fn a_short_match_or_none_proposes_nothing() {
        assert!(looked_up(&[2, 3, 7, 3], 4).is_empty());
        assert!(looked_up(&[1, 2, 3], 4).is_empty());
        assert!(looked_up(&[1], 4).is_empty());
        assert!(looked_up(&[], 4).is_empty());
    }

    #[test]
    fn a_repetition_goes_on() {
        assert_eq!(looked_up(&[5, 1, 2, 1, 2, 1, 2], 5), [1, 2, 1, 2, 1]);
    }

    #[test]
    fn what_may_not_come_is_no_match() {
        let known = [1, 2, 3, 1, 2, 4, 1, 2];
        let mut known = indexed(&known);
        assert_eq!(text(&mut known, &[]).looked_up(|_| true), Some(4));
        assert_eq!(text(&mut known, &[]).looked_up(|token| token != 4), Some(3));
        assert_eq!(text(&mut known, &[]).looked_up(|token| token > 4), None);
    }

    #[test]
    fn another_source_may_go_along() {
        let mut known = indexed(&[1, 2, 3, 4, 5, 1, 2]);
        let mut text = text(&mut known, &[]);
        assert_eq!(text.looked_up(|_| true), Some(3));
        text.push(3);
        assert_eq!(text.followed, Some((From::Own, 3)));
        text.push(9);
        assert_eq!((text.followed, text.looked_up(|_| true)), (None, None));
    }

    #[test]
    fn an_edit_is_followed_by_a_new_start() {
        let prediction = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(place(&[], &prediction), Some(0));
        assert_eq!(place(&[1], &prediction), Some(1));
        assert_eq!(place(&[1, 2, 3], &prediction), Some(3));
        // An edit, and what follows it.
        assert_eq!(place(&[1, 2, 9], &prediction), None);
        assert_eq!(place(&[1, 2, 9, 4], &prediction), None);
        assert_eq!(place(&[1, 2, 9, 4, 5], &prediction), Some(5));
        // Left out, and put in.
        assert_eq!(place(&[1, 2, 5, 6], &prediction), Some(6));
        assert_eq!(place(&[1, 9, 9, 9, 2, 3], &prediction), Some(3));
        assert_eq!(place(&prediction, &prediction), None);
    }

    #[test]
    fn of_like_places_the_nearest_is_taken() {
        let prediction = [1, 2, 3, 1, 2, 4, 1, 2, 5];
        assert_eq!(place(&[7, 7, 7, 1, 2], &prediction), Some(5));
        assert_eq!(place(&[1, 2], &prediction), Some(2));
        assert_eq!(place(&[1, 2, 3, 1, 2, 4, 1, 2], &prediction), Some(8));
    }
}
