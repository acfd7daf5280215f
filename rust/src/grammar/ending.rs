//! How a text can be completed: beside the matcher, Earley's algorithm over the same grammar and the same lexer, with the fewest
//! bytes to the end.
//!
//! llguidance tells which tokens may come next, not how far the end is. [`Endings`] has the rules of a compiled grammar with the
//! cost of each symbol; an [`Ending`] follows the text. [`Ending::least`] is the number of bytes that complete it, and
//! [`Ending::next`] a token on that way. Both depend on the text alone, so drafts, batches and forks change nothing.
//!
//! Left out, so that nothing is known of their ends: Lark's `stop`, `max_tokens` and `suffix`.

mod lexing;
mod prices;
mod rows;
mod table;

use crate::types::Token;
use crate::vocab::Vocab;
use lexing::{Lexing, Step};
use llguidance::api::ParserLimits;
use llguidance::derivre::StateID;
use llguidance::earley::CGrammar;
use llguidance::earley::lexerspec::{LexemeIdx, LexerSpec};
use prices::{NONE, Prices};
use rows::{Item, Rows, Scratch};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::{Arg, END, Table};

/// Bytes of the way to the end that are written out to find the next token.
const AHEAD: usize = 32;

/// The token of each byte that is a whole token.
pub(super) struct Letters([Option<Token>; 256]);

impl Letters {
    pub(super) fn new(vocab: &Vocab) -> Self {
        let mut letters = [None; 256];
        for token in (0..vocab.len() as Token).filter(|token| !vocab.is_special(*token)) {
            if let [byte] = vocab.bytes(token) {
                letters[*byte as usize].get_or_insert(token);
            }
        }
        Letters(letters)
    }
}

/// What all texts of a grammar have in common.
pub(super) struct Endings {
    table: Table,
    /// The lexemes that are a special token, each with the first of those it may be.
    special: Vec<(LexemeIdx, Token)>,
    spec: LexerSpec,
    vocab: Arc<Vocab>,
    letters: Arc<Letters>,
    shared: Mutex<Shared>,
}

struct Shared {
    lexing: Lexing,
    prices: Prices,
    scratch: Scratch,
}

/// The text so far.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    rows: Rows,
    state: StateID,
    /// Something was taken that these rules do not know.
    lost: bool,
    /// What is committed.
    kept: Mark,
}

/// A place in the text to come back to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    rows: usize,
    state: StateID,
    lost: bool,
}

impl Endings {
    /// None where nothing can be told of the grammar's ends.
    pub(super) fn new(
        grammar: &CGrammar,
        (vocab, letters): (&Arc<Vocab>, &Arc<Letters>),
        limits: &ParserLimits,
    ) -> Option<Self> {
        let spec = grammar.lexer_spec();
        if !spec.can_rollback() {
            return None;
        }
        let special = special(spec, vocab);
        let mut lexing = Lexing::new(spec, letters, limits.clone())?;
        let table = Table::new(grammar);
        let prices = Prices::new(&table, |symbol| {
            let lexeme = table.symbols[symbol as usize].lexeme.expect("It has one. This is a bug.");
            if special.iter().any(|(special, _)| *special == lexeme) {
                return 1;
            }
            let state = lexing.start_of(lexeme);
            lexing.rest(state, lexeme)
        });
        let scratch = Scratch::new(&table);
        let (spec, vocab, letters) = (spec.clone(), Arc::clone(vocab), Arc::clone(letters));
        Some(Endings {
            table,
            special,
            spec,
            vocab,
            letters,
            shared: Mutex::new(Shared { lexing, prices, scratch }),
        })
    }

    /// The text at its beginning.
    pub(super) fn begin(&self) -> Ending {
        let kept = Mark { rows: 0, state: StateID::DEAD, lost: false };
        let mut ending = Ending { rows: Rows::default(), state: StateID::DEAD, lost: false, kept };
        ending.lost = !ending.row(self, &mut self.shared(), None);
        ending.keep();
        ending
    }

    /// The tokens of one byte.
    pub(super) fn letters(&self) -> Vec<Token> {
        self.letters.0.iter().flatten().copied().collect()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn special(&self, lexeme: LexemeIdx) -> Option<Token> {
        self.special.iter().find(|(special, _)| *special == lexeme).map(|(_, token)| *token)
    }
}

impl Ending {
    pub(super) fn mark(&self) -> Mark {
        Mark { rows: self.rows.len(), state: self.state, lost: self.lost }
    }

    /// Goes back to where the text was.
    pub(super) fn back(&mut self, mark: Mark) {
        self.rows.truncate(mark.rows);
        (self.state, self.lost) = (mark.state, mark.lost);
    }

