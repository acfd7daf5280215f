//! The two ways to reach an engine. The messages are the same plain data: over a channel to an engine in this
//! thread, or in frames over a socket to an engine in a child process, which may abort without harm to its parent.
//!
//! Either way `Transport::live` is one life of an engine, start to end, in the calling thread. Who calls it again
//! after a crash is `handle/supervise.rs`.

mod child;
mod ffi;
pub mod frame;
mod parent;

use crate::config::Config;
use crate::engine::{Command, FromEngine};
use crate::error::panic_text;
use crossbeam_channel::Receiver;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use child::child_main;
pub(crate) use ffi::return_freed;

/// Runs an engine from its start to its end, in the calling thread: `(target, config, inbox, sink)`. Says
/// [`FromEngine::Ready`] or [`FromEngine::Failed`] first, then reports until [`Command::Close`] comes, all senders of
/// `inbox` are gone, or `sink` returns false because nobody listens any more.
pub type Serve = fn(&str, &Config, Receiver<Command>, &mut dyn FnMut(FromEngine) -> bool);

/// Where the engine runs.
#[derive(Clone, Debug)]
pub enum Transport {
    /// In a thread of this process.
    Thread(Serve),
    /// In a child process. This is its command line, to which the number of its inherited socket is appended; the
    /// program passes that number to [`child_main`].
    Child(Vec<String>),
}

/// The caller's ends of a life.
pub(crate) struct Line<'a> {
    /// What the engine is told.
    pub(crate) inbox: Receiver<Command>,
    /// Takes what the engine says; false = nobody listens, end this life.
    pub(crate) sink: &'a mut dyn FnMut(FromEngine) -> bool,
    /// Called once the engine says nothing more; drops all senders of `inbox`.
    pub(crate) hang_up: &'a dyn Fn(),
}

impl Transport {
    /// One life of an engine. Returns when it is over and nothing of it is left, with a clause that says how it ended,
    /// e.g. "the engine process was killed by SIGABRT".
    ///
    /// # Errors
    /// The engine could not even be started; the text says why.
    pub(crate) fn live(&self, target: &str, config: &Config, line: Line<'_>) -> Result<String, String> {
        match self {
            Transport::Thread(serve) => Ok(live_here(*serve, target, config, line)),
            Transport::Child(argv) => parent::live(argv, target, config, line),
        }
    }
}

fn live_here(serve: Serve, target: &str, config: &Config, line: Line<'_>) -> String {
    let Line { inbox, sink, hang_up } = line;
    let end = catch_unwind(AssertUnwindSafe(|| serve(target, config, inbox, sink)));
    hang_up();
    match end {
        Ok(()) => "the engine ended".to_owned(),
        Err(panic) => format!("the engine panicked: {}", panic_text(&*panic)),
    }
}
