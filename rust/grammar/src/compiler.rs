//! Worker threads and a cache: spec to grammar, polled, never waited for.
//!
//! One thread owns the queue and the cache and takes messages; a compilation runs on a thread with a big stack that is kept
//! for some seconds, so that a deep grammar can neither overflow it nor keep its pages for long. A compilation that nobody
//! waits for any more is dropped from the line; one that runs ends at the next look at its budget. One that takes too long is
//! refused then; only llguidance's part of it cannot be stopped, and its result is kept for the next who asks.

use super::build::Builder;
use super::counters::Counters;
use super::queue::{Message, Outcome, Parts, Queue, Waiter};
use super::{Compiled, GrammarSpec};
use crate::config::GrammarConfig;
use crate::error::{Error, Result};
use crate::vocab::Vocab;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

/// Compiles grammars off the engine thread.
#[derive(Debug)]
pub struct Compiler {
    sender: Sender<Message>,
    counters: Arc<Counters>,
    durations: Receiver<Duration>,
    next: AtomicU64,
}

/// Counts since the start, and what has been compiled since the last call of [`Compiler::stats`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompileStats {
    /// Specs answered from the cache.
    pub hits: u64,
    /// Specs that had to be compiled, or were being compiled already.
    pub misses: u64,
    /// Grammars and refusals in the cache.
    pub entries: u64,
    /// Wall time of each compilation that ended since the last call.
    pub durations: Vec<Duration>,
}

impl Compiler {
    /// Starts the queue; `wake` is called from its thread whenever a compilation ends or a cached grammar is found. As many
    /// as `running` sequences are at work at a time, which share what the states of their lexers may take.
    ///
    /// # Errors
    /// Where the vocabulary does not suit llguidance.
    pub fn new(
        vocab: Arc<Vocab>,
        config: &GrammarConfig,
        running: usize,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = match config.compile_threads {
            0 => cores / 2,
            n => n as usize,
        };
        let (sender, messages) = channel();
        let (counters, durations) = Counters::new();
        let counters = Arc::new(counters);
        let parts = Parts {
            builder: Arc::new(Builder::new(&vocab, config, running)?),
            // With one thread, a slow compilation would hold up everybody.
            threads: threads.max(2),
            cache_bytes: config.cache_megabytes << 20,
            time: Duration::from_secs_f64(config.compile_seconds),
            counters: Arc::clone(&counters),
            wake,
        };
        let queue = Queue::new(parts, sender.clone());
        std::thread::Builder::new()
            .name("grammars".into())
            .spawn(move || queue.run(&messages))
            .map_err(|e| Error::Executor(format!("no thread for grammars: {e}")))?;
        Ok(Compiler { sender, counters, durations, next: AtomicU64::new(0) })
    }

    /// Queues a spec; `client` is the API key's number: one client gets at most half of the threads.
    pub fn compile(&self, spec: &GrammarSpec, client: u64) -> CompileHandle {
        let id = self.next.fetch_add(1, Relaxed);
        let (reply, answer) = channel();
        // A queue that has gone away drops the reply, and the handle then reports it.
        let _ = self.sender.send(Message::Compile(spec.clone(), Waiter { id, client, reply }));
        CompileHandle { id, answer: Some(answer), queue: self.sender.clone() }
    }

    /// Counters for the metrics. Drains the durations.
    pub fn stats(&self) -> CompileStats {
        CompileStats {
            hits: self.counters.hits.load(Relaxed),
            misses: self.counters.misses.load(Relaxed),
            entries: self.counters.entries.load(Relaxed),
            durations: self.durations.try_iter().collect(),
        }
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // Compilations under way end by themselves and find nobody there.
        let _ = self.sender.send(Message::Close);
    }
}

/// A compilation under way; dropping it gives it up.
#[derive(Debug)]
pub struct CompileHandle {
    id: u64,
    answer: Option<Receiver<Outcome>>,
    queue: Sender<Message>,
}

impl CompileHandle {
    /// Waits for the compiled constraint.
    ///
    /// # Errors
    /// Why it can't be enforced; `Error::Closed` where the answer was given before, or the compiler is gone.
    pub fn wait(mut self) -> Result<Compiled> {
        let outcome = self.answer.take().and_then(|answer| answer.recv().ok());
        outcome.unwrap_or_else(|| Err(closed())).map(Compiled)
    }

    /// The compiled constraint, or why it can't be enforced; None while it is being compiled. The answer comes
    /// once; after it, and after the compiler is gone, `Error::Closed`.
    pub fn poll(&mut self) -> Option<Result<Compiled>> {
        let Some(answer) = &self.answer else { return Some(Err(closed())) };
        match answer.try_recv() {
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(closed())),
            Ok(outcome) => {
                self.answer = None;
                Some(outcome.map(Compiled))
            }
        }
    }
}

fn closed() -> Error {
    Error::Closed("the grammar compiler is closed".into())
}

impl Drop for CompileHandle {
    fn drop(&mut self) {
        if self.answer.is_some() {
            // A queue that has gone away has nothing left to give up.
            let _ = self.queue.send(Message::GiveUp(self.id));
        }
    }
}
