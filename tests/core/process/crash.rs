//! The engine dies.

use super::fake::{Does, RUNNING, ask};
use super::isolated;
use super::watch::{Watch, until, until_phase, until_ready};
use super::{a_child, a_thread, open, open_with};
use llgtrt::config::Config;
use llgtrt::error::Error;
use llgtrt::handle::{Backoff, Handle, Phase};
use llgtrt::types::RequestId;
use llgtrt::vocab::Vocab;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::time::Duration;

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// 16 streams that speak, and 4 requests behind them.
fn busy(handle: &Handle, watch: &mut Watch) -> (Vec<RequestId>, Vec<RequestId>) {
    let running: Vec<_> =
        (0..RUNNING).map(|_| handle.submit(ask(Does::Stream, 1, 1_000_000)).unwrap()).collect();
    watch.until_speaking(handle, &running);
    let waiting = (0..4).map(|_| handle.submit(ask(Does::Stream, 1, 3)).unwrap()).collect();
    (running, waiting)
}

#[test]
fn a_killed_child_fails_what_ran_and_the_rest_is_served() {
    for (signal, name) in [(Signal::KILL, "SIGKILL"), (Signal::ABORT, "SIGABRT")] {
        let handle = open(a_child());
        let mut watch = Watch::default();
        let (running, waiting) = busy(&handle, &mut watch);
        let pid = until_ready(&handle);
        kill(pid, signal);
        watch.until_ended(&handle, &running, 1);
        assert!(running.iter().all(|id| watch.executor_error(*id).contains(name)));
        watch.until_ended(&handle, &waiting, 1);
        assert!(waiting.iter().all(|id| watch.text(*id, 0) == "aaa"));
        assert_ne!(until_ready(&handle), pid);
        let metrics = handle.metrics();
        assert_eq!((metrics.restarts, metrics.snapshot.totals.requests_failed), (1, 16));
        assert!(!isolated::is_alive(pid));
    }
}

#[test]
fn later_engines_keep_the_first_ones_plan() {
    let handle = open(a_child());
    let first = until_ready(&handle);
    assert_eq!(handle.info().unwrap().kv_tokens, u64::from(first));
    let mut before = first;
    for _ in 0..2 {
        kill(before, Signal::KILL);
        until_phase(&handle, Phase::Restarting);
        let now = until_ready(&handle);
        assert_ne!(now, before);
        assert_eq!(handle.info().unwrap().kv_tokens, u64::from(first));
        before = now;
    }
}

