//! Arguments of calls that are written one by one: in tags, as raw strings or as in Python.

use super::common::{Bench, Dice};
use llgtrt::grammar::GrammarSpec;
use serde_json::{Value, json};

/// Qwen3-Coder's way.
fn tags() -> Value {
    json!({
        "before": "\n<parameter=", "after": "\n</parameter>", "raw": true, "python": true,
        "between": all(">\n"),
    })
}

/// LFM2's way.
fn python() -> Value {
    json!({"before": "", "after": "", "separator": ", ", "raw": false, "python": true, "between": all("=")})
}

/// Gemma 4's way, with a special token of the vocabulary in place of its own.
fn nested() -> Value {
    json!({
        "before": "", "after": "", "separator": ",", "raw": true, "quote": "<|im_start|>", "nested": true,
        "between": all(":"),
    })
}

fn all(text: &str) -> Value {
    let types = ["null", "boolean", "number", "string", "array", "object"];
    types.into_iter().map(|of| (of.to_owned(), json!(text))).collect()
}

/// Calls of one function: `<f=get>`, its arguments, and `</f>`.
fn calls(schema: &Value, parameters: &Value, types: &Value) -> GrammarSpec {
    let tool = json!({"name": "get", "schema": schema.to_string(), "types": types});
    let spec = json!({"calls": {
        "tools": [tool], "before": "<f=", "between": ">", "after": "</f>", "parameters": parameters,
    }});
    serde_json::from_value(spec).unwrap()
}

fn object(properties: Value, required: Value) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// Which of the texts between `<f=get>` and `</f>` are allowed.
fn check(spec: &GrammarSpec, good: &[&str], wrong: &[&str]) {
    let bench = Bench::new();
    let allows = |text: &str| {
        let mut grammar = bench.compile(spec).unwrap();
        bench.accepts(&mut grammar, &format!("<f=get>{text}</f>")).unwrap()
    };
    for text in good {
        assert!(allows(text), "{text}");
    }
    for text in wrong {
        assert!(!allows(text), "{text}");
    }
}

#[test]
fn arguments_stand_in_tags() {
    let schema = object(
        json!({
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1},
            "wet": {"type": "boolean"},
            "unit": {"enum": ["C", "F"]},
            "at": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        }),
        json!(["city"]),
    );
    let city = "\n<parameter=city>\nBern\n</parameter>";
    let with = |name: &str, value: &str| format!("{city}\n<parameter={name}>\n{value}\n</parameter>");
    check(
        &calls(&schema, &tags(), &json!({})),
        &[
            city,
            "\n<parameter=city>\n\n</parameter>",
            "\n<parameter=city>\n\"<b> </param>\n\n 5 null\n</parameter>",
            &with("days", "3"),
            &with("wet", "True"),
            &with("wet", "false"),
            &with("unit", "F"),
            &with("at", "{\"x\": 1.5}"),
        ],
        &[
            "",
            &with("days", "0"),
            &with("days", "\"3\""),
            &with("unit", "K"),
            &with("unit", "\"C\""),
            &with("at", "{}"),
            &with("at", "\"x\""),
            &with("city", "Bern"),
            &with("other", "1"),
            "\n<parameter=city>\na</parameter>b\n</parameter>",
            "\n<parameter=city>\na</parameter>",
            "\n<parameter=days>\n3\n</parameter>",
        ],
    );
}

#[test]
fn strings_keep_to_their_schema() {
    let schema = object(
        json!({
            "id": {"type": "string", "pattern": "^[a-z]{2}\\d$"},
            "short": {"type": "string", "maxLength": 3},
            "day": {"type": "string", "format": "date"},
        }),
        json!([]),
    );
    let with = |name: &str, value: &str| format!("\n<parameter={name}>\n{value}\n</parameter>");
    check(
        &calls(&schema, &tags(), &json!({})),
        &["", &with("id", "ab1"), &with("short", "\"<\n"), &with("short", ""), &with("day", "2026-02-28")],
        &[&with("id", "ab"), &with("id", "\"ab1\""), &with("short", "abcd"), &with("day", "2026-02-30")],
    );
}

