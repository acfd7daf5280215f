//! Terminals with an automaton of their own, which all grammars of a vocabulary share: most schemas have strings and numbers of the
//! same few kinds, so each grammar finds here what others found out about them. An automaton of one terminal also has an alphabet of
//! its own. In one of a whole grammar each letter of a key is a letter by itself in strings, too.

use super::text;
use llguidance::api::ParserLimits;
use llguidance::derivre::StateID;
use llguidance::earley::lexerspec::{LexemeIdx, LexerSpec};
use llguidance::earley::regexvec::{LexemeSet, RegexVec};
use quick_cache::sync::Cache;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

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

/// What is known of a lexeme.
#[derive(Debug, Clone)]
pub(super) enum Texts {
    Listed(Vec<Box<[u8]>>),
    Described(Arc<Language>),
}

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
    automaton: Mutex<RegexVec>,
    /// The automaton before any text.
    fresh: RegexVec,
}

impl<T: Clone + Eq + Hash> Languages<T> {
    /// None yet.
    pub(super) fn new() -> Self {
        Languages { known: Cache::new(MOST), come: AtomicUsize::new(0) }
    }

    /// That of a terminal. `lexer`: one with the terminal, and its lexeme there.
    ///
    /// # Errors
    /// Those of `lexer`, and what takes too many steps.
    pub(super) fn of(
        &self,
        terminal: &T,
        lexer: impl FnOnce() -> Result<(LexerSpec, LexemeIdx), String>,
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
        let (spec, lexeme) = lexer()?;
        let language = Arc::new(Language::new(&spec, lexeme)?);
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
        Ok(Language::begin(fresh, start, slices))
    }

    fn begin(fresh: RegexVec, start: StateID, slices: Vec<LexemeIdx>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Language {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            shortest: OnceLock::new(),
            start,
            slices,
            automaton: Mutex::new(fresh.clone()),
            fresh,
        }
    }

    /// This one, or a new one where it is full.
    pub(super) fn renewed(self: &Arc<Self>) -> Arc<Self> {
        match self.is_full() {
            false => Arc::clone(self),
            true => Arc::new(Language::begin(self.fresh.clone(), self.start, self.slices.clone())),
        }
    }

    pub(super) fn automaton(&self) -> MutexGuard<'_, RegexVec> {
        self.automaton.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self) -> usize {
        self.automaton().num_bytes()
    }

    /// Whether new texts should have a new one.
    pub(super) fn is_full(&self) -> bool {
        let automaton = self.automaton();
        automaton.has_error() || automaton.num_bytes() > MOST_BYTES
    }
}

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Language").field("number", &self.number).finish_non_exhaustive()
    }
}
