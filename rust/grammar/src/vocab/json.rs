//! A Hugging Face `tokenizer.json`.

use super::added::AddedToken;
use super::encoder::Model;
use super::{Loaded, Word, bytes};
use crate::error::{Error, Result};
use crate::types::Token;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use tokenizers::Tokenizer;

/// More ids than any model has; guards against a file that asks for all memory.
const MOST_IDS: usize = 1 << 22;

#[derive(Deserialize)]
struct Added {
    id: Token,
    content: String,
    #[serde(default)]
    special: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    single_word: bool,
}

/// How the file's model writes bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    ByteLevel,
    ByteFallback,
}

fn damaged(e: impl std::fmt::Display) -> Error {
    Error::invalid("tokenizer.json", format!("cannot be read: {e}"))
}

/// Reads the file. The added tokens are taken out of the pipeline: the encoder looks for them itself.
pub(super) fn load(json: &[u8]) -> Result<Loaded> {
    let mut file: Value = serde_json::from_slice(json).map_err(damaged)?;
    if !file.is_object() {
        return Err(damaged("it is not an object"));
    }
    let added = match file["added_tokens"].take() {
        Value::Null => Vec::new(),
        list => serde_json::from_value::<Vec<Added>>(list).map_err(damaged)?,
    };
    file["added_tokens"] = json!([]);
    for unused in ["truncation", "padding", "post_processor"] {
        file[unused] = Value::Null;
    }
    file["normalizer"] = without_canonical(file["normalizer"].take());
    let spelling = spelling(&file)?;
    let tokenizer: Tokenizer = serde_json::from_value(file).map_err(damaged)?;
    let words = words(tokenizer.get_vocab(false), &added, spelling)?;
    let added = added.into_iter().map(|a| AddedToken {
        id: a.id,
        text: a.content,
        lstrip: a.lstrip,
        rstrip: a.rstrip,
        single_word: a.single_word,
    });
    Ok(Loaded { words, added: added.collect(), model: Model::Pipeline(Box::new(tokenizer)) })
}

/// The normaliser without NFC and NFD.
fn without_canonical(normalizer: Value) -> Value {
    match normalizer["type"].as_str() {
        Some("NFC" | "NFD") => Value::Null,
        Some("Sequence") => {
            let Some(steps) = normalizer["normalizers"].as_array() else { return normalizer };
            let kept: Vec<Value> =
                steps.iter().cloned().map(without_canonical).filter(|step| !step.is_null()).collect();
            if kept.is_empty() { Value::Null } else { json!({"type": "Sequence", "normalizers": kept}) }
        }
        _ => normalizer,
    }
}

fn spelling(file: &Value) -> Result<Spelling> {
    if has_step(&file["decoder"], "ByteLevel") || has_step(&file["pre_tokenizer"], "ByteLevel") {
        Ok(Spelling::ByteLevel)
    } else if has_step(&file["decoder"], "ByteFallback") || file["model"]["byte_fallback"] == json!(true) {
        Ok(Spelling::ByteFallback)
    } else {
        Err(Error::invalid("tokenizer.json", "only byte-level and byte-fallback tokenizers are supported"))
    }
}

fn has_step(part: &Value, kind: &str) -> bool {
    part["type"] == kind
        || ["decoders", "pretokenizers"]
            .iter()
            .any(|list| part[*list].as_array().is_some_and(|steps| steps.iter().any(|s| has_step(s, kind))))
}

fn words(vocab: HashMap<String, Token>, added: &[Added], spelling: Spelling) -> Result<Vec<Word>> {
    let ids = vocab.values().chain(added.iter().map(|a| &a.id));
    let n = ids.max().map_or(0, |id| *id as usize + 1);
    if n > MOST_IDS {
        return Err(damaged(format!("token id {} is too large", n - 1)));
    }
    let mut words = vec![Word::UNUSED; n];
    for (text, id) in vocab {
        let bytes = match spelling {
            Spelling::ByteLevel => bytes::byte_level(&text),
            Spelling::ByteFallback => {
                bytes::fallback(&text).map_or_else(|| bytes::sentence_piece(&text), |byte| vec![byte])
            }
        };
        words[id as usize] = Word::text(bytes);
    }
    for token in added {
        words[token.id as usize] = Word::literal(&token.content, token.special);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_normalisers_are_left_out() {
        assert_eq!(without_canonical(json!({"type": "NFC"})), Value::Null);
        assert_eq!(without_canonical(Value::Null), Value::Null);
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let sequence = json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, replace]});
        assert_eq!(without_canonical(sequence), json!({"type": "Sequence", "normalizers": [replace]}));
        let only = json!({"type": "Sequence", "normalizers": [{"type": "NFD"}]});
        assert_eq!(without_canonical(only), Value::Null);
    }

    #[test]
    fn damaged_files_are_named() {
        for bad in [&b"{"[..], b"[]", b"{}", b"{\"model\":{\"byte_fallback\":true}}", b"\xff"] {
            let error = load(bad).err().unwrap().to_string();
            assert!(error.starts_with("tokenizer.json: "), "{error}");
        }
    }

    #[test]
    fn a_huge_id_is_refused() {
        let vocab = HashMap::from([("a".to_owned(), u32::MAX - 1)]);
        assert!(words(vocab, &[], Spelling::ByteLevel).is_err());
    }
}
