//! Walks everything that a schema can reach, refuses what cannot be enforced, and notes what must be rewritten.

use super::arena::{Arena, Id, ROOT, Target};
use super::disjoint::Proof;
use super::edits::{Change, Edit};
use super::escapes::Escapes;
use super::keywords::{Draft, FORMATS, IN_PLACE, Types, UNIMPLEMENTED, WALKED, has_no_effect, step};
use super::{caps, live, pattern, refuse};
use crate::config::{GrammarConfig, UnknownFormat};
use crate::error::Result;
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// Longest chain of references: each takes a part of the compiling thread's stack.
const MAX_CHAIN: usize = 1_000;

/// Keywords that llguidance reads together, and reads wrong where another keyword such as `anyOf` stands between them.
const TOGETHER: [&[&str]; 4] = [
    &["properties", "patternProperties", "additionalProperties"],
    &["items", "prefixItems", "additionalItems"],
    &["minimum", "exclusiveMinimum"],
    &["maximum", "exclusiveMaximum"],
];

/// Whole numbers that may be written with a decimal point.
const COUNTS: [&str; 6] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];

const INEXACT: &str = "has an integer with more digits than a 64-bit float holds";

struct Visit {
    id: Id,
    draft: Draft,
    chain: usize,
}

struct Walk<'a> {
    arena: &'a Arena<'a>,
    /// Which branches exclude each other.
    proof: Proof<'a>,
    config: &'a GrammarConfig,
    edits: Vec<Edit>,
    escapes: Escapes,
}

/// What a walk finds out.
pub(super) struct Walked {
    pub(super) edits: Vec<Edit>,
    /// Letters that strings may have after a backslash.
    pub(super) escapes: &'static str,
    /// The sum of all divisors, as [`caps`] counts them.
    pub(super) divisors: f64,
}

/// The changes that make the schema ready for llguidance, and the escapes that its strings may use.
///
/// # Errors
/// The first schema, in document order, that cannot be enforced.
pub(super) fn walk(arena: &Arena<'_>, config: &GrammarConfig) -> Result<Walked> {
    let proof = Proof::new(arena);
    let mut walk = Walk { arena, proof, config, edits: Vec::new(), escapes: Escapes::default() };
    let (mut seen, mut reached) = (vec![false; arena.ids().len()], Vec::new());
    let mut line = vec![Visit { id: ROOT, draft: Draft::D2020, chain: 0 }];
    while let Some(visit) = line.pop() {
        if !std::mem::replace(&mut seen[visit.id], true) {
            arena.budget.spend(1)?;
            reached.push(visit.id);
            let mut next = walk.visit(&visit)?;
            next.reverse();
            line.append(&mut next);
        }
    }
    let divisors = caps::together(arena, &reached)?;
    for id in live::dead_references(arena, &reached)? {
        // Nothing satisfies an empty choice: what is optional is then left out, and what is not is refused.
        walk.edit(&arena[id].pointer, Change::Drop("$ref"));
        walk.edit(&arena[id].pointer, Change::Set("anyOf".to_owned(), Value::Array(Vec::new())));
    }
    Ok(Walked { edits: walk.edits, escapes: walk.escapes.letters()?, divisors })
}

