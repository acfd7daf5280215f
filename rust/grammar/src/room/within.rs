//! Which tokens of a mask leave enough to complete the text.
//!
//! Tokens behind which a text is in the same place are looked at together, and the longest of their ways is remembered by the state
//! before them: most masks are passed on as they are.

use super::{LONGEST, Room, Taken, Way};
use crate::ending::Group;
use crate::mask::Mask;
use crate::masks::Masks;
use crate::types::Token;
use crate::unique::Filter;

/// A filter may lead a way to the end around what has been there. Only the way itself is known to be in time where fewer tokens are left
/// than it has and these.
const DETOUR: usize = 16;

impl Room {
    /// Those of a mask behind which `left` more tokens complete the text, and the end tokens `ends` in it.
    pub(in super::super) fn within(
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

    /// The most of the fewest bytes that complete the text behind a token of its mask, `ends` aside. None where that cannot be told.
    fn reach(&mut self, mask: &Mask, ends: &[Token]) -> Option<usize> {
        self.leave_tried();
        self.ending.reach(&self.endings, (mask, ends))
    }

    /// The tokens of a mask, except `ends`, by where the text is behind them. None where our states cannot tell.
    fn groups(&mut self, mask: &Mask, ends: &[Token]) -> Option<Vec<Group>> {
        self.leave_tried();
        self.ending.groups(&self.endings, mask.iter().filter(|token| !ends.contains(token)))
    }

    /// Tokens that complete the text as far as the grammar goes; None where that cannot be told.
    fn length(&mut self, masks: &Masks) -> Option<usize> {
        self.leave_tried();
        let known = masks.length(self.ending.state()).map(|length| length as usize);
        known.or_else(|| self.walk((None, masks), None, LONGEST, true).map(|walked| walked.length()))
    }

    /// The same behind a token that may come.
    fn length_behind(&mut self, masks: &Masks, token: Token) -> Option<usize> {
        self.leave_tried();
        let mark = self.ending.mark();
        let taken = self.ending.push(&self.endings, token) == Taken::Yes;
        let length = if taken { self.length(masks) } else { None };
        self.ending.back(mark);
        length
    }
}
