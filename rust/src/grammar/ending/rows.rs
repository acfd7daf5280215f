//! The rows of Earley's algorithm over lexemes, as llguidance's parser makes them, and what it takes to complete each of their
//! symbols.
//!
//! For a symbol A that a row predicts, [`Rows::finish`] is the fewest bytes that follow A up to the end of the text: over all
//! items `B -> x . A y` of the row, the cost of `y` and of finishing B where that item began.

use super::prices::{NONE, Prices};
use super::table::{Arg, END, Table};
use llguidance::derivre::StateID;
use llguidance::earley::lexerspec::LexemeIdx;

/// An item with a symbol behind its dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) dot: u32,
    pub(super) origin: u32,
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

/// Where the parts of a row begin.
#[derive(Debug, Clone, Copy)]
struct Head {
    items: usize,
    finishes: usize,
    goals: usize,
    start: StateID,
    accepts: bool,
}

/// All rows so far; a later one never changes an earlier one.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    items: Vec<Item>,
    finishes: Vec<Finish>,
    goals: Vec<Goal>,
    heads: Vec<Head>,
}

/// Room for what is known of the row that is being made.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The row in which a symbol was predicted last, with its parameter.
    predicted: Vec<(u64, Arg)>,
    /// The row in which a dot was reached last.
    reached: Vec<u64>,
    row: u64,
    completed: Vec<(u32, u32)>,
    /// For the symbols that this row predicts.
    finish: Vec<Option<Finish>>,
    predictions: Vec<u32>,
    /// The row in which a terminal was found last, and its place among the goals.
    goal: Vec<(u64, usize)>,
    agenda: Vec<Item>,
    lexemes: Vec<LexemeIdx>,
}

