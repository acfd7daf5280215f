//! The engine seen from outside: submit, cancel, drain, close. A [`Handle`] is cheap to clone and never blocks on the
//! engine.
//!
//! A supervisor thread (`supervise.rs`) runs one engine after the other and takes in what they say. Engine and handles
//! meet in one locked state (`state.rs`): the unfinished requests (`book.rs`), their merged events (`outbox.rs`) and
//! the metrics (`meter.rs`). It is the one lock of the core.

mod backoff;
mod book;
mod meter;
mod outbox;
mod shared;
mod state;
mod supervise;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::exec::Info;
use crate::process::{Transport, return_freed};
use crate::request::{Request, RequestSpec};
use crate::types::{Event, RequestId, Token};
use crate::vocab::Vocab;
use backoff::Series;
use shared::Shared;
use state::State;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use backoff::Backoff;
pub use meter::Metrics;
pub use state::Phase;

/// Opens the tokenizer of a target.
pub type OpenVocab = fn(&str) -> Result<Arc<Vocab>>;

/// How long [`Handle::close`] waits for the engine's end: longer than a child process is given.
const CLOSE: Duration = Duration::from_secs(5);

/// Stack of the threads that read the vocabulary and run the engine, in bytes: as large as a main thread's.
const STACK: usize = 8 << 20;

/// A supervised engine. The last clone that is dropped closes it.
#[derive(Clone)]
pub struct Handle(Arc<Owner>);

struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.turn(State::close);
    }
}

impl Handle {
    /// Starts the engine of `target` and returns; it is opened in the background.
    ///
    /// # Errors
    /// [`Error::Executor`] where the system has no thread or descriptor left.
    pub fn new(target: &str, config: &Config, transport: Transport, vocab: OpenVocab) -> Result<Handle> {
        Self::with_backoff(target, config, transport, vocab, Backoff::default())
    }

    /// The same with other pauses between restarts.
    ///
    /// # Errors
    /// As [`Handle::new`].
    pub fn with_backoff(
        target: &str,
        config: &Config,
        transport: Transport,
        vocab: OpenVocab,
        backoff: Backoff,
    ) -> Result<Handle> {
        let state = State::new(format!("opening {target}"), config.max_queue_size);
        let shared = Arc::new(Shared::new(state).map_err(cannot_start)?);
        let (target, config, series) = (target.to_owned(), config.clone(), Series::new(backoff));
        // Beside the engine, which takes longer to open.
        let file = target.clone();
        let open = move || {
            let vocab = vocab(&file);
            return_freed();
            vocab
        };
        let vocab = Some(spawn("vocabulary", open)?);
        let plan = supervise::Plan { target, config, transport, vocab, series };
        let theirs = shared.clone();
        spawn("engine", move || supervise::run(&theirs, plan))?;
        Ok(Handle(Arc::new(Owner(shared))))
    }

    /// What the engine is doing, and one line about it.
    pub fn state(&self) -> (Phase, String) {
        self.shared().read(State::phase)
    }

    /// The facts of the opened engine. They stay known while it is restarted.
    ///
    /// # Errors
    /// [`Error::Closed`] until the engine is ready for the first time.
    pub fn info(&self) -> Result<Info> {
        Ok(self.shared().read(State::known)?.info.clone())
    }

    /// The engine's tokenizer.
    ///
    /// # Errors
    /// As [`Handle::info`].
    pub fn vocab(&self) -> Result<Arc<Vocab>> {
        Ok(self.shared().read(State::known)?.vocab.clone())
    }

    /// Encodes the parts' concatenation; see [`Vocab::encode`].
    ///
    /// # Errors
    /// As [`Handle::info`] and [`Vocab::encode`].
    pub fn encode(&self, parts: &[(&str, bool)]) -> Result<Vec<Token>> {
        self.vocab()?.encode(parts)
    }

    /// The text of tokens, without the special ones; bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// As [`Handle::info`].
    pub fn decode(&self, tokens: &[Token]) -> Result<String> {
        let vocab = self.vocab()?;
        let plain = tokens.iter().filter(|token| !vocab.is_special(**token));
        let bytes: Vec<u8> = plain.flat_map(|token| vocab.bytes(*token)).copied().collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Checks a request and hands it in. While the engine is restarted it waits.
    ///
    /// # Errors
    /// [`Error::Invalid`]; [`Error::Overloaded`] where `max_queue_size` choices wait already; [`Error::Closed`] where
    /// the engine is loading, failed or closed.
    pub fn submit(&self, spec: RequestSpec) -> Result<RequestId> {
        let known = self.shared().read(State::known)?;
        let request = Request::new(spec, &known.info.limits)?;
        self.shared().change(|state| state.submit(request))
    }

    /// Ends a request; its open choices end as cancelled. Nothing happens where it has ended, or never was.
    pub fn cancel(&self, request: RequestId) {
        self.shared().change(|state| state.cancel(request));
    }

    /// Takes the events that wait, at most one per choice, and resets the descriptor.
    pub fn drain(&self) -> Vec<Event> {
        self.shared().drain()
    }

    /// The number of the descriptor that [`AsFd`] borrows.
    pub fn fileno(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    /// Totals over all lives of the engine, and what the present one holds.
    pub fn metrics(&self) -> Metrics {
        self.shared().read(State::metrics)
    }

    /// Ends the engine now; unfinished requests end with [`Error::Closed`]. Returns when nothing of it is left, or
    /// after 5 seconds where a thread of this process does not listen.
    pub fn close(&self) {
        self.shared().turn(State::close);
        if !self.shared().wait_finished(CLOSE) {
            log::warn!("the engine has not ended within {} s", CLOSE.as_secs());
        }
    }

    fn shared(&self) -> &Shared {
        &self.0.0
    }
}

/// A descriptor that is readable while events wait, and where the phase has changed since the last [`Handle::drain`].
/// Only for polling.
impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared().as_fd()
    }
}

fn spawn<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(run).map_err(cannot_start)
}

fn cannot_start(error: std::io::Error) -> Error {
    Error::Executor(format!("cannot start the engine: {error}"))
}