#[test]
fn what_a_child_has_started_ends_with_it() {
    let handle = open(a_child());
    let pid = until_ready(&handle);
    let started = std::process::Command::new("sleep").arg("600").process_group(pid as i32).spawn();
    let mut started = started.unwrap();
    kill(pid, Signal::KILL);
    until_phase(&handle, Phase::Restarting);
    // Not by the time that it was to take.
    assert_eq!(started.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[test]
fn requests_that_come_while_it_restarts_are_served() {
    let slow = Backoff { first: Duration::from_secs(1), ..Backoff::default() };
    let vocab = |_: &str| Vocab::toy();
    let handle = Handle::with_backoff("fake", &Config::default(), a_child(), vocab, slow).unwrap();
    let mut watch = Watch::default();
    kill(until_ready(&handle), Signal::KILL);
    let why = until_phase(&handle, Phase::Restarting);
    assert!(why.contains("SIGKILL") && !why.contains('\n'), "{why}");
    let [next, cancelled] = [3, 4].map(|tokens| handle.submit(ask(Does::Stream, 1, tokens)).unwrap());
    handle.cancel(cancelled);
    watch.until_ended(&handle, &[next, cancelled], 1);
    assert_eq!(watch.text(next, 0), "aaa");
    assert_eq!(watch.0[&(cancelled, 0)].text, "");
}

#[test]
fn a_request_that_kills_the_engine_fails() {
    let handle = open(a_child());
    let mut watch = Watch::default();
    for (does, restarts) in [(Does::AbortRunning, 1), (Does::AbortWaiting, 3)] {
        let poison = handle.submit(ask(does, 1, 5)).unwrap();
        watch.until_ended(&handle, &[poison], 1);
        assert!(watch.executor_error(poison).contains("SIGABRT"));
        until_ready(&handle);
        assert_eq!(handle.metrics().restarts, restarts);
        let next = handle.submit(ask(Does::Stream, 1, 3)).unwrap();
        watch.until_ended(&handle, &[next], 1);
        assert_eq!(watch.text(next, 0), "aaa");
    }
}

#[test]
fn a_panic_of_the_engine_fails_what_ran() {
    for transport in [a_thread(), a_child()] {
        let handle = open(transport);
        let mut watch = Watch::default();
        let stream = handle.submit(ask(Does::Stream, 1, 1_000_000)).unwrap();
        let panics = handle.submit(ask(Does::Panic, 1, 5)).unwrap();
        watch.until_ended(&handle, &[stream, panics], 1);
        let why = watch.executor_error(stream);
        assert!(why.contains("as ordered") || why.contains("code 101"), "{why}");
        let next = handle.submit(ask(Does::Stream, 1, 3)).unwrap();
        watch.until_ended(&handle, &[next], 1);
        assert_eq!(watch.text(next, 0), "aaa");
    }
}

#[test]
fn an_engine_that_does_not_come_back_fails() {
    let flag = std::env::temp_dir().join(format!("llgtrt-unless-{}", std::process::id()));
    let handle = open_with(&format!("unless:{}", flag.display()), &Config::default(), a_child());
    let mut watch = Watch::default();
    let (running, waiting) = {
        until_ready(&handle);
        busy(&handle, &mut watch)
    };
    std::fs::write(&flag, "").unwrap();
    kill(until_ready(&handle), Signal::KILL);
    let why = until_phase(&handle, Phase::Failed);
    std::fs::remove_file(&flag).unwrap();
    assert!(why.contains("SIGABRT"), "{why}");
    watch.until_ended(&handle, &running, 1);
    watch.until_ended(&handle, &waiting, 1);
    assert!(watch.executor_error(running[0]).contains("SIGKILL"));
    assert!(watch.executor_error(waiting[0]).contains("SIGABRT"));
    assert!(matches!(handle.submit(ask(Does::Stream, 1, 1)), Err(Error::Closed(_))));
}

#[test]
fn twenty_kills_leave_nothing_behind() {
    let mut own = isolated::start("process::crash::twenty_kills");
    isolated::read(&mut own, "left nothing");
    assert!(own.wait().unwrap().success());
}

#[test]
#[ignore = "counts what its process holds: started by twenty_kills_leave_nothing_behind"]
fn twenty_kills() {
    let handle = open(a_child());
    let mut watch = Watch::default();
    let mut held = (0, 0);
    for round in 0..20 {
        let (running, waiting) = busy(&handle, &mut watch);
        kill(until_ready(&handle), if round % 2 == 0 { Signal::KILL } else { Signal::ABORT });
        watch.until_ended(&handle, &running, 1);
        watch.until_ended(&handle, &waiting, 1);
        until_ready(&handle);
        assert_eq!(isolated::children().len(), 1);
        // The first rounds fill allocators and thread caches.
        match round {
            4 => held = (isolated::descriptors(), isolated::memory()),
            _ => watch.0.clear(),
        }
    }
    assert_eq!(isolated::descriptors(), held.0);
    assert!(isolated::memory() < held.1 + 4096, "{} KiB, then {}", held.1, isolated::memory());
    handle.close();
    assert!(isolated::children().is_empty());
    println!("left nothing");
}

#[test]
fn a_killed_parent_leaves_no_child() {
    for test in ["process::crash::parent_of_busy", "process::crash::parent_of_loading"] {
        let mut parent = isolated::start(test);
        let child: u32 = isolated::read(&mut parent, "pid=").parse().unwrap();
        assert!(isolated::is_alive(child));
        parent.kill().unwrap();
        parent.wait().unwrap();
        until("the child is gone", || !isolated::is_alive(child));
    }
}

#[test]
#[ignore = "waits to be killed: started by a_killed_parent_leaves_no_child"]
fn parent_of_busy() {
    let handle = open(a_child());
    busy(&handle, &mut Watch::default());
    println!("pid={}", until_ready(&handle));
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "waits to be killed: started by a_killed_parent_leaves_no_child"]
fn parent_of_loading() {
    let _handle = open_with("slow", &Config::default(), a_child());
    until("it has a child", || isolated::children().len() == 1);
    println!("pid={}", isolated::children()[0]);
    std::thread::sleep(Duration::from_secs(60));
}
