//! Where the units of a text end, such as the characters of a string.

use super::{Bounds, FUEL, Language};
use llguidance::derivre::StateID;
use std::sync::Arc;

/// Most states within a unit.
const WITHIN: usize = 64;

/// Texts with any number of units, which can be told apart: no unit begins another, and none begins as the end does.
#[derive(Clone)]
pub(super) struct Units {
    pub(super) base: Arc<Language>,
    /// The state of the base between units.
    pub(super) between: StateID,
}

impl Units {
    /// None where units cannot be told apart. The units must be texts of a bounded length that are not empty.
    pub(super) fn new(base: &Arc<Language>, bounds: &Bounds) -> Option<Self> {
        let between = base.between.get_or_init(|| between(base, bounds));
        between.map(|between| Units { base: Arc::clone(base), between })
    }
}

fn between(base: &Language, bounds: &Bounds) -> Option<StateID> {
    let mut automaton = base.automaton();
    automaton.set_fuel(FUEL);
    let between = bounds.begin.iter().fold(base.start, |state, byte| automaton.behind(state, *byte));
    // A state within a unit in which the text may end is also one between units: a unit begins another one there.
    let (mut within, mut looked_at) = (vec![between], 0);
    while let Some(state) = within.get(looked_at).copied() {
        looked_at += 1;
        for byte in 0..=u8::MAX {
            let next = automaton.behind(state, byte);
            let is_end = !automaton.ended(next, next.has_lowest_match()).0.is_empty();
            let closes = state == between && byte == bounds.close;
            if closes != is_end || closes != next.has_lowest_match() && !next.is_dead() {
                return None;
            }
            if !next.is_dead() && !is_end && !within.contains(&next) {
                within.push(next);
            }
        }
        if within.len() > WITHIN || automaton.has_failed() {
            return None;
        }
    }
    Some(between)
}
