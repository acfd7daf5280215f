//! The parser states that texts of a grammar have reached: an Earley row and a state of the lexer. Texts in the same state go on in
//! the same way, so what is computed for a state is kept for all of them.

use super::costs::Costs;
use super::inside::{Begin, Here};
use super::lexing::{Lexing, Step};
use super::prices::{NONE, Prices};
use super::rows::{Item, RowId, Rows, Scratch};
use super::table::Table;
use super::{Endings, FUEL};
use crate::types::Token;
use ahash::AHashMap;
use llguidance::derivre::StateID;
use llguidance::earley::lexerspec::LexemeIdx;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// When rows and lexer states have grown by this many bytes, new texts begin with new ones.
const MOST_BYTES: usize = 32 << 20;

/// The places that texts have come to.
pub(super) struct Places {
    /// No other has it.
    number: u64,
    known: Mutex<Known>,
}

/// What is known of them.
pub(super) struct Known {
    pub(super) lexing: Lexing,
    pub(super) prices: Prices,
    scratch: Scratch,
    pub(super) rows: Rows,
    pub(super) costs: Costs,
    /// By a row and the state in which lexemes end, the row behind them.
    next: AHashMap<(RowId, StateID), Option<RowId>>,
    /// Since the last [`Known::begin_step`]: a kind of lexeme was met that is not followed here, or a limit.
    pub(super) is_unknown: bool,
    /// By where tokens begin.
    pub(super) insides: AHashMap<Begin<StateID>, Arc<Here>>,
    pub(super) inside_bytes: usize,
    /// The lexer's size before any text.
    bytes_at_first: usize,
}

/// A row, and where a text is in a lexeme of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Spot {
    pub(super) row: RowId,
    /// Of the lexer.
    pub(super) state: StateID,
    /// Whether the text has bytes of a lexeme that has not ended.
    pub(super) is_begun: bool,
}

/// A place in the text to come back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(super) spot: Spot,
    pub(super) last: Option<Token>,
    /// The text went on with a token that our states do not follow.
    pub(super) is_lost: bool,
}

/// All that the next token depends on. Unique among all grammars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    places: u64,
    spot: Spot,
    /// The token before: forced bytes are tokenized together with it.
    last: Option<Token>,
}

impl State {
    /// The token before; None at the beginning.
    pub(crate) fn last(self) -> Option<Token> {
        self.last
    }

    /// The state without the token before.
    pub(crate) fn behind_any(self) -> Self {
        State { last: None, ..self }
    }
}

impl Places {
    pub(super) fn new(table: &Table, prices: &Prices, lexing: Lexing) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let bytes_at_first = lexing.bytes();
        let known = Known {
            lexing,
            prices: prices.clone(),
            scratch: Scratch::new(table),
            rows: Rows::default(),
            costs: Costs::new(table),
            next: AHashMap::new(),
            is_unknown: false,
            insides: AHashMap::new(),
            inside_bytes: 0,
            bytes_at_first,
        };
        Places { number: NUMBER.fetch_add(1, Ordering::Relaxed), known: Mutex::new(known) }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self, at: Mark) -> State {
        State { places: self.number, spot: at.spot, last: at.last }
    }
}

impl Known {
    pub(super) fn is_full(&self) -> bool {
        self.bytes() - self.inside_bytes > self.bytes_at_first + MOST_BYTES || self.lexing.is_full()
    }

    /// Memory, about.
    pub(super) fn bytes(&self) -> usize {
        let next = self.next.len() * size_of::<((RowId, StateID), Option<RowId>)>();
        self.rows.bytes() + self.costs.bytes() + self.lexing.bytes() + next + self.inside_bytes
    }

    /// Whether the text may end where a lexeme would begin.
    pub(super) fn is_whole(&self, spot: Spot) -> bool {
        !spot.is_begun && self.rows.accepts(spot.row)
    }

    /// Whether the text may end.
    pub(super) fn may_end(&mut self, of: &Endings, spot: Spot) -> bool {
        match spot.is_begun {
            false => self.rows.accepts(spot.row),
            true => self.behind(of, spot.row, spot.state).is_some_and(|row| self.rows.accepts(row)),
        }
    }

    /// Whether nothing may follow the text.
    pub(super) fn is_ended(&self, spot: Spot) -> bool {
        self.is_whole(spot) && self.rows.lexemes(spot.row).is_empty()
    }

