//! Masks of outputs that may have only so many more tokens.
//!
//! An engine that samples by itself takes any token of a mask. So the mask has only tokens behind which the output can still
//! be completed in time, which [`Cursor::fits`](crate::Cursor::fits) tells of one token.

use super::mask::{Mask, Next};
use super::room::{LONGEST, Way};
use super::sections::{At, Free, FreeStage, Place, Plan, Stage};
use crate::error::Result;

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
                Next::Any { end } => self.ends.and_all(end, self.ends.width),
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
}
