//! What a file says of its model, read before the library loads it.

use super::gguf::ffi::Metadata;
use super::heads::{self, Head};
use super::probe;
use crate::error::Error;
use std::iter::once;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Layers that the library takes; with none or more it aborts.
const LAYERS: RangeInclusive<i64> = 1..=512;
/// Tokens of context that a model may claim; the probe needs as many as the first.
const TRAINED: RangeInclusive<i64> = probe::FEWEST_TOKENS as i64..=1 << 30;

/// Architectures of which llama.cpp computes sequences wrongly where several share a pass.
const ALONE: [&str; 1] = ["plamo2"];
/// Architectures with a state of which llama.cpp copies a part only.
const UNCOPIED: [&str; 1] = ["deepseek4"];
/// Architectures for which llama.cpp has no flash attention: V lies there by dimensions, not by cells.
const BY_DIMENSIONS: [&str; 1] = ["grok"];
/// Architectures that llama.cpp computes wrongly: its scores are those of other tokens than were asked for.
const WRONG: [&str; 1] = ["cogvlm"];

/// Facts of a model file that may be loaded.
pub(in crate::exec) struct File {
    /// Most sequences that may run at a time.
    pub(super) sequences: u32,
    /// Sequences can be copied.
    pub(super) copies: bool,
    /// K and V of a cell are rows, so that KV may lie in pages.
    pub(super) by_cells: bool,
    /// Tokens of context that the model was trained for.
    pub(super) trained: u32,
    /// Bytes of each layer, and of the output with what belongs to no layer.
    pub(super) layers: Vec<u64>,
    /// Bytes of all tensors.
    pub(super) bytes: u64,
    /// Numbers in a row of K or V of the layer that has the longest.
    pub(super) kv_row: u64,
    /// Heads of K and V, where the file says so.
    kv_heads: Option<i64>,
    pub(super) arch: String,
    /// It is a head, which drafts for another model.
    pub(super) head: Option<Head>,
    /// Layers for multi-token prediction.
    pub(super) mtp: u32,
}

impl File {
    /// Refuses a model whose heads cannot be split over so many ranks; the library would end the process.
    pub(super) fn check_heads(&self, ranks: usize) -> Result<(), String> {
        let Some(heads) = self.kv_heads.filter(|heads| ranks > 1 && *heads < ranks as i64) else {
            return Ok(());
        };
        let why = "lower parallel.tp_size (or draft_tp_size), or set parallel.split to layer on GPUs";
        Err(format!("has {heads} key and value heads for {ranks} ranks; {why}"))
    }
}

/// What the library would abort on, or accept to its harm, is refused before it loads the file.
///
/// # Errors
/// `Invalid` of the target.
pub(in crate::exec) fn read(gguf: &Path) -> Result<File, Error> {
    facts(gguf).map_err(|why| Error::target(gguf, why))
}

fn facts(gguf: &Path) -> Result<File, String> {
    let meta = std::fs::metadata(gguf).map_err(|e| format!("cannot be read: {e}"))?;
    if !meta.is_file() {
        return Err("is no file".into());
    }
    let file = Metadata::open(gguf).map_err(|why| format!("is no readable GGUF file: {why}"))?;
    if let Some(why) = of_another_kind(gguf, &file) {
        return Err(why);
    }
    let missing = |key: &str| format!("is damaged: {key} is missing or of a wrong type");
    let arch = file.string("general.architecture").ok_or_else(|| missing("general.architecture"))?;
    let is = |names: &[&str]| names.contains(&arch.as_str());
    if let Some(why) = heads::unusable(&arch) {
        return Err(why);
    }
    if is(&WRONG) {
        return Err(format!("is of the architecture {arch}, which llama.cpp computes wrongly"));
    }
    let number = |name: &str| file.integer(&format!("{arch}.{name}")).ok_or_else(|| missing(name));
    let (layers, trained) = (number("block_count")?, number("context_length")?);
    if !LAYERS.contains(&layers) {
        return Err(format!("is damaged: it claims {layers} layers"));
    }
    let tensors = tensors(gguf, &file);
    let mtp = heads::mtp_layers(&file, &arch, &tensors);
    let head = Head::read((gguf, &file), &arch, &tensors, mtp);
    if matches!(head, Some(Head::Eagle3(_))) && layers != 1 {
        return Err(format!("is damaged: it claims {layers} layers, and a head of its kind has one"));
    }
    if !TRAINED.contains(&trained) {
        return Err(format!("is damaged: it claims a context of {trained} tokens"));
    }
    Ok(File {
        sequences: if is(&ALONE) { 1 } else { u32::MAX },
        copies: !is(&UNCOPIED),
        by_cells: !is(&BY_DIMENSIONS),
        trained: trained as u32,
        layers: layer_bytes(&tensors, layers as usize),
        bytes: tensors.iter().map(|(_, bytes)| bytes).sum(),
        kv_row: kv_row(&file, &arch),
        kv_heads: file.integer(&format!("{arch}.attention.head_count_kv")),
        arch,
        head,
        mtp,
    })
}

