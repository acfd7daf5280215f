//! Drafts: what a request may say about them, that they save steps, and that mistakes with them show.

use super::oracle::Oracle;
use super::spec;
use super::world::{Answers, World, essence, speculator};
use llgtrt::config::{Acceptance, AcceptanceKey, DraftSource};
use llgtrt::engine::FromEngine;
use llgtrt::exec::toy::{ToyConfig, ToyFault};
use llgtrt::request::RequestSpec;
use llgtrt::types::{End, FinishReason};

fn asked(more: &str) -> RequestSpec {
    spec(&format!(
        r#"{{"prompt":[97,98,99],"max_tokens":60,"ignore_eos":true,"logprobs":1{more},"sampling":{{"seed":7}}}}"#
    ))
}

/// Its answer without drafts, and with an oracle's that is `right` percent right.
fn both(request: &RequestSpec, right: u64, fault: Option<ToyFault>) -> (Answers, Answers) {
    let plain = World::default().run(std::slice::from_ref(request), &[0], 0);
    let oracle = Oracle::new(plain.choices.values().map(|event| (request, event)), right);
    let mut world = World { oracle: Some(oracle), fault, ..World::default() };
    world.config.speculative.adaptive = false;
    let drafted = world.run(std::slice::from_ref(request), &[0], 0);
    (plain, drafted)
}

fn same(one: &Answers, other: &Answers) -> bool {
    one.choices.iter().all(|(key, event)| essence(event) == essence(&other.choices[key]))
}

#[test]
fn right_drafts_save_steps() {
    let (plain, drafted) = both(&asked(""), 100, None);
    assert!(same(&plain, &drafted));
    let totals = &drafted.snapshot.totals;
    assert_eq!(totals.accepted_tokens, totals.drafted_tokens);
    assert!(totals.steps * 5 < plain.snapshot.totals.steps, "{} steps", totals.steps);
}

