//! The tokenizer as llguidance may use it.

use crate::error::{Error, Result};
use crate::types::Token;
use crate::vocab::Vocab;
use std::sync::Arc;
use toktrie::{TokEnv, TokTrie, TokenizerEnv};

/// Tokenizes forced bytes to exactly these bytes, with no special tokens.
///
/// A tokenizer that turns the text `<|eot_id|>` of a schema constant into the special token, or that normalises
/// characters, would make the mask force a token that the parser then refuses.
struct SafeEnv {
    base: TokEnv,
    /// Only where the base trie has other end tokens.
    trie: Option<TokTrie>,
}

impl TokenizerEnv for SafeEnv {
    fn tok_trie(&self) -> &TokTrie {
        self.trie.as_ref().unwrap_or_else(|| self.base.tok_trie())
    }

    fn tokenize_bytes(&self, s: &[u8]) -> Vec<Token> {
        let trie = self.tok_trie();
        let tokens = self.base.tokenize_bytes(s);
        let mut rest = s;
        for &t in &tokens {
            let bytes = trie.token(t);
            match rest.strip_prefix(bytes) {
                Some(tail) if !trie.is_special_token(t) => rest = tail,
                _ => return trie.greedy_tokenize(s),
            }
        }
        if rest.is_empty() { tokens } else { trie.greedy_tokenize(s) }
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.base.tokenize_is_canonical()
    }
}

/// The vocabulary's environment, made safe, with all of its end tokens.
pub(super) fn safe(vocab: &Vocab) -> Result<TokEnv> {
    let base = Arc::clone(vocab.tok_env());
    let trie = base.tok_trie();
    if trie.vocab_size() != vocab.len() {
        let why = format!("the trie has {} tokens, the vocabulary {}", trie.vocab_size(), vocab.len());
        return Err(Error::invalid("tokenizer", why));
    }
    if vocab.eog().is_empty() || vocab.eog().iter().any(|t| *t as usize >= vocab.len()) {
        return Err(Error::invalid("tokenizer", "the model names no end token, or one past its vocabulary"));
    }
    let own = (trie.eos_tokens() != vocab.eog()).then(|| trie.with_eos_tokens(vocab.eog()));
    Ok(Arc::new(SafeEnv { base, trie: own }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use toktrie::TokRxInfo;

    struct Greedy(TokTrie);
    impl TokenizerEnv for Greedy {
        fn tok_trie(&self) -> &TokTrie {
            &self.0
        }
        fn tokenize_bytes(&self, s: &[u8]) -> Vec<Token> {
            if s == b"<|x|>" {
                vec![256]
            } else {
                s.iter().map(|b| u32::from(b.to_ascii_lowercase())).collect()
            }
        }
    }

    #[test]
    fn special_or_changed_tokens_are_not_used() {
        let mut words: Vec<Vec<u8>> = (0..=255u8).map(|b| vec![b]).collect();
        words.push(b"\xff<|x|>".to_vec());
        let trie = TokTrie::from(&TokRxInfo::new(257, 256), &words);
        let env = SafeEnv { base: Arc::new(Greedy(trie)), trie: None };
        assert_eq!(env.tokenize_bytes(b"<|x|>"), b"<|x|>".map(u32::from));
        assert_eq!(env.tokenize_bytes(b"aB"), b"aB".map(u32::from));
        assert_eq!(env.tokenize_bytes(b"ab"), b"ab".map(u32::from));
    }

    #[test]
    fn the_trie_ends_with_the_vocabulary() {
        let vocab = Vocab::toy().unwrap();
        assert_eq!(safe(&vocab).unwrap().tok_trie().eos_tokens(), vocab.eog());
    }
}
