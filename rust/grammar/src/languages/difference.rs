//! The texts of an automaton except those in a list, such as the keys of an object that its schema does not list. A state here is a state of
//! that automaton and a state of the list. When no listed text begins with the text so far, the state shares the automaton's mask.

use super::states::FIRST;
use super::{Alike, Automaton, Language, Listed, MOST_STATES, States};
use llguidance::derivre::{NextByte, StateID};
use llguidance::earley::lexerspec::LexemeIdx;
use std::sync::Arc;

/// A state of the base, and a state of the list, which is dead if no listed text begins with the text so far.
type State = (StateID, StateID);

pub(super) struct Difference {
    base: Arc<Language>,
    listed: Listed,
    states: States<State>,
}

impl Difference {
    /// Every beginning of a text of `base` must begin infinitely many of its texts, so that one that is not listed is always left.
    pub(super) fn new(base: Arc<Language>, texts: &[Box<[u8]>]) -> Self {
        let lexeme = LexemeIdx::new(0);
        let mut listed = Listed::new(texts.iter().map(|text| (lexeme, text.clone())).collect());
        let start = (base.start, listed.initial(&[lexeme]));
        let mut states = States::new((StateID::DEAD, StateID::DEAD));
        states.add(start, false);
        Difference { base, listed, states }
    }

    fn state(&mut self, state: State) -> StateID {
        self.states.add(state, state.0.has_lowest_match())
    }

    fn at(&self, state: StateID) -> State {
        *self.states.at(state)
    }

    fn with<T>(&self, work: impl FnOnce(&mut dyn Automaton) -> T) -> T {
        work(&mut **self.base.automaton())
    }

    fn is_listed(&self, listed: StateID) -> bool {
        !listed.is_dead() && self.listed.begins(listed, b"")
    }
}

impl Automaton for Difference {
    fn bytes(&self) -> usize {
        self.listed.bytes() + self.states.bytes()
    }

    fn class(&self, byte: u8) -> usize {
        // Every byte of a listed text has a class of its own.
        match self.listed.class(byte) {
            0 => self.with(|base| base.class(byte)),
            own => own + usize::from(u8::MAX) + 1,
        }
    }

    fn initial(&mut self, _: &[LexemeIdx]) -> StateID {
        FIRST
    }

    fn behind(&mut self, state: StateID, byte: u8) -> StateID {
        let (from, listed) = self.at(state);
        let next = self.with(|base| base.behind(from, byte));
        let listed = if listed.is_dead() { listed } else { self.listed.behind(listed, byte) };
        if next.is_dead() || next.has_lowest_match() && self.is_listed(listed) {
            return StateID::DEAD;
        }
        self.state((next, listed))
    }

    fn ended(&self, state: StateID, is_last: bool) -> (Vec<LexemeIdx>, bool) {
        match self.at(state) {
            (_, listed) if self.is_listed(listed) => (Vec::new(), false),
            (at, _) => self.with(|base| base.ended(at, is_last)),
        }
    }

    fn next_byte(&mut self, state: StateID) -> NextByte {
        self.with(|base| base.next_byte(self.at(state).0))
    }

    fn holds(&mut self, state: StateID, slice: (LexemeIdx, u32)) -> Option<u32> {
        // The slice's texts have no quote, so they complete no listed text.
        self.with(|base| base.holds(self.at(state).0, slice))
    }

    fn alike(&self, state: StateID) -> Option<Alike> {
        let (at, listed) = self.at(state);
        listed.is_dead().then(|| self.base.alike(at))
    }

    fn with_all(&mut self, state: StateID) -> StateID {
        self.state((self.at(state).0, StateID::DEAD))
    }

    fn leaves_out(&self, state: StateID, text: &[u8]) -> bool {
        let listed = self.at(state).1;
        !listed.is_dead() && self.listed.begins(listed, text)
    }

    fn set_fuel(&mut self, fuel: u64) {
        self.with(|base| base.set_fuel(fuel));
    }

    fn spent(&self, fuel: u64) -> u64 {
        self.with(|base| base.spent(fuel))
    }

    fn has_failed(&self) -> bool {
        self.states.len() >= MOST_STATES || self.with(|base| base.has_failed())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::language;
    use super::*;

    fn behind(language: &Language, text: &str) -> StateID {
        let mut automaton = language.automaton();
        text.bytes().fold(language.start, |state, byte| automaton.behind(state, byte))
    }

    #[test]
    fn listed_texts_are_left_out() {
        let base = language("<(?:[a-c]|\\\\>)*>");
        let texts = ["<a>", "<abc>", "<ab\\>c>"].map(|text| text.as_bytes().into());
        let difference = Arc::new(Language::difference(&base, texts.to_vec()));
        for text in ["<>", "<ab>", "<abcc>", "<ab\\>>", "<b>", "<ab\\>cc>"] {
            let state = behind(&difference, text);
            assert!(!state.is_dead() && state.has_lowest_match(), "{text}");
            assert_eq!(difference.automaton().ended(state, true).0.len(), 1, "{text}");
        }
        for text in ["<a>", "<abc>", "<ab\\>c>", "<x"] {
            assert!(behind(&difference, text).is_dead(), "{text}");
        }
    }

    #[test]
    fn states_that_begin_no_listed_text_are_those_of_the_base() {
        let base = language("<[a-c]*>");
        let difference = Arc::new(Language::difference(&base, vec![b"<abc>"[..].into(), b"<ac>"[..].into()]));
        let alike = |text: &str| difference.alike(behind(&difference, text));
        for text in ["<b", "<abb", "<acc"] {
            assert_eq!(alike(text), base.alike(behind(&base, text)), "{text}");
        }
        let state = behind(&difference, "<a");
        assert_eq!(difference.alike(state).0, difference.number);
        let mut automaton = difference.automaton();
        for (text, expected) in [("bc>", true), ("c>b", true), ("bc", false), ("b>", false), ("", false)] {
            assert_eq!(automaton.leaves_out(state, text.as_bytes()), expected, "{text}");
        }
        let all = automaton.with_all(state);
        assert!(all != state && !automaton.leaves_out(all, b"bc>"));
        let full = b"bc>".iter().fold(all, |state, byte| automaton.behind(state, *byte));
        assert!(full.has_lowest_match());
    }
}
