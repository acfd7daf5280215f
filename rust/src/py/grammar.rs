//! `llgtrt.grammar`: constraints for other engines.

use super::errors::{Answer, Raised, detached};
use super::ffi::Rows;
use crate::config;
use crate::error::{Error, Result};
use crate::exec::open;
use crate::grammar::{self, Compiled, Compiler, GrammarSpec};
use crate::types::Token;
use crate::vocab::{TextEncoder, Vocab, VocabOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of what [`Grammar::serialize`] writes.
const FORMAT: u32 = 1;

/// A vocabulary, and a compiler with a cache.
#[pyclass(frozen, module = "llgtrt._core")]
pub(super) struct Vocabulary {
    vocab: Arc<Vocab>,
    compiler: Mutex<Compiler>,
    hash: String,
}

/// A serialized constraint. Its tables are made anew when it is read.
#[derive(Serialize, Deserialize)]
struct Written {
    llgtrt_grammar: u32,
    vocabulary: String,
    spec: String,
}

impl Vocabulary {
    fn new(vocab: Arc<Vocab>, settings: &str) -> Result<Self> {
        let config = config::load(None, settings)?.grammar;
        let compiler = Compiler::new(Arc::clone(&vocab), &config, 1, Arc::new(|| {}))?;
        let hash = format!("{:016x}", vocab.digest());
        Ok(Vocabulary { vocab, compiler: Mutex::new(compiler), hash })
    }

    fn made(&self, spec: &str) -> Result<Grammar> {
        let mut json = serde_json::Deserializer::from_str(spec);
        let parsed: GrammarSpec = serde_path_to_error::deserialize(&mut json).map_err(|e| {
            let path = e.path().to_string();
            Error::invalid(path.trim_start_matches("styled.style."), e.inner().to_string())
        })?;
        let handle = {
            let compiler = locked(&self.compiler);
            // What it has counted is nobody's.
            drop(compiler.stats());
            compiler.compile(&parsed, 0)
        };
        Ok(Grammar { compiled: handle.wait()?, spec: spec.to_owned(), hash: self.hash.clone() })
    }
}

#[pymethods]
impl Vocabulary {
    /// From the text of a tokenizer.json.
    #[staticmethod]
    fn from_tokenizer_json(
        py: Python<'_>,
        text: &[u8],
        eos: Vec<Token>,
        size: Option<usize>,
        settings: &str,
    ) -> Answer<Self> {
        detached(py, || {
            let options = VocabOptions { n_vocab: size, eog: eos, ..VocabOptions::default() };
            Self::new(Vocab::from_tokenizer_json(text, &options)?, settings)
        })
    }

    /// From a GGUF file.
    #[staticmethod]
    fn from_gguf(py: Python<'_>, path: &str, settings: &str) -> Answer<Self> {
        detached(py, || Self::new(open::open_vocab(path)?, settings))
    }

    /// From the bytes of each token.
    #[staticmethod]
    #[pyo3(signature = (tokens, eos_and_special, encode, settings))]
    fn from_tokens(
        py: Python<'_>,
        tokens: Vec<Option<Vec<u8>>>,
        eos_and_special: (Vec<Token>, Vec<Token>),
        encode: Option<Py<PyAny>>,
        settings: &str,
    ) -> Answer<Self> {
        detached(py, || {
            let encode = encode.map(|encode| -> TextEncoder {
                Box::new(move |text| {
                    let ids: PyResult<_> = Python::attach(|py| encode.call1(py, (text,))?.extract(py));
                    ids.map_err(|e| e.to_string())
                })
            });
            let (eos, special) = eos_and_special;
            let options = VocabOptions { eog: eos, ..VocabOptions::default() };
            Self::new(Vocab::from_tokens(tokens, &special, encode, &options)?, settings)
        })
    }

    #[getter]
    fn size(&self) -> usize {
        self.vocab.len()
    }

    #[getter]
    fn eos(&self) -> Vec<Token> {
        self.vocab.eog().to_vec()
    }

    #[getter]
    fn hash(&self) -> &str {
        &self.hash
    }

    fn encode(&self, py: Python<'_>, text: &str) -> Answer<Vec<Token>> {
        detached(py, || self.vocab.encode(&[(text, false)]))
    }

    fn token_bytes<'py>(&self, py: Python<'py>, token: Token) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.vocab.bytes(token))
    }

    /// Compiles a constraint, the JSON of `grammar::GrammarSpec`.
    fn compile(&self, py: Python<'_>, spec: &str) -> Answer<Grammar> {
        detached(py, || self.made(spec))
    }

    /// Compiles what `Grammar.serialize` wrote.
    fn deserialize(&self, py: Python<'_>, data: &[u8]) -> Answer<Grammar> {
        detached(py, || {
            let refuse = |why: String| Error::invalid("data", why);
            let written: Written = serde_json::from_slice(data)
                .map_err(|e| refuse(format!("is no serialized grammar ({e})")))?;
            if written.llgtrt_grammar != FORMAT {
                let why = format!("has the format {}, not {FORMAT}: compile it anew", written.llgtrt_grammar);
                return Err(refuse(why));
            }
            if written.vocabulary != self.hash {
                return Err(refuse("was compiled for another vocabulary: compile it for this one".into()));
            }
            self.made(&written.spec)
        })
    }
}

