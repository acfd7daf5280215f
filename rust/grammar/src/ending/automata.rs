//! The states of a grammar's lexer. A state is one of each automaton in which a lexeme is still possible: of the automata of
//! [`Language`]s, and of the grammar's own, which have all its other lexemes:
//! [`Listed`](crate::languages::Listed), and, of a client's Lark, [`Regexes`](crate::languages::Regexes).

use super::classes::Classes;
use crate::languages::{Alike, Automaton, FUEL, Language};
use ahash::AHashMap;
use llguidance::derivre::{NextByte, StateID};
use llguidance::earley::lexerspec::{LexemeIdx, LexerSpec};
use llguidance::earley::regexvec::MatchingLexemes;
use std::sync::Arc;

/// A state of one of the automata, by its number.
pub(super) type Part = (u32, StateID);

/// What may follow in lexemes that other grammars have, too: states of [`Language`]s.
pub(super) type Residual = Box<[Alike]>;

pub(super) struct Automata {
    /// The automata of all lexemes that are no languages. They are numbered from 0, and the languages behind them.
    pub(super) own: Vec<Box<dyn Automaton + Send>>,
    languages: Vec<(LexemeIdx, Arc<Language>)>,
    /// For each lexeme, the languages that it may be.
    homes: Vec<Vec<u32>>,
    /// Lexemes of its own automata that stand for the vocabulary's slices.
    slices: Vec<LexemeIdx>,
    /// For each byte its class; the automata do not tell bytes of a class apart.
    classes: [u8; 256],
    /// How many there are.
    width: usize,
    /// For each state and class the next state.
    table: Vec<StateID>,
    states: Vec<State>,
    known: AHashMap<Box<[Part]>, StateID>,
    most: usize,
    fuel: u64,
    has_failed: bool,
}

struct State {
    parts: Box<[Part]>,
    ended: MatchingLexemes,
    /// A lexeme ends here that this parser does not support: one with a lookahead, or a special token.
    is_unknown: bool,
    next_byte: Option<NextByte>,
}

impl Automata {
    /// `own`: automata of the lexer `spec`. `most`: how many states there may be.
    pub(super) fn new(
        spec: &LexerSpec,
        own: Vec<Box<dyn Automaton + Send>>,
        languages: Vec<(LexemeIdx, Arc<Language>)>,
        most: usize,
    ) -> Self {
        let mut homes = vec![Vec::new(); spec.lexemes.len()];
        for (number, (lexeme, _)) in (own.len() as u32..).zip(&languages) {
            homes[lexeme.as_usize()].push(number);
        }
        let mut classes = Classes::new();
        own.iter().for_each(|own| classes.split(|byte| own.class(byte)));
        for (_, language) in &languages {
            let automaton = language.automaton();
            classes.split(|byte| automaton.class(byte));
        }
        let Classes { of: classes, count: width } = classes;
        let slices = (0..spec.num_extra_lexemes).map(|slice| spec.extra_lexeme(slice)).collect();
        let dead = || State {
            parts: Box::new([]),
            ended: MatchingLexemes::None,
            is_unknown: false,
            next_byte: Some(NextByte::Dead),
        };
        Automata {
            own,
            languages,
            homes,
            slices,
            classes,
            width,
            // Those of the states `DEAD` and `MISSING`.
            table: vec![StateID::DEAD; 2 * width],
            states: vec![dead(), dead()],
            known: AHashMap::new(),
            most,
            fuel: u64::MAX,
            has_failed: false,
        }
    }

    /// Memory, about; that of languages is not counted.
    pub(super) fn bytes(&self) -> usize {
        let each = size_of::<State>() + 2 * size_of::<Part>() + size_of::<(Box<[Part]>, StateID)>();
        let own: usize = self.own.iter().map(|own| own.bytes()).sum();
        own + self.states.len() * each + size_of_val(&*self.table)
    }

    /// Whether a limit is met: what is told from then on is wrong.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Whether one of the languages should be made anew.
    pub(super) fn is_full(&self) -> bool {
        self.languages.iter().any(|(_, language)| language.is_full())
    }

