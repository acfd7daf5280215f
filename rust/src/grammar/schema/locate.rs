//! Finds the place of an error that only the compilation finds.
//!
//! It is the smallest schema that fails when it is compiled alone with the root's definitions; where only a combination
//! fails, that is the schema that combines.

use super::arena::{Arena, Id, ROOT, Target};
use super::{Prepared, prepare, refuse};
use crate::config::GrammarConfig;
use crate::error::{Error, Result};
use crate::grammar::budget::Budget;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Most bytes of schemas compiled in the search: then it stops at the place it has reached.
const MAX_BYTES: usize = 8 << 20;
/// What a compilation counts at least.
const LEAST_BYTES: usize = 16 << 10;
/// Longest search. Only schemas that take very long to fail meet it, since the place depends on the machine then.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Keywords that come along when a part is compiled alone.
const SHARED: [&str; 5] = ["$schema", "$id", "id", "$defs", "definitions"];

/// Compiles a prepared schema.
pub(in crate::grammar) type Compile<'a> = dyn Fn(&Prepared) -> Result<()> + 'a;

struct Search<'a> {
    arena: &'a Arena<'a>,
    config: &'a GrammarConfig,
    compile: &'a Compile<'a>,
    been: HashSet<Id>,
    bytes: usize,
    until: Instant,
}

/// The compilation's error, with pointer and keyword.
pub(in crate::grammar) fn locate(
    schema: &Value,
    (config, budget): (&GrammarConfig, &Budget),
    error: &Error,
    compile: &Compile<'_>,
) -> Error {
    let (Ok(arena), Error::Grammar { why, .. }) = (&Arena::new(schema, budget), error) else {
        return error.clone();
    };
    let mut search = Search {
        arena,
        config,
        compile,
        been: HashSet::from([ROOT]),
        bytes: 0,
        until: budget.until().min(Instant::now() + MAX_TIME),
    };
    let (mut at, mut why) = (ROOT, why.clone());
    while let Some(found) = search.deeper(at, &why) {
        (at, why) = found;
    }
    match arena[at].map() {
        Some(map) => refuse(&arena[at].pointer, &search.keyword(map), why),
        None => refuse(&arena[at].pointer, "schema", why),
    }
}

impl Search<'_> {
    /// A schema directly inside this one, or behind its reference, that fails alone for a like reason.
    fn deeper(&mut self, at: Id, why: &str) -> Option<(Id, String)> {
        let inner = self.arena[at].inner.iter().filter(|(keyword, _)| !SHARED.contains(keyword));
        let mut next: Vec<Id> = inner.flat_map(|(_, inside)| inside).map(|(_, id)| *id).collect();
        if let Some(Target::Here(target)) = self.arena[at].reference {
            next.push(target);
        }
        for id in next {
            if !self.been.insert(id) {
                continue;
            }
            // What is `false` may be optional, and then fails nothing.
            let Some(part) = self.arena[id].map() else { continue };
            if let Some(reason) = self.fails(part)
                && unsatisfiable(&reason) == unsatisfiable(why)
            {
                return Some((id, reason));
            }
        }
        None
    }

    /// Why the schema does not compile alone with the root's definitions.
    fn fails(&mut self, part: &Map<String, Value>) -> Option<String> {
        let mut alone = part.clone();
        for key in SHARED {
            if let Some(v) = self.arena[ROOT].value.get(key) {
                alone.insert(key.to_owned(), v.clone());
            }
        }
        alone.shift_remove("x-guidance");
        let alone = Value::Object(alone);
        self.bytes += alone.to_string().len().max(LEAST_BYTES);
        if self.is_spent() {
            return None;
        }
        // What the preparation refuses has been refused already, or is a reference into what is missing here.
        let prepared = prepare(&alone, self.config, self.arena.budget).ok()?;
        match (self.compile)(&prepared) {
            Err(Error::Grammar { why, .. }) => Some(why),
            _ => None,
        }
    }

    fn is_spent(&self) -> bool {
        self.bytes > MAX_BYTES || Instant::now() > self.until
    }

    /// The keyword without which the schema compiles; the last one that fails alone where it takes more than one.
    fn keyword(&mut self, map: &Map<String, Value>) -> String {
        let mut keys: Vec<&String> = map.keys().filter(|k| !SHARED.contains(&k.as_str())).collect();
        // Without the schemas inside, or without `type`, much compiles that has another fault.
        keys.sort_by_key(|k| match k.as_str() {
            "type" => 2,
            "properties" | "items" | "prefixItems" | "additionalProperties" | "additionalItems" => 1,
            _ => 0,
        });
        let without = |key: &String| {
            let mut rest = map.clone();
            rest.shift_remove(key);
            rest
        };
        let only = |key: &String| {
            map.iter()
                .filter(|(k, _)| *k == key || *k == "type")
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect()
        };
        let found = keys.iter().find(|k| self.fails(&without(k)).is_none());
        let found = found.or_else(|| keys.iter().find(|k| self.fails(&only(k)).is_some()));
        found.filter(|_| !self.is_spent()).map_or_else(|| "schema".to_owned(), |k| (*k).clone())
    }
}

fn unsatisfiable(why: &str) -> bool {
    why.contains("nsatisfiable") || why.starts_with("nothing can follow")
}
