//! One executor, through `python/llgtrt/trtllm.py`.
//!
//! A thread waits for its answers; the executor's own thread comes here for masks. Both put what they have into a channel.
//! Answers to requests that nobody waits for any more are dropped.

use super::orders::{Abilities, Order};
use super::walk::Walk;
use crate::error::{Error, Result};
use crate::exec::ExecError;
use crate::exec::exception::{refusal, text};
use crate::types::Token;
use crossbeam_channel::{Receiver, Sender, unbounded};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Where engine folders are run.
pub(super) const EXECUTOR: &str = "llgtrt.trtllm";
/// How long the waiting thread waits before it looks whether it shall end, in seconds.
const WAIT: f64 = 0.1;
/// What TensorRT-LLM answers, too, for a request that has ended.
const ENDED_BEFORE: &str = "has already been processed";
/// Bits that are all set: nothing is forbidden.
const ALL: u32 = u32::MAX;

/// Why a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// The end token, which may be left out of the tokens.
    End,
    /// Another token that ends the choice, which may be left out, too.
    Stop,
    /// As many tokens as asked for, or as many as it gives at once.
    Length,
    /// Given up.
    Given,
}

/// An answer to a request.
#[derive(Debug)]
pub(super) struct Answer {
    /// The request, as [`Executor::enqueue`] numbered it.
    pub(super) id: u64,
    /// New tokens.
    pub(super) tokens: Vec<Token>,
    /// Of the new tokens, where they were asked for.
    pub(super) logprobs: Vec<f32>,
    /// Set on the last answer.
    pub(super) finish: Option<Finish>,
    /// Blocks of KV that it found, told with the last answer where it was asked for.
    pub(super) reused: Option<u32>,
    /// What the tokens were drawn from, where it was asked for.
    pub(super) logits: Option<Py<PyAny>>,
}

/// What an executor tells.
pub(super) enum Told {
    Answer(Answer),
    /// A request failed.
    Failed(u64, Error),
    /// The executor did.
    Broken(String),
}

type Walks = HashMap<u64, Arc<Mutex<Walk>>>;

struct Shared {
    walks: Mutex<Walks>,
    tell: Sender<Told>,
    closing: AtomicBool,
    /// Masks are computed on these threads.
    pool: ThreadPool,
}

impl Shared {
    fn say(&self, told: Told) {
        // Who is gone hears nothing.
        let _ = self.tell.send(told);
    }

    fn walk(&self, id: u64) -> Option<Arc<Mutex<Walk>>> {
        locked(&self.walks).get(&id).cloned()
    }
}

/// The lock of what a panic cannot have left half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An executor that answers later.
pub(super) struct Executor {
    python: Py<PyAny>,
    shared: Arc<Shared>,
    told: Receiver<Told>,
    thread: Option<JoinHandle<()>>,
    /// The executor's own number of each request.
    requests: HashMap<u64, u64>,
    next: u64,
}

impl Executor {
    /// Loads the engine in `folder`; `what`: "target" or "draft". `masks`: threads that compute masks; none = it asks for none.
    ///
    /// # Errors
    /// `Invalid` of `what` where there is no usable TensorRT-LLM, or it refuses the engine.
    pub(super) fn open(
        module: &str,
        (what, folder): (&str, &Path),
        options: &impl Serialize,
        masks: Option<usize>,
    ) -> Result<Executor> {
        let (tell, told) = unbounded();
        let pool = ThreadPoolBuilder::new()
            .num_threads(masks.unwrap_or(1).max(1))
            .thread_name(|i| format!("masks {i}"))
            .build()
            .map_err(|e| Error::Executor(format!("no threads for masks: {e}")))?;
        let shared =
            Arc::new(Shared { walks: Mutex::default(), tell, closing: AtomicBool::new(false), pool });
        let options = serde_json::to_string(options).map_err(|e| Error::Executor(e.to_string()))?;
        let asked = masks.map(|_| Masks(Arc::clone(&shared)));
        let python = Python::attach(|py| -> PyResult<Py<PyAny>> {
            let class = py.import(module)?.getattr("Executor")?;
            Ok(class.call1((folder, options, asked))?.unbind())
        });
        let python = python.map_err(|e| refusal(what, folder, &e))?;
        let mut executor = Executor { python, shared, told, thread: None, requests: HashMap::new(), next: 0 };
        if executor.leads().map_err(|e| refusal(what, folder, &e))? {
            executor.listen(what)?;
        }
        Ok(executor)
    }

    /// Whether this process hands requests in.
    fn leads(&self) -> PyResult<bool> {
        Python::attach(|py| self.python.call_method0(py, "leads")?.extract(py))
    }

