//! A walk ahead of a sequence, in which a source draws token by token under the grammar.
//!
//! Tokens that the grammar forces need no row, nor do those that are usual in a state of it; and the masks go to verify. A
//! token is drawn with the target's sampler and noise, so that it is the same wherever the rows agree.

use super::{Ask, Draft};
use crate::config::{Acceptance, DraftSource};
use crate::error::Result;
use crate::grammar::{Cursor, Next};
use crate::sampler::{Purpose, Sampler, Scratch};
use crate::types::{Slot, Token};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Tokens that one is drawn from for acceptance by rejection. Their probabilities go with the draft, 8 KiB for each of its
/// tokens, where all of a vocabulary take a megabyte.
const MOST_DRAWN: usize = 1024;

/// One sequence's draft in the making.
pub(super) struct Walk<'a> {
    pub(super) slot: Slot,
    pub(super) known: &'a [Token],
    /// How many of the known tokens are the prompt.
    pub(super) prompt: usize,
    pub(super) draft: &'a mut Draft,
    /// See [`Ask::late`].
    pub(super) late: &'a mut bool,
    /// See [`Ask::drawn`].
    drawn: &'a mut u32,
    cursor: Option<Cursor<'a>>,
    sampler: &'a Sampler,
    /// Whether the grammar may propose tokens.
    guesses: bool,
    /// Tokens that may still be added.
    want: usize,
    /// Nothing more is drafted.
    pub(super) over: bool,
}

impl<'a> Walk<'a> {
    /// A walk from what earlier sources drafted, up to a text of `longest` tokens.
    pub(super) fn new<'b: 'a>(ask: &'a mut Ask<'b>, longest: usize) -> Self {
        let Ask { slot, known, prompt, draft, grammar, sampler, want, allows, drawn, late, .. } = ask;
        let guesses = allows[DraftSource::Grammar as usize];
        let room = longest - known.len() - draft.tokens.len();
        let cursor = grammar.as_deref_mut().map(|g| g.cursor());
        let want = room.min(*want as usize);
        let (slot, prompt) = (*slot, *prompt as usize);
        Walk { slot, known, prompt, draft, late, drawn, cursor, sampler, guesses, want, over: false }
    }

    /// Walks over what earlier sources drafted, and cuts that off where the grammar refuses it; false where it ends the
    /// text. Such an end was drawn, and must be judged as any token that was.
    pub(super) fn begin(&mut self, width: usize) -> Result<bool> {
        if self.draft.tokens.last().is_some_and(|last| self.sampler.is_end(*last)) {
            return Ok(false);
        }
        let Some(cursor) = &mut self.cursor else { return Ok(true) };
        for (i, token) in self.draft.tokens.clone().into_iter().enumerate() {
            fill(&mut self.draft.masks, i, cursor, width)?;
            if !cursor.push(token)? {
                self.want += self.draft.tokens.len() - i;
                self.draft.cut(i);
                break;
            }
        }
        Ok(true)
    }

    /// Takes the tokens that the grammar forces or proposes; whether there is a choice then.
    pub(super) fn needs_row(&mut self, width: usize) -> Result<bool> {
        while !self.over && self.want > 0 {
            let Some(cursor) = &mut self.cursor else { return Ok(true) };
            if cursor.is_ended() {
                break;
            }
            let at = self.draft.tokens.len();
            fill(&mut self.draft.masks, at, cursor, width)?;
            let next = &self.draft.masks[at];
            let usual = || cursor.usual(next.mask().filter(|_| self.guesses)?);
            let Some(token) = next.single().or_else(usual) else { return Ok(true) };
            if !self.take(token)? {
                break;
            }
        }
        self.over = true;
        Ok(false)
    }

