//! Closing, whatever the engine is doing.

use super::fake::{Does, ask};
use super::isolated::is_alive;
use super::watch::{Watch, until_ready};
use super::{a_child, a_thread, open, open_with};
use llgtrt::config::Config;
use llgtrt::error::Error;
use llgtrt::handle::{Handle, Phase};
use llgtrt::types::{End, RequestId};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Closes without waiting for what takes a minute, and checks how these requests ended.
fn close(handle: &Handle, requests: &[RequestId]) {
    let begin = Instant::now();
    handle.close();
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    let mut watch = Watch::default();
    watch.drain(handle);
    for id in requests {
        assert!(matches!(watch.end(*id, 0), Some(End::Failed(Error::Closed(_)))), "{:?}", watch.end(*id, 0));
    }
    assert_eq!(handle.state().0, Phase::Closed);
    assert!(matches!(handle.submit(ask(Does::Stream, 1, 1)), Err(Error::Closed(_))));
    handle.cancel(RequestId(1));
    handle.close();
}

#[test]
fn closing_ends_what_runs_and_what_waits() {
    for transport in [a_thread(), a_child()] {
        let handle = open(transport);
        let requests: Vec<_> =
            (0..20).map(|_| handle.submit(ask(Does::Stream, 1, 1_000_000)).unwrap()).collect();
        Watch::default().until_speaking(&handle, &requests[..16]);
        let pid = until_ready(&handle);
        close(&handle, &requests);
        assert!(pid == std::process::id() || !is_alive(pid));
    }
}

#[test]
fn a_child_that_hangs_is_killed() {
    let handle = open(a_child());
    let hangs = handle.submit(ask(Does::Hang, 1, 1_000_000)).unwrap();
    Watch::default().until_speaking(&handle, &[hangs]);
    let pid = until_ready(&handle);
    std::thread::sleep(Duration::from_millis(100));
    close(&handle, &[hangs]);
    assert!(!is_alive(pid));
}

#[test]
fn a_child_that_is_stopped_is_killed() {
    let handle = open(a_child());
    let stream = handle.submit(ask(Does::Stream, 1, 1_000_000)).unwrap();
    Watch::default().until_speaking(&handle, &[stream]);
    let pid = until_ready(&handle);
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::STOP).unwrap();
    close(&handle, &[stream]);
    assert!(!is_alive(pid));
}

#[test]
fn a_child_that_still_loads_is_not_waited_for() {
    let handle = open_with("slow", &Config::default(), a_child());
    // What it does is told meanwhile.
    while handle.state() != (Phase::Loading, "reading slowly".to_owned()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    close(&handle, &[]);
}
