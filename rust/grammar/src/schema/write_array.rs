//! Writes sets of arrays: what may be chosen for each item.

use super::set::{Item, Term};
use super::write::{Writer, literal};
use super::write_list::{List, States, behind};
use crate::error::Result;
use crate::sets::logic::{F, FALSE, Node, TRUE};
use crate::written::rules::{Line, Rule, Symbol};
use ahash::AHashMap;
use llguidance::earley::{BitIdx, ParamCond, ParamExpr, ParamRef, ParamValue};
use std::rc::Rc;

/// The values of an item, and what is left after it.
type Step = (Term, F);
/// What may come next, and the place of what is left then.
type Next = Vec<(Line, usize)>;
/// Values, and what becomes of a part of the formula.
type Choice = (Term, F);

/// An item that must be there takes so many: what is left of it in bytes is found for each number of items.
const STEPS_PER_ITEM: usize = 8;

impl Writer<'_, '_> {
    /// The lines of the arrays that satisfy the formula.
    pub(super) fn arrays(&mut self, f: F) -> Result<Vec<Line>> {
        let alternatives = match self.reader.sets.items.node(f) {
            Node::Any(parts) => Rc::clone(parts),
            _ => Rc::from([f]),
        };
        let mut lines = Vec::new();
        for f in alternatives.iter() {
            let f = if self.reader.setting.filters { self.left_to_the_filter(*f)? } else { *f };
            let inner = self.list(List::Items, &mut States::new(), f, false)?;
            lines.push(vec![literal("["), Symbol::Rule(inner), literal("]")]);
        }
        Ok(lines)
    }

    /// The values of every item, and what else is asked.
    pub(super) fn alike(&mut self, f: F) -> (Term, Vec<F>) {
        let (mut values, mut rest) = (Vec::new(), Vec::new());
        for part in self.reader.sets.items.conjuncts(f) {
            match self.reader.sets.items.node(part) {
                Node::Atom(Item::From(0, value)) => values.push(*value),
                _ => rest.push(part),
            }
        }
        (self.reader.sets.terms.all(values), rest)
    }

    /// A list of which more is asked than its length: a parameter counts the items, so that what is left of the rest need not be
    /// written for each length. None where nothing is counted, or a list cannot have every length from its fewest items on.
    pub(super) fn tallied(&mut self, f: F) -> Result<Option<Vec<Line>>> {
        let ((least, most), start) = self.bounds(List::Items, f);
        if !self.tallies || (least == 0 && most.is_none()) || most.is_some_and(|most| most < least) {
            return Ok(None);
        }
        self.reader.arena.budget.spend(STEPS_PER_ITEM * least as usize)?;
        let (states, mut steps) = self.item_states(start)?;
        let ends: Vec<bool> = states.iter().map(|state| self.may_stop(List::Items, *state)).collect();
        let fewest = fewest(&steps, &ends);
        steps.iter_mut().for_each(|next| next.retain(|(_, to)| fewest[*to] < u32::MAX));
        let mut alive = (0..steps.len()).filter(|state| fewest[*state] < u32::MAX);
        if !alive.all(|state| steps[state].iter().any(|(_, to)| !ends[state] || ends[*to])) {
            return Ok(None);
        }
        let rules: Vec<Rule> = states.iter().map(|_| self.rule()).collect();
        let count = ParamRef::new(0, (u32::BITS - (most.unwrap_or(least) | 1).leading_zeros()) as BitIdx);
        let value = |n: u32| ParamValue(u64::from(n));
        for (state, next) in steps.iter().enumerate() {
            let mut lines = Vec::new();
            if ends[state] {
                lines.push(vec![Symbol::If(ParamCond::GE(count, value(least)))]);
            }
            for (line, to) in next {
                let room = most
                    .map_or(ParamCond::True, |n| ParamCond::LT(count, value(n.saturating_sub(fewest[*to]))));
                let line = behind(true, line.iter().cloned());
                lines.push(
                    [vec![Symbol::If(room)], line, vec![Symbol::With(rules[*to], ParamExpr::Incr(count))]]
                        .concat(),
                );
            }
            self.out.rules[rules[state]] = lines;
        }
        let mut first = Vec::new();
        if ends[0] && least == 0 {
            first.push(Vec::new());
        }
        for (line, to) in steps.swap_remove(0) {
            if most.is_none_or(|most| fewest[to] < most) {
                first.push([line, vec![Symbol::With(rules[to], ParamExpr::Const(value(1)))]].concat());
            }
        }
        self.tallied.extend(rules.iter().zip(&fewest).filter(|(_, n)| **n < u32::MAX).map(|(rule, _)| *rule));
        Ok(Some(first))
    }

    /// All that may be left of the formula, and what leads from each to others, by their places.
    fn item_states(&mut self, start: F) -> Result<(Vec<F>, Vec<Next>)> {
        let (mut states, mut places, mut steps) = (vec![start], AHashMap::from([(start, 0)]), Vec::new());
        while let Some(state) = states.get(steps.len()).copied() {
            self.reader.arena.budget.spend(1)?;
            let mut next = Vec::new();
            for (line, rest) in self.next(List::Items, state)? {
                let place = *places.entry(rest).or_insert(states.len());
                if place == states.len() {
                    states.push(rest);
                }
                next.push((line, place));
            }
            steps.push(next);
        }
        Ok((states, steps))
    }

