//! The engine process: the parent's side.

use super::Line;
use super::frame::{FrameReader, FrameWriter, Hello};
use crate::config::Config;
use crate::engine::{Command, FromEngine};
use crossbeam_channel::Receiver;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a child may take to leave after [`Command::Close`].
const CLOSE: Duration = Duration::from_secs(2);
/// How long a child may take to end once its socket is closed.
const REAP: Duration = Duration::from_secs(1);
/// How long a child may leave a full socket unread. Its reading thread does nothing else, so it is stopped or stuck.
const UNREAD: Duration = Duration::from_secs(10);

/// One life of a child; see [`super::Transport::live`].
pub(super) fn live(argv: &[String], target: &str, config: &Config, line: Line<'_>) -> Result<String, String> {
    let Line { inbox, sink, hang_up } = line;
    let config = serde_json::to_string(config).map_err(|e| e.to_string())?;
    let hello = Hello { target: target.to_owned(), config };
    let (mut child, socket) = start(argv).map_err(|e| format!("cannot start the engine process: {e}"))?;
    std::thread::scope(|scope| {
        scope.spawn(|| write_commands(&hello, inbox, &socket));
        if let Err(e) = read_reports(&socket, sink) {
            log::error!("the engine process's message cannot be read: {e}");
        }
        // Ends the writer, and the child where it is not gone yet.
        hang_up();
        shut(&socket);
    });
    drop(socket);
    Ok(reap(&mut child).map_or_else(|e| format!("the engine process is lost: {e}"), how_it_ended))
}

/// Starts the program with one end of a socketpair as its standard input: the one descriptor that a child inherits
/// without being open, for a moment, to every other child that this process starts.
fn start(argv: &[String]) -> io::Result<(Child, UnixStream)> {
    let (program, args) = argv.split_first().ok_or_else(|| io::Error::other("its command line is empty"))?;
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_write_timeout(Some(UNREAD))?;
    let child = std::process::Command::new(program)
        .args(args)
        .arg("0")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        // An abort in C++ would start a debugger to print its stack, and keep the client waiting for it.
        .env("GGML_NO_BACKTRACE", "1")
        // Ctrl-C in a terminal is for the server, which lets the running requests finish.
        .process_group(0)
        .spawn()
        .map_err(|e| io::Error::new(e.kind(), format!("{program}: {e}")))?;
    Ok((child, ours))
}

/// Passes commands on until the engine has hung up, or has been told to close and does not leave in time.
fn write_commands(hello: &Hello, inbox: Receiver<Command>, socket: &UnixStream) {
    let mut frames = FrameWriter::new(socket);
    let mut going = frames.send(hello).is_ok();
    while going && let Ok(command) = inbox.recv() {
        going = frames.send(&command).is_ok();
        if matches!(command, Command::Close) {
            wait_for_hang_up(&inbox);
            going = false;
        }
    }
    // The child sees the end of its socket, and so does the reader here.
    shut(socket);
}

fn wait_for_hang_up(inbox: &Receiver<Command>) {
    let end = Instant::now() + CLOSE;
    while inbox.recv_timeout(end.saturating_duration_since(Instant::now())).is_ok() {}
}

fn read_reports(socket: &UnixStream, sink: &mut dyn FnMut(FromEngine) -> bool) -> io::Result<()> {
    let mut frames = FrameReader::new(socket);
    while let Some(message) = frames.read()? {
        if !sink(message) {
            break;
        }
    }
    Ok(())
}

fn shut(socket: &UnixStream) {
    // Fails only where the other end has done it already.
    let _ = socket.shutdown(Shutdown::Both);
}

/// Waits for the end of a child whose socket is closed, and kills it if it does not come; with it go all processes that
/// it has started.
fn reap(child: &mut Child) -> io::Result<ExitStatus> {
    let end = Instant::now() + REAP;
    let mut pause = Duration::from_millis(1);
    let pid = Pid::from_child(child);
    // It is left to be waited for, so that its number, which is its group's, is nobody else's yet.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while Instant::now() < end && waitid(WaitId::Pid(pid), look)?.is_none() {
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    // Fails where nobody of the group is left.
    let _ = kill_process_group(pid, Signal::KILL);
    child.wait()
}

fn how_it_ended(status: ExitStatus) -> String {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by {}", signal_name(signal)),
        (None, Some(code)) => format!("exited with code {code}"),
        (None, None) => "ended".to_owned(),
    };
    format!("the engine process {how}")
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL (an instruction that this CPU lacks)",
        libc::SIGKILL => "SIGKILL (by hand, or out of memory)",
        libc::SIGSEGV => "SIGSEGV",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
