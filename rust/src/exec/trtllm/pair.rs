//! What is opened together, and by whom.
//!
//! What calls Python is reached through a table that the Python module fills in when it is imported: test programs, which
//! have no Python in them, are linked without it.

use super::folder::Folder;
use crate::config::{Config, DraftSource};
use crate::error::{Error, Result};
use crate::exec::{Drafter, Target};
use crate::request::Lacks;
use std::path::Path;
use std::sync::OnceLock;

/// A target, and a draft model where there is one.
pub(in crate::exec) struct Pair<'a> {
    pub(in crate::exec) target: &'a Folder,
    /// With its own configuration.
    pub(in crate::exec) draft: Option<(&'a Folder, &'a Config)>,
}

/// What was opened.
pub(in crate::exec) struct Opened {
    pub(in crate::exec) target: Box<dyn Target>,
    pub(in crate::exec) drafter: Option<Box<dyn Drafter>>,
    pub(in crate::exec) lacks: Lacks,
}

/// The sources that are asked: without a draft model those that were named. Of an executor that draws by itself the answers
/// depend on drafts, so nothing is drafted by what other texts were, unless that is named.
pub(in crate::exec) fn sources(pair: &Pair<'_>, config: &Config) -> Vec<DraftSource> {
    let named = config.speculative.sources.is_some() || pair.draft.is_some();
    let sources = if named && pair.target.takes_drafts() { config.speculative.sources() } else { Vec::new() };
    let is_here = |source: &DraftSource| match source {
        DraftSource::MlpSpeculator => false,
        DraftSource::Grammar => config.speculative.sources.is_some(),
        _ => true,
    };
    sources.into_iter().filter(is_here).collect()
}

/// What Python does.
pub(super) struct Backend {
    pub(super) open: fn(&Pair<'_>, &Config) -> Result<Opened>,
    pub(super) follow: fn(&Pair<'_>, &Config, u32) -> Result<()>,
    pub(super) rank: fn(&Folder) -> Result<u32>,
}

/// Set once, when the Python module is imported.
pub(super) static BACKEND: OnceLock<Backend> = OnceLock::new();

fn backend(path: &Path) -> Result<&'static Backend> {
    BACKEND.get().ok_or_else(|| {
        let why = format!(
            "{} needs TensorRT-LLM, which is a Python module: start the server from Python",
            path.display()
        );
        Error::invalid("target", why)
    })
}

/// Loads both engines in this process, which leads or is alone.
///
/// # Errors
/// `Invalid` of `target` or `draft` where TensorRT-LLM is missing or refuses an engine.
pub(in crate::exec) fn open(pair: &Pair<'_>, config: &Config) -> Result<Opened> {
    (backend(&pair.target.path)?.open)(pair, config)
}

/// Loads what this rank, which does not lead, computes, and computes until the leader ends.
///
/// # Errors
/// As [`open`].
pub(in crate::exec) fn follow(pair: &Pair<'_>, config: &Config, rank: u32) -> Result<()> {
    (backend(&pair.target.path)?.follow)(pair, config, rank)
}

/// This process among those of an MPI job.
///
/// # Errors
/// As [`open`].
pub(in crate::exec) fn rank(folder: &Folder) -> Result<u32> {
    (backend(&folder.path)?.rank)(folder)
}
