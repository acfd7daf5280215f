//! What is opened together.

use super::folder::Folder;
use crate::config::{Config, DraftSource};
use crate::exec::{Drafter, Target};
use crate::request::Lacks;

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

/// The sources that are asked: without a draft model those that were named.
pub(in crate::exec) fn sources(pair: &Pair<'_>, config: &Config) -> Vec<DraftSource> {
    let named = config.speculative.sources.is_some() || pair.draft.is_some();
    let sources = if named && pair.target.takes_drafts() { config.speculative.sources() } else { Vec::new() };
    sources.into_iter().filter(|source| *source != DraftSource::MlpSpeculator).collect()
}
