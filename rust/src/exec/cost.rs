//! What passes cost, learned from passes: one model for a target and for what drafts for it.
//!
//! Seconds are `a × passes + b × rows + c × chunk + d × cells`, see [`Work`]. The four prices are fitted by least squares
//! with forgetting and kept at 0 or more (non-negative least squares by leaving out what is negative; Lawson and Hanson
//! 1974). Every pass counts by its relative error, so that a long prompt does not outweigh a thousand short passes; and
//! since that divides by what the pass took, one that was held up by something else hardly counts.
//!
//! What recent passes do not tell, as the price of a row where all have one row each, comes from what is expected: the
//! prices that the probe at start found, as far as the machine has been faster or slower than these since. So a price that
//! was wrong once, as on a machine that was busy for a while, is forgotten and tried again.

use super::Job;
use std::time::Duration;

/// Prices, and kinds of work.
const N: usize = 4;
/// What is left of a pass's weight a pass later: some fifty count, which shows a change within a second on small models, and
/// is enough for four prices.
const MEMORY: f64 = 0.98;
/// Weight of each expected cost, where a pass that was just measured weighs 1. It is so small that measured passes decide for
/// the next two hundred passes.
const EXPECTED: f64 = 0.01;
/// Prices where nothing was measured, of which only the proportions count. Rows are thought to be cheap: what is tried will
/// be known.
const UNKNOWN: [f64; N] = [1.0, 0.02, 0.02, 0.0];
/// A row that reads so many cells is expected to cost twice as much as one that reads none: 240 of SmolLM2's were measured to cost
/// as much, and 5,700 of Qwen2.5-Coder 1.5B's.
const CELLS: f64 = 1000.0;
/// Rows of a run that share a read of their cells: what kernels compute at a time.
const TILE: f64 = 16.0;
/// Chunk tokens of the first pass, before anything is known.
const FIRST_CHUNK: u32 = 64;
/// Where nothing decodes only arrivals and cancellations wait for a pass; it may take this many times as long, and as many
/// times what it takes to read the weights, so that most of it is spent on tokens.
const ALONE: f64 = 4.0;

/// What is computed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Passes over the weights.
    pub passes: f64,
    /// Rows of sequences that compute one token, drafts included, and rows that fill gaps.
    pub rows: f64,
    /// Tokens of prompts and other long gaps.
    pub chunk: f64,
    /// Cells of KV that are read, once for 16 rows of a run.
    pub cells: f64,
}

impl Work {
    /// The work of runs that begin behind so many tokens, and have so many of a long gap or else so many rows; `passes`: all
    /// rows of each pass.
    pub fn of(runs: impl Iterator<Item = (u32, u32, u32)>, passes: &[u32]) -> Self {
        let mut work = Work { passes: passes.len() as f64, ..Work::default() };
        for (start, chunk, rows) in runs {
            work.chunk += f64::from(chunk);
            work.cells += cells(f64::from(start), f64::from(chunk + rows));
        }
        work.rows = passes.iter().map(|rows| f64::from(*rows)).sum::<f64>() - work.chunk;
        work
    }

    /// The work of jobs, each with a draft of so many tokens.
    pub fn of_jobs<'a>(jobs: impl Iterator<Item = (&'a Job, u32)>, passes: &[u32]) -> Self {
        let run = |(job, drafted): (&Job, u32)| match job.tokens.len() as u32 {
            1 => (job.start, 0, 1 + drafted),
            more => (job.start, more, drafted),
        };
        Work::of(jobs.map(run), passes)
    }

    /// The work of a pass of so many sequences of one token, which hold so many tokens together.
    pub fn of_step(sequences: u32, held: u64) -> Self {
        let (passes, rows) = (f64::from(sequences.min(1)), f64::from(sequences));
        Work { passes, rows, chunk: 0.0, cells: held as f64 }
    }

    fn parts(self) -> [f64; N] {
        [self.passes, self.rows, self.chunk, self.cells]
    }
}

/// Cells that a run of so many tokens reads, the first of which has `start` before it.
pub fn cells(start: f64, tokens: f64) -> f64 {
    (tokens / TILE).ceil() * (start + tokens / 2.0)
}

/// The learned cost of work.
#[derive(Debug, Clone)]
pub struct Cost {
    prices: [f64; N],
    /// What prices are expected to be, in proportion.
    expected: [f64; N],
    /// By how much: sums over passes of expected over real seconds, and of its square.
    scale: (f64, f64),
    seen: Fit,
}

impl Default for Cost {
    fn default() -> Self {
        Cost { prices: UNKNOWN, expected: UNKNOWN, scale: (0.0, 0.0), seen: Fit::default() }
    }
}

impl Cost {
    /// The cost of passes of which a probe measured some: rows and seconds.
    pub fn new(probed: &[(u32, f64)]) -> Self {
        let mut cost = Cost::default();
        for (rows, seconds) in probed {
            cost.add(Work { passes: 1.0, rows: f64::from(*rows), ..Work::default() }, *seconds);
        }
        if cost.known() {
            let [pass, row, ..] = cost.prices;
            let row = row.max(pass * UNKNOWN[1]);
            cost.expected = [pass, row, row, row / CELLS];
            cost.scale = (1.0, 1.0);
            cost.solve();
        }
        cost
    }

    /// Whether anything was measured.
    pub fn known(&self) -> bool {
        self.scale.1 > 0.0
    }

