//! Masks: what a state of the lexer allows ([`Inside`]), and what the row allows behind the end of a lexeme.

use super::Endings;
use super::inside::{End, Inside};
use super::lexing::{Lexing, Step};
use super::places::{Known, Spot};
use super::rows::RowId;
use super::trie::Trie;
use crate::error::{Error, Result};
use crate::grammar::mask::Mask;
use crate::grammar::text;
use crate::types::Token;
use crate::vocab::Vocab;
use llguidance::derivre::{NextByte, Regex, StateID};
use std::sync::Arc;
use toktrie::{Recognizer, SimpleVob, TokTrie};

/// Sets of tokens that are allowed as a whole in strings, the largest first, by their numbers among llguidance's slices.
const SLICES: [usize; 3] = [3, 2, 1];
/// Memory of what is known of the lexer's states of a grammar. Beyond, it is found out again.
const MOST_INSIDES: usize = 4 << 20;
/// Forced bytes that are cut into tokens.
const MOST_FORCED: usize = 1_024;

/// Tokens that a lexeme may have as a whole.
pub(super) struct Slice {
    number: usize,
    tokens: SimpleVob,
    /// All others.
    rest: Trie,
}

impl Slice {
    /// Those of a vocabulary.
    ///
    /// # Errors
    /// What is no regular expression.
    pub(super) fn all(vocab: &Vocab, trie: &TokTrie, regexes: &[String]) -> Result<Vec<Self>> {
        let slice = |number: usize| {
            let refuse = |e| Error::invalid("tokenizer", text::clean(&format!("{e:#}")));
            let mut regex = Regex::new(&regexes[number]).map_err(refuse)?;
            let mut tokens = trie.alloc_token_set();
            for token in 0..trie.vocab_size() as Token {
                let bytes = trie.token(token);
                if !bytes.is_empty() && !vocab.is_eog(token) && regex.is_match_bytes(bytes) {
                    tokens.allow_token(token);
                }
            }
            let others = (0..trie.vocab_size() as Token)
                .filter(|token| !tokens.is_allowed(*token) && !vocab.is_eog(*token));
            Ok(Slice { number, rest: Trie::new(trie, others), tokens })
        };
        SLICES.into_iter().map(slice).collect()
    }
}

/// What may come.
#[derive(Debug)]
pub(in crate::grammar) struct Allowed {
    pub(in crate::grammar) mask: Mask,
    /// Bytes are forced. They are cut into tokens together with the token before, so this may be another behind another.
    pub(in crate::grammar) is_forced: bool,
    /// The mask as what a lexeme allows and some tokens more.
    pub(in crate::grammar) near: Option<(Arc<Inside>, Vec<Token>)>,
}

impl Endings {
    fn cuts_forced(&self) -> bool {
        self.common.cuts_forced && !self.spec.no_forcing
    }

    /// Tokens that are allowed in a state of the lexer as a whole, and a trie of the others.
    pub(super) fn begun(&self, lexing: &mut Lexing, state: StateID) -> (&Trie, SimpleVob) {
        match self.slice(lexing, state) {
            Some(slice) => (&slice.rest, slice.tokens.clone()),
            None => (&self.common.trie, self.common.env.tok_trie().alloc_token_set()),
        }
    }

    fn slice(&self, lexing: &mut Lexing, state: StateID) -> Option<&Slice> {
        let mut slices = self.common.slices.iter();
        slices.find(|slice| lexing.holds(state, self.spec.extra_lexeme(slice.number)))
    }
}

