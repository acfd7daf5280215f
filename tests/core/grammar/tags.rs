//! Contents between texts.

use super::common::Bench;
use llgtrt::error::Error;
use llgtrt::grammar::GrammarSpec;
use serde_json::{Value, json};

fn tags(list: Value, more: Value) -> GrammarSpec {
    let mut tags = json!({"tags": list});
    tags.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(json!({"tags": tags})).unwrap()
}

fn three() -> Value {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    json!([
        {"begin": "<f>", "content": {"json_schema": schema}, "end": "</f>"},
        {"begin": "<g>", "content": {"regex": "[a-c]+"}, "end": "</g>"},
        {"begin": "<h>", "end": "</h>"},
    ])
}

#[test]
fn a_content_stands_between_its_texts() {
    let bench = Bench::new();
    let allows = |spec: &GrammarSpec, text: &str| {
        let mut grammar = bench.compile(spec).unwrap();
        bench.accepts(&mut grammar, text).unwrap()
    };
    let one = tags(three(), json!({}));
    for text in ["<f>{\"n\":1}</f>", "<g>abc</g>", "<h></h>", "<h>any <text> \n</h>"] {
        assert!(allows(&one, text), "{text}");
    }
    for text in ["", "<f>{}</f>", "<g>abd</g>", "<g>abc</f>", "<h>a</h>b</h>", "<g>a</g><g>a</g>"] {
        assert!(!allows(&one, text), "{text}");
    }
    let several = tags(three(), json!({"separator": ", ", "begun": "<g"}));
    for (text, is_allowed) in
        [(">a</g>, <h></h>, <f>{\"n\":1}</f>", true), (">a</g>", true), ("<f>{\"n\":1}</f>", false)]
    {
        assert_eq!(allows(&several, text), is_allowed, "{text}");
    }
}

#[test]
fn special_tokens_may_end_any_text() {
    let bench = Bench::new();
    let spec = tags(json!([{"begin": "<|im_start|>", "end": "<|im_start|>"}]), json!({}));
    for (text, is_allowed) in
        [("<|im_start|><|im_start|>", true), ("<|im_start|>a b<|im_start|>", true), ("<|im_start|>a", false)]
    {
        let mut grammar = bench.compile(&spec).unwrap();
        let tokens = bench.vocab.encode(&[(text, true)]).unwrap();
        let done = tokens.into_iter().all(|token| {
            let allowed = grammar.mask().unwrap().allows(token);
            allowed && grammar.commit(token).is_ok()
        });
        assert_eq!(
            done && (grammar.is_ended() || bench.may_end(&mut grammar).unwrap()),
            is_allowed,
            "{text}"
        );
    }
}

#[test]
fn tags_that_cannot_be_written_are_refused() {
    let bench = Bench::new();
    for spec in [
        tags(json!([]), json!({})),
        tags(three(), json!({"begun": "<x"})),
        tags(json!([{"begin": "<f>", "end": " "}]), json!({})),
    ] {
        let error = bench.compile(&spec).unwrap_err();
        let Error::Grammar { keyword, .. } = error else { panic!("{error:?}") };
        assert_eq!(keyword, "structural_tag");
    }
}

fn composed(spec: Value) -> GrammarSpec {
    serde_json::from_value(spec).unwrap()
}

#[test]
fn grammars_stand_within_others() {
    let bench = Bench::new();
    let number = json!({"json_schema": r#"{"type":"integer","minimum":0}"#});
    let list = json!({"repeat": {"grammar": {"sequence": [number, {"text": ";"}]}, "least": 1, "most": 2}});
    let parameters = json!({"before": "<p=", "between": {"number": ">", "string": ">", "null": ">", "boolean": ">",
        "array": ">", "object": ">"}, "after": "</p>", "raw": true});
    let schema =
        r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}"#;
    let arguments = json!({"tool": {"name": "", "schema": schema}, "parameters": parameters});
    let rows = [
        (json!({"sequence": []}), vec![""], vec!["a"]),
        (
            json!({"sequence": [{"regex": "[a-z]+"}, {"text": "end"}, number]}),
            vec!["aend1", "endend10"],
            vec!["end1", "aend"],
        ),
        (json!({"or": [list, {"text": "x"}]}), vec!["1;", "1;20;", "x"], vec!["", "1;2;3;", "1", "x1;"]),
        (
            json!({"repeat": {"grammar": {"or": [number, {"text": ","}]}, "least": 0, "most": null}}),
            vec!["", "1", ",,", "1,,2"],
            vec!["a", "1 "],
        ),
        (
            json!({"sequence": [{"text": "<a>"}, {"up_to": {"ends": ["</a>", "|"], "excludes": ["no"]}}, number]}),
            vec!["<a></a>1", "<a>x <b>|12"],
            vec!["<a>x1", "<a>no|1", "<a>a|b|1"],
        ),
        (
            json!({"sequence": [{"arguments": arguments}, {"text": "."}]}),
            vec!["<p=a>1</p>.", "<p=a>1</p><p=b>x y</p>."],
            vec!["<p=a>x</p>.", "<p=b>x</p>.", "."],
        ),
        (
            json!({"sequence": [{"ebnf": "root ::= \"a\"+"}, {"tags": {"tags": [{"begin": "<", "content": {"regex": ".*"}, "end": ">"}]}}]}),
            vec!["a<>", "aa<b>c>"],
            vec!["<>", "a<b"],
        ),
    ];
    for (spec, yes, no) in rows {
        let spec = composed(spec);
        for (texts, expected) in [(yes, true), (no, false)] {
            for text in texts {
                let mut grammar = bench.compile(&spec).unwrap();
                assert_eq!(bench.accepts(&mut grammar, text).unwrap(), expected, "{spec:?} {text}");
            }
        }
    }
}

#[test]
fn what_cannot_stand_within_others_is_refused() {
    let bench = Bench::new();
    let recursive = json!({"ebnf": "root ::= \"(\" root \")\" | \"a\""});
    let one = json!({"text": "a"});
    for (spec, why) in [
        (json!({"sequence": [one, recursive]}), "cannot stand within another"),
        (json!({"or": []}), "at least one"),
        (json!({"sequence": [{"regex": ".*"}, {"json_schema": "{}"}]}), "unclear where it ends"),
        (json!({"sequence": [{"regex": "[0-9]+"}, {"json_schema": "{}"}]}), "unclear where it ends"),
        (
            json!({"sequence": [{"regex": "a+"}, {"or": [one, {"json_schema": "{}"}]}]}),
            "unclear where it ends",
        ),
        (json!({"repeat": {"grammar": one, "least": 3, "most": 2}}), "min to max"),
        (json!({"repeat": {"grammar": one, "least": 0, "most": 100_000}}), "min to max"),
        (json!({"up_to": {"ends": [" "]}}), "needs an end"),
        (
            json!({"sequence": [one, {"json_schema": r#"{"type":"array","uniqueItems":true}"#}]}),
            "uniqueItems",
        ),
    ] {
        let told = bench.compile(&composed(spec.clone())).unwrap_err().to_string();
        assert!(told.contains(why), "{spec} {told}");
    }
}
