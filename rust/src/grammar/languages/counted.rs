//! Counts the units of a text beside an automaton, such as the characters of a string that has a `maxLength`. The automaton accepts any
//! number of units. A state here is a state of that automaton and the number of units so far. Where more units may still follow than one
//! token can have, the count makes no difference to the mask, so such states share the masks of the automaton without counts.

use super::{Alike, Automaton, Bounds, FUEL, Language, MOST_STATES};
use ahash::AHashMap;
use llguidance::derivre::{NextByte, StateID};
use llguidance::earley::lexerspec::LexemeIdx;
use std::sync::Arc;

/// Most states within a unit.
const WITHIN: usize = 64;

/// Any number of units may follow, and none has to.
pub(super) const FREE: [u32; 2] = [u32::MAX, 0];

/// Texts with any number of units, which can be told apart: no unit begins another, and none begins as the end does.
#[derive(Clone)]
pub(super) struct Units {
    pub(super) base: Arc<Language>,
    /// The state of the base between units.
    between: StateID,
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

/// A state of the base, and how many units there have been; None before the first may begin.
type State = (StateID, Option<u32>);

pub(super) struct Counted {
    units: Units,
    bounds: Bounds,
    /// Bytes of the longest token.
    longest: u32,
    states: Vec<State>,
    known: AHashMap<State, StateID>,
}

impl Counted {
    /// The state at the beginning of a text, behind `DEAD` and `MISSING`.
    pub(super) const START: StateID = StateID::new(2);

    pub(super) fn new(units: Units, bounds: &Bounds, longest: u32) -> Self {
        let dead = (StateID::DEAD, None);
        let mut counted = Counted {
            units,
            bounds: bounds.clone(),
            longest,
            states: vec![dead, dead],
            known: AHashMap::new(),
        };
        counted.state((counted.units.base.start, None));
        counted
    }

    fn state(&mut self, state: State) -> StateID {
        if let Some(known) = self.known.get(&state) {
            return *known;
        }
        let number = StateID::new(self.states.len() as u32);
        let number = if state.0.has_lowest_match() { number._set_lowest_match() } else { number };
        self.states.push(state);
        self.known.insert(state, number);
        number
    }

    fn at(&self, state: StateID) -> State {
        self.states[state.as_usize()]
    }

    fn with<T>(&self, work: impl FnOnce(&mut dyn Automaton) -> T) -> T {
        work(&mut **self.units.base.automaton())
    }

    /// How many units may follow behind so many, and how many have to: as many as a token can have, or fewer. Behind the last one, both
    /// are 0.
    fn room(&self, count: Option<u32>) -> [u32; 2] {
        let (count, enough) = (count.unwrap_or(0), self.longest + 1);
        let left = self.bounds.most.map_or(u32::MAX, |most| most.saturating_sub(count));
        let needed = self.bounds.least.saturating_sub(count).min(enough);
        [if left >= enough { u32::MAX } else { left }, needed]
    }
}

impl Automaton for Counted {
    fn bytes(&self) -> usize {
        self.states.len() * (2 * size_of::<State>() + size_of::<StateID>())
    }

    fn class(&self, byte: u8) -> usize {
        self.with(|base| base.class(byte))
    }

    fn initial(&mut self, _: &[LexemeIdx]) -> StateID {
        Self::START
    }

    fn behind(&mut self, state: StateID, byte: u8) -> StateID {
        let (from, count) = self.at(state);
        let between = self.units.between;
        if from == between {
            let [left, needed] = self.room(count);
            let is_refused = if byte == self.bounds.close { needed > 0 } else { left == 0 };
            if is_refused {
                return StateID::DEAD;
            }
        }
        let next = self.with(|base| base.behind(from, byte));
        if next.is_dead() {
            return StateID::DEAD;
        }
        let count = match count {
            // Beyond the fewest, nothing depends on how many there are if there is no most.
            Some(count) if next == between => {
                Some(self.bounds.most.map_or((count + 1).min(self.bounds.least), |_| count + 1))
            }
            None if next == between => Some(0),
            count => count,
        };
        self.state((next, count))
    }

    fn ended(&self, state: StateID, is_last: bool) -> (Vec<LexemeIdx>, bool) {
        self.with(|base| base.ended(self.at(state).0, is_last))
    }

    fn next_byte(&mut self, state: StateID) -> NextByte {
        let (at, count) = self.at(state);
        if at == self.units.between && self.room(count)[0] == 0 {
            return NextByte::ForcedByte(self.bounds.close);
        }
        self.with(|base| base.next_byte(at))
    }

