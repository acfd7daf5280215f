//! The vocabulary tables of a GGUF file. No weights are read.

mod ffi;
pub mod quantize;

use crate::error::{Error, Result};
use crate::vocab::GgufTables;
pub(super) use ffi::Metadata;
use std::path::Path;

/// Keys `tokenizer.ggml.<name>_token_id`, and the older ones of fill-in-the-middle tokens.
const IDS: [&str; 13] = [
    "bos", "eos", "eot", "eom", "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep", "prefix",
    "suffix", "middle",
];

/// Reads the vocabulary tables.
///
/// # Errors
/// `Invalid` of "model.gguf" where the file is missing, damaged, or has no vocabulary.
pub fn read_tables(path: &Path) -> Result<GgufTables> {
    let file = Metadata::open(path)
        .map_err(|why| invalid(format!("{}: cannot be read as GGUF: {why}", path.display())))?;
    let id = |key: String| file.integer(&key).and_then(|id| u32::try_from(id).ok());
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let without = |what: &str| invalid(format!("{}: has no readable {what}", path.display()));
    let optional = |found: bool, name: &str| {
        // A table that is there with another type is damage, not absence.
        if found || !file.has(&key(name)) { Ok(()) } else { Err(without(&key(name))) }
    };
    let types = file.i32s(&key("token_type"));
    optional(types.is_some(), "token_type")?;
    let merges = file.strings(&key("merges"));
    optional(merges.is_some(), "merges")?;
    let scores = file
        .f32s(&key("scores"))
        .or_else(|| Some(file.i32s(&key("scores"))?.into_iter().map(|score| score as f32).collect()));
    optional(scores.is_some(), "scores")?;
    let ids = IDS.iter().filter_map(|name| Some(((*name).to_owned(), id(key(&format!("{name}_token_id")))?)));
    Ok(GgufTables {
        model: file.string(&key("model")).ok_or_else(|| without("tokenizer.ggml.model"))?,
        pre: file.string(&key("pre")).unwrap_or_default(),
        name: file.string("general.name").unwrap_or_default(),
        tokens: file.strings(&key("tokens")).ok_or_else(|| without("tokenizer.ggml.tokens"))?,
        types: types.unwrap_or_default(),
        scores: scores.unwrap_or_default(),
        merges: merges.unwrap_or_default(),
        ids: ids.collect(),
        add_bos_token: file.boolean(&key("add_bos_token")),
        add_space_prefix: file.boolean(&key("add_space_prefix")),
    })
}

fn invalid(why: String) -> Error {
    Error::invalid("model.gguf", why)
}
