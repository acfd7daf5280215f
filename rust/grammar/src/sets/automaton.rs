//! Regular expressions as one automaton over bytes. It has only the combinations of their states that some text reaches.

use ahash::AHashSet;
use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Bytes of the largest automaton.
pub(super) const MOST_BYTES: usize = 8 << 20;

/// The numbers of the regular expressions that a text matches.
pub(super) type Matched = BTreeSet<usize>;

/// Regular expressions as one automaton.
#[derive(Debug)]
pub(super) struct Automaton {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
}

impl Automaton {
    /// None where it would be too large.
    pub(super) fn new(regexes: &[Rc<str>]) -> Option<Self> {
        // The first one is for all texts: what it does not match is not UTF-8.
        let all: Vec<&str> = std::iter::once("(?s:.*)").chain(regexes.iter().map(|rx| &**rx)).collect();
        let config = dense::Config::new()
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Anchored)
            .dfa_size_limit(Some(MOST_BYTES))
            .determinize_size_limit(Some(MOST_BYTES));
        let dfa = dense::Builder::new().configure(config).build_many(&all).ok()?;
        let start = dfa.start_state(&start::Config::new().anchored(Anchored::Yes)).ok()?;
        Some(Automaton { dfa, start })
    }

    pub(super) fn bytes(&self) -> usize {
        self.dfa.memory_usage()
    }

    /// What a text that ends in this state matches as a whole; None where it is no text.
    fn matched(&self, state: StateID) -> Option<Matched> {
        let end = self.dfa.next_eoi_state(state);
        let count = if self.dfa.is_match_state(end) { self.dfa.match_len(end) } else { 0 };
        let mut all: Matched = (0..count).map(|i| self.dfa.match_pattern(end, i).as_usize()).collect();
        all.remove(&0).then(|| all.into_iter().map(|i| i - 1).collect())
    }

    pub(super) fn of(&self, text: &str) -> Matched {
        let state = text.bytes().fold(self.start, |state, byte| self.dfa.next_state(state, byte));
        self.matched(state).unwrap_or_default()
    }

    /// All combinations that some text matches, and no expression besides.
    pub(super) fn combinations(&self) -> BTreeSet<Matched> {
        let bytes = self.dfa.byte_classes().representatives(0..=255);
        let bytes: Vec<u8> = bytes.filter_map(|unit| unit.as_u8()).collect();
        let (mut seen, mut line) = (AHashSet::from([self.start]), vec![self.start]);
        let mut found = BTreeSet::new();
        while let Some(state) = line.pop() {
            found.extend(self.matched(state));
            let next = bytes.iter().map(|byte| self.dfa.next_state(state, *byte));
            line.extend(next.filter(|next| !self.dfa.is_dead_state(*next) && seen.insert(*next)));
        }
        found
    }
}
