//! Who runs where, and how much of whom a step computes. No engine is known here, no token is looked into.
//!
//! * [`slots`]: which slot a sequence takes, which kept prefix it begins with, which one makes room.
//! * [`drafts`]: who drafts in a step, and how far.
//! * [`plan`]: the step's shares, pure.

pub mod drafts;
pub mod line;
pub mod slots;
pub mod store;

use crate::sequence::Sequence;

/// Whose KV it is: the API key's number, 0 where all keys share, and the number of the request's salt. To reuse another's
/// would tell, by time and by `cached_tokens`, what that one has sent.
pub type Scope = (u64, u64);

/// How many tokens of which running sequence a step computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Index into the running sequences.
    pub index: usize,
    /// Tokens of its gap, from the front; at least 1.
    pub count: u32,
}

/// Bounds of one step.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Tokens over all sequences.
    pub tokens: u32,
    /// Tokens of prompt chunks in all, by the pace; at least 1 is given even where this is 0.
    pub chunk_tokens: u32,
    /// Tokens of prompts whose log-probabilities are wanted: each takes a row of logits. At least 1.
    pub scored_tokens: u32,
    /// Prompts are cut; false: a gap is computed whole or not at all, unless it is longer than `tokens`.
    pub chunked: bool,
}

/// Shares of the idle ones among `running` (oldest first): gaps of one token before longer ones, then by age.
///
/// Every step makes progress: a lone long gap gets at least one token, whatever the bounds.
pub fn plan(running: &[Sequence], bounds: &Bounds) -> Vec<Share> {
    let idle = || running.iter().enumerate().filter(|(_, s)| !s.in_flight);
    let mut shares = Vec::new();
    let mut tokens = bounds.tokens;
    for (index, _) in idle().filter(|(_, s)| s.gap() == 1) {
        if tokens == 0 {
            return shares;
        }
        shares.push(Share { index, count: 1 });
        tokens -= 1;
    }
    let mut chunk_tokens = bounds.chunk_tokens.max(1);
    let mut scored_tokens = bounds.scored_tokens;
    for (index, sequence) in idle().filter(|(_, s)| s.gap() > 1) {
        let room = if bounds.chunked { tokens.min(chunk_tokens) } else { tokens };
        let room = if sequence.scores() { room.min(scored_tokens) } else { room };
        let whole =
            bounds.chunked || sequence.scores() || sequence.gap() <= room || (shares.is_empty() && room > 0);
        if room == 0 || !whole {
            break;
        }
        let count = sequence.gap().min(room);
        shares.push(Share { index, count });
        tokens -= count;
        chunk_tokens = chunk_tokens.saturating_sub(count);
        scored_tokens -= if sequence.scores() { count } else { 0 };
    }
    shares
}