    /// The lexeme whose end is on the shortest way, and its item.
    pub(super) fn nearest(&mut self, of: &Endings, spot: Spot) -> Option<(u32, LexemeIdx, Item)> {
        let Known { lexing, prices, rows, costs, .. } = self;
        let mut best: Option<(u32, LexemeIdx, Item)> = None;
        for goal in costs.goals(rows, (&of.table, prices), spot.row) {
            let bound = best.map_or(NONE, |best| best.0);
            if goal.cost >= bound || !lexing.is_possible(spot.state, goal.lexeme) {
                continue;
            }
            let rest = match of.special(goal.lexeme) {
                _ if !spot.is_begun => of.shortest[goal.lexeme.as_usize()],
                Some(_) => 0,
                None => lexing.rest(spot.state, goal.lexeme),
            };
            if rest + goal.cost < bound {
                best = Some((rest + goal.cost, goal.lexeme, goal.item));
            }
        }
        best
    }
}

impl Known {
    /// Behind one more byte; None where that may not come.
    pub(super) fn step(&mut self, of: &Endings, spot: Spot, byte: u8) -> Option<Spot> {
        let row = match self.lexing.step(spot.state, byte) {
            Step::In(state) => return Some(Spot { state, is_begun: true, ..spot }),
            Step::Refused => return None,
            Step::Unknown => {
                self.is_unknown = true;
                return None;
            }
            Step::Last(state) => self.behind(of, spot.row, state)?,
            Step::Behind => {
                let row = self.behind(of, spot.row, spot.state)?;
                match self.lexing.first(self.rows.start(row), byte) {
                    (state, _) if state.is_dead() => return None,
                    (state, false) => return Some(Spot { row, state, is_begun: true }),
                    (state, true) => self.behind(of, row, state)?,
                }
            }
        };
        Some(self.begin(row))
    }

    /// The beginning of a row.
    pub(super) fn begin(&self, row: RowId) -> Spot {
        Spot { row, state: self.rows.start(row), is_begun: false }
    }

    /// Behind a token; None where that may not come.
    pub(super) fn take(&mut self, of: &Endings, mut spot: Spot, token: Token) -> Option<Spot> {
        if !of.special.is_empty()
            && let Some(taken) = self.take_special(of, spot, token)
        {
            return Some(taken);
        }
        if of.common.vocab.is_special(token) {
            return None;
        }
        for byte in of.common.vocab.bytes(token) {
            spot = self.step(of, spot, *byte)?;
        }
        Some(spot)
    }

    /// Behind a token that a rule asks for by its number.
    fn take_special(&mut self, of: &Endings, spot: Spot, token: Token) -> Option<Spot> {
        let row = self.lexeme_ended(of, spot)?;
        let next = self.rows.lexemes(row).iter().copied();
        let asks = |lexeme: &LexemeIdx| of.special(*lexeme).is_some_and(|tokens| tokens.allows(token));
        let lexemes: Vec<LexemeIdx> = next.filter(asks).collect();
        if lexemes.is_empty() {
            return None;
        }
        let row = self.row(of, Some((row, &lexemes)));
        self.count(of, row).map(|row| self.begin(row))
    }

    /// The row behind what is begun.
    pub(super) fn lexeme_ended(&mut self, of: &Endings, spot: Spot) -> Option<RowId> {
        if spot.is_begun { self.behind(of, spot.row, spot.state) } else { Some(spot.row) }
    }

    /// The row behind the lexemes that end in a state; None where they may not.
    pub(super) fn behind(&mut self, of: &Endings, row: RowId, state: StateID) -> Option<RowId> {
        if self.rows.work() > of.limits.step_max_items {
            self.is_unknown = true;
            return None;
        }
        let next = match self.next.get(&(row, state)) {
            Some(known) => *known,
            None => {
                let ended = self.lexing.ended(state).clone();
                let next = match ended.as_slice() {
                    [] => None,
                    list if list.iter().any(|lexeme| of.spec.skip_by_class.contains(lexeme)) => Some(row),
                    list => self.row(of, Some((row, list))),
                };
                self.next.insert((row, state), next);
                next
            }
        };
        self.count(of, next)
    }

    fn count(&mut self, of: &Endings, row: Option<RowId>) -> Option<RowId> {
        if let Some(row) = row {
            self.rows.count(row);
            self.is_unknown |= self.rows.is_long(row, of.limits.max_items_in_row);
        }
        row
    }

    /// To be called before computing a mask or taking a token: resets the limits on its work. When one is exceeded, the lexer has
    /// failed or `is_unknown` is set.
    pub(super) fn begin_step(&mut self, of: &Endings) {
        self.is_unknown = false;
        self.rows.begin_work();
        self.lexing.set_fuel(of.limits.step_lexer_fuel.saturating_mul(FUEL));
    }

    /// The row that a text begins with, or that behind these lexemes of another.
    pub(super) fn row(&mut self, of: &Endings, scanned: Option<(RowId, &[LexemeIdx])>) -> Option<RowId> {
        let Known { lexing, scratch, rows, .. } = self;
        let start = |next: &[LexemeIdx]| lexing.start(&of.spec, next, scanned.is_none());
        rows.after(&of.table, scratch, scanned, start)
    }
}
