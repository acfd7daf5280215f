//! `unevaluatedProperties` and `unevaluatedItems`: what no other keyword of the schema has looked at.
//!
//! Which keywords have looked depends on which branches hold, so the ways to satisfy the schema are gone through. A branch
//! that need not hold and does would only have looked at more, so each way may leave open what the other branches do.
//!
//! The ways through the branches of an `anyOf` would be as many as they have subsets. Where they name the keys that they look at, each
//! of these names is a condition of its own instead: it is evaluated, or one of the branches that look at it holds.

use super::arena::Id;
use super::keywords::Draft;
use super::read::{At, Reader};
use super::refuse;
use super::set::{ALL, Key, NONE, Scope, Set, SetId, Term};
use crate::error::Result;
use crate::sets::logic::{F, FALSE, TRUE};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Most ways that are gone through.
const MAX_WAYS: usize = 256;

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

/// A way to satisfy a branch of `anyOf`: the objects that do, and the names of the keys that the branch evaluates.
type Branch = (F, Rc<BTreeSet<String>>);

/// Keywords whose schemas look at the same value.
const IN_PLACE: [&str; 8] =
    ["$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"];

const UNSEEN: Seen = Seen { names: FALSE, items: 0, kinds: Vec::new() };

impl Reader<'_> {
    /// What the two keywords of the schema allow, and whether each of its objects satisfies a branch of the schema's `anyOf`;
    /// None where neither is there.
    pub(super) fn evaluated(&mut self, id: Id, scope: Scope) -> Result<Option<(SetId, bool)>> {
        if !["unevaluatedProperties", "unevaluatedItems"].iter().any(|keyword| self.restricts(id, keyword)) {
            return Ok(None);
        }
        let of_objects = !self.restricts(id, "unevaluatedItems");
        // What another schema looks for is its own affair: a schema that it stands in may be looked through again.
        let outer = (std::mem::take(&mut self.looking), std::mem::replace(&mut self.of_objects, of_objects));
        let branches = self.named_branches(id, scope)?;
        // What such branches look at is a matter of conditions on names, below.
        let keywords = IN_PLACE.into_iter().filter(|keyword| *keyword != "anyOf" || branches.is_none());
        self.looking.push((id, scope));
        let seen = self.seen(id, scope, true)?;
        let ways = self.ways_beside(seen, (id, scope), keywords)?;
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
                arrays = if seen.items == u32::MAX { TRUE } else { self.items_from(seen.items, term) };
            }
            let rest = self.sets.add(Set { arrays, objects, ..Set::all() });
            let way = self.and(set, rest)?;
            any = self.or(any, way)?;
        }
        Ok(Some((any, has_branches)))
    }

    /// The branches of the schema's `anyOf` for which keys are told apart by name; None where that cannot be done.
    fn named_branches(&mut self, id: Id, scope: Scope) -> Result<Option<Vec<Branch>>> {
        if !self.of_objects || !self.arena[id].draft.knows("anyOf") {
            return Ok(None);
        }
        let parts = self.arena.inside(id, "anyOf");
        let sets = parts.iter().map(|(_, part)| self.branch(*part, scope)).collect::<Result<Vec<_>>>()?;
        if !self.overlap(&sets)? {
            return Ok(None);
        }
        let mut branches = Vec::new();
        for ((_, part), own) in parts.iter().zip(sets) {
            for (set, seen) in self.ways(*part, scope)? {
                let Some(names) = self.sets.strings.listed(seen.names) else {
                    if seen.names == FALSE {
                        continue;
                    }
                    return Ok(None);
                };
                let both = self.and(own, set)?;
                branches.push((self.sets.get(both).objects, names));
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
        let names: BTreeSet<String> = branches.iter().flat_map(|(_, names)| names.iter().cloned()).collect();
        for name in &names {
            if !self.sets.strings.has(seen, name) {
                let own = self.sets.keys.atom(Key::If(Rc::from(name.as_str()), term));
                let looking = branches.iter().filter(|(_, names)| names.contains(name));
                let looking = looking.map(|(objects, _)| *objects);
                parts.push(self.sets.keys.any([own].into_iter().chain(looking)));
            }
        }
        let names = self.sets.strings.texts(names);
        let all = self.sets.strings.or(seen, names);
        let others = self.sets.strings.not(all);
        if others != FALSE {
            parts.push(self.sets.keys.atom(Key::Every(others.into(), term)));
        }
        self.sets.keys.all(parts)
    }

    /// The ways to satisfy what a schema says in place.
    ///
    /// A schema that needs itself in place has none by which that would end, as in [`Reader::read`].
    fn ways(&mut self, id: Id, scope: Scope) -> Result<Vec<Way>> {
        self.arena.budget.spend(1)?;
        let scope = self.enter(scope, self.arena[id].resource);
        if self.looking.contains(&(id, scope)) {
            return Ok(Vec::new());
        }
        self.looking.push((id, scope));
        let ways = self.deeper(id, |reader| {
            let seen = reader.seen(id, scope, false)?;
            reader.ways_beside(seen, (id, scope), IN_PLACE)
        })?;
        self.looking.pop();
        Ok(ways)
    }

    /// The ways to satisfy what stands under these keywords of a schema whose others look at `seen`.
    fn ways_beside(
        &mut self,
        seen: Seen,
        (id, scope): At,
        keywords: impl IntoIterator<Item = &'static str>,
    ) -> Result<Vec<Way>> {
        let mut ways = vec![(ALL, seen)];
        let node = &self.arena[id];
        for keyword in keywords {
            if node.value.get(keyword).is_none() || !node.draft.knows(keyword) {
                continue;
            }
            let parts = self.arena.inside(id, keyword);
            let all: Vec<Vec<Way>> = match keyword {
                "anyOf" | "oneOf" => vec![self.choices(id, scope, keyword == "anyOf")?],
                "if" => vec![self.conditions(id, scope)?],
                "dependentSchemas" => {
                    let dependents = parts.iter().map(|(name, part)| self.dependents(name, *part, scope));
                    dependents.collect::<Result<_>>()?
                }
                "$dynamicRef" | "$recursiveRef" => {
                    let target = self.dynamic_target(id, scope).into_iter();
                    target.map(|target| self.ways(target, scope)).collect::<Result<_>>()?
                }
                _ => parts.iter().map(|(_, part)| self.ways(*part, scope)).collect::<Result<_>>()?,
            };
            for more in all {
                ways = self.both(id, &ways, &more)?;
            }
        }
        Ok(ways)
    }

    /// What the schema's own keywords look at; `own`: it is the one that asks.
    fn seen(&mut self, id: Id, scope: Scope, own: bool) -> Result<Seen> {
        let schema = self.arena[id].value;
        let has = |keyword: &str| schema.get(keyword).is_some();
        let names = if has("additionalProperties") || (!own && has("unevaluatedProperties")) {
            TRUE
        } else {
            self.described(id)?
        };
        let tuple = schema.get("items").is_some_and(serde_json::Value::is_array);
        let before = self.arena.inside(id, if tuple { "items" } else { "prefixItems" }).len() as u32;
        let rest = if tuple { has("additionalItems") } else { has("items") };
        let all = rest || (!own && has("unevaluatedItems"));
        let contains = self.arena.one(id, "contains").filter(|_| self.arena[id].draft >= Draft::D2020);
        let kinds = contains.map(|part| self.schema(part, scope)).into_iter().collect();
        Ok(Seen { names, items: if all { u32::MAX } else { before }, kinds })
    }

    /// Some of the branches hold: one, or (`several`, as in `anyOf`) more.
    fn choices(&mut self, id: Id, scope: Scope, several: bool) -> Result<Vec<Way>> {
        let mut all: Vec<Way> = Vec::new();
        let parts = self.arena.inside(id, if several { "anyOf" } else { "oneOf" });
        let sets = parts.iter().map(|(_, part)| self.branch(*part, scope)).collect::<Result<Vec<_>>>()?;
        let rivals = if several { self.rivals(&sets, &sets)? } else { vec![Vec::new(); sets.len()] };
        for (i, ((_, part), set)) in parts.iter().zip(sets).enumerate() {
            let mut own = Vec::new();
            for (inner, seen) in self.ways(*part, scope)? {
                own.push((self.and(set, inner)?, seen));
            }
            let mut beside = Vec::new();
            let may_overlap = rivals[i].iter().any(|j| *j < i);
            for way in all.iter().filter(|_| may_overlap) {
                if !self.is_apart(way.0, set)? {
                    beside.push(way.clone());
                }
            }
            let mut more = self.both(id, &beside, &own)?;
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
        let (condition, met) = (condition?, self.ways(part, scope)?);
        let not = self.not(condition)?;
        let (mut met, mut unmet) = (self.both(id, &met, &[(condition, UNSEEN)])?, vec![(not, UNSEEN)]);
        for (keyword, ways) in [("then", &mut met), ("else", &mut unmet)] {
            if let Some(part) = self.arena.one(id, keyword) {
                let more = self.ways(part, scope)?;
                *ways = self.both(id, ways, &more)?;
            }
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
        let ways = self.ways(part, scope)?;
        let mut ways = self.both(part, &ways, &[(there, UNSEEN)])?;
        ways.push((absent, UNSEEN));
        Ok(ways)
    }

    /// Each way of the one together with each of the other.
    fn both(&mut self, id: Id, a: &[Way], b: &[Way]) -> Result<Vec<Way>> {
        let mut all = Vec::new();
        for (set, seen) in a {
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
