//! Masks: what a state of the lexer allows ([`Inside`]), and what the row allows behind the end of a lexeme.

use super::Endings;
use super::apart::Alone;
use super::inside::{Begin, Behind, Here, Inside};
use super::lexing::Lexing;
use super::places::{Known, Spot};
use super::rows::RowId;
use super::search::End;
use super::trie::Trie;
use crate::error::{Error, Result};
use crate::mask::Mask;
use crate::text;
use crate::types::Token;
use llguidance::derivre::{Regex, StateID};
use std::ops::Range;
use std::sync::Arc;
use toktrie::{SimpleVob, TokTrie};

/// Sets of tokens that are allowed as a whole in strings, the largest first, by their numbers among llguidance's slices.
const SLICES: [usize; 3] = [3, 2, 1];
/// Most memory for the [`Inside`]s of a grammar, in bytes. Beyond it all are dropped, and computed again when they are needed.
const MOST_INSIDES: usize = 16 << 20;

/// A set of tokens that most strings allow together.
pub(super) struct Slice {
    number: usize,
    tokens: SimpleVob,
    /// The number of characters of each token, the longest first.
    lengths: Vec<(u32, Token)>,
    /// Bytes of its longest token.
    longest: u32,
}

impl Slice {
    /// The slices of these tokens, by llguidance's regular expressions. The tries have the tokens of the first slice, and for each
    /// slice the tokens that are not in it.
    ///
    /// # Errors
    /// What is no regular expression.
    pub(super) fn all(
        all: &TokTrie,
        words: &[(&[u8], Token)],
        regexes: &[String],
    ) -> Result<(Vec<Trie>, Vec<Self>)> {
        let trie = |words, is_text| Trie::new(words, all.alloc_token_set(), is_text);
        let (mut tries, mut slices) = (Vec::new(), Vec::new());
        for number in SLICES {
            let refuse = |e| Error::invalid("tokenizer", text::clean(&format!("{e:#}")));
            let mut regex = Regex::new(&regexes[number]).map_err(refuse)?;
            let (own, others): (Vec<_>, Vec<_>) =
                words.iter().copied().partition(|(bytes, _)| regex.is_match_bytes(bytes));
            let mut tokens = all.alloc_token_set();
            own.iter().for_each(|(_, token)| tokens.allow_token(*token));
            let longest = own.iter().map(|(bytes, _)| bytes.len() as u32).max().unwrap_or(0);
            let characters = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().count() as u32;
            let mut lengths: Vec<_> = own.iter().map(|(bytes, token)| (characters(bytes), *token)).collect();
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            if tries.is_empty() {
                tries.push(trie(own, true));
            }
            tries.push(trie(others, false));
            slices.push(Slice { number, tokens, lengths, longest });
        }
        Ok((tries, slices))
    }

    /// The tokens with at most so many characters.
    fn up_to(&self, most: u32) -> SimpleVob {
        let mut tokens = self.tokens.clone();
        let longer = self.lengths.iter().take_while(|(characters, _)| *characters > most);
        longer.for_each(|(_, token)| tokens.disallow_token(*token));
        tokens
    }
}

/// What may come.
#[derive(Debug)]
pub(crate) struct Allowed {
    pub(crate) mask: Mask,
    /// Whether bytes are forced. They are tokenized together with the token before, so the mask depends on that token.
    pub(crate) is_forced: bool,
    /// The same mask, as the tokens of an [`Inside`] and more tokens.
    pub(crate) near: Option<(Arc<Inside>, Vec<Token>)>,
}

impl Endings {
    pub(super) fn cuts_forced(&self) -> bool {
        self.common.cuts_forced && !self.spec.no_forcing
    }

    /// The tokens that a lexer state allows of the largest slice that it allows, and the numbers of the tries with all other tokens.
    pub(super) fn begun(&self, lexing: &mut Lexing, state: StateID) -> (Range<usize>, Option<SimpleVob>) {
        for (i, slice) in self.common.slices.iter().enumerate() {
            match lexing.holds(state, (slice.number, slice.longest)) {
                0 => {}
                most => return (i + 1..i + 2, Some(slice.up_to(most))),
            }
        }
        (0..2, None)
    }
}

impl Known {
    /// The mask for the next token, `last` being the token before. None where llguidance has to compute it: kinds of lexemes that
    /// are not followed here, and work beyond a limit.
    pub(super) fn allowed(&mut self, of: &Endings, spot: Spot, last: Option<Token>) -> Option<Allowed> {
        self.begin_step(of);
        let may_end = self.may_end(of, spot);
        let (forced, end) = match of.cuts_forced() {
            true => self.forced(of, spot)?,
            false => (Vec::new(), spot),
        };
        let width = of.common.vocab.len();
        let mut near = None;
        let mask = if let Some(token) = self.first_forced(of, (&forced, end), last) {
            Mask::of([token], width)
        } else {
            let (mut insides, mut more) = (Vec::new(), Vec::new());
            for Alone { state, without } in self.lexing.apart(spot.state) {
                let here = self.here(of, Begin::at(state));
                let (inside, mut tokens) = self.all_of(of, Spot { state, ..spot }, &here);
                if let Some(part) = without {
                    tokens.retain(|token| !self.lexing.leaves_out(part, of.common.vocab.bytes(*token)));
                }
                more.append(&mut tokens);
                insides.push(inside);
            }
            // An end token that a rule asks for would end the text where it may not end.
            let eog = of.common.vocab.eog();
            let by_number = self.by_number(of, spot).into_iter().flat_map(Mask::iter);
            more.extend(by_number.filter(|token| !eog.contains(token)));
            more.extend(eog.iter().filter(|_| may_end));
            let (mask, base) = Inside::union(insides, &mut more, width);
            near = base.map(|base| (base, more));
            mask
        };
        if self.is_unknown || self.lexing.has_failed() {
            return None;
        }
        Some(Allowed { mask, is_forced: !forced.is_empty(), near })
    }

