//! Schemas as they are read by default: keys that are not declared are left out, optional ones stand anywhere, strings have every
//! spelling, white space is as models write it, and items that must differ do.

use super::common::Bench;
use super::differential::vocabulary_with;
use llgtrt::config::{GrammarConfig, Whitespace};
use llgtrt::grammar::GrammarSpec;
use llgtrt::grammar::spec::{Calls, JsonStyle, Tool};
use serde_json::json;

fn bench() -> Bench {
    Bench::with(&GrammarConfig { compile_seconds: 600.0, ..Default::default() })
}

#[test]
fn optional_keys_stand_anywhere_and_others_are_left_out() {
    let person = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "id": {"type": "integer"}, "age": {"type": "integer"}},
        "required": ["name", "id"],
    });
    let both = json!({"allOf": [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "integer"}}},
    ]});
    let none = json!({"type": "object", "properties": {}});
    let open = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": true});
    let free = json!({"type": "object", "required": ["a"]});
    let least = json!({"type": "object", "properties": {"a": {}}, "minProperties": 2});
    let not = json!({"type": "object", "not": {"properties": {"a": {"const": 1}}, "required": ["a"]}});
    bench().check(&[
        (
            person,
            &[
                r#"{"name":"x","id":1}"#,
                r#"{"age":2,"name":"x","id":1}"#,
                r#"{"name":"x","age":2,"id":1}"#,
                r#"{"name":"x","id":1,"age":2}"#,
            ],
            &[
                r#"{"id":1,"name":"x"}"#,
                r#"{"name":"x"}"#,
                r#"{"age":2,"name":"x","age":2,"id":1}"#,
                r#"{"name":"x","id":1,"age_2":2}"#,
            ],
        ),
        (both, &[r#"{"a":1}"#, r#"{"b":2,"a":1}"#, r#"{"a":1,"b":2}"#], &[r#"{"a":1,"c":2}"#, r#"{"b":1}"#]),
        (none, &["{}"], &[r#"{"a":1}"#]),
        (open, &["{}", r#"{"b":1,"a":2}"#, r#"{"a":1,"b":2}"#], &[r#"{"a":1,"a":2}"#]),
        (free, &[r#"{"a":1,"b":2}"#], &["{}"]),
        (least, &[r#"{"a":1,"b":2}"#], &[r#"{"a":1}"#]),
        (not, &["{}", r#"{"a":2}"#, r#"{"b":1}"#], &[r#"{"a":1}"#]),
    ]);
}

#[test]
fn what_is_left_out_is_told() {
    let narrowed = |schema| {
        let told = bench().schema(&schema).unwrap().narrowed().to_vec();
        told.into_iter().map(|one| (one.pointer, one.keyword)).collect::<Vec<_>>()
    };
    let open = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}});
    let told = narrowed(open);
    assert!(told.contains(&(String::new(), "additionalProperties".into())), "{told:?}");
    assert!(told.contains(&("/properties/a".into(), "additionalProperties".into())), "{told:?}");
    let closed = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
    assert!(narrowed(closed).is_empty());
    let unique = json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true});
    assert!(narrowed(unique).is_empty(), "the filter is exact");
}

#[test]
fn strings_have_every_spelling_and_names_one() {
    bench().check(&[
        (
            json!({"type": "string", "maxLength": 2}),
            &[r#""é""#, r#""\u00e9\u00E9""#, r#""\/\n""#, r#""\ud83d\ude00x""#],
            &[r#""\u00e9\u00e9\u00e9""#, r#""\ud83d""#, r#""\ud83dx""#],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            &[r#"{"é":1}"#],
            &[r#"{"\u00e9":1}"#, r#"{"\u0001":1}"#],
        ),
        (json!({"not": {"enum": ["a"]}}), &[r#""b""#], &[r#""\u0061""#]),
        (json!({"enum": ["\u{1b}", "é"]}), &[r#""\u001b""#, r#""é""#], &[r#""\u00e9""#]),
    ]);
}

#[test]
fn white_space_is_as_models_write_it() {
    let list = json!({"type": "array", "items": {"type": "integer"}});
    bench().check(&[(
        list.clone(),
        &["[1,2]", " [1, 2]", "[\n\t1,\n\t2\n]", "[\r\n  1,\r\n  2\r\n]", "[\n]"],
        &["  [1]", "\n[1]", "[1 ,2]", "[1,  2]", "[\n\n1]", "[\t1]", "[\r1]"],
    )]);
    let compact = GrammarConfig { whitespace: Whitespace::Compact, ..Default::default() };
    Bench::with(&compact).check(&[(list, &["[1,2]"], &["[1, 2]", " [1]", "[\n1]"])]);
}

#[test]
fn items_that_must_differ_do() {
    let of = |items| json!({"type": "array", "items": items, "uniqueItems": true});
    let person = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}});
    let inner = json!({
        "type": "object",
        "properties": {"x": of(json!({"type": "integer"})), "y": {"type": "array", "items": of(json!({}))}},
    });
    let code = of(json!({"type": "string", "pattern": "^[AB]{2}$"}));
    let beside = json!({"type": "array", "uniqueItems": true, "prefixItems": [{"type": "string"}], "items": {"type": "integer"}});
    bench().check(&[
        (
            of(json!({"type": "integer"})),
            &["[]", "[101,102,103]", "[10,101,1]", "[1,10,100]"],
            &["[1,1]", "[1,10,1]", "[101, 102, 101]", "[-0]"],
        ),
        (of(json!({"type": "number"})), &["[1,1.5]"], &["[1,1.0]", "[10,1e1]"]),
        (
            of(json!({"type": "string"})),
            &[r#"["a","ab","b"]"#, r#"["","a"]"#],
            &[r#"["a","a"]"#, r#"["a","b","\u0061"]"#, r#"["",""]"#],
        ),
        (
            of(person),
            &[r#"[{"a":1},{"a":2}]"#, r#"[{"a":1,"b":"x"},{"a":1,"b":"y"}]"#],
            &[r#"[{"a":1},{"a":1}]"#, r#"[{"a":1,"b":"x"},{"b":"x","a":1}]"#, "[{},{}]"],
        ),
        (
            inner,
            &[r#"{"x":[1,2],"y":[[1],[1]]}"#, r#"{"y":[["a",1],[]],"x":[2]}"#],
            &[r#"{"x":[1,1]}"#, r#"{"y":[[1],[2,2]]}"#, r#"{"y":[[[1],[1]]]}"#],
        ),
        (code, &[r#"["AA","AB","BA","BB"]"#], &[r#"["AA","AA"]"#, r#"["AA","AB","BA","BB","AA"]"#]),
        (beside, &[r#"["a",1,2]"#], &[r#"["a",1,1]"#]),
        (json!({"uniqueItems": true}), &[r#"[1,"1",[1],{"a":1}]"#, "3"], &[r#"[{"a":1},{"a":1.0}]"#]),
    ]);
}

#[test]
fn no_object_has_a_key_twice() {
    let open = json!({"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": {"type": "null"}});
    let least = json!({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 3});
    let two = json!({"type": "object", "patternProperties": {"^[ab]$": {"type": "integer"}}, "additionalProperties": false});
    let both = json!({"allOf": [two, {"minProperties": 2}]});
    let named =
        json!({"type": "object", "properties": {"id": {}}, "additionalProperties": true, "minProperties": 6});
    bench().check(&[
        (
            json!({"type": "object"}),
            &[r#"{"a":1,"aa":2,"b":{"a":1,"b":2},"":[{"a":1},{"a":1}]}"#, r#"{"a":"a","b":"\"a\":1"}"#],
            &[
                r#"{"a":1,"a":2}"#,
                r#"{"":1,"":1}"#,
                r#"{"b":{"x":[{"k":1,"k":1}]}}"#,
                r#"{"a":{},"b":1,"a":{}}"#,
            ],
        ),
        (json!({}), &[r#"[{"a":1},{"a":1}]"#], &[r#"[{"a":1,"a":1}]"#]),
        (open, &[r#"{"x":null,"id":1,"y":null}"#], &[r#"{"x":null,"id":1,"x":null}"#, r#"{"id":1,"id":1}"#]),
        (
            least,
            &[r#"{"x1":1,"x2":2,"x3":3}"#, r#"{"":1,"a":1,"aa":1,"b":1}"#],
            &[r#"{"x1":1,"x2":2}"#, r#"{"a":1,"a":1,"a":1}"#],
        ),
        (two, &["{}", r#"{"b":1,"a":2}"#], &[r#"{"a":1,"a":1}"#, r#"{"c":1}"#]),
        (both, &[r#"{"a":1,"b":2}"#], &["{}", r#"{"a":1}"#, r#"{"a":1,"a":2}"#]),
        (
            named,
            &[r#"{"id":1,"k1":0,"k2":0,"k3":0,"k4":0,"k5":0}"#],
            &[r#"{"id":1,"k1":0,"k2":0,"k3":0,"k4":0}"#],
        ),
    ]);
    let three = json!({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "minProperties": 3});
    assert!(bench().schema(&three).is_err());
}

#[test]
fn white_space_may_stand_behind_the_last_bracket_in_its_token() {
    let schema = json!({"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}, "uniqueItems": true}}});
    for (whitespace, allowed) in [(Whitespace::Natural, true), (Whitespace::Compact, false)] {
        let config = GrammarConfig { whitespace, ..GrammarConfig::default() };
        let bench = Bench::of(vocabulary_with(&["]}\n"]), &config, 1);
        let mut grammar = bench.schema(&schema).unwrap();
        assert!(bench.begins(&mut grammar, r#"{"ids":[1"#).unwrap());
        let mask = grammar.mask().unwrap().mask().unwrap().clone();
        let last = mask.iter().find(|token| bench.vocab.bytes(*token) == b"]}\n");
        assert_eq!(last.is_some(), allowed);
        if let Some(last) = last {
            grammar.commit(last).unwrap();
            assert!(grammar.is_ended());
        }
        // White space alone never comes behind a text.
        for (root, text) in
            [(json!({"type": "integer"}), "1"), (json!({"type": "array", "maxItems": 0}), "[]")]
        {
            let mut grammar = bench.schema(&root).unwrap();
            assert!(bench.begins(&mut grammar, text).unwrap() && bench.may_end(&mut grammar).unwrap());
            let mask = grammar.mask().unwrap().mask().unwrap().clone();
            assert!(mask.iter().all(|token| !bench.vocab.bytes(token).contains(&b'\n')), "{root}");
        }
    }
}

/// Texts drawn from masks never come to a place with no way on.
fn never_stuck(bench: &Bench, schema: &serde_json::Value) {
    for seed in 0..40 {
        let mut grammar = bench.schema(schema).unwrap();
        let mut dice = super::common::Dice(seed);
        for _ in 0..200 {
            if grammar.is_ended() {
                break;
            }
            let next = grammar.mask().unwrap_or_else(|e| panic!("{schema}: {e}"));
            let mask = next.mask().unwrap();
            let all: Vec<_> = mask.iter().collect();
            let token = all[dice.roll(all.len())];
            if bench.vocab.eog().contains(&token) {
                break;
            }
            grammar.commit(token).unwrap();
        }
    }
}

/// Where all values have been there, no further item begins: the mask never runs empty.
#[test]
fn no_text_comes_to_a_place_with_no_way_on() {
    let pair = json!({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, 2]}}});
    let bench = bench();
    for items in [
        json!({"type": "string", "pattern": "^(a|ab|b)[01]?$"}),
        json!({"type": "integer"}),
        json!({"type": "boolean"}),
        json!({"enum": [0, 1, null, "a", "ab"]}),
        pair,
        json!({}),
        // The same object with other white space is the same.
        json!({"enum": [null, {"a": null}]}),
    ] {
        let schema = json!({"type": "array", "items": items, "uniqueItems": true, "maxItems": 9});
        never_stuck(&bench, &schema);
    }
    // The value of the first item decides whether one is left for the second.
    let few = json!([{"enum": [1, 2, 3]}, {"enum": [1, 2]}, {"const": 1}]);
    let tuple = |items: serde_json::Value, least: u32| json!({"type": "array", "uniqueItems": true, "prefixItems": items, "minItems": least, "maxItems": 4});
    never_stuck(&bench, &tuple(few.clone(), 3));
    never_stuck(&bench, &tuple(few, 2));
    never_stuck(&bench, &tuple(json!([{"enum": [1, "a"]}, {"type": "string"}, {"const": 1}]), 3));
    // What can only become an item that has been there is not begun, whatever the schema says of other items.
    for (rest, text) in [
        (json!({}), "[null,n"),
        (json!({"items": {}}), "[true,t"),
        // However many digits the exponent has, it is 0.
        (json!({}), "[0,0E"),
        (json!({"items": {"type": "number", "minimum": 1}}), "[2,2.0000000000000000"),
        (json!({"prefixItems": [{"type": "string"}]}), r#"["a",null,n"#),
        (json!({"contains": {"type": "string"}}), r#"["a",null,n"#),
    ] {
        let mut schema = json!({"type": "array", "uniqueItems": true});
        schema.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let begins = |text| bench.begins(&mut bench.schema(&schema).unwrap(), text).unwrap();
        assert!(!begins(text) && begins(&text[..text.len() - 1]), "{schema}");
    }
}

/// Whether the mask behind a text allows the token with these bytes.
fn allows(bench: &Bench, schema: &serde_json::Value, text: &str, bytes: &[u8]) -> bool {
    let mut grammar = bench.schema(schema).unwrap();
    assert!(bench.begins(&mut grammar, text).unwrap(), "{text}");
    let mask = grammar.mask().unwrap().mask().unwrap().clone();
    let token = (0..bench.vocab.len() as u32).find(|token| bench.vocab.bytes(*token) == bytes).unwrap();
    mask.allows(token)
}

/// A single token may be the beginning of a key. It is not allowed where only a key of the same object could go on so.
#[test]
fn no_token_begins_a_key_that_has_been_there() {
    let schema = json!({"type": "object", "propertyNames": {"pattern": "^[a-m]{2}$"}, "additionalProperties": {"type": "string"}});
    let bench = Bench::of(vocabulary_with(&["\"ab", "\",\"ab", "\":\""]), &GrammarConfig::default(), 1);
    let allows = |text: &str, bytes: &[u8]| allows(&bench, &schema, text, bytes);
    assert!(allows("{", b"\"ab") && allows(r#"{"aa":"",""#, b"a"));
    assert!(allows(r#"{"aa":"x"#, b"\",\"ab") && allows(r#"{"aa":"x","#, b"\"ab"));
    assert!(!allows(r#"{"ab":"x"#, b"\",\"ab") && !allows(r#"{"ab":"x","#, b"\"ab"));
}

/// Of a long list of optional keys, the grammar does not remember which have been there.
#[test]
fn no_key_of_many_is_begun_that_can_only_be_one_that_has_been_there() {
    let names: Vec<String> = (0..8).flat_map(|a| (0..10).map(move |b| format!("k{a}{b}"))).collect();
    let written: Vec<String> = names[..10].iter().map(|name| format!("{name:?}:0")).collect();
    let text = format!("{{{},", written.join(","));
    let joined = text.trim_end_matches("0,");
    let bench = Bench::of(vocabulary_with(&["\"k0", "0,\"k0", "\"k", "k0"]), &GrammarConfig::default(), 1);
    for (rest, may) in [
        (json!({}), false),
        (json!({"additionalProperties": false}), false),
        (json!({"patternProperties": {"^x-": {}}, "additionalProperties": false}), false),
        (json!({"patternProperties": {"^(x|y)$": {}}, "additionalProperties": false}), false),
        (json!({"patternProperties": {"^k0x": {}}, "additionalProperties": false}), true),
        (json!({"patternProperties": {"^(k0x|y)$": {}}, "additionalProperties": false}), true),
        (json!({"patternProperties": {"^x-": {"type": "null"}}, "additionalProperties": {}}), true),
        (json!({"additionalProperties": true}), true),
        (json!({"propertyNames": {"maxLength": 3}, "additionalProperties": {}}), true),
        (json!({"propertyNames": {"pattern": "^(k..|x)$"}, "additionalProperties": {}}), true),
        (json!({"propertyNames": {"enum": names}, "additionalProperties": {}}), false),
    ] {
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| (name.clone(), json!({"type": "integer"}))).collect();
        let mut schema = json!({"type": "object", "properties": properties});
        schema.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let inside = format!("{text}\"");
        for (text, bytes) in
            [(&*text, &b"\"k0"[..]), (joined, b"0,\"k0"), (&inside, b"k0"), (&format!("{inside}k"), b"0")]
        {
            assert_eq!(allows(&bench, &schema, text, bytes), may, "{rest} {text}");
        }
        assert!(allows(&bench, &schema, &text, b"\"k"), "{rest}");
        let again = format!("{inside}k00\"");
        assert!(!bench.begins(&mut bench.schema(&schema).unwrap(), &again).unwrap(), "{rest}");
    }
}

#[test]
fn a_request_says_how_its_json_is_written() {
    let bench = bench();
    let schema = json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]});
    let takes = |style: serde_json::Value, text: &str| {
        let style: JsonStyle = serde_json::from_value(style).unwrap();
        let grammar = Box::new(GrammarSpec::JsonSchema(schema.to_string()));
        bench.accepts(&mut bench.compile(&GrammarSpec::Styled { style, grammar })?, text)
    };
    let yes = |style, text| takes(style, text).unwrap();
    assert!(yes(json!({}), r#"{"a":1, "b":2}"#) && !yes(json!({}), r#"{"b":2,"c":3}"#));
    assert!(!yes(json!({"whitespace": "compact"}), r#"{"a":1, "b":2}"#));
    assert!(yes(json!({"undeclared_keys": "schema"}), r#"{"b":2,"c":3}"#));
    assert!(!yes(json!({"key_order": "schema"}), r#"{"b":2,"a":1}"#));
    let two = json!({"whitespace_pattern": r"\s{2}"});
    assert!(yes(two.clone(), r#"{  "b":  2}"#) && !yes(two.clone(), r#"{ "b":2}"#));
    assert!(!yes(two, "{\u{a0}\u{a0}\"b\":2}"), "no white space of JSON");
    for pattern in ["x?", "(", "^ $"] {
        assert!(takes(json!({"whitespace_pattern": pattern}), "{}").is_err(), "{pattern}");
    }
}

#[test]
fn a_known_function_keeps_its_style_and_its_notes() {
    let bench = bench();
    let tool = |(at, key): (usize, &&str)| Tool {
        name: key.to_string(),
        schema: json!({"type": "object", "properties": {*key: {"type": "integer"}}, "required": [key]})
            .to_string(),
        at: format!("/tools/{at}"),
        types: Default::default(),
    };
    let calls = |keys: &[&str]| {
        let text = |text: &str| text.to_owned();
        let tools = keys.iter().enumerate().map(tool).collect();
        let (before, between, after) = (text("<"), text(">"), text("</>"));
        let [open, close, begun] = ["", "", ""].map(text);
        GrammarSpec::Calls(Box::new(Calls {
            tools,
            open,
            before,
            between,
            betweens: Vec::new(),
            after,
            separator: None,
            close,
            begun,
            or: None,
            lead: String::new(),
            parameters: None,
            except: None,
        }))
    };
    for keys in [&["n"][..], &["m", "n"], &["n", "k", "m"]] {
        let grammar = bench.compile(&calls(keys)).unwrap();
        let noted: Vec<&str> = grammar.narrowed().iter().map(|one| &*one.pointer).collect();
        assert_eq!(noted, (0..keys.len()).map(|at| format!("/tools/{at}")).collect::<Vec<_>>());
        for key in ["n", "m", "k"] {
            let taken = bench.accepts(&mut grammar.restart(), &format!("<{key}>{{\"{key}\": 1}}</>"));
            assert_eq!(taken, Ok(keys.contains(&key)), "{key} among {keys:?}");
        }
    }
    let style = JsonStyle { whitespace: Some(Whitespace::Compact), ..JsonStyle::default() };
    let compact = GrammarSpec::Styled { style, grammar: Box::new(calls(&["n"])) };
    let grammar = bench.compile(&compact).unwrap();
    for (text, expected) in [("<n>{\"n\": 1}</>", false), ("<n>{\"n\":1}</>", true)] {
        assert_eq!(bench.accepts(&mut grammar.restart(), text), Ok(expected), "{text}");
    }
}
