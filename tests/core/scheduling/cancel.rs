//! Cancellation at every stage frees everything within a step.

use super::spec;
use super::world::{World, submission};
use crossbeam_channel::unbounded;
use llgtrt::config::Config;
use llgtrt::engine::{Command, Engine, FromEngine};
use llgtrt::exec::open::open_toy;
use llgtrt::exec::toy::ToyConfig;
use llgtrt::types::{End, FinishReason, RequestId};
use std::collections::BTreeMap;

fn long(n: u32) -> String {
    format!("{:?}", vec![97; n as usize])
}

#[test]
fn queued_chunked_decoding_and_compiling_requests_can_be_cancelled() {
    let toy = ToyConfig { step_tokens: 32, step_us: 200, ..ToyConfig::default() };
    let world = World { toy, config: Config { max_batch_size: 2, ..Config::default() }, ..World::default() };
    let live = world.start();
    live.submit(0, &spec(r#"{"prompt":[97],"max_tokens":2000,"ignore_eos":true}"#));
    live.submit(1, &spec(&format!(r#"{{"prompt":{},"max_tokens":5}}"#, long(3000))));
    live.submit(2, &spec(r#"{"prompt":[98],"max_tokens":2000,"ignore_eos":true}"#));
    live.submit(3, &spec(r#"{"prompt":[98],"n":3,"max_tokens":500,"grammar":{"regex":"[a-z]{500}"}}"#));
    std::thread::sleep(std::time::Duration::from_millis(20));
    for id in [3, 2, 1, 0] {
        live.commands.send(Command::Cancel(RequestId(id))).unwrap();
    }
    let answers = live.finish(6);
    for ((request, choice), event) in &answers.choices {
        let end = Some(End::Finished(FinishReason::Cancelled));
        assert_eq!(event.end, end, "request {request} choice {choice}");
    }
    assert_eq!(answers.snapshot.totals.requests_cancelled, 4);
    assert_eq!(answers.snapshot.gauges.kv_used, 0);
}

#[test]
fn what_is_cancelled_ends_within_a_step() {
    // 0 decodes and counts the steps; 1 decodes too, 2 is in its prompt, 3 waits for a slot, 4 is being compiled.
    let toy = ToyConfig { step_tokens: 32, ..ToyConfig::default() };
    let config = Config { max_batch_size: 3, ..Config::default() };
    let opened = open_toy(toy, &config, None).unwrap();
    let limits = opened.info.limits.clone();
    let endless = r#"{"prompt":[97],"max_tokens":2000,"ignore_eos":true}"#;
    let prompt = format!(r#"{{"prompt":{},"max_tokens":5}}"#, long(4000));
    let compiled = r#"{"prompt":[98],"max_tokens":9,"grammar":{"regex":"([a-z]{1,40}[0-9]{1,40}){20}"}}"#;
    let (commands, inbox) = unbounded();
    for (id, text) in [endless, endless, &prompt, endless].into_iter().enumerate() {
        commands.send(submission(id, &spec(text), &limits)).unwrap();
    }
    let mut commands = Some(commands);
    let (mut steps, mut ends) = (0, BTreeMap::new());
    Engine::new(opened, &config).unwrap().run(&inbox, &mut |message| {
        let FromEngine::Report(report) = message else { return true };
        steps += u32::from(report.events.iter().any(|e| e.request == RequestId(0) && !e.tokens.is_empty()));
        for event in report.events.iter().filter(|e| e.end.is_some() && e.request != RequestId(0)) {
            assert_eq!(
                event.end,
                Some(End::Finished(FinishReason::Cancelled)),
                "request {}",
                event.request.0
            );
            ends.insert(event.request.0, steps);
        }
        if let Some(sender) = commands.as_ref().filter(|_| steps == 20 && ends.is_empty()) {
            sender.send(submission(4, &spec(compiled), &limits)).unwrap();
            (1..=4).for_each(|id| sender.send(Command::Cancel(RequestId(id))).unwrap());
        }
        if steps == 40 {
            // Without a sender the engine ends, and with it request 0.
            commands = None;
        }
        true
    });
    for id in 1..=4 {
        let when = ends.get(&id).copied();
        assert!(when.is_some_and(|step| step <= 21), "request {id} ended at step {when:?} of those after 20");
    }
}

#[test]
fn an_unknown_id_is_ignored_and_others_go_on() {
    let live = World::default().start();
    live.commands.send(Command::Cancel(RequestId(99))).unwrap();
    live.submit(0, &spec(r#"{"prompt":[97],"max_tokens":5,"ignore_eos":true}"#));
    let answers = live.finish(1);
    assert_eq!(answers.choices[&(0, 0)].end, Some(End::Finished(FinishReason::Length)));
}
