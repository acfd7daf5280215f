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
