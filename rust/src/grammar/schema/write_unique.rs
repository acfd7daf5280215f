//! Writes arrays in which no two items are equal.
//!
//! Which values have been there is remembered where they can be listed; elsewhere, which kinds of values have: two of
//! different kinds differ.

use super::decimal::Decimal;
use super::logic::{F, FALSE, Node, TRUE};
use super::number::{self, Cell, Kind};
use super::rules::{BITS, Line, Rule, Symbol, and, is_clear};
use super::set::{Item, Key, Set, SetId, Term};
use super::spelling;
use super::strings;
use super::write::{Writer, literal};
use super::write_array::Step;
use crate::error::Result;
use ahash::{AHashMap, AHashSet};
use llguidance::earley::{BitIdx, ParamCond, ParamRef};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Most values of which it is remembered in the states which have been there; more are remembered by a parameter.
const MAX_VALUES: usize = 6;
/// How the strings of a key tell objects apart.
const OF_OBJECTS: (u8, u8) = strings::KINDS[1];
/// How deep objects in objects are looked into to count them.
const COUNT_DEPTH: usize = 3;
/// Fewer kinds of a key's values do not tell objects apart.
const MIN_KINDS: usize = 6;

impl Writer<'_, '_> {
    /// The formula without what the filter enforces: that items differ whose values cannot be listed.
    pub(super) fn left_to_the_filter(&mut self, f: F) -> Result<F> {
        let is_unique = |item: &Item| matches!(item, Item::Unique(used) if used.is_empty());
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
        let any = AHashMap::from([(Item::Unique(Rc::default()), TRUE)]);
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

    /// Items of which no two may be equal, value by value.
    pub(super) fn each_value(&mut self, steps: Vec<Step>) -> Result<Vec<Step>> {
        let mut all = Vec::new();
        for (value, rest) in steps {
            let Some(values) = self.listed(value)?.filter(|list| list.len() <= MAX_VALUES) else {
                return self.refuse(
                    "uniqueItems",
                    "cannot be enforced beside these keywords: list the values in enum",
                );
            };
            let atoms = self.reader.sets.items.atoms(rest);
            for (text, term) in values {
                let mut by = AHashMap::new();
                for atom in &atoms {
                    if let Item::Unique(used) = atom {
                        let mut next = BTreeSet::clone(used);
                        let again = !next.insert(text.clone());
                        let then = self.reader.sets.items.atom(Item::Unique(Rc::new(next)));
                        by.insert(atom.clone(), if again { FALSE } else { then });
                    }
                }
                let rest = self.reader.sets.items.replace(rest, &by);
                if rest != FALSE {
                    all.push((term, rest));
                }
            }
        }
        Ok(all)
    }

    /// The values of a term with their JSON texts, where they can be listed.
    fn listed(&mut self, term: Term) -> Result<Option<Vec<(String, Term)>>> {
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
        let mut list = Vec::new();
        let mut add = |writer: &mut Self, text: String, set: Set| {
            let set = writer.reader.sets.add(set);
            list.push((text, writer.reader.sets.term(set)));
        };
        for (is, text) in [(set.null, "null"), (set.yes, "true"), (set.no, "false")] {
            if is {
                let (null, yes, no) = (text == "null", text == "true", text == "false");
                add(self, text.to_owned(), Set { null, yes, no, ..Set::none() });
            }
        }
        for n in whole {
            add(self, n.text(), Set { whole: vec![Cell::point(n)], ..Set::none() });
        }
        for n in fraction {
            add(self, n.text(), Set { fraction: vec![Cell::point(n)], ..Set::none() });
        }
        for text in texts.iter() {
            let strings = self.reader.sets.strings.texts([text.clone()]);
            add(self, spelling::quoted(text), Set { strings, ..Set::none() });
        }
        Ok(Some(list).filter(|list| list.len() <= BITS))
    }

    /// Items that are all alike but for being different: a parameter remembers which have been there.
    pub(super) fn unique_items(&mut self, f: F, comma: bool) -> Result<Option<Vec<Line>>> {
        let (least, most, rest) = self.bounds(f);
        let (mut values, mut unique) = (Vec::new(), false);
        for part in self.item_parts(rest).iter() {
            match self.reader.sets.items.node(*part) {
                Node::Atom(Item::From(0, t)) => values.push(*t),
                Node::Atom(Item::Unique(used)) if used.is_empty() => unique = true,
                _ => return Ok(None),
            }
        }
        if !unique || comma {
            return Ok(None);
        }
        let value = self.reader.sets.terms.all(values);
        let list = self.listed(value)?;
        let is_listed = list.is_some();
        let ways = match list {
            Some(list) => vec![list.into_iter().map(|(_, term)| term).collect()],
            None => self.classes(value)?,
        };
        let mut lines = Vec::new();
        for values in &ways {
            let most = most.unwrap_or(u32::MAX).min(values.len() as u32);
            if least <= most {
                let alive = if least > 1 { Some(Symbol::Needs(self.at_least(least, values)?)) } else { None };
                lines.push(alive.into_iter().chain([self.remembered(values, least, most)]).collect());
            }
        }
        if lines.is_empty() && !is_listed {
            return self.refuse("uniqueItems", "too few values are known to differ: list them in enum");
        }
        Ok(Some(lines))
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

    /// Parts of the values so that two from different parts differ, in some ways, where there are too many to list.
    fn classes(&mut self, value: Term) -> Result<Vec<Vec<Term>>> {
        let pointer = self.reader.arena[self.at].pointer.clone();
        let why = "items count as different only if they, or the values of a key, are of different kinds: list the values in enum";
        self.reader.narrow(&pointer, "uniqueItems", why)?;
        let set = self.reader.set_of(value)?;
        let objects = self.reader.sets.get(set).objects;
        let kinds = self.kinds_of_objects(objects)?;
        // Each kind of objects is written anew: there is one way for them.
        let letters = if kinds.is_empty() { &strings::KINDS[..] } else { &[OF_OBJECTS] };
        let mut ways = Vec::new();
        for letters in letters {
            let mut classes = self.kinds(set, *letters)?;
            let has_room = !kinds.is_empty() && classes.len() + kinds.len() <= BITS;
            let objects = if has_room { kinds.as_slice() } else { &[objects] };
            for objects in objects.iter().filter(|f| **f != FALSE) {
                let part = self.reader.sets.add(Set { objects: *objects, ..Set::none() });
                classes.push(self.reader.sets.term(part));
            }
            ways.push(classes);
        }
        Ok(ways)
    }

    /// Parts of what is no object; strings by so many kinds of first and last letters.
    fn kinds(&mut self, set: SetId, (firsts, lasts): (u8, u8)) -> Result<Vec<Term>> {
        let set = self.reader.sets.get(set);
        let none = Set::none();
        let mut parts = vec![
            Set { null: set.null, ..none.clone() },
            Set { yes: set.yes, ..none.clone() },
            Set { no: set.no, ..none.clone() },
            Set { fraction: set.fraction.clone(), ..none.clone() },
            Set { arrays: set.arrays, ..none.clone() },
        ];
        // Small numbers one by one, then by their size.
        let bounds: Vec<i128> = (0..=10).chain([100, 1_000]).collect();
        let ends = bounds.windows(2).map(|w| (Some(w[0]), Some(w[1])));
        for (low, high) in ends.chain([(None, Some(0)), (Some(1_000), None)]) {
            let end = |n: Option<i128>, own| n.map(|n| (Decimal::new(n, 0), own));
            let cell = Cell { low: end(low, true), high: end(high, false), by: Vec::new() };
            parts.push(Set { whole: number::and(&set.whole, &vec![cell], Kind::Whole), ..none.clone() });
        }
        for (first, last) in (0..firsts).flat_map(|first| (0..lasts).map(move |last| (first, last))) {
            let part =
                self.reader.sets.strings.regex(&strings::ends_in((first, firsts), (last, lasts)), true);
            let strings = self.reader.sets.strings.and(set.strings, part);
            if !self.no_string(strings)? {
                parts.push(Set { strings, ..none.clone() });
            }
        }
        let parts: Vec<SetId> = parts.into_iter().map(|part| self.reader.sets.add(part)).collect();
        let parts = parts.into_iter().filter(|part| *part != super::set::NONE);
        Ok(parts.map(|part| self.reader.sets.term(part)).collect())
    }

    /// Parts of objects by the values of a key: the first that must be there and may be much, or else the first that may.
    fn kinds_of_objects(&mut self, objects: F) -> Result<Vec<F>> {
        let atoms = self.reader.sets.keys.atoms(objects);
        let required: AHashSet<&Rc<str>> = atoms
            .iter()
            .filter_map(|key| if let Key::Has(name, _) = key { Some(name) } else { None })
            .collect();
        let described =
            |key: &&Key| matches!(key, Key::If(_, t) | Key::Has(_, t) if *t != TRUE && *t != FALSE);
        let mut described: Vec<&Key> = atoms.iter().filter(described).collect();
        described.sort_by_key(|key| matches!(key, Key::If(name, _) if !required.contains(name)));
        for key in described {
            let (Key::If(name, value) | Key::Has(name, value)) = key else { continue };
            let set = self.reader.set_of(*value)?;
            let kinds = self.kinds(set, OF_OBJECTS)?;
            if kinds.len() < MIN_KINDS {
                continue;
            }
            let with = |value| Key::Has(Rc::clone(name), value);
            let kinds = kinds.into_iter().map(with).chain([Key::If(Rc::clone(name), FALSE)]);
            let keys = &mut self.reader.sets.keys;
            let parts = kinds.map(|kind| {
                let kind = keys.atom(kind);
                keys.all([objects, kind])
            });
            return Ok(parts.collect());
        }
        Ok(Vec::new())
    }
}
