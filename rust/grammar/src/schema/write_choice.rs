//! What may be chosen for the value of a key. Values are told apart by which of the sets they are in that the formula speaks of:
//! then all of its atoms are decided at once, in place of one after the other.

use super::set::{Key, NONE, Set, SetId, Term};
use super::write::Writer;
use crate::error::Result;
use crate::sets::bits::{Bits, bits, has};
use crate::sets::logic::{F, FALSE, Node, TRUE};
use crate::sets::number::{self, Cells, Kind};
use ahash::{AHashMap, AHashSet};
use std::collections::BTreeMap;
use std::rc::Rc;

/// An atom, the values that it speaks of, the atom where the value is one of them, and where it is not.
pub(super) type Open = (Key, Term, F, F);
/// The values of a key, and what is left of the formula then.
type Choice = (Term, F);

/// A part of a set, and all values of that part.
type Part = (fn(&Set) -> F, fn() -> Set);
/// The parts whose values have values inside.
const PARTS: [Part; 2] = [
    (|set| set.arrays, || Set { arrays: TRUE, ..Set::none() }),
    (|set| set.objects, || Set { objects: TRUE, ..Set::none() }),
];

impl Writer<'_, '_> {
    /// The values of `own` by what is left of the formula.
    pub(super) fn decide(&mut self, own: Term, open: Vec<Open>, f: F) -> Result<Vec<Choice>> {
        self.reader.arena.budget.spend(1 + open.len())?;
        // What must hold in any case is no choice.
        let certain: AHashSet<Key> = self.reader.sets.keys.certain(f).into_iter().collect();
        let is_fixed = |(key, _, _, out): &Open| *out == FALSE && certain.contains(key);
        let (fixed, open): (Vec<Open>, Vec<Open>) = open.into_iter().partition(is_fixed);
        let own =
            self.reader.sets.terms.all([own].into_iter().chain(fixed.iter().map(|(_, term, ..)| *term)));
        let f = self.decided(f, fixed.iter().map(|open| (open, true)));
        if f == FALSE || self.is_nothing(own)? {
            return Ok(Vec::new());
        }
        if open.is_empty() {
            return Ok(vec![(own, f)]);
        }
        let mut sets = Vec::new();
        for term in std::iter::once(own).chain(open.iter().map(|(_, term, ..)| *term)) {
            let set = self.reader.set_of(term)?;
            sets.push(self.reader.sets.get(set));
        }
        let mut found = Vec::new();
        match self.classes(&sets)? {
            Some(classes) => self.told_apart((own, f), (&open, &sets), classes, &mut found)?,
            None => self.choose(&open, (own, f), &mut Vec::new(), &mut found)?,
        }
        Ok(found)
    }

    /// The same where values that are neither arrays nor objects are in classes.
    fn told_apart(
        &mut self,
        (own, f): Choice,
        (open, sets): (&[Open], &[Rc<Set>]),
        classes: Vec<(Set, Bits)>,
        found: &mut Vec<Choice>,
    ) -> Result<()> {
        let (mut left, mut groups) = (AHashMap::<Bits, F>::new(), BTreeMap::<F, SetId>::new());
        for (set, row) in classes {
            let rest = match left.get(&row) {
                Some(rest) => *rest,
                None => {
                    self.reader.arena.budget.spend(open.len())?;
                    let sides = open.iter().enumerate().map(|(i, open)| (open, has(&row, i + 1)));
                    let rest = self.decided(f, sides);
                    left.insert(row, rest);
                    rest
                }
            };
            self.group(&mut groups, rest, set)?;
        }
        for (part, only) in PARTS {
            // Their formulas are compared only where they differ.
            let all = part(&sets[0]);
            let side = |set: &Set| match part(set) {
                own if own == TRUE || own == all => Some(true),
                FALSE => Some(false),
                _ => None,
            };
            let sides: Vec<_> = open.iter().zip(&sets[1..]).map(|(open, set)| (open, side(set))).collect();
            let rest = self.decided(f, sides.iter().filter_map(|(open, side)| Some((*open, (*side)?))));
            let open: Vec<Open> =
                sides.iter().filter(|(_, side)| side.is_none()).map(|(open, _)| (*open).clone()).collect();
            if all == FALSE {
                continue;
            }
            let only = only();
            if open.is_empty() {
                self.group(&mut groups, rest, only)?;
            } else {
                let only = self.reader.sets.add(only);
                let value = self.only(own, only)?;
                self.choose(&open, (value, rest), &mut Vec::new(), found)?;
            }
        }
        for (rest, set) in groups {
            found.push((self.only(own, set)?, rest));
        }
        Ok(())
    }

    fn group(&mut self, groups: &mut BTreeMap<F, SetId>, rest: F, set: Set) -> Result<()> {
        if rest != FALSE {
            let set = self.reader.sets.add(set);
            let any = groups.entry(rest).or_insert(NONE);
            *any = self.reader.or(*any, set)?;
        }
        Ok(())
    }

