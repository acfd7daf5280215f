//! Threads that compile, each kept for the next compilation for a while: a new one costs about as much as a small schema, with
//! its stack and with memory that is fresh to it.

use std::io;
use std::sync::mpsc::{SendError, Sender, channel};
use std::time::{Duration, Instant};

/// A chain of 20,000 rules compiles in 64 MiB; pages are touched only if used, and given back with the thread.
const STACK_BYTES: usize = 256 << 20;
/// How long a thread that has nothing to do is kept, and how long any is: its deepest grammar leaves pages in its stack.
const IDLE: Duration = Duration::from_secs(1);
const AGE: Duration = Duration::from_secs(10);

/// What a thread is to do. It does not panic.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one job after another, until this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Sender<Job>,
    begun: Instant,
}

impl Worker {
    fn start() -> io::Result<Worker> {
        let (sender, jobs) = channel::<Job>();
        let work = move || jobs.into_iter().for_each(|job| job());
        std::thread::Builder::new().name("grammar".into()).stack_size(STACK_BYTES).spawn(work)?;
        Ok(Worker { jobs: sender, begun: Instant::now() })
    }
}

/// Threads that have nothing to do, and since when; the last one has been idle for the shortest time.
#[derive(Debug, Default)]
pub(super) struct Workers(Vec<(Worker, Instant)>);

impl Workers {
    /// Gives the job to an idle thread or a new one, which comes back by [`Workers::rest`].
    ///
    /// # Errors
    /// There is no thread left.
    pub(super) fn give(&mut self, job: Job) -> io::Result<Worker> {
        let worker = self.0.pop().map_or_else(Worker::start, |(worker, _)| Ok(worker))?;
        match worker.jobs.send(job) {
            Ok(()) => Ok(worker),
            Err(SendError(_)) => Err(io::Error::other("it has ended. This is a bug.")),
        }
    }

    /// Takes back a thread that has done its job.
    pub(super) fn rest(&mut self, worker: Worker) {
        if worker.begun.elapsed() < AGE {
            self.0.push((worker, Instant::now()));
        }
    }

    /// When the next thread will have been idle for too long.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.0.first().map(|(_, since)| *since + IDLE)
    }

    /// Ends those that have been idle for too long.
    pub(super) fn end_idle(&mut self) {
        self.0.retain(|(_, since)| since.elapsed() < IDLE);
    }
}
