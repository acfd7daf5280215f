//! `unevaluatedProperties` and `unevaluatedItems`: what no other keyword of the schema has looked at.
//!
//! Which keywords have looked depends on which branches hold, so the ways to satisfy the schema are gone through. A branch
//! that need not hold and does would only have looked at more, so each way may leave open what the other branches do.
//!
//! The ways through the branches of an `anyOf` would be as many as they have subsets. Where they name the keys that they look at, each
//! of these names is a condition of its own instead: it is evaluated, or one of the branches that look at it holds.

use super::arena::{Id, Target};
use super::keywords::Draft;
use super::logic::{F, FALSE, TRUE};
use super::read::Reader;
use super::refuse;
use super::set::{ALL, Item, Key, NONE, Scope, Set, SetId, Term};
use crate::error::Result;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Most ways that are gone through.
const MAX_WAYS: usize = 256;

/// What the keywords allow.
pub(super) struct Evaluated {
    pub(super) set: SetId,
    /// Each of its objects satisfies a branch of the schema's `anyOf`.
    pub(super) has_branches: bool,
}

/// What has been looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    /// Names of keys.
    names: F,
    /// Items before this place.
    items: u32,
    /// Items of these kinds, wherever they are.
    kinds: Vec<Term>,
}

/// A way to satisfy a schema, and what it looks at.
type Way = (SetId, Seen);

/// One way to satisfy a branch of `anyOf`: the objects that do, and the names of the keys that the branch evaluates.
struct Branch {
    objects: F,
    names: Rc<BTreeSet<String>>,
}

/// Which schema asks for ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// The one that has the keyword.
    Here,
    /// The same, where the branches of `anyOf` are dealt with by name.
    BesideAnyOf,
    /// One that this schema is a part of.
    Elsewhere,
}

const UNSEEN: Seen = Seen { names: FALSE, items: 0, kinds: Vec::new() };

