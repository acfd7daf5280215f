//! Each refusal names the place and the keyword.

use super::common::Bench;
use llgtrt::config::{GrammarConfig, UnknownFormat};
use llgtrt::error::Error;
use llgtrt::grammar::GrammarSpec;
use serde_json::{Value, json};

/// Schema, pointer, keyword.
type Row = (Value, &'static str, &'static str);

fn refusal(bench: &Bench, spec: &GrammarSpec) -> (String, String) {
    match bench.compile(spec) {
        Err(Error::Grammar { pointer, keyword, .. }) => (pointer, keyword),
        Err(other) => panic!("{other} for {spec:?}"),
        Ok(_) => panic!("{spec:?} is not refused"),
    }
}

fn check(rows: &[Row]) {
    let bench = Bench::new();
    for (schema, pointer, keyword) in rows {
        let spec = GrammarSpec::JsonSchema(schema.to_string());
        let (p, k) = refusal(&bench, &spec);
        assert_eq!((p.as_str(), k.as_str()), (*pointer, *keyword), "{schema}");
    }
}

/// The schema as property `p` of an object in a list.
fn nested(schema: Value) -> Value {
    json!({"type": "array", "items": {"type": "object", "properties": {"o": {}, "p": schema}}})
}

#[test]
fn keywords_that_nobody_enforces() {
    let at = "/items/properties/p";
    check(&[
        (nested(json!({"not": {"type": "string"}})), at, "not"),
        (nested(json!({"if": {"type": "string"}, "then": {"minLength": 1}})), at, "if"),
        (nested(json!({"contains": {"const": 1}})), at, "contains"),
        (nested(json!({"type": "array", "uniqueItems": true})), at, "uniqueItems"),
        (nested(json!({"propertyNames": {"maxLength": 3}})), at, "propertyNames"),
        (nested(json!({"dependentRequired": {"a": ["b"]}})), at, "dependentRequired"),
        (nested(json!({"dependentSchemas": {"a": {"required": ["b"]}}})), at, "dependentSchemas"),
        (nested(json!({"dependencies": {"a": ["b"]}})), at, "dependencies"),
        (nested(json!({"unevaluatedProperties": false, "allOf": [{}]})), at, "unevaluatedProperties"),
        (nested(json!({"unevaluatedItems": false, "anyOf": [{}]})), at, "unevaluatedItems"),
        (nested(json!({"$dynamicRef": "#node"})), at, "$dynamicRef"),
        (nested(json!({"contains": {"const": 1}, "minContains": 2})), at, "contains"),
        (json!({"anyOf": [{"type": "string"}, {"not": {}}]}), "/anyOf/1", "not"),
        (json!({"oneOf": [{"type": "string"}, {"type": "null", "not": {}}]}), "/oneOf/1", "not"),
        (json!({"allOf": [{}, {"items": {"not": {}}}]}), "/allOf/1/items", "not"),
        (json!({"prefixItems": [{}, {"not": {}}]}), "/prefixItems/1", "not"),
        (json!({"additionalProperties": {"not": {}}}), "/additionalProperties", "not"),
        (json!({"patternProperties": {"^a/b~": {"not": {}}}}), "/patternProperties/^a~1b~0", "not"),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"not": {}}}}}), "/$defs/a/items", "not"),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}, {"not": {}}]}),
            "/items/1",
            "not",
        ),
    ]);
}

