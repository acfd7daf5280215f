//! Engines that schedule by themselves: vLLM and TensorRT-LLM's LLM API, which serve Hugging Face folders.
//!
//! Such an engine takes a whole request and returns its tokens; it batches, keeps KV, samples, speculates and enforces
//! constraints by itself, in processes of its own. The calls into it stand in `python/llgtrt/engines/`, one small class for
//! each engine with the same methods; `interface` is the border to Python, `request` is what an engine is asked, and `target`
//! turns the tokens that come back into the rounds of a step.
//!
//! A sequence is one request of the engine for its whole life, and a slot is a place for that request: an engine finds by
//! itself what it holds of a prompt. A step waits until one running sequence has new tokens, and returns the others' jobs
//! without any, so no sequence waits for another one's prompt.
//!
//! What calls Python is reached through a table that the Python module fills in when it is imported: test programs, which
//! have no Python in them, are linked without it.

#[cfg(feature = "python")]
mod interface;
#[cfg(feature = "python")]
mod open;
#[cfg(feature = "python")]
mod request;
#[cfg(feature = "python")]
mod target;

use super::Target;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::request::Lacks;
#[cfg(feature = "python")]
pub(crate) use open::install;
use std::path::Path;
use std::sync::OnceLock;

/// A model of the Hugging Face format.
pub(super) struct Checkpoint<'a> {
    pub(super) path: &'a Path,
    /// Another one, that drafts for it.
    pub(super) draft: Option<&'a str>,
    pub(super) n_vocab: u32,
    /// Longest prompt and output.
    pub(super) max_seq_len: u32,
}

/// An engine that has loaded a checkpoint.
pub(super) struct Opened {
    pub(super) target: Box<dyn Target>,
    pub(super) lacks: Lacks,
    /// Name and version, in one line.
    pub(super) summary: String,
}

type Open = fn(&Checkpoint<'_>, &Config) -> Result<Opened>;

/// Set once, when the Python module is imported.
static OPEN: OnceLock<Open> = OnceLock::new();

/// Loads a checkpoint into the engine that the configuration names.
///
/// # Errors
/// `Invalid` of `target` where the engine is not installed or refuses the model; of a setting that it cannot follow.
pub(super) fn open(checkpoint: &Checkpoint<'_>, config: &Config) -> Result<Opened> {
    let open = OPEN.get().ok_or_else(|| {
        let why = format!(
            "{} needs vLLM or TensorRT-LLM, which are Python modules: start the server from Python",
            checkpoint.path.display()
        );
        Error::invalid("target", why)
    })?;
    open(checkpoint, config)
}
