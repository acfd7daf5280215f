//! A rank process of this machine, seen from the engine's.

use super::{LOST, exit_now, serve};
use crate::error::{Error, Result};
use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::read_to_string;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a rank may take to listen: it loads a program, not a model.
const START: Duration = Duration::from_secs(60);

/// A rank process.
pub(super) struct Worker {
    rank: usize,
    threads: u32,
    child: Child,
    /// Its port, or how it ended.
    news: Receiver<std::result::Result<u16, String>>,
}

impl Worker {
    /// Starts a rank with so many threads, and a GPU or none. Where it ends before `closing`, this process does.
    ///
    /// # Errors
    /// `Executor`: it cannot be started.
    pub(super) fn start(
        rank: usize,
        program: &[String],
        (threads, gpu): (u32, Option<u32>),
        closing: &Arc<AtomicBool>,
    ) -> Result<Worker> {
        let failed = |why: String| Error::Executor(format!("rank {rank} cannot be started: {why}"));
        let Some((path, args)) = program.split_first() else {
            return Err(failed("this program does not know its own command line".into()));
        };
        let gpu = gpu.map(|gpu| ["--gpu".to_owned(), gpu.to_string()]);
        let child = Command::new(path)
            .args(args)
            .args(["--worker", "--threads", &threads.to_string()])
            .args(gpu.into_iter().flatten())
            // Ends with this process, and with it the rank.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An abort in C++ would start a debugger to print its stack.
            .env("GGML_NO_BACKTRACE", "1")
            .spawn();
        let mut child = child.map_err(|e| failed(format!("{path}: {e}")))?;
        let lines = BufReader::new(child.stdout.take().expect("it is a pipe. This is a bug."));
        let (pid, closing, (to, news)) = (Pid::from_child(&child), closing.clone(), bounded(1));
        let worker = Worker { rank, threads, child, news };
        std::thread::Builder::new()
            .name(format!("rank-{rank}"))
            .spawn(move || attend(rank, pid, lines, &to, &closing))
            .map_err(|e| failed(e.to_string()))?;
        Ok(worker)
    }

    /// Waits until it listens, and says where.
    ///
    /// # Errors
    /// `Executor`: it has ended, or takes too long.
    pub(super) fn wait_ready(&mut self) -> Result<String> {
        let failed = |why: &str| Err(Error::Executor(format!("rank {} {why}", self.rank)));
        match self.news.recv_timeout(START) {
            Ok(Ok(port)) => Ok(format!("127.0.0.1:{port}")),
            Ok(Err(end)) => failed(&format!("{end} before it listened")),
            Err(_) => failed(&format!("does not listen after {} s", START.as_secs())),
        }
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(super) fn threads(&self) -> u32 {
        self.threads
    }

    /// Bytes of memory that it holds.
    pub(super) fn memory(&self) -> Option<u64> {
        let text = read_to_string(format!("/proc/{}/statm", self.pid())).ok()?;
        let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be stopped. Its number is nobody else's until it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads what a rank says until it ends: the port first, then the library's words. Once it has listened, its end is this
/// process's.
fn attend(
    rank: usize,
    pid: Pid,
    lines: BufReader<ChildStdout>,
    to: &Sender<std::result::Result<u16, String>>,
    closing: &AtomicBool,
) {
    let mut listens = false;
    for line in lines.lines().map_while(std::io::Result::ok) {
        match serve::announced(&line) {
            Some(port) if !listens => listens = to.send(Ok(port)).is_ok(),
            _ => log::debug!("rank {rank}: {line}"),
        }
    }
    let end = match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
        Ok(Some(status)) => match (status.terminating_signal(), status.exit_status()) {
            (Some(signal), _) => ending(ExitStatus::from_raw(signal)),
            (None, code) => ending(ExitStatus::from_raw(code.unwrap_or(0) << 8)),
        },
        _ => "ended".to_owned(),
    };
    if closing.load(Ordering::Relaxed) {
        return;
    }
    if listens {
        log::error!("rank {rank} ({pid}) {end}: the engine ends with it");
        exit_now(LOST);
    }
    // Nobody may listen any more.
    let _ = to.send(Err(end));
}

/// A clause that says how a process ended, e.g. "was killed by SIGABRT".
pub(crate) fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by {}", signal_name(signal)),
        (None, Some(code)) => format!("exited with code {code}"),
        (None, None) => "ended".to_owned(),
    }
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

/// Ticks that a process has computed, in user and system mode.
pub(super) fn computed(pid: Pid) -> Option<u64> {
    let stat = stat(pid)?;
    let mut fields = stat.split(' ').skip(11).map(|field| field.parse::<u64>().ok());
    Some(fields.next()?? + fields.next()??)
}

/// Whether a process is stopped.
pub(super) fn is_stopped(pid: Pid) -> bool {
    stat(pid).is_some_and(|stat| stat.starts_with(['T', 't']))
}

/// A process's state and the fields behind it. Its name stands before, in brackets, and may hold anything.
fn stat(pid: Pid) -> Option<String> {
    let text = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ").map(|(_, fields)| fields.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    fn ready(script: &str) -> (Worker, Result<String>) {
        let closing = Arc::new(AtomicBool::new(true));
        let mut worker = Worker::start(1, &program(script), (1, None), &closing).unwrap();
        let ready = worker.wait_ready();
        (worker, ready)
    }

    #[test]
    fn it_is_ready_when_it_says_so() {
        let (worker, ready) = ready("echo words; echo llgtrt rank 4711; read end");
        assert_eq!(ready.unwrap(), "127.0.0.1:4711");
        assert!(worker.memory().unwrap() > 0 && !is_stopped(worker.pid()));
        let (pid, before) = (worker.pid(), computed(worker.pid()));
        assert!(before.is_some());
        drop(worker);
        assert_eq!(computed(pid), None, "nothing is left");
    }

    #[test]
    fn a_worker_that_ends_first_is_an_error() {
        let closing = Arc::new(AtomicBool::new(false));
        let mut worker = Worker::start(1, &program("exit 7"), (1, None), &closing).unwrap();
        let why = worker.wait_ready().unwrap_err().to_string();
        assert_eq!(why, "rank 1 exited with code 7 before it listened");
        let missing = Worker::start(1, &["/nowhere/program".to_owned()], (1, None), &closing);
        assert!(
            missing.err().unwrap().to_string().starts_with("rank 1 cannot be started: /nowhere/program: ")
        );
    }
}
