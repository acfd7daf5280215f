//! Sets of JSON values: one part for each type, each closed under and, or and not.
//!
//! What stands inside (items, values of keys) is named by a term: a formula over schemas of the document and sets. Terms
//! are looked into only when the grammar is written, so a schema may contain itself.

use super::arena::Id;
use super::keywords::Types;
use crate::sets::logic::{F, FALSE, Logic, TRUE};
use crate::sets::number::{self, Cell, Cells, Kind};
use crate::sets::strings::{Between, Strings};
use crate::written::decimal::Decimal;
use ahash::{AHashMap, AHashSet};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::rc::Rc;

/// The number of a set.
pub(super) type SetId = usize;
/// A formula over schemas and sets.
pub(super) type Term = F;
/// The number of a dynamic scope.
pub(super) type Scope = usize;

/// What a term is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Leaf {
    /// The values that the schema accepts, or (false) all others.
    Schema(Id, Scope, bool),
    Set(SetId),
}

/// What a key of an object may have to be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// If the key is there, its value is one of these.
    If(Rc<str>, Term),
    /// The key is there, and its value is one of these.
    Has(Rc<str>, Term),
    /// Every key of these names has such a value.
    Every(Between, Term),
    /// Some key of these names has such a value.
    Some(Between, Term),
    /// So many keys at least.
    Least(u32),
    /// So many keys at most.
    Most(u32),
    /// Holds of every object: the schema names keys (`properties`), so that others are left out.
    Declared,
    /// Holds of every object: the schema allows other keys by name.
    Open,
}

impl Key {
    /// The one key that it speaks of by its name.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Key::If(name, _) | Key::Has(name, _) => Some(name),
            _ => None,
        }
    }

    /// Whether it asks for more keys than one.
    pub(super) fn counts(&self) -> bool {
        matches!(self, Key::Least(n) if *n > 1)
    }
}

/// What an item of an array may have to be; places count from here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Item {
    If(u32, Term),
    Has(u32, Term),
    /// All items from this place on.
    From(u32, Term),
    /// So many of these at least, from this place on.
    Least(u32, u32, Term),
    /// So many of these at most, from this place on.
    Most(u32, u32, Term),
    /// So many items at least.
    Longer(u32),
    /// So many items at most.
    Shorter(u32),
    /// No two items are equal.
    Unique,
    /// Some two items are equal.
    Repeated,
}

impl Item {
    /// Whether it asks for more items than one.
    pub(super) fn counts(&self) -> bool {
        matches!(self, Item::Longer(2..) | Item::Has(1.., _) | Item::Least(2.., ..))
    }
}

/// A set of JSON values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Set {
    pub(super) null: bool,
    pub(super) yes: bool,
    pub(super) no: bool,
    pub(super) whole: Cells,
    pub(super) fraction: Cells,
    pub(super) strings: Between,
    pub(super) arrays: F,
    pub(super) objects: F,
}

/// No value.
pub(super) const NONE: SetId = 0;
/// Every value.
pub(super) const ALL: SetId = 1;

impl Set {
    /// All values of these types.
    pub(super) fn of(types: Types) -> Self {
        let has = |kind| types.meets(kind);
        let numbers = |kind| if has(kind) { number::everything() } else { Vec::new() };
        let formula = |kind| if has(kind) { TRUE } else { FALSE };
        Set {
            null: has(Types::NULL),
            yes: has(Types::BOOLEAN),
            no: has(Types::BOOLEAN),
            whole: numbers(Types::INTEGER),
            fraction: numbers(Types::FRACTION),
            strings: formula(Types::STRING).into(),
            arrays: formula(Types::ARRAY),
            objects: formula(Types::OBJECT),
        }
    }

    pub(super) fn none() -> Self {
        Set::of(Types::NONE)
    }

    pub(super) fn all() -> Self {
        Set::of(Types::ALL)
    }
}

/// All sets of a document, and the formulas in them.
#[derive(Debug)]
pub(super) struct Sets {
    pub(super) terms: Logic<Leaf>,
    pub(super) strings: Strings,
    pub(super) items: Logic<Item>,
    pub(super) keys: Logic<Key>,
    sets: Vec<Rc<Set>>,
    numbers: AHashMap<Rc<Set>, SetId>,
    opposites: AHashMap<Term, Term>,
    /// Whole numbers that the document writes with a decimal point.
    pub(super) with_point: AHashSet<Decimal>,
}

