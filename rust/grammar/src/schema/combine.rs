//! Reads keywords that combine schemas of the same value, and tells whether sets have something in common.

use super::arena::Id;
use super::keywords::Draft;
use super::read::{At, Reader};
use super::set::{ALL, Item, Key, NONE, Set, SetId, Term};
use crate::error::Result;
use crate::sets::logic::{F, FALSE, Node, TRUE};
use ahash::AHashSet;
use serde_json::Value;
use std::rc::Rc;

/// Each branch takes an item of a parser row.
pub(super) const MAX_BRANCHES: usize = 1_500;
/// How deep values inside values are compared to tell branches apart.
const DEPTH: usize = 4;
/// Most alternatives that are looked at to find a set empty.
const MAX_ALTERNATIVES: usize = 50;

impl Reader<'_> {
    /// `allOf`, `anyOf`, `oneOf`, `not`, and `if` with its `then` and `else`.
    pub(super) fn in_place(&mut self, (id, scope): At, keyword: &str) -> Result<SetId> {
        let parts = self.arena.inside(id, keyword);
        if parts.len() > MAX_BRANCHES {
            return self.wrong(id, keyword, format!("more than {MAX_BRANCHES} entries"));
        }
        // What is negated, in part or whole.
        let negated = usize::from(matches!(keyword, "oneOf" | "not" | "if"));
        self.negations += negated;
        let sets = parts.iter().map(|(_, part)| self.read(*part, scope)).collect::<Result<Vec<_>>>();
        self.negations -= negated;
        let sets = sets?;
        match (keyword, sets.as_slice()) {
            ("allOf", _) => sets.iter().try_fold(ALL, |all, set| self.and(all, *set)),
            ("anyOf" | "oneOf", _) => self.alternatives((id, keyword), &sets),
            ("not", [set]) => self.not(*set),
            ("if", [condition]) => self.conditional((id, scope), *condition),
            _ => Ok(ALL),
        }
    }

    fn conditional(&mut self, (id, scope): At, condition: SetId) -> Result<SetId> {
        let then = self.arena.one(id, "then").map_or(Ok(ALL), |part| self.read(part, scope))?;
        let otherwise = self.arena.one(id, "else").map_or(Ok(ALL), |part| self.read(part, scope))?;
        let not = self.not(condition)?;
        let (met, unmet) = (self.or(not, then)?, self.or(condition, otherwise)?);
        self.and(met, unmet)
    }

    /// Any of these, or exactly one. In an OpenAPI document the discriminator's value says which one it is; elsewhere it
    /// must name the right one besides.
    fn alternatives(&mut self, (id, keyword): (Id, &str), sets: &[SetId]) -> Result<SetId> {
        let tagged = self.discriminated((id, keyword), sets)?;
        if keyword == "anyOf" {
            return tagged.iter().try_fold(NONE, |any, set| self.or(any, *set));
        }
        let is_openapi = self.arena[id].draft == Draft::OpenApi;
        self.one_of(&tagged, if is_openapi { &tagged } else { sets })
    }

    /// Branches with the values of the discriminator that mean them. A branch that allows none of these says by itself
    /// what it is for, and stays as it is.
    fn discriminated(&mut self, (id, keyword): (Id, &str), sets: &[SetId]) -> Result<Vec<SetId>> {
        let discriminator = self.arena[id].value.get("discriminator");
        let mapping = discriminator.and_then(|d| d["mapping"].as_object());
        let mut tagged = sets.to_vec();
        let Some(name) = discriminator.and_then(|d| d["propertyName"].as_str()) else { return Ok(tagged) };
        for ((_, part), set) in self.arena.inside(id, keyword).iter().zip(&mut tagged) {
            let Some(reference) = self.arena[*part].text("$ref") else { continue };
            let schema = reference.rsplit('/').next().unwrap_or(reference);
            let means = |to: &Value| to.as_str().is_some_and(|to| to == reference || to == schema);
            let entries = mapping.into_iter().flatten().filter(|(_, to)| means(to));
            let mut tags: Vec<String> = entries.map(|(tag, _)| tag.clone()).collect();
            if tags.is_empty() {
                tags.push(schema.to_owned());
            }
            let strings = self.sets.strings.texts(tags).into();
            let tags = self.sets.add(Set { strings, ..Set::none() });
            let tags = self.sets.term(tags);
            let objects = self.sets.keys.atom(Key::Has(Rc::from(name), tags));
            let tags = self.sets.add(Set { objects, ..Set::none() });
            if !self.is_apart(*set, tags)? {
                *set = self.and(*set, tags)?;
            }
        }
        Ok(tagged)
    }

    /// Exactly one: each without the others that it has something in common with.
    fn one_of(&mut self, sets: &[SetId], others: &[SetId]) -> Result<SetId> {
        let mut any = NONE;
        let rivals = self.rivals(sets, others)?;
        for ((i, set), rivals) in sets.iter().enumerate().zip(rivals) {
            let mut own = *set;
            for j in rivals {
                if i != j && !self.is_apart(*set, others[j])? {
                    let not = self.not(others[j])?;
                    own = self.and(own, not)?;
                }
            }
            any = self.or(any, own)?;
        }
        Ok(any)
    }

    /// Whether the two have nothing in common, as far as it is easy to see.
    pub(super) fn is_apart(&mut self, a: SetId, b: SetId) -> Result<bool> {
        let both = self.and(a, b)?;
        Ok(self.probe(|own| own.is_nothing(both, DEPTH))? == Some(true))
    }

    /// What is found where all of each set is looked at; None where that needs a schema that is still being read, which counts
    /// as empty there, so that nothing may be concluded.
    pub(super) fn probe<T>(&mut self, look: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        let cut = std::mem::replace(&mut self.cut, usize::MAX);
        self.probing += 1;
        self.negations += 1;
        let found = look(self);
        self.negations -= 1;
        self.probing -= 1;
        let certain = std::mem::replace(&mut self.cut, cut) == usize::MAX;
        Ok(Some(found?).filter(|_| certain))
    }

    /// Whether the set is empty, as far as it is easy to see.
    fn is_nothing(&mut self, set: SetId, depth: usize) -> Result<bool> {
        self.arena.budget.spend(1)?;
        let set = self.sets.get(set);
        if set.null || set.yes || set.no || !set.whole.is_empty() || !set.fraction.is_empty() {
            return Ok(false);
        }
        Ok(self.sets.strings.is_empty(set.strings.over.0).unwrap_or(false)
            && self.no_arrays(set.arrays, depth)?
            && self.no_objects(set.objects, depth)?)
    }

    fn no_value(&mut self, terms: Vec<Term>, depth: usize) -> Result<bool> {
        if terms.contains(&FALSE) {
            return Ok(true);
        }
        if depth == 0 || terms.len() < 2 {
            return Ok(false);
        }
        let term = self.sets.terms.all(terms);
        let set = self.set_of(term)?;
        self.is_nothing(set, depth - 1)
    }

    fn no_arrays(&mut self, f: F, depth: usize) -> Result<bool> {
        if let Some(parts) = few_alternatives(self.sets.items.node(f)) {
            return parts.iter().try_fold(true, |none, f| Ok(none && self.no_arrays(*f, depth)?));
        }
        let atoms = self.sets.items.certain(f);
        let (mut least, mut most) = (0, u32::MAX);
        for item in &atoms {
            match item {
                Item::Longer(n) => least = least.max(*n),
                Item::Has(at, _) => least = least.max(at + 1),
                Item::Shorter(n) => most = most.min(*n),
                _ => {}
            }
        }
        if least > most {
            return Ok(true);
        }
        for at in 0..least.min(MAX_ALTERNATIVES as u32) {
            let here = atoms.iter().filter_map(|item| match item {
                Item::If(n, t) | Item::Has(n, t) if *n == at => Some(*t),
                Item::From(n, t) if *n <= at => Some(*t),
                _ => None,
            });
            if self.no_value(here.collect(), depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn no_objects(&mut self, f: F, depth: usize) -> Result<bool> {
        self.arena.budget.spend(1)?;
        if let Some(parts) = few_alternatives(self.sets.keys.node(f)) {
            return parts.iter().try_fold(true, |none, f| Ok(none && self.no_objects(*f, depth)?));
        }
        if self.no_value_of_a_key(f, depth)? {
            return Ok(true);
        }
        let parts = self.sets.keys.conjuncts(f);
        // Each alternative of one part, with the parts that have none.
        let plain: Vec<F> =
            parts.iter().filter(|f| matches!(self.sets.keys.node(**f), Node::Atom(_))).copied().collect();
        for part in parts.iter() {
            let Some(alternatives) = few_alternatives(self.sets.keys.node(*part)) else { continue };
            let mut none = true;
            for alternative in alternatives.iter() {
                let both = self.sets.keys.all(plain.iter().copied().chain([*alternative]));
                none = none && self.no_objects(both, depth)?;
            }
            if none {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a key must be there whose value cannot be.
    fn no_value_of_a_key(&mut self, f: F, depth: usize) -> Result<bool> {
        let atoms = self.sets.keys.certain(f);
        let mut names = AHashSet::new();
        for key in &atoms {
            let Key::Has(name, _) = key else { continue };
            if !names.insert(name) {
                continue;
            }
            self.arena.budget.spend(atoms.len())?;
            let mut terms = Vec::new();
            for other in &atoms {
                match other {
                    Key::If(n, t) | Key::Has(n, t) if n == name && *t != TRUE && !terms.contains(t) => {
                        terms.push(*t);
                    }
                    Key::Every(names, t) if self.sets.strings.has(names.under.0, name) => terms.push(*t),
                    _ => {}
                }
            }
            if self.no_value(terms, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The parts of a disjunction, where there are not too many to look at.
fn few_alternatives<A>(node: &Node<A>) -> Option<Rc<[F]>> {
    match node {
        Node::Any(parts) if parts.len() <= MAX_ALTERNATIVES => Some(Rc::clone(parts)),
        _ => None,
    }
}
