//! A constraint that is followed from outside, for engines that schedule and sample by themselves.

use super::mask::Next;
use super::sections::{At, Place};
use super::{Compiled, Grammar};
use crate::error::{Error, Result};
use crate::types::Token;
use std::collections::VecDeque;
use std::fmt;

/// States kept for rollbacks, as many as drafts have tokens. A longer rollback takes the tokens before it anew.
const KEPT: usize = 32;
/// Most tokens of [`Matcher::forced`].
const MOST_FORCED: usize = 4_096;

/// The state of one output: the tokens that it has so far, and what may follow.
pub struct Matcher {
    grammar: Grammar,
    /// All, a last end token included.
    tokens: Vec<Token>,
    /// The states before the last of these, except an end token, the newest last.
    before: VecDeque<At>,
    max_tokens: Option<u32>,
    is_terminated: bool,
}

impl Matcher {
    /// At the beginning of an output of at most `max_tokens` tokens, an end token aside.
    ///
    /// # Errors
    /// `Error::Invalid` of "max_tokens" where no output is so short.
    pub fn new(compiled: &Compiled, max_tokens: Option<u32>) -> Result<Self> {
        max_tokens.map_or(Ok(()), |most| compiled.fits(most))?;
        let grammar = compiled.begin().restart();
        let (tokens, before) = (Vec::new(), VecDeque::new());
        Ok(Matcher { grammar, tokens, before, max_tokens, is_terminated: false })
    }

    /// Takes tokens; false where one of them may not come, and none is taken then. An end token may come where the output may end,
    /// and nothing comes behind it.
    ///
    /// # Errors
    /// `Error::Grammar` where a limit is hit; none is taken then.
    pub fn accept(&mut self, tokens: &[Token]) -> Result<bool> {
        let (taken, outcome) = self.take(tokens);
        if taken < tokens.len() {
            self.rollback(taken)?;
        }
        outcome.map(|()| taken == tokens.len())
    }

    /// How many of these tokens may come, one after another. The state stays.
    ///
    /// # Errors
    /// As [`Matcher::accept`].
    pub fn validate(&mut self, tokens: &[Token]) -> Result<usize> {
        let (taken, outcome) = self.take(tokens);
        self.rollback(taken)?;
        outcome.map(|()| taken)
    }

    /// Takes tokens up to the first that may not come, or that meets an error; how many.
    fn take(&mut self, tokens: &[Token]) -> (usize, Result<()>) {
        for (taken, token) in tokens.iter().enumerate() {
            match self.push(*token) {
                Ok(true) => {}
                outcome => return (taken, outcome.map(|_| ())),
            }
        }
        (tokens.len(), Ok(()))
    }

    fn push(&mut self, token: Token) -> Result<bool> {
        if self.is_terminated {
            return Ok(false);
        }
        if self.grammar.plan.ends.eog.contains(&token) {
            self.is_terminated = self.may_end();
            self.tokens.extend(self.is_terminated.then_some(token));
            return Ok(self.is_terminated);
        }
        if self.grammar.is_ended() {
            return Ok(false);
        }
        if let Some(left) = self.left() {
            let Some(left) = left.checked_sub(1) else { return Ok(false) };
            // A mask, which takes longer, may know that a token fits of which that is not known at once.
            if !self.grammar.cursor().fits(token, left)? && !self.allowed()?.allows(token) {
                return Ok(false);
            }
        }
        let is_cheap = match &self.grammar.at.place {
            Place::Free(_) => true,
            Place::Bound(part) => part.state().is_some(),
        };
        let before = is_cheap.then(|| self.grammar.at.apart());
        let Grammar { plan, at, .. } = &mut self.grammar;
        if !plan.push(at, token)? {
            return Ok(false);
        }
        self.tokens.push(token);
        match before {
            Some(before) => self.before.push_back(before),
            None => self.before.clear(),
        }
        if self.before.len() > KEPT {
            self.before.pop_front();
        }
        Ok(true)
    }

