//! Modified rejection sampling (Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023; Chen et
//! al., "Accelerating Large Language Model Decoding with Speculative Sampling", 2023).
//!
//! With p the target's distribution at a position, after mask, penalties and truncation, and q the one that the drafted
//! token x was drawn from, x is kept with probability min(1, p(x) / q(x)); else the token comes from the positive part of
//! p - q. Behind a draft that is kept as a whole one more token comes from p. So every token has the distribution p,
//! whatever q is. The noises for drafting, keeping and recovering are independent of each other.

use super::{Verdict, Walk, fresh_mask, room};
use crate::error::Result;
use crate::exec::{Draft, Job};
use crate::sampler::{Drawn, Purpose, Sampler, Scratch};
use crate::types::{Refusal, Token};

/// Tokens with their weights.
type Weights = [(Token, f32)];

/// The decisions of the rule; tests replace one by a wrong one, and see whether that is noticed.
pub(super) trait Rule {
    /// Chance for the token `ahead` tokens after the committed ones.
    fn chance(&self, sampler: &Sampler, ahead: usize) -> f64 {
        sampler.chance(ahead)
    }

    /// Whether a token is kept.
    fn keeps(&self, chance: f64, p: f32, q: f32) -> bool {
        chance * f64::from(q) < f64::from(p)
    }

    /// The token in place of one that was not kept. None only where p and q are equal but for rounding.
    fn recover(&self, sampler: &Sampler, (p, q): (&Weights, &Weights), ahead: usize) -> Option<Token> {
        sampler.draw_from(positive_part(p, q), Purpose::Recover, ahead)
    }

    /// The token behind a draft that was kept as a whole.
    fn bonus(&self, sampler: &Sampler, p: &Weights, drafted: &[Token]) -> Option<Token> {
        sampler.draw_from(p.iter().copied(), Purpose::Draw, drafted.len())
    }
}

/// The right rule.
struct Modified;

impl Rule for Modified {}

/// Walks the rows of one job; row `i` is the target's after the first `i` drafted tokens. See [`super::exact`].
///
/// # Errors
/// As [`super::exact`].
pub(in crate::exec) fn rejection(
    job: &mut Job,
    rows: &[&[f32]],
    scratch: &mut Scratch,
    verdict: &mut Verdict,
) -> Result<()> {
    by(&Modified, job, rows, (scratch, verdict))
}

fn by(
    rule: &impl Rule,
    job: &mut Job,
    rows: &[&[f32]],
    (scratch, verdict): (&mut Scratch, &mut Verdict),
) -> Result<()> {
    let Job { draft, sampler, grammar, budget, .. } = job;
    let mut walk = Walk::new(grammar.as_mut());
    let mut p = std::mem::take(&mut scratch.spread);
    for (at, row) in rows.iter().enumerate() {
        let fresh = fresh_mask(&mut walk, verdict, (draft, sampler), (at, row.len()))?;
        let mask = draft.masks.get(at).or(fresh.as_ref());
        if !sampler.spread(row, mask, &verdict.tokens, (scratch, &mut p))? {
            verdict.ended = true;
            verdict.refusal = draft.tokens.get(at).map(|_| Refusal::Grammar);
            break;
        }
        let drafted = draft.tokens.get(at).copied();
        let (token, kept) = drawn(rule, (draft, sampler), at, &p);
        let Some(token) = token else { break };
        let logprobs = sampler.logprobs(row, token, scratch);
        let drawn = Drawn::Token(token, logprobs);
        let Drawn::Token(fitting, logprobs) =
            room::fitting(drawn, &mut walk, verdict, (sampler, *budget), (row, mask, scratch))?
        else {
            verdict.ended = true;
            verdict.refusal = drafted.map(|_| Refusal::Grammar);
            break;
        };
        let kept = kept && fitting == token;
        verdict.logprobs.extend(logprobs);
        verdict.tokens.push(fitting);
        let Some(drafted) = drafted else { break };
        if !kept {
            let allowed = mask.is_none_or(|mask| mask.allows(drafted));
            verdict.refusal = Some(if allowed { Refusal::Target } else { Refusal::Grammar });
            break;
        }
        if sampler.is_end(drafted) || !walk.push(drafted)? {
            verdict.refusal = Some(Refusal::End);
            break;
        }
        verdict.accepted += 1;
    }
    scratch.spread = p;
    Ok(())
}

/// The token of this place by the rule, of which `p` is the target's distribution, and whether it is the drafted one.
fn drawn(
    rule: &impl Rule,
    (draft, sampler): (&Draft, &Sampler),
    at: usize,
    p: &Weights,
) -> (Option<Token>, bool) {
    let Some(&drafted) = draft.tokens.get(at) else { return (rule.bonus(sampler, p, &draft.tokens), false) };
    let certain = [(drafted, 1.0)];
    let q = draft.probs.get(at).filter(|q| !q.is_empty()).map_or(&certain[..], |q| &q[..]);
    if rule.keeps(rule.chance(sampler, at), weight(p, drafted), weight(q, drafted)) {
        return (Some(drafted), true);
    }
    let bonus = || rule.bonus(sampler, p, &draft.tokens[..at]);
    (rule.recover(sampler, (p, q), at).or_else(bonus), false)
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
