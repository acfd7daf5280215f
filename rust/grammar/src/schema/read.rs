//! Reads schemas as sets of values.

use super::arena::{Arena, Dynamic, Id, ROOT};
use super::keywords::{self, Draft, Types, types_of};
use super::refuse;
use super::set::{ALL, Leaf, NONE, Scope, Set, SetId, Sets, Term};
use crate::config::GrammarConfig;
use crate::error::Result;
use crate::sets::logic::{FALSE, Node, TRUE};
use crate::written::decimal;
use ahash::AHashMap;
use serde_json::Value;

/// A schema, and the dynamic scope in which it is read.
pub(super) type At = (Id, Scope);

/// What a grammar stands in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    /// Whether a filter beside the grammar tells items apart.
    pub(super) filters: bool,
    /// White space, where there may be some.
    pub(super) space: Option<&'a str>,
}

/// Reads the schemas of a document, each once.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) arena: &'a Arena<'a>,
    pub(super) config: &'a GrammarConfig,
    pub(super) sets: Sets,
    pub(super) setting: Setting<'a>,
    /// A keyword that is left out, to find out what is at fault.
    pub(super) without: Option<(Id, &'a str)>,
    /// The values of schemas and terms.
    known: AHashMap<At, SetId>,
    terms: AHashMap<Term, SetId>,
    /// Schemas that are being read, and in how many complements each stands.
    open: Vec<(At, usize)>,
    /// How many steps into schemas have been taken and not left: each takes a part of the compiling thread's stack.
    depth: usize,
    /// The schemas whose ways are being looked for (see `evaluated`).
    pub(super) looking: Vec<(Id, Scope)>,
    /// Whether that is done for objects alone.
    pub(super) of_objects: bool,
    pub(super) negations: usize,
    /// Whether it is only tried whether sets have something in common.
    pub(super) probing: usize,
    /// The outermost schema being read that something in it led back to: what was read since then depends on it.
    pub(super) cut: usize,
    /// What dynamic references mean, by the resources that led to a schema: the outermost that has the name says it.
    scopes: Vec<Dynamic<'a>>,
    /// How much had been paid for.
    paid: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(arena: &'a Arena<'a>, config: &'a GrammarConfig, setting: Setting<'a>) -> Self {
        Reader {
            arena,
            config,
            sets: Sets::new(),
            setting,
            without: None,
            known: AHashMap::new(),
            terms: AHashMap::new(),
            open: Vec::new(),
            depth: 0,
            looking: Vec::new(),
            of_objects: false,
            negations: 0,
            probing: 0,
            cut: usize::MAX,
            scopes: vec![arena.dynamic(arena[ROOT].resource).cloned().unwrap_or_default()],
            paid: 0,
        }
    }

    /// The term for a schema.
    pub(super) fn schema(&mut self, id: Id, scope: Scope) -> Term {
        match self.arena[id].value {
            Value::Bool(true) => TRUE,
            Value::Bool(false) => FALSE,
            Value::Object(map) if map.is_empty() => TRUE,
            _ => self.sets.terms.atom(Leaf::Schema(id, scope, true)),
        }
    }

    /// The values of a term.
    ///
    /// # Errors
    /// What a schema in it asks for and cannot be enforced; where the budget is spent.
    pub(super) fn set_of(&mut self, term: Term) -> Result<SetId> {
        if let Some(known) = self.terms.get(&term) {
            return Ok(*known);
        }
        let set = match self.sets.terms.node(term).clone() {
            Node::All(parts) => parts.iter().try_fold(ALL, |all, part| {
                let part = self.set_of(*part)?;
                self.and(all, part)
            })?,
            Node::Any(parts) => parts.iter().try_fold(NONE, |any, part| {
                let part = self.set_of(*part)?;
                self.or(any, part)
            })?,
            Node::Atom(Leaf::Set(set)) => set,
            Node::Atom(Leaf::Schema(id, scope, yes)) => {
                self.negations += usize::from(!yes);
                let set = self.read(id, scope)?;
                self.negations -= usize::from(!yes);
                if yes { set } else { self.not(set)? }
            }
        };
        if self.cut == usize::MAX {
            self.terms.insert(term, set);
        }
        Ok(set)
    }

    pub(super) fn and(&mut self, a: SetId, b: SetId) -> Result<SetId> {
        self.pay(a, b)?;
        Ok(self.sets.and(a, b))
    }

    pub(super) fn or(&mut self, a: SetId, b: SetId) -> Result<SetId> {
        self.pay(a, b)?;
        Ok(self.sets.or(a, b))
    }

    pub(super) fn not(&mut self, set: SetId) -> Result<SetId> {
        self.pay(set, set)?;
        Ok(self.sets.not(set))
    }

    /// Takes from the budget what the sets cost so far, and what comparing two will.
    pub(super) fn pay(&mut self, a: SetId, b: SetId) -> Result<()> {
        let grown = self.sets.len() - self.paid;
        self.paid = self.sets.len();
        let (a, b) = (self.sets.get(a), self.sets.get(b));
        let cells = a.whole.len().max(1) * b.whole.len().max(1) + a.fraction.len() * b.fraction.len();
        let texts =
            [a, b].map(|set| self.sets.strings.listed(set.strings.under.0).map_or(0, |list| list.len()));
        self.arena.budget.spend(grown + cells + texts[0] + texts[1])
    }

    /// The values that a schema accepts.
    pub(super) fn read(&mut self, id: Id, scope: Scope) -> Result<SetId> {
        let scope = self.enter(scope, self.arena[id].resource);
        if let Some(known) = self.known.get(&(id, scope)) {
            return Ok(*known);
        }
        if let Some(at) = self.open.iter().position(|(open, _)| *open == (id, scope)) {
            if self.open[at].1 != self.negations && self.probing == 0 {
                let why = "the schema says the opposite of itself: leave one of the references out";
                return Err(refuse(&self.arena[id].pointer, "$ref", why));
            }
            // Nothing finite comes from a schema that needs itself.
            self.cut = self.cut.min(at);
            return Ok(NONE);
        }
        let at = self.open.len();
        self.open.push(((id, scope), self.negations));
        let set = self.deeper(id, |reader| reader.keywords(id, scope))?;
        self.open.pop();
        if self.cut >= at {
            self.cut = usize::MAX;
            self.known.insert((id, scope), set);
        }
        Ok(set)
    }

    fn keywords(&mut self, id: Id, scope: Scope) -> Result<SetId> {
        let node = &self.arena[id];
        let map = match node.value {
            Value::Object(map) => map,
            Value::Bool(all) => return Ok(if *all { ALL } else { NONE }),
            _ => return Err(refuse(&node.pointer, "schema", "a schema is an object or a boolean")),
        };
        // The old drafts ignore what stands beside a reference.
        if map.contains_key("$ref") && node.draft <= Draft::D7 && self.without.is_none() {
            return self.reference((id, scope), "$ref");
        }
        let Some(types) = Types::of(map, node.draft) else {
            let meant = map["type"].as_str().and_then(keywords::meant);
            let hint = meant.map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"));
            let why = format!("{} is not a type or a list of types{hint}", map["type"]);
            return Err(refuse(&node.pointer, "type", why));
        };
        let types = if self.without == Some((id, "type")) { Types::ALL } else { types };
        let mut set = self.sets.add(Set::of(types));
        let rest = self.evaluated(id, scope)?;
        // Keys that are only required come after those that are described.
        let names = || map.keys().map(String::as_str);
        let order = names().filter(|k| *k != "required").chain(names().filter(|k| *k == "required"));
        for keyword in order.filter(|k| node.draft.knows(k)) {
            self.arena.budget.spend(1)?;
            if self.without == Some((id, keyword)) {
                continue;
            }
            if let Some(must) = keywords::misfit(keyword, &map[keyword]) {
                return Err(refuse(&node.pointer, keyword, must));
            }
            if let Some(mut part) = self.keyword((id, scope), keyword, types)? {
                if keyword == "anyOf" && rest.is_some_and(|(_, has_branches)| has_branches) {
                    part = self.sets.add(Set { objects: TRUE, ..Set::clone(&self.sets.get(part)) });
                }
                set = self.and(set, part)?;
            }
        }
        rest.map_or(Ok(set), |(rest, _)| self.and(set, rest))
    }

    /// Whether the keyword is there and says anything.
    pub(super) fn restricts(&self, id: Id, keyword: &str) -> bool {
        let node = &self.arena[id];
        let says = node.value.get(keyword).is_some_and(|value| *value != Value::Bool(true));
        says && node.draft.knows(keyword) && self.without != Some((id, keyword))
    }

    /// What the keyword allows; None where it has no effect on values of these types.
    fn keyword(&mut self, at: At, keyword: &str, types: Types) -> Result<Option<SetId>> {
        let value = &self.arena[at.0].value[keyword];
        let set = match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => return self.reference(at, keyword).map(Some),
            "allOf" | "anyOf" | "oneOf" | "not" | "if" => return self.in_place(at, keyword).map(Some),
            "const" | "enum" => return self.constants(at.0, keyword, value).map(Some),
            _ => match types_of(keyword) {
                own if !own.meets(types) => return Ok(None),
                Types::NUMBER => self.numeric(at.0, keyword, value)?,
                Types::STRING => Set { strings: self.textual(at.0, keyword, value)?, ..Set::all() },
                Types::ARRAY => Set { arrays: self.of_arrays(at, keyword, value)?, ..Set::all() },
                _ => Set { objects: self.of_objects(at, keyword, value)?, ..Set::all() },
            },
        };
        Ok(Some(self.sets.add(set)))
    }

    fn constants(&mut self, id: Id, keyword: &str, value: &Value) -> Result<SetId> {
        let list = match value {
            Value::Array(list) if keyword == "enum" => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        self.arena.budget.spend(list.len())?;
        if list.len() > MAX_ENUM {
            return self.wrong(id, keyword, format!("more than {MAX_ENUM} entries"));
        }
        self.sets.values(list).map_or_else(|| self.wrong(id, keyword, decimal::TOO_LONG), Ok)
    }

    fn reference(&mut self, (id, scope): At, keyword: &str) -> Result<SetId> {
        let broken = self.arena[id].broken.as_deref().unwrap_or("is not a text");
        let (target, keyword, why) = match keyword {
            "$ref" => (self.arena.one(id, keyword), keyword, broken),
            _ => (self.dynamic_target(id, scope), "$dynamicRef", "leads nowhere in this document"),
        };
        match target {
            Some(target) => self.read(target, scope),
            None => self.wrong(id, keyword, why),
        }
    }

    /// A step into a schema; an error where too many stand in each other.
    pub(super) fn deeper<T>(&mut self, id: Id, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth > MAX_CHAIN {
            let why = format!("a chain of more than {MAX_CHAIN} schemas that refer to or contain the next");
            return Err(refuse(&self.arena[id].pointer, "$ref", why));
        }
        self.depth += 1;
        let result = step(self);
        self.depth -= 1;
        result
    }

    /// What `$dynamicRef` or `$recursiveRef` means here: the outermost schema of that name on the way to it.
    pub(super) fn dynamic_target(&self, id: Id, scope: Scope) -> Option<Id> {
        let text = self.arena[id].text("$dynamicRef");
        let keyword = if text.is_some() { "$dynamicRef" } else { "$recursiveRef" };
        let target = self.arena.one(id, keyword)?;
        let name = text.map_or("", |text| text.rsplit_once('#').map_or("", |(_, name)| name));
        let named = (text.is_none() || !(name.is_empty() || name.starts_with('/')))
            && self.arena.dynamic(self.arena[target].resource).and_then(|d| d.get(name)) == Some(&target);
        let outermost = self.scopes[scope].get(name).filter(|_| named);
        Some(*outermost.unwrap_or(&target))
    }

    /// The scope after a step into a resource.
    pub(super) fn enter(&mut self, scope: Scope, resource: usize) -> Scope {
        let Some(own) = self.arena.dynamic(resource).filter(|_| self.arena.is_dynamic) else { return scope };
        if own.keys().all(|name| self.scopes[scope].contains_key(name)) {
            return scope;
        }
        let mut next = own.clone();
        next.extend(&self.scopes[scope]);
        if let Some(known) = self.scopes.iter().position(|s| *s == next) {
            return known;
        }
        self.scopes.push(next);
        self.scopes.len() - 1
    }
}

/// Longest chain of schemas.
const MAX_CHAIN: usize = 1_000;
/// 40,000 take 0.23 s.
const MAX_ENUM: usize = 50_000;
