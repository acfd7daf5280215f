//! Draws over a whole row, in blocks of as many tokens as a mask's word has.

use super::candidates::Candidate;
use super::noise::{MAX_NOISE, Noise};
use crate::grammar::Mask;
use crate::types::Token;

/// Tokens of a block.
pub(super) const BLOCK: usize = 32;

/// The tokens that may be drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed<'a> {
    /// None: all.
    pub(super) mask: Option<&'a Mask>,
    /// Some that may not, whatever the mask says.
    pub(super) without: &'a [Token],
}

impl Allowed<'_> {
    /// A bit for each token of a block.
    pub(super) fn word(&self, block: usize) -> u32 {
        let word = self.mask.map_or(u32::MAX, |mask| mask.words().get(block).copied().unwrap_or(0));
        let inside = self.without.iter().filter(|t| **t as usize / BLOCK == block);
        inside.fold(word, |word, t| word & !(1 << (*t as usize % BLOCK)))
    }

    /// Sets the logits of all other tokens to minus infinity.
    pub(super) fn keep(&self, row: &mut [f32]) {
        for (number, block) in row.chunks_mut(BLOCK).enumerate() {
            let word = self.word(number);
            let others = block.iter_mut().enumerate().filter(|(i, _)| word >> i & 1 == 0);
            others.for_each(|(_, logit)| *logit = f32::NEG_INFINITY);
        }
    }
}

/// Logits of a block; minus infinity where a token may not be drawn, and past the row's end.
pub(super) fn block<'a>(
    row: &'a [f32],
    number: usize,
    word: u32,
    buffer: &'a mut [f32; BLOCK],
) -> &'a [f32; BLOCK] {
    let rest = &row[number * BLOCK..];
    if word == u32::MAX
        && let Some(whole) = rest.first_chunk()
    {
        return whole;
    }
    for (i, logit) in buffer.iter_mut().enumerate() {
        let known = rest.get(i).copied().unwrap_or(f32::NEG_INFINITY);
        *logit = if word >> i & 1 == 1 { known } else { f32::NEG_INFINITY };
    }
    buffer
}

/// The largest of a block, by halves so that the compiler uses wide instructions; NaN where one is.
fn largest(block: &[f32; BLOCK]) -> f32 {
    let mut lanes = *block;
    let mut width = BLOCK / 2;
    while width > 0 {
        for i in 0..width {
            let (a, b) = (lanes[i], lanes[i + width]);
            lanes[i] = if a >= b || a.is_nan() { a } else { b };
        }
        width /= 2;
    }
    lanes[0]
}

/// The largest allowed logit, lowest id on ties, and what is largest in each block. None where one is NaN or none is above
/// minus infinity.
pub(super) fn argmax(row: &[f32], allowed: Allowed<'_>, tops: &mut Vec<f32>) -> Option<Candidate> {
    let mut buffer = [0f32; BLOCK];
    tops.clear();
    let mut best = (0, f32::NEG_INFINITY);
    for number in 0..row.len().div_ceil(BLOCK) {
        let word = allowed.word(number);
        let top = match word {
            0 => f32::NEG_INFINITY,
            _ => largest(block(row, number, word, &mut buffer)),
        };
        if top.is_nan() {
            return None;
        }
        if top > best.1 {
            best = (number, top);
        }
        tops.push(top);
    }
    if best.1 == f32::NEG_INFINITY {
        return None;
    }
    let first = block(row, best.0, allowed.word(best.0), &mut buffer).iter().position(|l| *l == best.1)?;
    Some(((best.0 * BLOCK + first) as Token, best.1))
}

/// The largest allowed logit / temperature + noise, lowest id on ties; temperature 0 is [`argmax`].
///
/// Noise is computed for few tokens: a score can be the best only where the token's hash, a uniform number, is below
/// e^(logit / temperature − the best so far), and blocks are asked with their largest logit.
pub(super) fn draw(
    row: &[f32],
    allowed: Allowed<'_>,
    temperature: f32,
    noise: Noise,
    tops: &mut Vec<f32>,
) -> Option<Token> {
    let (start, logit) = argmax(row, allowed, tops)?;
    if temperature == 0.0 {
        return Some(start);
    }
    let mut best = (start, logit / temperature + noise.gumbel(start));
    for (number, top) in tops.iter().enumerate() {
        let top = top / temperature;
        if top + MAX_NOISE < best.1 {
            continue;
        }
        let first = (number * BLOCK) as Token;
        let mut chosen = noise.below(first, limit(top, best.1)) & allowed.word(number);
        while chosen != 0 {
            let token = first + chosen.trailing_zeros();
            chosen &= chosen - 1;
            let Some(logit) = row.get(token as usize) else { break };
            let score = logit / temperature + noise.gumbel(token);
            if score > best.1 || (score == best.1 && token < best.0) {
                best = (token, score);
            }
        }
    }
    best.1.is_finite().then_some(best.0)
}

/// The same among some candidates, whose logits are divided by the temperature already, and are numbers.
pub(super) fn draw_of(candidates: &[Candidate], noise: Noise) -> Option<Token> {
    let start = candidates.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    let mut best = (start.0, start.1 + noise.gumbel(start.0));
    let mut border = limit(start.1, best.1);
    for c in candidates {
        if noise.hash(c.0) <= border {
            let score = c.1 + noise.gumbel(c.0);
            if score > best.1 || (score == best.1 && c.0 < best.0) {
                best = (c.0, score);
                border = limit(start.1, best.1);
            }
        }
    }
    best.1.is_finite().then_some(best.0)
}

/// A hash above this gives noise that does not lift `logit` to `best`.
///
/// Noise is −ln(−ln(1 − v)) for a uniform v = (hash + 0.5) / 2^32, at most −ln v. The margin is for rounding.
fn limit(logit: f32, best: f32) -> u32 {
    let margin = 1e-3 + 1e-6 * best.abs();
    ((logit - best + margin).exp() * 4_294_967_296.0) as u32
}

/// The `k` largest of a row, best first, lower ids first on ties.
pub(super) fn top_k(row: &[f32], k: usize, best: &mut Vec<Candidate>) {
    let mut buffer = [0f32; BLOCK];
    best.clear();
    for number in 0..row.len().div_ceil(BLOCK) {
        let block = block(row, number, u32::MAX, &mut buffer);
        let border =
            if best.len() < k { f32::NEG_INFINITY } else { best.last().map_or(f32::INFINITY, |c| c.1) };
        // Later ids lose ties.
        if best.len() == k && largest(block) <= border {
            continue;
        }
        for (i, logit) in block.iter().enumerate().take(row.len() - number * BLOCK) {
            let place = best.partition_point(|c| c.1.total_cmp(logit).is_ge());
            if place < k {
                best.truncate(k - 1);
                best.insert(place, ((number * BLOCK + i) as Token, *logit));
            }
        }
    }
}
