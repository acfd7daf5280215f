//! Where a filter beside the grammar has to tell items and keys apart.

use super::read::Reader;
use super::set::{Item, Key, Set, Sets, Term};
use crate::error::Result;
use crate::sets::logic::{F, FALSE, Node, TRUE};
use crate::sets::strings::Piece;
use crate::unique::{Inside, Place, Scarce, Shape};
use ahash::AHashMap;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// So many names may run out while an object is written.
const FEW: usize = 64;
/// Most places: beyond them a schema is refused.
const MAX_PLACES: usize = 5_000;

/// Terms of which one describes the values of a place.
type Terms = BTreeSet<Term>;

/// The shape of the values of a term. `untold`: the grammar alone would allow a key of the schema twice.
///
/// Where a place may have several kinds of values, items differ if one of the kinds asks for it: then less is allowed, never more.
///
/// # Errors
/// Where there are too many places, or the budget is spent.
pub(super) fn of(reader: &mut Reader<'_>, root: Term, untold: bool) -> Result<Shape> {
    let mut shaper = Shaper { reader, untold, known: AHashMap::new(), line: Vec::new() };
    shaper.place(BTreeSet::from([root]));
    let mut places = Vec::new();
    // In the order of their numbers: more are found on the way.
    while let Some(terms) = shaper.line.get(places.len()).cloned() {
        if places.len() == MAX_PLACES {
            let why = "too many places where items must differ: make the schema simpler";
            return Err(super::refuse("", "uniqueItems", why));
        }
        places.push(shaper.inside(&terms)?);
    }
    Ok(Shape::of(places))
}

struct Shaper<'r, 'a> {
    reader: &'r mut Reader<'a>,
    untold: bool,
    known: AHashMap<Terms, Place>,
    line: Vec<Terms>,
}

impl Key {
    /// Whether there are no keys but so many known ones: the schema names some and says nothing of others.
    pub(super) fn declare_all(keys: &[Key], known: usize) -> bool {
        let speaks = |key: &Key| match key {
            Key::Open | Key::Every(..) | Key::Some(..) => true,
            Key::Least(n) => *n as usize > known,
            _ => false,
        };
        keys.contains(&Key::Declared) && !keys.iter().any(speaks)
    }
}

impl Sets {
    /// All names of keys but these, and those of them that none of the keys forbids.
    pub(super) fn other_names(&mut self, known: impl IntoIterator<Item = String>, keys: &[Key]) -> (F, F) {
        let known = self.strings.texts(known);
        let others = self.strings.not(known);
        let mut allowed = others;
        for key in keys {
            if let Key::Every(forbidden, FALSE) = key {
                let rest = self.strings.not(forbidden.over.0);
                allowed = self.strings.and(allowed, rest);
            }
        }
        (others, allowed)
    }
}

impl Shaper<'_, '_> {
    /// The place of such values; None where they may be anything.
    fn place(&mut self, terms: Terms) -> Option<Place> {
        if terms.iter().all(|term| *term == TRUE || *term == FALSE) {
            return None;
        }
        let next = self.line.len();
        let place = *self.known.entry(terms.clone()).or_insert(next);
        if place == next {
            self.line.push(terms);
        }
        Some(place)
    }

    fn inside(&mut self, terms: &Terms) -> Result<Inside> {
        let (mut inside, mut items, mut keys) = (Inside::default(), Vec::new(), Vec::new());
        let (mut scarce, mut values) = (Scarce::No, Vec::new());
        for term in terms {
            self.reader.arena.budget.spend(1)?;
            let set = self.reader.set_of(*term)?;
            let set = self.reader.sets.get(set);
            let own = self.reader.sets.items.atoms(set.arrays);
            if set.arrays != FALSE {
                scarce = scarce.max(self.scarce(&own)?);
            }
            items.extend(own);
            if set.objects == FALSE {
                continue;
            }
            let own = self.reader.sets.keys.atoms(set.objects);
            inside.names = inside.names.max(self.scarce_names(set.objects, &own));
            values.extend(self.values(set.objects, &own));
            keys.extend(own);
        }
        inside.counts = keys.iter().any(Key::counts);
        let told: Vec<_> = items.iter().filter_map(places).collect();
        for at in 0..=told.iter().map(|(from, ..)| *from).max().unwrap_or(0) {
            let here = told.iter().filter(|(from, on, _)| *from == at || *on && *from < at);
            inside.items.push(self.place(here.map(|(.., term)| *term).collect()));
        }
        inside.rest = self.place(told.iter().filter(|(_, on, _)| *on).map(|(.., term)| *term).collect());
        inside.unique = items.contains(&Item::Unique).then_some(scarce);
        inside.counts |= inside.unique.is_some() && items.iter().any(Item::counts);
        let of_others = |key: &Key| match key {
            Key::Every(_, term) | Key::Some(_, term) => Some(*term),
            _ => None,
        };
        let others: Terms = keys.iter().filter_map(of_others).collect();
        inside.others = self.place(others.clone());
        let mut named: HashMap<String, Terms> = HashMap::new();
        for (name, term) in values {
            named.entry(name.to_string()).or_insert_with(|| others.clone()).insert(term);
        }
        inside.keys = named.into_iter().map(|(name, terms)| (name, self.place(terms))).collect();
        Ok(inside)
    }

