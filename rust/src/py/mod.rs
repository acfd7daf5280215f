//! The Python boundary, `llgtrt._core`. Methods convert, release the GIL, call and translate the error; what they do
//! is said in `python/llgtrt/_core.pyi`.

mod check;
mod errors;
mod event;
mod ffi;
mod grammar;
mod log;

use crate::config::{self, Config, LogFormat};
use crate::engine;
use crate::error::{Error, Result};
use crate::exec::{self, open};
use crate::handle::Handle;
use crate::process::{self, Transport};
use crate::types::{RequestId, Token};
use check::Checker;
use errors::{Answer, detached};
use event::Event;
use pyo3::prelude::*;
use std::os::fd::RawFd;

/// An engine in the background: a process of its own, or a thread of this one.
#[pyclass(frozen, module = "llgtrt._core")]
struct Engine {
    handle: Handle,
    checker: Checker,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (target, config, child=None))]
    fn new(py: Python<'_>, target: &str, config: &str, child: Option<Vec<String>>) -> Answer<Engine> {
        detached(py, || start(target, config, child))
    }

    /// What the engine is doing, and one line about it.
    fn state(&self, py: Python<'_>) -> (&'static str, String) {
        let (phase, why) = py.detach(|| self.handle.state());
        (phase.name(), why)
    }

    /// The facts of the opened engine, in JSON.
    fn info(&self, py: Python<'_>) -> Answer<String> {
        detached(py, || info(&self.handle))
    }

    /// Text to tokens; special tokens are known in parts whose flag is true.
    fn encode(&self, py: Python<'_>, parts: Vec<(String, bool)>) -> Answer<Vec<Token>> {
        detached(py, || {
            self.handle.encode(&parts.iter().map(|(text, special)| (&**text, *special)).collect::<Vec<_>>())
        })
    }

    /// Tokens to text, without the special ones.
    fn decode(&self, py: Python<'_>, tokens: Vec<Token>) -> Answer<String> {
        detached(py, || self.handle.decode(&tokens))
    }

    /// The bytes of one token.
    fn token_bytes(&self, py: Python<'_>, token: Token) -> Answer<Vec<u8>> {
        detached(py, || Ok(self.handle.vocab()?.bytes(token).to_vec()))
    }

    /// Bytes of the longest token.
    fn longest_token(&self, py: Python<'_>) -> Answer<usize> {
        detached(py, || Ok(self.handle.vocab()?.longest()))
    }

    /// The token to put before a prompt that comes as plain text.
    fn bos_token(&self, py: Python<'_>) -> Answer<Option<Token>> {
        detached(py, || Ok(self.handle.info()?.bos))
    }

    /// Whether a constraint can be enforced, at which cost, and how far a text satisfies it, in JSON; `show`: with its Lark.
    #[pyo3(signature = (spec, text=None, show=false))]
    fn check_grammar(&self, py: Python<'_>, spec: &str, text: Option<&str>, show: bool) -> Answer<String> {
        detached(py, || self.checker.check(&self.handle.vocab()?, spec, text, show))
    }

    /// Hands a request in and returns its id.
    fn submit(&self, py: Python<'_>, request: &str) -> Answer<u64> {
        detached(py, || submit(&self.handle, request))
    }

    /// Ends a request; never fails.
    fn cancel(&self, py: Python<'_>, request: u64) {
        py.detach(|| self.handle.cancel(RequestId(request)));
    }

    /// The events that wait, one per choice at most.
    fn drain(&self, py: Python<'_>) -> Vec<Event> {
        py.detach(|| self.handle.drain().into_iter().map(Event).collect())
    }

    /// A descriptor that is readable while drain() or state() has news.
    fn fileno(&self) -> RawFd {
        self.handle.fileno()
    }

    /// Totals and gauges, in JSON.
    fn metrics(&self, py: Python<'_>) -> Answer<String> {
        detached(py, || json(&self.handle.metrics()))
    }

    /// Ends the engine now.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.handle.close());
    }
}

