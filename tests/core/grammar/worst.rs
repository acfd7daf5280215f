//! Inputs that are known to hurt llguidance: each ends in a clear error or compiles, and none ends the process.

use super::common::Bench;
use llgtrt::error::Error;
use llgtrt::grammar::GrammarSpec;
use serde_json::{Map, Value, json};
use std::time::Instant;

fn schema(schema: &Value) -> GrammarSpec {
    GrammarSpec::JsonSchema(schema.to_string())
}

fn properties(n: usize, of: impl Fn(usize) -> Value) -> Value {
    Value::Object((0..n).map(|i| (format!("p{i}"), of(i))).collect::<Map<_, _>>())
}

fn chain_of_rules(n: usize) -> String {
    (0..n).fold("start: r0".to_owned(), |s, i| format!("{s}\nr{i}: r{}", i + 1)) + &format!("\nr{n}: \"x\"")
}

fn chain_of_refs(n: usize) -> Value {
    let mut defs = Map::new();
    for i in 0..n {
        defs.insert(format!("d{i}"), json!({ "$ref": format!("#/$defs/d{}", i + 1) }));
    }
    defs.insert(format!("d{n}"), json!({"type": "integer"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

/// Name, spec, and whether it compiles (None: either is fine).
fn inputs() -> Vec<(&'static str, GrammarSpec, Option<bool>)> {
    let mail =
        |i: usize| json!({"type": "string", "format": "email", "pattern": format!("a{i}"), "maxLength": 90});
    let lark = |s: String| GrammarSpec::LarkGrammar(s);
    vec![
        ("one big divisor", schema(&json!({"multipleOf": 1_000_003})), Some(false)),
        ("the biggest divisor", schema(&json!({"type": "integer", "multipleOf": 9973})), Some(true)),
        ("a tiny divisor", schema(&json!({"type": "number", "multipleOf": 1e-300})), None),
        ("a huge divisor", schema(&json!({"type": "number", "multipleOf": 1e300})), Some(false)),
        (
            "many divisors",
            schema(&json!({"properties": properties(100, |i| json!({"multipleOf": 9001 + i}))})),
            Some(false),
        ),
        (
            "divisors multiplied",
            schema(&json!({"allOf": [{"multipleOf": 4999}, {"multipleOf": 4993}]})),
            Some(false),
        ),
        (
            "divisors over a reference",
            schema(&json!({"$ref": "#/$defs/a", "multipleOf": 4999, "$defs": {"a": {"multipleOf": 4993}}})),
            Some(false),
        ),
        ("optional properties", schema(&json!({"properties": properties(5000, |_| json!({}))})), Some(false)),
        (
            "as many as allowed",
            schema(&json!({"properties": properties(450, |_| json!({"type": "string"}))})),
            Some(true),
        ),
        (
            "optional properties in parts",
            schema(
                &json!({"allOf": (0..3000).map(|i| json!({"properties": {format!("p{i}"): {}}})).collect::<Vec<_>>()}),
            ),
            Some(false),
        ),
        ("branches", schema(&json!({"anyOf": (0..1500).map(mail).collect::<Vec<_>>()})), None),
        (
            "branches within branches",
            schema(
                &json!({"anyOf": vec![json!({"anyOf": (0..60).map(|i| json!({"type": "object", "properties": {format!("p{i}"): {}}})).collect::<Vec<_>>()}); 60]}),
            ),
            None,
        ),
        (
            "products of branches",
            schema(
                &json!({"allOf": vec![json!({"anyOf": (0..60).map(|i| json!({"required": [format!("p{i}")]})).collect::<Vec<_>>()}); 6]}),
            ),
            None,
        ),
        (
            "patterns for keys",
            schema(&json!({"patternProperties": properties(300, |_| json!({}))})),
            Some(false),
        ),
        (
            "fifty patterns",
            schema(
                &json!({"patternProperties": Value::Object((0..50).map(|i| (format!("^k{i}-[a-z]+$"), json!({}))).collect())}),
            ),
            None,
        ),
        (
            "long enumeration",
            schema(&json!({"enum": (0..40_000).map(|i| format!("value {i}")).collect::<Vec<_>>()})),
            Some(true),
        ),
        (
            "counted strings",
            schema(&json!({"type": "string", "minLength": 100_000, "maxLength": 1_000_000_000})),
            None,
        ),
        (
            "counted items",
            schema(
                &json!({"type": "array", "minItems": 1_000_000, "maxItems": 1_000_000_000, "items": {"type": "object"}}),
            ),
            None,
        ),
        (
            "counted properties",
            schema(&json!({"type": "object", "minProperties": 1_000_000, "maxProperties": 1_000_000_000})),
            None,
        ),
        ("nested counts", schema(&json!({"type": "string", "pattern": "^((a{1000}){1000}){1000}$"})), None),
        (
            "alternations",
            schema(&json!({"type": "string", "pattern": "(a|aa|aaa)*b(.*c.*d.*){30}e[^x]{500}"})),
            None,
        ),
        ("chain of references", schema(&chain_of_refs(900)), Some(true)),
        ("longer chain", schema(&chain_of_refs(3000)), Some(false)),
        (
            "nested arrays",
            schema(&(0..90).fold(json!({}), |s, _| json!({"items": s, "type": "array"}))),
            None,
        ),
        ("deep arrays", schema(&(0..500).fold(json!({}), |s, _| json!({ "items": s }))), Some(false)),
        ("a schema of itself", schema(&json!({"$ref": "#"})), Some(false)),
        (
            "a loop of references",
            schema(
                &json!({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            ),
            Some(false),
        ),
        (
            "trees that cross",
            schema(&json!({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
            "a": {"type": "object", "properties": {"c": {"$ref": "#/$defs/a"}}},
            "b": {"type": "object", "properties": {"c": {"$ref": "#/$defs/b"}}}}})),
            None,
        ),
        (
            "many literals",
            lark(format!(
                "start: {}",
                (0..300_000).map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join(" | ")
            )),
            Some(false),
        ),
        (
            "as many as fit",
            lark(format!("start: {}", (0..7000).map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join("|"))),
            None,
        ),
        ("chain of rules", lark(chain_of_rules(4000)), None),
        (
            "repeat counts",
            lark((0..2500).fold("start: \"a\"".to_owned(), |s, i| format!("{s}\nr{i}: \"x\"{{1,{i}}}"))),
            None,
        ),
        ("a big repeat", lark("start: (\"a\" | \"b\" start?){1,100000}".into()), None),
        ("divisor inside Lark", lark("start: %json {\"multipleOf\": 1000003}".into()), Some(false)),
        ("repeats in a regular expression", GrammarSpec::Regex("(a{1000}){1000}".into()), None),
        (
            "ten thousand choices",
            GrammarSpec::Choice((0..10_000).map(|i| format!("{i}")).collect()),
            Some(true),
        ),
    ]
}

#[test]
fn the_worst_inputs_end_in_an_answer() {
    let bench = Bench::new();
    for (name, spec, compiles) in inputs() {
        let start = Instant::now();
        let outcome = bench.compile(&spec);
        let took = start.elapsed();
        let said = match &outcome {
            Ok(_) => "compiles".to_owned(),
            Err(Error::Grammar { pointer, keyword, why }) => format!("{keyword} at {pointer:?}: {why}"),
            Err(other) => panic!("{name}: {other}"),
        };
        println!("{:>7.0} ms  {name}: {said}", took.as_secs_f64() * 1e3);
        if let Some(expected) = compiles {
            assert_eq!(outcome.is_ok(), expected, "{name}: {said}");
        }
        if let Ok(mut grammar) = outcome {
            // The first steps work too, or end with an error of this sequence.
            for _ in 0..8 {
                let Ok(mask) = grammar.mask() else { break };
                let Some(token) = mask.iter().find(|t| !bench.vocab.is_eog(*t)) else { break };
                if grammar.commit(token).is_err() {
                    break;
                }
            }
        }
    }
    assert!(bench.schema(&json!({"type": "integer"})).is_ok(), "the compiler works on");
}

#[test]
fn escapes_in_keys_do_not_pass_for_other_keys() {
    let bench = Bench::new();
    let typed = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    assert!(bench.satisfies(&typed, r#"{"a":1,"b":"x"}"#));
    assert!(!bench.satisfies(&typed, r#"{"\u0061":"x"}"#));
    assert!(!bench.satisfies(&typed, r#"{"a":"x"}"#));
    let patterns = json!({"type": "object", "patternProperties": {"^a": {"type": "integer"}}});
    assert!(!bench.satisfies(&patterns, r#"{"\u0061b":"x"}"#));
}
