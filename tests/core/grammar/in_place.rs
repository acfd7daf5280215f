//! Schemas that refer to themselves in place: they are refused or enforced, and never exhaust the stack.

use super::common::Bench;
use serde_json::{Map, Value, json};

fn pets(rest: &Value) -> Value {
    let kind =
        |sound: &str| json!({"allOf": [{"$ref": "#/$defs/Pet"}], "properties": {sound: {"type": "string"}}});
    let mut pet = json!({"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "type": "object"});
    pet.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({"$ref": "#/$defs/Pet", "$defs": {"Pet": pet, "Cat": kind("meow"), "Dog": kind("bark")}})
}

#[test]
fn nothing_satisfies_a_schema_that_needs_itself() {
    let closed = json!({"unevaluatedProperties": false});
    let dynamic = json!({"$dynamicAnchor": "a", "allOf": [{"$dynamicRef": "#a"}], "unevaluatedItems": false});
    let bench = Bench::new();
    for schema in [
        json!({"allOf": [{"$ref": "#"}], "unevaluatedProperties": false}),
        json!({"$ref": "#", "unevaluatedProperties": false}),
        json!({"$ref": "#", "unevaluatedItems": false}),
        json!({"dependentSchemas": {"a": {"$ref": "#"}}, "type": "object", "required": ["a"], "unevaluatedProperties": false}),
        pets(&closed),
        pets(&json!({})),
        dynamic,
    ] {
        let error = bench.schema(&schema).unwrap_err().to_string();
        assert!(error.contains("nothing satisfies"), "{schema}: {error}");
    }
}

#[test]
fn other_branches_remain() {
    let bench = Bench::new();
    let either = json!({"anyOf": [{"$ref": "#"}, {"type": "object"}], "unevaluatedProperties": false});
    assert!(bench.satisfies(&either, "{}"));
    assert!(!bench.satisfies(&either, r#"{"a":1}"#) && !bench.satisfies(&either, "1"));
    let tree = json!({
        "anyOf": [{"$ref": "#"}, {"properties": {"left": {"$ref": "#"}, "size": {"type": "integer"}}}],
        "type": "object", "unevaluatedProperties": false,
    });
    assert!(bench.satisfies(&tree, r#"{"left":{"left":{},"size":1},"size":2}"#));
    assert!(!bench.satisfies(&tree, r#"{"left":{"right":{}}}"#));
    let conditions = json!({
        "if": {"required": ["a"]}, "then": {"$ref": "#"}, "properties": {"a": {}, "b": {}},
        "type": "object", "unevaluatedProperties": false,
    });
    assert!(bench.satisfies(&conditions, r#"{"b":1}"#) && !bench.satisfies(&conditions, r#"{"a":1}"#));
}

/// A schema whose ways lead through `n` others.
fn chain(n: usize, link: impl Fn(Value) -> Value) -> Value {
    let next = |i: usize| link(json!({ "$ref": format!("#/$defs/d{i}") }));
    let mut defs: Map<String, Value> = (0..n).map(|i| (format!("d{i}"), next(i + 1))).collect();
    defs.insert(format!("d{n}"), json!({"properties": {"a": {"type": "integer"}}}));
    json!({"$ref": "#/$defs/d0", "$defs": defs, "type": "object", "unevaluatedProperties": false})
}

#[test]
fn long_chains_end() {
    let bench = Bench::new();
    let links: [fn(Value) -> Value; 5] = [
        |next| next,
        |next| json!({"allOf": [next]}),
        |next| json!({"anyOf": [next, false]}),
        |next| json!({"if": next, "then": true}),
        |next| json!({"dependentSchemas": {"a": next}}),
    ];
    for (i, link) in links.into_iter().enumerate() {
        let schema = chain(100, link);
        assert!(bench.satisfies(&schema, r#"{"a":1}"#), "{i}");
        for n in [2_000, 20_000] {
            assert!(bench.schema(&chain(n, link)).is_err(), "{i}: {n}");
        }
    }
}

#[test]
fn all_ways_among_many_end() {
    let any =
        |_| json!({"anyOf": (0..30).map(|i| json!({"$ref": format!("#/$defs/d{i}")})).collect::<Vec<_>>()});
    let mut defs: Map<String, Value> = (0..30).map(|i| (format!("d{i}"), any(i))).collect();
    defs.insert("d0".to_owned(), json!({"properties": {"a": true}}));
    let schema = json!({"$ref": "#/$defs/d1", "$defs": defs, "unevaluatedProperties": false});
    // Enforced or refused: either ends.
    let _ = Bench::new().schema(&schema);
}
