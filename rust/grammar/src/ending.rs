//! Parser states, the masks in them, and how a text can be completed: Earley's algorithm over a grammar and llguidance's lexer.
//!
//! [`Endings`] has the rules of a compiled grammar with the cost of each symbol, and all states that its texts have reached
//! ([`places`]). An [`Ending`] is the state of one text. [`Ending::allowed`] is its mask, [`Ending::least`] the number of bytes
//! that complete it, and [`Ending::next`] a token on that way. They depend on the text alone, so drafts, batches and forks change
//! nothing.
//!
//! Not followed: Lark's `stop`, `max_tokens`, `suffix` and `ignore_once`, and grammars whose parts ignore different things.

mod allowed;
mod apart;
mod automata;
mod classes;
mod costs;
mod forced;
mod groups;
mod inside;
mod lexing;
mod places;
mod prices;
mod rows;
mod search;
mod table;
mod text;
mod trie;

use super::languages::{Known, Texts};
use super::mask::Mask;
use super::productions::Productions;
use crate::error::Result;
use crate::types::Token;
use crate::vocab::Vocab;
pub(super) use allowed::Allowed;
use allowed::Slice;
pub(super) use groups::Group;
pub(super) use inside::Inside;
use inside::Insides;
use lexing::Lexing;
use llguidance::api::ParserLimits;
use llguidance::earley::lexerspec::{LexemeIdx, LexerSpec};
use places::Places;
pub(super) use places::{Mark, State};
use prices::{NONE, Prices};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use table::Table;
use text::Text;
use toktrie::{TokEnv, TokTrie};
use trie::Trie;

/// The lexer may take this many times the steps that llguidance allows for a mask or a token.
const FUEL: u64 = 10;
/// Bytes of the way to the end that are written out to find the next token.
const AHEAD: usize = 32;

/// What all grammars of a vocabulary have in common.
pub(super) struct Common {
    vocab: Arc<Vocab>,
    /// Cuts forced bytes into tokens.
    env: TokEnv,
    /// The token of each byte that is a whole token.
    letters: [Option<Token>; 256],
    /// One of the first slice's tokens, and for each slice one of all other tokens.
    tries: Vec<Trie>,
    slices: Vec<Slice>,
    /// What lexer states allow, for the terminals that grammars share.
    insides: Insides,
    /// Whether forced bytes are cut into tokens as the tokenizer does it.
    cuts_forced: bool,
}

impl Common {
    /// Those that have each token once.
    fn all_tries(&self) -> &[Trie] {
        &self.tries[..2]
    }

    /// `slices`: llguidance's.
    ///
    /// # Errors
    /// What is no regular expression among them.
    pub(super) fn new(
        (vocab, env): (&Arc<Vocab>, TokEnv),
        slices: &[String],
        cuts_forced: bool,
    ) -> Result<Self> {
        let mut letters = [None; 256];
        for token in (0..vocab.len() as Token).filter(|token| !vocab.is_special(*token)) {
            if let [byte] = vocab.bytes(token) {
                letters[*byte as usize].get_or_insert(token);
            }
        }
        // Whether an end token may come depends on whether the text may end, not on its bytes.
        let tokens = (0..vocab.len() as Token).filter(|token| !vocab.is_eog(*token));
        let trie = env.tok_trie();
        let is_plain = |(bytes, _): &(&[u8], Token)| {
            bytes.first().is_some_and(|byte| *byte != TokTrie::SPECIAL_TOKEN_MARKER)
        };
        let words: Vec<_> = tokens.map(|token| (trie.token(token), token)).filter(is_plain).collect();
        let (tries, slices) = Slice::all(trie, &words, slices)?;
        let (vocab, insides) = (Arc::clone(vocab), inside::shared());
        Ok(Common { vocab, env, letters, tries, slices, insides, cuts_forced })
    }
}

/// What all texts of a grammar have in common.
pub(super) struct Endings {
    table: Table,
    /// Before any text.
    prices: Prices,
    /// For each lexeme, the number of bytes of its shortest text; 1 for a special token.
    shortest: Vec<u32>,
    /// The lexemes that are a special token, each with those it may be.
    special: Vec<(LexemeIdx, Mask)>,
    spec: LexerSpec,
    limits: ParserLimits,
    common: Arc<Common>,
    /// What is known of the lexemes.
    known: Known,
    /// The states for texts that begin now. Once they are full, new texts get new ones; older texts keep theirs.
    places: Mutex<Arc<Places>>,
}

/// The text so far.
#[derive(Clone)]
pub(super) struct Ending {
    places: Arc<Places>,
    at: Mark,
    /// What is committed.
    kept: Mark,
}