    fn holds(&mut self, state: StateID, slice: (LexemeIdx, u32)) -> Option<bool> {
        let (at, count) = self.at(state);
        // Each byte may be a unit.
        if self.room(count)[0] < slice.1 { Some(false) } else { self.with(|base| base.holds(at, slice)) }
    }

    fn alike(&self, state: StateID) -> Option<Alike> {
        let (at, count) = self.at(state);
        Some((self.units.base.number, at, self.room(count)))
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

    fn counted(unit: &str, least: u32, most: Option<u32>) -> Option<Arc<Language>> {
        let bounds = Bounds { begin: b"<".to_vec(), close: b'>', least, most };
        Language::counted(&language(&format!("<(?:{unit})*>")), &bounds, 3).map(Arc::new)
    }

    /// Steps both through all texts of some bytes. Returns how many texts end.
    fn compared(plain: &Language, counted: &Language) -> usize {
        let mut open = vec![(plain.start, counted.start, 0)];
        let mut ends = 0;
        while let Some((expected, state, depth)) = open.pop() {
            for byte in "<ab>\\é".bytes().filter(|_| depth < 14) {
                let next = plain.automaton().behind(expected, byte);
                let found = counted.automaton().behind(state, byte);
                let flags = |state: StateID| (state.is_dead(), state.has_lowest_match());
                assert_eq!(flags(next), flags(found));
                if !next.is_dead() {
                    let is_last = next.has_lowest_match();
                    let ended = plain.automaton().ended(next, is_last);
                    assert_eq!(ended, counted.automaton().ended(found, is_last));
                    ends += usize::from(is_last);
                    open.push((next, found, depth + 1));
                }
            }
        }
        ends
    }

    #[test]
    fn texts_have_so_many_units() {
        let times = |least: u32, most: Option<u32>| {
            format!("{{{least},{}}}", most.map(|most| most.to_string()).unwrap_or_default())
        };
        for unit in ["a", "[ab]", r"[ab]|\\[a>]", "aa|b", "é|a>", "a<b"] {
            for (least, most) in [(0, Some(2)), (1, Some(9)), (3, None), (4, Some(4)), (0, Some(0))] {
                let plain = language(&format!("<(?:{unit}){}>", times(least, most)));
                assert!(compared(&plain, &counted(unit, least, most).unwrap()) > 0, "{unit}");
            }
        }
        for (before, begin) in [("[ab]", "<b"), ("ba", "<ba"), ("[ab]<[ab]", "<a<b")] {
            let base = language(&format!("<{before}[ab]*>"));
            for (least, most) in [(0, Some(2)), (2, Some(3)), (1, None)] {
                let bounds = Bounds { begin: begin.into(), close: b'>', least, most };
                let plain = language(&format!("<{before}[ab]{}>", times(least, most)));
                let counted = Language::counted(&base, &bounds, 3).unwrap();
                assert!(compared(&plain, &counted) > 0, "{before}");
            }
        }
    }

    #[test]
    fn units_that_cannot_be_told_apart_are_not_counted() {
        for unit in ["a|aa", "a|ab|b", "ab?", ">|a", "a*", ">b"] {
            assert!(counted(unit, 1, Some(5)).is_none(), "{unit}");
        }
    }

    #[test]
    fn states_with_room_for_a_token_are_alike() {
        let base = language("<(?:[ab])*>");
        let states = |least, most| {
            let bounds = Bounds { begin: b"<".to_vec(), close: b'>', least, most };
            let counted = Language::counted(&base, &bounds, 3).unwrap();
            let mut state = counted.start;
            b"<abababab".map(|byte| {
                state = counted.automaton().behind(state, byte);
                counted.alike(state)
            })
        };
        let free = states(0, Some(100));
        assert!(free.iter().all(|state| *state == free[0] && state.2 == FREE && state.0 == base.number));
        let few = states(0, Some(8));
        assert_eq!(
            few.map(|state| state.2[0]),
            [u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX, 3, 2, 1, 0]
        );
        assert_eq!(states(6, None).map(|state| state.2[1]), [4, 4, 4, 3, 2, 1, 0, 0, 0]);
        assert_eq!(free[0].1, base.automaton().behind(base.start, b'<'));
    }

    #[test]
    fn a_text_that_is_full_can_only_end() {
        let counted = counted("[ab]", 1, Some(2)).unwrap();
        let mut automaton = counted.automaton();
        let full = b"<ab".iter().fold(counted.start, |state, byte| automaton.behind(state, *byte));
        assert!(automaton.next_byte(full) == NextByte::ForcedByte(b'>'));
        assert!(automaton.behind(full, b'a').is_dead() && automaton.behind(full, b'>').has_lowest_match());
    }
}
