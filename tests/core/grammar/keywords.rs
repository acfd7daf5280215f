//! Each keyword of JSON Schema, alone and with others: which texts a grammar takes.

use super::common::{Bench, Row};
use serde_json::{Map, Value, json};

fn check(rows: &[Row]) {
    Bench::new().check(rows);
}

#[test]
fn complements() {
    let open =
        json!({"type": "object", "not": {"properties": {"a": {"type": "integer"}}, "required": ["b"]}});
    check(&[
        (json!({"not": {"type": ["integer", "object"]}}), &["1.5", "\"a\"", "null", "[1]"], &["1", "{}"]),
        (json!({"type": "integer", "not": {"minimum": 3}}), &["2", "-7"], &["3", "10"]),
        (json!({"type": "integer", "not": {"multipleOf": 5}}), &["1", "104"], &["0", "5", "-100"]),
        (
            json!({"type": "string", "anyOf": [{"not": {"const": "ab"}}, {"minLength": 5}]}),
            &["\"b\"", "\"abcde\""],
            &["\"ab\"", "PK^", "7"],
        ),
        (json!({"type": "string", "not": {"pattern": "^a"}}), &["\"b\"", "\"\""], &["\"a\"", "\"ab\""]),
        (json!({"type": "string", "not": {"enum": ["a", "b"]}}), &["\"c\"", "\"ab\""], &["\"a\"", "\"b\""]),
        (
            json!({"type": "array", "not": {"items": {"type": "integer"}}}),
            &["[1,null]", "[\"a\"]"],
            &["[]", "[1]"],
        ),
        (json!({"type": "object", "not": {"required": ["a"]}}), &["{}", r#"{"b":1}"#], &[r#"{"a":1}"#]),
        (open, &["{}", r#"{"a":"x"}"#, r#"{"a":"x","b":1}"#], &[r#"{"a":1,"b":1}"#, r#"{"b":1}"#]),
        (
            json!({"type": "object", "not": {"additionalProperties": {"type": "integer"}}}),
            &[r#"{"a":1,"b":"x"}"#],
            &["{}", r#"{"a":1}"#, r#"{"b":"x","b":1}"#],
        ),
    ]);
}

#[test]
fn multiples_and_what_must_not_be_one() {
    let all_of = json!({"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6},
        {"not": {"multipleOf": 9}}, {"not": {"enum": [24]}}], "minimum": 1});
    check(&[
        (json!({"type": "integer", "not": {"multipleOf": 3}}), &["1", "-7", "100"], &["0", "3", "-111"]),
        (all_of, &["12", "48", "60"], &["24", "36", "-12", "16", "0"]),
        (
            json!({"type": "number", "not": {"multipleOf": 0.5}}),
            &["0.25", "1.75", "-0.1", "0.500001"],
            &["0", "1.5", "1.500", "2.0", "-3"],
        ),
        (
            json!({"type": "number", "not": {"type": "integer"}, "multipleOf": 0.5, "minimum": 1}),
            &["1.5", "12.5"],
            &["1.0", "2", "0.5", "1.25"],
        ),
        (
            json!({"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 7}]}),
            &["3", "7", "-14", "9"],
            &["0", "21", "8", "42"],
        ),
        (json!({"type": "integer", "multipleOf": 12, "minimum": 13, "maximum": 30}), &["24"], &["12", "36"]),
        (
            json!({"type": "integer", "multipleOf": 13, "exclusiveMinimum": 100, "exclusiveMaximum": 1000,
                "not": {"anyOf": [{"multipleOf": 2}, {"multipleOf": 3}, {"multipleOf": 5}, {"multipleOf": 7}, {"multipleOf": 11}, {"const": 169}]}}),
            &["221", "247", "949"],
            &["13", "169", "130", "143", "1001", "222"],
        ),
        // Where the sign tells whether a number is within its bounds, it may have an exponent.
        (json!({"minimum": 0}), &["1e-06", "0", "2345678901234567.89", "0e5"], &["-1e-3", "-1"]),
        (json!({"exclusiveMinimum": 0}), &["1e-06", "0.5E+2"], &["0", "0.0", "0e5", "-1"]),
        (json!({"maximum": 7.5}), &["7.5", "-2345678901234567.89"], &["7.50001", "8", "1e3"]),
        // Clients read numbers as doubles, and find other multiples among those of more digits.
        (json!({"type": "integer", "multipleOf": 3}), &["999999999999999"], &["9999999999999999"]),
        (
            json!({"type": "number", "multipleOf": 1e-10, "minimum": 0}),
            &["0.5", "0.0000000001"],
            &["0.00000000001"],
        ),
    ]);
    let none = json!({"anyOf": [{"type": "integer", "multipleOf": 12, "minimum": 13, "maximum": 23},
        {"type": "number", "multipleOf": 2.5, "not": {"multipleOf": 5}, "minimum": 3, "maximum": 7}]});
    assert!(Bench::new().schema(&none).is_err());
}

#[test]
fn exactly_one() {
    let either = json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let same = json!({"oneOf": [
        {"type": "object", "properties": {"x": {"type": "integer"}}},
        {"type": "object", "properties": {"x": {"minimum": 0}, "y": {"type": "null"}}},
    ]});
    check(&[
        (json!({"oneOf": [{"type": "integer"}, {"minimum": 2}]}), &["1", "2.5", "\"a\""], &["3", "1.5"]),
        (
            json!({"oneOf": [{"pattern": "^a"}, {"type": "string", "maxLength": 2}]}),
            &["\"abc\"", "\"b\""],
            &["\"a\""],
        ),
        (either, &[r#"{"a":1}"#, r#"{"b":1,"c":2}"#], &["{}", r#"{"a":1,"b":1}"#]),
        (
            same,
            &[r#"{"x":-1}"#, r#"{"x":1,"y":2}"#, r#"{"x":0.5}"#],
            &["{}", r#"{"x":1,"y":null}"#, r#"{"x":-0.5}"#],
        ),
    ]);
}

#[test]
fn conditions() {
    let card = json!({"type": "object", "properties": {"kind": {"type": "string"}, "n": {}},
        "if": {"properties": {"kind": {"const": "card"}}}, "then": {"required": ["n"]}, "else": {"maxProperties": 1}});
    let dependent = json!({"type": "object", "properties": {"a": {}, "b": {}, "c": {}},
        "dependentRequired": {"a": ["c"]}, "dependentSchemas": {"b": {"properties": {"c": {"type": "null"}}}}});
    check(&[
        (
            card,
            &[r#"{"kind":"card","n":1}"#, r#"{"n":1}"#, r#"{"kind":"cash"}"#],
            &[r#"{"kind":"card"}"#, "{}", r#"{"kind":"cash","n":1}"#],
        ),
        (
            dependent,
            &["{}", r#"{"a":1,"c":1}"#, r#"{"b":1,"c":null}"#, r#"{"b":1}"#],
            &[r#"{"a":1}"#, r#"{"b":1,"c":1}"#, r#"{"a":1,"b":1,"c":1}"#],
        ),
        (
            json!({"dependencies": {"a": ["b"], "c": {"minProperties": 2}}, "type": "object"}),
            &["{}", r#"{"a":1,"b":2}"#, r#"{"c":1,"x":2}"#],
            &[r#"{"a":1}"#, r#"{"c":1}"#],
        ),
    ]);
}

#[test]
fn arrays() {
    let pick = json!({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "b", 1]}, "minItems": 2});
    let item = json!({"type": "object", "properties": {"kind": {"const": "a"}, "id": {"type": "string"}}, "required": ["kind", "id"]});
    let different = json!({"type": "array", "uniqueItems": true, "items": item});
    let some = json!({"type": "array", "contains": {"type": "integer"}, "minContains": 2, "maxContains": 2});
    check(&[
        (some, &["[1,2]", "[1,\"a\",2]"], &["[]", "[1]", "[1,2,3]"]),
        (pick, &["[\"b\",\"a\"]", "[1,\"a\",\"b\"]"], &["[]", "[\"a\"]", "[\"a\",\"a\"]", "[1,\"a\",1]"]),
        (
            json!({"type": "array", "uniqueItems": true}),
            &["[1,2,\"a\",\"b\",null]", r#"["foo","bar","baz"]"#, r#"["id1","id2","id3","id9"]"#],
            &["[1,1]", "[\"a\",\"a\"]", "[[],[]]", "[{},{}]"],
        ),
        (
            different,
            &[
                r#"[{"kind":"a","id":"x1"},{"kind":"a","id":"x2"},{"kind":"a","id":"x3","more":null}]"#,
                r#"[{"kind":"a","id":"red"},{"kind":"a","id":"blue"}]"#,
                "[]",
            ],
            &[r#"[{"kind":"a","id":"x1"},{"kind":"a","id":"x1"}]"#],
        ),
        (
            json!({"prefixItems": [{"const": 1}], "unevaluatedItems": false, "anyOf": [{"prefixItems": [true, {"const": 2}]}, {}]}),
            &["[1]", "[1,2]", "{}"],
            &["[2]", "[1,3]", "[1,2,3]"],
        ),
        (
            json!({"type": "array", "items": {"const": 0}, "minItems": 2, "maxItems": 3}),
            &["[0,0]"],
            &["[0]", "[0,0,0,0]"],
        ),
    ]);
}

#[test]
fn what_depends_on_keys_looks_at_no_items() {
    let dependent = json!({"type": "array", "unevaluatedItems": {"type": "integer"}, "dependentSchemas": {"a": {"unevaluatedItems": true}}});
    check(&[(dependent, &["[1]"], &["[true]"])]);
}

#[test]
fn keys_that_no_branch_looks_at() {
    let branch = |i: usize, tag: bool| {
        let mut branch = json!({"properties": {format!("a{i}"): {"type": "integer"}, "both": {}}});
        if tag {
            branch["properties"]["kind"] = json!({"const": format!("k{i}")});
            branch["required"] = json!(["kind"]);
        }
        branch
    };
    let any = |tag: bool| {
        let branches: Vec<Value> = (0..30).map(|i| branch(i, tag)).collect();
        json!({"type": "object", "properties": {"id": {}}, "anyOf": branches, "unevaluatedProperties": false})
    };
    let with_null = json!({"allOf": [{"properties": {"x": {}}}], "anyOf": [branch(0, true), branch(1, true), {"type": "object"}],
        "type": "object", "unevaluatedProperties": {"type": "null"}});
    check(&[
        (
            any(true),
            &[r#"{"id":2,"kind":"k7","a7":1}"#, r#"{"both":0,"kind":"k29"}"#],
            &[
                r#"{"kind":"k7","a8":1}"#,
                r#"{"kind":"k7","z":1}"#,
                r#"{"id":1}"#,
                r#"{"kind":"k7","a7":"x"}"#,
            ],
        ),
        (any(false), &["{}", r#"{"id":2,"both":1,"a7":1,"a9":1}"#], &[r#"{"a7":"x"}"#, r#"{"z":1}"#]),
        (
            with_null,
            &[r#"{"x":2,"a1":1,"kind":"k1"}"#, r#"{"a1":null,"z":null}"#, r#"{"kind":"k0","a1":null}"#],
            &[r#"{"kind":"k1","a0":1}"#, r#"{"a1":1}"#, r#"{"z":1}"#, r#"{"kind":"k9"}"#],
        ),
    ]);
}

#[test]
fn an_array_of_too_few_different_items_is_not_begun() {
    let item = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
    let narrower = json!({"properties": {"id": {"enum": ["a", "b"]}}, "additionalProperties": false});
    let bench = Bench::new();
    for (least, begins) in [(2, true), (3, false)] {
        let items = json!({"allOf": [item, narrower]});
        let array = json!({"type": "array", "uniqueItems": true, "minItems": least, "items": items});
        let mut grammar = bench.schema(&json!({"anyOf": [{"const": 0}, array]})).unwrap();
        assert_eq!(bench.begins(&mut grammar, "[").unwrap(), begins, "{least}");
    }
}

#[test]
fn items_that_could_only_repeat_are_not_begun() {
    let bench = Bench::new();
    let of = |items: Value| json!({"type": "array", "uniqueItems": true, "items": items});
    let no_other = json!({"contains": {"not": {"type": "null"}}});
    let counted = json!({"contains": {"not": {"type": "null"}}, "minContains": 0, "maxContains": 0});
    let unique = |rest| json!({"type": "array", "uniqueItems": true, "allOf": [rest]});
    // A token such as `", "` completes the first item and begins the second.
    let empty = r#"["", ""#;
    for (schema, start) in [
        (of(json!({"type": ["string", "null"], "maxLength": 0})), empty),
        (of(json!({"maxLength": 0, "maximum": -1})), empty),
        (json!({"type": "object", "properties": {"a": of(json!({"maxLength": 0}))}}), r#"{"a":["", ""#),
        (of(json!({"type": "null"})), "[null,"),
        (unique(json!({"not": no_other})), "[null,"),
        (unique(json!({"not": {"not": {"items": {"type": "null"}}}})), "[null,"),
        (unique(counted), "[null,"),
    ] {
        let mut grammar = bench.schema(&schema).unwrap();
        assert!(!bench.begins(&mut grammar, start).unwrap(), "{schema}");
        let (before, _) = start.rsplit_once(',').unwrap();
        assert!(bench.begins(&mut grammar.restart(), &format!("{before}]")).unwrap(), "{schema}");
    }
}

#[test]
fn listed_arrays_with_equal_items_are_not_begun() {
    let listed = json!({"enum": [[null, null], ["a", "b"], [1, 2, 1], [1, 2, 3]]});
    let unique = json!({"type": "array", "uniqueItems": true});
    let long = json!({"type": "array", "uniqueItems": true, "if": {"minItems": 3}, "then": {"contains": {"const": 3}}});
    let bench = Bench::new();
    for other in [
        json!({"anyOf": [unique, {"type": "null"}]}),
        unique,
        long.clone(),
        json!({"anyOf": [long, {"const": 0}]}),
    ] {
        let mut schema = listed.clone();
        schema["allOf"] = json!([other]);
        let mut grammar = bench.schema(&schema).unwrap();
        assert!(!bench.begins(&mut grammar, "[null").unwrap(), "{other}");
        for (text, is_valid) in [(r#"["a","b"]"#, true), ("[1,2,3]", true), ("[1,2,1]", false)] {
            assert_eq!(bench.accepts(&mut grammar.restart(), text).unwrap(), is_valid, "{text} {other}");
        }
    }
}

#[test]
fn objects() {
    let patterns = json!({"type": "object", "patternProperties": {"^a": {"type": "integer"}, "z$": {"minimum": 2}},
        "additionalProperties": false});
    let evaluated = json!({"type": "object", "properties": {"a": {}}, "unevaluatedProperties": false,
        "anyOf": [{"properties": {"b": {"const": 1}}, "required": ["b"]}, {"properties": {"c": {}}}]});
    check(&[
        (patterns, &["{}", r#"{"az":2,"a":1,"z":2.5}"#], &[r#"{"az":1}"#, r#"{"az":2.5}"#, r#"{"b":1}"#]),
        (evaluated, &[r#"{"a":1,"b":1}"#, r#"{"c":1}"#, r#"{"b":1,"c":1}"#], &[r#"{"b":2}"#, r#"{"d":1}"#]),
        (json!({"type": "object", "propertyNames": {"maxLength": 2}}), &[r#"{"ab":1}"#], &[r#"{"abc":1}"#]),
        (
            json!({"type": "object", "minProperties": 2}),
            &[r#"{"a":1,"b":1}"#, r#"{"option1":1,"option2":1}"#, r#"{"red":1,"blue":1}"#],
            &["{}", r#"{"a":1}"#, r#"{"a":1,"a":2}"#, r#"{"ab":1,"ab":2}"#],
        ),
        (json!({"type": "object", "maxProperties": 1}), &["{}", r#"{"a":1}"#], &[r#"{"a":1,"b":1}"#]),
    ]);
}

#[test]
fn numbers_and_references() {
    let tree = json!({"$id": "http://x/tree", "$dynamicAnchor": "node", "type": "object",
        "properties": {"v": {}, "c": {"type": "array", "items": {"$dynamicRef": "#node"}}}});
    let strict = json!({"$id": "http://x/strict", "$dynamicAnchor": "node", "$ref": "tree",
        "unevaluatedProperties": false, "$defs": {"tree": tree}});
    // `#x` is what `a` says, through which `b` is come to.
    let x = |key: &str| json!({"x": {"$dynamicAnchor": "x", "properties": {key: true}}});
    let b = json!({"$id": "b", "$dynamicRef": "#x", "$defs": x("q")});
    let mut named = x("p");
    named["b"] = b;
    let outermost = json!({"$id": "http://x/r", "type": "object", "unevaluatedProperties": false, "$ref": "a",
        "$defs": {"a": {"$id": "a", "$ref": "b", "$defs": named}}});
    check(&[
        (outermost, &[r#"{"p":1}"#, "{}"], &[r#"{"q":1}"#]),
        (
            json!({"type": "number", "multipleOf": 0.25}),
            &["0.5", "0.50", "1", "-1.25", "3.0"],
            &["0.3", "0.125"],
        ),
        (
            json!({"type": "number", "minimum": 1.5, "exclusiveMaximum": 20}),
            &["1.5", "19.99", "2"],
            &["1.49", "20", "1"],
        ),
        (json!({"enum": [9_007_199_254_740_993_i64]}), &["9007199254740993"], &["9007199254740992"]),
        (strict, &[r#"{"v":1,"c":[{"v":2}]}"#], &[r#"{"x":1}"#, r#"{"c":[{"x":1}]}"#]),
    ]);
}

/// What is looked for ahead is so in one alternative; a format of which only a part can be said is never read as more.
#[test]
fn what_is_left_out_is_never_let_through() {
    let email = json!({"type": "string", "format": "email"});
    let quoted = json!({"type": "string", "pattern": "^\""});
    Bench::new().check(&[
        (
            json!({"type": "string", "pattern": "^(?!foo)[a-z]+$|^foobar$"}),
            &[r#""foobar""#, r#""bar""#],
            &[r#""foo""#, r#""foobars""#],
        ),
        (
            json!({"type": "object", "properties": {"name": {"type": "null"}, "a@b.c": {"type": "null"}},
                   "propertyNames": {"format": "email"}}),
            &[r#"{"a@b.c":null}"#],
            &[r#"{"name":null}"#],
        ),
        (json!({"oneOf": [email, quoted]}), &[r#""a@b.com""#, r#""\"x""#], &[r#""\"a\"@b.com""#, r#""x""#]),
        (
            // What may not come behind an `a` is found without all addresses being gone through.
            json!({"type": "string", "format": "email", "pattern": "^(?!a)"}),
            &[r#""b@a.com""#],
            &[r#""a@b.com""#, r#""b""#],
        ),
        (json!({"type": "string", "not": email}), &[r#""x""#], &[r#""a@b.c""#, r#""\"a\"@b.com""#]),
        (json!({"oneOf": [email, {"enum": ["\"a\"@b.com", "x"]}]}), &[r#""x""#], &[r#""\"a\"@b.com""#]),
        (json!({"allOf": [email, {"enum": ["\"a\"@b.com", "a@b.c"]}]}), &[r#""a@b.c""#], &[]),
        (
            json!({"type": "object", "properties": {"name": {"type": "string"}}, "propertyNames": {"format": "email"}}),
            &["{}", r#"{"a@b.c":1}"#],
            &[r#"{"name":"x"}"#, r#"{"\"a\"@b.com":1}"#],
        ),
        (
            json!({"type": "object", "not": {"propertyNames": {"format": "email"}}}),
            &[r#"{"x":1}"#],
            &["{}", r#"{"a@b.c":1}"#, r#"{"\"a\"@b.com":1}"#],
        ),
        (
            json!({"type": "string", "pattern": "^(?!a)"}),
            &[r#""b""#, r#""""#],
            &[r#""a""#, r#""b"c""#, r#""\u0001""#],
        ),
    ]);
    for (schema, pointer) in [
        (json!({"type": "string", "format": "hostname"}), ""),
        (json!({"type": "object", "propertyNames": {"format": "email"}}), "/propertyNames"),
    ] {
        let grammar = Bench::new().schema(&schema).unwrap();
        let [told] = grammar.narrowed() else { panic!("{:?}", grammar.narrowed()) };
        assert_eq!((told.pointer.as_str(), told.keyword.as_str()), (pointer, "format"));
    }
}

/// Keys are counted where none can come that has no name, whatever stands first; and long arrays go on.
#[test]
fn counted_keys_and_long_arrays() {
    let keys: Map<String, Value> = (0..8).map(|i| (format!("k{i}"), json!({"type": "null"}))).collect();
    let closed = json!({"properties": keys, "minProperties": 6, "additionalProperties": false});
    let in_turn = json!({"additionalProperties": false, "minProperties": 6, "properties": keys});
    let bench = Bench::new();
    for schema in [closed, in_turn] {
        let object = |n: usize| keys.keys().take(n).map(|k| (k.clone(), Value::Null)).collect::<Map<_, _>>();
        assert!(bench.satisfies(&schema, &Value::from(object(6)).to_string()), "{schema}");
        assert!(!bench.satisfies(&schema, &Value::from(object(5)).to_string()), "{schema}");
    }
    let long = Value::from([vec![0; 5_000], vec![1]].concat()).to_string();
    let found = json!({"type": "array", "contains": {"const": 1}});
    assert!(bench.satisfies(&found, &long) && !bench.satisfies(&found, &long.replace('1', "0")));
}
