//! Writes arrays in which no two items are equal.
//!
//! Which values have been there is remembered where they can be listed. Elsewhere a filter beside the grammar remembers them.

use super::set::{Item, Key, Set, Term};
use super::write::Writer;
use super::write_list::{List, behind};
use crate::error::Result;
use crate::sets::logic::{F, FALSE, Node, TRUE};
use crate::sets::number::{self, Cell, Kind};
use crate::written::rules::{BITS, Line, Symbol, and, is_clear};
use ahash::AHashMap;
use llguidance::earley::{BitIdx, ParamCond, ParamRef};
use std::rc::Rc;

/// How deep objects in objects are looked into to count them.
const COUNT_DEPTH: usize = 3;
/// Most items whose values are chosen together, and most combinations of these values.
const MAX_CHOSEN: usize = 24;

impl Writer<'_, '_> {
    /// The formula without what the filter enforces: that items differ whose values cannot be listed.
    pub(super) fn left_to_the_filter(&mut self, f: F) -> Result<F> {
        if !self.reader.sets.items.atoms(f).contains(&Item::Unique) {
            return Ok(f);
        }
        let ((least, _), rest) = self.bounds(List::Items, f);
        if self.listed_items(rest)?.is_some() {
            return Ok(f);
        }
        self.filtered = true;
        let f = self.first_items_apart(f, least)?;
        let value = self.alike(rest).0;
        let any = AHashMap::from([(Item::Unique, TRUE)]);
        let rest = self.reader.sets.items.replace(f, &any);
        let Some(count) = self.count_of(value, COUNT_DEPTH)? else { return Ok(rest) };
        if u64::from(least) > count {
            return Ok(FALSE);
        }
        let most = self.reader.sets.items.atom(Item::Shorter(count.min(u32::MAX.into()) as u32));
        Ok(self.reader.sets.items.all([rest, most]))
    }

    /// Chooses the values of the first items, which are required, together, if each has few. The filter alone would notice only at the
    /// last of them that no value is left. FALSE if the values cannot all differ. Alternatives of which some requires a second item, as
    /// listed arrays do, are looked at one by one.
    fn first_items_apart(&mut self, f: F, least: u32) -> Result<F> {
        self.reader.arena.budget.spend(1)?;
        let items = &mut self.reader.sets.items;
        let parts = items.conjuncts(f);
        let is_long = |item: &Item| matches!(item, Item::Has(1.., _));
        let alternatives = |part: &F| match items.node(*part) {
            Node::Any(inner) if items.atoms(*part).iter().any(is_long) => Some(Rc::clone(inner)),
            _ => None,
        };
        let Some((at, inner)) = (0..).zip(&parts).find_map(|(at, part)| Some((at, alternatives(part)?)))
        else {
            return self.required_items_apart(f, least);
        };
        let mut ways = Vec::new();
        for way in inner.iter() {
            let with = parts[..at].iter().chain([way]).chain(&parts[at + 1..]).copied();
            let f = self.reader.sets.items.all(with.collect::<Vec<_>>());
            if f != FALSE {
                ways.push(self.first_items_apart(f, least)?);
            }
        }
        Ok(self.reader.sets.items.any(ways))
    }

    fn required_items_apart(&mut self, f: F, least: u32) -> Result<F> {
        let atoms = self.reader.sets.items.certain(f);
        let there =
            atoms.iter().filter_map(|item| if let Item::Has(at, _) = item { Some(at + 1) } else { None });
        let least = there.max().unwrap_or(0).max(least).min(MAX_CHOSEN as u32);
        let (mut chosen, mut places): (Vec<Vec<(u32, Term)>>, u32) = (vec![Vec::new()], 0);
        for at in 0..least {
            let here = atoms.iter().filter_map(|item| match item {
                Item::If(n, value) | Item::Has(n, value) if *n == at => Some(*value),
                Item::From(n, value) if *n <= at => Some(*value),
                _ => None,
            });
            let here: Vec<Term> = here.collect();
            let value = self.reader.sets.terms.all(here);
            let set = self.reader.set_of(value)?;
            let set = self.reader.sets.get(set);
            let Some(values) = self.listed(&set) else { continue };
            self.reader.arena.budget.spend(chosen.len() * values.len())?;
            let apart = chosen.iter().flat_map(|before| {
                let left = values.iter().filter(|value| before.iter().all(|(_, other)| other != *value));
                left.map(|value| [&before[..], &[(at, *value)]].concat())
            });
            let apart: Vec<_> = apart.take(MAX_CHOSEN + 1).collect();
            if apart.len() > MAX_CHOSEN {
                return Ok(f);
            }
            (chosen, places) = (apart, places + 1);
        }
        if places < 2 {
            return Ok(f);
        }
        let mut ways = Vec::new();
        for way in chosen {
            let items = &mut self.reader.sets.items;
            let way: Vec<F> = way.into_iter().map(|(at, value)| items.atom(Item::Has(at, value))).collect();
            ways.push(items.all([f].into_iter().chain(way)));
        }
        Ok(self.reader.sets.items.any(ways))
    }

