//! Terminals with an automaton of their own, which all grammars of a vocabulary share: most schemas have strings and numbers of the
//! same few kinds, so each grammar finds here what others found out about them. An automaton of one terminal also has an alphabet of
//! its own. In one of a whole grammar each letter of a key is a letter by itself in strings, too.

mod automaton;
mod counted;
mod difference;
mod listed;
mod states;
mod units;

pub(super) use automaton::{Alike, Automaton, Regexes};
pub(super) use listed::Listed;

use super::text;
use ahash::AHashMap;
use counted::Counted;
pub(super) use counted::Pattern;
use difference::Difference;
use llguidance::api::ParserLimits;
use llguidance::derivre::StateID;
use llguidance::earley::lexerspec::{LexemeIdx, LexerSpec};
use llguidance::earley::regexvec::LexemeSet;
use quick_cache::sync::Cache;
use states::{FIRST, States};
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
pub(super) use units::keeps_wide;
use units::{Between, Units};

/// Most terminals that are known.
const MOST: usize = 500;
/// Most memory for all of them, in bytes: when they have more, all are forgotten. To measure them takes as long as some
/// compilations do, so it is done when so many have come.
const ALL_BYTES: usize = 128 << 20;
const MEASURED_EACH: usize = 16;
/// When an automaton takes more memory than this, grammars that compile or begin anew get a new one.
const MOST_BYTES: usize = 16 << 20;
/// Most states of an automaton.
const MOST_STATES: usize = 50_000;
/// Steps that one transition may take. A terminal that needs more fails in all grammars that have it.
pub(super) const FUEL: u64 = 2_000_000;

/// The terminals of all grammars of a vocabulary, by what they are.
pub(super) struct Languages<T> {
    known: Cache<T, Arc<Language>>,
    /// How many have come.
    come: AtomicUsize,
}

/// What is known of a lexeme: it is one of all these.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    pub(super) listed: Vec<Box<[u8]>>,
    pub(super) described: Vec<Arc<Language>>,
}

/// What is known of a grammar's lexemes.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) texts: AHashMap<LexemeIdx, Texts>,
    /// So many of the first lexemes are a client's. Of those nothing is known.
    pub(super) clients: usize,
}

impl Known {
    /// Nothing, of the lexemes that a client's lexer has. One of these may end as soon as it can, whatever other lexemes may still be:
    /// then one automaton has to have all lexemes of the grammar.
    pub(super) fn of_client(lexer: &LexerSpec) -> Self {
        let is_lazy = lexer.lazy_lexemes().iter().next().is_some();
        let clients = if is_lazy { usize::MAX } else { lexer.lexemes.len() };
        Known { texts: AHashMap::new(), clients }
    }

    /// Adds what is known of more lexemes, except the client's.
    pub(super) fn extend(&mut self, texts: AHashMap<LexemeIdx, Texts>) {
        let clients = self.clients;
        self.texts.extend(texts.into_iter().filter(|(lexeme, _)| lexeme.as_usize() >= clients));
    }
}

/// Texts that close with the same byte, and have so many units before it. `begin`: what may come before those.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) begin: Vec<u8>,
    pub(super) close: u8,
    pub(super) least: u32,
    pub(super) most: Option<u32>,
}

/// Makes an automaton that has read no text yet.
type Make = dyn Fn() -> Box<dyn Automaton + Send> + Send + Sync;

/// A terminal.
pub(super) struct Language {
    /// No other has it.
    pub(super) number: u64,
    /// Bytes of its shortest text.
    pub(super) shortest: OnceLock<u32>,
    /// The state in which it begins.
    pub(super) start: StateID,
    /// Lexemes of its automaton that stand for the vocabulary's slices.
    pub(super) slices: Vec<LexemeIdx>,
    /// Between any two characters any other may stand, wherever a space may.
    pub(super) is_open: bool,
    /// Every text is a JSON string.
    pub(super) is_string: bool,
    /// The state between units, where they can be counted.
    between: OnceLock<Option<Between>>,
    automaton: Mutex<Box<dyn Automaton + Send>>,
    make: Arc<Make>,
}

impl<T: Clone + Eq + Hash> Languages<T> {
    /// None yet.
    pub(super) fn new() -> Self {
        Languages { known: Cache::new(MOST), come: AtomicUsize::new(0) }
    }

    /// That of a terminal, which `make` makes.
    ///
    /// # Errors
    /// Those of `make`.
    pub(super) fn of(
        &self,
        terminal: &T,
        make: impl FnOnce() -> Result<Language, String>,
    ) -> Result<Arc<Language>, String> {
        match self.known.get(terminal) {
            Some(known) if !known.is_full() => return Ok(known),
            _ => {}
        }
        let come = self.come.fetch_add(1, Ordering::Relaxed);
        if come.is_multiple_of(MEASURED_EACH) {
            let bytes: usize = self.known.iter().map(|(_, language)| language.bytes()).sum();
            if bytes > ALL_BYTES {
                self.known.clear();
            }
        }
        let language = Arc::new(make()?);
        self.known.insert(terminal.clone(), Arc::clone(&language));
        Ok(language)
    }
}

