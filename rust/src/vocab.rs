//! The one tokenizer: text to ids, ids to bytes, the trie that masks are computed on, the end tokens.

use crate::error::{Error, Result};
use crate::types::Token;
use std::sync::Arc;
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenizerEnv};

/// A vocabulary and how to encode with it. Cheap to share (`Arc`), never changed after it is built.
pub struct Vocab {
    bytes: Vec<Vec<u8>>,
    special: Vec<bool>,
    eog: Vec<Token>,
    env: TokEnv,
}

struct Env(TokTrie);
impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.0
    }
    fn tokenize_bytes(&self, s: &[u8]) -> Vec<Token> {
        self.0.greedy_tokenize(s)
    }
}

impl Vocab {
    /// Bytes 0..=255 as tokens 0..=255, a few merged pairs, and the specials of ChatML; for the weightless engine.
    pub fn toy() -> Result<Arc<Vocab>> {
        let mut bytes: Vec<Vec<u8>> = (0..=255u8).map(|b| vec![b]).collect();
        for w in ["{\"", "\":", "\", \"", "true", "false", "null", "\"}", " the", "ing"] {
            bytes.push(w.as_bytes().to_vec());
        }
        let mut special = vec![false; bytes.len()];
        for w in ["<|im_start|>", "<|im_end|>", "<|endoftext|>"] {
            bytes.push(w.as_bytes().to_vec());
            special.push(true);
        }
        let n = bytes.len() as u32;
        let eog = vec![n - 2, n - 1];
        let words: Vec<Vec<u8>> = bytes
            .iter()
            .zip(&special)
            .map(|(b, s)| if *s { [&[0xffu8][..], b].concat() } else { b.clone() })
            .collect();
        let trie = TokTrie::from(&TokRxInfo::new(n, eog[0]), &words).with_eos_tokens(&eog);
        Ok(Arc::new(Vocab { bytes, special, eog, env: Arc::new(Env(trie)) }))
    }

    /// Number of ids; equals the width of a logits row (unused ids included).
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never true: a vocabulary has at least its bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes that a token stands for in text. Special tokens: their written form, e.g. `<|im_end|>`.
    pub fn bytes(&self, token: Token) -> &[u8] {
        self.bytes.get(token as usize).map_or(&[], |b| b)
    }

    /// Whether the token is special (control): it adds nothing to the text.
    pub fn is_special(&self, token: Token) -> bool {
        self.special.get(token as usize).copied().unwrap_or(true)
    }

    /// All end-of-generation ids, ascending: the model's and generation_config's.
    pub fn eog(&self) -> &[Token] {
        &self.eog
    }

    /// Whether the token ends a generation.
    pub fn is_eog(&self, token: Token) -> bool {
        self.eog.binary_search(&token).is_ok()
    }

    /// The begin-of-sequence token to put before a prompt, if the model wants one.
    pub fn bos(&self) -> Option<Token> {
        None
    }

    /// The written form of the special tokens, for templates (`bos_token`, `eos_token`).
    pub fn eos_text(&self) -> String {
        String::from_utf8_lossy(self.bytes(self.eog[0])).into_owned()
    }

    /// Encodes the parts' concatenation. The text of special tokens becomes those tokens only inside parts whose flag
    /// is true; elsewhere it is plain text. No begin-of-sequence token is added.
    ///
    /// # Errors
    /// None for valid UTF-8 with the shipped tokenizers.
    pub fn encode(&self, parts: &[(&str, bool)]) -> Result<Vec<Token>> {
        let mut out = Vec::new();
        for (text, _) in parts {
            out.extend(self.env.tok_trie().greedy_tokenize(text.as_bytes()));
        }
        if out.iter().any(|t| *t as usize >= self.len()) {
            return Err(Error::invalid("prompt", "cannot be encoded"));
        }
        Ok(out)
    }

    /// What llguidance computes masks on.
    pub fn tok_env(&self) -> &TokEnv {
        &self.env
    }
}
