//! Log-probabilities of tokens: of those that are drawn, and of known ones.

use super::candidates::Candidate;
use super::exp::exp_sum;
use super::{Sampler, Scratch, draw, not_finite};
use crate::error::Result;
use crate::grammar::Next;
use crate::request::LogprobsOf;
use crate::types::{Token, TokenLogprob};

impl Sampler {
    /// Log-probabilities of a raw row at `token`, if the request asks for them: among all tokens, or among those that may be drawn.
    pub fn logprobs(
        &self,
        logits: &[f32],
        (next, ahead): (Option<&Next>, &[Token]),
        token: Token,
        scratch: &mut Scratch,
    ) -> Option<TokenLogprob> {
        let spec = self.params.spec();
        let k = spec.logprobs?;
        let Scratch { row, candidates, .. } = scratch;
        let row = match spec.logprobs_of {
            LogprobsOf::Raw => logits,
            LogprobsOf::Allowed => {
                row.clear();
                row.extend_from_slice(logits);
                if let Some(allowed) = self.allowed(next, self.position + ahead.len() as u32) {
                    allowed.keep(row);
                }
                self.keep_only(row);
                row
            }
        };
        let told = logprobs_of(row, token, k, candidates);
        let wanted = spec.origins && spec.logprobs_of == LogprobsOf::Raw;
        let allowed = if wanted { share(logits, next) } else { None };
        Some(TokenLogprob { allowed, ..told })
    }

    /// Log-probabilities of known tokens, each by the raw row before it, with `top` alternatives.
    ///
    /// # Errors
    /// `Error::Executor` where a row is not finite.
    pub fn scores(
        &self,
        rows: &[&[f32]],
        tokens: impl Iterator<Item = Token>,
        top: u32,
        scratch: &mut Scratch,
    ) -> Result<Vec<TokenLogprob>> {
        let score = |(row, token): (&&[f32], Token)| {
            let score = logprobs_of(row, token, top, &mut scratch.candidates);
            if score.logprob.is_nan() { Err(not_finite()) } else { Ok(score) }
        };
        rows.iter().zip(tokens).map(score).collect()
    }
}

/// The probability, by a raw row, of all tokens together that the constraint allows; None where it allows any.
fn share(logits: &[f32], next: Option<&Next>) -> Option<f32> {
    let mask = next.and_then(Next::mask)?;
    let best = logits.iter().fold(f32::NEG_INFINITY, |m, l| m.max(*l));
    let allowed = (0..).zip(logits).filter(|(token, _)| mask.allows(*token));
    let kept = Vec::from_iter(allowed.map(|(_, logit)| *logit));
    Some((exp_sum(&kept, best, |l| l) / exp_sum(logits, best, |l| l)) as f32)
}

/// The log-probabilities of `token` and of the `k` likeliest tokens: the log-softmax of the row.
fn logprobs_of(row: &[f32], token: Token, k: u32, buffer: &mut Vec<Candidate>) -> TokenLogprob {
    let best = row.iter().fold(f32::NEG_INFINITY, |m, l| m.max(*l));
    let log_sum = f64::from(best) + exp_sum(row, best, |l| l).ln();
    let logprob = |l: f32| (f64::from(l) - log_sum) as f32;
    buffer.clear();
    if k > 0 {
        draw::top_k(row, k as usize, buffer);
    }
    let top = buffer.iter().filter(|c| c.1 > f32::NEG_INFINITY).map(|c| (c.0, logprob(c.1))).collect();
    TokenLogprob { token, logprob: logprob(row[token as usize]), top, allowed: None }
}
