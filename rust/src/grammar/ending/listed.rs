//! An automaton of lexemes whose texts are listed: keys, constants, enumerations. All texts of a state have the same first bytes, so a
//! state is how many those are and which texts have them.

use super::automaton::Automaton;
use ahash::AHashMap;
use llguidance::derivre::{NextByte, StateID};
use llguidance::earley::lexerspec::LexemeIdx;

pub(super) struct Listed {
    /// By lexeme.
    texts: Vec<(LexemeIdx, Box<[u8]>)>,
    states: Vec<Begun>,
    known: AHashMap<Begun, StateID>,
    bytes: usize,
}

/// Texts, by their places, that have the same first bytes, and how many bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Begun {
    depth: usize,
    texts: Box<[u32]>,
}

impl Listed {
    pub(super) fn new(mut texts: Vec<(LexemeIdx, Box<[u8]>)>) -> Self {
        texts.sort_unstable_by(|a, b| (a.0.as_usize(), &a.1).cmp(&(b.0.as_usize(), &b.1)));
        texts.dedup();
        let bytes = texts.iter().map(|(_, text)| text.len() + size_of::<(LexemeIdx, Box<[u8]>)>()).sum();
        let none = || Begun { depth: 0, texts: Box::new([]) };
        // Those of `DEAD` and `MISSING`.
        Listed { texts, states: vec![none(), none()], known: AHashMap::new(), bytes }
    }

    fn state(&mut self, depth: usize, texts: Vec<u32>) -> StateID {
        if texts.is_empty() {
            return StateID::DEAD;
        }
        let begun = Begun { depth, texts: texts.into() };
        if let Some(known) = self.known.get(&begun) {
            return *known;
        }
        let is_last = begun.texts.iter().all(|text| self.text(*text).len() == depth);
        let state = StateID::new(self.states.len() as u32);
        let state = if is_last { state._set_lowest_match() } else { state };
        self.bytes += 2 * (size_of::<Begun>() + size_of_val(&*begun.texts)) + size_of::<StateID>();
        self.states.push(begun.clone());
        self.known.insert(begun, state);
        state
    }

    fn text(&self, text: u32) -> &[u8] {
        &self.texts[text as usize].1
    }

    fn begun(&self, state: StateID) -> &Begun {
        &self.states[state.as_usize()]
    }

    /// Those of the texts for which something holds, which have `depth` bytes then.
    fn only(&mut self, state: StateID, depth: usize, holds: impl Fn(&Self, u32) -> bool) -> StateID {
        let texts = self.begun(state).texts.iter().copied().filter(|text| holds(self, *text)).collect();
        self.state(depth, texts)
    }
}

impl Automaton for Listed {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn class(&self, byte: u8) -> usize {
        let is_used = self.texts.iter().any(|(_, text)| text.contains(&byte));
        if is_used { usize::from(byte) + 1 } else { 0 }
    }

    fn initial(&mut self, lexemes: &[LexemeIdx]) -> StateID {
        let mut all = Vec::new();
        for lexeme in lexemes {
            let first = self.texts.partition_point(|(of, _)| of.as_usize() < lexeme.as_usize());
            let same = self.texts[first..].iter().take_while(|(of, _)| of == lexeme).count();
            all.extend(first as u32..(first + same) as u32);
        }
        all.sort_unstable();
        all.dedup();
        self.state(0, all)
    }

    fn behind(&mut self, state: StateID, byte: u8) -> StateID {
        let depth = self.begun(state).depth;
        self.only(state, depth + 1, |all, text| all.text(text).get(depth) == Some(&byte))
    }

    fn ended(&self, state: StateID, _: bool) -> (Vec<LexemeIdx>, bool) {
        let Begun { depth, texts } = self.begun(state);
        let ended = texts.iter().filter(|text| self.text(**text).len() == *depth);
        (ended.map(|text| self.texts[*text as usize].0).collect(), false)
    }

    fn next_byte(&mut self, state: StateID) -> NextByte {
        let Begun { depth, texts } = self.begun(state);
        let next = |text: &u32| match self.text(*text).get(*depth) {
            Some(byte) => NextByte::ForcedByte(*byte),
            None => NextByte::ForcedEOI,
        };
        texts.iter().map(next).fold(NextByte::Dead, |all, next| all | next)
    }

    fn is_possible(&self, state: StateID, lexeme: LexemeIdx) -> bool {
        self.begun(state).texts.iter().any(|text| self.texts[*text as usize].0 == lexeme)
    }

    fn alone(&mut self, state: StateID, lexeme: LexemeIdx) -> StateID {
        let depth = self.begun(state).depth;
        self.only(state, depth, |all, text| all.texts[text as usize].0 == lexeme)
    }

    fn holds(&mut self, _: StateID, _: LexemeIdx) -> Option<bool> {
        Some(false)
    }
}
