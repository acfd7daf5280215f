//! One engine, through a class of `python/llgtrt/engines/`.
//!
//! A thread waits for its answers and puts them into a channel. Answers to requests that nobody waits for any more are dropped
//! by whoever reads them. The GIL is taken to hand over plain values, and never while waiting.

use super::request::EngineRequest;
use crate::error::{Error, Result};
use crate::exec::ExecError;
use crate::exec::exception::{refusal, text};
use crate::types::Token;
use crossbeam_channel::{Receiver, Sender, unbounded};
use pyo3::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Seconds after which the waiting thread looks whether it shall end.
const WAIT: f64 = 0.1;

/// New tokens of a request; the same as `Answer` in `python/llgtrt/engines/__init__.py`.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Answer {
    /// The request.
    pub(super) id: u64,
    pub(super) tokens: Vec<Token>,
    /// For each of the tokens, if asked for: itself, then the likeliest ones, with their log-probabilities.
    pub(super) logprobs: Vec<Vec<(Token, f32)>>,
    /// For each token of the prompt after the first, if asked for and not told before.
    pub(super) prompt_logprobs: Vec<Vec<(Token, f32)>>,
    /// Set on the last answer: "stop" or "length".
    pub(super) finish: Option<String>,
    /// Why the request failed; nothing follows.
    pub(super) error: Option<String>,
    /// Prompt tokens whose KV was reused.
    pub(super) cached: Option<u32>,
    /// On the last answer: tokens that were drafted, and those of them that were accepted.
    pub(super) drafted: (u32, u32),
}

/// What an engine reports.
#[derive(Debug)]
pub(super) enum Report {
    Answer(Answer),
    /// The engine has ended.
    Broken(String),
}

/// What the engine that was opened is, as its method `facts` says it.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Facts {
    /// As refusals of requests name it.
    pub(super) name: String,
    /// Name and version.
    pub(super) summary: String,
    /// It drafts, and counts that with a request's last answer.
    pub(super) speculates: bool,
    /// Names of [`Feature`](crate::request::Feature)s that it lacks on this machine, beside those that it lacks everywhere.
    pub(super) lacks: Vec<String>,
}

/// What a target asks of an engine.
pub(super) trait Engine: Send {
    /// Hands a request in.
    ///
    /// # Errors
    /// Where the engine does not take it.
    fn submit(&mut self, request: EngineRequest) -> Result<()>;
    /// Ends a request, which may have ended already.
    fn cancel(&mut self, id: u64);
    /// What it reports next; waits for it.
    ///
    /// # Errors
    /// Where nothing will come any more.
    fn next(&mut self) -> Result<Report, ExecError>;
    /// What it has reported and nobody has read.
    fn ready(&mut self) -> Option<Report>;
}

/// An engine in Python.
pub(super) struct PyEngine {
    python: Py<PyAny>,
    told: Receiver<Report>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PyEngine {
    /// Loads the model in `folder`, with `options` in JSON.
    ///
    /// # Errors
    /// `Invalid` of `target` where the engine is not installed, or refuses the model or an option.
    pub(super) fn open(module: &str, folder: &Path, options: &str) -> Result<(PyEngine, Facts)> {
        let opened = Python::attach(|py| -> PyResult<(Py<PyAny>, Facts)> {
            let engine = py.import(module)?.getattr("Engine")?.call1((folder, options))?;
            let facts = engine.call_method0("facts")?.extract()?;
            Ok((engine.unbind(), facts))
        });
        let (python, facts) = opened.map_err(|e| refusal("target", folder, &e))?;
        let (tell, told) = unbounded();
        let closing = Arc::new(AtomicBool::new(false));
        let mut engine = PyEngine { python, told, closing: Arc::clone(&closing), thread: None };
        let python = Python::attach(|py| engine.python.clone_ref(py));
        let thread =
            std::thread::Builder::new().name("answers".into()).spawn(move || read(&python, &tell, &closing));
        engine.thread = Some(thread.map_err(|e| Error::Executor(format!("no thread for answers: {e}")))?);
        Ok((engine, facts))
    }
}

impl Engine for PyEngine {
    fn submit(&mut self, request: EngineRequest) -> Result<()> {
        let submitted = Python::attach(|py| self.python.call_method1(py, "submit", (request,)));
        submitted.map(|_| ()).map_err(|e| Error::Executor(text(&e)))
    }

    fn cancel(&mut self, id: u64) {
        if let Err(e) = Python::attach(|py| self.python.call_method1(py, "cancel", (id,))) {
            log::warn!("a request could not be cancelled: {}", text(&e));
        }
    }

    fn next(&mut self) -> Result<Report, ExecError> {
        self.told.recv().map_err(|_| ExecError("the engine gives no answers any more".into()))
    }

    fn ready(&mut self) -> Option<Report> {
        self.told.try_recv().ok()
    }
}

impl Drop for PyEngine {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        // What went wrong in it was reported before.
        let _ = self.thread.take().map(JoinHandle::join);
        if let Err(e) = Python::attach(|py| self.python.call_method0(py, "shutdown")) {
            log::warn!("the engine did not end well: {}", text(&e));
        }
    }
}

/// Reads answers until the engine closes or breaks.
fn read(python: &Py<PyAny>, tell: &Sender<Report>, closing: &AtomicBool) {
    while !closing.load(Ordering::Acquire) {
        let answers = Python::attach(|py| -> PyResult<Vec<Answer>> {
            python.call_method1(py, "wait", (WAIT,))?.extract(py)
        });
        let sent = match answers {
            Ok(answers) => answers.into_iter().all(|answer| tell.send(Report::Answer(answer)).is_ok()),
            Err(e) => {
                // Where nobody reads any more, nobody needs to know.
                let _ = tell.send(Report::Broken(text(&e)));
                return;
            }
        };
        if !sent {
            return;
        }
    }
}
