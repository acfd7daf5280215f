//! What a step costs, learned from steps: of the target, and of a draft model that catches up.
//!
//! The model is `seconds = decode(rows) + chunk_tokens * per_token`: `decode` is kept per power of two of rows (sequences
//! that compute one token, with whatever is drafted for them), and
//! `per_token` follows the last steps quickly, since attention makes later chunks of a long prompt dearer.

use std::time::Duration;

/// Weight of the newest step.
const NEW: f64 = 0.4;
/// Chunk tokens of the first step, before anything is known.
const FIRST_CHUNK: u32 = 64;
/// Smaller chunks waste the pass.
const LEAST_CHUNK: u32 = 8;
/// Where nothing decodes only arrivals and cancellations wait for a step; it may take this much longer.
const ALONE: u32 = 4;

/// Learned costs of one model.
#[derive(Debug, Default)]
pub struct Pace {
    /// Seconds of a step with 2^i rows and no chunk.
    decode: [Option<f64>; 16],
    /// Seconds of one more chunk token.
    per_token: Option<f64>,
}

impl Pace {
    /// Learns from a step with `rows` gaps of one token and `chunk` tokens of longer gaps.
    pub fn learn(&mut self, rows: u32, chunk: u32, took: Duration) {
        let seconds = took.as_secs_f64();
        if chunk == 0 {
            let old = &mut self.decode[bucket(rows)];
            *old = Some(old.map_or(seconds, |o| o + NEW * (seconds - o)));
            return;
        }
        let rest = (seconds - self.decode_seconds(rows)).max(seconds * 0.1);
        let new = rest / f64::from(chunk);
        // Upwards at once: an underestimate breaks the promise to the other streams, an overestimate only cuts finer.
        self.per_token =
            Some(self.per_token.map_or(new, |o| if new > o { new } else { o + NEW * (new - o) }));
    }

    /// Chunk tokens that keep a step with `rows` single tokens under `limit`.
    pub fn chunk_tokens(&self, rows: u32, limit: Duration) -> u32 {
        let limit = if rows == 0 { limit * ALONE } else { limit };
        let Some(per_token) = self.per_token else { return FIRST_CHUNK };
        let room = limit.as_secs_f64() - self.decode_seconds(rows);
        ((room / per_token.max(1e-9)) as u32).max(LEAST_CHUNK)
    }

    /// Seconds of so many chunk tokens; 0 where nothing is known.
    pub fn chunk_seconds(&self, tokens: usize) -> f64 {
        tokens as f64 * self.per_token.unwrap_or(0.0)
    }

    /// The nearest known decode cost at or below `rows`, else above, else 0.
    fn decode_seconds(&self, rows: u32) -> f64 {
        if rows == 0 {
            return 0.0;
        }
        let at = bucket(rows);
        let below = self.decode[..=at].iter().rev().flatten().next();
        below.or_else(|| self.decode[at..].iter().flatten().next()).copied().unwrap_or(0.0)
    }
}

fn bucket(rows: u32) -> usize {
    (rows.max(1).ilog2() as usize).min(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_keep_a_step_under_its_limit() {
        let mut pace = Pace::default();
        let limit = Duration::from_millis(250);
        let cost = |rows: u32, chunk: u32| {
            Duration::from_secs_f64(0.01 + 0.005 * f64::from(rows) + 0.001 * f64::from(chunk))
        };
        assert_eq!(pace.chunk_tokens(4, limit), FIRST_CHUNK);
        pace.learn(4, 0, cost(4, 0));
        pace.learn(4, FIRST_CHUNK, cost(4, FIRST_CHUNK));
        let chunk = pace.chunk_tokens(4, limit);
        assert!(chunk > 150 && cost(4, chunk) <= limit + Duration::from_millis(30), "{chunk}");
        assert!(pace.chunk_tokens(0, limit) > 3 * chunk);
    }

    #[test]
    fn a_dearer_chunk_is_believed_at_once() {
        let mut pace = Pace::default();
        pace.learn(0, 100, Duration::from_millis(100));
        pace.learn(0, 100, Duration::from_millis(400));
        assert!(pace.chunk_tokens(1, Duration::from_millis(40)) <= 10);
    }
}
