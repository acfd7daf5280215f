//! Writes sets of arrays: what may be chosen for each item.

use super::logic::{F, FALSE, Node, TRUE};
use super::rules::{Line, Symbol};
use super::set::{Item, Term};
use super::write::{Writer, literal};
use super::write_list::{List, States};
use crate::error::Result;
use ahash::AHashMap;
use std::rc::Rc;

/// The values of an item, and what is left after it.
type Step = (Term, F);
/// Values, and what becomes of a part of the formula.
type Choice = (Term, F);

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
