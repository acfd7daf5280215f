//! Outputs that are constrained are complete within `max_tokens`, and the same with and without drafts.

use super::spec;
use super::world::{Answers, World, essence};
use crate::grammar::states::{LARK, OTHERS};
use llgtrt::config::{AcceptanceKey, DraftSource};
use llgtrt::error::Error;
use llgtrt::request::RequestSpec;
use llgtrt::types::{End, FinishReason};
use serde_json::{Value, json};

/// Whether a text is whole.
type IsWhole = fn(&str) -> bool;

/// Constraints of all kinds.
fn constraints() -> Vec<(Value, IsWhole)> {
    fn is_json(text: &str) -> bool {
        serde_json::from_str::<Value>(text).is_ok()
    }
    let person = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 9}, "minItems": 2},
            "home": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}]},
            "note": {"type": "string"}
        },
        "required": ["name", "tags", "home"]
    });
    let distinct = json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true, "minItems": 4});
    let tree = json!({
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}, "v": {"type": "number"}}, "required": ["v"]}}
    });
    let call = json!({"json_schema": person.to_string()});
    let sections = json!({"sections": [
        {"free": {"triggers": [{"text": "</think>", "next": 1}], "reasoning": true}},
        {"bound": {"grammar": call}}
    ]});
    let calls = json!({"sections": [
        {"free": {"triggers": [{"text": "e", "next": 1}], "may_end": true}},
        {"bound": {"grammar": {"regex": "<[0-9]{3}>"}, "next": 0}}
    ]});
    vec![
        (json!({"json_schema": person.to_string()}), is_json),
        (json!({"json_schema": distinct.to_string()}), is_json),
        (json!({"json_schema": tree.to_string()}), is_json),
        (json!("json_object"), is_json),
        (json!({"regex": "[ab]{2,30}(cde|fghi)"}), |text| text.ends_with("cde") || text.ends_with("fghi")),
        (json!({"gbnf": "root ::= \"(\" root \")\" | [a-z]+ \".\""}), |text| {
            text.matches('(').count() == text.matches(')').count()
                && text.trim_end_matches(')').ends_with('.')
        }),
        (json!({"lark_grammar": "start: \"x\" <[64]> item+ <[64]>\nitem: /[0-9]+/ \";\""}), |text| {
            text.starts_with("x@") && text.ends_with(";@")
        }),
        (sections, |text| text.split_once("</think>").is_some_and(|(_, answer)| is_json(answer))),
        (calls, |text| text.matches('e').count() == text.matches('>').count()),
    ]
}

fn asked(grammar: &Value, max_tokens: usize, seed: usize) -> RequestSpec {
    let temperature = [0.0, 1.0, 1.5][seed % 3];
    spec(
        &json!({
            "prompt": [97, 98, 99], "max_tokens": max_tokens, "grammar": grammar, "logprobs": 1,
            "sampling": {"seed": seed, "temperature": temperature}
        })
        .to_string(),
    )
}

/// Tokens that are needed, as the error says it.
fn least(grammar: &Value) -> usize {
    let answers = World::default().run(&[asked(grammar, 1, 0)], &[0], 0);
    match &answers.choices[&(0, 0)].end {
        Some(End::Failed(Error::Invalid { what, why, .. })) if what == "max_tokens" => {
            let number = why.split("at least ").nth(1).and_then(|rest| rest.split(' ').next());
            number.unwrap().parse().unwrap()
        }
        _ => 1,
    }
}

fn drafting(acceptance: AcceptanceKey) -> World {
    let mut world = World::default();
    world.config.speculative.draft_model = Some("toy:blur=40".into());
    world.config.speculative.sources = Some(vec![DraftSource::Forced, DraftSource::DraftModel]);
    world.config.speculative.acceptance = acceptance;
    world.config.speculative.adaptive = false;
    world
}

