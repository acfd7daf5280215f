//! The vocabulary tables of a GGUF, as llama.cpp reads them.

use super::added::AddedToken;
use super::encoder::Model;
use super::pre::{self, Pre};
use super::spm::Spm;
use super::{Kind, Loaded, Word, bytes};
use crate::error::{Error, Result};
use crate::types::Token;
use std::collections::{HashMap, HashSet};
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{SplitDelimiterBehavior, Tokenizer};

/// Texts that llama.cpp takes for end tokens, whatever their type.
const END_TEXTS: [&str; 22] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Fill-in-the-middle tokens: key, older key, texts where no key names one, whether the token ends a generation.
const MIDDLE_TOKENS: [(&str, &str, &[&str], bool); 6] = [
    (
        "fim_pre",
        "prefix",
        &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
        false,
    ),
    (
        "fim_suf",
        "suffix",
        &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
        false,
    ),
    (
        "fim_mid",
        "middle",
        &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
        false,
    ),
    ("fim_pad", "", &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"], true),
    ("fim_rep", "", &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"], true),
    ("fim_sep", "", &["<|file_sep|>"], true),
];

/// Types of tokens in a GGUF (`llama_token_type`).
mod kind {
    pub(super) const NORMAL: i32 = 1;
    pub(super) const UNKNOWN: i32 = 2;
    pub(super) const CONTROL: i32 = 3;
    pub(super) const USER_DEFINED: i32 = 4;
    pub(super) const BYTE: i32 = 6;
}

/// The vocabulary of a GGUF as plain data; keys are those of `tokenizer.ggml.*` unless said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GgufTables {
    /// `model`: "gpt2", "llama", …
    pub model: String,
    /// `pre`; empty if the file has none.
    pub pre: String,
    /// `general.name`; empty if the file has none.
    pub name: String,
    /// `tokens`.
    pub tokens: Vec<String>,
    /// `token_type`; empty, or one for each token.
    pub types: Vec<i32>,
    /// `scores`; empty, or one for each token.
    pub scores: Vec<f32>,
    /// `merges`, best first: two tokens with a space between.
    pub merges: Vec<String>,
    /// `bos_token_id` as "bos", `eos_token_id` as "eos", and so on.
    pub ids: HashMap<String, Token>,
    /// `add_bos_token`.
    pub add_bos_token: Option<bool>,
    /// `add_space_prefix`.
    pub add_space_prefix: Option<bool>,
}

fn invalid(why: impl Into<String>) -> Error {
    Error::invalid("model.gguf", why)
}

fn unsupported(what: &str) -> Error {
    invalid(format!(
        "has a vocabulary of {what}, which is not supported: put a tokenizer.json beside model.gguf"
    ))
}

impl GgufTables {
    /// The end-of-generation ids that llama.cpp would find; the file's own `eos` first, the others ascending.
    pub fn eog(&self) -> Vec<Token> {
        let by_text = self.by_text();
        let find = |text: &str| by_text.get(text).copied();
        let mut ends: HashSet<Token> = END_TEXTS.iter().filter_map(|t| find(t)).collect();
        ends.extend(["eot", "eom"].iter().filter_map(|key| self.id(key)));
        let middle = MIDDLE_TOKENS.iter().filter(|m| m.3);
        ends.extend(
            middle
                .filter_map(|(key, _, texts, _)| self.id(key).or_else(|| texts.iter().find_map(|t| find(t)))),
        );
        let eos = self.id("eos").or_else(|| (self.model == "llama" && self.tokens.len() > 2).then_some(2));
        ends.extend(eos);
        let has = |text: &str| find(text).is_some_and(|id| ends.contains(&id));
        let calls = has("<|call|>") || has("<|calls|>");
        let harmony = (has("<|return|>") && has("<|call|>")) || (calls && has("<|flush|>"));
        let plain_s = has("<|tool_response>") || has("<|plamo:eos|>");
        let not_an_end = [harmony.then(|| find("<|end|>")), plain_s.then(|| find("</s>"))];
        for id in not_an_end.into_iter().flatten().flatten() {
            ends.remove(&id);
        }
        let mut rest: Vec<Token> = ends.iter().copied().filter(|id| Some(*id) != eos).collect();
        rest.sort_unstable();
        eos.filter(|id| ends.contains(id)).into_iter().chain(rest).collect()
    }

    /// The begin-of-sequence token.
    pub fn bos(&self) -> Option<Token> {
        self.id("bos").or_else(|| (self.model == "llama" && self.tokens.len() > 1).then_some(1))
    }

    /// Whether the begin-of-sequence token goes before a prompt.
    pub fn add_bos(&self) -> bool {
        self.add_bos_token.unwrap_or_else(|| match self.model.as_str() {
            "llama" => true,
            _ => pre::of(&self.pre).is_some_and(|p| p.add_bos),
        })
    }

    fn id(&self, key: &str) -> Option<Token> {
        self.ids.get(key).copied().filter(|id| (*id as usize) < self.tokens.len())
    }

    fn by_text(&self) -> HashMap<&str, Token> {
        self.tokens.iter().enumerate().map(|(id, text)| (text.as_str(), id as Token)).collect()
    }

    /// The types, with control tokens found by text too.
    fn kinds(&self) -> Result<Vec<i32>> {
        let n = self.tokens.len();
        let fits = |len: usize| len == 0 || len >= n;
        if n == 0 || !fits(self.types.len()) || !fits(self.scores.len()) {
            return Err(invalid("is damaged: its vocabulary's tables differ in length"));
        }
        let mut kinds = if self.types.is_empty() { vec![kind::NORMAL; n] } else { self.types[..n].to_vec() };
        let by_text = self.by_text();
        let mut control: Vec<Token> = END_TEXTS.iter().filter_map(|t| by_text.get(t).copied()).collect();
        for (key, older, texts, _) in MIDDLE_TOKENS {
            if self.id(key).or_else(|| self.id(older)).is_none() {
                control.extend(texts.iter().find_map(|t| by_text.get(t)));
            }
        }
        // A normal word there, and no end token.
        if by_text.contains_key("<|tool_response>") || by_text.contains_key("<|plamo:eos|>") {
            control.retain(|id| self.tokens[*id as usize] != "</s>");
        }
        for id in control {
            kinds[id as usize] = kind::CONTROL;
        }
        Ok(kinds)
    }

    /// What each id stands for.
    pub(super) fn words(&self) -> Result<Vec<Word>> {
        let kinds = self.kinds()?;
        let word = |(text, kind): (&String, &i32)| match *kind {
            kind::NORMAL if self.model == "llama" => Word::text(bytes::sentence_piece(text)),
            kind::NORMAL => Word::text(bytes::byte_level(text)),
            kind::CONTROL | kind::UNKNOWN => Word::literal(text, true),
            kind::USER_DEFINED => Word::literal(text, false),
            kind::BYTE => bytes::fallback(text).map_or(Word::UNUSED, |byte| Word::text(vec![byte])),
            _ => Word::UNUSED,
        };
        Ok(self.tokens.iter().zip(&kinds).map(word).collect())
    }

    pub(super) fn load(&self) -> Result<Loaded> {
        let words = self.words()?;
        let distinct = self.by_text().len();
        if distinct != self.tokens.len() {
            return Err(invalid("is damaged: two tokens of its vocabulary have the same text"));
        }
        let model = match self.model.as_str() {
            "llama" => Model::Spm(self.spm(&words)?),
            "gpt2" => {
                let pre = pre::of(&self.pre)
                    .ok_or_else(|| unsupported(&format!("the pre-tokenizer \"{}\"", self.pre)))?;
                Model::Pipeline(Box::new(
                    self.byte_level(&words, pre).map_err(|e| invalid(format!("is damaged: {e}")))?,
                ))
            }
            other => return Err(unsupported(&format!("the kind \"{other}\""))),
        };
        Ok(Loaded { added: self.added(&words)?, words, model })
    }

    fn added(&self, words: &[Word]) -> Result<Vec<AddedToken>> {
        let name = self.name.to_lowercase();
        let phi3 = name.contains("phi-3") || name.contains("phi3");
        let kinds = self.kinds()?;
        let found = |id: &usize| kinds[*id] == kind::USER_DEFINED || words[*id].kind == Kind::Special;
        let token = |id: usize| {
            let text = &self.tokens[id];
            let rstrip = phi3 && !["<unk>", "<s>", "<|endoftext|>"].contains(&text.as_str());
            AddedToken { rstrip, ..AddedToken::new(id as Token, text) }
        };
        Ok((0..self.tokens.len()).filter(found).map(token).collect())
    }

    fn spm(&self, words: &[Word]) -> Result<Spm> {
        let kinds = self.kinds()?;
        let mut by_byte = [None; 256];
        // Byte tokens win over one-character tokens of the same byte.
        for pass in [false, true] {
            for (id, word) in words.iter().enumerate() {
                if word.kind == Kind::Text && word.bytes.len() == 1 && (kinds[id] == kind::BYTE) == pass {
                    by_byte[usize::from(word.bytes[0])] = Some(id as Token);
                }
            }
        }
        let bytes = by_byte.map(|id| id.unwrap_or(Token::MAX));
        let is_text =
            |id: &usize| matches!(words[*id].kind, Kind::Text | Kind::Marked) && kinds[*id] != kind::BYTE;
        let score = |id: usize| self.scores.get(id).copied().unwrap_or(0.0);
        let tokens =
            (0..words.len()).filter(is_text).map(|id| (self.tokens[id].clone(), id as Token, score(id)));
        Ok(Spm::new(tokens, bytes, self.add_space_prefix.unwrap_or(true)))
    }

    fn byte_level(&self, words: &[Word], pre: Pre) -> tokenizers::Result<Tokenizer> {
        let usable = |id: &usize| matches!(words[*id].kind, Kind::Text | Kind::Marked);
        let vocab: ahash::AHashMap<String, Token> =
            (0..words.len()).filter(usable).map(|id| (self.tokens[id].clone(), id as Token)).collect();
        let mut seen = HashSet::new();
        let merges = self.merges.iter().filter(|m| seen.insert(m.as_str())).filter_map(|merge| {
            // The first token is at least one character long, so a space at the front belongs to it.
            let (at, _) = merge.char_indices().skip(1).find(|(_, c)| *c == ' ')?;
            let (left, right) = (&merge[..at], &merge[at + 1..]);
            let known = [left, right, &[left, right].concat()].iter().all(|t| vocab.contains_key(*t));
            known.then(|| (left.to_owned(), right.to_owned()))
        });
        let merges: Vec<(String, String)> = merges.collect();
        let model =
            BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(pre.ignore_merges).build()?;
        let mut steps = Vec::new();
        for cut in pre.cuts {
            let pattern = SplitPattern::Regex(pre::expression(cut));
            steps.push(PreTokenizerWrapper::from(Split::new(
                pattern,
                SplitDelimiterBehavior::Isolated,
                false,
            )?));
        }
        steps.push(PreTokenizerWrapper::from(ByteLevel::new(false, false, false)));
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
        Ok(tokenizer)
    }
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
