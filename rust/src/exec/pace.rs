//! What a step costs, learned from steps: of the target, and of a draft model that catches up.
//!
//! The model is `seconds = decode(rows) + chunk_tokens * per_token`: `decode` is kept for each power of two of rows (those
//! of sequences that compute one token, and of what is drafted for them) with straight lines in between, and `per_token`
//! follows the last steps quickly, since attention makes later chunks of a long prompt dearer. Seconds are those of
//! passes: what drafting takes is no prompt's fault.

use super::Job;
use std::time::Duration;

/// Weight of the newest step.
const NEW: f64 = 0.4;
/// Chunk tokens of the first step, before anything is known.
const FIRST_CHUNK: u32 = 64;
/// Smaller chunks waste the pass.
const LEAST_CHUNK: u32 = 8;
/// Where nothing decodes only arrivals and cancellations wait for a step; it may take this much longer.
const ALONE: u32 = 4;

/// What a step computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Sequences that compute one token.
    pub sequences: u32,
    /// Their rows, drafts included.
    pub rows: u32,
    /// Tokens of longer gaps.
    pub chunk: u32,
}

impl Shape {
    /// The shape of a step with these jobs, drafts attached.
    pub fn of(jobs: &[Job]) -> Self {
        let mut shape = Shape::default();
        for job in jobs {
            match job.tokens.len() as u32 {
                1 => {
                    shape.sequences += 1;
                    shape.rows += 1 + job.draft.tokens.len() as u32;
                }
                more => shape.chunk += more,
            }
        }
        shape
    }
}

/// Learned costs of one model.
#[derive(Debug, Default)]
pub struct Pace {
    /// Of steps with 2^i to 2^(i + 1) rows and no chunk: rows and seconds.
    decode: [Option<(f64, f64)>; 16],
    /// Seconds of one more chunk token.
    per_token: Option<f64>,
}

impl Pace {
    /// The costs that passes of so many rows had in a probe, in seconds.
    pub fn new(probed: &[(u32, f64)]) -> Self {
        let mut pace = Pace::default();
        probed
            .iter()
            .for_each(|(rows, seconds)| pace.decode[bucket(*rows)] = Some((f64::from(*rows), *seconds)));
        pace
    }

    /// Learns what a pass took with `rows` of gaps of one token, drafts included, and `chunk` tokens of longer gaps.
    pub fn learn(&mut self, rows: u32, chunk: u32, took: Duration) {
        let seconds = took.as_secs_f64();
        if chunk == 0 {
            let step = (f64::from(rows), seconds);
            let old = &mut self.decode[bucket(rows)];
            *old = Some(old.map_or(step, |o| (o.0 + NEW * (step.0 - o.0), o.1 + NEW * (step.1 - o.1))));
            return;
        }
        let rest = (seconds - self.decode_seconds(rows)).max(seconds * 0.1);
        let new = rest / f64::from(chunk);
        // Upwards at once: an underestimate breaks the promise to the other streams, an overestimate only cuts finer.
        self.per_token =
            Some(self.per_token.map_or(new, |o| if new > o { new } else { o + NEW * (new - o) }));
    }

    /// Chunk tokens that keep a pass beside so many `sequences` of one token under `limit`. Drafts come on top: they bring
    /// tokens for the time that they take, and shall not take it from prompts.
    pub fn chunk_tokens(&self, sequences: u32, limit: Duration) -> u32 {
        let limit = if sequences == 0 { limit * ALONE } else { limit };
        let Some(per_token) = self.per_token else { return FIRST_CHUNK };
        let room = limit.as_secs_f64() - self.decode_seconds(sequences);
        ((room / per_token.max(1e-9)) as u32).max(LEAST_CHUNK)
    }

    /// Seconds of so many chunk tokens; 0 where nothing is known.
    pub fn chunk_seconds(&self, tokens: usize) -> f64 {
        tokens as f64 * self.per_token.unwrap_or(0.0)
    }