    fn listen(&mut self, what: &str) -> Result<()> {
        let python = Python::attach(|py| self.python.clone_ref(py));
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name(format!("{what} answers"))
            .spawn(move || listen(&python, &shared))
            .map_err(|e| Error::Executor(format!("no thread for answers: {e}")))?;
        self.thread = Some(thread);
        Ok(())
    }

    /// Where this process does not lead: computes until the leader ends.
    pub(super) fn follow(mut self) {
        self.end();
    }

    /// Whether this process only computes.
    pub(super) fn follows(&self) -> bool {
        self.thread.is_none()
    }

    /// Waits for what it tells next.
    ///
    /// # Errors
    /// Where nobody listens to it any more.
    pub(super) fn told(&self) -> Result<Told, ExecError> {
        self.told.recv().map_err(|_| ExecError("TensorRT-LLM's answers come no more".into()))
    }

    /// What it has told already and nobody has read.
    pub(super) fn told_already(&self) -> Option<Told> {
        self.told.try_recv().ok()
    }

    /// Hands a request in and numbers it; `logits`: what its draft tokens were drawn from. Its masks are `walk`'s.
    ///
    /// # Errors
    /// `Executor` where TensorRT-LLM refuses it.
    pub(super) fn enqueue(&mut self, mut order: Order, logits: Option<Py<PyAny>>, walk: Walk) -> Result<u64> {
        self.next += 1;
        let id = self.next;
        order.client_id = id;
        // Before it is handed in: the executor may ask for masks before it has returned.
        locked(&self.shared.walks).insert(id, Arc::new(Mutex::new(walk)));
        let request = Python::attach(|py| -> PyResult<u64> {
            self.python.call_method1(py, "enqueue", (order, logits))?.extract(py)
        });
        match request {
            Ok(request) => {
                self.requests.insert(id, request);
                Ok(id)
            }
            Err(e) => {
                locked(&self.shared.walks).remove(&id);
                Err(Error::Executor(format!("TensorRT-LLM refuses the request: {}", text(&e))))
            }
        }
    }

    /// Forgets a request that has ended; its walk, unless that is being used.
    pub(super) fn finish(&mut self, id: u64) -> Option<Arc<Mutex<Walk>>> {
        self.requests.remove(&id);
        locked(&self.shared.walks).remove(&id)
    }

    /// Forgets a request and ends it, if it has not ended.
    pub(super) fn cancel(&mut self, id: u64) {
        let request = self.requests.get(&id).copied();
        self.finish(id);
        let Some(request) = request else { return };
        if let Err(e) = Python::attach(|py| self.python.call_method1(py, "cancel", (request,))) {
            log::warn!("a request could not be cancelled: {}", text(&e));
        }
    }

    /// Takes what the callback keeps of a request.
    pub(super) fn with_walk<T>(walk: &Arc<Mutex<Walk>>, with: impl FnOnce(&mut Walk) -> T) -> T {
        with(&mut locked(walk))
    }