#[test]
fn values_that_nobody_enforces() {
    let at = "/items/properties/p";
    check(&[
        (nested(json!({"type": "string", "format": "color"})), at, "format"),
        (nested(json!({"type": "string", "format": "unknown"})), at, "format"),
        (nested(json!({"type": "text"})), at, "type"),
        (nested(json!({"$ref": "#/$defs/none"})), at, "$ref"),
        (nested(json!({"$ref": "https://example.com/other.json"})), at, "$ref"),
        (nested(json!({"type": "string", "pattern": "(?=a)b"})), at, "pattern"),
        (nested(json!({"type": "string", "pattern": r"(a)\1"})), at, "pattern"),
        (nested(json!({"type": "string", "pattern": r"\bword\b"})), at, "pattern"),
        (nested(json!({"type": "string", "pattern": "a\\"})), at, "pattern"),
        (nested(json!({"patternProperties": {"^a": {}, "b$": {}}})), at, "patternProperties"),
        (nested(json!({"type": "string", "minLength": -1})), at, "minLength"),
        (nested(json!({"type": "object", "properties": {"a": {}}, "minProperties": 2})), at, "minProperties"),
        (nested(json!({"oneOf": [{"type": "integer"}, {"type": "number"}]})), at, "oneOf"),
        (nested(json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]})), at, "oneOf"),
        (nested(json!({"enum": [9_007_199_254_740_993_i64]})), at, "enum"),
        (nested(json!({"type": "number", "multipleOf": 0})), at, "multipleOf"),
        (nested(json!({"type": "integer", "multipleOf": 1_000_003})), at, "multipleOf"),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 2}}}),
            "/properties/a",
            "minLength",
        ),
        (json!({"allOf": [{"type": "string"}, {"type": "integer"}]}), "", "allOf"),
        (json!({"type": "object", "required": ["a"], "properties": {"a": false}}), "", "required"),
        (json!({"$ref": "#"}), "", "$ref"),
        (json!({"x-guidance": {"lenient": true}}), "", "x-guidance"),
        (json!(false), "", "false"),
        (json!([]), "", "schema"),
    ]);
}

#[test]
fn specs_that_are_not_schemas_name_their_kind() {
    let bench = Bench::new();
    let long = "a".repeat(70_000);
    let rows = [
        (GrammarSpec::JsonSchema("{\"type\":".into()), "schema"),
        (GrammarSpec::JsonSchema("[".repeat(200_000)), "schema"),
        (GrammarSpec::Regex("(a".into()), "regex"),
        (GrammarSpec::Regex("a\\".into()), "regex"),
        (GrammarSpec::Regex(long.clone()), "regex"),
        (GrammarSpec::LarkGrammar("start: nothing".into()), "lark_grammar"),
        (GrammarSpec::LarkGrammar("start: <|no_such_token|>".into()), "lark_grammar"),
        (GrammarSpec::LarkGrammar(format!("start: \"{long}\"")), "lark_grammar"),
        (GrammarSpec::Llguidance("{\"grammars\":[],\"max_tokens\":3}".into()), "llguidance"),
        (GrammarSpec::Choice(Vec::new()), "choice"),
    ];
    for (spec, kind) in rows {
        assert_eq!(refusal(&bench, &spec), (String::new(), kind.to_owned()));
    }
    let list = json!({"grammars": [{"json_schema": {"items": {"not": {}}}}]});
    let (pointer, keyword) = refusal(&bench, &GrammarSpec::Llguidance(list.to_string()));
    assert_eq!((pointer.as_str(), keyword.as_str()), ("/grammars/0/json_schema/items", "not"));
}

#[test]
fn messages_hold_no_backtrace_and_no_token_list() {
    let bench = Bench::new();
    let specs = [
        GrammarSpec::LarkGrammar("start: <|no_such_token|>".into()),
        GrammarSpec::JsonSchema(json!({"type": "string", "pattern": "(?=a)b"}).to_string()),
        GrammarSpec::JsonSchema(json!({"$ref": "#"}).to_string()),
    ];
    for spec in specs {
        let text = bench.compile(&spec).map(|_| ()).unwrap_err().to_string();
        assert!(text.len() < 700 && !text.contains("backtrace") && !text.contains("im_start"), "{text}");
    }
}