/// A draft model that takes longer than a step may, and a prompt that comes while it drafts.
#[test]
fn drafts_take_no_time_from_prompts() {
    let mut world = World { toy: ToyConfig { step_us: 200, ..ToyConfig::default() }, ..World::default() };
    world.config.engine.max_step_ms = 50;
    world.config.speculative.adaptive = false;
    world.config.speculative.max_draft_len = Some(2);
    world.config.speculative.sources = Some(vec![DraftSource::DraftModel]);
    world.config.speculative.draft_model = Some("toy:step_us=40000".into());
    let live = world.start();
    let request = |prompt: usize, tokens: u32| {
        let prompt = vec![97; prompt];
        spec(&format!(r#"{{"prompt":{prompt:?},"max_tokens":{tokens},"ignore_eos":true}}"#))
    };
    live.submit(0, &request(3, 1000));
    let events = || {
        let FromEngine::Report(report) = live.messages.recv().unwrap() else { return Vec::new() };
        report.events
    };
    while events().is_empty() {}
    live.submit(1, &request(1000, 1));
    let steps = (0..).find(|_| events().iter().any(|event| event.request.0 == 1)).unwrap();
    // By chunks of 8 tokens it would take 125.
    assert!(steps < 40, "{steps}");
}

#[test]
fn nothing_is_drafted_for_more_sequences_than_the_server_says() {
    let requests = [asked(""), asked(r#","n":4"#)];
    let plain = World::default().run(&requests, &[0, 1], 0);
    let oracle = |index: usize| {
        let of = plain.choices.iter().filter(move |(key, _)| key.0 == index);
        Oracle::new(of.map(|(_, event)| (&requests[index], event)), 100)
    };
    for adaptive in [false, true] {
        for (index, most, drafts) in [(0, 1, true), (1, 3, false), (1, 5, true)] {
            let mut world = World { oracle: Some(oracle(index)), ..World::default() };
            world.config.speculative.adaptive = adaptive;
            world.config.speculative.disable_by_batch_size = Some(most);
            let answers = world.run(&requests, &[index], 0);
            // At the end fewer choices may be left than that.
            let drafted = answers.snapshot.totals.drafted_tokens;
            let all = 59 * answers.choices.len() as u64;
            assert_eq!(drafted * 2 > all, drafts, "{index}, {most}: {drafted} of {all}");
            assert!(answers.choices.iter().all(|(key, e)| essence(e) == essence(&plain.choices[key])));
        }
    }
}

#[test]
fn a_request_may_refuse_or_shorten_drafts() {
    let steps = |more: &str| {
        let (plain, drafted) = both(&asked(more), 100, None);
        assert!(same(&plain, &drafted), "{more}");
        (drafted.snapshot.totals.drafted_tokens, drafted.snapshot.totals.steps)
    };
    assert_eq!(steps(r#","speculative":{"enabled":false}"#).0, 0);
    assert_eq!(steps(r#","speculative":{"max_draft_len":0}"#).0, 0);
    assert_eq!(steps(r#","speculative":{"sources":[]}"#).0, 0);
    let (one, all) =
        (steps(r#","speculative":{"max_draft_len":1}"#), steps(r#","speculative":{"max_draft_len":99}"#));
    assert!(one.0 > 0 && one.1 > 2 * all.1, "{one:?} {all:?}");
}

#[test]
fn forced_tokens_are_drafted_and_always_accepted() {
    let schema = r#"{\"type\":\"object\",\"properties\":{\"identifier\":{\"type\":\"boolean\"},\"known_since\":{\"type\":\"null\"}},\"required\":[\"identifier\",\"known_since\"],\"additionalProperties\":false}"#;
    let request = asked(&format!(r#","grammar":{{"json_schema":"{schema}"}}"#));
    let plain = World::default().run(std::slice::from_ref(&request), &[0], 0);
    let mut world = World::default();
    world.config.speculative.sources = Some(vec![DraftSource::Forced]);
    world.config.speculative.adaptive = false;
    let drafted = world.run(std::slice::from_ref(&request), &[0], 0);
    assert!(same(&plain, &drafted));
    let totals = &drafted.snapshot.totals;
    assert!(totals.drafted_tokens > 20, "{}", totals.drafted_tokens);
    assert_eq!(totals.accepted_tokens, totals.drafted_tokens);
    assert!(totals.steps * 2 < plain.snapshot.totals.steps);
}

/// The same request gives the same text, so after two texts the grammar's states are known and their tokens are drafted.
#[test]
fn what_came_in_a_state_of_the_grammar_is_drafted_for_the_same_client() {
    let schema = r#"{\"type\":\"array\",\"items\":{\"enum\":[\"red\",\"green\",null,true]},\"minItems\":6,\"maxItems\":6}"#;
    let request = |client: u32, salt: u32, more: &str| {
        let client = format!(r#""client":{client},"cache_salt":{salt}{more}"#);
        asked(&format!(r#","grammar":{{"json_schema":"{schema}"}},{client}"#))
    };
    let plain = World::default().run(&[request(1, 0, "")], &[0], 0);
    let mut world = World::default();
    world.config.speculative.sources = Some(vec![DraftSource::Grammar]);
    world.config.speculative.adaptive = false;
    let live = world.start();
    let mut before = 0;
    let mut accepted = |client: u32, salt: u32, more: &str| {
        let answers = live.run(&[request(client, salt, more)], &[0], 0);
        assert!(same(&plain, &answers));
        let fates = answers.snapshot.totals.drafting.sources.get(&DraftSource::Grammar).cloned();
        let all = fates.map_or(0, |fates| fates.accepted);
        all - std::mem::replace(&mut before, all)
    };
    let counts: Vec<_> = (0..4).map(|_| accepted(1, 0, "")).collect();
    let tokens = plain.choices[&(0, 0)].tokens.len() as u64;
    assert!(counts[3] > tokens / 2, "{counts:?} of {tokens}");
    // Others, and the same client with another salt, begin as it did.
    assert_eq!((accepted(2, 0, ""), accepted(1, 5, "")), (counts[0], counts[0]));
    // Where a stop text would not end the output, the output is walked again, which teaches nothing.
    let stops: Vec<_> = (0..4).map(|_| accepted(7, 0, r#","stop":["e"]"#)).collect();
    assert_eq!(stops, counts);
}

/// A state cannot be taken back, and need not be where the text ends in the middle of forced tokens.
#[test]
fn forced_tokens_behind_an_end_change_nothing_where_states_stay() {
    let schema = r#"{\"type\":\"object\",\"properties\":{\"identifier\":{\"type\":\"null\"}},\"required\":[\"identifier\"],\"additionalProperties\":false}"#;
    let toy = ToyConfig { stateful: 1, ..ToyConfig::default() };
    for more in
        [r#","allowed_token_ids":[123,34,105,100]"#, r#","stop_token_ids":[101]"#, r#","stop":["de"]"#]
    {
        let request = asked(&format!(r#","grammar":{{"json_schema":"{schema}"}}{more}"#));
        let plain =
            World { toy: toy.clone(), ..World::default() }.run(std::slice::from_ref(&request), &[0], 0);
        let mut world = World { toy: toy.clone(), ..World::default() };
        world.config.speculative.sources = Some(vec![DraftSource::Forced]);
        world.config.speculative.adaptive = false;
        let drafted = world.run(std::slice::from_ref(&request), &[0], 0);
        assert!(same(&plain, &drafted), "{more}: {:?}, {:?}", plain.choices, drafted.choices);
        assert!(drafted.snapshot.totals.accepted_tokens > 0, "{more}");
    }
}

/// Forced tokens once led models into endless line breaks (llguidance issue 267).
#[test]
fn a_model_that_loves_line_breaks_still_comes_to_an_end() {
    let schema = r#"{\"type\":\"object\",\"properties\":{\"name\":{\"enum\":[\"ab\"]},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":2,\"maxItems\":3}},\"required\":[\"name\",\"tags\"],\"additionalProperties\":false}"#;
    // A line break, a space, a tab and a carriage return before everything else.
    let request = spec(&format!(
        r#"{{"prompt":[97],"max_tokens":2000,"grammar":{{"json_schema":"{schema}"}},
            "sampling":{{"seed":7,"logit_bias":{{"9":90,"10":100,"13":90,"32":90}}}}}}"#
    ));
    let plain = World::default().run(std::slice::from_ref(&request), &[0], 0);
    let mut world = with_model(AcceptanceKey::Exact);
    world.config.speculative.sources = Some(vec![DraftSource::Forced, DraftSource::DraftModel]);
    let drafted = world.run(std::slice::from_ref(&request), &[0], 0);
    assert!(same(&plain, &drafted) && drafted.snapshot.totals.accepted_tokens > 50);
    let event = &plain.choices[&(0, 0)];
    assert_eq!(event.end, Some(End::Finished(FinishReason::Stop)), "{}", event.text);
    let value: serde_json::Value = serde_json::from_str(&event.text).unwrap();
    assert_eq!(value["name"], "ab");
    assert!(event.text.contains("\n   ") && !event.text.contains("\n\n"), "{}", event.text);
}

#[test]
fn a_failure_behind_a_draft_comes_after_the_same_text() {
    for fault in ["sampler_panic", "grammar_panic"] {
        let (plain, drafted) = both(&asked(&format!(r#","fault":{{"{fault}":17}}"#)), 100, None);
        assert_eq!(plain.choices[&(0, 0)].tokens.len(), 17);
        assert!(same(&plain, &drafted), "{fault}");
        assert!(drafted.snapshot.totals.accepted_tokens > 0);
    }
}

#[test]
fn refused_drafts_that_stay_in_the_kv_are_noticed() {
    let (plain, drafted) = both(&asked(""), 70, Some(ToyFault::KeepsCells));
    assert!(!same(&plain, &drafted));
    let (plain, drafted) = both(&asked(""), 70, None);
    assert!(same(&plain, &drafted));
    let totals = &drafted.snapshot.totals;
    assert!(totals.accepted_tokens > 0 && totals.accepted_tokens < totals.drafted_tokens);
}

fn with_model(acceptance: AcceptanceKey) -> World {
    let mut world = World::default();
    world.config.speculative.draft_model = Some("toy:blur=40".into());
    world.config.speculative.sources = Some(vec![DraftSource::DraftModel]);
    world.config.speculative.acceptance = acceptance;
    world.config.speculative.adaptive = false;
    world
}

#[test]
fn rejection_accepts_more_and_changes_nothing_at_temperature_0() {
    let request = |seed: u32, temperature: f32| {
        spec(&format!(
            r#"{{"prompt":[97,98,{seed}],"max_tokens":60,"ignore_eos":true,"logprobs":1,
               "sampling":{{"seed":{seed},"temperature":{temperature}}}}}"#
        ))
    };
    let share = |acceptance| {
        let requests: Vec<_> = (0..20).map(|seed| request(seed, 1.0)).collect();
        let order: Vec<_> = (0..requests.len()).collect();
        let totals = with_model(acceptance).run(&requests, &order, 0).snapshot.totals;
        totals.accepted_tokens as f64 / totals.drafted_tokens as f64
    };
    let (exact, rejection) = (share(AcceptanceKey::Exact), share(AcceptanceKey::Rejection));
    assert!(rejection > exact && exact > 0.1, "{rejection} against {exact}");
    let greedy = request(5, 0.0);
    let plain = World::default().run(std::slice::from_ref(&greedy), &[0], 0);
    let drafted = with_model(AcceptanceKey::Rejection).run(std::slice::from_ref(&greedy), &[0], 0);
    assert!(same(&plain, &drafted) && drafted.snapshot.totals.accepted_tokens > 0);
    // A request may ask for the other way.
    let mut own = request(6, 1.0);
    let plain = World::default().run(std::slice::from_ref(&own), &[0], 0);
    own.speculative.acceptance = Some(Acceptance::Exact);
    assert!(same(&plain, &with_model(AcceptanceKey::Rejection).run(std::slice::from_ref(&own), &[0], 0)));
}

#[test]
fn rejection_obeys_grammars_and_ends() {
    let requests: Vec<_> = (0..40)
        .map(|seed| {
            spec(&format!(
                r#"{{"prompt":[97],"max_tokens":50,"grammar":{{"regex":"[ab]{{1,9}}(cd|e)"}},"sampling":{{"seed":{seed}}}}}"#
            ))
        })
        .collect();
    let order: Vec<_> = (0..requests.len()).collect();
    let answers = with_model(AcceptanceKey::Rejection).run(&requests, &order, 0);
    for event in answers.choices.values() {
        assert_eq!(event.end, Some(End::Finished(FinishReason::Stop)));
        let body = event.text.strip_suffix("cd").or(event.text.strip_suffix('e')).unwrap();
        assert!((1..10).contains(&body.len()) && body.bytes().all(|b| b == b'a' || b == b'b'), "{body}");
    }
    assert!(answers.snapshot.totals.accepted_tokens > 0);
}

/// One to six letters, as many as are drawn.
fn few_letters(seed: usize) -> RequestSpec {
    spec(&format!(
        r#"{{"prompt":[97],"max_tokens":9,"grammar":{{"regex":"[ab]{{1,6}}"}},"sampling":{{"seed":{seed},"logit_bias":{{"267":3}}}}}}"#
    ))
}

#[test]
fn ends_that_were_drafted_and_accepted_are_counted_as_such() {
    let requests: Vec<_> = (0..100).map(few_letters).collect();
    let order: Vec<_> = (0..requests.len()).collect();
    let answers = with_model(AcceptanceKey::Rejection).run(&requests, &order, 0);
    let model = answers.snapshot.totals.drafting.sources[&DraftSource::DraftModel];
    assert!(model.stop > 0, "{model:?}");
}

#[test]
fn rejection_by_two_sources_ends_texts_as_often_as_none() {
    // How many texts have one to six letters; each has a seed of its own.
    let lengths = |world: &World, first: usize| {
        let requests: Vec<_> = (first..first + 4000).map(few_letters).collect();
        let mut counts = [0.0_f64; 6];
        // One by one: a speculator has nothing to go by in steps that read prompts.
        let live = world.start();
        for index in 0..requests.len() {
            let answers = live.run(&requests, &[index], 0);
            counts[answers.choices[&(index, 0)].text.len() - 1] += 1.0;
        }
        counts
    };
    let want = lengths(&World::default(), 0);
    assert!(want.iter().all(|count| *count > 50.0), "{want:?}");
    for sources in [
        [DraftSource::DraftModel, DraftSource::MlpSpeculator],
        [DraftSource::MlpSpeculator, DraftSource::DraftModel],
    ] {
        let mut world = with_model(AcceptanceKey::Rejection);
        world.config.speculative.mlp_speculator = Some(speculator());
        world.config.speculative.sources = Some(sources.to_vec());
        world.config.speculative.max_draft_len = Some(2);
        let got = lengths(&world, 4000);
        // Of two samples of the same size; 38 is exceeded less than once in a million, with 5 degrees of freedom.
        let apart: f64 = want.iter().zip(got).map(|(a, b)| (a - b).powi(2) / (a + b)).sum();
        assert!(apart < 38.0, "{apart}: {want:?}, {got:?} by {sources:?}");
    }
}

#[test]
fn what_the_grammar_cuts_off_a_prediction_is_not_counted_as_predicted() {
    // Seven of eight tokens come after a draft: of the five predicted ones the last is refused, and another's follow.
    let mut request = spec(
        r#"{"prompt":[97,98,99],"max_tokens":8,"grammar":{"regex":"[ab]{8,50}"},"sampling":{"seed":7}}"#,
    );
    let plain = World::default().run(std::slice::from_ref(&request), &[0], 0);
    request.prediction = plain.choices[&(0, 0)].tokens[..5].to_vec();
    request.prediction.push(u32::from(b'0'));
    let mut world = with_model(AcceptanceKey::Exact);
    world.config.speculative.draft_model = Some("toy".into());
    world.config.speculative.sources = Some(vec![DraftSource::Prediction, DraftSource::DraftModel]);
    let drafted = world.run(std::slice::from_ref(&request), &[0], 0);
    assert!(same(&plain, &drafted));
    let sources = &drafted.snapshot.totals.drafting.sources;
    let (predicted, guessed) = (sources[&DraftSource::Prediction], sources[&DraftSource::DraftModel]);
    // The first token comes with the prompt, the last behind the draft.
    assert_eq!((predicted.drafted, guessed.drafted), (4, 2), "{sources:?}");
}

#[test]
fn a_draft_may_be_wrong_at_any_place_in_any_way() {
    let schema = r#"{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"integer\"},\"c\":{\"enum\":[\"x\",\"yz\"]}},\"required\":[\"ab\",\"c\"],\"additionalProperties\":false}"#;
    for constraint in [
        format!(r#"{{"json_schema":"{schema}"}}"#),
        r#"{"lark_grammar":"start: /[a-c]/ \"d\"* (\"e\" start)?"}"#.into(),
        // These cannot be rolled back.
        r#"{"lark_grammar":"start: a \"e\"\na[max_tokens=6]: /[b-d]{4,9}/"}"#.into(),
        r#"{"lark_grammar":"start: a \"!\"\na[stop=\".\"]: /[a-e]{4,8}/"}"#.into(),
    ] {
        let request = spec(&format!(
            r#"{{"prompt":[97,98],"max_tokens":30,"logprobs":1,"grammar":{constraint},"sampling":{{"seed":3}}}}"#
        ));
        let plain = World::default().run(std::slice::from_ref(&request), &[0], 0);
        let answer = &plain.choices[&(0, 0)];
        assert!(answer.tokens.len() > 3, "{constraint}: {answer:?}");
        // A byte that is never allowed, an end token, an id past the vocabulary, a token that is sometimes allowed.
        for token in [0, 267, 9999, u32::from(b'1'), u32::from(b'e')] {
            for place in 2..2 + answer.tokens.len() {
                let mut oracle = Oracle::new([(&request, answer)].into_iter(), 100);
                oracle.spoilt = Some((place, token));
                let mut world = World { oracle: Some(oracle), ..World::default() };
                world.config.speculative.adaptive = false;
                let drafted = world.run(std::slice::from_ref(&request), &[0], 0);
                assert!(same(&plain, &drafted), "{token} at {place}: {:?}", drafted.choices);
            }
        }
    }
}

#[test]
fn decreed_acceptance_keeps_what_is_decreed() {
    let steps = |right: u64, rates: &[f64]| {
        let plain = World::default().run(&[asked("")], &[0], 0);
        let request = asked("");
        let oracle = Oracle::new(plain.choices.values().map(|event| (&request, event)), right);
        let mut world = World { oracle: Some(oracle), ..World::default() };
        world.config.speculative.adaptive = false;
        world.config.speculative.synthetic_acceptance = Some(rates.to_vec());
        let answers = world.run(&[asked("")], &[0], 0);
        assert_eq!(answers.choices[&(0, 0)].tokens.len(), 60);
        (same(&plain, &answers), answers.snapshot.totals)
    };
    // What is right is refused, and the answer stays the same.
    let (equal, totals) = steps(100, &[0.0]);
    assert!(equal && totals.drafted_tokens > 20 && totals.accepted_tokens == 0);
    let (equal, totals) = steps(100, &[1.0]);
    assert!(equal && totals.accepted_tokens == totals.drafted_tokens);
    // What is wrong is kept, and what follows is refused.
    let mut world = with_model(AcceptanceKey::Exact);
    world.config.speculative.synthetic_acceptance = Some(vec![1.0, 1.0, 0.0]);
    let totals = world.run(&[asked("")], &[0], 0).snapshot.totals;
    let places = &totals.drafting.accepted_at;
    assert!(places[0] > 15 && places[1] > 15 && places.iter().skip(2).all(|n| *n == 0), "{places:?}");
}
