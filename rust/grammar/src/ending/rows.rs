//! The rows of Earley's algorithm over lexemes, as llguidance's parser makes them.

use super::table::{Arg, END, Table};
use ahash::{AHashMap, AHashSet};
use llguidance::derivre::StateID;
use llguidance::earley::lexerspec::LexemeIdx;

/// So many completed items count as one item that still expects a symbol.
const PASSED: usize = 10;

/// An item with a symbol behind its dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub(super) dot: u32,
    /// The row that it began in.
    pub(super) origin: RowId,
    /// The parameter of what its rule is one of.
    pub(super) arg: Arg,
}

/// A row, by its number.
pub(super) type RowId = u32;

#[derive(Debug)]
struct Row {
    items: Box<[Item]>,
    /// Those that may come.
    lexemes: Box<[LexemeIdx]>,
    start: StateID,
    accepts: bool,
    /// Number of Earley items that were examined to build this row, completed items included.
    made: usize,
    /// The value of `Rows::turn` when its work was counted last.
    turn: u64,
}

/// The rows of all texts so far, each once: two that begin with the same items, of which each began in the same row, go on in
/// the same way.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// Rows by their kernel, the items that they begin with, in order. The order is part of the key: of two ways with equal cost
    /// the first is taken, and which one that is must depend on the text alone.
    known: AHashMap<Box<[Item]>, RowId>,
    bytes: usize,
    work: usize,
    turn: u64,
}

/// Room for what is known of the row that is being made.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The row in which a symbol was predicted last, with its parameter.
    predicted: Vec<(u64, Arg)>,
    row: u64,
    /// What the agenda has, and the symbols that were completed, with where they began.
    reached: AHashSet<Item>,
    completed: AHashSet<(u32, RowId)>,
    /// By symbol, the row in which a terminal was found last.
    found: Vec<u64>,
    agenda: Vec<Item>,
    items: Vec<Item>,
    lexemes: Vec<LexemeIdx>,
}

impl Scratch {
    pub(super) fn new(table: &Table) -> Self {
        let symbols = table.symbols.len();
        Scratch { predicted: vec![(0, 0); symbols], found: vec![0; symbols], ..Self::default() }
    }

    /// Adds an item to the agenda, once.
    fn reach(&mut self, item: Item) {
        if self.reached.insert(item) {
            self.agenda.push(item);
        }
    }
}

impl Rows {
    /// Starts counting work from zero.
    pub(super) fn begin_work(&mut self) {
        (self.work, self.turn) = (0, self.turn + 1);
    }

    /// Adds a row's work, once in a turn. A row that is known already costs the same, so that limits do not depend on what other
    /// texts have done.
    pub(super) fn count(&mut self, row: RowId) {
        let row = &mut self.rows[row as usize];
        if std::mem::replace(&mut row.turn, self.turn) != self.turn {
            self.work += row.items.len() + row.made / PASSED;
        }
    }

    /// The work so far, in items.
    pub(super) fn work(&self) -> usize {
        self.work
    }

    /// Whether a row has more than `most` items, or took more than [`PASSED`] times as many to make. Rules that end in themselves
    /// complete one item for each level, and that is cheap.
    pub(super) fn is_long(&self, row: RowId, most: usize) -> bool {
        let row = &self.rows[row as usize];
        row.items.len() > most || row.made > PASSED * most
    }

    /// Memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The state of the lexer at the beginning of a row.
    pub(super) fn start(&self, row: RowId) -> StateID {
        self.rows[row as usize].start
    }

    /// Whether the text may end at the beginning of a row.
    pub(super) fn accepts(&self, row: RowId) -> bool {
        self.rows[row as usize].accepts
    }

    /// The lexemes that may come in a row.
    pub(super) fn lexemes(&self, row: RowId) -> &[LexemeIdx] {
        &self.rows[row as usize].lexemes
    }

    /// Its items.
    pub(super) fn items(&self, row: RowId) -> &[Item] {
        &self.rows[row as usize].items
    }

