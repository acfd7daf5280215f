//! One bad sequence harms one sequence; a failing engine ends what runs and serves on; planted mistakes are noticed.

use super::spec;
use super::world::{Answers, World, essence};
use llgtrt::engine::FromEngine;
use llgtrt::exec::toy::{ToyConfig, ToyFault};
use llgtrt::types::{End, FinishReason};

fn good(seed: u32) -> String {
    format!(r#"{{"prompt":[97,98],"max_tokens":30,"ignore_eos":true,"sampling":{{"seed":{seed}}}}}"#)
}

#[test]
fn a_panic_in_one_sampler_or_grammar_ends_that_sequence_only() {
    for fault in ["sampler_panic", "grammar_panic"] {
        let bad = good(1).replace(r#""max_tokens""#, &format!(r#""fault":{{"{fault}":7}},"max_tokens""#));
        let specs = [spec(&good(0)), spec(&bad), spec(&good(2))];
        let answers = World::default().run(&specs, &[0, 1, 2], 0);
        assert!(matches!(answers.choices[&(1, 0)].end, Some(End::Failed(_))), "{fault}");
        assert_eq!(answers.choices[&(1, 0)].tokens.len(), 7);
        for index in [0, 2] {
            let want = &World::default().alone(&specs[index])[&0];
            assert_eq!(essence(&answers.choices[&(index, 0)]), essence(want));
        }
        assert_eq!(answers.snapshot.totals.requests_failed, 1);
    }
}

#[test]
fn a_panic_of_the_engine_ends_what_runs_and_the_next_request_is_served() {
    let live = World::default().start();
    let bad = good(1).replace(r#""max_tokens""#, r#""fault":{"engine_panic":5},"max_tokens""#);
    for (index, json) in [good(0), bad, good(2)].iter().enumerate() {
        live.submit(index, &spec(json));
    }
    let answers = live.finish(3);
    assert!(matches!(answers.choices[&(1, 0)].end, Some(End::Failed(_))));
    live.submit(3, &spec(&good(3)));
    let answers = live.finish(1);
    let want = &World::default().alone(&spec(&good(3)))[&0];
    assert_eq!(essence(&answers.choices[&(3, 0)]), essence(want));
}

#[test]
fn an_engine_that_fails_time_and_again_gives_itself_up() {
    let live = World::default().start();
    let bad = good(1).replace(r#""max_tokens""#, r#""fault":{"engine_panic":0},"max_tokens""#);
    for index in 0..3 {
        live.submit(index, &spec(&bad));
        let mut messages = live.messages.iter();
        let failed = |message| match message {
            FromEngine::Report(report) => report.events.iter().any(|event| event.end.is_some()),
            _ => false,
        };
        assert!(messages.any(failed), "{index}");
    }
    assert!(live.messages.iter().count() < 3, "it has ended");
}

#[test]
fn a_grammar_that_cannot_be_enforced_is_refused_before_anything_runs() {
    let specs = [
        spec(r#"{"prompt":[97],"n":2,"max_tokens":4,"grammar":{"json_schema":"{\"not\":{}}"}}"#),
        spec(&good(1)),
    ];
    let answers = World::default().run(&specs, &[0, 1], 0);
    for choice in [0, 1] {
        assert!(matches!(
            answers.choices[&(0, choice)].end,
            Some(End::Failed(llgtrt::error::Error::Grammar { .. }))
        ));
    }
    assert_eq!(answers.choices[&(1, 0)].end, Some(End::Finished(FinishReason::Length)));
    assert_eq!(answers.snapshot.totals.requests_refused, 1);
}

#[test]
fn an_engine_that_cannot_empty_a_slot_gives_itself_up() {
    let mut world = World { fault: Some(ToyFault::StuckSlots), ..World::default() };
    world.config.enable_kv_cache_reuse = false;
    let live = world.start();
    live.submit(0, &spec(&good(0)));
    let answers = live.finish(1);
    assert_eq!(answers.choices[&(0, 0)].end, Some(End::Finished(FinishReason::Length)));
    // Though the step in which it happened went well, and though its sender is there.
    assert!(live.messages.recv().is_err());
}

#[test]
fn a_sequence_whose_preemption_fails_is_ended() {
    let toy = ToyConfig { kv: 40, ..ToyConfig::default() };
    let world = World { toy, fault: Some(ToyFault::StuckSlots), ..World::default() };
    let live = world.start();
    for index in 0..2 {
        live.submit(index, &spec(&good(index as u32)));
    }
    let mut answers = Answers::default();
    live.messages.iter().for_each(|message| answers.take(message));
    for index in 0..2 {
        assert!(matches!(answers.choices[&(index, 0)].end, Some(End::Failed(_))), "{index}");
    }
}

#[test]
fn planted_mistakes_are_noticed() {
    let prompts = ["[97,98,99]", "[97,98,99,100]", "[97,98]"];
    let specs: Vec<_> = prompts
        .iter()
        .map(|p| {
            spec(&format!(r#"{{"prompt":{p},"max_tokens":30,"ignore_eos":true,"sampling":{{"seed":4}}}}"#))
        })
        .collect();
    // Prefixes are reused and cut. The same engine is asked again for each prompt alone: another model is no mistake.
    for fault in [None, Some(ToyFault::KeepsCells), Some(ToyFault::WrongPosition)] {
        let toy = ToyConfig { slots: 1, ..ToyConfig::default() };
        let world = World { toy, fault, ..World::default() };
        let answers = world.run(&specs, &[0, 1, 2], 0);
        let differs = |index: usize| {
            let want = &world.alone(&specs[index])[&0];
            essence(&answers.choices[&(index, 0)]) != essence(want)
        };
        assert_eq!((0..specs.len()).any(differs), fault.is_some(), "{fault:?}");
    }
}