    /// How many values a term has at most; None where that is not seen at a glance.
    fn count_of(&mut self, term: Term, depth: usize) -> Result<Option<u64>> {
        let set = self.reader.set_of(term)?;
        let set = self.reader.sets.get(set);
        let others = self.listed(&Set { objects: FALSE, ..Set::clone(&set) }).map(|list| list.len() as u64);
        let Some(others) = others.filter(|_| depth > 0 && set.objects != FALSE) else {
            return Ok(others.filter(|_| set.objects == FALSE));
        };
        // The values of each key, and whether it may be missing.
        let mut values: AHashMap<Rc<str>, (Term, bool)> = AHashMap::new();
        let mut is_closed = false;
        for part in self.reader.sets.keys.conjuncts(set.objects) {
            let (name, own, required) = match self.reader.sets.keys.node(part).clone() {
                Node::Atom(Key::If(name, own)) => (name, own, false),
                Node::Atom(Key::Has(name, own)) => (name, own, true),
                Node::Atom(Key::Every(_, FALSE)) => {
                    is_closed = true;
                    continue;
                }
                Node::Atom(Key::Declared) => continue,
                _ => return Ok(None),
            };
            let (value, may_miss) = values.entry(name).or_insert((TRUE, true));
            *value = self.reader.sets.terms.all([*value, own]);
            *may_miss &= !required;
        }
        let mut count = 1u64;
        for (value, may_miss) in values.into_values() {
            let Some(of_key) = self.count_of(value, depth - 1)? else { return Ok(None) };
            count = count.saturating_mul(of_key.saturating_add(u64::from(may_miss)));
        }
        Ok(is_closed.then_some(count.saturating_add(others)))
    }

    /// The values of a set, each as a term, where they can be listed.
    fn listed(&mut self, set: &Set) -> Option<Vec<Term>> {
        if set.arrays != FALSE || set.objects != FALSE {
            return None;
        }
        let texts = match set.strings.under.0 {
            FALSE => Rc::default(),
            strings => self.reader.sets.strings.listed(strings).filter(|texts| texts.len() <= BITS)?,
        };
        let whole = number::listed(&set.whole, Kind::Whole, BITS)?;
        let fraction = number::listed(&set.fraction, Kind::Fraction, BITS)?;
        let mut sets = Vec::new();
        sets.extend(set.null.then(|| Set { null: true, ..Set::none() }));
        sets.extend(set.yes.then(|| Set { yes: true, ..Set::none() }));
        sets.extend(set.no.then(|| Set { no: true, ..Set::none() }));
        sets.extend(whole.into_iter().map(|n| Set { whole: vec![Cell::point(n)], ..Set::none() }));
        sets.extend(fraction.into_iter().map(|n| Set { fraction: vec![Cell::point(n)], ..Set::none() }));
        for text in texts.iter() {
            let strings = self.reader.sets.strings.texts([text.clone()]).into();
            sets.push(Set { strings, ..Set::none() });
        }
        let sets: Vec<_> = sets.into_iter().map(|set| self.reader.sets.add(set)).collect();
        (sets.len() <= BITS).then(|| sets.into_iter().map(|set| self.reader.sets.term(set)).collect())
    }

    /// The values of items that are all alike but for being different, where they can be listed.
    fn listed_items(&mut self, f: F) -> Result<Option<Vec<Term>>> {
        let (value, rest) = self.alike(f);
        if rest != [self.reader.sets.items.atom(Item::Unique)] {
            return Ok(None);
        }
        let set = self.reader.set_of(value)?;
        let set = self.reader.sets.get(set);
        Ok(self.listed(&set))
    }

    /// Items that are all alike but for being different: a parameter remembers which have been there.
    pub(super) fn unique_items(&mut self, f: F, comma: bool) -> Result<Option<Vec<Line>>> {
        let ((least, most), rest) = self.bounds(List::Items, f);
        let Some(values) = self.listed_items(rest)?.filter(|_| !comma) else { return Ok(None) };
        let most = most.unwrap_or(u32::MAX).min(values.len() as u32);
        if least > most {
            return Ok(Some(Vec::new()));
        }
        let (first, more) = (self.rule(), self.rule());
        for (rule, comma) in [(first, false), (more, true)] {
            let mut lines = Vec::new();
            if least < 2 && comma || least == 0 {
                lines.push(Vec::new());
            } else if comma {
                lines.push(vec![Symbol::If(ParamCond::BitCountGE(ParamRef::full(), least as BitIdx))]);
            }
            for (bit, value) in (0..).zip(&values).filter(|_| most > 0) {
                let is_left = and(is_clear(bit), ParamCond::BitCountLT(ParamRef::full(), most as BitIdx));
                let item = [Symbol::Rule(self.value(*value)), Symbol::past(more, 1 << bit)];
                lines.push([vec![Symbol::If(is_left)], behind(comma, item)].concat());
            }
            self.out.rules[rule] = lines;
        }
        Ok(Some(vec![vec![Symbol::fresh(first)]]))
    }
}