    /// What may be chosen for the next item.
    pub(super) fn item_steps(&mut self, f: F) -> Result<Vec<Step>> {
        let atoms = self.reader.sets.items.atoms(f);
        // A part that only moves on costs less than one that is decided.
        self.reader.arena.budget.spend(1 + atoms.len() / 4)?;
        let (mut by, mut open) = (AHashMap::new(), Vec::new());
        for atom in &atoms {
            match self.choices(atom)?.as_slice() {
                [(TRUE, then)] => drop(by.insert(atom.clone(), *then)),
                choices => open.push((atom.clone(), choices.to_vec())),
            }
        }
        // What tells values from all others comes first: the others are not chosen then for what they are not.
        open.sort_by_key(|(item, _)| !matches!(item, Item::Most(..)));
        // What no choice can save is not gone through.
        let (lost, mut found) = (by.iter().filter(|(_, f)| **f == FALSE), Vec::new());
        let lost = lost.map(|(a, f)| (a.clone(), *f)).collect();
        if self.reader.sets.items.replace(f, &lost) != FALSE {
            self.choose_item(&open, (TRUE, &by, lost), f, &mut found)?;
        }
        Ok(found)
    }

    /// What the next item makes of an atom.
    fn choices(&mut self, atom: &Item) -> Result<Vec<Choice>> {
        let own = self.reader.sets.items.atom(atom.clone());
        let mut then = |item: Item| self.reader.sets.items.atom(item);
        Ok(match atom {
            Item::If(0, t) | Item::Has(0, t) => vec![(*t, TRUE), (TRUE, FALSE)],
            Item::If(at, t) => vec![(TRUE, then(Item::If(at - 1, *t)))],
            Item::Has(at, t) => vec![(TRUE, then(Item::Has(at - 1, *t)))],
            Item::From(0, t) => vec![(*t, own), (TRUE, FALSE)],
            Item::From(at, t) => vec![(TRUE, then(Item::From(at - 1, *t)))],
            Item::Least(n, 0, t) => {
                let left = if *n > 1 { then(Item::Least(n - 1, 0, *t)) } else { TRUE };
                vec![(*t, left), (TRUE, own)]
            }
            Item::Least(n, at, t) => vec![(TRUE, then(Item::Least(*n, at - 1, *t)))],
            Item::Most(n, 0, t) => {
                let left = n.checked_sub(1).map(|n| then(Item::Most(n, 0, *t)));
                vec![(self.reader.sets.not_term(*t), own), (*t, left.unwrap_or(FALSE)), (TRUE, FALSE)]
            }
            Item::Most(n, at, t) => vec![(TRUE, then(Item::Most(*n, at - 1, *t)))],
            Item::Longer(n) => vec![(TRUE, if *n > 1 { then(Item::Longer(n - 1)) } else { TRUE })],
            Item::Shorter(n) => vec![(TRUE, n.checked_sub(1).map_or(FALSE, |n| then(Item::Shorter(n))))],
            // A filter, or rules of their own, tell items apart elsewhere.
            Item::Unique => {
                let why = "cannot be enforced here in a schema that is part of another grammar: list the values in enum";
                return self.refuse("uniqueItems", why);
            }
            Item::Repeated => {
                let why = "arrays in which items are equal are left out where the opposite of uniqueItems is asked for";
                self.narrow("uniqueItems", why)?;
                vec![(TRUE, FALSE)]
            }
        })
    }

    /// Goes through the choices that are open; `fixed` and `made`: what becomes of atoms that leave none, and of others.
    fn choose_item(
        &mut self,
        open: &[(Item, Vec<Choice>)],
        (value, fixed, made): (Term, &AHashMap<Item, F>, AHashMap<Item, F>),
        f: F,
        found: &mut Vec<Step>,
    ) -> Result<()> {
        self.reader.arena.budget.spend(1 + made.len())?;
        let Some(((atom, choices), open)) = open.split_first() else {
            let by = fixed.iter().chain(&made).map(|(a, f)| (a.clone(), *f)).collect();
            let rest = self.reader.sets.items.replace(f, &by);
            if rest != FALSE && !found.contains(&(value, rest)) {
                found.push((value, rest));
            }
            return Ok(());
        };
        for (i, (term, then)) in choices.iter().enumerate() {
            let both = self.reader.sets.terms.all([value, *term]);
            let mut made = made.clone();
            made.insert(atom.clone(), *then);
            let lost = made.iter().filter(|(_, f)| **f == FALSE).map(|(a, f)| (a.clone(), *f)).collect();
            let is_lost = *then == FALSE && self.reader.sets.items.replace(f, &lost) == FALSE;
            if both == FALSE || is_lost || self.is_nothing(both)? {
                continue;
            }
            self.choose_item(open, (both, fixed, made), f, found)?;
            // The first choice was no choice.
            if i == 0 && both == value {
                break;
            }
        }
        Ok(())
    }
}

/// How many items it takes from each state to one where the list may end, at least.
fn fewest(steps: &[Next], ends: &[bool]) -> Vec<u32> {
    let mut fewest: Vec<u32> = ends.iter().map(|end| if *end { 0 } else { u32::MAX }).collect();
    let mut changed = true;
    while changed {
        changed = false;
        // Later states are nearer to the end.
        for (state, next) in steps.iter().enumerate().rev() {
            let least = next.iter().map(|(_, to)| fewest[*to].saturating_add(1)).min();
            if least.is_some_and(|least| least < fewest[state]) {
                fewest[state] = least.unwrap_or_default();
                changed = true;
            }
        }
    }
    fewest
}
