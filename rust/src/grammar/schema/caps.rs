//! Caps on schemas: llguidance bounds neither the time nor the stack of a compilation, and nothing stops one.

use super::arena::Arena;
use super::refuse;
use crate::error::Result;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Deepest nesting of the JSON text.
const MAX_DEPTH: usize = 100;
/// Each optional property takes four items of a parser row, which holds 2,000: with more, generation dies at the first
/// key.
pub(super) const MAX_OPTIONAL: usize = 450;
/// Each branch takes an item of the row.
pub(super) const MAX_BRANCHES: usize = 1_500;
/// They are compared in pairs: 300 take 4.7 s.
const MAX_PATTERNS: usize = 50;
/// 40,000 take 0.23 s.
const MAX_ENUM: usize = 50_000;
/// Divisibility by n is an automaton of n states: 9,973 take 60 ms, a hundred of about 9,000 take 6.7 s.
pub(super) const MAX_DIVISORS: f64 = 10_000.0;
/// Refuses what is nested so deeply that to read it would take too much of the stack.
pub(super) fn check_depth(root: &Value) -> Result<()> {
    if depth(root) > MAX_DEPTH {
        return Err(refuse("", "schema", format!("nested deeper than {MAX_DEPTH}")));
    }
    Ok(())
}

/// Refuses what would take too long or too much to compile, whether it is used or not; [`super::size`] judges what is.
pub(super) fn check(arena: &Arena<'_>) -> Result<()> {
    let mut objects = arena.ids().filter_map(|id| Some((&arena[id].pointer, arena[id].map()?)));
    objects.try_for_each(|(pointer, map)| sizes(pointer, map))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn sizes(pointer: &str, map: &Map<String, Value>) -> Result<()> {
    let len = |key: &str| match map.get(key) {
        Some(Value::Array(list)) => list.len(),
        Some(Value::Object(map)) => map.len(),
        _ => 0,
    };
    let limits = [
        ("anyOf", MAX_BRANCHES),
        ("oneOf", MAX_BRANCHES),
        ("allOf", MAX_BRANCHES),
        ("enum", MAX_ENUM),
        ("patternProperties", MAX_PATTERNS),
    ];
    if let Some((key, most)) = limits.iter().find(|(key, most)| len(key) > *most) {
        return Err(refuse(pointer, key, format!("more than {most} entries")));
    }
    Ok(())
}

/// Properties of the schema that it does not require.
pub(super) fn optional(map: &Map<String, Value>) -> usize {
    let Some(properties) = map.get("properties").and_then(Value::as_object) else { return 0 };
    let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: HashSet<_> = required.filter_map(Value::as_str).collect();
    properties.keys().filter(|name| !required.contains(name.as_str())).count()
}

/// The divisor without its decimal point, as the automaton counts it.
pub(super) fn coefficient(divisor: &Value) -> f64 {
    let mut n = divisor.as_f64().unwrap_or(0.0).abs();
    let mut digits = 0;
    while n.fract() != 0.0 && digits < 17 {
        n *= 10.0;
        digits += 1;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::super::size;
    use super::*;
    use crate::error::Error;
    use serde_json::json;

    fn check(schema: &Value) -> Result<()> {
        check_depth(schema)?;
        let arena = Arena::new(schema)?;
        super::check(&arena)?;
        // As if all of it were used.
        size::check(&arena, &arena.ids().collect::<Vec<_>>()).map(drop)
    }

    fn refused(schema: &Value) -> (String, String) {
        match check(schema) {
            Err(Error::Grammar { pointer, keyword, .. }) => (pointer, keyword),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_cap_is_refused_where_it_stands() {
        let many = |n: usize| (0..n).map(|i| (format!("p{i}"), json!({}))).collect::<Map<_, _>>();
        assert_eq!(
            refused(&json!({"items": {"properties": many(451)}})),
            ("/items".into(), "properties".into())
        );
        // What is required twice, or is no property, makes no other one required.
        let feigned = json!({"properties": many(451), "required": ["p0", "p0", "q"]});
        assert_eq!(check(&feigned), Ok(()));
        let feigned = json!({"properties": many(452), "required": ["p0", "p0", "q"]});
        assert_eq!(refused(&feigned).1, "properties");
        assert_eq!(refused(&json!({"patternProperties": many(51)})).1, "patternProperties");
        assert_eq!(refused(&json!({"anyOf": vec![json!({}); 1501]})).1, "anyOf");
        assert_eq!(refused(&json!({"enum": vec![json!(1); 50_001]})).1, "enum");
        assert_eq!(
            refused(&json!({"$defs": {"a": {"multipleOf": 100.003}}})),
            ("/$defs/a".into(), "multipleOf".into())
        );
        let deep = (0..101).fold(json!({}), |s, _| json!({ "items": s }));
        assert_eq!(refused(&deep).1, "schema");
    }

    #[test]
    fn what_is_within_the_caps_passes() {
        assert_eq!(check(&json!({"multipleOf": 0.01, "enum": vec![json!(1); 50_000]})), Ok(()));
    }
}
