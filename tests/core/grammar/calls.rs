//! Calls of functions between texts.

use super::common::Bench;
use super::sections::{commit, free, token, trigger};
use llgtrt::grammar::GrammarSpec;
use llgtrt::grammar::spec::{Calls, Section, Tool};
use std::collections::BTreeMap;

pub(super) fn calls(separator: Option<&str>, or: Option<GrammarSpec>) -> Calls {
    let tool = |name: &str, schema: &str| Tool {
        name: name.into(),
        schema: schema.into(),
        at: format!("/tools/{name}"),
        types: BTreeMap::new(),
    };
    Calls {
        tools: vec![
            tool(
                "get",
                r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#,
            ),
            tool(
                "get_all",
                r##"{"type":"object","properties":{"x":{"$ref":"#/$defs/b"}},"required":["x"],"additionalProperties":false,"$defs":{"b":{"type":"boolean"}}}"##,
            ),
        ],
        open: String::new(),
        before: "<call>{\"name\": \"".into(),
        between: "\", \"arguments\": ".into(),
        betweens: Vec::new(),
        after: "}</call>".into(),
        separator: separator.map(str::to_owned),
        close: String::new(),
        begun: String::new(),
        or,
        lead: String::new(),
        parameters: None,
        except: None,
    }
}

#[test]
fn arguments_of_calls_differ_where_they_must() {
    let bench = Bench::new();
    let schema = r#"{"type":"object","properties":{"ids":{"type":"array","items":{"type":"integer"},"uniqueItems":true}},"additionalProperties":true}"#;
    let answer =
        GrammarSpec::JsonSchema(r#"{"type":"array","items":{"type":"string"},"uniqueItems":true}"#.into());
    let mut calls = calls(Some("\n"), Some(answer));
    calls.tools[1].schema = schema.into();
    let admits = |text: &str| {
        let mut grammar = bench.compile(&GrammarSpec::Calls(Box::new(calls.clone()))).unwrap();
        bench.accepts(&mut grammar, text).unwrap()
    };
    let call =
        |arguments: &str| format!("<call>{{\"name\": \"get_all\", \"arguments\": {arguments}}}</call>");
    let good = [r#"{"ids":[101,102,103],"a":1}"#, r#"{"ids":[1],"a":{"ids":[1,1]}}"#].map(call);
    for text in [&good[0], &good[1], &format!("{}\n{}\n{}", good[0], good[1], good[0])] {
        assert!(admits(text), "{text}");
    }
    for wrong in [r#"{"ids":[101,102,101]}"#, r#"{"a":1,"a":1}"#].map(call) {
        assert!(!admits(&wrong) && !admits(&format!("{}\n{wrong}", good[0])), "{wrong}");
    }
    assert!(admits(r#"["a","b"]"#) && !admits(r#"["a","a"]"#));
}

#[test]
fn calls_name_known_functions_and_have_their_arguments() {
    let bench = Bench::new();
    let one = r#"<call>{"name": "get", "arguments": {"n":1}}</call>"#;
    let two = r#"<call>{"name": "get_all", "arguments": {"x": true}}</call>"#;
    let admits = |calls: Calls, text: &str| {
        let mut grammar = bench.compile(&GrammarSpec::Calls(Box::new(calls))).unwrap();
        bench.accepts(&mut grammar, text).unwrap()
    };
    let many = || calls(Some("\n"), None);
    for text in [one, two, &format!("{one}\n{two}\n{one}")] {
        assert!(admits(many(), text), "{text}");
    }
    let wrong = r#"<call>{"name": "get", "arguments": {"x": true}}</call>"#;
    let unknown = r#"<call>{"name": "put", "arguments": {}}</call>"#;
    for text in ["", wrong, unknown, &format!("{one}{two}"), "{\"a\":1}"] {
        assert!(!admits(many(), text), "{text}");
    }
    assert!(!admits(calls(None, None), &format!("{one}\n{two}")));
    let begun = |begun: &str| Calls { begun: begun.into(), ..calls(None, None) };
    assert!(admits(begun("<call>"), &one["<call>".len()..]));
    for or in [
        GrammarSpec::JsonObject,
        GrammarSpec::Regex(r"\{.*\}".into()),
        GrammarSpec::LarkGrammar("start: /\\{.*\\}/".into()),
    ] {
        for text in [one, "{\"a\":1}"] {
            assert!(admits(calls(Some("\n"), Some(or.clone())), text), "{text} {or:?}");
        }
    }
}

#[test]
fn a_call_may_go_on_behind_its_name() {
    let bench = Bench::new();
    let schema = r#"{"type":"object","properties":{"ids":{"type":"array","items":{"type":"integer"},"uniqueItems":true}},"required":["ids"],"additionalProperties":false}"#;
    let mut one = calls(None, None);
    (one.before, one.between, one.after) = ("to=".into(), ":{name}=".into(), ".".into());
    one.betweens = vec!["-{name}=".into()];
    one.tools[1].schema = schema.into();
    let admits = |calls: &Calls, text: &str| {
        let mut grammar = bench.compile(&GrammarSpec::Calls(Box::new(calls.clone()))).unwrap();
        bench.accepts(&mut grammar, text).unwrap()
    };
    for text in ["to=get:get={\"n\":1}.", "to=get_all-get_all={\"ids\":[1,2]}."] {
        assert!(admits(&one, text), "{text}");
    }
    for text in ["to=get:get_all={\"n\":1}.", "to=get_all-get_all={\"ids\":[1,1]}."] {
        assert!(!admits(&one, text), "{text}");
    }
    let several = Calls { begun: "to=get_all".into(), ..one.clone() };
    let refusal = bench.compile(&GrammarSpec::Calls(Box::new(several))).err();
    assert!(refusal.is_some_and(|e| e.to_string().contains("no beginning of a call")));
    one.tools.remove(0);
    for begun in ["to=", "to=get_all", "to=get_all:", "to=get_all:get_all="] {
        let calls = Calls { begun: begun.into(), ..one.clone() };
        for (text, good) in
            [("to=get_all:get_all={\"ids\":[1,2]}.", true), ("to=get_all:get_all={\"ids\":[2,2]}.", false)]
        {
            assert_eq!(admits(&calls, &text[begun.len()..]), good, "{begun} {text}");
        }
    }
}

#[test]
fn special_tokens_in_marks_are_those_tokens() {
    let bench = Bench::new();
    let start = token(&bench, "<|im_start|>");
    let marked =
        Calls { before: "<|im_start|>".into(), between: ":".into(), after: "\n".into(), ..calls(None, None) };
    let mut grammar = bench.compile(&GrammarSpec::Calls(Box::new(marked.clone()))).unwrap();
    assert_eq!(grammar.mask().unwrap().single(), Some(start));
    grammar.commit(start).unwrap();
    commit(&mut grammar, "get:{\"n\":2}\n");
    assert!(grammar.is_ended());
    // As a trigger, too.
    let begun = Calls { begun: "<|im_start|>".into(), ..marked };
    let sections = vec![
        free(vec![trigger("<|im_start|>", 1)], true),
        Section::Bound { grammar: GrammarSpec::Calls(Box::new(begun)), next: None },
    ];
    let mut grammar = bench.compile(&GrammarSpec::Sections(sections)).unwrap();
    commit(&mut grammar, "hi");
    grammar.commit(start).unwrap();
    assert_eq!(grammar.mask().unwrap().single(), Some(u32::from(b'g')));
    let text = GrammarSpec::Text("a<|im_start|>b".into());
    let mut grammar = bench.compile(&text).unwrap();
    for expected in [u32::from(b'a'), start, u32::from(b'b')] {
        assert_eq!(grammar.mask().unwrap().single(), Some(expected));
        grammar.commit(expected).unwrap();
    }
    assert!(grammar.is_ended());
}
