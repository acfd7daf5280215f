//! The lexer of a compiled grammar, as llguidance's `Lexer` steps through it, and the shortest ways to the ends of lexemes.

use super::Letters;
use super::prices::NONE;
use ahash::AHashMap;
use llguidance::api::ParserLimits;
use llguidance::derivre::{NextByte, StateID};
use llguidance::earley::lexerspec::{LexemeIdx, LexerSpec};
use llguidance::earley::regexvec::{LexemeSet, MatchingLexemes, RegexVec};
use std::collections::VecDeque;

/// States that are looked at to find the shortest way. A bound of states keeps the answer the same whatever was asked before:
/// along a way that is found, fewer are.
const MOST_STATES: usize = 4_000;

pub(super) struct Lexing {
    dfa: RegexVec,
    lexemes: usize,
    /// Bytes to take first where there is a choice; those that are no token are left out.
    order: Vec<u8>,
    /// Where lexemes begin, and what a state is without all others.
    starts: AHashMap<Vec<LexemeIdx>, StateID>,
    singles: AHashMap<(StateID, LexemeIdx), StateID>,
    /// For a state of one lexeme: bytes to its end, and the first of them.
    ways: AHashMap<StateID, (u32, u8)>,
}

/// What a byte comes to.
pub(super) enum Step {
    /// It belongs to the lexeme.
    In(StateID),
    /// It is the last of one of these lexemes.
    Last(MatchingLexemes),
    /// One of these lexemes ended before it.
    Behind(MatchingLexemes),
    Refused,
}

impl Lexing {
    /// None where the lexer can't be built.
    pub(super) fn new(spec: &LexerSpec, letters: &Letters, mut limits: ParserLimits) -> Option<Self> {
        let dfa = spec.to_regex_vec(&mut limits).ok()?;
        let first = b"\"0}]) \n".iter().copied();
        let mut order: Vec<u8> = Vec::new();
        for byte in first.chain(b'a'..=b'z').chain(0x20..=0x7e).chain(0..=0xff) {
            if letters.0[byte as usize].is_some() && !order.contains(&byte) {
                order.push(byte);
            }
        }
        Some(Lexing {
            dfa,
            lexemes: spec.lexemes.len(),
            order,
            starts: AHashMap::new(),
            singles: AHashMap::new(),
            ways: AHashMap::new(),
        })
    }

    /// The state in which one of these lexemes begins, or what their class skips.
    pub(super) fn start(&mut self, spec: &LexerSpec, lexemes: &[LexemeIdx]) -> StateID {
        if let Some(state) = self.starts.get(lexemes) {
            return *state;
        }
        let mut set = LexemeSet::new(self.lexemes);
        for lexeme in lexemes {
            set.add(*lexeme);
            set.add(spec.skip_id(spec.lexeme_spec(*lexeme).class()));
        }
        let state = self.dfa.initial_state(&set);
        self.starts.insert(lexemes.to_vec(), state);
        state
    }

    /// The state in which this lexeme begins.
    pub(super) fn start_of(&mut self, lexeme: LexemeIdx) -> StateID {
        let mut set = LexemeSet::new(self.lexemes);
        set.add(lexeme);
        self.dfa.initial_state(&set)
    }

    pub(super) fn step(&mut self, state: StateID, byte: u8) -> Step {
        let next = self.dfa.transition(state, byte);
        if next.is_dead() {
            let ended = &self.dfa.state_desc(state).greedy_accepting;
            return if ended.is_some() { Step::Behind(ended.clone()) } else { Step::Refused };
        }
        if !next.has_lowest_match() {
            return Step::In(next);
        }
        let found = self.dfa.state_desc(next);
        if found.has_special_token || found.lazy_hidden_len > 0 {
            return Step::Refused;
        }
        Step::Last(found.lazy_accepting.clone())
    }

    /// The first byte of a lexeme behind another's end; the lexemes that it is the whole of.
    pub(super) fn first(&mut self, start: StateID, byte: u8) -> (StateID, Option<MatchingLexemes>) {
        let state = self.dfa.transition(start, byte);
        let whole = !state.is_dead() && self.dfa.next_byte(state) == NextByte::ForcedEOI;
        (state, whole.then(|| self.dfa.state_desc(state).greedy_accepting.clone()))
    }

    /// What the lexemes that may end here are.
    pub(super) fn ended(&self, state: StateID) -> &MatchingLexemes {
        &self.dfa.state_desc(state).greedy_accepting
    }

    pub(super) fn is_possible(&self, state: StateID, lexeme: LexemeIdx) -> bool {
        self.dfa.state_desc(state).possible.contains(lexeme)
    }

    /// The fewest bytes to the end of a lexeme that is possible in this state.
    pub(super) fn rest(&mut self, state: StateID, lexeme: LexemeIdx) -> u32 {
        let alone = self.alone(state, lexeme);
        self.way(alone, lexeme).0
    }

    /// Those bytes, at most `most` of them.
    pub(super) fn text(&mut self, state: StateID, lexeme: LexemeIdx, most: usize, text: &mut Vec<u8>) {
        let mut state = self.alone(state, lexeme);
        while text.len() < most {
            let (left, byte) = self.way(state, lexeme);
            if left == 0 || left >= NONE {
                return;
            }
            text.push(byte);
            state = self.dfa.transition(state, byte);
        }
    }

    /// The state as it were if no other lexeme were possible.
    fn alone(&mut self, state: StateID, lexeme: LexemeIdx) -> StateID {
        if let Some(single) = self.singles.get(&(state, lexeme)) {
            return *single;
        }
        let mut only = LexemeSet::new(self.lexemes);
        only.add(lexeme);
        let single = self.dfa.limit_state_to(state, &only);
        self.singles.insert((state, lexeme), single);
        single
    }

    /// Breadth-first search.
    fn way(&mut self, from: StateID, lexeme: LexemeIdx) -> (u32, u8) {
        if self.ends(from, lexeme) {
            return (0, 0);
        }
        if let Some(way) = self.ways.get(&from) {
            return *way;
        }
        let mut came: AHashMap<StateID, (StateID, u8)> = AHashMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(state) = queue.pop_front().filter(|_| came.len() < MOST_STATES) {
            let forced = match self.dfa.next_byte(state) {
                NextByte::ForcedByte(byte) => Some(byte),
                _ => None,
            };
            for i in 0..if forced.is_some() { 1 } else { self.order.len() } {
                let byte = forced.unwrap_or_else(|| self.order[i]);
                let next = self.dfa.transition(state, byte);
                if next.is_dead() || next == from || came.contains_key(&next) {
                    continue;
                }
                came.insert(next, (state, byte));
                if self.ends(next, lexeme) {
                    return self.note(from, next, &came);
                }
                queue.push_back(next);
            }
        }
        self.ways.insert(from, (NONE, 0));
        (NONE, 0)
    }

    /// Notes the way that was found, for each state on it.
    fn note(&mut self, from: StateID, to: StateID, came: &AHashMap<StateID, (StateID, u8)>) -> (u32, u8) {
        let (mut state, mut left) = (to, 0);
        let mut way = (0, 0);
        while state != from {
            let (before, byte) = came[&state];
            left += 1;
            way = (left, byte);
            self.ways.insert(before, way);
            state = before;
        }
        way
    }

    fn ends(&self, state: StateID, lexeme: LexemeIdx) -> bool {
        let state = self.dfa.state_desc(state);
        state.greedy_accepting.contains(lexeme) || state.lazy_accepting.contains(lexeme)
    }
}