    /// Learns what work took.
    pub fn learn(&mut self, work: Work, took: Duration) {
        if work.passes > 0.0 {
            self.add(work, took.as_secs_f64().max(1e-9));
        }
    }

    /// Takes a step without work: what was measured counts less against what is expected.
    pub fn idle(&mut self) {
        self.seen.fade(MEMORY);
        self.solve();
    }

    fn add(&mut self, work: Work, seconds: f64) {
        let ratio = dot(&self.expected, &work.parts()) / seconds;
        let (sum, squares) = self.scale;
        self.scale = (MEMORY * sum + ratio, MEMORY * squares + ratio * ratio);
        self.seen.fade(MEMORY);
        self.seen.add(&work.parts(), seconds, 1.0);
        self.solve();
    }

    /// Prices by what was seen and, weakly, what is expected of a row, of some, of a chunk and of a long text.
    fn solve(&mut self) {
        let scale = self.scale.0 / self.scale.1;
        let mut fit = self.seen.clone();
        for work in
            [[1.0, 1.0, 0.0, 0.0], [1.0, 16.0, 0.0, 0.0], [1.0, 0.0, 256.0, 0.0], [1.0, 1.0, 0.0, CELLS]]
        {
            fit.add(&work, scale * dot(&self.expected, &work), EXPECTED);
        }
        self.prices = fit.prices();
    }

    /// Seconds that work takes; only in proportion where nothing is known.
    pub fn seconds(&self, work: Work) -> f64 {
        dot(&self.prices, &work.parts())
    }

    /// Rows that cost as much as one more pass; 0 where nothing was measured.
    pub fn rows_of_a_pass(&self) -> f64 {
        self.of_a_pass(1)
    }

    /// Tokens of prompts that cost as much as one more pass; 0 where nothing was measured.
    pub fn tokens_of_a_pass(&self) -> u32 {
        self.of_a_pass(2) as u32
    }

    /// How much of what has the price with this index costs as much as one more pass.
    fn of_a_pass(&self, price: usize) -> f64 {
        if self.known() { self.prices[0] / self.prices[price].max(f64::MIN_POSITIVE) } else { 0.0 }
    }

    /// Tokens of prompts, `depth` of which were computed before, for a step that is to end within `limit`; beside sequences
    /// that go on, with this work. Where these alone take more than half of the limit, prompts get as much time as they do: so
    /// a model that takes longer than the limit for each token reads prompts, too. Drafts come on top: they bring tokens for
    /// the time that they take, and shall not take it from prompts.
    pub fn chunk_tokens(&self, beside: Work, depth: u64, limit: Duration) -> u32 {
        if !self.known() {
            return FIRST_CHUNK;
        }
        let limit = limit.as_secs_f64();
        let time = if beside.rows > 0.0 {
            let decoding = self.seconds(beside);
            (limit - decoding).max(decoding)
        } else {
            ALONE * limit.max(self.prices[0]) - self.prices[0]
        };
        let [.., token, cell] = self.prices;
        let cell = cell / TILE;
        let first = token + cell * depth as f64;
        // From `time` = n × first + cell × n² / 2.
        let tokens = 2.0 * time / (first + (first * first + 2.0 * cell * time).sqrt()).max(f64::MIN_POSITIVE);
        (tokens.round() as u32).max(1)
    }
}

/// The normal equations of least squares, a row for each price with its right side last. They sum up passes, each divided by
/// its seconds.
#[derive(Debug, Clone, Default)]
struct Fit([[f64; N + 1]; N]);

impl Fit {
    fn fade(&mut self, left: f64) {
        self.0.iter_mut().flatten().for_each(|sum| *sum *= left);
    }

    fn add(&mut self, work: &[f64; N], seconds: f64, weight: f64) {
        let parts = work.map(|part| part / seconds);
        for (row, part) in self.0.iter_mut().zip(parts) {
            row.iter_mut()
                .zip(parts.iter().chain(&[1.0]))
                .for_each(|(sum, other)| *sum += weight * part * other);
        }
    }

    /// The prices with the least squares of relative errors; those that came out negative are 0.
    fn prices(&self) -> [f64; N] {
        let mut left_out = [false; N];
        loop {
            let prices = self.solved(&left_out);
            let worst = (0..N).filter(|i| prices[*i] < 0.0).min_by(|i, j| prices[*i].total_cmp(&prices[*j]));
            let Some(worst) = worst else { return prices };
            left_out[worst] = true;
        }
    }

    /// The solution without some prices, by Gauss's elimination: the equations are positive definite.
    fn solved(&self, left_out: &[bool; N]) -> [f64; N] {
        let (mut rows, mut prices) = (self.0, [0.0; N]);
        for i in (0..N).filter(|i| left_out[*i]) {
            rows[i] = [0.0; N + 1];
            rows.iter_mut().for_each(|row| row[i] = 0.0);
            rows[i][i] = 1.0;
        }
        for i in 0..N {
            for j in i + 1..N {
                let factor = rows[j][i] / rows[i][i];
                (i..=N).for_each(|k| rows[j][k] -= factor * rows[i][k]);
            }
        }
        for i in (0..N).rev() {
            let known: f64 = (i + 1..N).map(|j| rows[i][j] * prices[j]).sum();
            prices[i] = (rows[i][N] - known) / rows[i][i];
        }
        prices
    }
}

fn dot(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests;
