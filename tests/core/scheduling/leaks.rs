//! Ten thousand requests that end in every way, and nothing is held afterwards.

use super::spec;
use super::world::speculator;
use super::world::{Answers, World};
use llgtrt::config::DraftSource;
use llgtrt::engine::Command;
use llgtrt::exec::toy::ToyConfig;
use llgtrt::types::{End, FinishReason, RequestId};

const REQUESTS: usize = 10_000;
/// Requests that are there at the same time, about.
const WAVE: usize = 100;

fn request(number: usize) -> llgtrt::request::RequestSpec {
    let more = match number % 50 {
        // Panics are dear: their traces are written.
        17 => r#","max_tokens":30,"fault":{"sampler_panic":5}"#,
        33 => r#","max_tokens":30,"n":2,"fault":{"grammar_panic":3},"prediction":[97,98,99]"#,
        n if n % 4 == 0 => r#","max_tokens":12"#,
        n if n % 4 == 1 => r#","max_tokens":40,"stop":["a","e","i"]"#,
        n if n % 4 == 2 => r#","max_tokens":60,"ignore_eos":true"#,
        _ => r#","max_tokens":30,"grammar":{"json_schema":"{\"type\":\"boolean\"}"}"#,
    };
    spec(&format!(r#"{{"prompt":[97,{},98],"sampling":{{"seed":{number}}}{more}}}"#, number % 250))
}

#[test]
fn nothing_is_held_after_ten_thousand_requests() {
    let mut world =
        World { toy: ToyConfig { slots: 16, kv: 200, ..ToyConfig::default() }, ..World::default() };
    world.config.enable_kv_cache_reuse = false;
    world.config.speculative.draft_model = Some("toy:blur=20,kv=200".into());
    world.config.speculative.mlp_speculator = Some(speculator());
    // The speculator, which guesses at random here, comes after all that is right.
    world.config.speculative.sources = Some(vec![
        DraftSource::Forced,
        DraftSource::Prediction,
        DraftSource::DraftModel,
        DraftSource::MlpSpeculator,
    ]);
    world.config.speculative.adaptive = false;
    let live = world.start();
    let mut ends = [0; 3];
    let mut snapshot = None;
    for wave in (0..REQUESTS).collect::<Vec<_>>().chunks(WAVE) {
        let specs: Vec<_> = wave.iter().map(|number| request(*number)).collect();
        wave.iter().zip(&specs).for_each(|(number, spec)| live.submit(*number, spec));
        let mut answers = Answers::default();
        (0..8).for_each(|_| answers.take(live.messages.recv().unwrap()));
        for number in wave.iter().filter(|n| *n % 50 % 4 == 2) {
            live.commands.send(Command::Cancel(RequestId(*number as u64))).unwrap();
        }
        let answers = live.finish_after(answers, specs.iter().map(|spec| spec.n as usize).sum());
        for event in answers.choices.values() {
            ends[match event.end {
                Some(End::Finished(FinishReason::Cancelled)) => 0,
                Some(End::Finished(_)) => 1,
                _ => 2,
            }] += 1;
        }
        snapshot = Some(answers.snapshot);
    }
    let snapshot = snapshot.unwrap();
    let gauges = &snapshot.gauges;
    assert!(ends.iter().all(|n| *n > 100), "{ends:?}");
    assert!(
        snapshot.totals.preemptions > 0 && snapshot.totals.accepted_tokens > 5_000,
        "{:?}",
        snapshot.totals
    );
    let held = [gauges.running, gauges.waiting, gauges.kv_used, gauges.kv_kept, gauges.draft_kv_used];
    assert_eq!(held, [0; 5]);
    assert_eq!(gauges.drafters_failed, 0);
    assert_eq!(live.close(), (0, 0, 0));
}
