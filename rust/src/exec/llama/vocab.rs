//! The vocabulary of a model file, read without its weights.

use super::ffi::Model;
use super::gguf::ffi::Metadata;
use crate::error::{Error, Result};
use crate::types::Token;
use crate::vocab::{GgufEncoder, GgufVocab, cuts_text};
use llama_cpp_sys_2 as sys;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// Pre-tokenizers for which the library cuts text without recursion.
const FLAT: [&str; 5] = ["gemma4", "granite-embed-multi-311m", "kimi-k2", "mmbert", "sarvam-moe"];
/// Longest run of blank characters, or of others, that the library may cut. It recurses for each character, which takes about
/// 100 bytes of stack.
const LONGEST_RUN: usize = 4096;

/// Reads the vocabulary.
///
/// # Errors
/// `Invalid` of "model.gguf" where the file is missing, damaged, or has no vocabulary to generate text with.
pub fn read(path: &Path) -> Result<GgufVocab> {
    let invalid = |why: String| Error::invalid("model.gguf", format!("{} {why}", path.display()));
    let file = Metadata::open(path).map_err(|why| invalid(format!("cannot be read as GGUF: {why}")))?;
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let [name, pre] = ["model", "pre"].map(|name| file.string(&key(name)).unwrap_or_default());
    let tokens = file.strings(&key("tokens")).filter(|tokens| !tokens.is_empty());
    let tokens = tokens.ok_or_else(|| invalid("has no readable vocabulary".into()))?;
    // The library would end the process.
    if HashSet::<&String>::from_iter(&tokens).len() != tokens.len() {
        return Err(invalid("is damaged: two tokens of its vocabulary have the same text".into()));
    }
    let model = Model::load_vocab(path).map_err(|why| {
        let unknown = why.starts_with("unknown ");
        let newer = if unknown { "; a newer version of this server may know it" } else { "" };
        invalid(format!("cannot be loaded: {why}{newer}"))
    })?;
    let encoder = match model.vocab_type() {
        sys::LLAMA_VOCAB_TYPE_SPM => GgufEncoder::SentencePiece {
            add_space_prefix: file.boolean(&key("add_space_prefix")).unwrap_or(true),
        },
        sys::LLAMA_VOCAB_TYPE_BPE if name == "gpt2" && cuts_text(&pre) => {
            let merges = file.strings(&key("merges"));
            let merges = merges.ok_or_else(|| invalid("has no readable merges".into()))?;
            GgufEncoder::BytePairs { pre, merges }
        }
        sys::LLAMA_VOCAB_TYPE_NONE | sys::LLAMA_VOCAB_TYPE_WPM => {
            return Err(invalid(format!("generates no text: its vocabulary is of the kind {name}")));
        }
        kind => {
            let is_flat = kind != sys::LLAMA_VOCAB_TYPE_BPE
                || [name, pre].iter().any(|name| FLAT.contains(&name.as_str()));
            let longest = if is_flat { usize::MAX } else { LONGEST_RUN };
            GgufEncoder::Library(Box::new(library(Arc::clone(&model), longest)))
        }
    };
    let all = 0..Token::try_from(model.n_vocab()).unwrap_or(0);
    let tokens = all.map(|id| model.token(id)).collect();
    let (bos, add_bos) = model.begin();
    Ok(GgufVocab { tokens, eog: model.end_ids(), bos, add_bos, encoder })
}

/// The library as encoder, of texts whose runs of blank characters, or of others, are no longer than this.
fn library(model: Arc<Model>, longest: usize) -> impl Fn(&str) -> Result<Vec<Token>, String> {
    move |text| {
        let blank = Vec::from_iter(text.chars().map(char::is_whitespace));
        if blank.chunk_by(PartialEq::eq).any(|run| run.len() > longest) {
            return Err(format!(
                "has a word of more than {longest} characters, too long for this model's tokenizer"
            ));
        }
        model.encode(text, false).ok_or_else(|| "cannot be encoded: it is too long".to_owned())
    }
}
