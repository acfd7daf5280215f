//! Which slots decode together, and what of a shared beginning is computed, on an engine that copies KV token by token.

use super::spec;
use super::world::{Observed, World, essence, start};
use llgtrt::exec::Run;
use llgtrt::exec::helpers::Helpers;
use llgtrt::exec::open::open_toy;
use llgtrt::exec::sampled::Sampled;
use llgtrt::exec::toy::{Toy, ToyConfig};
use llgtrt::types::Token;
use llgtrt::vocab::Vocab;
use std::sync::{Arc, Mutex};

/// Slot and tokens of each run of a pass.
type Pass = Vec<(u32, usize)>;

/// The passes of requests with these prompts and numbers of tokens, whose answers are those of each alone.
fn passes(requests: &[(Vec<Token>, u32)], step_tokens: u32) -> Vec<Pass> {
    let toy = ToyConfig { slots: 16, token_bytes: 8, step_tokens, ..ToyConfig::default() };
    let world = World { toy: toy.clone(), ..World::default() };
    let mut opened = open_toy(toy.clone(), &world.config, None).unwrap();
    let passes = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&passes);
    let before = move |runs: &[Run<'_>]| {
        told.lock().unwrap().push(runs.iter().map(|run| (run.slot.0, run.tokens.len())).collect());
    };
    let observed = Observed { toy: Toy::new(toy, &Vocab::toy().unwrap()), before };
    let helpers = Helpers::new(1);
    opened.target = Box::new(Sampled::new(Box::new(observed), 0, helpers, &world.config.speculative));
    let one = |(prompt, tokens): &(Vec<Token>, u32)| {
        spec(&format!(
            r#"{{"prompt":{prompt:?},"max_tokens":{tokens},"ignore_eos":true,"sampling":{{"seed":1}}}}"#
        ))
    };
    let requests: Vec<_> = requests.iter().map(one).collect();
    let order: Vec<_> = (0..requests.len()).collect();
    let answers = start(opened, &world.config).run(&requests, &order, 0);
    for (index, request) in requests.iter().enumerate() {
        assert_eq!(essence(&answers.choices[&(index, 0)]), essence(&world.alone(request)[&0]));
    }
    Arc::try_unwrap(passes).unwrap().into_inner().unwrap()
}

fn prompt(length: usize, first: Token) -> Vec<Token> {
    (0..length as Token).map(|i| 97 + (first + i * i) % 26).collect()
}

#[test]
fn what_decodes_is_in_neighbouring_slots() {
    let lengths = [(30, 3), (70, 40), (9, 5), (50, 60), (20, 8), (90, 80), (15, 25), (40, 11)];
    let requests: Vec<_> =
        (1..).zip(lengths).map(|(i, (length, tokens))| (prompt(length, i), tokens)).collect();
    let passes = passes(&requests, 24);
    let mut together = 0;
    for pass in passes {
        let decoding: Vec<u32> =
            pass.iter().filter(|(_, tokens)| *tokens == 1).map(|(slot, _)| *slot).collect();
        assert!(decoding.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{pass:?}");
        together = together.max(decoding.len());
    }
    assert!(together > 2);
}

#[test]
fn a_shared_beginning_is_computed_once() {
    let beginning = prompt(400, 3);
    let requests: Vec<_> =
        (1..7).map(|i| ([&beginning[..], &prompt(10 + i as usize, i)].concat(), 2)).collect();
    let passes = passes(&requests, 50);
    let computed: usize = passes.iter().flatten().map(|(_, tokens)| tokens).sum();
    let apart: usize = requests.iter().map(|(prompt, _)| prompt.len() - beginning.len() + 2).sum();
    // Two may compute the same in the step in which one comes to the end.
    assert!((400 + apart - 6..400 + apart + 2 * 50).contains(&computed), "{computed}, {apart}");
}
