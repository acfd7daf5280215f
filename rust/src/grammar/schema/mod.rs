//! JSON schemas: what can be enforced is made ready for llguidance, what cannot is refused by pointer and keyword.
//!
//! The compiler behind it (llguidance 1.9.1) names no place in its errors, knows no bound on its own time, and accepts
//! some schemas that it then enforces only in part. So, in this order: every schema of the document gets a number, and every
//! reference is resolved ([`arena`]); caps ([`caps`]); a walk over everything that can be reached ([`walk`]) which refuses,
//! drops keywords that have no effect, and rewrites what is only written in a way that llguidance misreads; then the
//! compilation; then, for errors that only the compilation finds, a search for the place ([`locate`]). All of it takes from
//! one budget.

mod arena;
mod caps;
mod disjoint;
mod edits;
mod escapes;
mod keywords;
mod live;
mod locate;
mod pattern;
mod walk;

pub(super) use locate::locate;

use super::budget::Budget;
use crate::config::GrammarConfig;
use crate::error::{Error, Result};
use arena::Arena;
use serde_json::{Value, json};

/// Between two tokens of JSON: nothing, one space, or a line break with indentation. It is bounded, since a model can
/// write white space without end.
const WHITESPACE: &str = "\\n {0,40}| ";

/// A schema that llguidance may compile.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    schema: serde_json::Map<String, Value>,
    escapes: &'static str,
    divisors: f64,
}

/// Schemas that stand in one grammar: what each of them may have, they may have together.
#[derive(Debug)]
pub(super) struct Together<'a> {
    budget: &'a Budget,
    divisors: f64,
}

impl<'a> Together<'a> {
    /// None so far.
    pub(super) fn new(budget: &'a Budget) -> Self {
        Together { budget, divisors: 0.0 }
    }

    /// As [`prepare`], for one more of them, in llguidance's form.
    pub(super) fn prepare(&mut self, schema: &Value, config: &GrammarConfig) -> Result<Value> {
        let prepared = prepare(schema, config, self.budget)?;
        self.divisors += prepared.divisors;
        if self.divisors > caps::MAX_DIVISORS {
            let why = format!(
                "the digits of the divisors of all schemas sum up to more than {}",
                caps::MAX_DIVISORS
            );
            return Err(refuse("", "multipleOf", why));
        }
        Ok(prepared.for_llguidance())
    }
}

impl Prepared {
    /// The schema with our options in it.
    pub(super) fn for_llguidance(&self) -> Value {
        let mut map = self.schema.clone();
        let options = json!({ "whitespace_pattern": WHITESPACE, "json_allowed_escapes": self.escapes });
        map.insert("x-guidance".into(), options);
        Value::Object(map)
    }
}

/// The schema's JSON.
pub(super) fn parse(source: &str, config: &GrammarConfig) -> Result<Value> {
    if source.len() > config.max_schema_bytes {
        return Err(refuse("", "schema", format!("longer than {} bytes", config.max_schema_bytes)));
    }
    serde_json::from_str(source).map_err(|e| refuse("", "schema", format!("is not JSON: {e}")))
}

/// Refuses what cannot be enforced, and rewrites the rest into what llguidance enforces in full.
pub(super) fn prepare(schema: &Value, config: &GrammarConfig, budget: &Budget) -> Result<Prepared> {
    let map = match schema {
        // llguidance's options need an object.
        Value::Bool(true) => return prepare(&json!({}), config, budget),
        Value::Bool(false) => return Err(refuse("", "false", "nothing satisfies it")),
        Value::Object(map) => map,
        _ => return Err(refuse("", "schema", "a schema is an object or a boolean")),
    };
    if map.contains_key("x-guidance") {
        return Err(refuse("", "x-guidance", "the server sets these options: leave the keyword out"));
    }
    caps::check_depth(schema)?;
    let arena = Arena::new(schema, budget)?;
    caps::each(&arena)?;
    let walk::Walked { edits, escapes, divisors } = walk::walk(&arena, config)?;
    Ok(Prepared { schema: edits::apply(map.clone(), edits), escapes, divisors })
}

fn refuse(pointer: &str, keyword: &str, why: impl Into<String>) -> Error {
    Error::grammar(pointer, keyword, why)
}