impl Known {
    /// What may come behind a token; None where llguidance has to say it: lexemes of a kind that is not followed here, and what is
    /// too much.
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
            let mut mask = Mask::none(width);
            mask.set(token, true);
            mask
        } else {
            let inside = self.inside(of, spot.state);
            let mut more = self.beyond(of, spot, &inside);
            more.extend(self.by_number(of, spot));
            more.extend(of.common.vocab.eog().iter().filter(|_| may_end));
            let mask = inside.with(&more, width);
            near = Some((inside, more));
            mask
        };
        if self.is_unknown || self.lexing.has_failed() {
            return None;
        }
        Some(Allowed { mask, is_forced: !forced.is_empty(), near })
    }

    /// What tokens come to in a state of the lexer.
    fn inside(&mut self, of: &Endings, state: StateID) -> Arc<Inside> {
        if let Some(inside) = self.insides.get(&state) {
            return Arc::clone(inside);
        }
        let inside = Arc::new(Inside::new(of, &mut self.lexing, state));
        if self.inside_bytes > MOST_INSIDES {
            self.insides.clear();
            self.inside_bytes = 0;
        }
        self.inside_bytes += inside.bytes();
        self.insides.insert(state, Arc::clone(&inside));
        inside
    }

    /// The tokens that go beyond the end of a lexeme.
    fn beyond(&mut self, of: &Endings, spot: Spot, inside: &Inside) -> Vec<Token> {
        let Spot { row, state, .. } = spot;
        self.is_unknown |= inside.is_unknown;
        let mut more = Vec::new();
        inside.ends.iter().for_each(|end| self.behind_end(of, row, end, &mut more));
        for border in &inside.borders {
            let Some(next) = self.behind(of, row, border.state) else { continue };
            more.extend(border.token);
            let trie = of.slice(&mut self.lexing, state).map_or(&of.common.trie, |slice| &slice.rest);
            let within = Spot { row, state: border.state, is_begun: true };
            let from = if border.is_last { self.begin(next) } else { within };
            let step = |spot: Spot, byte: u8, is_first: bool| {
                let is_within = is_first && !border.is_last;
                // Those that stay in the lexeme are known.
                if is_within && !matches!(self.lexing.step(spot.state, byte), Step::Behind) {
                    return None;
                }
                self.step(of, spot, byte)
            };
            trie.walk(border.nodes.clone(), from, step, |token| more.push(token));
        }
        more
    }

    /// Adds the tokens that go beyond an end of a lexeme.
    fn behind_end(&mut self, of: &Endings, row: RowId, end: &End, more: &mut Vec<Token>) {
        let Some(row) = self.behind(of, row, end.state) else { return };
        let mut stack = vec![self.begin(row)];
        // Bytes behind which no tail goes on.
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

    /// Whether a rule asks for a token by its number here.
    fn is_by_number(&mut self, of: &Endings, spot: Spot) -> bool {
        let row = if of.special.is_empty() { None } else { self.lexeme_ended(of, spot) };
        row.is_some_and(|row| self.rows.goals(row).iter().any(|goal| of.special(goal.lexeme).is_some()))
    }

    /// Tokens that rules ask for by their numbers.
    fn by_number(&mut self, of: &Endings, spot: Spot) -> Vec<Token> {
        let mut tokens = Vec::new();
        if !of.special.is_empty()
            && let Some(row) = self.lexeme_ended(of, spot)
        {
            for goal in self.rows.goals(row) {
                tokens.extend(of.special(goal.lexeme).iter().flat_map(|tokens| tokens.iter()));
            }
        }
        // An end token would end the text where it may not end.
        tokens.retain(|token| !of.common.vocab.eog().contains(token));
        tokens
    }

    /// The first token of what is forced behind a token.
    pub(super) fn forced_token(&mut self, of: &Endings, spot: Spot, last: Option<Token>) -> Option<Token> {
        let (forced, end) = if of.cuts_forced() { self.forced(of, spot)? } else { return None };
        self.first_forced(of, (&forced, end), last)
    }

    /// The bytes that must come, and where they lead; None where they are many.
    fn forced(&mut self, of: &Endings, mut spot: Spot) -> Option<(Vec<u8>, Spot)> {
        let mut bytes = Vec::new();
        while bytes.len() < MOST_FORCED {
            let byte = if self.may_end(of, spot) { None } else { self.forced_byte(of, spot) };
            let Some((byte, next)) = byte.and_then(|byte| Some((byte, self.step(of, spot, byte)?))) else {
                return Some((bytes, spot));
            };
            bytes.push(byte);
            spot = next;
        }
        None
    }

    /// The only byte that may come.
    fn forced_byte(&mut self, of: &Endings, spot: Spot) -> Option<u8> {
        // A token by its number is no byte, and may come beside one.
        if self.is_by_number(of, spot) {
            return None;
        }
        match self.lexing.next_byte(spot.state) {
            NextByte::ForcedByte(byte) => return Some(byte),
            NextByte::SomeBytes2(some) if some.iter().all(|byte| self.step(of, spot, *byte).is_some()) => {
                return None;
            }
            _ => {}
        }
        let mut found = None;
        for byte in 0..=255 {
            if self.step(of, spot, byte).is_some() && found.replace(byte).is_some() {
                return None;
            }
        }
        found
    }

    /// The first token of forced bytes that lead to `end`, if it is sure that they are cut so whatever follows. As llguidance
    /// does it: together with the token before, where that stays as it is.
    fn first_forced(
        &mut self,
        of: &Endings,
        (forced, end): (&[u8], Spot),
        last: Option<Token>,
    ) -> Option<Token> {
        if forced.is_empty() {
            return None;
        }
        let env = &of.common.env;
        let trie = env.tok_trie();
        let before: Vec<Token> = last.into_iter().collect();
        let all = [&trie.decode_raw(&before), forced].concat();
        let (mut tokens, mut fixed) = env.tokenize_bytes_marker(&all);
        let mut first = before.len();
        if tokens.starts_with(&before) {
            fixed = fixed.max(first);
        } else {
            (tokens, fixed) = env.tokenize_bytes_marker(forced);
            first = 0;
        }
        let mut walk = Walk { of, known: self, stack: vec![end] };
        let (cut, _) = trie.chop_tokens(&mut walk, &tokens[fixed..]);
        tokens.truncate(tokens.len() - cut);
        tokens.get(first).copied()
    }
}

/// A walk over the trie, for llguidance's way to cut forced bytes.
struct Walk<'a> {
    of: &'a Endings,
    known: &'a mut Known,
    stack: Vec<Spot>,
}

impl Recognizer for Walk<'_> {
    fn pop_bytes(&mut self, num: usize) {
        self.stack.truncate(self.stack.len() - num);
    }

    fn collapse(&mut self) {}

    fn trie_finished(&mut self) {
        self.stack.truncate(1);
    }

    fn try_push_byte(&mut self, byte: u8) -> bool {
        let Walk { of, known, stack } = self;
        let next = known.step(of, stack[stack.len() - 1], byte);
        next.map(|next| stack.push(next)).is_some()
    }
}
