//! States of the lexer as states of single automata. Behind the first bytes of a key, some listed keys may be possible, and any other name.
//! What the listed ones allow is soon found, and what any other allows is the same in all grammars, but both together are only met in this
//! state. A lexeme ends where no byte can continue one of those that are possible, so in general the parts of a state do not say what the
//! state allows: one that has ended may be the beginning of another. Strings of JSON do not begin others. There they do.

use super::automata::{Automata, Part};
use llguidance::derivre::StateID;

/// A state with one part.
pub(super) struct Alone {
    pub(super) state: StateID,
    /// The part, if it leaves out listed texts. Those are not left out in the state.
    pub(super) without: Option<Part>,
}

impl Automata {
    /// States of single automata that together allow what a state allows. It is the state itself where not all texts are strings.
    pub(super) fn apart(&mut self, state: StateID) -> Vec<Alone> {
        let parts = self.parts(state);
        let is_string = |(home, _): &Part| match self.own.get(*home as usize) {
            Some(own) => own.has_whole_strings(),
            None => self.language(*home).is_some_and(|(_, language)| language.is_string),
        };
        let is_listed = parts.len() == 1 && self.language(parts[0].0).is_none();
        if is_listed || !parts.iter().all(is_string) {
            return vec![Alone { state, without: None }];
        }
        let parts: Box<[Part]> = parts.into();
        let mut alone = |(home, part): Part| {
            let all = self.with(home, |automaton| automaton.with_all(part));
            Alone { state: self.state(vec![(home, all)]), without: (all != part).then_some((home, part)) }
        };
        parts.iter().map(|part| alone(*part)).collect()
    }

    /// Whether a text begins with the rest of one that a part leaves out.
    pub(super) fn leaves_out(&mut self, (home, part): Part, text: &[u8]) -> bool {
        self.with(home, |automaton| automaton.leaves_out(part, text))
    }
}
