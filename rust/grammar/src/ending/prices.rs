//! The fewest bytes that symbols can come to.
//!
//! A parameter may remember which keys of an object have been there, and then a symbol has as many prices as there are sets of
//! keys. So prices are found where they are needed, and for a symbol whose parameter is handed on one rule is looked at: one that
//! ends it if there is any, else the cheapest of those that bring the end nearer. What that comes to may be more than the
//! fewest bytes, and is a way to the end all the same.

use super::table::{Arg, END, Table};
use ahash::{AHashMap, AHashSet};
use llguidance::earley::lexerspec::LexemeIdx;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No text of a bearable length.
pub(super) const NONE: u32 = 1 << 28;
/// A price that depends on a parameter.
const VARIES: u32 = u32::MAX;

type Node = (u32, Arg);

/// What a symbol comes to, and by which rule; [`END`] where that is no text, or a terminal.
#[derive(Debug, Clone, Copy)]
struct Price {
    cost: u32,
    rule: u32,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Prices {
    /// Of terminals, by symbol.
    lexemes: Vec<Option<u32>>,
    /// At least this much, whatever the parameter is.
    floors: Vec<u32>,
    known: AHashMap<Node, Price>,
    /// What follows a dot, that of its symbol included.
    rests: Vec<u32>,
}

/// A rule that waits for the prices of its symbols.
struct Open {
    node: Node,
    rule: u32,
    unknown: usize,
    sum: u32,
}

impl Prices {
    /// `shortest`: bytes of the shortest text of a lexeme.
    pub(super) fn new(table: &Table, shortest: impl Fn(LexemeIdx) -> u32) -> Self {
        let symbols = 0..table.symbols.len() as u32;
        let lexeme = |symbol: u32| table.symbols[symbol as usize].lexeme.map(&shortest);
        let mut prices = Prices { lexemes: symbols.clone().map(lexeme).collect(), ..Prices::default() };
        let all: Vec<Node> = symbols.clone().map(|symbol| (symbol, 0)).collect();
        prices.find(table, &all, false);
        let floor = |symbol: u32| prices.known.get(&(symbol, 0)).map_or(NONE, |price| price.cost);
        prices.floors = symbols.map(floor).collect();
        prices.known.clear();
        let own = table.dots.iter().filter(|dot| dot.symbol != END);
        let own = own.filter_map(|dot| Some((dot.symbol, Table::own_arg(dot)?)));
        let own: Vec<Node> = std::iter::once((0, 0)).chain(own).collect();
        prices.find(table, &own, true);
        let mut rest = 0;
        let rests = table.dots.iter().rev().map(|dot| {
            rest = match (dot.symbol, Table::own_arg(dot)) {
                (END, _) => 0,
                (_, None) => VARIES,
                (symbol, Some(arg)) if rest != VARIES => {
                    (rest + prices.known.get(&(symbol, arg)).map_or(NONE, |price| price.cost)).min(NONE)
                }
                _ => VARIES,
            };
            rest
        });
        prices.rests = rests.collect();
        prices.rests.reverse();
        prices
    }

    /// The fewest bytes of what follows the dot.
    pub(super) fn rest(&mut self, table: &Table, dot: u32, arg: Arg) -> u32 {
        let rest = self.rests[dot as usize];
        if rest != VARIES {
            return rest;
        }
        let parts: Vec<Node> = table.rest(dot).map(|(at, dot)| (dot.symbol, table.arg(at, arg))).collect();
        parts.into_iter().map(|part| self.of(table, part).cost).fold(0, |sum, cost| (sum + cost).min(NONE))
    }

    /// The rule by which a symbol comes to its fewest bytes.
    pub(super) fn rule(&mut self, table: &Table, symbol: u32, arg: Arg) -> u32 {
        self.of(table, (symbol, arg)).rule
    }

    fn of(&mut self, table: &Table, node: Node) -> Price {
        if !self.known.contains_key(&node) {
            self.find(table, &[node], true);
        }
        let none = Price { cost: NONE, rule: END };
        *self.known.entry(node).or_insert(none)
    }

    /// Finds the prices of these and of all that they are made of, the cheapest first (Knuth, "A Generalization of Dijkstra's
    /// Algorithm", 1977). `exact`: conditions count.
    fn find(&mut self, table: &Table, nodes: &[Node], exact: bool) {
        let mut open: Vec<Open> = Vec::new();
        let mut uses: AHashMap<Node, Vec<usize>> = AHashMap::new();
        let mut heap = BinaryHeap::new();
        let mut found: Vec<Node> = nodes.to_vec();
        let mut seen = AHashSet::new();
        while let Some(node) = found.pop() {
            if !seen.insert(node) {
                continue;
            }
            if let Some(price) = self.known.get(&node) {
                heap.push(Reverse((price.cost, node, price.rule)));
            } else if let Some(cost) = self.lexemes[node.0 as usize] {
                heap.push(Reverse((cost, node, END)));
            } else if table.is_nullable(node.0, node.1) || !exact && table.may_be_empty(node.0) {
                heap.push(Reverse((0, node, END)));
            } else {
                for rule in self.candidates(table, node, exact) {
                    let parts: Vec<Node> = table
                        .rest(rule)
                        .map(|(at, dot)| (dot.symbol, if exact { table.arg(at, node.1) } else { 0 }))
                        .collect();
                    parts.iter().for_each(|part| uses.entry(*part).or_default().push(open.len()));
                    open.push(Open { node, rule, unknown: parts.len(), sum: 0 });
                    found.extend(parts);
                }
            }
        }
        let mut done = AHashMap::new();
        while let Some(Reverse((cost, node, rule))) = heap.pop() {
            if cost >= NONE || done.contains_key(&node) {
                continue;
            }
            done.insert(node, Price { cost, rule });
            for i in uses.get(&node).into_iter().flatten() {
                let rule = &mut open[*i];
                rule.unknown -= 1;
                rule.sum = (rule.sum + cost).min(NONE);
                if rule.unknown == 0 {
                    heap.push(Reverse((rule.sum, rule.node, rule.rule)));
                }
            }
        }
        self.known.extend(done);
    }

    /// The rules that are looked at for a symbol.
    fn candidates(&self, table: &Table, (symbol, arg): Node, exact: bool) -> Vec<u32> {
        if !exact {
            return table.all_rules(symbol).collect();
        }
        let rules: Vec<u32> = table.rules(symbol, arg).collect();
        let ends: Vec<u32> = rules.iter().copied().filter(|rule| !table.hands_on(*rule)).collect();
        if !ends.is_empty() {
            return ends;
        }
        let floor = |rule: &u32| {
            let parts = table.rest(*rule).map(|(_, dot)| self.floors[dot.symbol as usize]);
            parts.fold(0, |sum, cost| (sum + cost).min(NONE))
        };
        let brings = rules.iter().copied().filter(|rule| table.brings(*rule, arg)).min_by_key(floor);
        brings.or_else(|| rules.iter().copied().min_by_key(floor)).into_iter().collect()
    }
}