impl Scratch {
    pub(super) fn new(table: &Table) -> Self {
        let (symbols, dots) = (table.symbols.len(), table.dots.len());
        Scratch {
            predicted: vec![(0, 0); symbols],
            reached: vec![0; dots],
            finish: vec![None; symbols],
            goal: vec![(0, 0); symbols],
            ..Self::default()
        }
    }
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        if let Some(head) = self.heads.get(len) {
            self.items.truncate(head.items);
            self.finishes.truncate(head.finishes);
            self.goals.truncate(head.goals);
            self.heads.truncate(len);
        }
    }

    /// The state of the lexer at the beginning of the last row.
    pub(super) fn start(&self) -> StateID {
        self.heads.last().map_or(StateID::DEAD, |head| head.start)
    }

    /// Whether the text may end at the beginning of the last row.
    pub(super) fn accepts(&self) -> bool {
        self.heads.last().is_some_and(|head| head.accepts)
    }

    /// What may come in the last row.
    pub(super) fn goals(&self) -> &[Goal] {
        self.heads.last().map_or(&[], |head| &self.goals[head.goals..])
    }

    fn items(&self, row: u32) -> &[Item] {
        let begin = self.heads[row as usize].items;
        let end = self.heads.get(row as usize + 1).map_or(self.items.len(), |head| head.items);
        &self.items[begin..end]
    }

    /// What finishing a symbol that began in this row takes. None behind the start symbol of the whole text.
    pub(super) fn finish(&self, row: u32, symbol: u32) -> Option<&Finish> {
        let begin = self.heads[row as usize].finishes;
        let end = self.heads.get(row as usize + 1).map_or(self.finishes.len(), |head| head.finishes);
        let own = &self.finishes[begin..end];
        own.binary_search_by_key(&symbol, |finish| finish.symbol).ok().map(|i| &own[i])
    }

    /// Adds the first row, or that behind these lexemes; false where nothing goes on so. `start` gives the lexer's state
    /// for what may come.
    pub(super) fn push(
        &mut self,
        (table, prices): (&Table, &mut Prices),
        scratch: &mut Scratch,
        scanned: Option<&[LexemeIdx]>,
        start: impl FnOnce(&[LexemeIdx]) -> StateID,
    ) -> bool {
        let row = self.heads.len() as u32;
        let mut agenda = std::mem::take(&mut scratch.agenda);
        agenda.clear();
        match scanned {
            None => agenda.extend(table.rules(0, 0).map(|dot| Item { dot, origin: 0, arg: 0 })),
            Some(lexemes) => {
                let named = |item: &&Item| {
                    let symbol = &table.symbols[table.dots[item.dot as usize].symbol as usize];
                    symbol.lexeme.is_some_and(|lexeme| lexemes.contains(&lexeme))
                };
                let found = self.items(row - 1).iter().filter(named);
                agenda.extend(found.map(|item| Item { dot: item.dot + 1, ..*item }));
            }
        }
        if agenda.is_empty() {
            scratch.agenda = agenda;
            return false;
        }
        let (items, finishes, goals) = (self.items.len(), self.finishes.len(), self.goals.len());
        let mut head = Head { items, finishes, goals, start: StateID::DEAD, accepts: false };
        head.accepts = scanned.is_none() && table.is_nullable(0, 0);
        self.heads.push(head);
        scratch.row += 1;
        scratch.completed.clear();
        let accepts = self.close(table, scratch, &mut agenda, row);
        scratch.agenda = agenda;
        self.price((table, prices), scratch, row);
        scratch.lexemes.clear();
        scratch.lexemes.extend(self.goals[goals..].iter().map(|goal| goal.lexeme));
        let last = self.heads.last_mut().expect("It was just added. This is a bug.");
        last.accepts |= accepts;
        last.start = start(&scratch.lexemes);
        true
    }

    /// Predicts and completes, all that follows from the items of the agenda; whether a text is complete.
    fn close(&mut self, table: &Table, scratch: &mut Scratch, agenda: &mut Vec<Item>, row: u32) -> bool {
        let mut accepts = false;
        let mut at = 0;
        while let Some(item) = agenda.get(at).copied() {
            at += 1;
            let dot = &table.dots[item.dot as usize];
            if dot.symbol == END {
                // Symbols that are empty are stepped over where they are predicted.
                if item.origin == row || scratch.completed.contains(&(dot.lhs, item.origin)) {
                    continue;
                }
                scratch.completed.push((dot.lhs, item.origin));
                accepts |= dot.lhs == 0 && item.origin == 0;
                for i in 0..self.items(item.origin).len() {
                    let before = self.items(item.origin)[i];
                    if table.dots[before.dot as usize].symbol == dot.lhs {
                        let next = Item { dot: before.dot + 1, ..before };
                        Self::reach(scratch, agenda, next);
                    }
                }
                continue;
            }
            self.items.push(item);
            let arg = table.arg(item.dot, item.arg);
            let known = scratch.predicted[dot.symbol as usize];
            if known != (scratch.row, arg) {
                scratch.predicted[dot.symbol as usize] = (scratch.row, arg);
                for rule in table.rules(dot.symbol, arg) {
                    Self::reach(scratch, agenda, Item { dot: rule, origin: row, arg });
                }
            }
            if table.is_nullable(dot.symbol, arg) {
                Self::reach(scratch, agenda, Item { dot: item.dot + 1, ..item });
            }
        }
        accepts
    }

    /// Adds an item to the agenda, once.
    fn reach(scratch: &mut Scratch, agenda: &mut Vec<Item>, item: Item) {
        let seen = std::mem::replace(&mut scratch.reached[item.dot as usize], scratch.row) == scratch.row;
        if !(seen && agenda.contains(&item)) {
            agenda.push(item);
        }
    }

    /// Finds what finishing the symbols of this row takes: a least fixed point, as rules may begin with each other.
    fn price(&mut self, (table, prices): (&Table, &mut Prices), scratch: &mut Scratch, row: u32) {
        let begin = self.heads[row as usize].items;
        let mut symbols = std::mem::take(&mut scratch.predictions);
        symbols.clear();
        let mut changed = true;
        while changed {
            changed = false;
            for item in &self.items[begin..] {
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
        let from = self.heads[row as usize].goals;
        for i in begin..self.items.len() {
            let item = self.items[i];
            let symbol = table.dots[item.dot as usize].symbol;
            let Some(lexeme) = table.symbols[symbol as usize].lexeme else { continue };
            let cost = self.behind((table, prices), scratch, item, row);
            let (known, place) = scratch.goal[symbol as usize];
            if known != scratch.row {
                scratch.goal[symbol as usize] = (scratch.row, self.goals.len() - from);
                self.goals.push(Goal { lexeme, cost, item });
            } else if self.goals[from + place].cost > cost {
                let goal = &mut self.goals[from + place];
                (goal.cost, goal.item) = (cost, item);
            }
        }
        symbols.sort_unstable();
        let found = symbols.iter().filter_map(|symbol| scratch.finish[*symbol as usize].take());
        self.finishes.extend(found);
        scratch.predictions = symbols;
    }

    /// The fewest bytes behind the symbol at the item's dot.
    fn behind(&self, (table, prices): (&Table, &mut Prices), scratch: &Scratch, item: Item, row: u32) -> u32 {
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