#[test]
fn strings_are_told_from_other_values() {
    let schema =
        object(json!({"a": {"type": ["string", "null", "integer"], "maximum": 9}, "b": {}}), json!([]));
    let types = json!({
        "a": ["string", "null", "number"],
        "b": ["null", "boolean", "number", "string", "array", "object"],
    });
    let with = |name: &str, value: &str| format!("\n<parameter={name}>\n{value}\n</parameter>");
    check(
        &calls(&schema, &tags(), &types),
        &[
            &with("a", "5"),
            &with("a", "None"),
            &with("a", "no"),
            &with("a", "10 "),
            &with("a", "{"),
            &with("a", "true"),
            &with("b", "{\"x\": [1]}"),
            &with("b", "true"),
            &with("b", "-1.5e3"),
            &with("b", "truth"),
        ],
        &[&with("a", "10"), &with("a", "-1.5"), &with("b", "{\"x\""), &with("b", "[a")],
    );
}

#[test]
fn the_text_before_a_value_may_say_its_type() {
    let mut parameters = tags();
    parameters["between"]["string"] = json!(" text>");
    let schema = object(json!({"a": {"type": ["string", "integer"]}}), json!(["a"]));
    let with = |text: &str| format!("\n<parameter=a{text}\n</parameter>");
    check(
        &calls(&schema, &parameters, &json!({})),
        &[&with(" text>5"), &with(">\n5")],
        &[&with(" text>\n5</parameter>"), &with(">\nx"), &with(">5")],
    );
}

#[test]
fn calls_in_python_have_strings_in_quotes() {
    let schema = object(
        json!({"q": {"type": "string"}, "n": {"type": ["integer", "null"]}, "l": {"type": "array", "items": {"type": "boolean"}}}),
        json!(["q"]),
    );
    check(
        &calls(&schema, &python(), &json!({})),
        &["q=\"a, n=1\"", "q=\"\", n=None", "q=\"\\\"\", n=12, l=[true, false]"],
        &["", "q=a", "n=1", "q=\"a\",n=1,", "q=\"a\" n=1", "q='a'"],
    );
}

#[test]
fn keys_and_strings_may_be_bare_inside_of_values() {
    let bench = Bench::new();
    let schema = object(
        json!({"l": {"type": "array", "items": {"type": "string"}},
               "o": {"type": "object", "properties": {"k": {"type": "string"}, "n": {"type": "number"}}}}),
        json!([]),
    );
    let spec = calls(&schema, &nested(), &json!({}));
    for (text, is_allowed) in [
        (
            "l:[<|im_start|>a\"b<|im_start|>,<|im_start|><|im_start|>],o:{k:<|im_start|>v<|im_start|>,n:2}",
            true,
        ),
        ("o:{}", true),
        ("o:{\"k\":<|im_start|>v<|im_start|>}", false),
        ("l:[\"a\"]", false),
        ("o:{n:<|im_start|>v<|im_start|>}", false),
    ] {
        let mut grammar = bench.compile(&spec).unwrap();
        let tokens = bench.vocab.encode(&[(&*format!("<f=get>{text}</f>"), true)]).unwrap();
        let done = tokens.into_iter().all(|token| {
            let allowed = grammar.mask().unwrap().allows(token);
            allowed && grammar.commit(token).is_ok()
        });
        assert_eq!(done && bench.may_end(&mut grammar).unwrap(), is_allowed, "{text}");
    }
}

#[test]
fn ids_and_numbers_are_the_models() {
    let bench = Bench::new();
    let spec = json!({"calls": {
        "tools": [{"name": "get", "schema": "{\"type\":\"object\"}"}],
        "before": "<{id}|", "between": ":{index}>", "after": "</>",
    }});
    let spec: GrammarSpec = serde_json::from_value(spec).unwrap();
    for (text, is_allowed) in [
        ("<call_1|get:0>{}</>", true),
        ("<x|get:12>{}</>", true),
        ("<|get:1>{}</>", false),
        ("<a b|get:1>{}</>", false),
        ("<a|get:x>{}</>", false),
    ] {
        let mut grammar = bench.compile(&spec).unwrap();
        assert_eq!(bench.accepts(&mut grammar, text).unwrap(), is_allowed, "{text}");
    }
}