    /// Bounds the steps of what follows.
    pub(super) fn set_fuel(&mut self, fuel: u64) {
        self.fuel = fuel;
    }

    pub(super) fn fuel(&self) -> u64 {
        self.fuel
    }

    /// The language of this number.
    pub(super) fn language(&self, number: u32) -> Option<&(LexemeIdx, Arc<Language>)> {
        (number as usize).checked_sub(self.own.len()).map(|language| &self.languages[language])
    }

    /// Uses an automaton.
    pub(super) fn with<T>(&mut self, number: u32, work: impl FnOnce(&mut dyn Automaton) -> T) -> T {
        let mut shared;
        let count = self.own.len();
        let (automaton, fuel): (&mut dyn Automaton, u64) = match self.own.get_mut(number as usize) {
            Some(own) => (&mut **own, self.fuel),
            None => {
                shared = self.languages[number as usize - count].1.automaton();
                // It goes on for others when this grammar has used up its own.
                (&mut **shared, FUEL)
            }
        };
        automaton.set_fuel(fuel);
        let done = work(automaton);
        self.fuel = self.fuel.saturating_sub(automaton.spent(fuel));
        self.has_failed |= automaton.has_failed() || self.fuel == 0;
        done
    }

    /// The state in which one of these lexemes begins.
    pub(super) fn initial(&mut self, lexemes: impl IntoIterator<Item = LexemeIdx>) -> StateID {
        let lexemes: Vec<LexemeIdx> = lexemes.into_iter().collect();
        let mut parts = Vec::new();
        for number in 0..self.own.len() as u32 {
            parts.push((number, self.with(number, |own| own.initial(&lexemes))));
        }
        for home in lexemes.iter().flat_map(|lexeme| &self.homes[lexeme.as_usize()]) {
            parts.extend(self.language(*home).map(|(_, language)| (*home, language.start)));
        }
        parts.retain(|(_, state)| !state.is_dead());
        parts.sort_unstable_by_key(|(home, _)| *home);
        parts.dedup();
        self.state(parts)
    }

    /// The state behind one more byte.
    pub(super) fn behind(&mut self, state: StateID, byte: u8) -> StateID {
        let at = state.as_usize() * self.width + usize::from(self.classes[usize::from(byte)]);
        match self.table[at] {
            StateID::MISSING => {
                let mut parts = Vec::with_capacity(self.states[state.as_usize()].parts.len());
                for i in 0..self.states[state.as_usize()].parts.len() {
                    let (home, from) = self.states[state.as_usize()].parts[i];
                    let next = self.with(home, |automaton| automaton.behind(from, byte));
                    parts.extend((!next.is_dead()).then_some((home, next)));
                }
                let next = self.state(parts);
                self.table[at] = next;
                next
            }
            next => next,
        }
    }

    pub(super) fn state(&mut self, parts: Vec<Part>) -> StateID {
        if parts.is_empty() {
            return StateID::DEAD;
        }
        if let Some(known) = self.known.get(parts.as_slice()) {
            return *known;
        }
        let parts: Box<[Part]> = parts.into();
        // It is the last byte only if all of the lexemes end with it.
        let is_last = parts.iter().all(|(_, state)| state.has_lowest_match());
        let (mut ended, mut is_unknown) = (Vec::new(), false);
        for (home, state) in parts.iter().copied() {
            let (list, unknown) = self.with(home, |automaton| automaton.ended(state, is_last));
            is_unknown |= unknown;
            let language = self.language(home);
            ended.extend(list.into_iter().map(|own| language.map_or(own, |(lexeme, _)| *lexeme)));
        }
        ended.sort_unstable_by_key(|lexeme| lexeme.as_usize());
        ended.dedup();
        let mut all = MatchingLexemes::None;
        ended.into_iter().for_each(|lexeme| all.add(lexeme));
        let number = self.states.len();
        let state = StateID::new(number as u32);
        let state = if is_last { state._set_lowest_match() } else { state };
        let next_bytes = match &*parts {
            [(home, part)] => self.own.get(*home as usize).and_then(|own| own.next_bytes(*part)),
            _ => None,
        };
        let row = number * self.width;
        self.table
            .resize(row + self.width, if next_bytes.is_some() { StateID::DEAD } else { StateID::MISSING });
        for byte in next_bytes.into_iter().flatten() {
            self.table[row + usize::from(self.classes[usize::from(byte)])] = StateID::MISSING;
        }
        self.states.push(State { parts: parts.clone(), ended: all, is_unknown, next_byte: None });
        self.has_failed |= self.states.len() >= self.most;
        self.known.insert(parts, state);
        state
    }

