//! A walk ahead of a sequence, in which a source draws token by token under the grammar.
//!
//! Tokens that the grammar forces need no row, nor do those that are usual in a state of it; and the masks go to verify. A
//! token is drawn with the target's sampler and noise, so that it is the same wherever the rows agree.

use super::Ask;
use crate::config::{Acceptance, DraftSource};
use crate::error::{Result, caught};
use crate::grammar::{Cursor, Grammar, Next};
use crate::sampler::{Purpose, Scratch};
use crate::types::Token;

/// Tokens that one is drawn from for acceptance by rejection. Their probabilities go with the draft, 8 KiB for each of its
/// tokens, where all of a vocabulary take a megabyte.
const MOST_DRAWN: usize = 1024;

/// One sequence's draft in the making.
pub(super) struct Walk<'a, 'b> {
    /// Without its grammar.
    pub(super) ask: &'a mut Ask<'b>,
    cursor: Option<Cursor<'b>>,
    /// Width of the target's rows, in tokens.
    width: usize,
    /// Tokens that may still be added.
    want: usize,
    /// Nothing more is drafted.
    pub(super) over: bool,
}

impl<'a, 'b> Walk<'a, 'b> {
    /// A walk from what earlier sources drafted, up to a text of `longest` tokens.
    pub(super) fn new(ask: &'a mut Ask<'b>, longest: usize, width: usize) -> Self {
        let cursor = ask.grammar.take().map(Grammar::cursor);
        let mut walk = Walk { ask, cursor, width, want: 0, over: false };
        walk.want = (walk.ask.want as usize).min(longest - walk.len());
        walk.guarded(Self::begin);
        walk
    }

    /// Whether `act` succeeded and said yes; else the walk is over. What fails here, verifying meets again, and says so.
    fn guarded(&mut self, act: impl FnOnce(&mut Self) -> Result<bool>) -> bool {
        let goes_on = matches!(caught("drafting", || act(self)), Ok(true));
        self.over |= !goes_on;
        goes_on
    }

    /// Walks over what earlier sources drafted, and cuts that off where the grammar refuses it; false where it ends the
    /// text. Such an end was drawn, and must be judged as any token that was.
    fn begin(&mut self) -> Result<bool> {
        let Ask { draft, sampler, .. } = &mut *self.ask;
        if draft.tokens.last().is_some_and(|last| sampler.is_end(*last)) {
            return Ok(false);
        }
        let Some(cursor) = &mut self.cursor else { return Ok(true) };
        for i in 0..draft.tokens.len() {
            draft.fill(i, cursor, self.width)?;
            if !cursor.push(draft.tokens[i])? {
                self.want += draft.tokens.len() - i;
                draft.cut(i);
                break;
            }
        }
        Ok(true)
    }

    /// Takes the tokens that the grammar forces or proposes; whether there is a choice then.
    pub(super) fn needs_row(&mut self) -> bool {
        self.guarded(|walk| {
            while !walk.over && walk.want > 0 {
                let Some(cursor) = &mut walk.cursor else { return Ok(true) };
                if cursor.is_ended() {
                    break;
                }
                let Ask { draft, allows, .. } = &mut *walk.ask;
                let at = draft.tokens.len();
                draft.fill(at, cursor, walk.width)?;
                let next = &draft.masks[at];
                let usual = || cursor.usual(next.mask().filter(|_| allows[DraftSource::Grammar as usize])?);
                let Some(token) = next.single().or_else(usual) else { return Ok(true) };
                if !walk.take(token)? {
                    break;
                }
            }
            Ok(false)
        })
    }

    /// Whether what may come next is as `wanted`, or anything may; else the walk is over.
    pub(super) fn next_is(&mut self, wanted: impl FnOnce(&Next) -> bool) -> bool {
        self.guarded(|walk| {
            let Some(cursor) = &mut walk.cursor else { return Ok(true) };
            let at = walk.ask.draft.tokens.len();
            walk.ask.draft.fill(at, cursor, walk.width)?;
            Ok(!cursor.is_ended() && wanted(&walk.ask.draft.masks[at]))
        })
    }

    /// Adds a token that may come; else the walk is over.
    pub(super) fn add(&mut self, token: Token) -> bool {
        let may = self.want > 0 && self.next_is(|next| next.allows(token));
        may && self.guarded(|walk| walk.take(token))
    }

    /// Draws from this row; the draft may end with it. Ids that only one side has are never drawn.
    pub(super) fn draw(&mut self, row: &[f32], scratch: &mut Scratch) {
        let row = &row[..row.len().min(self.width)];
        self.guarded(|walk| walk.drawn(row, scratch));
    }

    fn drawn(&mut self, row: &[f32], scratch: &mut Scratch) -> Result<bool> {
        let Ask { draft, sampler, drawn, .. } = &mut *self.ask;
        *drawn += 1;
        let drafted = draft.tokens.len();
        let mask = draft.masks.get(drafted);
        if draft.acceptance != Acceptance::Rejection {
            let token = sampler.guess(row, mask, &draft.tokens, scratch)?;
            return token.map_or(Ok(false), |token| self.take(token));
        }
        if !sampler.spread(row, mask, &draft.tokens, scratch)? {
            return Ok(false);
        }
        // They go with the draft until it is judged.
        let mut probs = std::mem::take(&mut scratch.spread);
        likeliest(&mut probs, MOST_DRAWN);
        let token = sampler.draw_from(probs.iter().copied(), Purpose::Draft, drafted);
        let Some(token) = token else { return Ok(false) };
        draft.probs.resize(drafted, Vec::new());
        draft.probs.push(probs);
        // What was drawn is judged, whatever it is: to drop an end token would make it rarer.
        let goes_on = self.take(token);
        if self.ask.draft.tokens.len() == drafted {
            self.ask.draft.tokens.push(token);
        }
        goes_on
    }

    /// Adds a token; false where it ends the text, which need not be drafted, or the grammar refuses it.
    fn take(&mut self, token: Token) -> Result<bool> {
        if self.ask.sampler.is_end(token) || !self.cursor.as_mut().map_or(Ok(true), |c| c.push(token))? {
            return Ok(false);
        }
        self.ask.draft.tokens.push(token);
        self.want -= 1;
        Ok(true)
    }

    /// Tokens known and drafted.
    pub(super) fn len(&self) -> usize {
        self.ask.known.len() + self.ask.draft.tokens.len()
    }

    /// Tokens that it may come to.
    pub(super) fn longest(&self) -> u64 {
        (self.len() + self.want) as u64
    }

    /// Tokens that may still be added.
    pub(super) fn wants(&self) -> usize {
        self.want
    }

    /// The tokens known and drafted, from the last one on.
    pub(super) fn before(&self) -> impl Iterator<Item = &Token> {
        self.ask.draft.tokens.iter().rev().chain(self.ask.known.iter().rev())
    }

    /// The tokens known and drafted.
    pub(super) fn text(&self) -> impl Iterator<Item = &Token> + Clone {
        self.ask.known.iter().chain(&self.ask.draft.tokens)
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
