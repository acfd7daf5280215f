//! Schemas of many parts that bear on each other: each compiles within the default budget of steps, and means what it says.

use super::common::Bench;
use llgtrt::config::GrammarConfig;
use serde_json::{Map, Value, json};

fn list(n: usize, of: impl Fn(usize) -> Value) -> Value {
    (0..n).map(of).collect::<Vec<_>>().into()
}

fn map(n: usize, of: impl Fn(usize) -> (String, Value)) -> Value {
    (0..n).map(of).collect::<Map<_, _>>().into()
}

/// Checks that the grammar and the validator accept and reject these texts. Compilation has ten minutes, so that it ends on a
/// slow machine, too.
fn check(schema: &Value, yes: &[&str], no: &[&str]) {
    let bench = Bench::with(&GrammarConfig { compile_seconds: 600.0, ..Default::default() });
    let grammar = bench.schema(schema).unwrap_or_else(|e| panic!("{e}"));
    let judge = jsonschema::validator_for(schema).unwrap();
    for (texts, expected) in [(yes, true), (no, false)] {
        for text in texts {
            assert_eq!(judge.is_valid(&serde_json::from_str(text).unwrap()), expected, "{text}");
            assert_eq!(bench.accepts(&mut grammar.restart(), text).ok(), Some(expected), "{text}");
        }
    }
}

/// 200 conditions on one key: the values of each, and what is asked then.
fn conditions(tag: &Value, when: impl Fn(usize) -> Value, then: impl Fn(usize) -> Value) -> Value {
    let condition = |i| json!({"if": {"properties": {"tag": when(i)}}, "then": then(i)});
    json!({"type": "object", "properties": {"tag": tag}, "required": ["tag"], "allOf": list(200, condition)})
}

fn at_least(i: usize) -> Value {
    json!({"properties": {"v": {"type": "integer", "minimum": i}}, "required": ["v"]})
}

fn own(i: usize) -> Value {
    json!({"properties": {format!("v{i}"): {"type": "integer"}}, "required": [format!("v{i}")]})
}

#[test]
fn conditions_on_one_key_overlap() {
    let number = json!({"type": "integer"});
    let ranges = conditions(&number, |i| json!({"minimum": 5 * i, "maximum": 5 * i + 12}), at_least);
    check(
        &ranges,
        &[r#"{"tag":7,"v":1}"#, r#"{"tag":-1}"#, r#"{"tag":1008,"v":-5}"#, r#"{"tag":500,"v":100}"#],
        &[r#"{"tag":7,"v":0}"#, r#"{"tag":7}"#, r#"{"tag":500,"v":99}"#, r#"{"tag":1007,"v":198}"#],
    );
    let halves = conditions(&number, |i| json!({"exclusiveMinimum": 5 * i}), at_least);
    check(&halves, &[r#"{"tag":0}"#, r#"{"tag":6,"v":1}"#], &[r#"{"tag":6,"v":0}"#, r#"{"tag":999,"v":1}"#]);
    let text = json!({"type": "string"});
    let patterns = conditions(&text, |i| json!({"pattern": format!("^p{i}")}), at_least);
    check(
        &patterns,
        &[r#"{"tag":"p17x","v":17}"#, r#"{"tag":"p1","v":1}"#, r#"{"tag":"q"}"#, r#"{"tag":"p","v":0}"#],
        &[r#"{"tag":"p17x","v":16}"#, r#"{"tag":"p17"}"#, r#"{"tag":"p199","v":19}"#],
    );
    let lists = conditions(&text, |i| json!({"enum": [format!("t{i}"), format!("t{}", i + 1)]}), own);
    check(
        &lists,
        &[r#"{"tag":"t7","v6":1,"v7":1}"#, r#"{"tag":"t7","v3":"x","v6":1,"v7":1}"#, r#"{"tag":"u"}"#],
        &[r#"{"tag":"t7","v7":1}"#, r#"{"tag":"t7","v6":1,"v7":"x"}"#, r#"{"tag":"t200"}"#],
    );
    // Numbers that one condition tells apart, and a value of any type.
    let evens =
        conditions(&json!({}), |i| json!({"type": "number", "multipleOf": 2, "minimum": i}), at_least);
    check(
        &evens,
        &[r#"{"tag":4,"v":4}"#, r#"{"tag":3}"#, r#"{"tag":"a"}"#, r#"{"tag":[4]}"#],
        &[r#"{"tag":4,"v":3}"#, r#"{"tag":198}"#],
    );
}

#[test]
fn names_match_many_patterns() {
    let least = |i: usize| json!({"type": "integer", "minimum": i});
    let apart = map(100, |i| (format!("^p{i}_"), least(i)));
    check(
        &json!({"type": "object", "patternProperties": apart, "additionalProperties": false}),
        &[r#"{"p7_a":7,"p70_":70}"#, "{}"],
        &[r#"{"p7_a":6}"#, r#"{"p7":7}"#, r#"{"q":1}"#],
    );
    let overlapping = map(100, |i| (format!("^p{i}"), least(i)));
    check(
        &json!({"type": "object", "patternProperties": overlapping, "properties": {"p9": {"maximum": 20}}}),
        &[r#"{"p9":9,"p17x":17,"q":"x","p1":1}"#, r#"{"p":null}"#],
        &[r#"{"p9":8}"#, r#"{"p9":21}"#, r#"{"p17x":16}"#, r#"{"p1":"x"}"#],
    );
}

#[test]
fn items_are_counted_twice() {
    let of = |least: usize, most: usize| {
        json!({"type": "array", "contains": {"type": "integer"}, "minContains": least, "maxContains": most,
            "maxItems": 3000, "minItems": 4})
    };
    check(
        &of(2, 3),
        &[r#"[1,"a",2,"b"]"#, "[null,null,null,1,1,1]"],
        &["[1,2]", r#"[1,"a","b","c"]"#, "[1,2,3,4]", "[]"],
    );
    let ones = |n: usize| format!("[{}]", vec!["1"; n].join(","));
    check(&of(50, 80), &[&ones(80), &ones(50)], &[&ones(81), &ones(49)]);
    // Room is kept for what must be there.
    let short = json!({"type": "array", "contains": {"type": "integer"}, "minContains": 2, "maxItems": 3});
    check(&short, &["[1,2]", "[1,null,2]", "[null,1,2]"], &["[1,null,null]", "[1,2,3,4]"]);
    let bench = Bench::new();
    let mut grammar = bench.schema(&short).unwrap();
    assert!(bench.begins(&mut grammar.restart(), "[null,1").unwrap());
    assert!(!bench.begins(&mut grammar, "[null,n").unwrap());
    // No list goes on where all that may come is counted.
    let full = json!({"type": "array", "items": {"type": "integer"}, "contains": {"type": "integer"},
        "maxContains": 2, "minItems": 2, "maxItems": 9});
    check(&full, &["[1,2]"], &["[1]", "[1,2,3]"]);
    assert!(bench.schema(&json!({"minItems": 3, "allOf": [full]})).is_err());
}

#[test]
fn many_keys_are_optional() {
    let keys = map(3000, |i| (format!("key_{i}"), json!({"type": "integer"})));
    check(
        &json!({"type": "object", "properties": keys}),
        &["{}", r#"{"key_0":1,"key_2999":2}"#, r#"{"key_1500":1}"#],
        &[r#"{"key_0":"x"}"#],
    );
}
