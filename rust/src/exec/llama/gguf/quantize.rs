//! A GGUF file with its weights in another format.

use super::ffi;
use crate::error::{Error, Result};
use std::path::Path;

/// Writes the model of `source`, whose weights are F32, F16 or BF16, to `target` with its matrices as `qformat`. Rows whose
/// length the format's blocks don't divide get the library's next best format.
///
/// # Errors
/// `Invalid` naming "qformat" for an unknown one, or "source" where there is no readable model; `Executor` with the
/// library's reason where it fails. What `target` holds then is of no use.
pub fn quantize(source: &str, target: &str, qformat: &str) -> Result<()> {
    let names = || ffi::QFORMATS.map(|(name, _)| name).join(", ");
    let kind = ffi::QFORMATS.iter().find(|(name, _)| *name == qformat);
    let (_, kind) = kind.ok_or_else(|| {
        Error::invalid("qformat", format!("{qformat} is not known; must be one of {}", names()))
    })?;
    let (source, target) = (Path::new(source), Path::new(target));
    crate::exec::llama::file::read(source).map_err(|error| match error {
        Error::Invalid { why, code, .. } => Error::Invalid { what: "source".into(), why, code },
        other => other,
    })?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    ffi::quantize(source, target, *kind, i32::try_from(threads).unwrap_or(1))
        .map_err(|why| Error::Executor(format!("{} cannot be quantised: {why}", source.display())))
}
