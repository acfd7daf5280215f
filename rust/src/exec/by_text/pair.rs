//! Two vocabularies, and what the tokens of one are in the other.

use crate::error::{Error, Result};
use crate::types::Token;
use crate::vocab::Vocab;
use std::collections::HashMap;
use std::sync::Arc;

/// The target's vocabulary, and the draft model's own.
pub struct VocabPair {
    pub(super) target: Arc<Vocab>,
    pub(super) own: Arc<Vocab>,
    /// Special tokens of the target whose written form is a special token of the draft model, too.
    to_own: HashMap<Token, Token>,
    /// The same, the other way round.
    to_target: HashMap<Token, Token>,
}

impl VocabPair {
    /// What a draft model with this vocabulary of its `own` needs to draft for the `target`; None where they are the same.
    ///
    /// # Errors
    /// `Invalid` of "draft" where its tokens cannot write what programs and answers consist of.
    pub fn new(target: &Arc<Vocab>, own: Arc<Vocab>) -> Result<Option<Self>> {
        if target.check_draft(&own).is_ok() {
            return Ok(None);
        }
        let written = (b' '..=b'~').chain([b'\n']);
        if let Some(byte) = written.into_iter().find(|&byte| own.decode(&spelled(&own, &[byte])) != [byte]) {
            let why = format!(
                "has another vocabulary than the target, so its drafts must be text, but its tokens cannot write \"{}\"; \
                 give a draft model that can, or one with the target's vocabulary",
                byte.escape_ascii()
            );
            return Err(Error::invalid("draft", why));
        }
        log::info!(
            "speculation: the draft model has another vocabulary, so its drafts are text, encoded again for the target"
        );
        let of_own: HashMap<&[u8], Token> = marked(&own).map(|token| (own.bytes(token), token)).collect();
        let to_own: HashMap<Token, Token> =
            marked(target).filter_map(|token| Some((token, *of_own.get(target.bytes(token))?))).collect();
        let to_target = to_own.iter().map(|(token, own)| (*own, *token)).collect();
        Ok(Some(VocabPair { target: Arc::clone(target), own, to_own, to_target }))
    }

    /// The draft model's special token for one of the target.
    pub(super) fn to_own(&self, token: Token) -> Option<Token> {
        self.to_own.get(&token).copied()
    }

    /// The target's special token for one of the draft model.
    pub(super) fn to_target(&self, token: Token) -> Option<Token> {
        self.to_target.get(&token).copied()
    }
}

/// The special tokens of a vocabulary.
fn marked(vocab: &Vocab) -> impl Iterator<Item = Token> {
    let marked = |token: &Token| vocab.is_marked(*token) && !vocab.bytes(*token).is_empty();
    (0..vocab.len() as Token).filter(marked)
}

/// The tokens of plain text.
pub(super) fn spelled(vocab: &Vocab, text: &[u8]) -> Vec<Token> {
    vocab.tok_env().tokenize_bytes(text)
}

/// Whether a tokenizer cuts between these bytes, whatever stands around them: a word, or the space before it, begins. Almost all do.
pub(super) fn begins_word(before: u8, next: u8) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    match next {
        b' ' => !before.is_ascii_whitespace(),
        b'\'' => false,
        _ => letter(before) && !letter(next),
    }
}
