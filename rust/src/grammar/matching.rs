//! llguidance's matcher, as masks and walks ahead need it.

use super::mask::Mask;
use super::text;
use super::unique::Ahead;
use crate::error::{Error, Result};
use crate::types::Token;
use llguidance::Matcher;
use llguidance::api::StopReason;

/// The end tokens, and the width of a mask.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) eog: Vec<Token>,
    pub(super) width: usize,
}

/// A walk ahead of a matcher, which is undone token by token.
pub(super) struct Walk<'a> {
    live: &'a mut Matcher,
    ends: &'a Ends,
    can_rollback: bool,
    walked: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(live: &'a mut Matcher, ends: &'a Ends, can_rollback: bool) -> Self {
        Walk { live, ends, can_rollback, walked: false }
    }

    /// Leaves the matcher as it was.
    pub(super) fn finish(self) {
        if self.walked {
            // A mask ahead may come up again: see the module's notes on rollbacks.
            self.live.invalidate_bias_cache();
        }
    }
}

impl Ahead for Walk<'_> {
    fn mask(&mut self) -> Option<Mask> {
        mask_of(self.live, self.ends).ok()
    }

    fn push(&mut self, token: Token) -> bool {
        if !self.can_rollback || self.ends.eog.contains(&token) {
            return false;
        }
        self.walked = true;
        self.live.try_consume_tokens(&[token]).is_ok_and(|n| n == 1)
    }

    fn pop(&mut self) {
        // A failure stays in the matcher and is what the next mask reports.
        let _ = self.live.rollback(1);
    }
}

pub(super) fn mask_of(matcher: &mut Matcher, ends: &Ends) -> Result<Mask> {
    if ended(matcher) {
        let mut mask = Mask::none(ends.width);
        ends.eog.iter().for_each(|&t| mask.set(t, true));
        return Ok(mask);
    }
    let words = matcher.compute_mask().map_err(|e| broken(&e.to_string()))?;
    let may_end = matcher.is_accepting().map_err(|e| broken(&e.to_string()))?;
    let mut mask = Mask::from_words(words.as_slice(), ends.width);
    // Also takes away an end token that the grammar itself asks for: it would end the text where it may not end.
    ends.eog.iter().for_each(|&t| mask.set(t, may_end));
    if mask.words().iter().all(|w| *w == 0) {
        return Err(broken("no token of the vocabulary can continue the text here"));
    }
    Ok(mask)
}

pub(super) fn ended(matcher: &Matcher) -> bool {
    matches!(
        matcher.stop_reason(),
        StopReason::NoExtension | StopReason::NoExtensionBias | StopReason::EndOfSentence
    )
}

/// An error of the sequence whose grammar it is.
pub(super) fn broken(why: &str) -> Error {
    let why = text::clean(why);
    // What llguidance says where the mask is empty.
    let dead = why.is_empty() || why.ends_with("NoExtensionBias");
    Error::grammar("", "grammar", if dead { "nothing can follow here that satisfies it".into() } else { why })
}
