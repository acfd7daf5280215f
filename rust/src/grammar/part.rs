//! One llguidance matcher: what is committed to it, and how a walk ahead in it is undone.

use super::ending::Endings;
use super::mask::Mask;
use super::matching::{Ends, Walk, broken, ended, mask_of};
use super::room::{LONGEST, Room, Way};
use super::unique::{Filter, Rules};
use crate::error::Result;
use crate::types::Token;
use llguidance::Matcher;
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
    pub(super) endings: Option<Arc<Endings>>,
}

impl fmt::Debug for Pristine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pristine").field("can_rollback", &self.can_rollback).finish_non_exhaustive()
    }
}

/// A grammar, and the tokens that are committed to it.
pub(super) struct Part {
    pub(super) pristine: Arc<Pristine>,
    live: Matcher,
    history: Vec<Token>,
    /// Beside the matcher, and as it was at the last committed token.
    filter: Option<Filter>,
    kept: Option<Filter>,
    room: Option<Room>,
}

impl Part {
    /// At its beginning. Costs 20 to 200 µs.
    pub(super) fn new(pristine: Arc<Pristine>) -> Self {
        let live = pristine.matcher.deep_clone();
        let filter = pristine.rules.as_ref().map(Filter::new);
        let room = pristine.endings.as_ref().map(Room::new);
        Part { pristine, live, history: Vec::new(), kept: filter.clone(), filter, room }
    }

    /// The same state apart from this one, to go on from.
    pub(super) fn apart(&self) -> Self {
        let (filter, kept) = (self.filter.clone(), self.filter.clone());
        let (pristine, room) = (Arc::clone(&self.pristine), self.room.as_ref().map(Room::apart));
        Part { pristine, live: self.live.deep_clone(), history: Vec::new(), filter, kept, room }
    }

    pub(super) fn mask(&mut self) -> Result<Mask> {
        let mut mask = mask_of(&mut self.live, &self.pristine.ends)?;
        if let Some(filter) = self.filter.as_ref().filter(|_| !ended(&self.live)) {
            let mut ahead = Walk::new(&mut self.live, &self.pristine.ends, self.pristine.can_rollback);
            filter.apply(&mut mask, &mut ahead);
            ahead.finish();
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
            self.room.iter_mut().for_each(|room| room.push(token));
        }
        Ok(taken)
    }

    /// Notes that the tokens last walked over are committed.
    pub(super) fn keep(&mut self, tokens: &[Token]) {
        self.history.extend_from_slice(tokens);
        self.kept.clone_from(&self.filter);
        self.room.iter_mut().for_each(Room::keep);
    }

    /// Whether these tokens could come next; the state stays.
    pub(super) fn takes(&mut self, tokens: &[Token]) -> Result<bool> {
        self.live.validate_tokens(tokens).map(|n| n == tokens.len()).map_err(|e| broken(&e.to_string()))
    }

    /// Whether the text with this token can be completed by `left` more; true where that cannot be told.
    pub(super) fn fits(&mut self, token: Token, left: usize) -> bool {
        let Some(room) = self.room.as_mut().filter(|_| left < LONGEST) else { return true };
        // Items that have been there are not seen in the bytes that are left, and may need a longer way.
        let is_free = self.filter.as_ref().is_none_or(|filter| !filter.remembers());
        let known = if is_free { room.fits(token, left) } else { None };
        known.unwrap_or_else(|| self.way(Some(token), left) != Way::Longer)
    }

    /// How the text can be completed by at most `most` tokens, behind `first` where that is given.
    pub(super) fn way(&mut self, first: Option<Token>, most: usize) -> Way {
        let Some(room) = &mut self.room else { return Way::Unknown };
        let Pristine { ends, can_rollback, .. } = &*self.pristine;
        room.way((&self.live, self.filter.as_ref()), (ends, *can_rollback), first, most)
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
        self.room.iter_mut().filter(|_| pushed > 0).for_each(Room::undo);
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
