//! Proves that the branches of a `oneOf` exclude each other, so that it says the same as `anyOf`.
//!
//! llguidance proves it for branches written in place, but never through `$ref`, which is how pydantic writes
//! discriminated unions.

use super::keywords::{Types, step};
use super::refs::{Refs, Target};
use serde_json::{Map, Value};
use std::cell::Cell;

/// References followed before giving up.
const MAX_STEPS: usize = 8;
/// More are not compared.
const MAX_BRANCHES: usize = 200;

/// Schemas looked at before giving up: parts that share parts can be many.
const MAX_LOOKS: usize = 100_000;

/// A schema as far as it matters here: what must hold of every value that it accepts.
struct Facts<'a> {
    types: Types,
    /// The only values there are, if that is known.
    values: Option<Vec<&'a Value>>,
    /// All properties that some part of the schema restricts, with the restricting schema's pointer.
    properties: Vec<(&'a str, String)>,
    required: Vec<&'a str>,
}

struct Proof<'a> {
    root: &'a Value,
    refs: &'a Refs<'a>,
    /// Schemas that may still be looked at.
    left: Cell<usize>,
}

/// Whether all branches of the `oneOf` at this pointer exclude each other.
pub(super) fn branches(root: &Value, refs: &Refs<'_>, pointer: &str) -> bool {
    let count = root.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len);
    // Every pair is looked at.
    if count > MAX_BRANCHES {
        return false;
    }
    let proof = Proof { root, refs, left: Cell::new(MAX_LOOKS) };
    let facts: Option<Vec<Facts<'_>>> =
        (0..count).map(|i| proof.facts(&format!("{pointer}/{i}"), MAX_STEPS)).collect();
    facts.is_some_and(|f| (0..count).all(|i| (0..i).all(|j| proof.exclude(&f[i], &f[j], MAX_STEPS))))
}

impl<'a> Proof<'a> {
    fn exclude(&self, a: &Facts<'_>, b: &Facts<'_>, steps: usize) -> bool {
        let shared = a.types.and(b.types);
        if shared == Types::NONE {
            return true;
        }
        if let (Some(x), Some(y)) = (&a.values, &b.values) {
            return !x.iter().any(|v| y.iter().any(|w| equal(v, w)));
        }
        // A property that one of them requires, and that both restrict to values which exclude each other.
        shared == Types::OBJECT
            && steps > 0
            && a.required.iter().chain(&b.required).any(|name| {
                let (left, right) = (self.named(a, name, steps), self.named(b, name, steps));
                left.iter().any(|l| right.iter().any(|r| self.exclude(l, r, steps - 1)))
            })
    }

    /// What is known of the property of that name.
    fn named(&self, facts: &Facts<'_>, name: &str, steps: usize) -> Vec<Facts<'a>> {
        let named = facts.properties.iter().filter(|(n, _)| *n == name);
        named.filter_map(|(_, p)| self.facts(p, steps - 1)).collect()
    }

    fn facts(&self, pointer: &str, steps: usize) -> Option<Facts<'a>> {
        self.left.set(self.left.get().checked_sub(1)?);
        let map: &Map<String, Value> = self.root.pointer(pointer)?.as_object()?;
        let mut facts = Facts::own(map, pointer)?;
        let mut parts = Vec::new();
        if let Some(text) = map.get("$ref").and_then(Value::as_str) {
            match self.refs.resolve(pointer, text) {
                Target::Here(target) => parts.push(target),
                _ => return None,
            }
        }
        let all = map.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
        parts.extend((0..all).map(|i| format!("{pointer}/allOf/{i}")));
        for part in parts.iter().filter(|_| steps > 0) {
            if let Some(more) = self.facts(part, steps - 1) {
                facts.and(more);
            }
        }
        Some(facts)
    }
}

impl<'a> Facts<'a> {
    /// What the schema says itself; None where its `type` is not one.
    fn own(map: &'a Map<String, Value>, pointer: &str) -> Option<Self> {
        let mut facts =
            Facts { types: Types::of(map)?, values: None, properties: Vec::new(), required: Vec::new() };
        if let Some(value) = map.get("const") {
            facts.only(vec![value]);
        }
        if let Some(list) = map.get("enum").and_then(Value::as_array) {
            facts.only(list.iter().collect());
        }
        if let Some(properties) = map.get("properties").and_then(Value::as_object) {
            let here = step(pointer, "properties");
            facts.properties.extend(properties.keys().map(|k| (k.as_str(), step(&here, k))));
        }
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        facts.required.extend(required.filter_map(Value::as_str));
        Some(facts)
    }

    fn only(&mut self, values: Vec<&'a Value>) {
        let types = values.iter().fold(Types::NONE, |t, v| Types(t.0 | Types::of_value(v).0));
        self.types = self.types.and(types);
        self.values = Some(values);
    }

    fn and(&mut self, more: Facts<'a>) {
        self.types = self.types.and(more.types);
        self.values = self.values.take().or(more.values);
        self.properties.extend(more.properties);
        self.required.extend(more.required);
    }
}

/// Equal as JSON Schema sees it: 1 and 1.0 are the same number.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, v)| y.get(k).is_some_and(|w| equal(v, w)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn proved(doc: &Value) -> bool {
        branches(doc, &Refs::new(doc), "/oneOf")
    }

    #[test]
    fn pydantic_unions_are_proved() {
        let cat = json!({"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]});
        let dog = json!({"type": "object", "properties": {"kind": {"enum": ["dog", "wolf"]}}});
        let refs = json!([{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]);
        let doc = json!({"oneOf": refs, "$defs": {"Cat": cat, "Dog": dog}});
        assert!(proved(&doc));
        // Without a required key, `{}` satisfies both.
        let mut open = doc.clone();
        open["$defs"]["Cat"]["required"] = json!([]);
        assert!(!proved(&open));
        let mut same = doc;
        same["$defs"]["Dog"]["properties"]["kind"] = json!({"enum": ["dog", "cat"]});
        assert!(!proved(&same));
    }

    #[test]
    fn types_and_values_exclude_each_other() {
        assert!(proved(
            &json!({"oneOf": [{"type": "string"}, {"type": ["null", "integer"]}, {"const": 1.5}]})
        ));
        assert!(!proved(&json!({"oneOf": [{"type": "number"}, {"type": "integer"}]})));
        assert!(!proved(&json!({"oneOf": [{"const": 1}, {"enum": [1.0]}]})));
        assert!(!proved(&json!({"oneOf": [{"$ref": "#"}, {"$ref": "#"}]})));
    }
}