    /// Notes that what was taken is committed.
    pub(super) fn keep(&mut self) {
        self.kept = self.mark();
    }

    /// Goes back to what is committed.
    pub(super) fn undo(&mut self) {
        self.back(self.kept);
    }

    /// Takes a token, which the grammar allows.
    pub(super) fn push(&mut self, of: &Endings, token: Token) {
        let mut shared = of.shared();
        self.lost = self.lost || !self.take(of, &mut shared, token);
    }

    /// The fewest bytes that complete the text; a special token counts as one. None where that cannot be told.
    pub(super) fn least(&self, of: &Endings) -> Option<u32> {
        match (self.lost, self.is_whole()) {
            (true, _) => None,
            (false, true) => Some(0),
            (false, false) => self.nearest(of, &mut of.shared().lexing).map(|(cost, ..)| cost),
        }
    }

    /// The next token on the shortest way to the end.
    pub(super) fn next(&self, of: &Endings) -> Option<Token> {
        let (bytes, special) = self.text(of, AHEAD)?;
        if bytes.is_empty() {
            return special;
        }
        match of.vocab.tok_env().tok_trie().prefix_token_id(&bytes) {
            (_, 0) => None,
            (token, _) => Some(token),
        }
    }

    /// Whether the shortest way, as long tokens as there are, has at most so many.
    pub(super) fn is_near(&self, of: &Endings, most: usize) -> bool {
        let trie = of.vocab.tok_env().tok_trie();
        let longest = trie.max_token_len();
        let Some((bytes, _)) = self.text(of, (most + 1).saturating_mul(longest)) else { return true };
        let mut rest = &bytes[..];
        for _ in 0..most {
            if rest.is_empty() {
                return true;
            }
            let (_, taken) = trie.prefix_token_id(&rest[..rest.len().min(longest)]);
            rest = &rest[taken.max(1)..];
        }
        rest.is_empty()
    }

    /// The shortest way to the end up to a special token, at least `most` bytes if it is so long; and that token.
    fn text(&self, of: &Endings, most: usize) -> Option<(Vec<u8>, Option<Token>)> {
        if self.lost || self.is_whole() {
            return None;
        }
        let mut shared = of.shared();
        let (_, lexeme, item) = self.nearest(of, &mut shared.lexing)?;
        let mut text = Text { of, shared: &mut shared, bytes: Vec::new(), special: None, most };
        text.lexeme(self.state, lexeme);
        self.climb(&mut text, item);
        Some((text.bytes, text.special))
    }

    /// Whether the text may end where a lexeme would begin.
    fn is_whole(&self) -> bool {
        self.rows.accepts() && self.state == self.rows.start()
    }

    /// The lexeme whose end is on the shortest way, and its item.
    fn nearest(&self, of: &Endings, lexing: &mut Lexing) -> Option<(u32, LexemeIdx, Item)> {
        let mut best: Option<(u32, LexemeIdx, Item)> = None;
        let is_begun = self.state != self.rows.start();
        for goal in self.rows.goals() {
            let bound = best.map_or(NONE, |best| best.0);
            if goal.cost >= bound || !lexing.is_possible(self.state, goal.lexeme) {
                continue;
            }
            let rest = match of.special(goal.lexeme) {
                Some(_) => u32::from(!is_begun),
                None => lexing.rest(self.state, goal.lexeme),
            };
            if rest + goal.cost < bound {
                best = Some((rest + goal.cost, goal.lexeme, goal.item));
            }
        }
        best
    }

    /// Writes what follows the symbol at the item's dot, up to the end of the text.
    fn climb(&self, text: &mut Text<'_>, mut item: Item) {
        while !text.is_enough() {
            for (at, dot) in text.of.table.rest(item.dot + 1) {
                text.symbol(dot.symbol, text.of.table.arg(at, item.arg));
            }
            let lhs = text.of.table.dots[item.dot as usize].lhs;
            match self.rows.finish(item.origin, lhs).filter(|_| (lhs, item.origin) != (0, 0)) {
                Some(finish) => item = finish.item,
                None => return,
            }
        }
    }

    fn take(&mut self, of: &Endings, shared: &mut Shared, token: Token) -> bool {
        if !of.special.is_empty()
            && let Some(taken) = self.take_special(of, shared, token)
        {
            return taken;
        }
        !of.vocab.is_special(token) && of.vocab.bytes(token).iter().all(|byte| self.byte(of, shared, *byte))
    }

