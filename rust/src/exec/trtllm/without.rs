//! In place of the engine in a core that is built without Python.

use super::folder::Folder;
use super::pair::{Opened, Pair};
use crate::config::Config;
use crate::error::{Error, Result};

fn no_python<T>(folder: &Folder) -> Result<T> {
    let why = format!(
        "{} needs TensorRT-LLM, which is a Python module; build with the feature python",
        folder.path.display()
    );
    Err(Error::invalid("target", why))
}

pub(in crate::exec) fn open(pair: &Pair<'_>, _: &Config) -> Result<Opened> {
    no_python(pair.target)
}

pub(in crate::exec) fn follow(pair: &Pair<'_>, _: &Config, _: u32) -> Result<()> {
    no_python(pair.target)
}

pub(in crate::exec) fn rank(folder: &Folder) -> Result<u32> {
    no_python(folder)
}