fn start(target: &str, config: &str, child: Option<Vec<String>>) -> Result<Engine> {
    let config: Config = serde_json::from_str(config).map_err(|e| Error::invalid("config", e.to_string()))?;
    open::check(target, &config)?;
    let transport = child.map_or(Transport::Thread(engine::serve), Transport::Child);
    let handle = Handle::new(target, &config, transport, open::open_vocab)?;
    Ok(Engine { handle, checker: Checker::new(&config) })
}

fn submit(handle: &Handle, request: &str) -> Result<u64> {
    let mut json = serde_json::Deserializer::from_str(request);
    let spec = serde_path_to_error::deserialize(&mut json)
        .map_err(|e| Error::invalid(e.path().to_string(), e.inner().to_string()))?;
    Ok(handle.submit(spec)?.0)
}

fn info(handle: &Handle) -> Result<String> {
    #[derive(serde::Serialize)]
    struct Full {
        #[serde(flatten)]
        info: exec::Info,
        eos_text: String,
        bos_text: Option<String>,
    }
    let vocab = handle.vocab()?;
    let info = handle.info()?;
    let bos_text = info.begin.map(|begin| String::from_utf8_lossy(vocab.bytes(begin)).into_owned());
    json(&Full { info, eos_text: vocab.eos_text(), bos_text })
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Executor(e.to_string()))
}

/// JSON with comments, or None, and overrides as a JSON object: the effective configuration in JSON.
#[pyfunction]
#[pyo3(signature = (text, overrides))]
fn load_config(py: Python<'_>, text: Option<&str>, overrides: &str) -> Answer<String> {
    detached(py, || {
        log::begin();
        let config = config::load(text, overrides)?;
        if config.server.log_format == LogFormat::Json {
            log::as_json();
        }
        for key in Config::ignored_keys_set(text) {
            ::log::info!("runtime.json: {key} has an effect on TensorRT-LLM only");
        }
        json(&config)
    })
}

/// The effective configuration with one comment per key.
#[pyfunction]
fn print_config(py: Python<'_>, effective: &str) -> Answer<String> {
    detached(py, || Ok(config::print(&config::load(Some(effective), "{}")?)))
}

/// Writes a GGUF file with its matrices in another format.
#[pyfunction]
fn quantize(py: Python<'_>, source: &str, target: &str, qformat: &str) -> Answer<()> {
    detached(py, || open::quantize(source, target, qformat))
}

/// The main function of the engine process; returns its exit code.
#[pyfunction]
fn engine_process(py: Python<'_>, fd: RawFd) -> i32 {
    py.detach(|| {
        log::begin();
        process::child_main(fd, engine::serve)
    })
}

/// Computes on a rank of MPI that does not lead, until the leader ends.
#[pyfunction]
fn follow(py: Python<'_>, target: &str, config: &str) -> Answer<()> {
    detached(py, || {
        let config: Config =
            serde_json::from_str(config).map_err(|e| Error::invalid("config", e.to_string()))?;
        open::follow(target, &config)
    })
}

/// The Rust core.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::init(module)?;
    exec::install_external();
    exec::install_trtllm();
    module.add_class::<Event>()?;
    module.add_class::<Engine>()?;
    module.add_class::<grammar::Vocabulary>()?;
    module.add_class::<grammar::Grammar>()?;
    module.add_class::<grammar::Matcher>()?;
    module.add_function(wrap_pyfunction!(grammar::fill_bitmasks, module)?)?;
    module.add_function(wrap_pyfunction!(load_config, module)?)?;
    module.add_function(wrap_pyfunction!(print_config, module)?)?;
    module.add_function(wrap_pyfunction!(follow, module)?)?;
    module.add_function(wrap_pyfunction!(quantize, module)?)?;
    module.add_function(wrap_pyfunction!(engine_process, module)?)
}