#[test]
fn what_has_no_effect_is_no_reason_to_refuse() {
    let bench = Bench::new();
    let schemas = [
        json!({"type": "array", "uniqueItems": false, "items": {"type": "integer"}}),
        json!({"type": "string", "uniqueItems": true, "contains": {}, "propertyNames": {"maxLength": 1}}),
        json!({"type": "array", "uniqueItems": true, "maxItems": 1}),
        json!({"then": {"not": {}}, "type": "integer"}),
        json!({"if": {"not": {}}, "type": "integer"}),
        json!({"type": "object", "unevaluatedProperties": true, "dependentRequired": {}}),
        json!({"type": "object", "propertyNames": {"type": "string"}}),
        json!({"type": "array", "contains": {"const": 1}, "minContains": 0}),
        json!({"$defs": {"unused": {"not": {}}}, "type": "integer", "format": "int32"}),
        json!({"type": "string", "properties": {"a": {"not": {}}}}),
        json!({"$dynamicAnchor": "node", "type": "integer"}),
        json!({"minContains": 3, "maxContains": 4, "type": "integer"}),
        json!({"type": "string", "minLength": 2.0}),
        json!({"type": ["string", "null"], "nullable": true, "discriminator": {"propertyName": "a"}}),
    ];
    for schema in schemas {
        assert!(bench.schema(&schema).is_ok(), "{schema}: {:?}", bench.schema(&schema).map(|_| ()));
    }
}

#[test]
fn an_unknown_format_can_be_ignored() {
    let schema = GrammarSpec::JsonSchema(json!({"type": "string", "format": "color"}).to_string());
    let ignore = GrammarConfig { unknown_format: UnknownFormat::Ignore, ..GrammarConfig::default() };
    assert!(Bench::with(&ignore).compile(&schema).is_ok());
}

#[test]
fn other_ways_to_say_the_same_are_enforced() {
    let bench = Bench::new();
    let closed = json!({"properties": {"a": {}}, "unevaluatedProperties": false, "type": "object"});
    assert!(bench.satisfies(&closed, r#"{"a":1}"#) && !bench.satisfies(&closed, r#"{"b":1}"#));
    let tuple = json!({"type": "array", "prefixItems": [{"const": 1}], "anyOf": [{}], "items": false});
    assert!(bench.satisfies(&tuple, "[1]") && !bench.satisfies(&tuple, "[1,2]"));
    let old = json!({"items": [{"const": 1}], "anyOf": [{}], "additionalItems": false, "type": "array"});
    assert!(bench.satisfies(&old, "[1]") && !bench.satisfies(&old, "[1,2]"));
    let both = json!({"type": "array", "prefixItems": [{"const": 1}], "additionalItems": false});
    assert!(bench.satisfies(&both, "[1,2]") && !bench.satisfies(&both, "[2]"));
    let bound = json!({"type": "integer", "exclusiveMinimum": true, "anyOf": [{}], "minimum": 5});
    assert!(bench.satisfies(&bound, "6") && !bench.satisfies(&bound, "5"));
    let cat = json!({"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]});
    let dog = json!({"type": "object", "properties": {"kind": {"const": "dog"}}, "required": ["kind"]});
    let union = json!({
        "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}},
        "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
        "$defs": {"Cat": cat, "Dog": dog},
    });
    assert!(bench.satisfies(&union, r#"{"kind":"dog"}"#) && !bench.satisfies(&union, r#"{"kind":"cow"}"#));
}

#[test]
fn dates_are_days_that_exist() {
    let bench = Bench::new();
    let rows = [
        ("2023-02-28", true),
        ("2023-02-29", false),
        ("2024-02-29", true),
        ("1900-02-29", false),
        ("2000-02-29", true),
        ("2023-04-31", false),
        ("2023-12-31", true),
        ("2023-13-01", false),
    ];
    for (day, exists) in rows {
        let date = json!({"type": "string", "format": "date"});
        assert_eq!(bench.satisfies(&date, &format!("\"{day}\"")), exists, "{day}");
        let time = json!({"type": "string", "format": "date-time", "pattern": "Z$"});
        assert_eq!(bench.satisfies(&time, &format!("\"{day}T10:00:00Z\"")), exists, "{day}");
    }
}
