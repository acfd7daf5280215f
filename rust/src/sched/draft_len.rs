//! How far drafts may reach in one step.
//!
//! A draft is never worth a preemption, a kept prefix or another sequence's tokens: it takes what they leave. Lengths do
//! not follow acceptance and cost yet.

use crate::sequence::Sequence;

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

    /// Tokens that may be drafted for `sequence` out of this beside the `drafted` ones, at most `most` with them.
    pub fn of(&self, sequence: &Sequence, drafted: u32, most: u32) -> u32 {
        let kv = u32::try_from(self.kv).unwrap_or(u32::MAX);
        let slot = self.per_slot.saturating_sub(sequence.known());
        let own = sequence.draft_len(most).min(slot).saturating_sub(drafted);
        own.min(self.tokens).min(kv)
    }
}
