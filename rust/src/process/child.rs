//! The engine process: the child's side.

use super::ffi::exit_now;
use super::frame::{FrameReader, FrameWriter, Hello};
use super::{Serve, ffi};
use crate::config::Config;
use crate::engine::{Command, FromEngine};
use crossbeam_channel::{Sender, unbounded};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Exit code for a command line or a first message that makes no sense.
const USAGE: i32 = 2;
/// Exit code for a panic, as Rust programs have it.
const PANICKED: i32 = 101;

/// The main function of an engine process: serves the engine on the inherited socket `fd`, in this thread, until it is
/// told to close. Returns the exit code. Where the parent goes away, the process ends at once, whatever it is doing.
pub fn child_main(fd: RawFd, serve: Serve) -> i32 {
    // The socket's end says the same; this one also reaches a process whose socket a sibling has inherited.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    ffi::ignore_stop_signals();
    match ffi::take(fd).and_then(|fd| serve_on(&fd.into(), serve)) {
        Ok(code) => code,
        Err(e) => {
            log::error!("not started as an engine process: {e}");
            USAGE
        }
    }
}

fn serve_on(socket: &UnixStream, serve: Serve) -> io::Result<i32> {
    let mut frames = FrameReader::new(socket.try_clone()?);
    let hello: Hello = frames.read()?.ok_or_else(|| io::Error::other("the parent has left"))?;
    let config: Config = serde_json::from_str(&hello.config)?;
    let (to_engine, inbox) = unbounded();
    // Not the engine's thread: the parent's end is noticed while the engine loads or computes.
    std::thread::Builder::new().name("inbox".into()).spawn(move || read_commands(frames, &to_engine))?;
    // Blocks while the parent's buffer is full. The parent has a thread that only reads, into events that are merged,
    // so this is short; and where the parent is stopped, waiting is what bounds the memory.
    // To hand reports to a thread that writes them was tried: waking it takes as long as writing, 18 µs either way for 16
    // events, and they arrive 20 µs later.
    let mut reports = FrameWriter::new(socket);
    let mut sink = |message: FromEngine| {
        if matches!(message, FromEngine::Ready(_)) {
            ffi::return_freed();
        }
        reports.send(&message).is_ok()
    };
    let end = catch_unwind(AssertUnwindSafe(|| serve(&hello.target, &config, inbox, &mut sink)));
    Ok(if end.is_ok() { 0 } else { PANICKED })
}

fn read_commands(mut frames: FrameReader<UnixStream>, to_engine: &Sender<Command>) {
    loop {
        match frames.read() {
            // An engine that has left takes no commands; the process is about to end.
            Ok(Some(command)) => drop(to_engine.send(command)),
            Ok(None) => exit_now(0),
            Err(e) => {
                log::error!("the parent's message cannot be read: {e}");
                exit_now(USAGE)
            }
        }
    }
}