impl Sets {
    pub(super) fn new() -> Self {
        let opposite = |leaf: &Leaf| match leaf {
            Leaf::Schema(id, scope, yes) => Some(Leaf::Schema(*id, *scope, !yes)),
            Leaf::Set(_) => None,
        };
        let mut sets = Sets {
            terms: Logic::new(opposite),
            strings: Strings::new(),
            items: Logic::new(|_| None),
            keys: Logic::new(|_| None),
            sets: Vec::new(),
            numbers: AHashMap::new(),
            opposites: AHashMap::new(),
            with_point: AHashSet::new(),
        };
        sets.add(Set::none());
        sets.add(Set::all());
        sets
    }

    /// How much there is of everything.
    pub(super) fn len(&self) -> usize {
        let formulas = self.terms.len() + self.strings.logic.len() + self.items.len() + self.keys.len();
        formulas + self.strings.work + self.sets.len()
    }

    pub(super) fn add(&mut self, set: Set) -> SetId {
        if let Some(known) = self.numbers.get(&set) {
            return *known;
        }
        let set = Rc::new(set);
        self.sets.push(Rc::clone(&set));
        self.numbers.insert(set, self.sets.len() - 1);
        self.sets.len() - 1
    }

    pub(super) fn get(&self, id: SetId) -> Rc<Set> {
        Rc::clone(&self.sets[id])
    }

    /// The texts of a set, where it is of listed texts alone.
    pub(super) fn listed(&self, set: &Set) -> Option<Rc<BTreeSet<String>>> {
        self.strings
            .listed(set.strings.exact()?)
            .filter(|_| *set == Set { strings: set.strings, ..Set::none() })
    }

    pub(super) fn and(&mut self, a: SetId, b: SetId) -> SetId {
        self.join(a, b, true)
    }

    pub(super) fn or(&mut self, a: SetId, b: SetId) -> SetId {
        self.join(a, b, false)
    }

    /// What is in both or (`all` is false) in any of them.
    fn join(&mut self, a: SetId, b: SetId, all: bool) -> SetId {
        let (nothing, end) = if all { (ALL, NONE) } else { (NONE, ALL) };
        if a == b || b == nothing || a == end {
            return a;
        }
        if a == nothing || b == end {
            return b;
        }
        let (a, b) = (self.get(a), self.get(b));
        let is = |a: bool, b: bool| if all { a && b } else { a || b };
        let numbers = if all { number::and } else { number::or };
        let set = Set {
            null: is(a.null, b.null),
            yes: is(a.yes, b.yes),
            no: is(a.no, b.no),
            whole: numbers(&a.whole, &b.whole, Kind::Whole),
            fraction: numbers(&a.fraction, &b.fraction, Kind::Fraction),
            strings: self.strings.join(a.strings, b.strings, all),
            arrays: self.items.join([a.arrays, b.arrays], all),
            objects: self.keys.join([a.objects, b.objects], all),
        };
        self.add(set)
    }

    pub(super) fn not(&mut self, id: SetId) -> SetId {
        let set = self.get(id);
        let set = Set {
            null: !set.null,
            yes: !set.yes,
            no: !set.no,
            whole: number::not(&set.whole, Kind::Whole),
            fraction: number::not(&set.fraction, Kind::Fraction),
            strings: self.strings.complement(set.strings),
            arrays: self.negated(set.arrays, |sets| &mut sets.items, Sets::not_item),
            objects: self.negated(set.objects, |sets| &mut sets.keys, Sets::not_key),
        };
        self.add(set)
    }

    /// The term for a set.
    pub(super) fn term(&mut self, set: SetId) -> Term {
        match set {
            NONE => FALSE,
            ALL => TRUE,
            _ => self.terms.atom(Leaf::Set(set)),
        }
    }

    pub(super) fn not_term(&mut self, term: Term) -> Term {
        if let Some(known) = self.opposites.get(&term) {
            return *known;
        }
        let not = self.negated(term, |sets| &mut sets.terms, Sets::not_leaf);
        self.opposites.insert(term, not);
        self.opposites.insert(not, term);
        not
    }

    /// The opposite of a formula, where `not` gives that of an atom.
    fn negated<A: Clone + Eq + Hash>(
        &mut self,
        f: F,
        logic: fn(&mut Self) -> &mut Logic<A>,
        not: fn(&mut Self, &A) -> F,
    ) -> F {
        let atoms = logic(self).atoms(f).into_iter();
        let by: AHashMap<A, F> = atoms.map(|atom| (atom.clone(), not(self, &atom))).collect();
        logic(self).rebuild(f, true, &mut |_, atom| by[atom])
    }

    fn not_leaf(&mut self, leaf: &Leaf) -> F {
        match *leaf {
            Leaf::Schema(id, scope, yes) => self.terms.atom(Leaf::Schema(id, scope, !yes)),
            Leaf::Set(set) => {
                let not = self.not(set);
                self.term(not)
            }
        }
    }

