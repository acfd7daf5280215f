//! The vocabulary of a GGUF file, as llama.cpp reads it.
//!
//! What each id is comes from the library, and the library encodes the rarer kinds. Byte pairs in GPT-2's alphabet and
//! SentencePiece by scores are encoded here. The library cuts text for most of the former with `std::regex`, which recurses for
//! each character: a word of some ten thousand letters overflows a stack of 2 MiB. For the latter it takes quadratic
//! time on line ends: 7 s for 400,000 of them. Elsewhere it is as fast as we are (18 to 90 ms for 100 kB).

use super::added::AddedToken;
use super::encoder::{Model, TextEncoder};
use super::pre::{self, Pre};
use super::spm::Spm;
use super::{Kind, Loaded, Word};
use crate::error::{Error, Result};
use crate::types::Token;
use std::collections::HashSet;
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{SplitDelimiterBehavior, Tokenizer};

/// What a token of a GGUF is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GgufKind {
    /// Text that the model was trained to write.
    Normal,
    /// Control.
    Special,
    /// Stands for text that has no token.
    Unknown,
    /// Text that is found before the model sees what is around it.
    UserDefined,
    /// A single byte.
    Byte,
    /// Has no meaning.
    Unused,
}

/// A token of a GGUF.
#[derive(Debug, Clone, PartialEq)]
pub struct GgufToken {
    /// As the file writes it.
    pub text: String,
    /// What it adds to a text, written out where it is special.
    pub bytes: Vec<u8>,
    /// What it is.
    pub kind: GgufKind,
    /// It swallows the white space after it.
    pub strips_right: bool,
    /// SentencePiece merges the highest first.
    pub score: f32,
}

/// How a GGUF's vocabulary turns text into ids.
pub enum GgufEncoder {
    /// Byte pairs in GPT-2's alphabet.
    BytePairs {
        /// `tokenizer.ggml.pre`; empty if the file has none.
        pre: String,
        /// Best first: two tokens with a space between.
        merges: Vec<String>,
    },
    /// SentencePiece by scores; whether a text begins with a space.
    SentencePiece {
        /// `tokenizer.ggml.add_space_prefix`.
        add_space_prefix: bool,
    },
    /// By the library.
    Library(TextEncoder),
}

/// The vocabulary of a GGUF.
pub struct GgufVocab {
    /// By id.
    pub tokens: Vec<GgufToken>,
    /// End-of-generation ids; the file's own `eos` first.
    pub eog: Vec<Token>,
    /// The begin-of-sequence token.
    pub bos: Option<Token>,
    /// Whether it goes before a prompt.
    pub add_bos: bool,
    /// Text to ids.
    pub encoder: GgufEncoder,
}

impl std::fmt::Debug for GgufVocab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GgufVocab")
            .field("tokens", &self.tokens.len())
            .field("eog", &self.eog)
            .finish_non_exhaustive()
    }
}

/// Whether this module cuts text as byte pairs with this pre-tokenizer need it.
pub fn cuts_text(pre: &str) -> bool {
    pre::of(pre).is_some()
}

impl GgufVocab {
    /// What each id stands for.
    pub(super) fn words(&self) -> Vec<Word> {
        let word = |token: &GgufToken| match token.kind {
            GgufKind::Normal | GgufKind::Byte => Word::text(token.bytes.clone()),
            GgufKind::Special | GgufKind::Unknown => Word::literal(&token.text, true),
            GgufKind::UserDefined => Word::literal(&token.text, false),
            GgufKind::Unused => Word::UNUSED,
        };
        self.tokens.iter().map(word).collect()
    }

