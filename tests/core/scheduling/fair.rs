//! Whose turn it is: API keys take turns, urgent requests come first and are preempted last.

use super::spec;
use super::world::World;
use llgtrt::engine::FromEngine;
use llgtrt::exec::toy::ToyConfig;

/// One choice at a time; ids in the order of their ends, of requests that all wait behind the first.
fn ends(requests: &[String]) -> Vec<usize> {
    let mut world = World { toy: ToyConfig { step_us: 200, ..ToyConfig::default() }, ..World::default() };
    world.config.max_batch_size = 1;
    let live = world.start();
    let mut ends = Vec::new();
    live.submit(0, &spec(&requests[0]));
    live.messages.recv().unwrap();
    for (index, json) in requests.iter().enumerate().skip(1) {
        live.submit(index, &spec(json));
    }
    let choices: usize = requests.iter().map(|json| spec(json).n as usize).sum();
    while ends.len() < choices {
        let FromEngine::Report(report) = live.messages.recv().unwrap() else { continue };
        let ended = report.events.iter().filter(|event| event.end.is_some());
        ends.extend(ended.map(|event| event.request.0 as usize));
    }
    ends
}

fn of(client: u32, priority: i32, tokens: u32) -> String {
    format!(
        r#"{{"prompt":[97],"client":{client},"priority":{priority},"max_tokens":{tokens},"ignore_eos":true}}"#
    )
}

#[test]
fn a_key_with_many_requests_delays_another_by_one_of_its_own() {
    let mut requests = vec![of(1, 0, 2000)];
    requests.extend((0..100).map(|_| of(1, 0, 3)));
    requests.push(of(2, 0, 3));
    let place = ends(&requests).iter().position(|id| *id == 101).unwrap();
    assert!(place <= 2, "{place}");
}

#[test]
fn the_urgent_come_first_whatever_their_key() {
    let requests = [of(1, 0, 2000), of(1, 1, 3), of(2, 0, 3), of(1, -1, 3), of(3, 0, 3)];
    assert_eq!(ends(&requests), [0, 3, 2, 4, 1]);
}

#[test]
fn further_choices_are_as_urgent_as_their_request() {
    let several = |priority, tokens| of(1, priority, tokens).replace("\"client\"", "\"n\":3,\"client\"");
    let requests = [several(5, 2000), several(0, 3), of(2, 0, 3), of(2, 9, 3)];
    assert_eq!(ends(&requests), [0, 1, 1, 1, 2, 0, 0, 3]);
}

#[test]
fn a_short_prompt_does_not_wait_for_a_long_one() {
    let toy = ToyConfig { step_us: 2000, step_tokens: 32, ..ToyConfig::default() };
    let live = World { toy, ..World::default() }.start();
    let prompt = |length: usize| spec(&format!(r#"{{"prompt":{:?},"max_tokens":2}}"#, vec![97; length]));
    live.submit(0, &prompt(4000));
    live.submit(1, &prompt(20));
    let ended = |message| match message {
        FromEngine::Report(report) => report.events.into_iter().find(|event| event.end.is_some()),
        _ => None,
    };
    assert_eq!(live.messages.iter().find_map(ended).unwrap().request.0, 1);
}

#[test]
fn the_least_urgent_is_preempted_though_it_is_older() {
    let toy = ToyConfig { kv: 40, ..ToyConfig::default() };
    let world = World { toy, ..World::default() };
    for (priorities, first) in [([0, 0], 0), ([5, 0], 1), ([0, 5], 0)] {
        let live = world.start();
        for (index, priority) in priorities.into_iter().enumerate() {
            live.submit(index, &spec(&of(0, priority, 30)));
        }
        let end = |message| match message {
            FromEngine::Report(report) => report.events.into_iter().find(|event| event.end.is_some()),
            _ => None,
        };
        let ended = live.messages.iter().find_map(end).unwrap();
        assert_eq!(ended.request.0, first, "{priorities:?}");
        let answers = live.finish(1);
        assert!(answers.snapshot.totals.preemptions > 0);
    }
}