#[test]
fn keys_differ_behind_ids_and_numbers_too() {
    let bench = Bench::new();
    let schema = json!({"type": "object", "additionalProperties": true}).to_string();
    let spec = json!({"calls": {
        "tools": [{"name": "get", "schema": schema}, {"name": "target", "schema": "{\"type\":\"object\"}"}],
        "before": "<{id}|", "between": ":{index}{ws}=", "after": ">", "separator": "\n",
    }});
    let spec: GrammarSpec = serde_json::from_value(spec).unwrap();
    let one = |name: &str, arguments: &str| format!("<id-1|{name}:12  ={arguments}>");
    for (text, is_allowed) in [
        (one("get", "{\"a\":1,\"b\":2}"), true),
        (one("get", "{\"a\":1,\"a\":2}"), false),
        (format!("{}\n{}", one("target", "{}"), one("get", "{\"a\":1,\"b\":{\"a\":1}}")), true),
        (format!("{}\n{}", one("target", "{}"), one("get", "{\"a\":1,\"a\":1}")), false),
    ] {
        let mut grammar = bench.compile(&spec).unwrap();
        assert_eq!(bench.accepts(&mut grammar, &text).unwrap(), is_allowed, "{text}");
    }
}

#[test]
fn names_of_no_function_are_left_alone() {
    let bench = Bench::new();
    let spec = |tools: Value| -> GrammarSpec {
        let block = json!({"calls": {
            "tools": tools, "before": "", "between": "\",{ws}\"arguments\":{ws}", "after": "{ws}}",
            "except": ["get", "get_all"],
        }});
        serde_json::from_value(block).unwrap()
    };
    let schema = object(json!({"n": {"type": "integer"}}), json!(["n"])).to_string();
    let tools = ["get", "get_all"].map(|name| json!({"name": name, "schema": schema}));
    for (text, [with, without]) in [
        ("get\",\n  \"arguments\": {\"n\": 1}\n}", [true, false]),
        ("get_all\", \"arguments\":{\"n\": 1}}", [true, false]),
        ("get\", \"arguments\": {}}", [false, false]),
        ("get\"", [false, false]),
        ("get_all", [false, false]),
        ("get_a\"", [true, true]),
        ("get_a\", \"arguments\": no JSON", [true, true]),
        ("Bob \\\" \"", [true, true]),
        ("\"", [true, true]),
    ] {
        for (tools, is_allowed) in [(json!(tools), with), (json!([]), without)] {
            let mut grammar = bench.compile(&spec(tools)).unwrap();
            assert_eq!(bench.accepts(&mut grammar, text).unwrap(), is_allowed, "{text}");
        }
    }
}

/// Every beginning of a call can be completed, and nothing but calls comes of it.
#[test]
fn random_calls_come_to_an_end() {
    let bench = Bench::new();
    let schema = object(
        json!({
            "s": {"type": "string", "maxLength": 4},
            "m": {"type": ["string", "boolean", "null"]},
            "e": {"enum": ["a", "ab", 1, null]},
            "l": {"type": "array", "items": {"enum": [1, "x"]}, "maxItems": 2},
        }),
        json!(["m", "l"]),
    );
    let types = json!({"m": ["string", "boolean", "null"], "e": ["string", "number", "null"]});
    for parameters in [tags(), nested()] {
        let spec = calls(&schema, &parameters, &types);
        for seed in 0..60 {
            let mut dice = Dice(seed);
            let mut grammar = bench.compile(&spec).unwrap();
            let closing = if parameters["nested"] == true {
                vec![270]
            } else {
                b"\n</parameter>".map(u32::from).to_vec()
            };
            for step in 0.. {
                assert!(step < 4_000, "seed {seed} does not end");
                let next = grammar.mask().unwrap();
                let allowed: Vec<u32> = next.mask().map_or_else(Vec::new, |mask| mask.iter().collect());
                assert!(!allowed.is_empty() || grammar.is_ended(), "seed {seed} has no way on");
                if grammar.is_ended() || allowed.contains(&bench.vocab.eog()[0]) {
                    break;
                }
                grammar.commit(allowed[dice.roll(allowed.len())]).unwrap();
                // Chance alone would hardly ever end a raw string.
                for token in closing.iter().filter(|_| step % 8 == 7) {
                    if grammar.is_ended() || !grammar.mask().unwrap().allows(*token) {
                        break;
                    }
                    grammar.commit(*token).unwrap();
                }
            }
        }
    }
}