    pub(super) fn load(self) -> Result<Loaded> {
        let words = self.words();
        let added = self.added(&words);
        let damaged = |e| Error::invalid("model.gguf", format!("has a damaged vocabulary: {e}"));
        let model = match self.encoder {
            GgufEncoder::SentencePiece { add_space_prefix } => {
                Model::Spm(spm(&self.tokens, &words, add_space_prefix))
            }
            GgufEncoder::BytePairs { ref pre, ref merges } => {
                let known = pre::of(pre).ok_or_else(|| {
                    let why = format!("has the unknown pre-tokenizer \"{pre}\"; convert the model again");
                    Error::invalid("model.gguf", why)
                })?;
                let tokenizer = byte_level(&self.tokens, &words, merges, known).map_err(damaged)?;
                Model::Pipeline(Box::new(tokenizer))
            }
            GgufEncoder::Library(encoder) => {
                let unknown = self.tokens.iter().position(|token| token.kind == GgufKind::Unknown);
                Model::Library(encoder, unknown.map(|id| id as Token))
            }
        };
        Ok(Loaded { added, words, model })
    }

    fn added(&self, words: &[Word]) -> Vec<AddedToken> {
        let numbered = self.tokens.iter().zip(words).enumerate();
        let found = numbered
            .filter(|(_, (token, word))| token.kind == GgufKind::UserDefined || word.kind == Kind::Special);
        let added = found.map(|(id, (token, _))| AddedToken {
            rstrip: token.strips_right,
            ..AddedToken::new(id as Token, &token.text)
        });
        added.collect()
    }
}

fn spm(tokens: &[GgufToken], words: &[Word], add_space_prefix: bool) -> Spm {
    let mut by_byte = [None; 256];
    // Byte tokens win over one-character tokens of the same byte.
    for pass in [false, true] {
        for (id, word) in words.iter().enumerate() {
            let is_byte = tokens[id].kind == GgufKind::Byte;
            if word.kind == Kind::Text && word.bytes.len() == 1 && is_byte == pass {
                by_byte[usize::from(word.bytes[0])] = Some(id as Token);
            }
        }
    }
    let is_text = |id: &usize| {
        matches!(words[*id].kind, Kind::Text | Kind::Marked) && tokens[*id].kind != GgufKind::Byte
    };
    let texts = (0..words.len()).filter(is_text);
    Spm::new(
        texts.map(|id| (tokens[id].text.clone(), id as Token, tokens[id].score)),
        by_byte,
        add_space_prefix,
    )
}

/// The alphabet has no space.
const NO_TOKEN: &str = "no token";

fn byte_level(
    tokens: &[GgufToken],
    words: &[Word],
    merges: &[String],
    pre: Pre,
) -> tokenizers::Result<Tokenizer> {
    let usable = |id: &usize| matches!(words[*id].kind, Kind::Text | Kind::Marked);
    let mut vocab: ahash::AHashMap<String, Token> =
        (0..words.len()).filter(usable).map(|id| (tokens[id].text.clone(), id as Token)).collect();
    let mut seen = HashSet::new();
    let merges = merges.iter().filter(|m| seen.insert(m.as_str())).filter_map(|merge| {
        // The first token is at least one character long, so a space at the front belongs to it.
        let (at, _) = merge.char_indices().skip(1).find(|(_, c)| *c == ' ')?;
        let (left, right) = (&merge[..at], &merge[at + 1..]);
        let known = [left, right, &[left, right].concat()].iter().all(|t| vocab.contains_key(*t));
        known.then(|| (left.to_owned(), right.to_owned()))
    });
    let merges: Vec<(String, String)> = merges.collect();
    // A byte that has no token gets this one, which is left out later: so what is around it is not merged across it.
    vocab.insert(NO_TOKEN.to_owned(), Token::MAX);
    let model = BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(pre.ignore_merges);
    let model = model.unk_token(NO_TOKEN.to_owned()).build()?;
    let mut steps = Vec::new();
    for cut in pre.cuts {
        let pattern = SplitPattern::Regex(pre::expression(cut));
        steps.push(PreTokenizerWrapper::from(Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?));
    }
    steps.push(PreTokenizerWrapper::from(ByteLevel::new(false, false, false)));
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
    Ok(tokenizer)
}

#[cfg(test)]
#[path = "gguf_tests.rs"]
mod tests;
