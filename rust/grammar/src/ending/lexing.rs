//! The lexer of a compiled grammar, which steps as llguidance's `Lexer` does, and the shortest ways to the ends of lexemes.

use super::apart::Alone;
use super::automata::{Automata, Part, Residual};
use super::prices::NONE;
use crate::languages::{Automaton, Known, Listed, Regexes, keeps_wide};
use crate::types::Token;
use ahash::AHashMap;
use llguidance::api::ParserLimits;
use llguidance::derivre::{NextByte, StateID};
use llguidance::earley::lexerspec::{LexemeIdx, LexerSpec};
use llguidance::earley::regexvec::MatchingLexemes;
use std::collections::VecDeque;
use toktrie::TokTrie;

/// States that are looked at to find the shortest way. A bound of states keeps the answer the same whatever was asked before:
/// along a way that is found, fewer are.
const MOST_STATES: usize = 4_000;

pub(super) struct Lexing {
    automata: Automata,
    /// Bytes to take first where there is a choice; those that are no token are left out.
    order: Vec<u8>,
    /// Where lexemes begin, and what a state is without all others.
    starts: AHashMap<Vec<LexemeIdx>, StateID>,
    singles: AHashMap<(StateID, LexemeIdx), StateID>,
    held: AHashMap<(StateID, usize), u32>,
    /// For a state of one lexeme: bytes to its end, and the first of them.
    ways: AHashMap<StateID, (u32, u8)>,
}

/// What a byte comes to.
pub(super) enum Step {
    /// It belongs to the lexeme.
    In(StateID),
    /// It is the last of a lexeme, which ends in this state.
    Last(StateID),
    /// A lexeme ended before it.
    Behind,
    Refused,
    /// It ends a lexeme of a kind that is not followed here.
    Unknown,
}

impl Lexing {
    /// None where the lexer can't be built. `known`: what is known of its lexemes.
    pub(super) fn new(
        spec: &LexerSpec,
        Known { texts, clients }: &Known,
        letters: &[Option<Token>; 256],
        mut limits: ParserLimits,
    ) -> Option<Self> {
        let (mut listed, mut languages) = (Vec::new(), Vec::new());
        for (lexeme, texts) in texts {
            listed.extend(texts.listed.iter().map(|text| (*lexeme, text.clone())));
            languages.extend(texts.described.iter().map(|language| (*lexeme, language.renewed())));
        }
        languages.sort_unstable_by_key(|(lexeme, _)| lexeme.as_usize());
        let mut own: Vec<Box<dyn Automaton + Send>> = Vec::new();
        if *clients > 0 {
            let mut vec = spec.to_regex_vec(&mut limits).ok()?;
            vec.set_max_states(limits.max_lexer_states);
            own.push(Box::new(Regexes { vec, count: *clients }));
        }
        if !listed.is_empty() {
            own.push(Box::new(Listed::new(listed)));
        }
        let mut automata = Automata::new(spec, own, languages, limits.max_lexer_states);
        automata.set_fuel(limits.initial_lexer_fuel);
        let first = b"\"0}]) \n".iter().copied();
        let mut order: Vec<u8> = Vec::new();
        for byte in first.chain(b'a'..=b'z').chain(0x20..=0x7e).chain(0..=0xff) {
            if letters[byte as usize].is_some() && !order.contains(&byte) {
                order.push(byte);
            }
        }
        Some(Lexing {
            automata,
            order,
            starts: AHashMap::new(),
            singles: AHashMap::new(),
            held: AHashMap::new(),
            ways: AHashMap::new(),
        })
    }

    /// Bytes of the shortest text of each lexeme, by lexers that are dropped: all those texts together may have more states than a
    /// lexer may. What is `known` is not looked for. None where one takes more steps than making a lexer may.
    pub(super) fn shortest(known: Vec<Option<u32>>, fresh: impl Fn() -> Option<Self>) -> Option<Vec<u32>> {
        let mut used: Option<Self> = None;
        let mut find = |lexeme| {
            let mut lexing = used.take().or_else(&fresh)?;
            let mut bytes = lexing.shortest_of(lexeme);
            if lexing.has_failed() {
                lexing = fresh()?;
                bytes = lexing.shortest_of(lexeme);
            }
            if !lexing.has_failed() {
                used = Some(lexing);
                return Some(bytes);
            }
            (lexing.automata.fuel() > 0).then_some(NONE)
        };
        let all = (0..).map(LexemeIdx::new).zip(known);
        all.map(|(lexeme, known)| known.or_else(|| find(lexeme))).collect()
    }

    fn shortest_of(&mut self, lexeme: LexemeIdx) -> u32 {
        let state = self.start_of(lexeme);
        self.rest(state, lexeme)
    }

