//! Counts the units of a text beside an automaton, such as the characters of a string that has a `maxLength`. The automaton accepts any
//! number of units. A state here is a state of that automaton and the number of units so far. Where more units may still follow than one
//! token can have, the count makes no difference to the mask, so such states share the masks of the automaton without counts.
//!
//! A string may also have a pattern beside its `maxLength`. Then the pattern has an automaton, and a second automaton finds where units
//! end. A text may go on only if the pattern can still be completed within the limit. The fewest units that complete it are the length of a
//! shortest path (0-1 breadth-first search over pairs of states), which is computed only near the limit.

use super::states::FIRST;
use super::units::Units;
use super::{Alike, Automaton, Bounds, Language, MOST_STATES, States};
use ahash::{AHashMap, AHashSet};
use llguidance::derivre::{NextByte, StateID};
use llguidance::earley::lexerspec::LexemeIdx;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most states that a search for a shortest path visits.
const MOST_SEEN: usize = 20_000;

/// Any number of units may follow, and none has to.
pub(super) const FREE: [u32; 2] = [u32::MAX, 0];

/// A pattern that texts must match beside the count.
#[derive(Clone)]
pub(crate) struct Pattern {
    pub(crate) base: Arc<Language>,
    /// Every beginning of a text can be completed with at most this many units.
    pub(crate) farthest: u32,
}

impl Pattern {
    pub(super) fn renewed(&self) -> Self {
        Pattern { base: self.base.renewed(), farthest: self.farthest }
    }
}

/// A state of the pattern's automaton and a state of the units' automaton. Without a pattern, both are the same.
type At = (StateID, StateID);

/// The states, and the number of units so far; None before the first unit may begin.
type State = (At, Option<u32>);

pub(super) struct Counted {
    units: Units,
    pattern: Option<Pattern>,
    bounds: Bounds,
    /// Bytes of the longest token.
    longest: u32,
    /// One byte of each class.
    bytes: Vec<u8>,
    states: States<State>,
    /// For states, the fewest units that complete a text.
    fewest: AHashMap<At, u32>,
    has_failed: bool,
}

impl Counted {
    pub(super) fn new(units: Units, pattern: Option<Pattern>, bounds: &Bounds, longest: u32) -> Self {
        let start =
            (pattern.as_ref().map_or(units.base.start, |pattern| pattern.base.start), units.base.start);
        let mut counted = Counted {
            units,
            pattern,
            bounds: bounds.clone(),
            longest,
            bytes: Vec::new(),
            states: States::new(((StateID::DEAD, StateID::DEAD), None)),
            fewest: AHashMap::new(),
            has_failed: false,
        };
        if counted.pattern.is_some() {
            let mut classes = AHashSet::new();
            counted.bytes = (0..=u8::MAX).filter(|byte| classes.insert(counted.class(*byte))).collect();
        }
        counted.state((start, None));
        counted
    }

    fn state(&mut self, state: State) -> StateID {
        self.states.add(state, state.0.0.has_lowest_match())
    }

    fn at(&self, state: StateID) -> State {
        *self.states.at(state)
    }

    fn base(&self) -> &Arc<Language> {
        self.pattern.as_ref().map_or(&self.units.base, |pattern| &pattern.base)
    }

    fn with<T>(&self, work: impl FnOnce(&mut dyn Automaton) -> T) -> T {
        work(&mut **self.base().automaton())
    }

    /// The states behind one more byte.
    fn next(&self, (base, unit): At, byte: u8) -> Option<At> {
        let next = self.with(|automaton| automaton.behind(base, byte));
        let unit = match &self.pattern {
            Some(_) if !next.is_dead() => self.units.base.automaton().behind(unit, byte),
            _ => next,
        };
        (!next.is_dead() && !unit.is_dead()).then_some((next, unit))
    }

    /// The fewest units that complete a text from these states.
    fn fewest(&mut self, from: At) -> u32 {
        if let Some(fewest) = self.fewest.get(&from) {
            return *fewest;
        }
        let (mut open, mut seen) = (VecDeque::from([(from, 0)]), AHashSet::new());
        let mut fewest = u32::MAX;
        while let Some((at, count)) = open.pop_front() {
            if !seen.insert(at) {
                continue;
            }
            if !self.with(|base| base.ended(at.0, at.0.has_lowest_match())).0.is_empty() {
                fewest = count;
                break;
            }
            for next in self.bytes.iter().filter_map(|byte| self.next(at, *byte)) {
                match next.1 == self.units.between {
                    true => open.push_back((next, count + 1)),
                    false => open.push_front((next, count)),
                }
            }
            if seen.len() > MOST_SEEN {
                self.has_failed = true;
                break;
            }
        }
        self.fewest.insert(from, fewest);
        fewest
    }

    /// The most units that any beginning of a text needs to be completed.
    fn farthest(&self) -> u32 {
        self.pattern.as_ref().map_or(0, |pattern| pattern.farthest)
    }

    /// How many units may still follow.
    fn left(&self, count: Option<u32>) -> u32 {
        self.bounds.most.map_or(u32::MAX, |most| most.saturating_sub(count.unwrap_or(0)))
    }

    /// How many units may follow behind so many, and how many have to: as many as a token can have, or fewer. Behind the last one, both
    /// are 0.
    fn room(&self, count: Option<u32>) -> [u32; 2] {
        let enough = self.longest.saturating_add(1).saturating_add(self.farthest());
        let left = self.left(count);
        let needed = self.bounds.least.saturating_sub(count.unwrap_or(0)).min(enough);
        [if left >= enough { u32::MAX } else { left }, needed]
    }
}

impl Automaton for Counted {
    fn bytes(&self) -> usize {
        self.states.bytes()
    }