    /// Seconds of a pass of so many rows without a chunk; 0 where nothing is known.
    fn decode_seconds(&self, rows: u32) -> f64 {
        if rows == 0 {
            return 0.0;
        }
        let known: Vec<_> = self.decode.iter().flatten().copied().collect();
        on_lines(&known, f64::from(rows)).max(0.0)
    }
}

/// A value at `x` on straight lines through points in rising order; beyond them on the line from the first to the last,
/// which is too dear rather than too cheap where more rows cost less each. 0 without a point.
pub(super) fn on_lines<X: Copy + Into<f64>>(points: &[(X, f64)], x: f64) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let after = points.partition_point(|(known, _)| (*known).into() < x).max(1);
    let (low, high) = points.get(after).map_or((first, last), |high| (&points[after - 1], high));
    let (from, to): (f64, f64) = (low.0.into(), high.0.into());
    if to > from { low.1 + (high.1 - low.1) / (to - from) * (x - from) } else { low.1 }
}

fn bucket(rows: u32) -> usize {
    (rows.max(1).ilog2() as usize).min(15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::{Draft, JobId};
    use crate::request::{Limits, Request, RequestSpec};
    use crate::sampler::Sampler;
    use crate::types::Slot;
    use crate::vocab::Vocab;
    use std::sync::Arc;

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

    /// Jobs of sequences with drafts of some tokens, and of one with a chunk.
    fn jobs(sequences: u32, drafted: u32, chunk: u32) -> Vec<Job> {
        let vocab = Vocab::toy().unwrap();
        let limits = Limits { default_output: 1, ..Limits::small(vocab.len()) };
        let spec: RequestSpec = serde_json::from_str(r#"{"prompt":[1]}"#).unwrap();
        let request = Arc::new(Request::new(spec, &limits).unwrap());
        let job = |(slot, tokens): (u32, u32)| Job {
            id: JobId(u64::from(slot)),
            slot: Slot(slot),
            start: 0,
            tokens: vec![1; tokens as usize],
            sample: true,
            score: None,
            draft: Draft {
                tokens: vec![1; if tokens == 1 { drafted as usize } else { 0 }],
                ..Draft::default()
            },
            budget: 100,
            sampler: Sampler::new(Arc::clone(&request), 0, 0, vocab.clone()),
            grammar: None,
        };
        let singles = (0..sequences).map(|slot| (slot, 1));
        singles.chain((chunk > 0).then_some((sequences, chunk))).map(job).collect()
    }

    #[test]
    fn prompts_get_as_much_with_drafts_as_without() {
        let limit = Duration::from_millis(250);
        let cost = |rows: u32, chunk: u32| 0.02 + 0.004 * f64::from(rows) + 0.002 * f64::from(chunk);
        let probed = [1, 4, 16].map(|rows| (rows, cost(rows, 0)));
        let chunks = [0, 5].map(|drafted| {
            let mut pace = Pace::new(&probed);
            let mut step = |chunk: u32| {
                let Shape { sequences, rows, chunk } = Shape::of(&jobs(4, drafted, chunk));
                assert_eq!((sequences, rows), (4, 4 * (1 + drafted)));
                pace.learn(rows, chunk, Duration::from_secs_f64(cost(rows, chunk)));
                pace.chunk_tokens(sequences, limit)
            };
            step(0);
            (0..6).fold(FIRST_CHUNK, |chunk, _| step(chunk))
        });
        assert!(chunks[0] > FIRST_CHUNK && chunks[0].abs_diff(chunks[1]) <= 1, "{chunks:?}");
    }

    #[test]
    fn a_dearer_chunk_is_believed_at_once() {
        let mut pace = Pace::default();
        pace.learn(0, 100, Duration::from_millis(100));
        pace.learn(0, 100, Duration::from_millis(400));
        assert!(pace.chunk_tokens(1, Duration::from_millis(40)) <= 10);
    }
}
