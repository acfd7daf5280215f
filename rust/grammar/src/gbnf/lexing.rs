//! Whether a lexer that takes each lexeme as long as can be reads all that the rules allow.
//!
//! It does where no text of a lexeme goes on, within this or another lexeme, with what may also follow it: then it ends
//! exactly there in every reading, and all lexemes that end there are found together. Single characters never go on, since
//! none begins another in UTF-8.

use super::written::{Symbol, Written};
use crate::budget::Budget;
use crate::error::Result;
use llguidance::derivre::{Regex, RegexBuilder, StateID};
use std::collections::HashSet;

/// Most states of all lexemes together that are looked at; JSON has less than a hundred.
const MAX_STATES: usize = 4_000;

/// A set of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bytes([u64; 4]);

impl Bytes {
    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte) / 64] |= 1 << (byte % 64);
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte) / 64] & (1 << (byte % 64)) != 0
    }

    fn and(mut self, other: &Bytes) -> Bytes {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
        self
    }
}

/// The lexemes that go on where another one, or they themselves, may end; None where there are too many states to tell.
///
/// # Errors
/// Where the budget is spent.
pub(super) fn too_long(written: &Written, budget: &Budget) -> Result<Option<Vec<usize>>> {
    let Some(mut automata) = automata(written) else { return Ok(None) };
    let begin: Vec<(usize, StateID)> = automata.iter_mut().map(Regex::initial_state).enumerate().collect();
    let first = |(automaton, (_, state)): (&mut Regex, &(usize, StateID))| {
        let mut first = Bytes::default();
        (0..=255).filter(|b| !automaton.transition(*state, *b).is_dead()).for_each(|b| first.add(b));
        first
    };
    let firsts: Vec<Bytes> = automata.iter_mut().zip(&begin).map(first).collect();
    let follow = Follow::new(written, firsts, budget)?.lexemes;

    let mut found = vec![false; automata.len()];
    let mut seen = HashSet::from([begin.clone()]);
    let mut open = vec![begin];
    while let Some(states) = open.pop() {
        budget.spend(states.len())?;
        let ended = states.iter().filter(|(lexeme, state)| automata[*lexeme].is_accepting(*state));
        let ended: Vec<usize> = ended.map(|(lexeme, _)| *lexeme).collect();
        let follows = ended.iter().fold(Bytes::default(), |all, lexeme| all.and(&follow[*lexeme]));
        for byte in 0..=255 {
            let step =
                |(lexeme, state): &(usize, StateID)| (*lexeme, automata[*lexeme].transition(*state, byte));
            let next: Vec<_> = states.iter().map(step).filter(|(_, state)| !state.is_dead()).collect();
            if follows.has(byte) {
                next.iter().for_each(|(lexeme, _)| found[*lexeme] = true);
            }
            if !next.is_empty() && seen.insert(next.clone()) {
                open.push(next);
            }
        }
        if seen.len() > MAX_STATES {
            return Ok(None);
        }
    }
    Ok(Some((0..found.len()).filter(|lexeme| found[*lexeme]).collect()))
}

/// An automaton of each lexeme; None where one is too large.
fn automata(written: &Written) -> Option<Vec<Regex>> {
    let automaton = |text: &str| {
        let mut builder = RegexBuilder::new();
        let expr = builder.mk_regex(text).ok()?;
        // No lexeme is empty, and one character of each is enough to see that.
        builder.into_regex_limited(expr, u64::MAX).ok()
    };
    written.lexemes.iter().map(|lexeme| automaton(&lexeme.loose)).collect()
}

/// The bytes with which rules begin, and that may follow rules and lexemes.
#[derive(Clone, PartialEq)]
struct Follow {
    firsts: Vec<Bytes>,
    begin: Vec<Bytes>,
    empty: Vec<bool>,
    rules: Vec<Bytes>,
    lexemes: Vec<Bytes>,
}

impl Follow {
    /// `firsts`: of each lexeme, the bytes with which it begins.
    fn new(written: &Written, firsts: Vec<Bytes>, budget: &Budget) -> Result<Self> {
        let none = vec![Bytes::default(); written.rules.len()];
        let lexemes = vec![Bytes::default(); firsts.len()];
        let empty = vec![false; none.len()];
        let mut follow = Follow { firsts, begin: none.clone(), empty, rules: none, lexemes };
        for backward in [true, false].into_iter().cycle() {
            budget.spend(written.rules.len())?;
            let before = follow.clone();
            let mut look = |(rule, choices): (usize, &Vec<Vec<Symbol>>)| {
                choices.iter().for_each(|choice| follow.pass(rule, choice));
            };
            let rules = written.rules.iter().enumerate();
            if backward {
                rules.rev().for_each(&mut look)
            } else {
                rules.for_each(&mut look)
            }
            if follow == before {
                break;
            }
        }
        Ok(follow)
    }

    /// Adds what a choice of a rule says.
    fn pass(&mut self, rule: usize, choice: &[Symbol]) {
        let (mut behind, mut begin, mut empty) = (self.rules[rule], Bytes::default(), true);
        for symbol in choice.iter().rev() {
            match *symbol {
                Symbol::Lexeme(lexeme) => {
                    self.lexemes[lexeme] = self.lexemes[lexeme].and(&behind);
                    (behind, begin, empty) = (self.firsts[lexeme], self.firsts[lexeme], false);
                }
                // The lexer sees no bytes of a token.
                Symbol::Token(_) => (behind, begin, empty) = (Bytes::default(), Bytes::default(), false),
                Symbol::Rule(inner, least, most) => {
                    let first = self.begin[inner];
                    let again = if most == Some(1) { behind } else { behind.and(&first) };
                    self.rules[inner] = self.rules[inner].and(&again);
                    let passable = least == 0 || self.empty[inner];
                    let past = |bytes: Bytes| if passable { bytes.and(&first) } else { first };
                    (behind, begin, empty) = (past(behind), past(begin), empty && passable);
                }
            }
        }
        self.begin[rule] = self.begin[rule].and(&begin);
        self.empty[rule] |= empty;
    }
}