impl Reader<'_> {
    /// What the two keywords of the schema allow; None where neither is there.
    pub(super) fn evaluated(&mut self, id: Id, scope: Scope) -> Result<Option<Evaluated>> {
        if !["unevaluatedProperties", "unevaluatedItems"].iter().any(|keyword| self.restricts(id, keyword)) {
            return Ok(None);
        }
        // What another schema looks for is its own affair: a schema that it stands in may be looked through again.
        let outer = std::mem::take(&mut self.looking);
        let of_objects = !self.restricts(id, "unevaluatedItems");
        let outer = (outer, std::mem::replace(&mut self.of_objects, of_objects));
        let branches = self.named_branches(id, scope)?;
        let ways = self.ways(id, scope, if branches.is_some() { Asks::BesideAnyOf } else { Asks::Here })?;
        let mut any = if of_objects { self.sets.add(Set { objects: FALSE, ..Set::all() }) } else { NONE };
        (self.looking, self.of_objects) = outer;
        let has_branches = of_objects && branches.is_none();
        let branches = branches.unwrap_or_default();
        for (set, seen) in ways {
            let (mut arrays, mut objects) = (TRUE, TRUE);
            if let Some(part) = self.arena.one(id, "unevaluatedProperties") {
                let term = self.schema(part, scope);
                objects = self.unseen_keys(term, seen.names, &branches);
            }
            if let Some(part) = self.arena.one(id, "unevaluatedItems") {
                let own = self.schema(part, scope);
                let term = self.sets.terms.any(seen.kinds.iter().copied().chain([own]));
                arrays = if seen.items == u32::MAX || term == TRUE {
                    TRUE
                } else {
                    self.sets.items.atom(Item::From(seen.items, term))
                };
            }
            let rest = self.sets.add(Set { arrays, objects, ..Set::all() });
            let way = self.and(set, rest)?;
            any = self.or(any, way)?;
        }
        Ok(Some(Evaluated { set: any, has_branches }))
    }

    /// The branches of the schema's `anyOf` for which keys are told apart by name; None where that cannot be done.
    fn named_branches(&mut self, id: Id, scope: Scope) -> Result<Option<Vec<Branch>>> {
        if !self.of_objects || !self.arena[id].draft.knows("anyOf") {
            return Ok(None);
        }
        let parts: Vec<Id> = self.arena.inside(id, "anyOf").iter().map(|(_, part)| *part).collect();
        let sets = parts.iter().map(|part| self.branch(*part, scope)).collect::<Result<Vec<_>>>()?;
        if !self.overlap(&sets)? {
            return Ok(None);
        }
        let mut branches = Vec::new();
        for (part, own) in parts.into_iter().zip(sets) {
            for (set, seen) in self.ways(part, scope, Asks::Elsewhere)? {
                let Some(names) = self.sets.strings.listed(seen.names) else {
                    if seen.names == FALSE {
                        continue;
                    }
                    return Ok(None);
                };
                let both = self.and(own, set)?;
                branches.push(Branch { objects: self.sets.get(both).objects, names });
            }
        }
        Ok((!branches.is_empty()).then_some(branches))
    }

    /// The values of a branch, as far as they are looked at.
    fn branch(&mut self, id: Id, scope: Scope) -> Result<SetId> {
        let set = self.read(id, scope)?;
        let objects = self.sets.get(set).objects;
        Ok(if self.of_objects { self.sets.add(Set { objects, ..Set::none() }) } else { set })
    }

    /// Whether some two of the sets may have something in common.
    fn overlap(&mut self, sets: &[SetId]) -> Result<bool> {
        for (i, rivals) in self.rivals(sets, sets)?.into_iter().enumerate() {
            for j in rivals.into_iter().filter(|j| *j < i) {
                if !self.is_apart(sets[i], sets[j])? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Keys that neither have one of these names nor are looked at by a branch that holds have values of the term.
    fn unseen_keys(&mut self, term: Term, seen: F, branches: &[Branch]) -> F {
        let mut parts = Vec::new();
        let names: BTreeSet<String> =
            branches.iter().flat_map(|branch| branch.names.iter().cloned()).collect();
        for name in &names {
            if !self.sets.strings.has(seen, name) {
                let own = self.sets.keys.atom(Key::If(Rc::from(name.as_str()), term));
                let looking = branches.iter().filter(|branch| branch.names.contains(name));
                parts.push(
                    self.sets.keys.any(std::iter::once(own).chain(looking.map(|branch| branch.objects))),
                );
            }
        }
        let names = self.sets.strings.texts(names);
        let all = self.sets.strings.or(seen, names);
        let others = self.sets.strings.not(all);
        if others != FALSE {
            parts.push(self.sets.keys.atom(Key::Every(others, term)));
        }
        self.sets.keys.all(parts)
    }

    /// The ways to satisfy what a schema says in place.
    ///
    /// A schema that needs itself in place has none by which that would end, as in [`Reader::read`].
    fn ways(&mut self, id: Id, scope: Scope, asks: Asks) -> Result<Vec<Way>> {
        self.arena.budget.spend(1)?;
        let scope = self.enter(scope, self.arena[id].resource);
        if self.looking.contains(&(id, scope)) {
            return Ok(Vec::new());
        }
        self.looking.push((id, scope));
        let ways = self.deeper(id, |reader| reader.ways_of(id, scope, asks))?;
        self.looking.pop();
        Ok(ways)
    }

    fn ways_of(&mut self, id: Id, scope: Scope, asks: Asks) -> Result<Vec<Way>> {
        let mut ways = vec![(ALL, self.seen(id, scope, asks != Asks::Elsewhere)?)];
        for keyword in
            ["$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"]
        {
            let there = self.arena[id].map().is_some_and(|map| map.contains_key(keyword));
            let is_done = keyword == "anyOf" && asks == Asks::BesideAnyOf;
            if !there || is_done || !self.arena[id].draft.knows(keyword) {
                continue;
            }
            let parts: Vec<(String, Id)> =
                self.arena.inside(id, keyword).iter().map(|(n, part)| ((*n).to_owned(), *part)).collect();
            match keyword {
                "$ref" => {
                    if let Some(Target::Here(target)) = self.arena[id].reference {
                        let more = self.ways(target, scope, Asks::Elsewhere)?;
                        ways = self.both(id, ways, &more)?;
                    }
                }
                "$dynamicRef" | "$recursiveRef" => {
                    if let Some(target) = self.dynamic_target(id, scope) {
                        let more = self.ways(target, scope, Asks::Elsewhere)?;
                        ways = self.both(id, ways, &more)?;
                    }
                }
                "allOf" => {
                    for (_, part) in parts {
                        let more = self.ways(part, scope, Asks::Elsewhere)?;
                        ways = self.both(id, ways, &more)?;
                    }
                }
                "anyOf" | "oneOf" => {
                    let more = self.choices(id, scope, &parts, keyword == "anyOf")?;
                    ways = self.both(id, ways, &more)?;
                }
                "if" => {
                    let more = self.conditions(id, scope)?;
                    ways = self.both(id, ways, &more)?;
                }
                _ => {
                    for (name, part) in parts {
                        let more = self.dependents(&name, part, scope)?;
                        ways = self.both(id, ways, &more)?;
                    }
                }
            }
        }
        Ok(ways)
    }

    /// What the schema's own keywords look at; `own`: it is the one that asks.
    fn seen(&mut self, id: Id, scope: Scope, own: bool) -> Result<Seen> {
        let Some(map) = self.arena[id].map() else { return Ok(UNSEEN) };
        let has = |keyword: &str| map.contains_key(keyword);
        let names = if has("additionalProperties") || (!own && has("unevaluatedProperties")) {
            TRUE
        } else {
            self.described(id)?
        };
        let tuple = map.get("items").is_some_and(serde_json::Value::is_array);
        let before = self.arena.inside(id, if tuple { "items" } else { "prefixItems" }).len() as u32;
        let rest = if tuple { has("additionalItems") } else { has("items") };
        let all = rest || (!own && has("unevaluatedItems"));
        let contains = self.arena.one(id, "contains").filter(|_| self.arena[id].draft >= Draft::D2020);
        let kinds = contains.map(|part| self.schema(part, scope)).into_iter().collect();
        Ok(Seen { names, items: if all { u32::MAX } else { before }, kinds })
    }

    /// Some of the branches hold: one, or (`several`) more.
    fn choices(&mut self, id: Id, scope: Scope, parts: &[(String, Id)], several: bool) -> Result<Vec<Way>> {
        let mut all: Vec<Way> = Vec::new();
        let sets = parts.iter().map(|(_, part)| self.branch(*part, scope)).collect::<Result<Vec<_>>>()?;
        let rivals = if several { self.rivals(&sets, &sets)? } else { vec![Vec::new(); sets.len()] };
        for (i, ((_, part), set)) in parts.iter().zip(sets).enumerate() {
            let mut own = Vec::new();
            for (inner, seen) in self.ways(*part, scope, Asks::Elsewhere)? {
                own.push((self.and(set, inner)?, seen));
            }
            let mut beside = Vec::new();
            let may_overlap = rivals[i].iter().any(|j| *j < i);
            for way in all.iter().filter(|_| may_overlap) {
                if !self.is_apart(way.0, set)? {
                    beside.push(way.clone());
                }
            }
            let mut more = self.both(id, beside, &own)?;
            more.extend(own);
            for way in more {
                self.include(&mut all, way)?;
            }
        }
        Ok(all)
    }

    fn conditions(&mut self, id: Id, scope: Scope) -> Result<Vec<Way>> {
        let Some(part) = self.arena.one(id, "if") else { return Ok(vec![(ALL, UNSEEN)]) };
        self.negations += 1;
        let condition = self.read(part, scope);
        self.negations -= 1;
        let (condition, mut met) = (condition?, self.ways(part, scope, Asks::Elsewhere)?);
        let not = self.not(condition)?;
        let mut unmet = vec![(not, UNSEEN)];
        met = self.both(id, met, &[(condition, UNSEEN)])?;
        if let Some(then) = self.arena.one(id, "then") {
            let more = self.ways(then, scope, Asks::Elsewhere)?;
            met = self.both(id, met, &more)?;
        }
        if let Some(otherwise) = self.arena.one(id, "else") {
            let more = self.ways(otherwise, scope, Asks::Elsewhere)?;
            unmet = self.both(id, unmet, &more)?;
        }
        met.extend(unmet);
        Ok(met)
    }

    fn dependents(&mut self, name: &str, part: Id, scope: Scope) -> Result<Vec<Way>> {
        let there = self.sets.keys.atom(Key::Has(Rc::from(name), TRUE));
        let absent = self.sets.keys.atom(Key::If(Rc::from(name), FALSE));
        // It says nothing of what is no object.
        let there = self.sets.add(Set { objects: there, ..Set::none() });
        let absent = self.sets.add(Set { objects: absent, ..Set::all() });
        let ways = self.ways(part, scope, Asks::Elsewhere)?;
        let mut ways = self.both(part, ways, &[(there, UNSEEN)])?;
        ways.push((absent, UNSEEN));
        Ok(ways)
    }

    /// Each way of the one together with each of the other.
    fn both(&mut self, id: Id, a: Vec<Way>, b: &[Way]) -> Result<Vec<Way>> {
        let mut all = Vec::new();
        for (set, seen) in &a {
            for (other, more) in b {
                let names = self.sets.strings.or(seen.names, more.names);
                let mut kinds = seen.kinds.clone();
                kinds.extend(more.kinds.iter().filter(|k| !seen.kinds.contains(k)));
                let seen = Seen { names, items: seen.items.max(more.items), kinds };
                let way = (self.and(*set, *other)?, seen);
                self.include(&mut all, way)?;
            }
        }
        if all.len() > MAX_WAYS {
            let why = "too many ways to satisfy the schema: say it with additionalProperties in each branch";
            return Err(refuse(&self.arena[id].pointer, "unevaluatedProperties", why));
        }
        Ok(all)
    }

    /// Ways that look at the same are one.
    fn include(&mut self, all: &mut Vec<Way>, (set, seen): Way) -> Result<()> {
        match all.iter().position(|(_, s)| *s == seen) {
            Some(at) => all[at].0 = self.or(all[at].0, set)?,
            None => all.push((set, seen)),
        }
        Ok(())
    }
}
