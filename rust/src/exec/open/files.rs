//! Files that lie in an engine folder of any engine.

use crate::error::{Error, Result};
use crate::types::Token;
use crate::vocab::{Vocab, VocabOptions};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// The end tokens that a generation_config.json names; none where there is no such file.
pub(super) fn end_tokens(path: &Path) -> Result<Vec<Token>> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let json: serde_json::Value =
        serde_json::from_slice(&read(path)?).map_err(|e| broken(path, &format!("is not valid JSON: {e}")))?;
    let ids = match json.get("eos_token_id") {
        None | Some(serde_json::Value::Null) => return Ok(Vec::new()),
        Some(serde_json::Value::Array(ids)) => ids.clone(),
        Some(id) => vec![id.clone()],
    };
    let id = |v: &serde_json::Value| v.as_u64().and_then(|n| Token::try_from(n).ok());
    ids.iter().map(|v| id(v).ok_or_else(|| broken(path, "has an eos_token_id that is no token id"))).collect()
}

/// The vocabulary of a folder's tokenizer.json; `tokens`: how many there are.
pub(super) fn vocab_beside(folder: &Path, tokens: u32) -> Result<Arc<Vocab>> {
    let options = VocabOptions {
        n_vocab: Some(tokens as usize),
        eog: end_tokens(&folder.join("generation_config.json"))?,
        ..VocabOptions::default()
    };
    Vocab::from_tokenizer_json(&read(&folder.join("tokenizer.json"))?, &options)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| broken(path, &format!("cannot be read: {e}")))
}

pub(super) fn broken(path: &Path, why: &str) -> Error {
    Error::invalid("target", format!("{} {why}", path.display()))
}

/// Blocks of a file that are sampled, and their bytes.
const SAMPLES: (u64, u64) = (64, 4096);

/// A hash (FNV-1a) of a file's length and of blocks spread over it: to read all of a large one would take too long.
pub(super) fn sampled(path: &Path) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut take = |bytes: &[u8]| {
        bytes.iter().for_each(|b| hash = (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    };
    take(&length.to_le_bytes());
    let (count, size) = SAMPLES;
    let mut block = Vec::new();
    for number in 0..count {
        file.seek(SeekFrom::Start(length.saturating_sub(size) / (count - 1) * number))?;
        block.clear();
        Read::by_ref(&mut file).take(size).read_to_end(&mut block)?;
        take(&block);
    }
    Ok(hash)
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
