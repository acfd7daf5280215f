//! Masks of outputs that may have only so many more tokens.
//!
//! An engine that samples by itself takes any token of a mask. So the mask has only tokens behind which the output can still
//! be completed in time, which [`Cursor::fits`](crate::Cursor::fits) tells of one token. Tokens behind which a text is in the same
//! place are looked at together, and the longest of their ways is remembered by the state before them: most masks are passed on
//! as they are.

use super::ending::Group;
use super::mask::{Mask, Next};
use super::masks::Masks;
use super::room::{LONGEST, Room, Way};
use super::sections::{At, Free, FreeStage, Place, Plan, Stage};
use super::unique::Filter;
use crate::error::Result;
use crate::types::Token;

/// A filter may lead a way to the end around what has been there. Only the way itself is known to be in time where fewer tokens are left
/// than it has and these.
const DETOUR: usize = 16;

impl Plan {
    /// What may come next where the output may have `left` more tokens, at least one. The same as [`Plan::next`] where it can't be told how
    /// the output is completed.
    pub(super) fn next_within(&self, at: &mut At, left: usize) -> Result<Next> {
        let next = self.next(at)?;
        if !self.complete || left > LONGEST {
            return Ok(next);
        }
        let behind = self.behind(at);
        match (&mut at.place, &self.stages[at.section], next) {
            (Place::Bound(part), _, Next::Only(mask)) => {
                Ok(Next::Only(part.within(mask, left.saturating_sub(behind + 1))))
            }
            (Place::Free(free), Stage::Free(stage), next) => {
                let free = *free;
                self.free_within(at, (stage, free), next, left)
            }
            (_, _, next) => Ok(next),
        }
    }

    /// Of free text: a token that completes a trigger must leave enough for what follows, and any other enough for a trigger.
    fn free_within(
        &self,
        at: &mut At,
        (stage, free): (&FreeStage, Free),
        next: Next,
        left: usize,
    ) -> Result<Next> {
        let triggers = stage.triggers.list().iter();
        let closing = stage.limit.as_ref().map_or(0, |(_, close)| close.len());
        let most = triggers.filter_map(|trigger| Some(trigger.text.len() + self.least[trigger.next?])).min();
        let is_enough = stage.may_end || most.is_some_and(|most| most + closing < left);
        let mut mask = if is_enough {
            match next {
                Next::Any { end } => self.all(end),
                Next::Only(mask) => mask,
            }
        } else {
            Mask::none(self.ends.width)
        };
        for token in &stage.crossing {
            if mask.allows(*token) {
                let mut state = free.state;
                let crosses = stage.triggers.feed(&mut state, self.vocab.bytes(*token)).is_some();
                if crosses && !self.fits(at, *token, left - 1)? {
                    mask.set(*token, false);
                }
            }
        }
        if let Way::Found(way) = self.way(at, usize::MAX)
            && let Some(first) = way.first()
        {
            mask.set(*first, true);
        }
        Ok(Next::Only(mask))
    }

    /// All tokens; the end tokens if the text may end.
    pub(super) fn all(&self, end: bool) -> Mask {
        let mut mask = Mask::all(self.ends.width);
        self.ends.eog.iter().for_each(|token| mask.set(*token, end));
        mask
    }
}

impl Room {
    /// Those of a mask behind which `left` more tokens complete the text, and the end tokens `ends` in it.
    pub(super) fn within(
        &mut self,
        of: (Option<&Filter>, &Masks),
        (mask, ends): (Mask, &[Token]),
        left: usize,
    ) -> Mask {
        let masks = of.1;
        let Some(extra) = self.extra(of) else { return mask };
        let state = self.state().behind_any();
        if masks.reach(state).is_some_and(|reach| reach as usize + extra <= left) {
            return mask;
        }
        // No way has more tokens than bytes.
        let Some(reach) = self.reach(&mask, ends) else { return mask };
        if reach + extra <= left {
            masks.put_reach(state, reach as u32);
            return mask;
        }
        let Some(groups) = self.groups(&mask, ends) else { return mask };
        let (mut mask, reach) = self.in_time(masks, (mask, groups), left.checked_sub(extra));
        masks.put_reach(state, reach as u32);
        if of.0.is_some()
            && let Way::Found(way) = self.way(of, None, usize::MAX)
            && let Some(first) = way.first()
        {
            mask.set(*first, true);
        }
        mask
    }

    /// How many more tokens than the grammar a filter may need to complete the text. None where that cannot be told.
    fn extra(&mut self, (filter, masks): (Option<&Filter>, &Masks)) -> Option<usize> {
        if filter.is_none() {
            return Some(0);
        }
        let Way::Found(way) = self.way((filter, masks), None, usize::MAX) else { return None };
        Some(way.len().saturating_sub(self.length(masks)?) + DETOUR)
    }

    /// The tokens behind which the grammar completes the text with `left` more, and the length of the longest way behind any.
    fn in_time(
        &mut self,
        masks: &Masks,
        (mut mask, groups): (Mask, Vec<Group>),
        left: Option<usize>,
    ) -> (Mask, usize) {
        let mut reach = 0;
        for group in groups {
            // Forced bytes are tokenized together with the token before, on which their number depends.
            let alike = if group.is_forced { 1 } else { group.tokens.len() };
            for tokens in group.tokens.chunks(alike) {
                let length = self.length_behind(masks, tokens[0]).unwrap_or(0);
                reach = reach.max(length);
                if left.is_none_or(|left| length > left) {
                    tokens.iter().for_each(|token| mask.set(*token, false));
                }
            }
        }
        (mask, reach)
    }
}