impl Language {
    /// The texts of a lexeme.
    ///
    /// # Errors
    /// What takes too many steps.
    pub(super) fn new(spec: &LexerSpec, lexeme: LexemeIdx) -> Result<Self, String> {
        let fresh = spec.to_regex_vec(&mut ParserLimits::default());
        let mut fresh = fresh.map_err(|e| text::clean(&format!("{e:#}")))?;
        fresh.set_max_states(MOST_STATES);
        let mut only = LexemeSet::new(spec.lexemes.len());
        only.add(lexeme);
        let start = fresh.initial_state(&only);
        let slices = (0..spec.num_extra_lexemes).map(|slice| spec.extra_lexeme(slice)).collect();
        let fresh = Regexes { vec: fresh, count: usize::MAX };
        Ok(Language::begin(Arc::new(move || Box::new(fresh.clone())), start, slices))
    }

    /// The texts of `base` whose number of units is within the bounds, and that match the pattern if there is one.
    /// `longest`: bytes of the longest token. None where units cannot be told apart.
    pub(super) fn counted(
        base: &Arc<Self>,
        pattern: Option<Pattern>,
        bounds: &Bounds,
        longest: u32,
    ) -> Option<Self> {
        let first = Units::new(base, bounds)?;
        let (bounds, slices) = (bounds.clone(), base.slices.clone());
        let make = move || {
            let renewed = first.base.renewed();
            let units = Units::new(&renewed, &bounds).unwrap_or_else(|| first.clone());
            let pattern = pattern.as_ref().map(Pattern::renewed);
            Box::new(Counted::new(units, pattern, &bounds, longest)) as Box<dyn Automaton + Send>
        };
        Some(Language::begin(Arc::new(make), FIRST, slices))
    }

    /// The texts of `base` except the listed ones. Every beginning of a text of `base` must begin infinitely many of its texts.
    pub(super) fn difference(base: &Arc<Self>, texts: Vec<Box<[u8]>>) -> Self {
        let (is_open, slices) = (base.is_open, base.slices.clone());
        let base = Arc::clone(base);
        let make = move || Box::new(Difference::new(base.renewed(), &texts)) as Box<dyn Automaton + Send>;
        Language { is_open, ..Language::begin(Arc::new(make), FIRST, slices) }
    }

    fn begin(make: Arc<Make>, start: StateID, slices: Vec<LexemeIdx>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Language {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            shortest: OnceLock::new(),
            start,
            slices,
            is_open: false,
            is_string: false,
            between: OnceLock::new(),
            automaton: Mutex::new(make()),
            make,
        }
    }

    /// This one, or a new one where it is full.
    pub(super) fn renewed(self: &Arc<Self>) -> Arc<Self> {
        match self.is_full() {
            false => Arc::clone(self),
            true => {
                let new = Language::begin(Arc::clone(&self.make), self.start, self.slices.clone());
                Arc::new(Language { is_open: self.is_open, is_string: self.is_string, ..new })
            }
        }
    }

    pub(super) fn automaton(&self) -> MutexGuard<'_, Box<dyn Automaton + Send>> {
        self.automaton.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self) -> usize {
        self.automaton().bytes()
    }

    /// Whether new texts should have a new one.
    pub(super) fn is_full(&self) -> bool {
        let automaton = self.automaton();
        automaton.has_failed() || automaton.bytes() > MOST_BYTES
    }

    /// A state of this with as much to follow within a token, the same in all grammars.
    pub(super) fn alike(&self, state: StateID) -> Alike {
        self.automaton().alike(state).unwrap_or((self.number, state, counted::FREE))
    }
}

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Language").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llguidance::derivre::RegexAst;

    /// Matches of a regular expression.
    pub(super) fn language(rx: &str) -> Arc<Language> {
        language_of_all([rx])
    }

    /// Texts that match all of some regular expressions.
    pub(super) fn language_of_all<const N: usize>(all: [&str; N]) -> Arc<Language> {
        let mut spec = LexerSpec::new().unwrap();
        spec.setup_lexeme_class(RegexAst::NoMatch).unwrap();
        let rx = RegexAst::And(all.map(|rx| RegexAst::Regex(rx.to_owned())).into());
        let lexeme = spec.add_greedy_lexeme(String::new(), rx, false, None, usize::MAX).unwrap();
        Arc::new(Language::new(&spec, lexeme).unwrap())
    }
}