    fn class(&self, byte: u8) -> usize {
        let units = self.units.base.automaton().class(byte);
        let pattern = self.pattern.as_ref().map(|pattern| pattern.base.automaton().class(byte));
        pattern.map_or(units, |pattern| (pattern << 16) + units)
    }

    fn initial(&mut self, _: &[LexemeIdx]) -> StateID {
        FIRST
    }

    fn behind(&mut self, state: StateID, byte: u8) -> StateID {
        let (from, count) = self.at(state);
        let between = self.units.between;
        if from.1 == between {
            let [left, needed] = self.room(count);
            let is_refused = if byte == self.bounds.close { needed > 0 } else { left == 0 };
            if is_refused {
                return StateID::DEAD;
            }
        }
        let Some(next) = self.next(from, byte) else { return StateID::DEAD };
        let count = match count {
            // Beyond the fewest, nothing depends on how many there are if there is no most.
            Some(count) if next.1 == between => {
                Some(self.bounds.most.map_or((count + 1).min(self.bounds.least), |_| count + 1))
            }
            None if next.1 == between => Some(0),
            count => count,
        };
        let left = self.left(count);
        if left < self.farthest() && self.fewest(next) > left {
            return StateID::DEAD;
        }
        self.state((next, count))
    }

    fn ended(&self, state: StateID, is_last: bool) -> (Vec<LexemeIdx>, bool) {
        self.with(|base| base.ended(self.at(state).0.0, is_last))
    }

    fn next_byte(&mut self, state: StateID) -> NextByte {
        let (at, count) = self.at(state);
        if at.1 == self.units.between && self.room(count)[0] == 0 {
            return NextByte::ForcedByte(self.bounds.close);
        }
        self.with(|base| base.next_byte(at.0))
    }

    fn holds(&mut self, state: StateID, slice: (LexemeIdx, u32)) -> Option<u32> {
        let (at, count) = self.at(state);
        // Each byte may be a unit.
        let enough = slice.1.saturating_add(self.farthest());
        let (left, are_characters) = (self.left(count), self.units.are_characters && self.pattern.is_none());
        match (left < enough, are_characters) {
            (true, false) => Some(0),
            (true, true) => Some(self.with(|base| base.holds(at.0, slice))?.min(left)),
            (false, _) => self.with(|base| base.holds(at.0, slice)),
        }
    }

    fn alike(&self, state: StateID) -> Option<Alike> {
        let (at, count) = self.at(state);
        match (&self.pattern, self.room(count)) {
            (None, room) => Some((self.units.base.number, at.0, room)),
            (Some(pattern), FREE) => Some(pattern.base.alike(at.0)),
            (Some(_), _) => None,
        }
    }

    fn set_fuel(&mut self, fuel: u64) {
        self.with(|base| base.set_fuel(fuel));
    }

    fn spent(&self, fuel: u64) -> u64 {
        self.with(|base| base.spent(fuel))
    }

    fn has_failed(&self) -> bool {
        self.has_failed || self.states.len() >= MOST_STATES || self.with(|base| base.has_failed())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{language, language_of_all};
    use super::*;

    fn counted(unit: &str, least: u32, most: Option<u32>) -> Option<Arc<Language>> {
        let bounds = Bounds { begin: b"<".to_vec(), close: b'>', least, most };
        Language::counted(&language(&format!("<(?:{unit})*>")), None, &bounds, 3).map(Arc::new)
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
                let counted = Language::counted(&base, None, &bounds, 3).unwrap();
                assert!(compared(&plain, &counted) > 0, "{before}");
            }
        }
    }

    #[test]
    fn a_pattern_goes_on_only_where_it_can_be_completed() {
        // The unit, the pattern, and the most units that any beginning needs to be completed.
        let rows = [
            ("[ab]", "a*b", 1),
            ("[ab]", "(?:ab)*", 1),
            ("[ab]", "a(?:bbb)?a", 4),
            (r"[ab]|\\[a>]", r"(?:a|\\a)*b(?:b|\\>){2}", 4),
            ("[ab]", "(?:aaa|b)*", 2),
            ("é|a>", "(?:é|a>)*a>", 2),
        ];
        for (unit, pattern, farthest) in rows {
            let (any, pattern) = (format!("<(?:{unit})*>"), format!("<(?:{pattern})>"));
            for most in 0..6 {
                let plain = language_of_all([&format!("<(?:{unit}){{0,{most}}}>"), &pattern]);
                let base = language_of_all([&any, &pattern]);
                let bounds = Bounds { begin: b"<".to_vec(), close: b'>', least: 0, most: Some(most) };
                let with = Some(Pattern { base, farthest });
                let counted = Language::counted(&language(&any), with, &bounds, 3).unwrap();
                compared(&plain, &counted);
                assert!(!counted.automaton().has_failed());
            }
        }
    }

    #[test]
    fn a_pattern_far_from_the_limit_has_the_states_without_one() {
        let (any, pattern) = ("<[ab]*>", "<a*b>");
        let base = language_of_all([any, pattern]);
        let bounds = Bounds { begin: b"<".to_vec(), close: b'>', least: 0, most: Some(9) };
        let with = Some(Pattern { base: Arc::clone(&base), farthest: 1 });
        let counted = Language::counted(&language(any), with, &bounds, 3).unwrap();
        let mut state = counted.start;
        let free = b"<aaaaaaaa".map(|byte| {
            state = counted.automaton().behind(state, byte);
            counted.alike(state).0 == base.number
        });
        assert_eq!(free, [true, true, true, true, true, false, false, false, false]);
        assert!(counted.automaton().behind(state, b'a').is_dead());
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
            let counted = Language::counted(&base, None, &bounds, 3).unwrap();
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