    pub(super) fn not_item(&mut self, item: &Item) -> F {
        let not = match item {
            Item::If(at, t) => Some(Item::Has(*at, self.not_term(*t))),
            Item::Has(at, t) => Some(Item::If(*at, self.not_term(*t))),
            Item::From(at, t) => Some(Item::Least(1, *at, self.not_term(*t))),
            Item::Least(1, at, t) => Some(Item::From(*at, self.not_term(*t))),
            Item::Least(n, at, t) => n.checked_sub(1).map(|n| Item::Most(n, *at, *t)),
            Item::Most(n, at, t) => Some(Item::Least(n + 1, *at, *t)),
            Item::Longer(n) => n.checked_sub(1).map(Item::Shorter),
            Item::Shorter(n) => Some(Item::Longer(n.saturating_add(1))),
            Item::Unique => Some(Item::Repeated),
            Item::Repeated => Some(Item::Unique),
        };
        not.map_or(FALSE, |not| self.items.atom(not))
    }

    fn not_key(&mut self, key: &Key) -> F {
        let not = match key {
            Key::If(name, t) => Some(Key::Has(Rc::clone(name), self.not_term(*t))),
            Key::Has(name, t) => Some(Key::If(Rc::clone(name), self.not_term(*t))),
            Key::Every(names, t) => Some(Key::Some(*names, self.not_term(*t))),
            Key::Some(names, t) => Some(Key::Every(*names, self.not_term(*t))),
            Key::Least(n) => n.checked_sub(1).map(Key::Most),
            Key::Most(n) => Some(Key::Least(n.saturating_add(1))),
            Key::Declared | Key::Open => None,
        };
        not.map_or(FALSE, |not| self.keys.atom(not))
    }

    /// The set of these values; None where a number has too many digits.
    pub(super) fn values<'v>(&mut self, values: impl IntoIterator<Item = &'v Value>) -> Option<SetId> {
        let (mut set, mut texts, mut arrays, mut objects) = (Set::none(), Vec::new(), Vec::new(), Vec::new());
        for value in values {
            match value {
                Value::Null => set.null = true,
                Value::Bool(true) => set.yes = true,
                Value::Bool(false) => set.no = true,
                Value::String(text) => texts.push(text.clone()),
                Value::Number(n) => {
                    let pointed = n.is_f64();
                    let n = Decimal::parse(n)?;
                    if pointed && n.is_whole() {
                        self.with_point.insert(n);
                    }
                    let part = if n.is_whole() { &mut set.whole } else { &mut set.fraction };
                    part.push(Cell::point(n));
                }
                Value::Array(list) => arrays.push(self.array(list)?),
                Value::Object(map) => objects.push(self.object(map)?),
            }
        }
        set.whole = number::tidy(set.whole, Kind::Whole);
        set.fraction = number::tidy(set.fraction, Kind::Fraction);
        set.strings = self.strings.texts(texts).into();
        set.arrays = self.items.any(arrays);
        set.objects = self.keys.any(objects);
        Some(self.add(set))
    }

    fn array(&mut self, list: &[Value]) -> Option<F> {
        let mut parts = vec![self.items.atom(Item::Shorter(list.len() as u32))];
        for (at, value) in list.iter().enumerate() {
            let set = self.values([value])?;
            let term = self.term(set);
            parts.push(self.items.atom(Item::Has(at as u32, term)));
        }
        Some(self.items.all(parts))
    }

    fn object(&mut self, map: &Map<String, Value>) -> Option<F> {
        let mut parts = Vec::new();
        for (name, value) in map {
            let set = self.values([value])?;
            let term = self.term(set);
            parts.push(self.keys.atom(Key::Has(Rc::from(name.as_str()), term)));
        }
        let names = self.strings.texts(map.keys().cloned());
        let others = self.strings.not(names);
        parts.push(self.keys.atom(Key::Every(others.into(), FALSE)));
        Some(self.keys.all(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sets_are_closed_and_shared() {
        let mut sets = Sets::new();
        let values = [json!(1), json!("a"), json!(null), json!([1, {"k": 2.5}]), json!({"a": [true]})];
        let some = sets.values(&values).unwrap();
        let not = sets.not(some);
        assert_eq!(sets.not(not), some);
        assert_eq!(sets.or(some, NONE), some);
        let (both, either) = (sets.and(some, not), sets.or(some, not));
        let (both, either) = (sets.get(both), sets.get(either));
        assert!(
            !both.null && both.whole.is_empty() && both.fraction.is_empty() && both.strings == FALSE.into()
        );
        assert!(either.null && either.whole == number::everything() && either.strings == TRUE.into());
        let single = sets.values([&json!(1.0)]).unwrap();
        assert_eq!(sets.values([&json!(1)]).unwrap(), single);
        assert!(sets.values([&json!(1e300)]).is_none());
    }
}