    pub(super) fn parts(&self, state: StateID) -> &[Part] {
        &self.states[state.as_usize()].parts
    }

    /// The lexemes that end in a state.
    pub(super) fn ended(&self, state: StateID) -> &MatchingLexemes {
        &self.states[state.as_usize()].ended
    }

    /// Whether a lexeme ends here that this parser does not support, so that llguidance has to take over.
    pub(super) fn is_unknown(&self, state: StateID) -> bool {
        self.states[state.as_usize()].is_unknown
    }

    /// A hint at the bytes that may come next within the lexemes.
    pub(super) fn next_byte(&mut self, state: StateID) -> NextByte {
        if let Some(known) = self.states[state.as_usize()].next_byte {
            return known;
        }
        let mut next = NextByte::Dead;
        for i in 0..self.states[state.as_usize()].parts.len() {
            let (home, part) = self.states[state.as_usize()].parts[i];
            next = next | self.with(home, |automaton| automaton.next_byte(part));
        }
        self.states[state.as_usize()].next_byte = Some(next);
        next
    }

    pub(super) fn is_possible(&self, state: StateID, lexeme: LexemeIdx) -> bool {
        let homes = &self.homes[lexeme.as_usize()];
        let is_possible = |(home, part): &Part| match self.own.get(*home as usize) {
            Some(own) => own.is_possible(*part, lexeme),
            None => homes.contains(home),
        };
        self.states[state.as_usize()].parts.iter().any(is_possible)
    }

    /// The state as it were if no other lexeme were possible.
    pub(super) fn alone(&mut self, state: StateID, lexeme: LexemeIdx) -> StateID {
        let mut parts = self.states[state.as_usize()].parts.to_vec();
        parts.retain_mut(|(home, part)| {
            if self.language(*home).is_some() {
                return self.homes[lexeme.as_usize()].contains(home);
            }
            *part = self.with(*home, |own| own.alone(*part, lexeme));
            !part.is_dead()
        });
        self.state(parts)
    }

    /// The most characters that a text of a slice may have to continue a lexeme in this state; `u32::MAX` if all texts can. `slice`: its
    /// number, and the bytes of its longest text.
    pub(super) fn holds(&mut self, state: StateID, (slice, longest): (usize, u32)) -> u32 {
        let parts = self.states[state.as_usize()].parts.clone();
        let mut most = 0;
        for (home, part) in parts.iter().copied() {
            let (slices, is_open) = match self.language(home) {
                None => (&self.slices, false),
                Some((_, language)) => (&language.slices, language.is_open),
            };
            let Some(extra) = slices.get(slice).copied() else { continue };
            // The texts of slices have no escapes, so a string that may have any character can go on with them.
            if is_open && !self.with(home, |automaton| automaton.behind(part, b' ')).is_dead() {
                most = u32::MAX;
                continue;
            }
            match self.with(home, |automaton| automaton.holds(part, (extra, longest))) {
                None => return 0,
                Some(holds) => most = most.max(holds),
            }
        }
        // A longer text may continue another lexeme.
        if parts.len() == 1 || most == u32::MAX { most } else { 0 }
    }

    /// What may follow in a state in listed texts, and whether nothing else may.
    pub(super) fn listed(&self, state: StateID) -> (impl Iterator<Item = &[u8]>, bool) {
        let parts = &self.states[state.as_usize()].parts;
        let listed = parts.iter().find_map(|(home, part)| self.own.get(*home as usize)?.listed(*part));
        let is_all = listed.is_some() && parts.len() == 1;
        (listed.into_iter().flatten(), is_all)
    }