#[test]
fn outputs_are_complete_with_and_without_drafts() {
    let mut shortened = 0;
    for (grammar, is_whole) in constraints() {
        let least = least(&grammar);
        let budgets = [least, least + 1, least + 7, 2 * least + 3];
        let requests: Vec<RequestSpec> =
            (0..24).map(|seed| asked(&grammar, budgets[seed % budgets.len()], seed)).collect();
        let order: Vec<usize> = (0..requests.len()).collect();
        let run = |world: &World| world.run(&requests, &order, 0);
        let plain = run(&World::default());
        let check = |answers: &Answers| {
            for ((request, _), event) in &answers.choices {
                // Free text may be cut: a call in it may not.
                let is_free = grammar["sections"][0]["free"]["may_end"] == true;
                let ended = event.end == Some(End::Finished(FinishReason::Stop)) || is_free;
                assert!(
                    ended && is_whole(&event.text),
                    "{grammar} {:?} {event:?}",
                    requests[*request].max_tokens
                );
            }
        };
        check(&plain);
        shortened += plain.choices.values().filter(|event| event.usage.shortened).count();
        let exact = run(&drafting(AcceptanceKey::Exact));
        for (key, event) in &plain.choices {
            assert_eq!(essence(event), essence(&exact.choices[key]), "{grammar}");
            assert_eq!(event.usage.shortened, exact.choices[key].usage.shortened, "{grammar}");
        }
        check(&run(&drafting(AcceptanceKey::Rejection)));
    }
    assert!(shortened > 50, "{shortened}");
}

#[test]
fn every_construct_of_lark_is_the_same_with_drafts() {
    let mut accepted = 0;
    for source in LARK.iter().chain(OTHERS) {
        let grammar = json!({"lark_grammar": source});
        let requests: Vec<RequestSpec> = (0..8).map(|seed| asked(&grammar, 40, seed)).collect();
        let order: Vec<usize> = (0..requests.len()).collect();
        let plain = World::default().run(&requests, &order, 0);
        let mut world = drafting(AcceptanceKey::Exact);
        let all =
            [DraftSource::Forced, DraftSource::Grammar, DraftSource::PromptLookup, DraftSource::DraftModel];
        world.config.speculative.sources = Some(all.to_vec());
        let drafted = world.run(&requests, &order, 0);
        for (key, event) in &plain.choices {
            assert!(!matches!(event.end, Some(End::Failed(_))), "{source}: {event:?}");
            assert_eq!(essence(event), essence(&drafted.choices[key]), "{source}");
        }
        accepted += drafted.snapshot.totals.accepted_tokens;
    }
    assert!(accepted > 500, "{accepted}");
}

/// A stop text inside a constraint is text where the output may not end, and an end token of the request's is a token.
#[test]
fn stops_end_what_may_end() {
    let run = |more: Value| {
        let schema = r#"{"type":"object","properties":{"ab":{"enum":["a}b"]}},"required":["ab"]}"#;
        let mut request = json!({"prompt": [97], "max_tokens": 60, "grammar": {"json_schema": schema}, "sampling": {"seed": 1}});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        World::default().alone(&spec(&request.to_string()))[&0].clone()
    };
    for more in [json!({"stop": ["}"]}), json!({"stop": ["a"]}), json!({"stop_token_ids": [97, 125]})] {
        let event = run(more.clone());
        assert_eq!(serde_json::from_str::<Value>(&event.text).unwrap(), json!({"ab": "a}b"}), "{more}");
        assert_eq!(event.end, Some(End::Finished(FinishReason::Stop)));
    }
    let mut request = spec(
        r#"{"prompt":[97],"max_tokens":60,"stop":["\n"],"grammar":{"regex":"[ab]{3}\n[ab]{9}|[ab]{3}"},"sampling":{"seed":1,"logit_bias":{"10":100}}}"#,
    );
    assert_eq!(World::default().alone(&request)[&0].text.len(), 3);
    request.include_stop_str_in_output = true;
    let event = &World::default().alone(&request)[&0];
    assert_eq!((event.text.len(), &event.end), (4, &Some(End::Finished(FinishReason::Stop))));
}
