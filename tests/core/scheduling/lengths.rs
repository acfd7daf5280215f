//! Draft lengths that the engine chooses by what is accepted and by what its steps take.

use super::oracle::Oracle;
use super::spec;
use super::world::{Answers, World};
use llgtrt::engine::FromEngine;
use llgtrt::exec::toy::ToyConfig;
use llgtrt::request::RequestSpec;

/// Two texts, of which the first is long enough for as many steps as the second.
fn requests() -> [RequestSpec; 2] {
    [(97, 1400), (98, 160)].map(|(first, tokens)| {
        spec(&format!(
            r#"{{"prompt":[{first},99],"max_tokens":{tokens},"ignore_eos":true,"sampling":{{"seed":7}}}}"#
        ))
    })
}

/// An engine in which a row more costs little; its oracle is right 95 times of 100 about the first, 5 about the second.
fn world(requests: &[RequestSpec; 2]) -> World {
    let plain = World::default().run(requests, &[0, 1], 0);
    let rights = [95, 5];
    let answers = plain.choices.iter().map(|((i, _), event)| (&requests[*i], event, rights[*i]));
    let toy = ToyConfig { step_us: 4000, ..ToyConfig::default() };
    World { toy, oracle: Some(Oracle::unlike(answers)), ..World::default() }
}

#[test]
fn unlike_sequences_of_one_batch_settle_at_unlike_lengths() {
    let requests = requests();
    let live = world(&requests).start();
    (0..2).for_each(|i| live.submit(i, &requests[i]));
    let mut answers = Answers::default();
    // Drafted tokens of each, after every step in which both drew a token.
    let mut drafted: Vec<[u32; 2]> = Vec::new();
    while drafted.len() <= 90 {
        let message = live.messages.recv().unwrap();
        let both = matches!(&message, FromEngine::Report(report) if report.events.len() == 2);
        answers.take(message);
        if both {
            let of = |i: usize| answers.choices[&(i, 0)].usage.drafts.iter().map(|d| d.drafted).sum();
            drafted.push([of(0), of(1)]);
        }
    }
    let means = [0, 1].map(|i| f64::from(drafted[90][i] - drafted[50][i]) / 40.0);
    assert!(means[0] >= 5.0 && means[1] <= 2.0, "{means:?}");
    live.close();
}
