//! Log-probabilities of prompts: those that the same tokens have where they are drawn, however the prompt is computed.

use super::spec;
use super::world::World;
use llgtrt::config::{Config, EngineConfig};
use llgtrt::exec::toy::ToyConfig;
use llgtrt::types::TokenLogprob;

/// What a request draws after the tokens 97 and 98, and its log-probabilities.
fn drawn(world: &World, count: u32) -> (Vec<u32>, Vec<TokenLogprob>) {
    let request = format!(
        r#"{{"prompt":[97,98],"max_tokens":{count},"ignore_eos":true,"logprobs":3,"sampling":{{"seed":5}}}}"#
    );
    let event = world.alone(&spec(&request)).remove(&0).unwrap();
    (event.tokens, event.logprobs)
}

#[test]
fn a_prompt_s_are_those_of_the_same_tokens_drawn() {
    let (tokens, logprobs) = drawn(&World::default(), 300);
    let prompt = [&[97, 98], &tokens[..]].concat();
    let text = |n: u32| {
        format!(
            r#"{{"prompt":{prompt:?},"prompt_logprobs":3,"n":{n},"max_tokens":4,"ignore_eos":true,"sampling":{{"seed":1}}}}"#
        )
    };
    let chunked =
        Config { engine: EngineConfig { max_step_ms: 1, ..EngineConfig::default() }, ..Config::default() };
    let whole = Config { enable_chunked_context: false, ..Config::default() };
    let slow = ToyConfig { step_us: 500, step_tokens: 32, ..ToyConfig::default() };
    for (config, toy) in
        [(Config::default(), ToyConfig::default()), (chunked, slow), (whole, ToyConfig::default())]
    {
        let world = World { config, toy, ..World::default() };
        let live = world.start();
        // The second time there would be KV to reuse.
        for round in 0..2 {
            live.submit(round, &spec(&text(2)));
            let answers = live.finish(2);
            let [first, second] = [0, 1].map(|choice| &answers.choices[&(round, choice)]);
            assert_eq!(first.prompt_logprobs.len(), prompt.len() - 1);
            assert_eq!(first.prompt_logprobs[1..], logprobs[..], "round {round}");
            assert_eq!(first.prompt_logprobs[0].token, 98);
            assert!(second.prompt_logprobs.is_empty());
            assert_eq!((first.tokens.len(), second.tokens.len()), (4, 4));
        }
    }
}

#[test]
fn a_prompt_of_one_token_has_none() {
    let event = World::default().alone(&spec(r#"{"prompt":[97],"prompt_logprobs":3,"max_tokens":2}"#));
    assert!(event[&0].prompt_logprobs.is_empty());
}
