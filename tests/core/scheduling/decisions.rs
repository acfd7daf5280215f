//! Decisions: probabilities of texts, from rows that the prompt and a path have, however they are computed.

use super::spec;
use super::world::{Answers, World};
use llgtrt::config::{Config, EngineConfig};
use llgtrt::exec::toy::ToyConfig;
use llgtrt::request::{Limits, Request};
use llgtrt::types::Successors;
use llgtrt::vocab::Vocab;
use std::collections::BTreeMap;

const OPTIONS: [&str; 5] = ["the", "then", "thing", "other", "o"];

fn prompt() -> Vec<u32> {
    (0..300).map(|i| 97 + i % 26).collect()
}

/// The successors behind each path, from behind its first token that counts.
fn decided(answers: &Answers, request: usize, paths: usize) -> Vec<Vec<Successors>> {
    (0..paths as u32).map(|choice| answers.choices[&(request, choice)].successors.clone()).collect()
}

fn decision(paths: &[(&str, usize)]) -> String {
    let path = |(text, from): &(&str, usize)| format!(r#"{{"tokens":{:?},"from":{from}}}"#, text.as_bytes());
    let paths: Vec<_> = paths.iter().map(path).collect();
    format!(
        r#"{{"prompt":{:?},"n":{},"grammar":{{"choice":{OPTIONS:?}}},
            "decide":{{"options":{OPTIONS:?},"paths":[{}]}}}}"#,
        prompt(),
        paths.len(),
        paths.join(",")
    )
}

/// What a constrained request of the same tokens says: for each token that is allowed, its probability.
fn drawn(world: &World, path: &str) -> BTreeMap<u32, f64> {
    // If an end token were drawn, the event would have no log-probabilities. A bias prevents that and does not change them.
    let biases = BTreeMap::from_iter(Vocab::toy().unwrap().eog().iter().map(|end| (*end, -100)));
    let rest: Vec<_> = OPTIONS.iter().filter_map(|text| text.strip_prefix(path)).collect();
    let regex = rest.join("|");
    let prompt = [prompt(), path.bytes().map(u32::from).collect()].concat();
    let request = format!(
        r#"{{"prompt":{prompt:?},"grammar":{{"regex":"({regex})"}},"logprobs":20,"logprobs_of":"allowed","max_tokens":20,
            "sampling":{{"temperature":0,"logit_bias":{}}}}}"#,
        serde_json::json!(biases)
    );
    let event = world.alone(&spec(&request)).remove(&0).unwrap();
    event.logprobs[0].top.iter().map(|(token, logprob)| (*token, f64::from(*logprob).exp())).collect()
}

#[test]
fn tokens_have_the_probabilities_that_they_are_drawn_with() {
    let (world, vocab) = (World::default(), Vocab::toy().unwrap());
    let paths = [("", 0), ("t", 1), ("th", 2), ("the", 3), ("o", 1)];
    let answers = world.run(&[spec(&decision(&paths))], &[0], 0);
    for ((path, _), found) in paths.iter().zip(decided(&answers, 0, paths.len())) {
        let [Successors { settled, open }] = &found[..] else { panic!("{path}: {found:?}") };
        let mut expected = (vec![0.0; OPTIONS.len()], Vec::new());
        for (token, probability) in drawn(&world, path) {
            let token_text = if vocab.is_eog(token) { &[][..] } else { vocab.bytes(token) };
            let text = [path.as_bytes(), token_text].concat();
            let fits = |option: &&str| {
                if token_text.is_empty() {
                    option.as_bytes() == text
                } else {
                    option.as_bytes().starts_with(&text)
                }
            };
            let left: Vec<_> = (0..OPTIONS.len()).filter(|i| fits(&OPTIONS[*i])).collect();
            match left[..] {
                [one] => expected.0[one] += probability,
                _ => expected.1.push((token, probability)),
            }
        }
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(
            settled.iter().zip(&expected.0).all(|(a, b)| close(*a, *b)),
            "{path}: {settled:?} {expected:?}"
        );
        assert_eq!(open.len(), expected.1.len(), "{path}: {open:?} {expected:?}");
        let same = |((a, p), (b, q)): (&(u32, f64), &(u32, f64))| a == b && close(*p, *q);
        assert!(open.iter().zip(&expected.1).all(same), "{path}: {open:?} {expected:?}");
        let sum: f64 = settled.iter().chain(open.iter().map(|(_, p)| p)).sum();
        assert!(close(sum, 1.0));
    }
}