impl Endings {
    /// None where our states do not follow the grammar. `known`: what is known of its lexemes.
    pub(super) fn new(
        productions: &Productions,
        spec: &LexerSpec,
        (common, limits): (&Arc<Common>, &ParserLimits),
        known: Known,
    ) -> Option<Self> {
        if !spec.can_rollback() {
            return None;
        }
        let special = special(spec, &common.vocab);
        let fresh = || Lexing::new(spec, &known, &common.letters, limits.clone());
        let mut lexing = fresh()?;
        // Where parts of a grammar skip other things, what may be skipped depends on which of them are open.
        let mut skips = spec.skip_by_class.iter();
        if spec.skip_by_class.len() > 1 && skips.any(|skip| !lexing.start_of(*skip).is_dead()) {
            return None;
        }
        let can_write = |text: &[u8]| text.iter().all(|byte| common.letters[usize::from(*byte)].is_some());
        let mut shortest: Vec<Option<u32>> = vec![Some(NONE); spec.lexemes.len()];
        // Lexemes of pruned rules get no length here, so none may be noted for their languages, which other grammars use.
        let used = || productions.symbols.iter().filter_map(|symbol| symbol.lexeme);
        for lexeme in used() {
            shortest[lexeme.as_usize()] = known.texts.get(&lexeme).and_then(|texts| {
                let listed = texts.listed.iter().filter(|text| can_write(text)).map(|text| text.len() as u32);
                let described = texts.described.iter().map(|language| language.shortest.get().copied());
                listed.map(Some).chain(described).try_fold(NONE, |least, length| Some(least.min(length?)))
            });
        }
        let mut shortest = Lexing::shortest(shortest, fresh)?;
        for lexeme in used() {
            if let Some(Texts { listed, described }) = known.texts.get(&lexeme)
                && let ([], [language]) = (&listed[..], &described[..])
            {
                // Another grammar may have told it already.
                let _ = language.shortest.set(shortest[lexeme.as_usize()]);
            }
        }
        special.iter().for_each(|(lexeme, _)| shortest[lexeme.as_usize()] = 1);
        let table = Table::new(productions);
        let prices = Prices::new(&table, |lexeme| shortest[lexeme.as_usize()]);
        let places = Mutex::new(Arc::new(Places::new(&table, &prices, lexing)));
        let (spec, limits, common) = (spec.clone(), limits.clone(), Arc::clone(common));
        Some(Endings { table, prices, shortest, special, spec, limits, common, known, places })
    }

    /// The text at its beginning.
    pub(super) fn begin(&self) -> Ending {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.known().is_full()
            && let Some(lexing) = self.lexing()
        {
            *places = Arc::new(Places::new(&self.table, &self.prices, lexing));
        }
        let mut known = places.known();
        let row = known.row(self, None);
        let spot = known.begin(row.unwrap_or(0));
        drop(known);
        let at = Mark { spot, last: None, is_lost: row.is_none() };
        Ending { places: Arc::clone(&places), at, kept: at }
    }

    /// Memory of its states, about.
    pub(super) fn bytes(&self) -> usize {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).known().bytes()
    }

    /// A new lexer.
    fn lexing(&self) -> Option<Lexing> {
        Lexing::new(&self.spec, &self.known, &self.common.letters, self.limits.clone())
    }

    /// The tokens of one byte.
    pub(super) fn letters(&self) -> Vec<Token> {
        self.common.letters.iter().flatten().copied().collect()
    }

    /// The tokens that a lexeme is, where a rule asks for them by their numbers.
    fn special(&self, lexeme: LexemeIdx) -> Option<&Mask> {
        self.special.iter().find(|(special, _)| *special == lexeme).map(|(_, tokens)| tokens)
    }
}

/// What became of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// It may not come.
    No,
    /// Our states cannot tell.
    Lost,
}

impl Ending {
    pub(super) fn mark(&self) -> Mark {
        self.at
    }

    /// Goes back to where the text was.
    pub(super) fn back(&mut self, mark: Mark) {
        self.at = mark;
    }

    /// Notes that what was taken is committed.
    pub(super) fn keep(&mut self) {
        self.kept = self.at;
    }

    /// Goes back to what is committed.
    pub(super) fn undo(&mut self) {
        self.at = self.kept;
    }

    /// Whether our states no longer follow the text.
    pub(super) fn is_lost(&self) -> bool {
        self.at.is_lost
    }

    /// Marks the text as lost: it continues with a token that our states cannot follow.
    pub(super) fn lose(&mut self) {
        self.at.is_lost = true;
    }

