//! The rows of Earley's algorithm over lexemes, as llguidance's parser makes them, and what it takes to complete each of their
//! symbols.
//!
//! For a symbol A that a row predicts, [`Rows::finish`] is the fewest bytes that follow A up to the end of the text: over all
//! items `B -> x . A y` of the row, the cost of `y` and of finishing B where that item began.

use super::prices::{NONE, Prices};
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

/// What finishing a symbol takes, and behind which item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finish {
    symbol: u32,
    pub(super) cost: u32,
    pub(super) item: Item,
}

/// What it takes behind a lexeme that may come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal {
    pub(super) lexeme: LexemeIdx,
    pub(super) cost: u32,
    pub(super) item: Item,
}

/// A row, by its number.
pub(super) type RowId = u32;

#[derive(Debug)]
struct Row {
    items: Box<[Item]>,
    finishes: Box<[Finish]>,
    goals: Box<[Goal]>,
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
    /// For the symbols that this row predicts.
    finish: Vec<Option<Finish>>,
    predictions: Vec<u32>,
    /// The row in which a terminal was found last, and its place among the goals.
    goal: Vec<(u64, usize)>,
    agenda: Vec<Item>,
    items: Vec<Item>,
    finishes: Vec<Finish>,
    goals: Vec<Goal>,
    lexemes: Vec<LexemeIdx>,
}

impl Scratch {
    pub(super) fn new(table: &Table) -> Self {
        let symbols = table.symbols.len();
        Scratch {
            predicted: vec![(0, 0); symbols],
            finish: vec![None; symbols],
            goal: vec![(0, 0); symbols],
            ..Self::default()
        }
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

    /// What may come in a row.
    pub(super) fn goals(&self, row: RowId) -> &[Goal] {
        &self.rows[row as usize].goals
    }

    /// What finishing a symbol that began in this row takes. None behind the start symbol of the whole text.
    pub(super) fn finish(&self, row: RowId, symbol: u32) -> Option<&Finish> {
        let own = &self.rows[row as usize].finishes;
        own.binary_search_by_key(&symbol, |finish| finish.symbol).ok().map(|i| &own[i])
    }

    /// The row that a text begins with, or that behind these lexemes of another; None where nothing goes on so. `start` gives
    /// the lexer's state for what may come.
    pub(super) fn after(
        &mut self,
        (table, prices): (&Table, &mut Prices),
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
        self.price((table, prices), scratch, row);
        scratch.lexemes.clear();
        scratch.lexemes.extend(scratch.goals.iter().map(|goal| goal.lexeme));
        let (items, goals) = (scratch.items.as_slice().into(), scratch.goals.as_slice().into());
        let finishes: Box<[Finish]> = scratch.finishes.as_slice().into();
        let (start, made) = (start(&scratch.lexemes), scratch.agenda.len());
        let new = Row { items, finishes, goals, start, accepts, made, turn: 0 };
        self.bytes += size_of::<Row>()
            + size_of_val(&*begin)
            + size_of_val(&*new.items)
            + size_of_val(&*new.finishes)
            + size_of_val(&*new.goals);
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

    /// Finds what finishing the symbols of this row takes: a least fixed point, as rules may begin with each other.
    fn price(&self, (table, prices): (&Table, &mut Prices), scratch: &mut Scratch, row: RowId) {
        let items = std::mem::take(&mut scratch.items);
        let mut symbols = std::mem::take(&mut scratch.predictions);
        symbols.clear();
        let mut changed = true;
        while changed {
            changed = false;
            for item in &items {
                let symbol = table.dots[item.dot as usize].symbol;
                if table.symbols[symbol as usize].lexeme.is_some() {
                    continue;
                }
                let cost = self.behind((table, prices), scratch, *item, row);
                let known = &mut scratch.finish[symbol as usize];
                if known.is_none() {
                    symbols.push(symbol);
                }
                if known.is_none_or(|known| cost < known.cost) {
                    *known = Some(Finish { symbol, cost, item: *item });
                    changed = true;
                }
            }
        }
        scratch.goals.clear();
        for item in &items {
            let symbol = table.dots[item.dot as usize].symbol;
            let Some(lexeme) = table.symbols[symbol as usize].lexeme else { continue };
            let cost = self.behind((table, prices), scratch, *item, row);
            let (known, place) = scratch.goal[symbol as usize];
            if known != scratch.row {
                scratch.goal[symbol as usize] = (scratch.row, scratch.goals.len());
                scratch.goals.push(Goal { lexeme, cost, item: *item });
            } else if scratch.goals[place].cost > cost {
                let goal = &mut scratch.goals[place];
                (goal.cost, goal.item) = (cost, *item);
            }
        }
        symbols.sort_unstable();
        scratch.finishes.clear();
        let found = symbols.iter().filter_map(|symbol| scratch.finish[*symbol as usize].take());
        scratch.finishes.extend(found);
        (scratch.predictions, scratch.items) = (symbols, items);
    }

    /// The fewest bytes behind the symbol at the item's dot.
    fn behind(
        &self,
        (table, prices): (&Table, &mut Prices),
        scratch: &Scratch,
        item: Item,
        row: RowId,
    ) -> u32 {
        let lhs = table.dots[item.dot as usize].lhs;
        let above = if (lhs, item.origin) == (0, 0) {
            // The start symbol may also stand inside a text.
            0
        } else if item.origin == row {
            scratch.finish[lhs as usize].map_or(NONE, |finish| finish.cost)
        } else {
            self.finish(item.origin, lhs).map_or(NONE, |finish| finish.cost)
        };
        (prices.rest(table, item.dot + 1, item.arg) + above).min(NONE)
    }
}
