//! Unions of many branches.

use super::common::{Bench, by_the_letter};
use llgtrt::config::GrammarConfig;
use serde_json::{Value, json};

/// Branches with a key that is meant to tell them apart. Where it may be absent, any subset of them may hold.
fn large(required: &[&str]) -> Value {
    let branch = |i: u32| {
        let own = format!("own{i}");
        let flags = json!({"type": "array", "items": {"type": "boolean"}});
        let properties = json!({"kind": {"const": format!("k{i}")}, "text": {"type": "string"}, own: {"type": "integer"}, "flags": flags});
        json!({"properties": properties, "required": required})
    };
    json!({"type": "object", "oneOf": (0..20).map(branch).collect::<Vec<_>>()})
}

/// Time enough on any machine.
fn patient() -> GrammarConfig {
    GrammarConfig { compile_seconds: 60.0, compile_steps: 700_000, ..by_the_letter() }
}

#[test]
fn the_advice_for_a_union_that_is_too_much_is_right() {
    let bench = Bench::with(&patient());
    let error = bench.schema(&large(&[])).unwrap_err().to_string();
    assert!(error.contains("takes more than 700000 steps"), "{error}");
    assert!(error.contains("each branch of oneOf a required key with a const"), "{error}");
    let schema = large(&["kind"]);
    assert!(bench.schema(&schema).unwrap().narrowed().is_empty());
    for (text, is_valid) in [
        (r#"{"kind":"k3","text":"a","own3":1,"flags":[true]}"#, true),
        (r#"{"kind":"k19","flags":[],"own3":[]}"#, true),
        (r#"{"kind":"k3","own3":[]}"#, false),
        (r#"{"kind":"k20"}"#, false),
        (r#"{"kind":"k3","text":1}"#, false),
        ("{}", false),
    ] {
        assert_eq!(bench.satisfies(&schema, text), is_valid, "{text}");
    }
}

/// Branches that a constant tells apart are compared with those only that have the same one.
#[test]
fn large_unions_with_a_constant_key_are_exact() {
    let bench = Bench::with(&patient());
    let branch = |i: usize| {
        let mut branch = json!({"type": "object", "properties": {"kind": {"const": format!("k{i}")}}, "required": ["kind"]});
        branch["properties"][format!("v{i}")] = json!({"type": "integer"});
        branch
    };
    let mut branches: Vec<serde_json::Value> = (0..500).map(branch).collect();
    // One more of a kind that is there, and one without a kind.
    branches.push(json!({"type": "object", "properties": {"kind": {"enum": ["k7", "new"]}, "w": {"type": "null"}}, "required": ["kind", "w"]}));
    branches.push(json!({"type": "object", "properties": {"kind": {"type": "null"}}, "required": ["kind"]}));
    let grammar = bench.schema(&json!({"oneOf": branches})).unwrap();
    for (text, expected) in [
        (r#"{"kind":"k499","v499":1}"#, true),
        (r#"{"kind":"k7","v7":1}"#, true),
        (r#"{"kind":"k7","w":null}"#, false),
        (r#"{"kind":"new","w":null}"#, true),
        (r#"{"kind":"new"}"#, false),
        (r#"{"kind":null}"#, true),
        (r#"{"kind":"k500"}"#, false),
    ] {
        assert_eq!(bench.accepts(&mut grammar.restart(), text).unwrap(), expected, "{text}");
    }
    let constants: Vec<_> = (0..1000).map(|i| json!({"const": format!("c{}", i % 999)})).collect();
    let grammar = bench.schema(&json!({"oneOf": constants})).unwrap();
    assert!(bench.accepts(&mut grammar.restart(), r#""c998""#).unwrap());
    assert!(!bench.accepts(&mut grammar.restart(), r#""c0""#).unwrap(), "two branches have it");
}

/// `if` on a tag, as often as a schema has kinds of objects.
#[test]
fn conditions_on_one_tag_are_many() {
    let bench = Bench::new();
    let kinds: Vec<String> = (0..200).map(|i| format!("k{i}")).collect();
    let schema = |then: &dyn Fn(usize) -> Value| {
        let when = |i: usize| json!({"properties": {"kind": {"const": kinds[i]}}, "required": ["kind"]});
        let all: Vec<Value> = (0..kinds.len()).map(|i| json!({"if": when(i), "then": then(i)})).collect();
        json!({"type": "object", "properties": {"kind": {"enum": kinds}}, "required": ["kind"], "allOf": all})
    };
    let own = schema(&|i| {
        let name = format!("v{i}");
        json!({ "properties": { name.clone(): { "type": "integer" } }, "required": [name] })
    });
    let grammar = bench.schema(&own).unwrap();
    for (text, is_right) in [
        (r#"{"kind":"k7","v7":1}"#, true),
        (r#"{"kind":"k199","v199":1}"#, true),
        (r#"{"kind":"k7","v8":1}"#, false),
        (r#"{"kind":"k7"}"#, false),
        (r#"{"kind":"k200","v7":1}"#, false),
    ] {
        assert_eq!(bench.accepts(&mut grammar.restart(), text).unwrap_or(false), is_right, "{text}");
    }
}

/// A value that several conditions ask for in part: each set of them that can hold is looked at once.
#[test]
fn conditions_may_overlap() {
    let all: Vec<Value> = (0..40)
        .map(|i| {
            let when = json!({"properties": {"kind": {"const": format!("k{i}")}}, "required": ["kind"]});
            json!({"if": when, "then": {"properties": {"v": {"type": "integer", "minimum": i}}, "required": ["v"]}})
        })
        .collect();
    let schema = json!({"type": "object", "properties": {"kind": {"type": "string"}, "v": {}}, "required": ["kind"],
        "allOf": all});
    let bench = Bench::with(&GrammarConfig { compile_seconds: 600.0, ..GrammarConfig::default() });
    let grammar = bench.schema(&schema).unwrap();
    for (text, is_right) in [
        (r#"{"kind":"k7","v":7}"#, true),
        (r#"{"v":7,"kind":"k7"}"#, true),
        (r#"{"v":7,"kind":"k8"}"#, false),
        (r#"{"kind":"k8","v":7}"#, false),
        (r#"{"kind":"other","v":"x"}"#, true),
        (r#"{"v":"x","kind":"other"}"#, true),
        (r#"{"kind":"k3"}"#, false),
    ] {
        assert_eq!(bench.accepts(&mut grammar.restart(), text).unwrap_or(false), is_right, "{text}");
    }
}