    /// Takes the token by its number, where a rule asks for it so.
    fn take_special(&mut self, of: &Endings, shared: &mut Shared, token: Token) -> Option<bool> {
        let mark = self.mark();
        let mut is_begin = self.state == self.rows.start();
        if !is_begin {
            // What was begun ends before it.
            let ended = shared.lexing.ended(self.state).clone();
            is_begin = ended.is_some() && self.behind(of, shared, ended.as_slice());
        }
        let mut next = self.rows.goals().iter().map(|goal| goal.lexeme);
        match next.find(|lexeme| is_begin && of.spec.lexeme_spec(*lexeme).contains_token(token)) {
            Some(lexeme) => Some(self.row(of, shared, Some(&[lexeme]))),
            None => {
                self.back(mark);
                None
            }
        }
    }

    fn byte(&mut self, of: &Endings, shared: &mut Shared, byte: u8) -> bool {
        match shared.lexing.step(self.state, byte) {
            Step::In(state) => {
                self.state = state;
                true
            }
            Step::Refused => false,
            Step::Last(lexemes) => self.behind(of, shared, lexemes.as_slice()),
            Step::Behind(lexemes) => {
                if !self.behind(of, shared, lexemes.as_slice()) {
                    return false;
                }
                let (state, whole) = shared.lexing.first(self.state, byte);
                self.state = state;
                whole.map_or(!state.is_dead(), |whole| self.behind(of, shared, whole.as_slice()))
            }
        }
    }

    /// Goes to the row behind these lexemes.
    fn behind(&mut self, of: &Endings, shared: &mut Shared, lexemes: &[LexemeIdx]) -> bool {
        if lexemes.iter().any(|lexeme| of.spec.skip_by_class.contains(lexeme)) {
            self.state = self.rows.start();
            return true;
        }
        self.row(of, shared, Some(lexemes))
    }

    fn row(&mut self, of: &Endings, shared: &mut Shared, lexemes: Option<&[LexemeIdx]>) -> bool {
        let Shared { lexing, prices, scratch } = shared;
        let start = |next: &[LexemeIdx]| lexing.start(&of.spec, next);
        let made = self.rows.push((&of.table, prices), scratch, lexemes, start);
        self.state = self.rows.start();
        made
    }
}

/// The lexemes that are a special token, or one of several, each with the first.
fn special(spec: &LexerSpec, vocab: &Vocab) -> Vec<(LexemeIdx, Token)> {
    let mut all = spec.all_lexemes();
    if spec.token_range_lexemes(&all).is_empty() {
        return Vec::new();
    }
    let first = |i: usize| (0..vocab.len() as Token).find(|token| spec.lexemes[i].contains_token(*token));
    let is_special = |lexeme: &LexemeIdx| {
        all.clear();
        all.add(*lexeme);
        !spec.token_range_lexemes(&all).is_empty()
    };
    let lexemes = (0..spec.lexemes.len()).map(LexemeIdx::new).filter(is_special);
    lexemes.filter_map(|lexeme| Some((lexeme, first(lexeme.as_usize())?))).collect()
}

/// The way to the end, as far as it is written out.
struct Text<'a> {
    of: &'a Endings,
    shared: &'a mut Shared,
    bytes: Vec<u8>,
    /// The special token behind the bytes.
    special: Option<Token>,
    /// Bytes that are enough.
    most: usize,
}

impl Text<'_> {
    fn is_enough(&self) -> bool {
        self.special.is_some() || self.bytes.len() >= self.most
    }

    fn lexeme(&mut self, state: StateID, lexeme: LexemeIdx) {
        match self.of.special(lexeme) {
            Some(token) => self.special = Some(token),
            None => self.shared.lexing.text(state, lexeme, self.most, &mut self.bytes),
        }
    }

    /// Writes the shortest text of a symbol.
    fn symbol(&mut self, symbol: u32, arg: Arg) {
        let table = &self.of.table;
        let mut open = vec![(symbol, arg)];
        while let Some((symbol, arg)) = open.pop().filter(|_| !self.is_enough()) {
            if let Some(lexeme) = table.symbols[symbol as usize].lexeme {
                let state = self.shared.lexing.start_of(lexeme);
                self.lexeme(state, lexeme);
                continue;
            }
            let rule = self.shared.prices.rule(table, symbol, arg);
            if rule != END {
                let parts: Vec<(u32, Arg)> =
                    table.rest(rule).map(|(at, dot)| (dot.symbol, table.arg(at, arg))).collect();
                open.extend(parts.into_iter().rev());
            }
        }
    }
}

impl fmt::Debug for Endings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endings").field("symbols", &self.table.symbols.len()).finish_non_exhaustive()
    }
}
