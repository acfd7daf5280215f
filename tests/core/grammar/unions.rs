//! Unions that are too much as a whole, of which a part is used.

use super::common::{Bench, by_the_letter};
use jsonschema::Draft;
use llgtrt::config::GrammarConfig;
use serde_json::{Value, json};

/// Branches that overlap where the key is absent that is meant to tell them apart: which of them hold is any subset.
fn large() -> Value {
    let branch = |i: u32| {
        let own = format!("own{i}");
        let flags = json!({"type": "array", "items": {"type": "boolean"}});
        let kind = json!({"enum": [format!("k{i}")]});
        json!({"properties": {"kind": kind, "text": {"type": "string"}, own: {"type": "integer"}, "flags": flags}})
    };
    json!({"type": "object", "oneOf": (0..20).map(branch).collect::<Vec<_>>()})
}

/// Time enough on any machine, and so much work that the unions below are too much.
fn patient() -> GrammarConfig {
    GrammarConfig { compile_seconds: 60.0, compile_steps: 700_000, ..by_the_letter() }
}

#[test]
fn branches_are_told_apart_by_one_key() {
    let (schema, bench) = (large(), Bench::with(&patient()));
    let grammar = bench.schema(&schema).unwrap();
    let [narrowed] = grammar.narrowed() else { panic!("{:?}", grammar.narrowed()) };
    assert_eq!((narrowed.pointer.as_str(), narrowed.keyword.as_str()), ("", "oneOf"));
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
    let whole = Bench::with(&GrammarConfig { narrow: false, ..patient() });
    let error = whole.schema(&schema).unwrap_err();
    assert!(error.to_string().contains("takes more than 700000 steps"), "{error}");
}

/// What stands beside such a union, and is or contains the complement of others.
fn others() -> Vec<Value> {
    let (p, q) = (json!({"properties": {"a": {"const": 1}, "b": {"const": 1}}}), json!({"required": ["c"]}));
    let r = json!({"properties": {"a": {"const": 1}}, "required": ["b", "c"]});
    let union = json!({"oneOf": [p, q]});
    let by_name = json!({"$ref": "#/$defs/union"});
    vec![
        union.clone(),
        json!({"not": union}),
        json!({"oneOf": [union, r]}),
        json!({"oneOf": [by_name, r, {"not": by_name, "required": ["a"]}]}),
        json!({"if": union, "then": {"required": ["a"]}, "else": {"required": ["b"]}}),
        json!({"anyOf": [{"not": by_name, "required": ["b"]}, {"allOf": [by_name, {"required": ["a"]}]}]}),
        json!({"not": {"not": {"oneOf": [by_name, r]}}}),
    ]
}

#[test]
fn less_of_a_union_is_never_more_of_its_complement() {
    let bench = Bench::with(&patient());
    let values = || [None, Some(0), Some(1)].into_iter();
    for other in others() {
        let mut inner = other.clone();
        inner["type"] = json!("object");
        let schema = json!({
            "type": "object", "properties": {"large": large(), "x": inner}, "required": ["x"],
            "$defs": {"union": others()[0]},
        });
        let validator = jsonschema::options().with_draft(Draft::Draft202012).build(&schema).unwrap();
        let grammar = bench.schema(&schema).unwrap();
        assert!(!grammar.narrowed().is_empty(), "{other}");
        let mut accepted = 0;
        for (a, b, c) in values().flat_map(|a| values().flat_map(move |b| values().map(move |c| (a, b, c)))) {
            let members: Vec<(&str, i32)> =
                [("a", a), ("b", b), ("c", c)].into_iter().filter_map(|(k, v)| Some((k, v?))).collect();
            // In any order of keys.
            for turned in 0..members.len().max(1) {
                let order = members.iter().cycle().skip(turned).take(members.len());
                let text: Vec<String> = order.map(|(key, value)| format!("\"{key}\":{value}")).collect();
                let text = format!("{{\"x\":{{{}}}}}", text.join(","));
                let is_accepted = bench.accepts(&mut grammar.restart(), &text).unwrap();
                let is_valid = validator.is_valid(&serde_json::from_str(&text).unwrap());
                assert!(!is_accepted || is_valid, "{text} of {other}");
                accepted += u32::from(is_accepted);
            }
        }
        assert!(accepted > 0, "{other}");
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
