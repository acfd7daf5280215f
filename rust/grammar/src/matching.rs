//! llguidance's matcher, for what the states of [`ending`](super::ending) do not follow.

use super::mask::Mask;
use super::text;
use crate::error::{Error, Result};
use crate::types::Token;
use llguidance::Matcher;
use llguidance::api::StopReason;
use llguidance::earley::lexerspec::LexerSpec;
use std::sync::LazyLock;

/// The end tokens, and the width of a mask.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) eog: Vec<Token>,
    pub(super) width: usize,
}

impl Ends {
    /// The mask of a text that nothing may follow.
    pub(super) fn mask(&self) -> Mask {
        Mask::of(self.eog.iter().copied(), self.width)
    }

    /// All of `width` tokens; the end tokens where the text may end.
    pub(super) fn and_all(&self, may_end: bool, width: usize) -> Mask {
        let mut mask = Mask::all(width);
        self.eog.iter().for_each(|token| mask.set(*token, may_end));
        mask
    }
}

/// A matcher at its beginning. Never walked: copies are.
pub(super) struct Compiled {
    matcher: LazyLock<Matcher, Make>,
    can_rollback: bool,
}

/// Makes a matcher when it is first needed.
pub(super) type Make = Box<dyn FnOnce() -> Matcher + Send>;

impl Compiled {
    /// For a grammar with this lexer.
    pub(super) fn new(spec: &LexerSpec, make: Make) -> Self {
        // A rollback counts the bytes of a token's text, where a token that is asked for by its number was taken as that number.
        let is_by_number = !spec.token_range_lexemes(&spec.all_lexemes()).is_empty();
        Compiled { matcher: LazyLock::new(make), can_rollback: spec.can_rollback() && !is_by_number }
    }

    pub(super) fn matcher(&self) -> &Matcher {
        &self.matcher
    }
}

/// A matcher for one text. It takes the text's tokens when it is asked for something, not as they come.
#[derive(Default)]
pub(super) struct Guide {
    live: Option<Matcher>,
    /// Tokens that it has taken.
    taken: usize,
    /// For a matcher without rollback: a copy from where a walk ahead began, and how many tokens that has taken.
    kept: Option<(Matcher, usize)>,
}

impl Guide {
    /// The matcher behind these tokens. Costs 20 to 200 µs the first time, and 2.5 µs for each token.
    pub(super) fn behind(&mut self, of: &Compiled, tokens: &[Token]) -> &mut Matcher {
        let live = self.live.get_or_insert_with(|| of.matcher().deep_clone());
        if self.taken < tokens.len() {
            // A failure stays in the matcher and is what the next mask reports.
            let _ = live.consume_tokens(&tokens[self.taken..]);
            self.taken = tokens.len();
        }
        live
    }

    /// Takes a token behind those; whether it may come, and whether nothing may follow it.
    pub(super) fn push(&mut self, of: &Compiled, tokens: &[Token], token: Token) -> Result<(bool, bool)> {
        let live = self.behind(of, tokens);
        match live.try_consume_tokens(&[token]) {
            Ok(taken) => {
                let is_over = ended(live);
                self.taken += taken;
                Ok((taken == 1, is_over))
            }
            Err(e) => {
                // Any error spoils a matcher for good.
                (self.live, self.taken) = (None, 0);
                Err(broken(&e.to_string()))
            }
        }
    }

    /// To be called before a walk ahead: keeps a copy where the matcher has no rollback.
    pub(super) fn branch(&mut self, of: &Compiled) {
        if !of.can_rollback {
            self.kept = self.live.as_ref().map(|live| (live.deep_clone(), self.taken));
        }
    }

    /// Goes back to so many tokens, which are committed.
    pub(super) fn back(&mut self, of: &Compiled, committed: usize) {
        let Some(live) = &mut self.live else { return };
        let ahead = self.taken.saturating_sub(committed);
        if ahead == 0 && !live.is_error() {
            return;
        }
        if of.can_rollback && !live.is_error() && live.rollback(ahead).is_ok() {
            // A mask that was computed ahead is kept under a key that can come up again on another branch.
            live.invalidate_bias_cache();
            self.taken = committed;
            return;
        }
        (self.live, self.taken) = match self.kept.take() {
            Some((kept, taken)) if taken <= committed && !kept.is_error() => (Some(kept), taken),
            _ => (None, 0),
        };
    }

    /// The same, with a life of its own.
    pub(super) fn apart(&self) -> Self {
        Guide { live: self.live.as_ref().map(Matcher::deep_clone), taken: self.taken, kept: None }
    }
}

pub(super) fn mask_of(matcher: &mut Matcher, ends: &Ends) -> Result<Mask> {
    if ended(matcher) {
        return Ok(ends.mask());
    }
    let words = matcher.compute_mask().map_err(|e| broken(&e.to_string()))?;
    let may_end = matcher.is_accepting().map_err(|e| broken(&e.to_string()))?;
    let mut mask = Mask::from_words(words.as_slice(), ends.width);
    // Also takes away an end token that the grammar itself asks for: it would end the text where it may not end.
    ends.eog.iter().for_each(|&t| mask.set(t, may_end));
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
