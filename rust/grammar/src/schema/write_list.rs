//! Writes lists: the items of an array, and the pairs of an object whose keys are not known by name. A walk whose state is what
//! is left of the formula.

use super::set::{Item, Key};
use super::write::{Writer, literal};
use crate::error::Result;
use crate::sets::logic::{F, FALSE, Logic, Node, TRUE};
use crate::written::rules::{Line, Rule, Symbol};
use ahash::AHashMap;
use std::hash::Hash;

/// What a list is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Items,
    /// Pairs with keys of these names.
    Keys(F),
}

/// By what is left, and whether something stands before.
pub(super) type States = AHashMap<(F, bool), Rule>;

/// So many at least and at most.
type Bounds = (u32, Option<u32>);

impl Writer<'_, '_> {
    /// The rule for what follows; `comma`: something stands before it.
    pub(super) fn list(&mut self, of: List, states: &mut States, f: F, comma: bool) -> Result<Rule> {
        if let Some(known) = states.get(&(f, comma)) {
            return Ok(*known);
        }
        self.reader.arena.budget.spend(1)?;
        let rule = self.rule();
        states.insert((f, comma), rule);
        let special = match self.counted(of, f, comma)? {
            None if of == List::Items => match self.unique_items(f, comma)? {
                None if !comma => self.tallied(f)?,
                unique => unique,
            },
            counted => counted,
        };
        self.out.rules[rule] = match special {
            Some(lines) => lines,
            None => self.one_by_one(of, states, f, comma)?,
        };
        Ok(rule)
    }

    fn one_by_one(&mut self, of: List, states: &mut States, f: F, comma: bool) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        if self.may_stop(of, f) {
            lines.push(Vec::new());
        }
        let loops = self.rule();
        for (line, rest) in self.next(of, f)? {
            let mut line = behind(comma, line);
            if comma && rest == f {
                self.out.rules[loops].push(line);
            } else {
                line.push(Symbol::Rule(self.list(of, states, rest, true)?));
                lines.push(line);
            }
        }
        if !self.out.rules[loops].is_empty() {
            lines.iter_mut().for_each(|line| line.insert(0, Symbol::Times(loops, 0, None)));
        }
        Ok(lines)
    }

    /// A list of which only the length is bounded.
    fn counted(&mut self, of: List, f: F, comma: bool) -> Result<Option<Vec<Line>>> {
        let ((least, most), rest) = self.bounds(of, f);
        let is_alike = match of {
            List::Items => self.alike(rest).1.is_empty(),
            List::Keys(_) => self.reader.setting.filters || least < 2,
        };
        if (least == 0 && most.is_none()) || most.is_some_and(|most| most < least) || !is_alike {
            return Ok(None);
        }
        let next = self.next(of, rest)?;
        if !self.may_stop(of, rest) || next.iter().any(|(_, after)| *after != rest) {
            return Ok(None);
        }
        self.filtered |= of != List::Items && least > 1;
        let (first, more) = (self.rule(), self.rule());
        for (line, _) in next {
            self.out.rules[more].push(behind(true, line.clone()));
            self.out.rules[first].push(line);
        }
        if comma {
            return Ok(Some(vec![vec![Symbol::Times(more, least, most)]]));
        }
        let mut lines = Vec::new();
        if least == 0 {
            lines.push(Vec::new());
        }
        if most != Some(0) {
            let rest = Symbol::Times(more, least.saturating_sub(1), most.map(|n| n - 1));
            lines.push(vec![Symbol::Rule(first), rest]);
        }
        Ok(Some(lines))
    }

    /// What may come next, and what is left then.
    pub(super) fn next(&mut self, of: List, f: F) -> Result<Vec<(Line, F)>> {
        let mut next = Vec::new();
        match of {
            List::Items => {
                for (value, rest) in self.item_steps(f)? {
                    next.push((vec![Symbol::Rule(self.value(value))], rest));
                }
            }
            List::Keys(names) => {
                for (names, value, rest) in self.free_steps(names, f)? {
                    let name = Symbol::Terminal(self.names(names));
                    next.push((vec![name, literal(":"), Symbol::Rule(self.value(value))], rest));
                }
            }
        }
        Ok(next)
    }

    /// Whether the formula holds where nothing more comes.
    pub(super) fn may_stop(&mut self, of: List, f: F) -> bool {
        let left = match of {
            List::Items => self.reader.sets.items.rebuild(f, false, &mut |_, item| match item {
                Item::Has(..) | Item::Least(..) | Item::Longer(_) | Item::Repeated => FALSE,
                _ => TRUE,
            }),
            List::Keys(_) => self.reader.sets.keys.rebuild(f, false, &mut |_, key| match key {
                Key::Some(..) | Key::Least(..) | Key::Has(..) => FALSE,
                _ => TRUE,
            }),
        };
        left == TRUE
    }

    /// The bounds on the length, and the rest of the formula.
    pub(super) fn bounds(&mut self, of: List, f: F) -> (Bounds, F) {
        match of {
            List::Items => bounds(&mut self.reader.sets.items, f, |item| match item {
                Item::Longer(n) => Some((*n, None)),
                Item::Shorter(n) => Some((0, Some(*n))),
                _ => None,
            }),
            List::Keys(_) => bounds(&mut self.reader.sets.keys, f, |key| match key {
                Key::Least(n) => Some((*n, None)),
                Key::Most(n) => Some((0, Some(*n))),
                _ => None,
            }),
        }
    }
}

/// A part of a list, behind a comma where something stands before it.
pub(super) fn behind(comma: bool, part: impl IntoIterator<Item = Symbol>) -> Line {
    comma.then(|| literal(",")).into_iter().chain(part).collect()
}

fn bounds<A: Clone + Eq + Hash>(logic: &mut Logic<A>, f: F, of: fn(&A) -> Option<Bounds>) -> (Bounds, F) {
    let (mut least, mut most, mut rest) = (0, None, Vec::new());
    for part in logic.conjuncts(f) {
        let own = match logic.node(part) {
            Node::Atom(atom) => of(atom),
            _ => None,
        };
        match own {
            Some((lower, upper)) => {
                least = least.max(lower);
                most = [most, upper].into_iter().flatten().min();
            }
            None => rest.push(part),
        }
    }
    ((least, most), logic.all(rest))
}
