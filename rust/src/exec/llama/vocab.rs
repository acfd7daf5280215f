//! The vocabulary of a model file, read without its weights.

use super::ffi::Model;
use super::gguf::Metadata;
use crate::error::{Error, Result};
use crate::types::Token;
use crate::vocab::{GgufEncoder, GgufVocab, TextEncoder, cuts_text};
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
    let text = |name: &str| file.string(&key(name)).unwrap_or_default();
    let tokens = file.strings(&key("tokens")).filter(|tokens| !tokens.is_empty());
    let tokens = tokens.ok_or_else(|| invalid("has no readable vocabulary".into()))?;
    // The library would end the process.
    if HashSet::<&String>::from_iter(&tokens).len() != tokens.len() {
        return Err(invalid("is damaged: two tokens of its vocabulary have the same text".into()));
    }
    let model = Model::load_vocab(path).map_err(|why| invalid(cannot_be_loaded(&why)))?;
    let encoder = match model.vocab_type() {
        sys::LLAMA_VOCAB_TYPE_SPM => GgufEncoder::SentencePiece {
            add_space_prefix: file.boolean(&key("add_space_prefix")).unwrap_or(true),
        },
        sys::LLAMA_VOCAB_TYPE_BPE if text("model") == "gpt2" && cuts_text(&text("pre")) => {
            GgufEncoder::BytePairs {
                pre: text("pre"),
                merges: file
                    .strings(&key("merges"))
                    .ok_or_else(|| invalid("has no readable merges".into()))?,
            }
        }
        sys::LLAMA_VOCAB_TYPE_NONE | sys::LLAMA_VOCAB_TYPE_WPM => {
            return Err(invalid(format!(
                "generates no text: its vocabulary is of the kind {}",
                text("model")
            )));
        }
        kind => {
            let is_flat = kind != sys::LLAMA_VOCAB_TYPE_BPE
                || [text("model"), text("pre")].iter().any(|name| FLAT.contains(&name.as_str()));
            let longest = if is_flat { usize::MAX } else { LONGEST_RUN };
            GgufEncoder::Library(Box::new(Library { model: Arc::clone(&model), longest }))
        }
    };
    let all = 0..Token::try_from(model.n_vocab()).unwrap_or(0);
    let tokens = all.map(|id| model.token(id)).collect();
    let (bos, add_bos) = model.begin();
    Ok(GgufVocab { tokens, eog: model.end_ids(), bos, add_bos, encoder })
}

fn cannot_be_loaded(why: &str) -> String {
    let newer = if why.starts_with("unknown ") { "; a newer version of this server may know it" } else { "" };
    format!("cannot be loaded: {why}{newer}")
}

/// The library as encoder.
struct Library {
    model: Arc<Model>,
    /// Longest run of blank characters, or of others.
    longest: usize,
}

impl TextEncoder for Library {
    fn encode(&self, text: &str) -> Result<Vec<Token>, String> {
        let (mut run, mut blank) = (0, false);
        for c in text.chars() {
            run = if c.is_whitespace() == blank { run + 1 } else { 1 };
            blank = c.is_whitespace();
            if run > self.longest {
                let longest = self.longest;
                return Err(format!(
                    "has a word of more than {longest} characters, too long for this model's tokenizer"
                ));
            }
        }
        self.model.encode(text).ok_or_else(|| "cannot be encoded: it is too long".to_owned())
    }
}