impl Walk<'_> {
    /// Judges one schema; returns those that it leads to.
    fn visit(&mut self, visit: &Visit) -> Result<Vec<Visit>> {
        let (arena, id) = (self.arena, visit.id);
        let at = &arena[id].pointer;
        let map = match arena[id].value {
            Value::Object(map) => map,
            Value::Bool(all) => {
                if *all {
                    self.escapes.see(at, &Map::new(), Types::ALL);
                }
                return Ok(Vec::new());
            }
            _ => return Err(refuse(at, "schema", "a schema is an object or a boolean")),
        };
        let draft = Draft::of(arena[id].value, visit.draft);
        let Some(types) = Types::of(map) else {
            return Err(refuse(at, "type", format!("{} is not a type or a list of types", map["type"])));
        };
        self.keywords(id, map, draft, types)?;
        self.patterns(at, map, types)?;
        self.escapes.see(at, map, types);
        self.rewrites(id, map, draft)?;
        let mut next = Vec::new();
        for (keyword, value) in map {
            if keyword == "$ref" {
                next.extend(self.reference(visit, draft, value)?);
            } else if WALKED.contains(&keyword.as_str()) && is_read(keyword, map, draft, types) {
                let inside = arena.inside(id, keyword).iter();
                next.extend(inside.map(|(_, id)| Visit { id: *id, draft, chain: visit.chain }));
            }
        }
        Ok(next)
    }

    fn keywords(&mut self, id: Id, map: &Map<String, Value>, draft: Draft, types: Types) -> Result<()> {
        let at = &self.arena[id].pointer;
        for keyword in UNIMPLEMENTED.iter().filter(|k| map.contains_key(**k) && draft.knows(k)) {
            let anchor = *keyword == "$dynamicAnchor" && !self.arena.dynamic;
            if !(anchor || has_no_effect(keyword, map, types)) || self.arena.lead_into(id, keyword)? {
                match self.other_form(id, keyword, map, draft)? {
                    Some(change) => self.edit(at, change),
                    None => return Err(refuse(at, keyword, "this keyword cannot be enforced")),
                }
            } else {
                self.edit(at, Change::Drop(keyword));
            }
        }
        if let Some(format) = map.get("format").filter(|_| types.meets(Types::STRING)) {
            let known = format.as_str().is_some_and(|f| FORMATS.contains(&f));
            if !known && self.config.unknown_format == UnknownFormat::Refuse {
                let why = format!("{format} cannot be enforced; enforced are {}", FORMATS.join(", "));
                return Err(refuse(at, "format", why));
            }
            if !known {
                self.edit(at, Change::Drop("format"));
            }
        }
        exact_numbers(at, map, types)
    }

    /// An implemented keyword that means the same here.
    fn other_form(
        &self,
        id: Id,
        keyword: &str,
        map: &Map<String, Value>,
        draft: Draft,
    ) -> Result<Option<Change>> {
        let alone = !map
            .keys()
            .any(|k| IN_PLACE.contains(&k.as_str()) || (UNIMPLEMENTED.contains(&k.as_str()) && k != keyword));
        if !alone || self.arena.lead_into(id, keyword)? {
            return Ok(None);
        }
        Ok(match keyword {
            "unevaluatedProperties" => Some(Change::rename("unevaluatedProperties", "additionalProperties")),
            "unevaluatedItems" if draft == Draft::D2020 && !map.contains_key("items") => {
                Some(Change::rename("unevaluatedItems", "items"))
            }
            _ => None,
        })
    }

    fn rewrites(&mut self, id: Id, map: &Map<String, Value>, draft: Draft) -> Result<()> {
        let at = &self.arena[id].pointer;
        if map.contains_key("oneOf") && !self.arena.lead_into(id, "oneOf")? && self.proof.branches(id)? {
            let own = map.contains_key("anyOf");
            self.edit(at, if own { Change::OneOfWithin } else { Change::rename("oneOf", "anyOf") });
        }
        for key in COUNTS {
            if let Some(n) = map.get(key).filter(|v| v.is_f64()).and_then(Value::as_f64)
                && n.fract() == 0.0
                && (0.0..=1e15).contains(&n)
            {
                self.edit(at, Change::Set(key.to_owned(), Value::from(n as u64)));
            }
        }
        // Newer drafts have no `additionalItems`; llguidance would then not read `prefixItems`.
        if draft == Draft::D2020
            && map.contains_key("additionalItems")
            && !map.get("items").is_some_and(Value::is_array)
            && !self.arena.lead_into(id, "additionalItems")?
        {
            self.edit(at, Change::Drop("additionalItems"));
        }
        for group in TOGETHER {
            if map.keys().filter(|k| group.contains(&k.as_str())).nth(1).is_some() {
                self.edit(at, Change::Gather(group));
            }
        }
        Ok(())
    }

    fn patterns(&mut self, at: &str, map: &Map<String, Value>, types: Types) -> Result<()> {
        if let Some(text) = map.get("pattern").and_then(Value::as_str).filter(|_| types.meets(Types::STRING))
        {
            let ready = pattern::for_engine(text).map_err(|why| refuse(at, "pattern", why))?;
            if ready != text {
                self.edit(at, Change::Set("pattern".to_owned(), Value::from(ready)));
            }
        }
        let format = map.get("format").and_then(Value::as_str).filter(|_| types.meets(Types::STRING));
        if let Some(exact) = format.and_then(pattern::for_format) {
            self.edit(at, Change::Match(exact));
        }
        let names =
            map.get("patternProperties").and_then(Value::as_object).filter(|_| types.meets(Types::OBJECT));
        for name in names.into_iter().flatten().map(|(name, _)| name) {
            let ready = pattern::for_engine(name).map_err(|why| refuse(at, "patternProperties", why))?;
            if ready != *name {
                self.edit(&step(at, "patternProperties"), Change::Rename(name.clone(), ready));
            }
        }
        Ok(())
    }

    fn reference(&self, visit: &Visit, draft: Draft, value: &Value) -> Result<Option<Visit>> {
        let refuse = |why: String| Err(refuse(&self.arena[visit.id].pointer, "$ref", why));
        if visit.chain >= MAX_CHAIN {
            return refuse(format!("a chain of more than {MAX_CHAIN} references"));
        }
        match self.arena[visit.id].reference {
            None => refuse("is not a text".to_owned()),
            Some(Target::Here(id)) => Ok(Some(Visit { id, draft, chain: visit.chain + 1 })),
            Some(Target::Missing) => refuse(format!("{} leads nowhere", value.as_str().unwrap_or_default())),
            Some(Target::Elsewhere) => Ok(None),
        }
    }

    fn edit(&mut self, at: &str, change: Change) {
        self.edits.push(Edit { pointer: at.to_owned(), change });
    }
}

