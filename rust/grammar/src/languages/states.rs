//! States of an automaton and their numbers.

use ahash::AHashMap;
use llguidance::derivre::StateID;
use std::hash::Hash;

/// The number of the first state. The numbers before it are `DEAD` and `MISSING`.
pub(super) const FIRST: StateID = StateID::new(2);

/// The states that have been met. Each has one number.
pub(super) struct States<S> {
    all: Vec<S>,
    known: AHashMap<S, StateID>,
}

impl<S: Clone + Eq + Hash> States<S> {
    /// No states. `none`: a value for the numbers that are not those of states.
    pub(super) fn new(none: S) -> Self {
        States { all: vec![none; FIRST.as_usize()], known: AHashMap::new() }
    }

    pub(super) fn number(&self, state: &S) -> Option<StateID> {
        self.known.get(state).copied()
    }

    /// The number of a state, which may be new. `is_last`: nothing can follow in it.
    pub(super) fn add(&mut self, state: S, is_last: bool) -> StateID {
        if let Some(known) = self.number(&state) {
            return known;
        }
        let number = StateID::new(self.all.len() as u32);
        let number = if is_last { number._set_lowest_match() } else { number };
        self.all.push(state.clone());
        self.known.insert(state, number);
        number
    }

    pub(super) fn at(&self, number: StateID) -> &S {
        &self.all[number.as_usize()]
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Memory, about; that behind pointers is not counted.
    pub(super) fn bytes(&self) -> usize {
        self.all.len() * (2 * size_of::<S>() + size_of::<StateID>())
    }
}
