//! Writes arrays in which no two items are equal.
//!
//! Which values have been there is remembered where they can be listed. Elsewhere a filter beside the grammar remembers them.

use super::logic::{F, FALSE, Node, TRUE};
use super::number::{self, Cell, Kind};
use super::rules::{BITS, Line, Rule, Symbol, and, is_clear};
use super::set::{Item, Key, Set, SetId, Term};
use super::write::{Writer, literal};
use crate::error::Result;
use ahash::AHashMap;
use llguidance::earley::{BitIdx, ParamCond, ParamRef};
use std::rc::Rc;

/// How deep objects in objects are looked into to count them.
const COUNT_DEPTH: usize = 3;

impl Writer<'_, '_> {
    /// The formula without what the filter enforces: that items differ whose values cannot be listed.
    pub(super) fn left_to_the_filter(&mut self, f: F) -> Result<F> {
        let is_unique = |item: &Item| matches!(item, Item::Unique);
        if !self.reader.sets.items.atoms(f).iter().any(is_unique) {
            return Ok(f);
        }
        let (least, .., rest) = self.bounds(f);
        let parts = self.item_parts(rest);
        let every = |part: &F| match self.reader.sets.items.node(*part) {
            Node::Atom(Item::From(0, t)) => Some(*t),
            _ => None,
        };
        let values: Vec<Term> = parts.iter().filter_map(every).collect();
        let value = self.reader.sets.terms.all(values.iter().copied());
        // Nothing else is asked of the items.
        if values.len() + 1 == parts.len() && self.listed(value)?.is_some() {
            return Ok(f);
        }
        self.filtered = true;
        let any = AHashMap::from([(Item::Unique, TRUE)]);
        let rest = self.reader.sets.items.replace(f, &any);
        match self.count_of(value, COUNT_DEPTH)? {
            Some(count) if u64::from(least) > count => Ok(FALSE),
            Some(count) => {
                let most = self.reader.sets.items.atom(Item::Shorter(count.min(u32::MAX.into()) as u32));
                Ok(self.reader.sets.items.all([rest, most]))
            }
            None => Ok(rest),
        }
    }

    /// How many values a term has at most; None where that is not seen at a glance.
    fn count_of(&mut self, term: Term, depth: usize) -> Result<Option<u64>> {
        if let Some(list) = self.listed(term)? {
            return Ok(Some(list.len() as u64));
        }
        let set = self.reader.set_of(term)?;
        let set = self.reader.sets.get(set);
        let plain = self.reader.sets.add(Set { objects: FALSE, ..Set::clone(&set) });
        let plain = self.reader.sets.term(plain);
        let Some(plain) = self.listed(plain)?.filter(|_| depth > 0) else { return Ok(None) };
        let mut values: AHashMap<Rc<str>, (Vec<Term>, bool)> = AHashMap::new();
        let mut is_closed = false;
        for part in self.parts(set.objects).iter() {
            match self.reader.sets.keys.node(*part).clone() {
                Node::Atom(Key::If(name, t)) => values.entry(name).or_default().0.push(t),
                Node::Atom(Key::Has(name, t)) => {
                    let (terms, required) = values.entry(name).or_default();
                    terms.push(t);
                    *required = true;
                }
                Node::Atom(Key::Every(_, FALSE)) => is_closed = true,
                Node::Atom(Key::Declared) => {}
                _ => return Ok(None),
            }
        }
        let mut count = 1u64;
        for (terms, required) in values.into_values() {
            let value = self.reader.sets.terms.all(terms);
            let Some(of_key) = self.count_of(value, depth - 1)? else { return Ok(None) };
            // One that is not required may be missing, too.
            count = count.saturating_mul(of_key + u64::from(!required));
        }
        Ok(is_closed.then_some(plain.len() as u64 + count))
    }