    fn end(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        // What went wrong in it was told before.
        let _ = self.thread.take().map(JoinHandle::join);
        if let Err(e) = Python::attach(|py| self.python.call_method0(py, "shutdown")) {
            log::warn!("TensorRT-LLM did not end well: {}", text(&e));
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if !self.shared.closing.load(Ordering::Acquire) {
            for id in self.requests.keys().copied().collect::<Vec<_>>() {
                self.cancel(id);
            }
            self.end();
        }
    }
}

/// What `abilities` of the module says.
///
/// # Errors
/// `Invalid` of `target` where there is no usable TensorRT-LLM.
pub(super) fn abilities(folder: &Path) -> Result<Abilities> {
    let names = Python::attach(|py| -> PyResult<Vec<String>> {
        py.import(EXECUTOR)?.call_method0("abilities")?.extract()
    });
    let names = names.map_err(|e| refusal("target", folder, &e))?;
    let has = |name: &str| names.iter().any(|known| known == name);
    Ok(Abilities {
        cache_salt: has("cache_salt_id"),
        prompt_ignore_length: has("prompt_ignore_length"),
        min_p: has("min_p"),
    })
}

/// This process among those of an MPI job.
///
/// # Errors
/// As [`abilities`].
pub(super) fn rank(folder: &Path) -> Result<u32> {
    Python::attach(|py| py.import(EXECUTOR)?.call_method0("rank")?.extract())
        .map_err(|e: PyErr| refusal("target", folder, &e))
}

type Raw = (Option<u64>, Option<String>, Vec<Token>, bool, String, Vec<f32>, Option<Py<PyAny>>, Option<u32>);

/// Waits for answers until the executor closes.
fn listen(python: &Py<PyAny>, shared: &Shared) {
    while !shared.closing.load(Ordering::Acquire) {
        let answers = Python::attach(|py| -> PyResult<Vec<Raw>> {
            python.call_method1(py, "wait", (WAIT,))?.extract(py)
        });
        match answers {
            Ok(answers) => answers.into_iter().for_each(|raw| hear(shared, raw)),
            Err(_) if shared.closing.load(Ordering::Acquire) => return,
            Err(e) => {
                shared.say(Told::Broken(text(&e)));
                // An executor that always fails is given up by who hears it.
                std::thread::sleep(Duration::from_secs_f64(WAIT));
            }
        }
    }
}

fn hear(shared: &Shared, (id, error, tokens, last, reason, logprobs, logits, reused): Raw) {
    let Some(id) = id else { return };
    let finish = match reason.as_str() {
        "END_ID" => Some(Finish::End),
        "STOP_WORDS" => Some(Finish::Stop),
        "TIMED_OUT" | "CANCELLED" => Some(Finish::Given),
        _ if last => Some(Finish::Length),
        _ => None,
    };
    shared.say(match error {
        Some(why) if why.contains(ENDED_BEFORE) => return,
        Some(why) => Told::Failed(id, Error::Executor(format!("TensorRT-LLM: {why}"))),
        None => Told::Answer(Answer { id, tokens, logprobs, finish, reused, logits }),
    });
}

/// What the executor's thread asks.
#[pyclass(frozen)]
struct Masks(Arc<Shared>);

/// One request's part of a callback.
struct Part<'a> {
    id: u64,
    walk: Option<Arc<Mutex<Walk>>>,
    output: Vec<Token>,
    rows: usize,
    out: &'a mut [u32],
}

#[pymethods]
impl Masks {
    /// See `Masks` in `python/llgtrt/trtllm.py`.
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        requests: Vec<(Option<u64>, usize, Bound<'py, PyAny>)>,
        width: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let walks: Vec<_> = requests.iter().map(|(id, ..)| id.and_then(|id| self.0.walk(id))).collect();
        let firsts: Vec<_> = py.detach(|| walks.iter().map(first).collect());
        let new = |((_, _, text), first): (&(_, _, Bound<'py, PyAny>), Option<isize>)| match first {
            Some(first) => text.get_item(PySlice::new(py, first, isize::MAX, 1))?.extract(),
            None => Ok(Vec::new()),
        };
        let outputs = requests.iter().zip(firsts).map(new).collect::<PyResult<Vec<Vec<Token>>>>()?;
        let rows: Vec<(Option<u64>, usize)> = requests.iter().map(|(id, rows, _)| (*id, *rows)).collect();
        let words = width.div_ceil(32);
        let bytes = py.detach(|| {
            let mut all = vec![ALL; rows.iter().map(|(_, rows)| rows).sum::<usize>() * words];
            let mut rest = &mut all[..];
            let mut parts = Vec::new();
            for (((id, rows), walk), output) in rows.into_iter().zip(walks).zip(outputs) {
                let (out, others) = rest.split_at_mut(rows * words);
                rest = others;
                parts.push(Part { id: id.unwrap_or_default(), walk, output, rows, out });
            }
            self.0.pool.install(|| parts.into_par_iter().for_each(|part| self.compute(part, width)));
            all.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
        });
        Ok(PyBytes::new(py, &bytes))
    }

    /// Masks could not be written: what was drawn is worthless.
    fn fail(&self, py: Python<'_>, client_ids: Vec<Option<u64>>, why: &str) {
        py.detach(|| {
            for id in client_ids.into_iter().flatten() {
                self.0.say(Told::Failed(id, Error::Executor(format!("masks could not be written: {why}"))));
            }
        });
    }
}

impl Masks {
    /// A request that fails here is told to have failed before its tokens are.
    fn compute(&self, part: Part<'_>, width: usize) {
        let Some(walk) = part.walk else { return };
        let masks = Executor::with_walk(&walk, |walk| walk.masks(&part.output, (part.rows, width), part.out));
        if let Err(error) = masks {
            self.0.say(Told::Failed(part.id, error));
        }
    }
}

/// Where in the text the tokens begin that a walk has not taken.
fn first(walk: &Option<Arc<Mutex<Walk>>>) -> Option<isize> {
    let walk = walk.as_ref()?;
    Executor::with_walk(walk, |walk| isize::try_from(walk.sent + walk.taken).ok())
}
