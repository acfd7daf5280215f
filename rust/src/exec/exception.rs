//! Exceptions of the Python modules that engines are called through, as errors.

use crate::error::Error;
use pyo3::prelude::*;
use std::path::Path;

/// An exception as one line.
pub(super) fn text(error: &PyErr) -> String {
    let whole = Python::attach(|py| error.value(py).str().map(|text| text.to_string()));
    whole.unwrap_or_else(|_| error.to_string()).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `Invalid` of `what` ("target" or "draft"): why the model in `folder` cannot be served.
pub(super) fn refusal(what: &str, folder: &Path, error: &PyErr) -> Error {
    Error::invalid(what, format!("{}: {}", folder.display(), text(error)))
}
