//! The handle and its two transports, with a fake engine. A test child is this test binary itself: see [`child`].

mod close;
mod crash;
mod fake;
mod flow;
mod frames;
mod isolated;
mod start;
mod watch;

use llgtrt::config::Config;
use llgtrt::handle::{Backoff, Handle};
use llgtrt::process::{Transport, child_main};
use llgtrt::vocab::Vocab;
use std::time::Duration;

/// The engine process: the last argument is the number of its socket. Does nothing in a normal test run, which has no
/// such argument.
#[test]
#[ignore = "the main function of a child process"]
fn child() {
    let fd = std::env::args().next_back().and_then(|last| last.parse().ok());
    if let Some(fd) = fd {
        std::process::exit(child_main(fd, fake::serve));
    }
}

/// This binary as an engine process, without the test harness's words about it.
fn a_child() -> Transport {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let shell = ["sh", "-c", r#"exec "$0" "$@" >/dev/null"#, program.as_str()];
    let args = ["process::child", "--exact", "--ignored", "--nocapture"];
    Transport::Child([&shell[..], &args].concat().into_iter().map(str::to_owned).collect())
}

fn a_thread() -> Transport {
    Transport::Thread(fake::serve)
}

/// Restarts without the long pauses of a server.
fn quick() -> Backoff {
    Backoff { longest: Duration::from_millis(100), ..Backoff::default() }
}

/// Starts the fake engine; see [`fake::serve`] for its targets.
fn open_with(target: &str, config: &Config, transport: Transport) -> Handle {
    Handle::with_backoff(target, config, transport, |_| Vocab::toy(), quick()).unwrap()
}

/// Starts the fake engine and waits until it is ready.
fn open(transport: Transport) -> Handle {
    let handle = open_with("fake", &Config::default(), transport);
    watch::until_ready(&handle);
    handle
}
