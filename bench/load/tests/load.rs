//! The load client against a server whose answers are written down, over real sockets.

#![allow(clippy::unwrap_used)]

mod server;

use llgtrt_load::{Plan, Report, run};
use serde_json::{Value, json};
use server::{Server, answer, drop_it, piece, stream, usage};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("llgtrt-load-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A plan for `bodies`, with what `more` says about it.
    fn plan(&self, port: u16, bodies: &[Value], more: Value) -> Plan {
        let lines: Vec<String> = bodies.iter().map(Value::to_string).collect();
        std::fs::write(self.0.join("bodies.jsonl"), lines.join("\n")).unwrap();
        let mut plan = json!({
            "url": format!("http://127.0.0.1:{port}/v1/chat/completions"),
            "bodies": self.0.join("bodies.jsonl"),
            "answers": self.0.join("answers.jsonl"),
            "requests": bodies.len(),
            "arrivals": {"clients": 1},
        });
        plan.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(plan).unwrap()
    }

    fn answers(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.0.join("answers.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn failed(report: &Report) -> Value {
    serde_json::to_value(&report.failed).unwrap()
}

#[test]
fn streams_are_timed_and_counted() {
    let server = Server::start(|_, socket| {
        let pause = Duration::from_millis(40);
        stream(socket, &[(pause, piece("Hel")), (pause, piece("lo")), (Duration::ZERO, usage(5))])
    });
    let folder = Folder::new("streams");
    let more = json!({"stream": true, "goodput": {"first_ms": 5000, "whole_ms": 60}});
    let report = run(&folder.plan(server.port, &[json!({"n": 0}), json!({"n": 1})], more)).unwrap();
    assert_eq!((report.requests, report.answered, report.cut, report.connections), (2, 2, 0, 1));
    assert_eq!((report.prompt_tokens, report.cached_tokens, report.completion_tokens), (14, 6, 10));
    assert_eq!(report.chunks, 4);
    let (first, gap, whole) = (report.first_ms.unwrap(), report.gap_ms.unwrap(), report.whole_ms.unwrap());
    assert!(first.p50 >= 40.0 && gap.p50 >= 35.0 && whole.p50 >= 80.0, "{first:?} {gap:?} {whole:?}");
    assert!(report.per_token_ms.unwrap().p50 < gap.p50, "five tokens came in two pieces");
    assert!((report.tokens_per_second - 10.0 / report.seconds).abs() < 0.5);
    assert_eq!(report.goodput, Some(0.0), "no answer was complete in 60 ms");
    let answers = folder.answers();
    assert_eq!(answers[1]["texts"], json!(["Hello"]));
    assert_eq!(answers[1]["finish"], json!(["stop"]));
    assert_eq!(answers[1]["request"], 1);
    let sent = server.bodies();
    assert_eq!(sent[1], json!({"n": 1, "stream": true, "stream_options": {"include_usage": true}}));
}

#[test]
fn bodies_come_round_and_connections_are_fresh_on_demand() {
    let server = Server::start(|_, socket| answer(socket, 200, &json!({"choices": [{"text": "a"}]})));
    let folder = Folder::new("fresh");
    let more = json!({"requests": 7, "arrivals": {"clients": 3}, "connections": "fresh"});
    let report = run(&folder.plan(server.port, &[json!({"n": 0}), json!({"n": 1})], more)).unwrap();
    assert_eq!((report.answered, report.connections), (7, 7));
    assert_eq!(report.first_ms, None, "nothing was streamed");
    let ones = server.bodies().iter().filter(|body| body["n"] == 1).count();
    assert_eq!(ones, 3);
    let more = json!({"requests": 7, "arrivals": {"clients": 3}});
    let report = run(&folder.plan(server.port, &[json!({})], more)).unwrap();
    assert_eq!(report.answered, 7);
    assert!(report.connections <= 3, "{} connections for 3 clients", report.connections);
}

#[test]
fn answers_that_must_be_json_are_looked_at() {
    let texts = [("{\"a\":1}", "stop"), ("{\"a\":", "stop"), ("{\"a\":", "length"), ("no json", "stop")];
    let server = Server::start(move |body, socket| {
        let (text, finish) = texts[body["n"].as_u64().unwrap() as usize];
        let choice = json!({"index": 0, "message": {"content": text}, "finish_reason": finish});
        answer(socket, 200, &json!({"choices": [choice], "usage": {"completion_tokens": 3}}))
    });
    let folder = Folder::new("json");
    let form = json!({"type": "json_object"});
    let mut bodies: Vec<Value> = (0..3).map(|n| json!({"n": n, "response_format": form})).collect();
    bodies.push(json!({"n": 3}));
    let report = run(&folder.plan(server.port, &bodies, json!({}))).unwrap();
    assert_eq!((report.answered, report.json, report.invalid_json, report.cut), (4, 2, 1, 1));
    let valid: Vec<Value> = folder.answers().iter().map(|a| a["valid_json"].clone()).collect();
    assert_eq!(valid, [json!(true), json!(false), Value::Null, Value::Null]);
}

#[test]
fn failures_are_told_apart() {
    let server = Server::start(|body, socket| match body["kind"].as_str().unwrap() {
        "status" => answer(socket, 503, &json!({"error": {"message": "full"}})),
        "event" => stream(socket, &[(Duration::ZERO, piece("a")), (Duration::ZERO, json!({"error": "bad"}))]),
        "garbage" => answer(socket, 200, &json!([1, 2])),
        "empty" => answer(socket, 200, &json!({"choices": []})),
        "slow" => {
            std::thread::sleep(Duration::from_millis(800));
            drop_it(socket)
        }
        "half" => server::half(socket, &piece("a")),
        "early" => server::no_done(socket, &piece("a")),
        _ => drop_it(socket),
    });
    let folder = Folder::new("failures");
    let kinds = ["status", "event", "garbage", "empty", "slow", "half", "early", "drop"];
    let streamed = |kind: &str| ["event", "slow", "half", "early"].contains(&kind);
    let bodies: Vec<Value> = kinds.map(|kind| json!({"kind": kind, "stream": streamed(kind)})).into();
    let report = run(&folder.plan(server.port, &bodies, json!({"timeout_s": 0.3}))).unwrap();
    assert_eq!(report.answered, 0);
    let expected = json!({"dropped": 3, "timeout": 1, "status": 1, "event": 1, "malformed": 2});
    assert_eq!(failed(&report), expected, "{:?}", folder.answers());
    assert!(report.first_failure.unwrap().contains("full"));
    assert_eq!((report.completion_tokens, report.chunks, report.whole_ms), (0, 0, None));
    let cut = folder.plan(server.port, &bodies[1..2], json!({"errors_cut": true}));
    let report = run(&cut).unwrap();
    assert_eq!((report.answered, report.cut, report.completion_tokens), (1, 1, 1));
}

#[test]
fn a_server_that_is_not_there_is_a_failure_and_a_kept_connection_may_end() {
    let folder = Folder::new("ends");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let report = run(&folder.plan(gone, &[json!({})], json!({}))).unwrap();
    assert_eq!(failed(&report), json!({"connect": 1}));
    let server = Server::start(|_, socket| {
        answer(socket, 200, &json!({"choices": [{"text": "a"}]}));
        false
    });
    let more = json!({"requests": 4, "arrivals": {"poisson": {"rate": 20, "seed": 1}}});
    let report = run(&folder.plan(server.port, &[json!({})], more)).unwrap();
    assert_eq!((report.answered, report.connections), (4, 4), "{:?}", folder.answers());
}

#[test]
fn a_kept_connection_that_ends_with_a_request_is_no_failure() {
    let ports = Mutex::new(HashSet::new());
    // Every connection answers one request and ends when the second comes.
    let server = Server::start(move |_, socket| {
        let port = socket.peer_addr().unwrap().port();
        ports.lock().unwrap().insert(port) && answer(socket, 200, &json!({"choices": [{"text": "a"}]}))
    });
    let folder = Folder::new("kept");
    let report = run(&folder.plan(server.port, &[json!({})], json!({"requests": 3}))).unwrap();
    assert_eq!((report.answered, report.connections), (3, 3), "{:?}", folder.answers());
    assert_eq!(server.bodies().len(), 5, "two were asked again");
}

#[test]
fn poisson_arrivals_do_not_wait_for_answers() {
    let server = Server::start(|_, socket| {
        std::thread::sleep(Duration::from_millis(500));
        answer(socket, 200, &json!({"choices": [{"text": "a"}]}))
    });
    let folder = Folder::new("poisson");
    let more = json!({"requests": 20, "arrivals": {"poisson": {"rate": 100, "seed": 3}}});
    let report = run(&folder.plan(server.port, &[json!({})], more)).unwrap();
    assert_eq!(report.answered, 20);
    assert!(report.seconds < 5.0, "20 answers of half a second one after the other would take 10");
    assert!(report.connections > 5);
    assert!(report.client_cpu_share < 1.0);
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let folder = Folder::new("refused");
    let refused = |bodies: &[Value], more: Value| run(&folder.plan(1, bodies, more)).unwrap_err();
    assert!(refused(&[], json!({"requests": 1})).contains("no bodies"));
    assert!(refused(&[json!([1])], json!({})).contains("bodies.jsonl:1: no JSON object"));
    assert!(refused(&[json!({})], json!({"url": "https://127.0.0.1/x"})).contains("only http://"));
    assert!(refused(&[json!({})], json!({"arrivals": {"clients": 0}})).contains("above 0"));
    assert!(
        refused(&[json!({})], json!({"arrivals": {"poisson": {"rate": 0, "seed": 0}}})).contains("above 0")
    );
    let strange =
        json!({"url": "http://a/", "bodies": "b", "requests": 1, "arrivals": {"clients": 1}, "x": 1});
    assert!(serde_json::from_value::<Plan>(strange).unwrap_err().to_string().contains("unknown field `x`"));
}