    /// Those of the values that are in the set.
    fn only(&mut self, own: Term, set: SetId) -> Result<Term> {
        let whole = self.reader.set_of(own)?;
        if self.reader.and(whole, set)? == whole {
            return Ok(own);
        }
        let set = self.reader.sets.term(set);
        Ok(self.reader.sets.terms.all([own, set]))
    }

    /// The formula where a value is in some sets (true) and not asked to be in others.
    fn decided<'o>(&mut self, f: F, sides: impl Iterator<Item = (&'o Open, bool)>) -> F {
        let by =
            sides.map(|((key, _, is_in, is_out), side)| (key.clone(), if side { *is_in } else { *is_out }));
        let by: AHashMap<Key, F> = by.collect();
        if by.is_empty() { f } else { self.reader.sets.keys.replace(f, &by) }
    }

    /// The values of the first set that are neither arrays nor objects, by the sets that they are in; None where there is too much
    /// to tell apart.
    fn classes(&mut self, sets: &[Rc<Set>]) -> Result<Option<Vec<(Set, Bits)>>> {
        let mut classes = Vec::new();
        for (has, only) in [
            ((|set| set.null) as fn(&Set) -> bool, Set { null: true, ..Set::none() }),
            (|set| set.yes, Set { yes: true, ..Set::none() }),
            (|set| set.no, Set { no: true, ..Set::none() }),
        ] {
            if has(&sets[0]) {
                classes.push((only, bits(sets.iter().map(|set| has(set)))));
            }
        }
        let cells: usize = sets.iter().map(|set| set.whole.len() + set.fraction.len()).sum();
        self.reader.arena.budget.spend(sets.len() * cells)?;
        let cells: Vec<&Cells> = sets.iter().map(|set| &set.whole).collect();
        let Some(whole) = number::split(&cells, Kind::Whole) else { return Ok(None) };
        classes.extend(whole.into_iter().map(|(whole, row)| (Set { whole, ..Set::none() }, row)));
        let cells: Vec<&Cells> = sets.iter().map(|set| &set.fraction).collect();
        let Some(fraction) = number::split(&cells, Kind::Fraction) else { return Ok(None) };
        classes.extend(fraction.into_iter().map(|(fraction, row)| (Set { fraction, ..Set::none() }, row)));
        let exact: Option<Vec<F>> = sets.iter().map(|set| set.strings.exact()).collect();
        let Some(strings) = exact.and_then(|exact| self.reader.sets.strings.split(&exact)) else {
            return Ok(None);
        };
        let of_strings = |strings: F| Set { strings: strings.into(), ..Set::none() };
        classes.extend(strings.into_iter().map(|(strings, row)| (of_strings(strings), row)));
        self.reader.arena.budget.spend(classes.len())?;
        Ok(Some(classes))
    }

    /// Goes through the sets that a value may be in, one by one. `outside`: sets that it is not asked to be in.
    fn choose(
        &mut self,
        open: &[Open],
        (value, f): Choice,
        outside: &mut Vec<Term>,
        found: &mut Vec<Choice>,
    ) -> Result<()> {
        self.reader.arena.budget.spend(1)?;
        if f == FALSE || value == FALSE {
            return Ok(());
        }
        let Some((first, open)) = open.split_first() else {
            if !found.contains(&(value, f)) {
                found.push((value, f));
            }
            return Ok(());
        };
        let term = first.1;
        let both = self.reader.sets.terms.all([value, term]);
        // Whether it still matters is seen first: looking into values costs more.
        let out = self.decided(f, std::iter::once((first, false)));
        let is_empty = both != value && self.is_nothing(both)?;
        // A value that is in one of the others after all is found where it is asked to be in that, too.
        if !is_empty && (both == value || !self.is_within_any(both, outside)?) {
            let within = self.decided(f, std::iter::once((first, true)));
            self.choose(open, (both, within), outside, found)?;
        }
        if out != FALSE && both != value && (is_empty || value == TRUE || !self.is_same(both, value)?) {
            outside.push(term);
            self.choose(open, (value, out), outside, found)?;
            outside.pop();
        }
        Ok(())
    }

    fn is_within_any(&mut self, value: Term, others: &[Term]) -> Result<bool> {
        for other in others.iter().rev() {
            let both = self.reader.sets.terms.all([value, *other]);
            self.reader.arena.budget.spend(1)?;
            if self.is_same(both, value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a conjunction has no value, as far as its parts show by themselves.
    pub(super) fn is_nothing(&mut self, term: Term) -> Result<bool> {
        if term == FALSE || !matches!(self.reader.sets.terms.node(term), Node::All(_)) {
            return Ok(term == FALSE);
        }
        Ok(self.reader.set_of(term)? == NONE)
    }

    fn is_same(&mut self, a: Term, b: Term) -> Result<bool> {
        Ok(self.reader.set_of(a)? == self.reader.set_of(b)?)
    }
}