    /// Takes the last tokens back.
    ///
    /// # Errors
    /// `Error::Invalid` where there are fewer; `Error::Grammar` where a limit is hit.
    pub fn rollback(&mut self, mut tokens: usize) -> Result<()> {
        if tokens > self.tokens.len() {
            let why = format!("is {tokens}, but only {} tokens were accepted", self.tokens.len());
            return Err(Error::invalid("n", why));
        }
        if tokens > 0 && self.is_terminated {
            self.tokens.pop();
            self.is_terminated = false;
            tokens -= 1;
        }
        if tokens == 0 {
            return Ok(());
        }
        self.tokens.truncate(self.tokens.len() - tokens);
        if let Some(kept) = self.before.len().checked_sub(tokens) {
            self.before.truncate(kept + 1);
            self.grammar.at = self.before.pop_back().expect("there is one more. This is a bug.");
            return Ok(());
        }
        let tokens = std::mem::take(&mut self.tokens);
        self.reset();
        for token in tokens {
            self.push(token)?;
        }
        Ok(())
    }

    /// Goes back to the beginning.
    pub fn reset(&mut self) {
        self.grammar = self.grammar.restart();
        self.tokens.clear();
        self.before.clear();
        self.is_terminated = false;
    }

    /// A copy with a life of its own.
    pub fn copy(&self) -> Self {
        Matcher {
            grammar: self.grammar.fork(),
            tokens: self.tokens.clone(),
            before: self.before.iter().map(At::apart).collect(),
            max_tokens: self.max_tokens,
            is_terminated: self.is_terminated,
        }
    }

    /// What may come next. Only end tokens where the output has ended; end tokens, too, where it may end.
    ///
    /// # Errors
    /// `Error::Grammar` where a limit is hit, or where no token of the vocabulary can go on.
    pub fn allowed(&mut self) -> Result<Next> {
        if self.is_terminated {
            return Ok(Next::Only(self.grammar.plan.ends.mask()));
        }
        let left = self.left();
        let Grammar { plan, at, .. } = &mut self.grammar;
        match left {
            None => plan.next(at),
            Some(0) if plan.may_end(at) => Ok(Next::Only(plan.ends.mask())),
            Some(left) => plan.next_within(at, left as usize),
        }
    }

    /// Writes what may come next: bit `t % 32` of word `t / 32` for token `t`, and 0 for what is no token.
    ///
    /// # Errors
    /// As [`Matcher::allowed`]; `Error::Invalid` of "row" where the row is too short.
    pub fn fill(&mut self, row: &mut [u32]) -> Result<()> {
        let width = self.grammar.plan.ends.width;
        let words = width.div_ceil(32);
        if row.len() < words {
            let why = format!("has {} words, but a mask of {width} tokens has {words}", row.len());
            return Err(Error::invalid("row", why));
        }
        let mask = match self.allowed()? {
            Next::Only(mask) => mask,
            Next::Any { end } => self.grammar.plan.ends.and_all(end, width),
        };
        let (own, rest) = row.split_at_mut(words);
        own.copy_from_slice(mask.words());
        rest.fill(0);
        Ok(())
    }

    /// The tokens that must come next, one after another; no end tokens.
    ///
    /// # Errors
    /// As [`Matcher::allowed`].
    pub fn forced(&mut self) -> Result<Vec<Token>> {
        let mut forced = Vec::new();
        while !self.is_terminated && forced.len() < MOST_FORCED {
            match self.allowed()?.single() {
                Some(token) if !self.grammar.plan.ends.eog.contains(&token) && self.push(token)? => {
                    forced.push(token);
                }
                _ => break,
            }
        }
        self.rollback(forced.len())?;
        Ok(forced)
    }

    /// Whether an end token was accepted.
    pub fn is_terminated(&self) -> bool {
        self.is_terminated
    }

    /// Whether the output may end here.
    pub fn may_end(&mut self) -> bool {
        self.grammar.is_ended() || self.grammar.may_end()
    }

    /// Whether nothing but an end token may follow.
    pub fn is_complete(&self) -> bool {
        self.grammar.is_ended()
    }

    /// The tokens accepted so far.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    fn left(&self) -> Option<u32> {
        Some(self.max_tokens?.saturating_sub(self.tokens.len() as u32))
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher")
            .field("tokens", &self.tokens.len())
            .field("max_tokens", &self.max_tokens)
            .field("is_terminated", &self.is_terminated)
            .finish_non_exhaustive()
    }
}
