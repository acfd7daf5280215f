//! Cancellation at every stage frees everything within a step.

use super::spec;
use super::world::World;
use llgtrt::config::Config;
use llgtrt::engine::Command;
use llgtrt::exec::toy::ToyConfig;
use llgtrt::types::{End, FinishReason, RequestId};

fn long(n: u32) -> String {
    format!("{:?}", vec![97; n as usize])
}

#[test]
fn queued_chunked_decoding_and_compiling_requests_can_be_cancelled() {
    let toy = ToyConfig { step_tokens: 32, step_us: 200, ..ToyConfig::default() };
    let world =
        World { toy, config: Config { max_batch_size: 2, ..Config::default() }, fault: None, oracle: None };
    let live = world.start();
    live.submit(0, &spec(r#"{"prompt":[97],"max_tokens":2000,"ignore_eos":true}"#));
    live.submit(1, &spec(&format!(r#"{{"prompt":{},"max_tokens":5}}"#, long(3000))));
    live.submit(2, &spec(r#"{"prompt":[98],"max_tokens":2000,"ignore_eos":true}"#));
    live.submit(3, &spec(r#"{"prompt":[98],"n":3,"max_tokens":9,"grammar":{"regex":"[a-z]{500}"}}"#));
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
fn an_unknown_id_is_ignored_and_others_go_on() {
    let live = World::default().start();
    live.commands.send(Command::Cancel(RequestId(99))).unwrap();
    live.submit(0, &spec(r#"{"prompt":[97],"max_tokens":5,"ignore_eos":true}"#));
    let answers = live.finish(1);
    assert_eq!(answers.choices[&(0, 0)].end, Some(End::Finished(FinishReason::Length)));
}
