//! Keys in any order (`grammar.key_order`).

use super::common::{Bench, Dice, Row, by_the_letter, data};
use llgtrt::config::{GrammarConfig, KeyOrder};
use serde_json::{Map, Value, json};

fn bench() -> Bench {
    Bench::with(&GrammarConfig { key_order: KeyOrder::Any, ..by_the_letter() })
}

fn check(rows: &[Row]) {
    let bench = bench();
    for (schema, ..) in rows {
        let narrowed = bench.schema(schema).unwrap().narrowed().to_vec();
        assert!(narrowed.is_empty(), "{schema}: {narrowed:?}");
    }
    bench.check(rows);
}

#[test]
fn every_order_is_taken_and_no_key_twice() {
    let three = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "null"}},
        "required": ["b"],
        "additionalProperties": false,
    });
    let inner =
        json!({"type": "object", "properties": {"x": three, "y": three}, "additionalProperties": false});
    let open = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    check(&[
        (
            three.clone(),
            &[r#"{"c":null,"b":true,"a":1}"#, r#"{"b":true}"#, r#"{"a":1,"b":false}"#, r#"{"b":true,"a":1}"#],
            &[
                "{}",
                r#"{"a":1}"#,
                r#"{"b":true,"b":true}"#,
                r#"{"b":true,"a":1,"b":true}"#,
                r#"{"b":true,"d":1}"#,
            ],
        ),
        (
            inner,
            &[r#"{"y":{"c":null,"b":true},"x":{"b":true,"a":1}}"#],
            &[r#"{"y":{"c":null,"b":true},"x":{"b":true,"a":1,"a":1}}"#, r#"{"y":{},"x":{"b":true}}"#],
        ),
        (
            open,
            &[r#"{"z":1,"a":2}"#, r#"{"a":2,"z":1}"#, r#"{"z":{"a":"b"},"y":[],"a":2,"x":null}"#],
            &[r#"{"z":1}"#, r#"{"z":1,"a":2,"a":3}"#, r#"{"z":1,"a":"b"}"#],
        ),
    ]);
}

#[test]
fn counts_and_conditions_hold_in_every_order() {
    let counted = json!({
        "type": "object",
        "properties": {"a": {}, "b": {}, "c": {}, "d": {}},
        "required": ["c", "d"],
        "maxProperties": 3,
        "additionalProperties": false,
    });
    let depends = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}},
        "dependentRequired": {"a": ["b"], "b": ["c"]},
        "if": {"properties": {"c": {"minimum": 5}}, "required": ["c"]},
        "then": {"properties": {"b": {"maximum": 3}}},
        "additionalProperties": false,
    });
    check(&[
        (
            counted,
            &[r#"{"b":1,"d":2,"c":3}"#, r#"{"c":1,"d":2}"#, r#"{"d":2,"a":1,"c":1}"#],
            &[r#"{"b":1,"a":2,"c":3}"#, r#"{"b":1,"d":2,"c":3,"a":4}"#, r#"{"b":1,"d":2}"#],
        ),
        (
            depends,
            &[r#"{"c":9,"a":1,"b":2}"#, r#"{"a":1,"b":3,"c":5}"#, r#"{"b":9,"c":4}"#, "{}", r#"{"c":7}"#],
            &[
                r#"{"c":9,"a":1,"b":4}"#,
                r#"{"b":4,"c":9}"#,
                r#"{"a":1,"b":2}"#,
                r#"{"a":1}"#,
                r#"{"b":1,"a":1}"#,
            ],
        ),
    ]);
}

#[test]
fn nothing_is_begun_that_cannot_be_finished() {
    let bench = bench();
    let counted = json!({
        "type": "object",
        "properties": {"a": {}, "b": {}, "c": {}},
        "required": ["c"],
        "maxProperties": 2,
    });
    let pristine = bench.schema(&counted).unwrap();
    for (text, expected) in
        [(r#"{"a":1,"b"#, false), (r#"{"a":1,"z"#, false), (r#"{"c":1,"b"#, true), (r#"{"a":1,"c"#, true)]
    {
        assert_eq!(bench.begins(&mut pristine.restart(), text).unwrap(), expected, "{text}");
    }
    let endless = json!({
        "$defs": {"e": {"type": "object", "properties": {"e": {"$ref": "#/$defs/e"}}, "required": ["e"]}},
        "anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": {}, "e": {"$ref": "#/$defs/e"}}, "required": ["e"]}],
    });
    assert!(!bench.begins(&mut bench.schema(&endless).unwrap(), "{").unwrap());
}

/// `if a is i, then b is required`, for so many pairs of keys; `more` keys beside them.
fn conditions(count: usize, more: usize) -> Value {
    let integer = || json!({"type": "integer"});
    let pairs = (0..count).flat_map(|i| [(format!("a{i}"), integer()), (format!("b{i}"), integer())]);
    let properties: Map<String, Value> =
        pairs.chain((0..more).map(|i| (format!("c{i}"), integer()))).collect();
    let condition = |i: usize| {
        let (a, b) = (format!("a{i}"), format!("b{i}"));
        json!({"if": {"properties": {&a: {"const": i}}, "required": [a]}, "then": {"required": [b]}})
    };
    let all: Vec<Value> = (0..count).map(condition).collect();
    json!({"type": "object", "properties": properties, "allOf": all, "additionalProperties": false})
}

#[test]
fn many_independent_conditions_hold_in_every_order() {
    for more in [0, 30] {
        check(&[(
            conditions(20, more),
            &[
                "{}",
                r#"{"a3":3,"a19":19,"b19":0,"b3":1}"#,
                r#"{"b7":1,"a7":7,"b8":2}"#,
                r#"{"a1":2,"a2":1,"a0":7}"#,
            ],
            &[
                r#"{"a3":3}"#,
                r#"{"a3":3,"b4":3}"#,
                r#"{"b3":1,"a3":3,"a19":19}"#,
                r#"{"b3":1,"b3":1}"#,
                r#"{"a3":4,"a3":3,"b3":1}"#,
            ],
        )]);
    }
    let chain = json!({
        "type": "object",
        "properties": {"a": {}, "b": {"type": "integer"}, "c": {}, "d": {}},
        "dependentRequired": {"a": ["b", "d"], "b": ["c"]},
        "anyOf": [{"required": ["a"]}, {"required": ["d"]}, {"properties": {"b": {"minimum": 5}}, "required": ["b"]}],
    });
    check(&[(
        chain,
        &[r#"{"d":1}"#, r#"{"c":1,"b":7}"#, r#"{"a":1,"b":2,"c":3,"d":4}"#, r#"{"c":1,"d":1,"a":1,"b":1}"#],
        &["{}", r#"{"c":1}"#, r#"{"b":2,"c":1}"#, r#"{"b":7}"#, r#"{"a":1,"d":1}"#, r#"{"a":1,"d":1,"b":1}"#],
    )]);
    // `b` has no value: `a` must not be 0.
    let mut without = conditions(2, 0);
    without["properties"]["b0"] = json!(false);
    check(&[(without, &[r#"{"a0":1}"#, r#"{"a1":1,"b1":1}"#], &[r#"{"a0":0"#, r#"{"a1":1}"#])]);
}

#[test]
fn more_keys_than_a_parameter_has_bits_come_in_any_order() {
    let names = || (0..100).map(|i| format!("k{i}"));
    let many: Map<String, Value> = names().map(|name| (name, json!({"type": "integer"}))).collect();
    let schema = json!({"type": "object", "properties": many, "required": ["k7", "k70"], "additionalProperties": false});
    check(&[(
        schema.clone(),
        &[r#"{"k70":1,"k7":1}"#, r#"{"k99":1,"k70":1,"k0":3,"k7":1,"k71":2}"#],
        &[r#"{"k70":1}"#, r#"{"k7":1,"k70":1,"k7":1}"#, r#"{"k7":1,"k70":1,"k9":1,"k8":1,"k9":1}"#],
    )]);
    let bench = bench();
    let pristine = bench.schema(&schema).unwrap();
    let begins = |text: &str| bench.begins(&mut pristine.restart(), text).unwrap();
    // No key is begun when all keys with that beginning are in the object, and no comma follows when all keys are.
    let of_one: String = ["k3".to_owned()]
        .into_iter()
        .chain((30..40).map(|i| format!("k{i}")))
        .map(|name| format!("\"{name}\":1,"))
        .collect();
    assert!(begins(&format!(r#"{{{of_one}"k"#)) && !begins(&format!(r#"{{{of_one}"k3"#)));
    let all: String = names().collect::<Vec<_>>().iter().rev().map(|name| format!("\"{name}\":1,")).collect();
    let all = all.trim_end_matches(',');
    assert!(begins(&format!("{{{all}}}")) && !begins(&format!("{{{all},")));
}

#[test]
fn where_the_order_stays_it_is_said() {
    let many: Map<String, Value> = (0..65).map(|i| (format!("k{i}"), json!(true))).collect();
    let names: Vec<&String> = many.keys().collect();
    // Which branch it is may depend on the object that comes first.
    let branch = |i: usize| {
        let object = json!({"type": "object", "properties": {format!("p{i}"): {"type": "string"}}});
        json!({"properties": {"type": {"enum": [format!("t{i}")]}, "object": object}})
    };
    let branches: Vec<Value> = (0..18).map(branch).collect();
    let schemas = [
        json!({"type": "object", "properties": {"id": true}, "oneOf": branches}),
        json!({"type": "object", "properties": many, "required": names}),
        json!({"type": "object", "properties": many, "minProperties": 2}),
        json!({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"maxProperties": 1}]}),
    ];
    for schema in schemas {
        let narrowed = bench().schema(&schema).unwrap().narrowed().to_vec();
        assert!(narrowed.iter().any(|n| n.reason.contains("order of the schema")), "{schema}: {narrowed:?}");
    }
}

/// The value with the keys of all its objects in another order, as JSON.
fn shuffled(value: &Value, dice: &mut Dice) -> String {
    let join = |parts: Vec<String>| parts.join(",");
    match value {
        Value::Array(items) => format!("[{}]", join(items.iter().map(|item| shuffled(item, dice)).collect())),
        Value::Object(map) => {
            let member = |(name, value): (&String, &Value)| {
                format!("{}:{}", Value::from(name.as_str()), shuffled(value, dice))
            };
            let mut members: Vec<String> = map.iter().map(member).collect();
            (1..members.len()).for_each(|i| members.swap(i, dice.roll(i + 1)));
            format!("{{{}}}", join(members))
        }
        other => other.to_string(),
    }
}

/// Every fifth schema of MaskBench.
#[test]
fn instances_of_real_schemas_are_taken_in_any_order() {
    let Some(lines) = data("maskbench-dev.jsonl.gz") else { return };
    let (fixed, free, mut dice) = (Bench::new(), bench(), Dice(3));
    let (mut taken, mut ordered, mut lost) = (0, 0, Vec::new());
    for line in lines.lines().step_by(5) {
        let case: Value = serde_json::from_str(line).unwrap();
        let Ok(grammar) = fixed.schema(&case["schema"]) else { continue };
        let any = free.schema(&case["schema"]).unwrap_or_else(|e| panic!("{}: {e}", case["id"]));
        for test in case["tests"].as_array().unwrap() {
            let text = test["data"].to_string();
            let valid = test["valid"].as_bool().unwrap();
            if valid && !fixed.accepts(&mut grammar.restart(), &text).unwrap_or(false) {
                continue;
            }
            let text = shuffled(&test["data"], &mut dice);
            let accepts = free.accepts(&mut any.restart(), &text).unwrap_or(false);
            match (accepts == valid, any.narrowed().iter().any(|n| n.reason.contains("order of the schema")))
            {
                (true, _) => taken += usize::from(valid),
                (false, true) if valid => ordered += 1,
                _ => lost.push(format!("{}: {text} {valid}", case["id"])),
            }
        }
    }
    println!("{taken} taken, {ordered} where the order of the schema stays");
    assert!(lost.is_empty() && ordered * 10 < taken, "{ordered} of {taken}; {}: {lost:#?}", lost.len());
}
