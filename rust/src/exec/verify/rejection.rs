//! Modified rejection sampling (Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023; Chen et
//! al., "Accelerating Large Language Model Decoding with Speculative Sampling", 2023).
//!
//! With p the target's distribution at a position, after mask, penalties and truncation, and q the one that the drafted
//! token x was drawn from, x is kept with probability min(1, p(x) / q(x)); else the token comes from the positive part of
//! p - q. Behind a draft that is kept as a whole one more token comes from p. So every token has the distribution p,
//! whatever q is. The noises for drafting, keeping and recovering are independent of each other.

use crate::exec::Draft;
use crate::sampler::{Purpose, Sampler};
use crate::types::Token;

/// Tokens with their weights.
type Weights = [(Token, f32)];

/// The token for a place of the draft, where `p` is the target's distribution, and whether it is the drafted one, kept.
pub(super) type Rule<'a> = dyn Fn(&Sampler, &Draft, usize, &Weights) -> (Token, bool) + 'a;

/// The right rule.
pub(super) fn modified(sampler: &Sampler, draft: &Draft, at: usize, p: &Weights) -> (Token, bool) {
    let drawn = || sampler.draw_from(p.iter().copied(), Purpose::Draw, at);
    let draw = || drawn().expect("the likeliest token has a probability. This is a bug.");
    let Some(&drafted) = draft.tokens.get(at) else { return (draw(), false) };
    let certain = [(drafted, 1.0)];
    let q = draft.probs.get(at).filter(|q| !q.is_empty()).map_or(&certain[..], |q| &q[..]);
    if sampler.chance(at) * f64::from(weight(q, drafted)) < f64::from(weight(p, drafted)) {
        return (drafted, true);
    }
    // None only where p and q are equal but for rounding.
    let other = sampler.draw_from(positive_part(p, q), Purpose::Recover, at);
    (other.unwrap_or_else(draw), false)
}

fn weight(weights: &Weights, token: Token) -> f32 {
    weights.binary_search_by_key(&token, |w| w.0).map_or(0.0, |i| weights[i].1)
}

/// What p has more than q; both ascend by id.
fn positive_part(p: &Weights, q: &Weights) -> impl Iterator<Item = (Token, f32)> {
    let mut q = q.iter().copied().peekable();
    p.iter().map(move |&(token, p)| {
        while q.next_if(|w| w.0 < token).is_some() {}
        let q = q.next_if(|w| w.0 == token).map_or(0.0, |w| w.1);
        (token, (p - q).max(0.0))
    })
}

#[cfg(test)]
mod tests;