    /// What a lexer state allows, computed once for each place where tokens begin.
    pub(super) fn here(&mut self, of: &Endings, begin: Begin<StateID>) -> Arc<Here> {
        if let Some(here) = self.insides.get(&begin) {
            return Arc::clone(here);
        }
        let residual = begin.residual(&self.lexing);
        let known = residual.as_ref().and_then(|residual| of.common.insides.get(residual));
        let inside = known.unwrap_or_else(|| {
            let inside = Arc::new(Inside::new(of, &mut self.lexing, begin));
            if let Some(residual) = residual.filter(|_| !inside.is_unknown && !self.lexing.has_failed()) {
                of.common.insides.insert(residual, Arc::clone(&inside));
            }
            inside
        });
        let here = Arc::new(Here::new(inside, &mut self.lexing, begin.state));
        if self.inside_bytes > MOST_INSIDES {
            self.insides.clear();
            self.inside_bytes = 0;
        }
        self.inside_bytes += here.bytes();
        self.insides.insert(begin, Arc::clone(&here));
        here
    }

    /// What may come, as the tokens of an [`Inside`] and more.
    fn all_of(&mut self, of: &Endings, spot: Spot, here: &Here) -> (Arc<Inside>, Vec<Token>) {
        let (own, mut more) = (&here.inside, Vec::new());
        let Some((next, behind)) = self.ahead(of, spot, here) else {
            self.beyond(of, (spot.row, here), false, &mut more);
            return (Arc::clone(own), more);
        };
        let base = match (own.few(), behind.inside.few()) {
            (Some(few), _) => {
                more.extend(few);
                &behind.inside
            }
            (None, few) => {
                more.extend(few.into_iter().flatten());
                own
            }
        };
        self.beyond(of, (spot.row, here), true, &mut more);
        self.beyond(of, (next, &behind), false, &mut more);
        (Arc::clone(base), more)
    }

    /// The row behind a lexeme that may end here, and what its beginning allows. None where the lexeme may go on with a byte that
    /// the next may begin with, and where both allow many tokens.
    fn ahead(&mut self, of: &Endings, spot: Spot, here: &Here) -> Option<(RowId, Arc<Here>)> {
        let on = here.inside.on.as_ref()?;
        let next = self.behind(of, spot.row, spot.state)?;
        let start = self.rows.start(next);
        if on.iter().any(|byte| !self.lexing.behind(start, *byte).is_dead()) {
            return None;
        }
        let behind = self.here(of, Begin::at(start));
        let has_few = here.inside.few().is_some() || behind.inside.few().is_some();
        (has_few && behind.inside.on.is_none()).then_some((next, behind))
    }

    /// Adds the tokens that end the lexeme and that the row allows. `is_done`: except those that begin behind the end.
    fn beyond(&mut self, of: &Endings, (row, here): (RowId, &Here), is_done: bool, more: &mut Vec<Token>) {
        let inside = &here.inside;
        self.is_unknown |= inside.is_unknown;
        for (end, state) in inside.ends.iter().zip(&here.ends) {
            self.behind_end(of, (row, *state), end, more);
        }
        let borders = inside.borders.iter().zip(here.borders.iter().copied());
        for (border, state) in borders.filter(|(border, _)| !(is_done && border.is_whole())) {
            let Some(next) = self.behind(of, row, state) else { continue };
            let start = border.start;
            if border.is_last {
                // The node before these has the last byte of the lexeme.
                more.extend(of.common.tries[border.trie].tokens(start - 1));
            }
            let ended = if border.is_last { StateID::DEAD } else { state };
            let behind = Some(Behind { trie: border.trie, start, ended });
            let here = self.here(of, Begin { state: self.rows.start(next), behind });
            here.inside.add_to(more);
            self.beyond(of, (next, &here), false, more);
        }
    }

    /// Adds those whose lexeme ends in one state.
    fn behind_end(&mut self, of: &Endings, (row, state): (RowId, StateID), end: &End, more: &mut Vec<Token>) {
        let Some(row) = self.behind(of, row, state) else { return };
        let mut stack = vec![self.begin(row)];
        // The length of the prefix after which the last tail was refused: tails that share more are refused, too.
        let mut refused = usize::MAX;
        for tail in &end.tails {
            if tail.shared > refused {
                continue;
            }
            stack.truncate(tail.shared + 1);
            refused = usize::MAX;
            for byte in &tail.bytes[tail.shared..] {
                let at = stack[stack.len() - 1];
                match self.step(of, at, *byte) {
                    Some(next) => stack.push(next),
                    None => {
                        refused = stack.len() - 1;
                        break;
                    }
                }
            }
            if refused == usize::MAX {
                more.extend(&tail.tokens);
            }
        }
    }

    /// The sets of tokens that rules ask for by number here.
    pub(super) fn by_number<'e>(&mut self, of: &'e Endings, spot: Spot) -> Vec<&'e Mask> {
        let row = if of.special.is_empty() { None } else { self.lexeme_ended(of, spot) };
        let lexemes = row.map_or(&[][..], |row| self.rows.lexemes(row));
        lexemes.iter().filter_map(|lexeme| of.special(*lexeme)).collect()
    }
}
