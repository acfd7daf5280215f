//! The core's errors as Python exceptions.

use crate::error::Error;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

/// The exception classes. `class` makes them by calling `type`, since two of them have two bases.
struct Classes {
    base: Py<PyType>,
    invalid: Py<PyType>,
    grammar: Py<PyType>,
    not_found: Py<PyType>,
    overloaded: Py<PyType>,
    engine: Py<PyType>,
    closed: Py<PyType>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

impl Classes {
    fn get(py: Python<'_>) -> PyResult<&Classes> {
        CLASSES.get_or_try_init(py, || Classes::new(py))
    }

    fn new(py: Python<'_>) -> PyResult<Classes> {
        let exception = py.get_type::<PyException>();
        let value = py.get_type::<PyValueError>();
        let base = class(py, "CoreError", "An error of the core.", &[&exception], &[])?;
        let sub = |name, doc| class(py, name, doc, &[&base], &[]).map(Bound::unbind);
        let invalid = class(
            py,
            "InvalidRequest",
            "The request or the configuration is wrong.",
            &[&base, &value],
            &["what", "why", "code"],
        )?;
        let grammar = class(
            py,
            "GrammarError",
            "The constraint cannot be enforced.",
            &[&base, &value],
            &["pointer", "keyword", "why"],
        )?;
        Ok(Classes {
            invalid: invalid.unbind(),
            grammar: grammar.unbind(),
            not_found: sub("NotFound", "No such thing.")?,
            overloaded: sub("Overloaded", "The waiting line is full.")?,
            engine: sub("EngineError", "The engine failed; the request may be sent again.")?,
            closed: sub("EngineClosed", "The engine is closed or not ready.")?,
            base: base.unbind(),
        })
    }

    fn all(&self) -> [&Py<PyType>; 7] {
        [
            &self.base,
            &self.invalid,
            &self.grammar,
            &self.not_found,
            &self.overloaded,
            &self.engine,
            &self.closed,
        ]
    }
}

/// A new exception class; its `attributes` are empty on an instance that was made in Python.
fn class<'py>(
    py: Python<'py>,
    name: &str,
    doc: &str,
    bases: &[&Bound<'py, PyType>],
    attributes: &[&str],
) -> PyResult<Bound<'py, PyType>> {
    let dict = PyDict::new(py);
    dict.set_item("__module__", "llgtrt._core")?;
    dict.set_item("__doc__", doc)?;
    for attribute in attributes {
        if *attribute == "code" {
            dict.set_item(attribute, py.None())?;
        } else {
            dict.set_item(attribute, "")?;
        }
    }
    let class = py.get_type::<PyType>().call1((name, PyTuple::new(py, bases.iter().copied())?, dict))?;
    Ok(class.cast_into()?)
}

/// Adds the exception classes to the module.
pub(super) fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for class in Classes::get(py)?.all() {
        let class = class.bind(py);
        module.add(class.name()?, class)?;
    }
    Ok(())
}

/// The exception for an error, with its fields as attributes.
pub(super) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let classes = Classes::get(py)?;
    let make = |class: &Py<PyType>| class.bind(py).call1((error.to_string(),));
    match error {
        Error::Invalid { what, why, code } => {
            let exception = make(&classes.invalid)?;
            exception.setattr("what", what)?;
            exception.setattr("why", why)?;
            exception.setattr("code", code)?;
            Ok(exception)
        }
        Error::Grammar { pointer, keyword, why } => {
            let exception = make(&classes.grammar)?;
            exception.setattr("pointer", pointer)?;
            exception.setattr("keyword", keyword)?;
            exception.setattr("why", why)?;
            Ok(exception)
        }
        Error::NotFound(_) => make(&classes.not_found),
        Error::Overloaded(_) => make(&classes.overloaded),
        Error::Executor(_) => make(&classes.engine),
        Error::Closed(_) => make(&classes.closed),
    }
}

/// An error that becomes an exception.
#[derive(Debug)]
pub(super) struct Raised(Error);

/// What Python gets: a value or an exception.
pub(super) type Answer<T> = Result<T, Raised>;

/// Runs `act` without the GIL.
pub(super) fn detached<T: Send>(py: Python<'_>, act: impl FnOnce() -> Result<T, Error> + Send) -> Answer<T> {
    py.detach(act).map_err(Raised)
}

impl From<Error> for Raised {
    fn from(error: Error) -> Self {
        Raised(error)
    }
}

impl From<Raised> for PyErr {
    fn from(Raised(error): Raised) -> PyErr {
        Python::attach(|py| exception(py, &error).map_or_else(|failure| failure, PyErr::from_value))
    }
}