/// Whether llguidance looks into this keyword: the others it leaves alone, and they have no effect.
fn is_read(keyword: &str, map: &Map<String, Value>, draft: Draft, types: Types) -> bool {
    let old_items = draft < Draft::D2020 || map.get("items").is_some_and(Value::is_array);
    match keyword {
        "properties" | "patternProperties" | "additionalProperties" => types.meets(Types::OBJECT),
        "items" => types.meets(Types::ARRAY),
        "prefixItems" => types.meets(Types::ARRAY) && !old_items,
        "additionalItems" => types.meets(Types::ARRAY) && map.get("items").is_some_and(Value::is_array),
        _ => true,
    }
}

/// llguidance computes with 64-bit floats: a number that one cannot hold is taken for its neighbour, which must not
/// loosen a bound. Bounds of integers end at 64 bits, where the neighbour does no harm.
fn exact_numbers(at: &str, map: &Map<String, Value>, types: Types) -> Result<()> {
    let integers = !types.meets(Types::FRACTION);
    for (keyword, loosens) in [
        ("minimum", Ordering::Less),
        ("exclusiveMinimum", Ordering::Less),
        ("maximum", Ordering::Greater),
        ("exclusiveMaximum", Ordering::Greater),
    ] {
        let bound = map.get(keyword).and_then(rounded);
        if bound.is_some_and(|(n, f)| f.cmp(&n) == loosens && !(integers && f.abs() >= 1 << 63)) {
            return Err(refuse(at, keyword, INEXACT));
        }
    }
    for keyword in ["multipleOf", "const", "enum"] {
        if map.get(keyword).is_some_and(is_inexact) {
            return Err(refuse(at, keyword, INEXACT));
        }
    }
    if map.get("multipleOf").and_then(Value::as_f64).is_some_and(|n| n <= 0.0) {
        return Err(refuse(at, "multipleOf", "must be more than 0"));
    }
    Ok(())
}

/// An integer, and what a 64-bit float makes of it.
fn rounded(value: &Value) -> Option<(i128, i128)> {
    let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))?;
    Some((whole, whole as f64 as i128))
}

fn is_inexact(value: &Value) -> bool {
    match value {
        Value::Number(_) => rounded(value).is_some_and(|(n, f)| n != f),
        Value::Array(list) => list.iter().any(is_inexact),
        Value::Object(map) => map.values().any(is_inexact),
        _ => false,
    }
}
