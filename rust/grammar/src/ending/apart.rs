//! Splits a state of the lexer into one state for each automaton, so that masks are computed for each automaton and combined.
//!
//! Inside a key, the lexer may be in a listed key or in any other name. The mask for the listed keys is quick to compute, and the mask for
//! any other name is the same in all grammars. Both together occur only in this state, and computing that mask as a whole is slow.
//!
//! Masks may be combined only if no text of one automaton begins a longer text of another: the lexer ends a lexeme where no automaton can go
//! on, so the shorter text would not end there. No JSON string begins another one, so a state is split if all its texts are JSON strings.

use super::automata::{Automata, Part};
use llguidance::derivre::StateID;

/// A lexer state with a single part.
pub(super) struct Alone {
    pub(super) state: StateID,
    /// The original part, if it excludes listed texts. `state` does not exclude them.
    pub(super) without: Option<Part>,
}

impl Automata {
    /// Returns states of single automata whose masks together are the mask of a state. Returns the state itself if some texts are not JSON
    /// strings.
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

    /// Whether a text begins with the rest of a text that the part excludes.
    pub(super) fn leaves_out(&mut self, (home, part): Part, text: &[u8]) -> bool {
        self.with(home, |automaton| automaton.leaves_out(part, text))
    }
}