/// A compiled constraint.
#[pyclass(frozen, module = "llgtrt._core")]
pub(super) struct Grammar {
    compiled: Compiled,
    spec: String,
    hash: String,
}

#[pymethods]
impl Grammar {
    #[pyo3(signature = (max_tokens=None))]
    fn matcher(&self, py: Python<'_>, max_tokens: Option<u32>) -> Answer<Matcher> {
        detached(py, || Ok(Matcher(Arc::new(Mutex::new(grammar::Matcher::new(&self.compiled, max_tokens)?)))))
    }

    #[getter]
    fn report(&self) -> Vec<(String, String, String)> {
        let narrowed = self.compiled.narrowed().iter().cloned();
        narrowed.map(|place| (place.pointer, place.keyword, place.reason)).collect()
    }

    #[getter]
    fn min_tokens(&self, py: Python<'_>) -> Option<usize> {
        py.detach(|| self.compiled.least())
    }

    fn serialize<'py>(&self, py: Python<'py>) -> Answer<Bound<'py, PyBytes>> {
        let (vocabulary, spec) = (self.hash.clone(), self.spec.clone());
        let written = Written { llgtrt_grammar: FORMAT, vocabulary, spec };
        Ok(PyBytes::new(py, super::json(&written)?.as_bytes()))
    }
}

/// The state of one output.
#[pyclass(frozen, module = "llgtrt._core")]
pub(super) struct Matcher(Arc<Mutex<grammar::Matcher>>);

impl Matcher {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut grammar::Matcher) -> Result<T> + Send,
    ) -> Answer<T> {
        detached(py, || act(&mut locked(&self.0)))
    }
}

#[pymethods]
impl Matcher {
    fn accept(&self, py: Python<'_>, tokens: Vec<Token>) -> Answer<bool> {
        self.with(py, |matcher| matcher.accept(&tokens))
    }

    fn validate(&self, py: Python<'_>, tokens: Vec<Token>) -> Answer<usize> {
        self.with(py, |matcher| matcher.validate(&tokens))
    }

    fn rollback(&self, py: Python<'_>, n: usize) -> Answer<()> {
        self.with(py, |matcher| matcher.rollback(n))
    }

    fn fill_bitmask(&self, py: Python<'_>, row: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut rows = Rows::of(row)?;
        match &mut rows.slices()[..] {
            [row] => Ok(self.with(py, |matcher| matcher.fill(row))?),
            rows => Err(PyValueError::new_err(format!("the mask has {} rows; give one", rows.len()))),
        }
    }

    fn forced(&self, py: Python<'_>) -> Answer<Vec<Token>> {
        self.with(py, grammar::Matcher::forced)
    }

    fn is_terminated(&self, py: Python<'_>) -> Answer<bool> {
        self.with(py, |matcher| Ok(matcher.is_terminated()))
    }

    fn is_complete(&self, py: Python<'_>) -> Answer<bool> {
        self.with(py, |matcher| Ok(matcher.is_complete()))
    }

    fn may_end(&self, py: Python<'_>) -> Answer<bool> {
        self.with(py, |matcher| Ok(matcher.may_end()))
    }

    #[getter]
    fn tokens(&self, py: Python<'_>) -> Answer<Vec<Token>> {
        self.with(py, |matcher| Ok(matcher.tokens().to_vec()))
    }

    fn reset(&self, py: Python<'_>) -> Answer<()> {
        self.with(py, |matcher| {
            matcher.reset();
            Ok(())
        })
    }

    fn copy(&self, py: Python<'_>) -> Answer<Self> {
        self.with(py, |matcher| Ok(Matcher(Arc::new(Mutex::new(matcher.copy())))))
    }
}

/// Fills the row of each matcher, on several threads.
#[pyfunction]
#[pyo3(signature = (matchers, array, rows=None))]
pub(super) fn fill_bitmasks(
    py: Python<'_>,
    matchers: Vec<PyRef<'_, Matcher>>,
    array: &Bound<'_, PyAny>,
    rows: Option<Vec<usize>>,
) -> PyResult<()> {
    let mut lent = Rows::of(array)?;
    let mut slices: Vec<_> = lent.slices().into_iter().map(Some).collect();
    let (count, rows) = (slices.len(), rows.unwrap_or_else(|| (0..matchers.len()).collect()));
    if rows.len() != matchers.len() {
        let why = format!("there are {} matchers, but {} rows", matchers.len(), rows.len());
        return Err(PyValueError::new_err(why));
    }
    let mut work = Vec::with_capacity(rows.len());
    for (matcher, row) in matchers.iter().zip(rows) {
        let Some(slice) = slices.get_mut(row).and_then(Option::take) else {
            let why = format!("row {row} is named twice, or the array, which has {count}, lacks it");
            return Err(PyValueError::new_err(why));
        };
        work.push((Arc::clone(&matcher.0), slice));
    }
    let done = |(matcher, slice): (Arc<Mutex<grammar::Matcher>>, &mut [u32])| locked(&matcher).fill(slice);
    let outcomes: Vec<Result<()>> = py.detach(|| match work.len() {
        // The threads would take longer to wake up than one mask takes.
        0..=2 => work.into_iter().map(done).collect(),
        _ => work.into_par_iter().map(done).collect(),
    });
    Ok(outcomes.into_iter().collect::<Result<()>>().map_err(Raised::from)?)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