    /// Draws from this row; false where the draft ends.
    pub(super) fn draw(&mut self, row: &[f32], scratch: &mut Scratch) -> Result<bool> {
        *self.drawn += 1;
        let drafted = self.draft.tokens.len();
        let mask = self.draft.masks.get(drafted);
        if self.draft.acceptance != Acceptance::Rejection {
            let token = self.sampler.guess(row, mask, &self.draft.tokens, scratch)?;
            return token.map_or(Ok(false), |token| self.take(token));
        }
        // They go with the draft until it is judged.
        let mut probs = Vec::new();
        if !self.sampler.spread(row, mask, &self.draft.tokens, (scratch, &mut probs))? {
            return Ok(false);
        }
        likeliest(&mut probs, MOST_DRAWN);
        let token = self.sampler.draw_from(probs.iter().copied(), Purpose::Draft, drafted);
        let Some(token) = token else { return Ok(false) };
        self.draft.probs.resize(drafted, Vec::new());
        self.draft.probs.push(probs);
        // What was drawn is judged, whatever it is: to drop an end token would make it rarer.
        let goes_on = self.take(token);
        if self.draft.tokens.len() == drafted {
            self.draft.tokens.push(token);
        }
        goes_on
    }

    /// Adds a token; false where it ends the text, which need not be drafted, or the grammar refuses it.
    fn take(&mut self, token: Token) -> Result<bool> {
        if self.sampler.is_end(token) || !self.cursor.as_mut().map_or(Ok(true), |c| c.push(token))? {
            return Ok(false);
        }
        self.draft.tokens.push(token);
        self.want -= 1;
        Ok(true)
    }

    /// Tokens known and drafted.
    pub(super) fn len(&self) -> usize {
        self.known.len() + self.draft.tokens.len()
    }

    /// Tokens that it may come to.
    pub(super) fn longest(&self) -> u64 {
        (self.len() + self.want) as u64
    }

    /// The tokens known and drafted.
    pub(super) fn text(&self) -> impl Iterator<Item = &Token> {
        self.known.iter().chain(&self.draft.tokens)
    }
}

/// Keeps the `most` likeliest tokens, ascending by id, with probabilities whose sum is 1 again. Whatever a token is drawn from,
/// judging by rejection gives the target's distribution.
fn likeliest(probs: &mut Vec<(Token, f32)>, most: usize) {
    if probs.len() <= most {
        return;
    }
    probs.select_nth_unstable_by(most, |a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    probs.truncate(most);
    probs.shrink_to_fit();
    probs.sort_unstable_by_key(|(token, _)| *token);
    let all: f32 = probs.iter().map(|(_, p)| p).sum();
    probs.iter_mut().for_each(|(_, p)| *p /= all);
}

/// Computes the mask for position `at` of the draft, unless an earlier source has.
fn fill(masks: &mut Vec<Next>, at: usize, cursor: &mut Cursor<'_>, width: usize) -> Result<()> {
    if masks.len() == at {
        masks.push(cursor.mask()?.widened(width));
    }
    Ok(())
}

/// Whether `act` succeeded and said yes. What fails here, verifying meets again, and says so.
pub(super) fn guarded(act: impl FnOnce() -> Result<bool>) -> bool {
    matches!(catch_unwind(AssertUnwindSafe(act)), Ok(Ok(true)))
}

/// The row with the target's width: ids that only one side has are never drawn.
pub(super) fn widened<'a>(row: &'a [f32], width: usize, buffer: &'a mut Vec<f32>) -> &'a [f32] {
    if row.len() >= width {
        return &row[..width];
    }
    buffer.clear();
    buffer.extend_from_slice(row);
    buffer.resize(width, f32::NEG_INFINITY);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_tokens_are_kept_with_all_of_the_probability() {
        let few = vec![(1, 0.25), (5, 0.75)];
        let mut kept = few.clone();
        likeliest(&mut kept, 2);
        assert_eq!(kept, few);
        let mut many = vec![(1, 0.125), (2, 0.25), (4, 0.125), (7, 0.25), (9, 0.25)];
        likeliest(&mut many, 4);
        let part = 1.0 / 0.875;
        assert_eq!(many, [(1, 0.125 * part), (2, 0.25 * part), (7, 0.25 * part), (9, 0.25 * part)]);
    }
}
