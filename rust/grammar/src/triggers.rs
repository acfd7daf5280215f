//! Finds the texts that end a free section, byte by byte, wherever tokens cut them.

use super::spec::Trigger;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind, StartKind};

/// The triggers of one section.
pub(super) struct Triggers {
    list: Vec<Trigger>,
    /// Those that count anywhere, and those that count at the beginning.
    parts: [Option<Finder>; 2],
}

/// Where a text has come to. Cheap to copy: a walk ahead has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State([StateID; 2]);

struct Finder {
    dfa: DFA,
    start: StateID,
    at_start: bool,
    /// The trigger of each pattern.
    of: Vec<usize>,
}

impl Triggers {
    /// `list` is checked: no text is empty or long.
    pub(super) fn new(list: &[Trigger]) -> Self {
        let parts = [false, true].map(|at_start| Finder::new(list, at_start));
        Triggers { list: list.to_vec(), parts }
    }

    /// The triggers, in the spec's order.
    pub(super) fn list(&self) -> &[Trigger] {
        &self.list
    }

    /// At the beginning of the section.
    pub(super) fn start(&self) -> State {
        State(self.parts.each_ref().map(|part| part.as_ref().map_or(StateID::ZERO, |finder| finder.start)))
    }

    /// Takes bytes up to the end of the first trigger: which that is, and how many were taken.
    pub(super) fn feed(&self, state: &mut State, bytes: &[u8]) -> Option<(usize, usize)> {
        for (at, byte) in bytes.iter().enumerate() {
            let mut found = None;
            for (finder, id) in self.parts.iter().zip(&mut state.0) {
                let Some(finder) = finder else { continue };
                *id = finder.step(*id, *byte);
                found = found.or_else(|| finder.found(*id));
            }
            if let Some(trigger) = found {
                return Some((trigger, at + 1));
            }
        }
        None
    }

    /// What completes the trigger from here on; None where nothing does.
    pub(super) fn rest(&self, state: State, trigger: usize) -> Option<&[u8]> {
        let text = self.list[trigger].text.as_bytes();
        let completes = |rest: &&[u8]| {
            let found = self.feed(&mut { state }, rest);
            found.is_some_and(|found| found == (trigger, rest.len()))
        };
        (0..text.len()).rev().map(|from| &text[from..]).find(completes)
    }

    /// Every state in which part of a trigger stands at the end of the text, or none, one finder at a time.
    pub(super) fn states(&self) -> Vec<(usize, State)> {
        let mut states = Vec::new();
        for (part, finder) in self.parts.iter().enumerate() {
            let Some(finder) = finder else { continue };
            for trigger in self.list.iter().filter(|trigger| trigger.at_start == finder.at_start) {
                let mut state = self.start();
                states.push((part, state));
                for byte in &trigger.text.as_bytes()[..trigger.text.len() - 1] {
                    state.0[part] = finder.step(state.0[part], *byte);
                    states.push((part, state));
                }
            }
        }
        states.sort_unstable_by_key(|(part, state)| (*part, state.0[*part]));
        states.dedup_by_key(|(part, state)| (*part, state.0[*part]));
        states
    }

    /// As [`Triggers::feed`], of one finder alone.
    pub(super) fn feed_one(&self, part: usize, state: State, bytes: &[u8]) -> Option<(usize, usize)> {
        let finder = self.parts[part].as_ref()?;
        let mut id = state.0[part];
        bytes.iter().enumerate().find_map(|(at, byte)| {
            id = finder.step(id, *byte);
            finder.found(id).map(|trigger| (trigger, at + 1))
        })
    }

    /// Whether a token of these bytes may, after some text, complete a trigger before its end; or at its end, where the
    /// trigger must not come.
    pub(super) fn may_cross(&self, bytes: &[u8]) -> bool {
        self.list.iter().any(|trigger| {
            let text = trigger.text.as_bytes();
            let spare = usize::from(trigger.next.is_some());
            let begins = |end: &[u8]| bytes.len() >= end.len() + spare && bytes.starts_with(end);
            (1..text.len()).any(|cut| begins(&text[cut..]))
                || (0..bytes.len())
                    .any(|from| bytes.len() - from >= text.len() + spare && bytes[from..].starts_with(text))
        })
    }
}

impl State {
    /// The state of one finder, as a key.
    pub(super) fn of(self, part: usize) -> StateID {
        self.0[part]
    }
}

impl Finder {
    /// None where no trigger is of this kind.
    fn new(list: &[Trigger], at_start: bool) -> Option<Self> {
        let of: Vec<usize> = (0..list.len()).filter(|i| list[*i].at_start == at_start).collect();
        if of.is_empty() {
            return None;
        }
        let anchored = if at_start { Anchored::Yes } else { Anchored::No };
        let kind = if at_start { StartKind::Anchored } else { StartKind::Unanchored };
        let texts = of.iter().map(|i| &list[*i].text);
        let dfa = DFA::builder().match_kind(MatchKind::Standard).start_kind(kind).build(texts);
        let dfa = dfa.expect("A few short texts make an automaton. This is a bug.");
        let start = dfa.start_state(anchored).expect("It was built for this start. This is a bug.");
        Some(Finder { dfa, start, at_start, of })
    }

    fn step(&self, id: StateID, byte: u8) -> StateID {
        if self.at_start && id == self.start && matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return id;
        }
        let anchored = if self.at_start { Anchored::Yes } else { Anchored::No };
        self.dfa.next_state(anchored, id, byte)
    }

    fn found(&self, id: StateID) -> Option<usize> {
        self.dfa.is_match(id).then(|| self.of[self.dfa.match_pattern(id, 0).as_usize()])
    }
}
