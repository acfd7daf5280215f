//! How far a text satisfies a constraint, for those who write constraints.

use super::{Grammar, Next};
use crate::error::{Error, Result};
use crate::types::Token;
use crate::vocab::Vocab;
use std::time::Instant;

/// Tokens between two masks: llguidance gives its lexer steps with each mask, and tokens take them. A pattern that counts words
/// is cut off with 16.
const TOKENS: usize = 4;

/// How far a text goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// Bytes of the text that can begin an output.
    pub bytes: usize,
    /// The output may end behind them.
    pub may_end: bool,
}

impl Grammar {
    /// Walks over a text from here on, token by token, and where one is refused, in smaller ones.
    ///
    /// # Errors
    /// `Error::Invalid` where it is not done by `until`, or the text can't be encoded.
    pub fn walk(&mut self, vocab: &Vocab, text: &str, until: Instant) -> Result<Walk> {
        let mut at = 0;
        for (i, token) in vocab.encode(&[(text, false)])?.into_iter().enumerate() {
            let bytes = vocab.bytes(token);
            // A tokenizer may write a text in another way than it stands there.
            let is_next = !bytes.is_empty() && text.as_bytes()[at..].starts_with(bytes);
            let lives = i % TOKENS != 0 || self.mask().is_ok();
            if !is_next || !lives || self.commit(token).is_err() {
                break;
            }
            at += bytes.len();
            in_time(until)?;
        }
        while at < text.len() && !self.is_ended() {
            in_time(until)?;
            // Where nothing can follow, the text goes no further.
            let Ok(next) = self.mask() else { break };
            let rest = &text.as_bytes()[at..];
            let (token, common) = match &next {
                Next::Any { .. } => longest(vocab, 0..vocab.len() as Token, rest),
                Next::Only(mask) => longest(vocab, mask.iter(), rest),
            };
            at += common;
            let whole = token.is_some_and(|token| vocab.bytes(token).len() == common);
            let taken = whole && token.is_some_and(|token| self.commit(token).is_ok());
            if !taken {
                return Ok(Walk { bytes: at, may_end: false });
            }
        }
        let may_end = self.is_ended()
            || self.mask().is_ok_and(|next| match next {
                Next::Any { end } => end,
                Next::Only(mask) => vocab.eog().iter().any(|&t| mask.allows(t)),
            });
        Ok(Walk { bytes: at, may_end })
    }
}

/// The token that has most bytes in common with the beginning of `rest`, a whole one before others, and how many.
fn longest(vocab: &Vocab, tokens: impl Iterator<Item = Token>, rest: &[u8]) -> (Option<Token>, usize) {
    let mut best = (None, 0);
    let mut best_whole = (None, 0);
    for token in tokens.filter(|token| !vocab.is_special(*token)) {
        let bytes = vocab.bytes(token);
        let common = bytes.iter().zip(rest).take_while(|(a, b)| a == b).count();
        if common > best.1 {
            best = (Some(token), common);
        }
        if common == bytes.len() && common > best_whole.1 {
            best_whole = (Some(token), common);
        }
    }
    if best_whole.0.is_some() { best_whole } else { best }
}

fn in_time(until: Instant) -> Result<()> {
    if Instant::now() < until {
        return Ok(());
    }
    Err(Error::invalid("text", "takes too long to be compared; send a shorter one"))
}