    /// The row that a text begins with, or that behind these lexemes of another; None where nothing goes on so. `start` gives
    /// the lexer's state for what may come.
    pub(super) fn after(
        &mut self,
        table: &Table,
        scratch: &mut Scratch,
        scanned: Option<(RowId, &[LexemeIdx])>,
        start: impl FnOnce(&[LexemeIdx]) -> StateID,
    ) -> Option<RowId> {
        scratch.agenda.clear();
        match scanned {
            None => scratch.agenda.extend(table.rules(0, 0).map(|dot| Item { dot, origin: 0, arg: 0 })),
            Some((row, lexemes)) => {
                let named = |item: &&Item| {
                    let symbol = &table.symbols[table.dots[item.dot as usize].symbol as usize];
                    symbol.lexeme.is_some_and(|lexeme| lexemes.contains(&lexeme))
                };
                let found = self.rows[row as usize].items.iter().filter(named);
                scratch.agenda.extend(found.map(|item| Item { dot: item.dot + 1, ..*item }));
            }
        }
        if scratch.agenda.is_empty() {
            return None;
        }
        if let Some(known) = self.known.get(scratch.agenda.as_slice()) {
            return Some(*known);
        }
        let row = self.rows.len() as RowId;
        let begin: Box<[Item]> = scratch.agenda.as_slice().into();
        scratch.row += 1;
        let mut accepts = self.close(table, scratch, row);
        accepts |= scanned.is_none() && table.is_nullable(0, 0);
        scratch.lexemes.clear();
        for item in &scratch.items {
            let symbol = table.dots[item.dot as usize].symbol as usize;
            let Some(lexeme) = table.symbols[symbol].lexeme else { continue };
            if std::mem::replace(&mut scratch.found[symbol], scratch.row) != scratch.row {
                scratch.lexemes.push(lexeme);
            }
        }
        let (items, lexemes) = (scratch.items.as_slice().into(), scratch.lexemes.as_slice().into());
        let (start, made) = (start(&scratch.lexemes), scratch.agenda.len());
        let new = Row { items, lexemes, start, accepts, made, turn: 0 };
        self.bytes +=
            size_of::<Row>() + size_of_val(&*begin) + size_of_val(&*new.items) + size_of_val(&*new.lexemes);
        self.rows.push(new);
        self.known.insert(begin, row);
        Some(row)
    }

    /// Predicts and completes, all that follows from the items of the agenda; whether a text is complete.
    fn close(&self, table: &Table, scratch: &mut Scratch, row: RowId) -> bool {
        scratch.items.clear();
        scratch.completed.clear();
        scratch.reached.clear();
        scratch.reached.extend(&scratch.agenda);
        let mut accepts = false;
        let mut at = 0;
        while let Some(item) = scratch.agenda.get(at).copied() {
            at += 1;
            let dot = &table.dots[item.dot as usize];
            if dot.symbol == END {
                // Symbols that are empty are stepped over where they are predicted.
                if item.origin == row || !scratch.completed.insert((dot.lhs, item.origin)) {
                    continue;
                }
                accepts |= dot.lhs == 0 && item.origin == 0;
                for before in &self.rows[item.origin as usize].items {
                    if table.dots[before.dot as usize].symbol == dot.lhs {
                        scratch.reach(Item { dot: before.dot + 1, ..*before });
                    }
                }
                continue;
            }
            scratch.items.push(item);
            let arg = table.arg(item.dot, item.arg);
            let known = scratch.predicted[dot.symbol as usize];
            if known != (scratch.row, arg) {
                scratch.predicted[dot.symbol as usize] = (scratch.row, arg);
                for rule in table.rules(dot.symbol, arg) {
                    scratch.reach(Item { dot: rule, origin: row, arg });
                }
            }
            if table.is_nullable(dot.symbol, arg) {
                scratch.reach(Item { dot: item.dot + 1, ..item });
            }
        }
        accepts
    }
}
