//! What a constraint accepts, told to those who write one. It is compiled as a request's would be, apart from the engine.

use super::json;
use crate::config::{Config, GrammarConfig};
use crate::error::{Error, Result};
use crate::grammar::{Compiled, Compiler, GrammarSpec};
use crate::types::Narrowed;
use crate::vocab::Vocab;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Compiles constraints, with threads, budgets and a cache of its own.
pub(super) struct Checker {
    config: GrammarConfig,
    running: usize,
    compiler: Mutex<Option<Compiler>>,
}

/// What is told of a constraint that can be enforced.
#[derive(serde::Serialize)]
struct Report {
    compile_ms: f64,
    /// Of the first mask, which is part of admission.
    mask_ms: f64,
    narrowed: Vec<Narrowed>,
    /// The text is an output; none where there is no text.
    matches: Option<bool>,
    /// Tokens that an output takes at least; None where that cannot be told.
    min_tokens: Option<usize>,
    /// Characters of the text that can begin an output.
    matched: Option<usize>,
    /// The grammar in Lark, where that is asked for and can say it.
    lark: Option<String>,
}

impl Checker {
    pub(super) fn new(config: &Config) -> Self {
        let running = config.max_batch_size as usize;
        Checker { config: config.grammar.clone(), running, compiler: Mutex::new(None) }
    }

    /// Compiles the constraint, and walks a text over it: a report in JSON, with the grammar if it is to be shown.
    pub(super) fn check(
        &self,
        vocab: &Arc<Vocab>,
        spec: &str,
        text: Option<&str>,
        shows: bool,
    ) -> Result<String> {
        let spec = serde_json::from_str(spec).map_err(|e| Error::invalid("grammar", e.to_string()))?;
        let begun = Instant::now();
        let compiled = self.compile(vocab, &spec)?;
        let compile_ms = milliseconds(begun);
        let mut grammar = compiled.begin();
        let masked = Instant::now();
        grammar.mask()?;
        let mask_ms = milliseconds(masked);
        let until = Instant::now() + Duration::from_secs_f64(self.config.compile_seconds);
        let walk = text.map(|text| Ok((text, grammar.walk(vocab, text, until)?))).transpose()?;
        let matches = walk.as_ref().map(|(text, walk)| walk.bytes == text.len() && walk.may_end);
        let matched = walk.map(|(text, walk)| characters(text, walk.bytes));
        let (narrowed, min_tokens) = (compiled.narrowed().to_vec(), compiled.least());
        let lark = shows.then(|| compiled.lark()).flatten();
        json(&Report { compile_ms, mask_ms, narrowed, matches, min_tokens, matched, lark })
    }

    fn compile(&self, vocab: &Arc<Vocab>, spec: &GrammarSpec) -> Result<Compiled> {
        let handle = {
            let mut slot = self.compiler.lock().unwrap_or_else(PoisonError::into_inner);
            let compiler = match slot.take() {
                Some(compiler) => compiler,
                None => Compiler::new(Arc::clone(vocab), &self.config, self.running, Arc::new(|| {}))?,
            };
            let handle = compiler.compile(spec, 0);
            // What it has counted is nobody's.
            drop(compiler.stats());
            *slot = Some(compiler);
            handle
        };
        handle.wait()
    }
}

/// Whole characters in the first bytes.
fn characters(text: &str, bytes: usize) -> usize {
    text.char_indices().take_while(|(at, c)| at + c.len_utf8() <= bytes).count()
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
