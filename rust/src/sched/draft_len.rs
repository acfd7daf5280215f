//! How far drafts may reach in one step.
//!
//! A draft is never worth a preemption, a kept prefix or another sequence's tokens: it takes what they leave ([`Room`]).
//! Within that, the lengths of a step are those with the most expected tokens per second ([`best`]); of about equal ones
//! the shortest. No draft at all is preferred to lengths that promise less than a tenth more.
//!
//! Tokens: of a sequence whose drafts are accepted with probability `f` at the first token and with `a` at each that
//! follows an accepted one, `1 + f + f a + … + f a^(k-1)` of `k`; forced tokens, which are known beforehand, count in full.
//! The first is apart, since some sources seldom find a token, and then find many. Seconds: what [`costs`](super::costs) say.
//!
//! Where ragged runs cost passes there is one length for all, evaluated for every length; else each sequence has its
//! own: the likeliest tokens of all sequences are added one by one, and the best number of them is taken.

use crate::sequence::{Odds, Sequence};

/// What a step leaves to drafts.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Tokens of the step's budget, and rows of logits.
    pub tokens: u32,
    /// KV tokens that neither running sequences nor kept prefixes need.
    pub kv: u64,
    /// KV tokens that one slot may hold.
    pub per_slot: u32,
}

impl Room {
    /// An equal part for each of `n` sequences.
    pub fn split(self, n: usize) -> Room {
        let n = u32::try_from(n.max(1)).unwrap_or(u32::MAX);
        Room { tokens: self.tokens / n, kv: self.kv / u64::from(n), ..self }
    }

    /// Tokens that may be drafted for `sequence` out of this, at most `most`.
    pub fn of(&self, sequence: &Sequence, most: u32) -> u32 {
        let kv = u32::try_from(self.kv).unwrap_or(u32::MAX);
        let slot = self.per_slot.saturating_sub(sequence.known());
        sequence.draft_len(most).min(slot).min(self.tokens).min(kv)
    }
}

/// One sequence's prospects in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prospect {
    /// Its forced tokens, which come first.
    pub forced: u32,
    /// How the tokens after these are accepted.
    pub odds: Odds,
    /// Most tokens that it may have drafted.
    pub most: u32,
}

impl Prospect {
    /// Probability that token `i`, counted from 0, is accepted.
    fn gain(&self, i: u32) -> f64 {
        match i.checked_sub(self.forced) {
            _ if i >= self.most => 0.0,
            None => 1.0,
            Some(beyond) => self.odds.first * self.odds.next.powi(beyond.cast_signed()),
        }
    }
}

/// Drafts that a step asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// All sequences of the step.
    pub sequences: usize,
    /// Those of them that something beyond forced tokens is asked for.
    pub asking: usize,
    /// Forced tokens among the drafts, in all.
    pub forced: u32,
    /// Tokens beyond these, in all.
    pub guessed: u32,
    /// Most of such tokens for one sequence.
    pub longest: u32,
}

impl Asked {
    /// What these lengths ask for.
    fn new(prospects: &[Prospect], lengths: impl Iterator<Item = u32>) -> Self {
        let mut asked = Asked { sequences: prospects.len(), asking: 0, forced: 0, guessed: 0, longest: 0 };
        for (prospect, length) in prospects.iter().zip(lengths) {
            let guessed = length.saturating_sub(prospect.forced);
            asked.asking += usize::from(guessed > 0);
            asked.forced += length - guessed;
            asked.guessed += guessed;
            asked.longest = asked.longest.max(guessed);
        }
        asked
    }
}

/// Speeds that differ by less are taken for equal, and the shorter draft is chosen.
pub(super) const NOISE: f64 = 0.02;
/// Drafts that promise less more speed than this are left out: the best of many lengths, measured with errors, promises
/// more than it keeps, and never to be slower counts for more than the last tenth.
pub(super) const LEAST_GAIN: f64 = 0.1;

/// The lengths with the most tokens per second, forced tokens included, and these; `seconds`: of a step with such drafts;
/// `ragged`: differing lengths cost nothing extra.
pub fn best(prospects: &[Prospect], ragged: bool, seconds: impl Fn(Asked) -> f64) -> (Vec<u32>, f64) {
    if ragged {
        return spread(prospects, seconds);
    }
    let speeds = (0..=longest(prospects)).map(|length| speed(prospects, length, &seconds)).collect();
    let (best, speed) = shortest(speeds);
    (uniform(prospects, best as u32), speed)
}

/// Most tokens that any of them may have drafted.
pub fn longest(prospects: &[Prospect]) -> u32 {
    prospects.iter().map(|p| p.most).max().unwrap_or(0)
}

/// A length for all, where each may have so many.
pub fn uniform(prospects: &[Prospect], length: u32) -> Vec<u32> {
    prospects.iter().map(|p| p.most.min(length)).collect()
}

/// Tokens per second with drafts of this length for all.
pub fn speed(prospects: &[Prospect], length: u32, seconds: impl Fn(Asked) -> f64) -> f64 {
    let of = |p: &Prospect| 1.0 + (0..length.min(p.most)).map(|i| p.gain(i)).sum::<f64>();
    let asked = Asked::new(prospects, prospects.iter().map(|p| p.most.min(length)));
    prospects.iter().map(of).sum::<f64>() / seconds(asked)
}

/// A length for each sequence: the likeliest tokens first, up to the number of them with the most tokens per second; and
/// these.
fn spread(prospects: &[Prospect], seconds: impl Fn(Asked) -> f64) -> (Vec<u32>, f64) {
    let mut lengths = vec![0; prospects.len()];
    let (mut order, mut speeds) = (Vec::new(), Vec::new());
    let mut tokens = prospects.len() as f64;
    loop {
        speeds.push(tokens / seconds(Asked::new(prospects, lengths.iter().copied())));
        let gain = |i: &usize| prospects[*i].gain(lengths[*i]);
        let Some(next) = (0..prospects.len()).max_by(|a, b| gain(a).total_cmp(&gain(b))) else { break };
        if gain(&next) <= 0.0 {
            break;
        }
        tokens += gain(&next);
        lengths[next] += 1;
        order.push(next);
    }
    let (best, speed) = shortest(speeds);
    let mut chosen = vec![0; prospects.len()];
    order[..best].iter().for_each(|next| chosen[*next] += 1);
    (chosen, speed)
}

/// The first that is as good as the best, up to what measurements differ by anyhow; none, where the best is hardly better.
fn shortest(speeds: Vec<f64>) -> (usize, f64) {
    let best = speeds.iter().copied().fold(0.0, f64::max);
    if best < speeds[0] * (1.0 + LEAST_GAIN) {
        return (0, speeds[0]);
    }
    let first = speeds.iter().position(|speed| *speed >= best * (1.0 - NOISE)).unwrap_or(0);
    (first, speeds[first])
}

#[cfg(test)]
mod tests;
