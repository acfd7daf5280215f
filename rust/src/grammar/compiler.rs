//! Worker threads and a cache: spec to grammar, polled, never waited for.

use super::{Grammar, GrammarSpec};
use crate::config::GrammarConfig;
use crate::error::Result;
use crate::vocab::Vocab;
use std::sync::Arc;

/// Compiles grammars off the engine thread.
#[derive(Debug)]
pub struct Compiler {}

impl Compiler {
    /// Starts the workers; `wake` is called from a worker whenever a compilation ends.
    ///
    /// # Errors
    /// Where the vocabulary does not suit llguidance.
    pub fn new(_vocab: Arc<Vocab>, _config: &GrammarConfig, _wake: Arc<dyn Fn() + Send + Sync>) -> Result<Self> {
        unimplemented!()
    }

    /// Queues a spec; `client` is the API key's number, for fairness.
    pub fn compile(&self, _spec: &GrammarSpec, _client: u64) -> CompileHandle {
        unimplemented!()
    }
}

/// A compilation under way; dropping it gives it up.
#[derive(Debug)]
pub struct CompileHandle {}

impl CompileHandle {
    /// The grammar at its beginning, or why it can't be enforced; None while it is being compiled.
    pub fn poll(&mut self) -> Option<Result<Grammar>> {
        unimplemented!()
    }
}