    /// The state without the grammar's lexemes; None where one is possible that no language has.
    pub(super) fn residual(&self, state: StateID) -> Option<Residual> {
        let parts = self.states[state.as_usize()].parts.iter();
        parts.map(|(home, part)| Some(self.language(*home)?.1.alike(*part))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::languages::Listed;
    use llguidance::api::ParserLimits;
    use llguidance::derivre::RegexAst;
    use llguidance::earley::regexvec::LexemeSet;

    fn lexer(regexes: &[RegexAst]) -> (LexerSpec, Vec<LexemeIdx>) {
        let mut spec = LexerSpec::new().unwrap();
        spec.setup_lexeme_class(RegexAst::NoMatch).unwrap();
        let mut add = |rx: &RegexAst| {
            spec.add_greedy_lexeme(String::new(), rx.clone(), false, None, usize::MAX).unwrap()
        };
        let lexemes = regexes.iter().map(&mut add).collect();
        (spec, lexemes)
    }

    fn language(rx: &RegexAst) -> Arc<Language> {
        let (spec, lexemes) = lexer(std::slice::from_ref(rx));
        Arc::new(Language::new(&spec, lexemes[0]).unwrap())
    }

    #[test]
    fn states_are_those_of_one_automaton_with_all_lexemes() {
        let [word, number] = ["[a-z]+", "-?[0-9]{1,3}"].map(|rx| RegexAst::Regex(rx.into()));
        let (spec, all) = lexer(&[RegexAst::Literal("name".into()), word.clone(), number.clone()]);
        let mut limits = ParserLimits::default();
        let mut one = spec.to_regex_vec(&mut limits).unwrap();
        let described = vec![(all[1], language(&word)), (all[2], language(&number))];
        let own = Listed::new(vec![(all[0], b"name"[..].into())]);
        let mut automata = Automata::new(&spec, vec![Box::new(own)], described, 100);
        let mut set = LexemeSet::new(spec.lexemes.len());
        all.iter().for_each(|lexeme| set.add(*lexeme));
        let mut open = vec![(one.initial_state(&set), automata.initial(all.clone()), 0)];
        let (mut ends, mut seen) = (0, 0);
        while let Some((expected, state, depth)) = open.pop() {
            seen += 1;
            for byte in b"name-09 ".iter().copied().filter(|_| depth < 5) {
                let (next, found) = (one.transition(expected, byte), automata.behind(state, byte));
                assert_eq!(
                    (next.is_dead(), next.has_lowest_match()),
                    (found.is_dead(), found.has_lowest_match())
                );
                if next.is_dead() {
                    continue;
                }
                let told = one.state_desc(next);
                let ended =
                    if next.has_lowest_match() { &told.lazy_accepting } else { &told.greedy_accepting };
                assert_eq!(ended.as_slice(), automata.ended(found).as_slice());
                for lexeme in all.iter().copied() {
                    assert_eq!(told.possible.contains(lexeme), automata.is_possible(found, lexeme));
                    assert_eq!(automata.alone(found, lexeme).is_dead(), !automata.is_possible(found, lexeme));
                }
                assert_eq!(automata.residual(found).is_none(), automata.is_possible(found, all[0]));
                ends += ended.len();
                assert_eq!(one.next_byte(next), automata.next_byte(found));
                open.push((next, found, depth + 1));
            }
        }
        assert!(seen > 300 && ends > 300, "{seen} states, {ends} ends");
        assert!(automata.states.len() < 100 && !automata.has_failed());
    }

    #[test]
    fn a_grammar_that_has_used_up_its_steps_fails_alone() {
        let language = language(&RegexAst::Regex("(ab|c){1,50}".into()));
        let (spec, lexemes) = lexer(&[RegexAst::Literal("x".into())]);
        let mut automata = Automata::new(&spec, Vec::new(), vec![(lexemes[0], Arc::clone(&language))], 100);
        automata.set_fuel(1);
        let start = automata.initial([lexemes[0]]);
        automata.behind(start, b'a');
        assert!(automata.has_failed());
        assert!(!language.is_full());
    }
}