    /// Memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.automata.bytes()
    }

    /// Whether its limit of states is met: what it tells from then on is wrong.
    pub(super) fn has_failed(&self) -> bool {
        self.automata.has_failed()
    }

    /// Whether new texts should have a new one.
    pub(super) fn is_full(&self) -> bool {
        self.has_failed() || self.automata.is_full()
    }

    /// What may follow in a state in listed texts, and whether nothing else may.
    pub(super) fn listed(&self, state: StateID) -> (impl Iterator<Item = &[u8]>, bool) {
        self.automata.listed(state)
    }

    /// The texts that may follow in a state, sorted. None if some are not listed, or if one begins another.
    pub(super) fn listed_apart(&self, state: StateID) -> Option<Vec<Box<[u8]>>> {
        let (texts, true) = self.automata.listed(state) else { return None };
        let mut texts: Vec<&[u8]> = texts.collect();
        texts.sort_unstable();
        texts.dedup();
        let are_apart = texts.windows(2).all(|pair| !pair[1].starts_with(pair[0]));
        (are_apart && texts.iter().all(|text| !text.is_empty()))
            .then(|| texts.into_iter().map(Box::from).collect())
    }

    /// States of single automata whose masks together are the mask of a state.
    pub(super) fn apart(&mut self, state: StateID) -> Vec<Alone> {
        self.automata.apart(state)
    }

    /// Whether a text begins with the rest of a text that the part excludes.
    pub(super) fn leaves_out(&mut self, part: Part, text: &[u8]) -> bool {
        self.automata.leaves_out(part, text)
    }

    /// What may follow in a state, where all of its lexemes are languages.
    pub(super) fn residual(&self, state: StateID) -> Option<Residual> {
        self.automata.residual(state)
    }

    /// The state in which one of these lexemes begins, or what their class skips. `is_first`: at the beginning of a text, where
    /// that is skipped only if the grammar says so.
    pub(super) fn start(&mut self, spec: &LexerSpec, lexemes: &[LexemeIdx], is_first: bool) -> StateID {
        if let Some(state) = self.starts.get(lexemes).filter(|_| !is_first) {
            return *state;
        }
        let mut all = lexemes.to_vec();
        if !is_first || spec.allow_initial_skip {
            all.extend(lexemes.iter().map(|lexeme| spec.skip_id(spec.lexeme_spec(*lexeme).class())));
        }
        let state = self.automata.initial(all);
        if !is_first {
            self.starts.insert(lexemes.to_vec(), state);
        }
        state
    }

    /// The state in which this lexeme begins.
    pub(super) fn start_of(&mut self, lexeme: LexemeIdx) -> StateID {
        self.automata.initial([lexeme])
    }

    pub(super) fn step(&mut self, state: StateID, byte: u8) -> Step {
        // llguidance marks tokens that are asked for by number with this byte. They are not read as bytes.
        if byte == TokTrie::SPECIAL_TOKEN_MARKER {
            return Step::Refused;
        }
        let next = self.behind(state, byte);
        if next.is_dead() {
            return if self.ended(state).is_some() { Step::Behind } else { Step::Refused };
        }
        match next.has_lowest_match() {
            false => Step::In(next),
            true if self.automata.is_unknown(next) => Step::Unknown,
            true => Step::Last(next),
        }
    }

    /// The state behind one more byte.
    pub(super) fn behind(&mut self, state: StateID, byte: u8) -> StateID {
        self.automata.behind(state, byte)
    }

    /// Whether any character outside ASCII leaves the lexer in the same state.
    pub(super) fn keeps_wide(&mut self, state: StateID) -> bool {
        keeps_wide(state, |state, byte| match self.step(state, byte) {
            Step::In(next) => Some(next),
            _ => None,
        })
    }

    /// The first byte of a lexeme behind another's end, and whether it is all of it.
    pub(super) fn first(&mut self, start: StateID, byte: u8) -> (StateID, bool) {
        let state = self.behind(start, byte);
        (state, !state.is_dead() && self.automata.next_byte(state) == NextByte::ForcedEOI)
    }

    /// The lexemes that end in this state.
    pub(super) fn ended(&self, state: StateID) -> &MatchingLexemes {
        self.automata.ended(state)
    }

    /// A hint at the bytes that may come next in this state.
    pub(super) fn next_byte(&mut self, state: StateID) -> NextByte {
        let next = self.automata.next_byte(state);
        // Any byte may follow the end of a lexeme.
        if self.ended(state).is_some() { next.make_fuzzy() } else { next }
    }

    /// The most characters that a text of a slice may have to continue a lexeme in this state; `u32::MAX` if all texts can. `slice`: its
    /// number, and the bytes of its longest token.
    pub(super) fn holds(&mut self, state: StateID, slice: (usize, u32)) -> u32 {
        let automata = &mut self.automata;
        let holds = || if state.is_dead() { 0 } else { automata.holds(state, slice) };
        *self.held.entry((state, slice.0)).or_insert_with(holds)
    }

    /// Bounds what the next transitions may cost.
    pub(super) fn set_fuel(&mut self, fuel: u64) {
        self.automata.set_fuel(fuel);
    }

    pub(super) fn is_possible(&self, state: StateID, lexeme: LexemeIdx) -> bool {
        self.automata.is_possible(state, lexeme)
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
            state = self.behind(state, byte);
        }
    }

    /// The state as it were if no other lexeme were possible.
    fn alone(&mut self, state: StateID, lexeme: LexemeIdx) -> StateID {
        if let Some(single) = self.singles.get(&(state, lexeme)) {
            return *single;
        }
        let single = self.automata.alone(state, lexeme);
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
            let forced = match self.automata.next_byte(state) {
                NextByte::ForcedByte(byte) => Some(byte),
                _ => None,
            };
            for i in 0..if forced.is_some() { 1 } else { self.order.len() } {
                let byte = forced.unwrap_or_else(|| self.order[i]);
                let next = self.behind(state, byte);
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
        self.ended(state).contains(lexeme)
    }
}
