//! One error enum for the whole core. A variant says who must act; Python and HTTP translate it once
//! (`python/llgtrt/openai/errors.py`).

use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// What went wrong, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// The request (or the configuration) is wrong: HTTP 400. `what` is the name of the offending field.
    #[error("{what}: {why}")]
    Invalid {
        /// Name of the field, as the client wrote it.
        what: String,
        /// What is wrong and what to do.
        why: String,
        /// Machine-readable reason, e.g. `context_length_exceeded`.
        code: Option<String>,
    },
    /// The constraint cannot be built, or broke while generating: HTTP 400 before the first byte.
    #[error("{keyword} at {}: {why}", if pointer.is_empty() { "the root" } else { pointer })]
    Grammar {
        /// JSON pointer into the schema; empty for the root and for specs that are not JSON.
        pointer: String,
        /// The schema keyword (or the kind of spec) that cannot be enforced.
        keyword: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// No such thing: HTTP 404.
    #[error("{0}")]
    NotFound(String),
    /// The waiting line is full: HTTP 429.
    #[error("{0}")]
    Overloaded(String),
    /// The engine failed; the request may be sent again: HTTP 500.
    #[error("{0}")]
    Executor(String),
    /// The server is shutting down or not ready: HTTP 503.
    #[error("{0}")]
    Closed(String),
}

/// The core's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A request or configuration error of field `what`.
    pub fn invalid(what: impl Into<String>, why: impl Into<String>) -> Self {
        Error::Invalid { what: what.into(), why: why.into(), code: None }
    }

    /// The same with a machine-readable `code`.
    pub fn invalid_code(what: impl Into<String>, why: impl Into<String>, code: &str) -> Self {
        Error::Invalid { what: what.into(), why: why.into(), code: Some(code.to_owned()) }
    }

    /// The model at `path` cannot be served.
    pub fn target(path: &Path, why: impl Display) -> Self {
        Error::invalid("target", format!("{} {why}", path.display()))
    }

    /// The same of the field `to`, where it is of the field `from`.
    #[must_use]
    pub fn renamed(mut self, from: &str, to: &str) -> Self {
        if let Error::Invalid { what, .. } = &mut self
            && what == from
        {
            to.clone_into(what);
        }
        self
    }

    /// A constraint that cannot be enforced; `pointer` is a JSON pointer into the schema.
    pub fn grammar(pointer: impl Into<String>, keyword: impl Into<String>, why: impl Into<String>) -> Self {
        Error::Grammar { pointer: pointer.into(), keyword: keyword.into(), why: why.into() }
    }
}

/// What `act` gives; a panic becomes the error that `what` failed.
pub fn caught<T>(what: &str, act: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        Err(Error::Executor(format!("{what} failed: {}", panic_text(panic.as_ref()))))
    })
}

/// The message of a caught panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown cause")
}
