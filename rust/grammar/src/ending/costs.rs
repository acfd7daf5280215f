//! The fewest bytes that complete a text from a row.
//!
//! For a symbol A that a row predicts, [`Finish`] has the fewest bytes that follow A up to the end of the text: over all items
//! `B -> x . A y` of the row, the cost of `y` and of finishing B where that item began.
//!
//! A mask examines many rows that the text never reaches, and it needs no costs. So the costs of a row are computed when they are
//! first asked for, together with those of the rows in which its items began.

use super::prices::{NONE, Prices};
use super::rows::{Item, RowId, Rows};
use super::table::Table;
use llguidance::earley::lexerspec::LexemeIdx;

/// What finishing a symbol takes, and behind which item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finish {
    symbol: u32,
    cost: u32,
    pub(super) item: Item,
}

/// What it takes behind a lexeme that may come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal {
    pub(super) lexeme: LexemeIdx,
    pub(super) cost: u32,
    pub(super) item: Item,
}

#[derive(Debug)]
struct Row {
    /// Of the symbols that the row predicts, sorted by symbol.
    finishes: Box<[Finish]>,
    /// Of its terminals, in the order of the items.
    goals: Box<[Goal]>,
}

/// The costs of rows, each computed once.
#[derive(Debug)]
pub(super) struct Costs {
    rows: Vec<Option<Row>>,
    bytes: usize,
    /// While a row is computed: by symbol, its cheapest item so far.
    finish: Vec<Option<Finish>>,
    /// While a row is computed: by terminal symbol, its index among the goals.
    goal: Vec<Option<usize>>,
}

impl Costs {
    pub(super) fn new(table: &Table) -> Self {
        let symbols = table.symbols.len();
        Costs { rows: Vec::new(), bytes: 0, finish: vec![None; symbols], goal: vec![None; symbols] }
    }

    /// Memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// For each lexeme that may come in a row, the fewest bytes that follow it up to the end of the text. After this call,
    /// [`Costs::finish`] also knows the rows in which this row's items began, and so on back to the first row.
    pub(super) fn goals(
        &mut self,
        rows: &Rows,
        (table, prices): (&Table, &mut Prices),
        row: RowId,
    ) -> &[Goal] {
        let mut open = vec![row];
        while let Some(row) = open.last().copied() {
            if self.row(row).is_some() {
                open.pop();
                continue;
            }
            let origins = rows.items(row).iter().map(|item| item.origin);
            let known = open.len();
            open.extend(origins.filter(|origin| *origin != row && self.row(*origin).is_none()));
            if open.len() == known {
                let costs = self.price(rows, (table, prices), row);
                self.bytes += size_of_val(&*costs.finishes) + size_of_val(&*costs.goals);
                if self.rows.len() <= row as usize {
                    self.rows.resize_with(row as usize + 1, || None);
                }
                self.rows[row as usize] = Some(costs);
            }
        }
        self.row(row).map_or(&[], |row| &row.goals)
    }

    fn row(&self, row: RowId) -> Option<&Row> {
        self.rows.get(row as usize)?.as_ref()
    }

    /// What finishing a symbol that began in this row takes. None behind the start symbol of the whole text.
    pub(super) fn finish(&self, row: RowId, symbol: u32) -> Option<&Finish> {
        let own = &self.row(row)?.finishes;
        own.binary_search_by_key(&symbol, |finish| finish.symbol).ok().map(|i| &own[i])
    }

    /// Computes the costs of a row as a least fixed point, because rules may begin with each other.
    fn price(&mut self, rows: &Rows, (table, prices): (&Table, &mut Prices), row: RowId) -> Row {
        let items = rows.items(row);
        let mut symbols = Vec::new();
        let mut changed = true;
        while changed {
            changed = false;
            for item in items {
                let symbol = table.dots[item.dot as usize].symbol;
                if table.symbols[symbol as usize].lexeme.is_some() {
                    continue;
                }
                let cost = self.behind((table, prices), *item, row);
                let known = &mut self.finish[symbol as usize];
                if known.is_none() {
                    symbols.push(symbol);
                }
                if known.is_none_or(|known| cost < known.cost) {
                    *known = Some(Finish { symbol, cost, item: *item });
                    changed = true;
                }
            }
        }
        let mut goals: Vec<Goal> = Vec::new();
        for item in items {
            let symbol = table.dots[item.dot as usize].symbol as usize;
            let Some(lexeme) = table.symbols[symbol].lexeme else { continue };
            let goal = Goal { lexeme, cost: self.behind((table, prices), *item, row), item: *item };
            match self.goal[symbol] {
                None => {
                    self.goal[symbol] = Some(goals.len());
                    goals.push(goal);
                }
                Some(place) if goals[place].cost > goal.cost => goals[place] = goal,
                Some(_) => {}
            }
        }
        items.iter().for_each(|item| self.goal[table.dots[item.dot as usize].symbol as usize] = None);
        symbols.sort_unstable();
        let finishes = symbols.iter().filter_map(|symbol| self.finish[*symbol as usize].take()).collect();
        Row { finishes, goals: goals.into() }
    }

    /// The fewest bytes that follow the symbol at the item's dot up to the end of the text.
    fn behind(&self, (table, prices): (&Table, &mut Prices), item: Item, row: RowId) -> u32 {
        let lhs = table.dots[item.dot as usize].lhs;
        let above = if (lhs, item.origin) == (0, 0) {
            // The start symbol may also stand inside a text.
            0
        } else if item.origin == row {
            self.finish[lhs as usize].map_or(NONE, |finish| finish.cost)
        } else {
            self.finish(item.origin, lhs).map_or(NONE, |finish| finish.cost)
        };
        (prices.rest(table, item.dot + 1, item.arg) + above).min(NONE)
    }
}
