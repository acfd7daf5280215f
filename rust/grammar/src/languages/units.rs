//! Where the units of a text end, such as the characters of a string.

use super::{Bounds, FUEL, Language};
use llguidance::derivre::StateID;
use regex_syntax::utf8::Utf8Sequences;
use std::sync::Arc;

/// Most states within a unit.
const WITHIN: usize = 64;

/// Texts with any number of units, which can be told apart: no unit begins another, and none begins as the end does.
#[derive(Clone)]
pub(super) struct Units {
    pub(super) base: Arc<Language>,
    pub(super) between: StateID,
    /// Every character except quotes, backslashes and control characters is a unit.
    pub(super) are_characters: bool,
}

/// The base's state between units, and whether every plain character is a unit.
pub(super) type Between = (StateID, bool);

impl Units {
    /// None where units cannot be told apart. The units must be texts of a bounded length that are not empty.
    pub(super) fn new(base: &Arc<Language>, bounds: &Bounds) -> Option<Self> {
        let between = base.between.get_or_init(|| between(base, bounds));
        between.map(|(between, are_characters)| Units { base: Arc::clone(base), between, are_characters })
    }
}

fn between(base: &Language, bounds: &Bounds) -> Option<Between> {
    let mut automaton = base.automaton();
    automaton.set_fuel(FUEL);
    let between = bounds.begin.iter().fold(base.start, |state, byte| automaton.behind(state, *byte));
    // If the text may end in a state within a unit, the unit could end there or go on, so units cannot be told apart.
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
    let mut keeps = |state, byte| automaton.behind(state, byte);
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\');
    let are_characters = (b' '..=b'~').filter(is_plain).all(|byte| keeps(between, byte) == between)
        && keeps_wide(between, |state, byte| Some(keeps(state, byte)).filter(|next| !next.is_dead()));
    Some((between, are_characters))
}

/// Whether every character outside ASCII leads back to the same state.
pub(crate) fn keeps_wide(state: StateID, mut behind: impl FnMut(StateID, u8) -> Option<StateID>) -> bool {
    Utf8Sequences::new('\u{80}', char::MAX).all(|sequence| {
        let mut reached = vec![state];
        for range in sequence.as_slice() {
            let mut next = Vec::new();
            for from in reached {
                for byte in range.start..=range.end {
                    let Some(to) = behind(from, byte) else { return false };
                    next.extend((!next.contains(&to)).then_some(to));
                }
            }
            reached = next;
        }
        reached == [state]
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::language;
    use super::*;

    #[test]
    fn units_are_characters_where_each_is_one() {
        let bounds = Bounds { begin: b"\"".to_vec(), close: b'"', least: 0, most: None };
        for (unit, expected) in [
            (r#"[^"\\\x00-\x1f]|\\["nt]"#, true),
            (r#"[^"]"#, true),
            (r#"[^"\\]{2}"#, false),
            ("[ -!#-~]", false),
            (r#"[^"x]"#, false),
            (r#"[^"\x{e9}]"#, false),
        ] {
            let units = Units::new(&language(&format!("\"(?:{unit})*\"")), &bounds).unwrap();
            assert_eq!(units.are_characters, expected, "{unit}");
        }
    }
}
