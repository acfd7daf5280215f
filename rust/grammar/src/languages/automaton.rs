//! What the states of a grammar's lexer are made of.

use llguidance::derivre::{NextByte, StateID};
use llguidance::earley::lexerspec::LexemeIdx;
use llguidance::earley::regexvec::{LexemeSet, RegexVec};

/// Most steps to decide whether one regular expression contains another. llguidance uses the same number.
const SUBSUME: u64 = 1_000;

/// A state of a [`Language`](super::Language), by its number, and where units are counted, how many may follow and have to: as many
/// as a token can have, or fewer.
pub(crate) type Alike = (u64, StateID, [u32; 2]);

/// An automaton of some lexemes.
pub(crate) trait Automaton {
    /// Memory, about.
    fn bytes(&self) -> usize;
    /// Bytes with the same number are not told apart.
    fn class(&self, byte: u8) -> usize;
    /// The state at the beginning of these lexemes. Lexemes that this automaton does not know are ignored.
    fn initial(&mut self, lexemes: &[LexemeIdx]) -> StateID;
    /// The next state. `has_lowest_match` is set on it if every lexeme is complete and none can continue.
    fn behind(&mut self, state: StateID, byte: u8) -> StateID;
    /// Returns the lexemes that are complete in a state, and whether this parser does not support one of them. With `is_last`, no lexeme
    /// can continue from the state.
    fn ended(&self, state: StateID, is_last: bool) -> (Vec<LexemeIdx>, bool);
    /// A hint at the bytes that may come next within the lexemes.
    fn next_byte(&mut self, state: StateID) -> NextByte;
    /// The bytes that may come next, if all texts are listed.
    fn next_bytes(&self, _: StateID) -> Option<Vec<u8>> {
        None
    }
    fn is_possible(&self, state: StateID, _: LexemeIdx) -> bool {
        !state.is_dead()
    }
    /// The state as it were if no other lexeme were possible.
    fn alone(&mut self, state: StateID, _: LexemeIdx) -> StateID {
        state
    }
    /// What may follow in a state, where the texts of all lexemes are listed.
    fn listed(&self, _: StateID) -> Option<Box<dyn Iterator<Item = &[u8]> + '_>> {
        None
    }
    /// The most characters that a text of a slice may have to continue a lexeme in this state; `u32::MAX` if all texts of the slice can
    /// continue it. `slice`: the slice's lexeme, and the bytes of its longest text. None if the automaton cannot tell.
    fn holds(&mut self, state: StateID, slice: (LexemeIdx, u32)) -> Option<u32>;
    /// What may follow in a state within a token, where it is as in one of another automaton.
    fn alike(&self, _: StateID) -> Option<Alike> {
        None
    }
    /// Whether every text that begins with a quote is a JSON string. False if texts are not listed.
    fn has_whole_strings(&self) -> bool {
        false
    }
    /// The same state without excluded texts.
    fn with_all(&mut self, state: StateID) -> StateID {
        state
    }
    /// Whether a text begins with the rest of an excluded text.
    fn leaves_out(&self, _: StateID, _: &[u8]) -> bool {
        false
    }
    /// Bounds the steps of what follows.
    fn set_fuel(&mut self, _: u64) {}
    /// How many of so many steps are used up.
    fn spent(&self, _: u64) -> u64 {
        0
    }
    /// Whether a limit is met.
    fn has_failed(&self) -> bool {
        false
    }
}

/// llguidance's automaton of a lexer's first lexemes.
#[derive(Clone)]
pub(crate) struct Regexes {
    pub(crate) vec: RegexVec,
    pub(crate) count: usize,
}

impl Automaton for Regexes {
    fn bytes(&self) -> usize {
        self.vec.num_bytes()
    }

    fn class(&self, byte: u8) -> usize {
        self.vec.alpha().map(byte)
    }

    fn initial(&mut self, lexemes: &[LexemeIdx]) -> StateID {
        let set = self.set(lexemes);
        self.vec.initial_state(&set)
    }

    fn behind(&mut self, state: StateID, byte: u8) -> StateID {
        self.vec.transition(state, byte)
    }

    fn ended(&self, state: StateID, is_last: bool) -> (Vec<LexemeIdx>, bool) {
        let found = self.vec.state_desc(state);
        let list = if is_last { &found.lazy_accepting } else { &found.greedy_accepting };
        (list.as_slice().to_vec(), is_last && (found.has_special_token || found.lazy_hidden_len > 0))
    }

    fn next_byte(&mut self, state: StateID) -> NextByte {
        self.vec.next_byte(state)
    }

    fn is_possible(&self, state: StateID, lexeme: LexemeIdx) -> bool {
        self.vec.state_desc(state).possible.contains(lexeme)
    }

    fn alone(&mut self, state: StateID, lexeme: LexemeIdx) -> StateID {
        let set = self.set(&[lexeme]);
        self.vec.limit_state_to(state, &set)
    }

    fn holds(&mut self, state: StateID, (slice, _): (LexemeIdx, u32)) -> Option<u32> {
        let are_all = |vec: &mut RegexVec| vec.check_subsume(state, slice, SUBSUME).unwrap_or(false);
        self.vec.subsume_possible(state).then(|| if are_all(&mut self.vec) { u32::MAX } else { 0 })
    }

    fn set_fuel(&mut self, fuel: u64) {
        self.vec.set_fuel(fuel);
    }

    fn spent(&self, fuel: u64) -> u64 {
        fuel - self.vec.get_fuel()
    }

    fn has_failed(&self) -> bool {
        self.vec.has_error()
    }
}

impl Regexes {
    fn set(&self, lexemes: &[LexemeIdx]) -> LexemeSet {
        let mut set = LexemeSet::new(self.vec.lazy_regexes().len());
        lexemes.iter().filter(|lexeme| lexeme.as_usize() < self.count).for_each(|lexeme| set.add(*lexeme));
        set
    }
}