/// Names and bytes of all tensors. What is wrong with a further piece, the library says when it loads the model.
fn tensors(gguf: &Path, file: &Metadata) -> Vec<(String, u64)> {
    let others = pieces(gguf).into_iter().filter_map(|piece| Metadata::open(&piece).ok());
    once(file.tensors()).chain(others.map(|file| file.tensors())).flatten().collect()
}

/// What else than a model's first file a GGUF may be, and what to give in its place.
fn of_another_kind(gguf: &Path, file: &Metadata) -> Option<String> {
    let kind = file.string("general.type").unwrap_or_default();
    if kind == "adapter" {
        return Some("is an adapter (LoRA): merge it into its model, and give that file".into());
    }
    if kind == "mmproj" || file.string("general.architecture").as_deref() == Some("clip") {
        return Some("is the part of a model that reads images: give the language model's file".into());
    }
    let (stem, number, count) = numbered(gguf)?;
    (number != "00001").then(|| {
        format!("is a later piece of a model: give {stem}-00001-of-{count}.gguf, with all pieces beside it")
    })
}

/// The parts of a name as `name-00001-of-00003.gguf`.
fn numbered(gguf: &Path) -> Option<(&str, &str, &str)> {
    let (stem, count) = gguf.file_name()?.to_str()?.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = stem.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(number) && is_number(count)).then_some((stem, number, count))
}

/// Bytes of so many layers and, last, of what is computed after them. Embeddings stay in the machine's memory; where they
/// are the output's weights too, a GPU has a copy.
fn layer_bytes(tensors: &[(String, u64)], count: usize) -> Vec<u64> {
    let mut layers = vec![0; count + 1];
    let tied = !tensors.iter().any(|(name, _)| name == "output.weight");
    for (name, bytes) in tensors {
        let block = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
        match block {
            Some(block) if block < count => layers[block] += bytes,
            _ if name.starts_with("token_embd") && !tied => {}
            _ => layers[count] += bytes,
        }
    }
    layers
}

/// Heads of KV times their length; the embedding's, which is hardly ever exceeded, where the file does not say.
fn kv_row(file: &Metadata, arch: &str) -> u64 {
    let number = |name: &str| file.largest(&format!("{arch}.{name}"));
    let embedding = number("embedding_length").unwrap_or(1);
    let heads = number("attention.head_count").unwrap_or(1);
    let kv_heads = number("attention.head_count_kv").unwrap_or(heads);
    let lengths = ["key_length", "value_length", "key_length_swa", "value_length_swa"];
    let longest = lengths.into_iter().filter_map(|name| number(&format!("attention.{name}"))).max();
    let length = longest.or_else(|| embedding.checked_div(heads));
    let row = length.and_then(|length| length.checked_mul(kv_heads));
    row.filter(|row| *row > 0).unwrap_or(embedding)
}

/// The further files of a model in several, of which this is the first.
fn pieces(gguf: &Path) -> Vec<PathBuf> {
    let Some((stem, "00001", count)) = numbered(gguf) else { return Vec::new() };
    let pieces = count.parse::<u32>().unwrap_or(1);
    (2..=pieces).map(|i| gguf.with_file_name(format!("{stem}-{i:05}-of-{count}.gguf"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_where_they_lie() {
        let tensors =
            |names: &[(&str, u64)]| Vec::from_iter(names.iter().map(|(n, b)| ((*n).to_owned(), *b)));
        let mut all = tensors(&[
            ("token_embd.weight", 100),
            ("blk.0.attn_q.weight", 1),
            ("blk.0.ffn_up.weight", 2),
            ("blk.1.attn_q.weight", 4),
            ("output_norm.weight", 8),
            ("output.weight", 16),
        ]);
        assert_eq!(layer_bytes(&all, 2), [3, 4, 24]);
        all.pop();
        assert_eq!(layer_bytes(&all, 2), [3, 4, 108], "tied");
    }

    #[test]
    fn further_pieces_are_found_by_name() {
        let found = pieces(Path::new("models/a-00001-of-00003.gguf"));
        let names = ["models/a-00002-of-00003.gguf", "models/a-00003-of-00003.gguf"];
        assert_eq!(found, names.map(PathBuf::from));
        for other in ["model.gguf", "a-00002-of-00003.gguf", "a-00001-of-9999999.gguf"] {
            assert!(pieces(Path::new(other)).is_empty(), "{other}");
        }
    }
}