    /// The values of a term, each as a term, where they can be listed.
    fn listed(&mut self, term: Term) -> Result<Option<Vec<Term>>> {
        let set = self.reader.set_of(term)?;
        let set = self.reader.sets.get(set);
        let texts = match set.strings {
            FALSE => Some(Rc::default()),
            strings => self.reader.sets.strings.listed(strings),
        };
        let numbers = number::listed(&set.whole, Kind::Whole, BITS).zip(number::listed(
            &set.fraction,
            Kind::Fraction,
            BITS,
        ));
        let (Some(texts), Some((whole, fraction))) = (texts, numbers) else { return Ok(None) };
        if set.arrays != FALSE || set.objects != FALSE || texts.len() > BITS {
            return Ok(None);
        }
        let mut sets = Vec::new();
        let constants = [
            (set.null, [true, false, false]),
            (set.yes, [false, true, false]),
            (set.no, [false, false, true]),
        ];
        for (_, [null, yes, no]) in constants.into_iter().filter(|(is, _)| *is) {
            sets.push(Set { null, yes, no, ..Set::none() });
        }
        sets.extend(whole.into_iter().map(|n| Set { whole: vec![Cell::point(n)], ..Set::none() }));
        sets.extend(fraction.into_iter().map(|n| Set { fraction: vec![Cell::point(n)], ..Set::none() }));
        for text in texts.iter() {
            let strings = self.reader.sets.strings.texts([text.clone()]);
            sets.push(Set { strings, ..Set::none() });
        }
        let sets: Vec<SetId> = sets.into_iter().map(|set| self.reader.sets.add(set)).collect();
        let list: Vec<Term> = sets.into_iter().map(|set| self.reader.sets.term(set)).collect();
        Ok(Some(list).filter(|list| list.len() <= BITS))
    }

    /// Items that are all alike but for being different: a parameter remembers which have been there.
    pub(super) fn unique_items(&mut self, f: F, comma: bool) -> Result<Option<Vec<Line>>> {
        let (least, most, rest) = self.bounds(f);
        let (mut values, mut unique) = (Vec::new(), false);
        for part in self.item_parts(rest).iter() {
            match self.reader.sets.items.node(*part) {
                Node::Atom(Item::From(0, t)) => values.push(*t),
                Node::Atom(Item::Unique) => unique = true,
                _ => return Ok(None),
            }
        }
        if !unique || comma {
            return Ok(None);
        }
        let value = self.reader.sets.terms.all(values);
        let Some(values) = self.listed(value)? else { return Ok(None) };
        let most = most.unwrap_or(u32::MAX).min(values.len() as u32);
        if least > most {
            return Ok(Some(Vec::new()));
        }
        let alive = if least > 1 { Some(Symbol::Needs(self.at_least(least, &values)?)) } else { None };
        Ok(Some(vec![alive.into_iter().chain([self.remembered(&values, least, most)]).collect()]))
    }

    /// A rule that derives a text where so many of these have one.
    fn at_least(&mut self, least: u32, values: &[Term]) -> Result<Rule> {
        let done = self.rule();
        self.rules[done].push(Vec::new());
        // Where so many are missing among the values from here on; `done` where none is.
        let mut missing = vec![done];
        missing.extend((0..least).map(|_| self.rule()));
        for value in values {
            self.reader.arena.budget.spend(least as usize)?;
            let value = self.value(*value);
            for many in (1..missing.len()).rev() {
                let rule = self.rule();
                self.rules[rule] = vec![
                    vec![Symbol::Rule(missing[many])],
                    vec![Symbol::Rule(value), Symbol::Rule(missing[many - 1])],
                ];
                missing[many] = rule;
            }
        }
        Ok(missing[least as usize])
    }

    /// So many of these at least and at most, each once.
    fn remembered(&mut self, values: &[Term], least: u32, most: u32) -> Symbol {
        let (first, more) = (self.rule(), self.rule());
        for (rule, comma) in [(first, false), (more, true)] {
            let mut conditions = Vec::new();
            if comma || least == 0 {
                self.rules[rule].push(Vec::new());
                conditions.push(if comma && least > 1 {
                    ParamCond::BitCountGE(ParamRef::full(), least as BitIdx)
                } else {
                    ParamCond::True
                });
            }
            for (bit, value) in (0..).zip(values).filter(|_| most > 0) {
                let item = Symbol::Rule(self.value(*value));
                let next = Symbol::Past(more, bit);
                let line = comma.then(|| literal(",")).into_iter().chain([item, next]);
                self.rules[rule].push(line.collect());
                conditions.push(if comma {
                    and(is_clear(bit), ParamCond::BitCountLT(ParamRef::full(), most as BitIdx))
                } else {
                    ParamCond::True
                });
            }
            self.conditions.insert(rule, conditions);
        }
        Symbol::Fresh(first)
    }
}