    /// All that the next token depends on.
    pub(super) fn state(&self) -> State {
        self.state_at(self.at)
    }

    /// The same at another place of the text.
    pub(super) fn state_at(&self, at: Mark) -> State {
        self.places.state(at)
    }

    /// What may come; None where that can't be told.
    pub(super) fn allowed(&self, of: &Endings) -> Option<Allowed> {
        self.places.known().allowed(of, self.at.spot, self.at.last)
    }

    /// The first of the tokens that must come.
    pub(super) fn forced(&self, of: &Endings) -> Option<Token> {
        let mut known = self.places.known();
        known.begin_step(of);
        known.forced_token(of, self.at.spot, self.at.last)
    }

    /// Whether the text may end.
    pub(super) fn may_end(&self, of: &Endings) -> bool {
        let mut known = self.places.known();
        known.begin_step(of);
        known.may_end(of, self.at.spot)
    }

    /// Whether nothing may follow the text at a place in it.
    pub(super) fn is_ended(&self, at: Mark) -> bool {
        self.places.known().is_ended(at.spot)
    }

    /// Takes a token; any other answer than `Yes` leaves the text as it was.
    pub(super) fn push(&mut self, of: &Endings, token: Token) -> Taken {
        let mut known = self.places.known();
        known.begin_step(of);
        match known.take(of, self.at.spot, token) {
            _ if known.is_unknown || known.lexing.has_failed() => Taken::Lost,
            None => Taken::No,
            Some(spot) => {
                (self.at.spot, self.at.last) = (spot, Some(token));
                Taken::Yes
            }
        }
    }

    /// Whether the lexeme that the text is in can go on as a listed text with other bytes than `seen`, which is sorted. None where it
    /// cannot, but may be something that is not listed.
    pub(super) fn has_listed(&self, seen: &[&[u8]]) -> Option<bool> {
        let known = self.places.known();
        let (mut texts, are_all) = known.lexing.listed(self.at.spot.state);
        if texts.any(|text| seen.binary_search(&text).is_err()) {
            Some(true)
        } else {
            are_all.then_some(false)
        }
    }

    /// The fewest bytes that complete the text; a special token counts as one. None where that cannot be told.
    pub(super) fn least(&self, of: &Endings) -> Option<u32> {
        if self.at.is_lost {
            return None;
        }
        let mut known = self.places.known();
        known.lexing.set_fuel(u64::MAX);
        known.least(of, self.at.spot)
    }

    /// The next token on the shortest way to the end.
    pub(super) fn next(&self, of: &Endings) -> Option<Token> {
        let (bytes, special) = self.text(of, AHEAD)?;
        if bytes.is_empty() {
            return special;
        }
        match of.common.env.tok_trie().prefix_token_id(&bytes) {
            (_, 0) => None,
            (token, _) => Some(token),
        }
    }

    /// The shortest way to the end up to a special token, at least `most` bytes if it is so long; and that token.
    fn text(&self, of: &Endings, most: usize) -> Option<(Vec<u8>, Option<Token>)> {
        let mut known = self.places.known();
        if self.at.is_lost || known.is_whole(self.at.spot) {
            return None;
        }
        known.lexing.set_fuel(u64::MAX);
        let (_, lexeme, item) = known.nearest(of, self.at.spot)?;
        let mut text = Text { of, known: &mut known, bytes: Vec::new(), special: None, most };
        text.lexeme(self.at.spot.state, lexeme);
        text.climb(item);
        Some((text.bytes, text.special))
    }
}

/// The lexemes that are a special token, or one of several, each with those.
fn special(spec: &LexerSpec, vocab: &Vocab) -> Vec<(LexemeIdx, Mask)> {
    let mut all = spec.all_lexemes();
    if spec.token_range_lexemes(&all).is_empty() {
        return Vec::new();
    }
    let tokens = |lexeme: LexemeIdx| {
        let all = 0..vocab.len() as Token;
        Mask::of(all.filter(|token| spec.lexeme_spec(lexeme).contains_token(*token)), vocab.len())
    };
    let is_special = |lexeme: &LexemeIdx| {
        all.clear();
        all.add(*lexeme);
        !spec.token_range_lexemes(&all).is_empty()
    };
    let lexemes = (0..spec.lexemes.len()).map(LexemeIdx::new).filter(is_special);
    lexemes.map(|lexeme| (lexeme, tokens(lexeme))).collect()
}

impl fmt::Debug for Endings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endings").field("symbols", &self.table.symbols.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").field("at", &self.at).finish_non_exhaustive()
    }
}
