//! One llguidance matcher: what is committed to it, and how a walk ahead in it is undone.

use super::ending::{Ending, Endings};
use super::mask::Mask;
use super::room::Ways;
use super::text;
use super::unique::{Ahead, Filter, Rules};
use crate::error::{Error, Result};
use crate::types::Token;
use llguidance::Matcher;
use llguidance::api::StopReason;
use std::fmt;
use std::sync::Arc;

/// A compiled grammar at its beginning. Never walked: clones are.
pub(super) struct Pristine {
    pub(super) matcher: Matcher,
    pub(super) can_rollback: bool,
    pub(super) ends: Arc<Ends>,
    /// See [`super::Grammar::guide`].
    pub(super) guide: Option<String>,
    /// What is enforced beside the grammar.
    pub(super) rules: Option<Arc<Rules>>,
    /// How its texts can be completed; None where that need not be known, or cannot be.
    pub(super) endings: Option<Endings>,
}

/// The end tokens, and the width of a mask.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) eog: Vec<Token>,
    pub(super) width: usize,
}

impl fmt::Debug for Pristine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pristine").field("can_rollback", &self.can_rollback).finish_non_exhaustive()
    }
}

/// A grammar, and the tokens that are committed to it.
pub(super) struct Part {
    pub(super) pristine: Arc<Pristine>,
    pub(super) live: Matcher,
    history: Vec<Token>,
    /// Beside the matcher, and as it was at the last committed token.
    pub(super) filter: Option<Filter>,
    kept: Option<Filter>,
    pub(super) ending: Option<Ending>,
    pub(super) ways: Ways,
}

impl Part {
    /// At its beginning. Costs 20 to 200 µs.
    pub(super) fn new(pristine: Arc<Pristine>) -> Self {
        let live = pristine.matcher.deep_clone();
        let filter = pristine.rules.as_ref().map(Filter::new);
        let ending = pristine.endings.as_ref().map(Endings::begin);
        Part {
            pristine,
            live,
            history: Vec::new(),
            kept: filter.clone(),
            filter,
            ending,
            ways: Ways::default(),
        }
    }

    /// The same state apart from this one, to go on from.
    pub(super) fn apart(&self) -> Self {
        let (filter, kept) = (self.filter.clone(), self.filter.clone());
        let (pristine, ending, ways) = (Arc::clone(&self.pristine), self.ending.clone(), self.ways.clone());
        Part { pristine, live: self.live.deep_clone(), history: Vec::new(), filter, kept, ending, ways }
    }

    pub(super) fn mask(&mut self) -> Result<Mask> {
        let mut mask = mask_of(&mut self.live, &self.pristine.ends)?;
        if let Some(filter) = self.filter.as_ref().filter(|_| !ended(&self.live)) {
            let mut ahead = Walk { live: &mut self.live, pristine: &self.pristine, walked: false };
            filter.apply(&mut mask, &mut ahead);
            if ahead.walked {
                // As in `undo`.
                self.live.invalidate_bias_cache();
            }
            if mask.words().iter().all(|w| *w == 0) {
                return Err(broken("no item is left that has not been there"));
            }
        }
        Ok(mask)
    }

    /// Whether the last mask came from walking the trie: such a mask is kept by the matcher, and may come up again.
    pub(super) fn walked_trie(&self) -> bool {
        self.live.last_step_stats().map_or(true, |s| s.trie_nodes_walked > 0)
    }

    /// Walks over a token; false where it is refused or an end token.
    pub(super) fn push(&mut self, token: Token) -> Result<bool> {
        // An id past the vocabulary would spoil the matcher.
        if token as usize >= self.pristine.ends.width || self.pristine.ends.eog.contains(&token) {
            return Ok(false);
        }
        let filter = match &self.filter {
            Some(filter) => match filter.after(token) {
                None => return Ok(false),
                next => next,
            },
            None => None,
        };
        let taken = self.live.try_consume_tokens(&[token]).map_err(|e| broken(&e.to_string()))? == 1;
        if taken {
            self.filter = filter;
            if let (Some(ending), Some(endings)) = (&mut self.ending, &self.pristine.endings) {
                ending.push(endings, token);
                self.ways.push(token);
            }
        }
        Ok(taken)
    }

    /// Notes that the tokens last walked over are committed.
    pub(super) fn keep(&mut self, tokens: &[Token]) {
        self.history.extend_from_slice(tokens);
        self.kept.clone_from(&self.filter);
        self.ending.iter_mut().for_each(Ending::keep);
        self.ways.keep();
    }

    /// Whether these tokens could come next; the state stays.
    pub(super) fn takes(&mut self, tokens: &[Token]) -> Result<bool> {
        self.live.validate_tokens(tokens).map(|n| n == tokens.len()).map_err(|e| broken(&e.to_string()))
    }

    /// Whether the text may end here.
    pub(super) fn may_end(&mut self) -> bool {
        ended(&self.live) || self.live.is_accepting().unwrap_or(false)
    }

    /// Whether nothing may follow.
    pub(super) fn is_ended(&self) -> bool {
        ended(&self.live)
    }

    /// Undoes a walk of `pushed` tokens; `masked_ahead`: a mask was computed after the first of them.
    pub(super) fn undo(&mut self, pushed: usize, masked_ahead: bool) {
        self.filter.clone_from(&self.kept);
        self.ending.iter_mut().for_each(Ending::undo);
        self.ways.undo();
        if self.live.is_error() || (pushed > 0 && self.live.rollback(pushed).is_err()) {
            self.rebuild();
        } else if masked_ahead {
            self.live.invalidate_bias_cache();
        }
    }

    /// Walks the committed tokens again from the pristine compilation: 0.6 ms for 238 tokens.
    fn rebuild(&mut self) {
        self.live = self.pristine.matcher.deep_clone();
        // A failure here stays in the matcher and is what the next mask reports.
        let _ = self.live.consume_tokens(&self.history);
    }
}

/// A walk ahead of a matcher, which is undone token by token.
pub(super) struct Walk<'a> {
    pub(super) live: &'a mut Matcher,
    pub(super) pristine: &'a Pristine,
    pub(super) walked: bool,
}

impl Ahead for Walk<'_> {
    fn mask(&mut self) -> Option<Mask> {
        mask_of(self.live, &self.pristine.ends).ok()
    }

    fn push(&mut self, token: Token) -> bool {
        if !self.pristine.can_rollback || self.pristine.ends.eog.contains(&token) {
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
