//! Each refusal names the place and the keyword.

use super::common::{Bench, by_the_letter};
use llgtrt::config::{Formats, GrammarConfig, UnknownFormat};
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

/// Whether or not the values that they speak of are of a type that may come.
#[test]
fn keywords_of_another_kind_are_found() {
    let property = |schema: Value| json!({"type": "object", "properties": {"p": schema}});
    let at = "/properties/p";
    check(&[
        (property(json!({"type": "string", "uniqueItems": "yes"})), at, "uniqueItems"),
        (property(json!({"type": "string", "required": true})), at, "required"),
        (property(json!({"type": "string", "properties": ["a"]})), at, "properties"),
        (property(json!({"type": "object", "patternProperties": true})), at, "patternProperties"),
        (property(json!({"type": "array", "minLength": "3"})), at, "minLength"),
        (property(json!({"type": "array", "maxProperties": 1.5})), at, "maxProperties"),
        (property(json!({"type": "array", "minimum": "0"})), at, "minimum"),
        (property(json!({"type": "integer", "items": "string"})), at, "items"),
        (property(json!({"type": "integer", "additionalProperties": "no"})), at, "additionalProperties"),
        (property(json!({"anyOf": {"type": "null"}})), at, "anyOf"),
        (property(json!({"type": "float"})), at, "type"),
        (json!({"$schema": "http://json-schema.org/draft-03/schema#", "type": "string"}), "", "$schema"),
    ]);
    let bench = Bench::new();
    for (name, meant) in [("float", "number"), ("String", "string"), ("dict", "object"), ("int", "integer")] {
        let Err(error) = bench.schema(&json!({"type": name})) else { panic!("{name}") };
        assert!(error.to_string().contains(&format!("did you mean \"{meant}\"?")), "{error}");
        assert!(bench.schema(&json!({"type": meant})).is_ok());
    }
}

/// What an engine has and ECMA-262 has not, by its place.
#[test]
fn patterns_of_another_flavour_are_refused() {
    let bench = Bench::new();
    for (pattern, place) in [
        (r"^\z$", "character 3"),
        ("a(?s)b", "character 5"),
        ("ab++", "character 4"),
        ("(?i)a", "character 4"),
        ("a+?*", "character 4"),
    ] {
        let Err(error) = bench.schema(&json!({"type": "string", "pattern": pattern})) else {
            panic!("{pattern}")
        };
        assert!(error.to_string().contains(place), "{error}");
    }
    for pattern in ["(?:a+)+", "[*+?]+", "a{2}?", "a+?b", r"\d\w\s\b", "(?<n>a)", "a{,2}b"] {
        assert!(bench.schema(&json!({"type": "string", "pattern": pattern})).is_ok(), "{pattern}");
    }
}

#[test]
fn what_nothing_satisfies_is_found() {
    let at = "/properties/p";
    let all = |schema: Value| json!({"type": "object", "properties": {"p": schema}, "required": ["p"]});
    check(&[
        (all(json!({"not": {}})), at, "not"),
        (all(json!({"type": "string", "minLength": 3, "maxLength": 2})), at, "minLength"),
        (all(json!({"allOf": [{"type": "string"}, {"type": "integer"}]})), at, "allOf"),
        (all(json!({"type": "array", "contains": {"const": 1}, "maxItems": 0})), at, "contains"),
        (
            all(json!({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": true, "minItems": 3})),
            at,
            "items",
        ),
        (all(json!({"const": [1, 1], "uniqueItems": true})), at, "const"),
        (all(json!({"oneOf": [{"type": "null"}, {"const": null}]})), at, "oneOf"),
        (json!({"type": "object", "required": ["a"], "properties": {"a": false}}), "", "required"),
        (json!({"$ref": "#"}), "", "$ref"),
        (
            json!({"$ref": "#/$defs/list", "$defs": {"list":
                {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/$defs/list"}}}}}),
            "/$defs/list/properties/next",
            "$ref",
        ),
    ]);
}

#[test]
fn what_is_left_out_is_not_said_to_satisfy_nothing() {
    for format in ["idn-hostname", "regex"] {
        let schema = json!({"type": "string", "not": {"format": format}});
        let Err(Error::Grammar { why, .. }) = Bench::new().schema(&schema) else { panic!("{schema}") };
        let less = "nothing satisfies what can be enforced of it: only a part of this format can be said";
        assert!(why.starts_with(less), "{why}");
    }
}

#[test]
fn values_that_nobody_enforces() {
    let at = "/items/properties/p";
    check(&[
        (nested(json!({"type": "text"})), at, "type"),
        (nested(json!({"$ref": "#/$defs/none"})), at, "$ref"),
        (nested(json!({"$ref": "https://example.com/other.json"})), at, "$ref"),
        (nested(json!({"type": "string", "pattern": "(a)\\1"})), at, "pattern"),
        (nested(json!({"enum": [1e300]})), at, "enum"),
        (nested(json!({"required": [1]})), at, "required"),
        (nested(json!({"oneOf": {}})), at, "oneOf"),
        (nested(json!({"not": {"$ref": "#/items/properties/p"}})), at, "$ref"),
        (nested(json!({"type": "string", "pattern": "(?<=a)b"})), at, "pattern"),
        (nested(json!({"type": "string", "pattern": r"(a)\1"})), at, "pattern"),
        (nested(json!({"type": "string", "pattern": r"(?:\bword)+"})), at, "pattern"),
        (nested(json!({"type": "string", "pattern": "a\\"})), at, "pattern"),
        (nested(json!({"type": "string", "minLength": -1})), at, "minLength"),
        (nested(json!({"type": "number", "multipleOf": 0})), at, "multipleOf"),
        (nested(json!({"type": "integer", "multipleOf": 1_000_003})), at, "multipleOf"),
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
    let list = json!({"grammars": [{"json_schema": {"items": {"pattern": "(a)\\1"}}}]});
    let (pointer, keyword) = refusal(&bench, &GrammarSpec::Llguidance(list.to_string()));
    assert_eq!((pointer.as_str(), keyword.as_str()), ("/grammars/0/json_schema/items", "pattern"));
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
fn an_unknown_format_can_be_refused_and_so_can_narrower_sets() {
    let schema = |schema: Value| GrammarSpec::JsonSchema(schema.to_string());
    let color = schema(json!({"type": "string", "format": "color"}));
    let equal = schema(json!({"anyOf": [{"type": "null"}, {"type": "array", "not": {"uniqueItems": true}}]}));
    assert!(Bench::new().compile(&color).is_ok() && Bench::new().compile(&equal).is_ok());
    let strict = GrammarConfig { unknown_format: UnknownFormat::Refuse, narrow: false, ..by_the_letter() };
    let bench = Bench::with(&strict);
    assert_eq!(refusal(&bench, &color), (String::new(), "format".into()));
    assert_eq!(refusal(&bench, &equal), (String::new(), "uniqueItems".into()));
}

#[test]
fn formats_can_be_annotations() {
    let bench = Bench::with(&GrammarConfig { formats: Formats::Annotate, ..by_the_letter() });
    for name in ["date", "hostname", "color"] {
        let schema = json!({"type": "string", "format": name, "maxLength": 5});
        assert!(bench.satisfies(&schema, r#"" no!""#) && !bench.satisfies(&schema, r#"" no!!!""#), "{name}");
        let denied = json!({"type": "string", "not": {"format": name}});
        assert_eq!(refusal(&bench, &GrammarSpec::JsonSchema(denied.to_string())).1, "not", "{name}");
    }
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
