//! In place of the engine in a core that is built without Python.

use super::folder::Folder;
use super::pair::{Opened, Pair};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exec::Target;
use crate::request::Lacks;
use std::path::Path;

fn no_python<T>(path: &Path) -> Result<T> {
    let why = format!(
        "{} needs TensorRT-LLM, which is a Python module; build with the feature python",
        path.display()
    );
    Err(Error::invalid("target", why))
}

pub(in crate::exec) fn open(pair: &Pair<'_>, _: &Config) -> Result<Opened> {
    no_python(&pair.target.path)
}

pub(in crate::exec) fn follow(pair: &Pair<'_>, _: &Config, _: u32) -> Result<()> {
    no_python(&pair.target.path)
}

pub(in crate::exec) fn rank(folder: &Folder) -> Result<u32> {
    no_python(&folder.path)
}

/// A model of the Hugging Face format.
pub(in crate::exec) struct Checkpoint<'a> {
    pub(in crate::exec) path: &'a Path,
    pub(in crate::exec) draft: Option<&'a str>,
    pub(in crate::exec) n_vocab: u32,
    pub(in crate::exec) max_seq_len: u32,
}

pub(in crate::exec) fn open_llm(checkpoint: &Checkpoint<'_>, _: &Config) -> Result<(Box<dyn Target>, Lacks)> {
    no_python(checkpoint.path)
}