#[test]
fn a_decision_does_not_depend_on_how_its_prompt_is_computed() {
    let paths = [("the", 0), ("o", 1), ("", 0), ("thi", 2)];
    let request = spec(&decision(&paths));
    let expected = decided(&World::default().run(std::slice::from_ref(&request), &[0], 0), 0, paths.len());
    assert_eq!(expected.iter().map(Vec::len).collect::<Vec<_>>(), [4, 1, 1, 2]);
    let chunked =
        Config { engine: EngineConfig { max_step_ms: 1, ..EngineConfig::default() }, ..Config::default() };
    let whole = Config { enable_chunked_context: false, ..Config::default() };
    let slow = ToyConfig { step_us: 500, step_tokens: 32, ..ToyConfig::default() };
    let narrow = ToyConfig { slots: 1, step_tokens: 2, ..ToyConfig::default() };
    let stateful = ToyConfig { stateful: 1, ..ToyConfig::default() };
    let plain = ToyConfig::default;
    for (config, toy) in
        [(chunked, slow), (whole, plain()), (Config::default(), narrow), (Config::default(), stateful)]
    {
        let live = World { config, toy, ..World::default() }.start();
        // The second time there is KV to reuse.
        for round in 0..2 {
            live.submit(round, &request);
            let answers = live.finish(paths.len());
            assert_eq!(decided(&answers, round, paths.len()), expected, "round {round}");
            let usage = answers.choices[&(round, 0)].usage;
            assert_eq!((usage.prompt, usage.completion), (300, 0));
        }
        assert_eq!(live.close().1, 0);
    }
}

#[test]
fn a_further_path_computes_its_own_tokens_only() {
    let live = World::default().start();
    live.submit(0, &spec(&decision(&[("", 0)])));
    assert_eq!(live.finish(1).snapshot.totals.computed_tokens, 300);
    live.submit(1, &spec(&decision(&[("t", 1), ("o", 1), ("th", 1)])));
    assert_eq!(live.finish(3).snapshot.totals.computed_tokens, 304);
}

#[test]
fn what_cannot_be_decided_is_refused() {
    let limits = Limits {
        n_vocab: 512,
        context: 400,
        max_prompt: 400,
        default_output: u32::MAX,
        faults: false,
        lacks: Default::default(),
    };
    let refused = |decide: &str, more: &str| {
        let request = format!(r#"{{"prompt":[97,98]{more},"decide":{decide}}}"#);
        Request::new(spec(&request), &limits).unwrap_err().to_string()
    };
    let grammar = r#","grammar":{"choice":["a","b"]}"#;
    let fine = r#"{"options":["a","b"],"paths":[{}]}"#;
    for (decide, more, why) in [
        (fine, "", "decide: needs a constraint"),
        (fine, &*format!("{grammar},\"max_tokens\":3"), "decide: generates nothing"),
        (fine, &*format!("{grammar},\"n\":2"), "decide: needs one path"),
        (r#"{"options":[],"paths":[{}]}"#, grammar, "options: is 0"),
        (r#"{"options":["a","a"],"paths":[{}]}"#, grammar, "options: must differ"),
        (r#"{"options":["a",""],"paths":[{}]}"#, grammar, "options: must differ"),
        (r#"{"options":["a"],"paths":[]}"#, grammar, "paths: is 0"),
        (r#"{"options":["a"],"paths":[{"from":1}]}"#, grammar, "decide: each path"),
        (r#"{"options":["a"],"base":1,"paths":[{}]}"#, grammar, "decide: each path"),
        (r#"{"options":["a"],"paths":[{"tokens":[512]}]}"#, grammar, "paths: has token id 512"),
    ] {
        let told = refused(decide, more);
        assert!(told.starts_with(why), "{decide}{more}: {told}");
    }
    let long = format!(r#"{{"options":["a"],"paths":[{{"tokens":{:?},"from":390}}]}}"#, [97; 398]);
    assert!(refused(&long, grammar).contains("the context is 400 tokens"));
    let wide = format!(r#"{{"options":["a"],"paths":[{{"tokens":{:?}}}]}}"#, [97; 33]);
    assert!(refused(&wide, grammar).starts_with("paths: has 33 entries"));
}

#[test]
fn a_path_that_the_constraint_refuses_ends_its_choice_alone() {
    let answers = World::default().run(&[spec(&decision(&[("x", 1), ("t", 1)]))], &[0], 0);
    let ended = |choice| format!("{:?}", answers.choices[&(0, choice)].end);
    assert!(ended(0).contains("the constraint refuses one of these tokens"), "{}", ended(0));
    assert!(ended(1).contains("Finished"), "{}", ended(1));
}
