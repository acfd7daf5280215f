//! Files that lie in an engine folder of any engine.

use crate::error::{Error, Result};
use crate::types::Token;
use crate::vocab::{Vocab, VocabOptions};
use serde_json::Value;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The end tokens that a generation_config.json names; none where there is no such file.
pub(super) fn end_tokens(path: &Path) -> Result<Vec<Token>> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let ids = match json(path)?.get_mut("eos_token_id").map(Value::take) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(ids)) => ids,
        Some(id) => vec![id],
    };
    let wrong = |_| Error::target(path, "has an eos_token_id that is no token id");
    ids.into_iter().map(|id| serde_json::from_value(id).map_err(wrong)).collect()
}

/// The vocabulary of a folder's tokenizer.json; `tokens`: how many there are.
pub(super) fn vocab_beside(folder: &Path, tokens: u32) -> Result<Arc<Vocab>> {
    let eog = end_tokens(&folder.join("generation_config.json"))?;
    let options = VocabOptions { n_vocab: Some(tokens as usize), eog, ..VocabOptions::default() };
    Vocab::from_tokenizer_json(&read(&folder.join("tokenizer.json"))?, &options)
}

pub(super) fn json(path: &Path) -> Result<Value> {
    serde_json::from_slice(&read(path)?).map_err(|e| Error::target(path, format!("is not valid JSON: {e}")))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Error::target(path, format!("cannot be read: {e}")))
}

/// A hash of a file's length and of blocks spread over it: to read all of a large one would take too long.
pub(super) fn sampled(path: &Path) -> Result<u64> {
    const BLOCKS: u64 = 64;
    const BYTES: u64 = 4096;
    let hash = || {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut hash = DefaultHasher::new();
        hash.write_u64(length);
        let mut block = vec![0; length.min(BYTES) as usize];
        for number in 0..BLOCKS {
            file.read_exact_at(&mut block, length.saturating_sub(BYTES) / (BLOCKS - 1) * number)?;
            hash.write(&block);
        }
        Ok(hash.finish())
    };
    hash().map_err(|e: std::io::Error| Error::target(path, format!("cannot be read: {e}")))
}

#[cfg(test)]
mod tests {
    use super::sampled;

    #[test]
    fn other_weights_have_another_hash() {
        let path = std::env::temp_dir().join(format!("llgtrt-sampled-{}", std::process::id()));
        let hash = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            sampled(&path).unwrap()
        };
        let weights: Vec<u8> = (0..1_000_000u32).map(|i| (i % 251) as u8).collect();
        let other: Vec<u8> = weights.iter().map(|b| b ^ 1).collect();
        assert_eq!(hash(&weights), hash(&weights));
        let all = [hash(&weights), hash(&other), hash(&weights[1..]), hash(&[]), hash(b"short")];
        assert!(all.iter().enumerate().all(|(i, h)| !all[..i].contains(h)), "{all:?}");
        std::fs::remove_file(&path).unwrap();
    }
}
