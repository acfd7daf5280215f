//! Draws where `max_tokens` comes near: an output that is constrained is completed.
//!
//! Of the tokens that the mask allows, only those may come behind which the output can still be completed. That is asked of the
//! token that was drawn, and where it does not fit, of the next draw among the others: by the noise for each token that is a draw
//! from the distribution without those that do not fit. Where few are left, the next token on the way to the end comes.

use super::{Verdict, Walk};
use crate::error::Result;
use crate::grammar::{Mask, Next};
use crate::sampler::{Drawn, Sampler, Scratch};

/// Draws before the next token on the way to the end is taken.
const DRAWS: usize = 8;

/// What is drawn in place of `drawn`, by the same row and mask, behind which the output can be completed. `budget`: tokens that
/// it may still take, from the first of the verdict on.
pub(super) fn fitting(
    drawn: Drawn,
    walk: &mut Walk<'_>,
    verdict: &mut Verdict,
    (sampler, budget): (&Sampler, u32),
    (row, mask, scratch): (&[f32], Option<&Next>, &mut Scratch),
) -> Result<Drawn> {
    let (Drawn::Token(token, _), Walk::Ahead(cursor)) = (&drawn, walk) else { return Ok(drawn) };
    let left = budget.saturating_sub(verdict.tokens.len() as u32 + 1);
    // A way to the end may lead over tokens that the request does not allow.
    if sampler.request().spec().allowed_token_ids.is_some() || cursor.fits(*token, left)? {
        return Ok(drawn);
    }
    // Where no way to the end is known, none can be kept open.
    let Some((next, least)) = cursor.way() else { return Ok(drawn) };
    verdict.shortened = true;
    let mut others = mask.map_or_else(|| Mask::all(row.len()), |mask| cursor.listed(mask, row.len()));
    others.set(*token, false);
    // With no more left than the way takes, only its tokens fit.
    for _ in 0..if left < least { 0 } else { DRAWS } {
        if others.count() == 0 {
            break;
        }
        match sampler.draw(row, Some(&Next::Only(others.clone())), &verdict.tokens, scratch)? {
            Drawn::Token(token, _) if !cursor.fits(token, left)? => others.set(token, false),
            drawn => return Ok(drawn),
        }
    }
    let mut only = Mask::none(row.len());
    only.set(next, true);
    sampler.draw(row, Some(&Next::Only(only)), &verdict.tokens, scratch)
}