    /// The names of keys, each with terms of which one describes its values; `own` are all keys of the objects.
    fn values(&mut self, objects: F, own: &[Key]) -> Vec<(Rc<str>, Term)> {
        let values = own.iter().filter_map(|key| match key {
            Key::If(name, term) | Key::Has(name, term) => Some((Rc::clone(name), *term)),
            _ => None,
        });
        let sets = &mut self.reader.sets;
        if sets.keys.certain(objects).len() < own.len() {
            return values.collect();
        }
        let mut all: AHashMap<Rc<str>, Term> = AHashMap::new();
        for (name, term) in values {
            let known = all.entry(name).or_insert(TRUE);
            *known = sets.terms.all([*known, term]);
        }
        all.into_iter().collect()
    }

    /// Whether the names of keys may run out; `keys` are all keys of the objects. Names that the grammar itself keeps from coming twice
    /// do not count as running out.
    fn scarce_names(&mut self, objects: F, keys: &[Key]) -> Scarce {
        let known: BTreeSet<String> = keys.iter().filter_map(Key::name).map(str::to_owned).collect();
        let least = if self.untold && !known.is_empty() { Scarce::Perhaps } else { Scarce::No };
        if Key::declare_all(keys, known.len()) {
            return least;
        }
        let is_about_names = |key: &Key| matches!(key, Key::Every(..) | Key::Some(..));
        if !keys.iter().any(is_about_names) && self.reader.sets.keys.certain(objects).len() == keys.len() {
            // Any name may come at any time, and every beginning leads to some that have not been there.
            return Scarce::No;
        }
        let (others, allowed) = self.reader.sets.other_names(known, keys);
        if allowed == others {
            return least;
        }
        match self.reader.sets.strings.few(allowed, FEW) {
            Some(few) if few.is_empty() => least,
            Some(_) => Scarce::Few,
            None => Scarce::Perhaps,
        }
    }

    /// Whether the values of items may run out. Strings that go on from every beginning do not. Of all other values some end
    /// where nothing else can follow: `true`, the whole number 0, an object without more keys.
    fn scarce(&mut self, items: &[Item]) -> Result<Scarce> {
        let is_every = |item: &Item| matches!(item, Item::From(0, _));
        if !items.iter().any(is_every) {
            return Ok(Scarce::Perhaps);
        }
        for (.., term) in items.iter().filter_map(places) {
            let set = self.reader.set_of(term)?;
            let set = self.reader.sets.get(set);
            let strings = set.strings.under.0;
            let goes_on = match self.reader.sets.strings.logic.node(strings) {
                Node::Atom(Piece::Length(lengths)) => lengths.iter().any(|cell| cell.high.is_none()),
                _ => strings == TRUE || strings == FALSE,
            };
            if !goes_on || *set != (Set { strings: set.strings, ..Set::none() }) {
                return Ok(Scarce::Perhaps);
            }
        }
        Ok(Scarce::No)
    }
}

/// The first place that an atom speaks of, whether it speaks of those behind it too, and which values.
fn places(item: &Item) -> Option<(u32, bool, Term)> {
    match item {
        Item::If(at, term) | Item::Has(at, term) => Some((*at, false, *term)),
        Item::From(at, term) | Item::Least(_, at, term) | Item::Most(_, at, term) => Some((*at, true, *term)),
        _ => None,
    }
}
