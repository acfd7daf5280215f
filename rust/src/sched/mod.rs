//! Who runs where, and how much of whom a step computes. No engine is known here, no token is looked into.
//!
//! * [`slots`]: which slot a sequence takes, which kept prefix it begins with, which one makes room.
//! * [`drafts`]: who drafts in a step, and how far.
//! * [`store`]: KV in host memory.
//! * [`plan`]: the step's shares, pure.

pub(crate) mod drafts;
pub(crate) mod slots;
pub(crate) mod store;

use crate::sequence::Sequence;

/// Whose KV it is: the API key's number, 0 where all keys share, and the number of the request's salt. To reuse another's
/// would tell, by time and by `cached_tokens`, what that one has sent.
pub(crate) type Scope = (u64, u64);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Tokens over all sequences.
    pub(crate) tokens: u32,
    /// Tokens of prompt chunks in all, by the pace; at least 1 is given even where this is 0.
    pub(crate) chunk_tokens: u32,
    /// Rows of logits for tokens that are known, at least 1.
    pub(crate) scored_rows: u32,
    /// Prompts are cut; false: a gap is computed whole or not at all, unless it is longer than `tokens`.
    pub(crate) chunked: bool,
    /// Where each prompt of a step takes a pass of its own: prompt tokens that cost as much as a pass. A step takes a further prompt
    /// only with so many tokens of it or more. 0 elsewhere.
    pub(crate) pass_tokens: u32,
}

/// Which of the sequences with long gaps comes first in a step. They take turns: a short prompt does not wait for a long one
/// before it, and a long one not for all short ones that come after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Shortest,
    Oldest,
}

impl Turn {
    pub(crate) fn next(self) -> Self {
        match self {
            Turn::Shortest => Turn::Oldest,
            Turn::Oldest => Turn::Shortest,
        }
    }
}

/// How many tokens the step computes of which of the `running` sequences (oldest first), from the front of its gap and at least
/// one: gaps of one token by age, then longer ones. Every step makes progress: a lone long gap gets at least one token, whatever
/// the bounds.
///
/// Longer ones come by length, the shortest first. In the oldest one's [`Turn`], it comes before them. Where prompts are not cut,
/// their order is that of their age, and none is overtaken by one for which there happens to be room.
pub(crate) fn plan(running: &[Sequence], bounds: &Bounds, turn: Turn) -> Vec<(usize, u32)> {
    let (single, mut long): (Vec<_>, Vec<_>) = (0..running.len()).partition(|i| running[*i].gap() == 1);
    let mut shares = Vec::from_iter(single.into_iter().take(bounds.tokens as usize).map(|i| (i, 1)));
    let Some(&oldest) = long.first() else { return shares };
    let (mut tokens, mut scored_rows) = (bounds.tokens - shares.len() as u32, bounds.scored_rows);
    if bounds.chunked {
        tokens = tokens.min(bounds.chunk_tokens.max(1));
        long.sort_by_key(|index| (turn == Turn::Shortest || *index != oldest, running[*index].gap()));
    }
    let singles = shares.len();
    for index in long {
        let sequence = &running[index];
        // Others may have room where there are no more rows of logits.
        let room = tokens.min(sequence.within(scored_rows));
        let whole =
            bounds.chunked || sequence.scores() || sequence.gap() <= room || (shares.is_empty() && room > 0);
        if !whole {
            break;
        }
        let count = if bounds.chunked { sequence.until_mark() } else { sequence.gap() }.min(room);
        if count == 0 || (bounds.chunked && shares.len() > singles && count < bounds.pass_tokens) {
            continue;
        }
        shares.push((index, count));
        tokens -= count;
        scored_rows -= sequence.rows(count);
    }
    shares
}

#[cfg(test)]
mod tests;
