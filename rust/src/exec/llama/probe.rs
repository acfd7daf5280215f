//! The probe at start: do a sequence's rows have the same bits whatever shares the batch?
//!
//! One sequence is computed alone, step by step. Then it is computed again in pieces, as verification would, with
//! wrong tails that are rolled back, beside neighbours that get prompts, go on, roll back and are freed at random.
//! A table of what is known to be equal would be shorter, but would not know this machine's instruction set.

use crate::exec::{ExecError, Forward, Run};
use crate::types::{Slot, Token};
use std::time::{Duration, Instant};

/// Slots that the probe needs; the sequence under test is in the second.
pub(super) const SLOTS: u32 = 4;
/// Tokens that each of them should hold: the attention kernels change at 512 padded, that is 257 used, cells.
pub(super) const TOKENS: u32 = 512;
/// Tokens that each of them must hold.
pub(super) const FEWEST_TOKENS: u32 = 64;

const TESTED: Slot = Slot(1);
/// Most tokens in one run of the test.
const LONGEST_RUN: usize = 8;
/// Tokens of each slot in the largest pass that is measured.
const RUN: u32 = 4;
/// Share of the budget after which no further pass is measured.
const MEASURING: f64 = 0.3;

/// What the probe found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// Rows compared.
    pub(super) rows: usize,
    /// Of these, rows with other bits.
    pub(super) differ: usize,
    /// Every logit was a number.
    pub(super) finite: bool,
    /// Rows and seconds of some passes.
    pub(super) passes: Vec<(u32, f64)>,
    /// Time it took.
    pub(super) took: Duration,
}

/// Probes an engine whose slots are empty, and leaves them so. It takes about `budget`, but makes about ten short passes
/// at least: an engine that needs more than a tenth of the budget for one takes longer.
///
/// # Errors
/// Where the engine failed.
pub(super) fn run(engine: &mut dyn Forward, budget: Duration) -> Result<Found, ExecError> {
    let begin = Instant::now();
    let n_vocab = engine.caps().n_vocab as u64;
    let mut test = Test { engine, random: Random(0x5eed), n_vocab, differ: 0, rows: 0, finite: true };
    let passes = test.measure(begin + budget.mul_f64(MEASURING))?;
    let pass = passes[0].1;
    let row = ((passes[1].1 - pass) / f64::from(SLOTS - 1)).max(pass / 16.0);
    let share = |part: f64, cost: f64| (budget.as_secs_f64() * part / cost.max(1e-6)) as usize;
    let room = test.engine.caps().kv_per_slot as usize - 2 * LONGEST_RUN;
    let steps = share(0.2, pass).clamp(1, room / 2);
    let prompt = share(0.1, row).clamp(8, room / 2);
    let tokens: Vec<Token> = (0..prompt + steps).map(|_| test.token()).collect();
    let alone = test.alone(&tokens, prompt)?;
    test.beside_others(&tokens, prompt, &alone, begin + budget)?;
    for slot in 0..SLOTS {
        test.engine.truncate(Slot(slot), 0)?;
    }
    let Test { rows, differ, finite, .. } = test;
    Ok(Found { rows, differ, finite, passes, took: begin.elapsed() })
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

struct Test<'a> {
    engine: &'a mut dyn Forward,
    random: Random,
    n_vocab: u64,
    rows: usize,
    differ: usize,
    finite: bool,
}

/// A run, with its tokens: slot, start, tokens, outputs.
type Piece = (Slot, u32, Vec<Token>, u32);

impl Test<'_> {
    fn token(&mut self) -> Token {
        Token::try_from(self.random.below(self.n_vocab)).expect("below the vocabulary's size. This is a bug.")
    }

    fn some_tokens(&mut self, n: usize) -> Vec<Token> {
        (0..n).map(|_| self.token()).collect()
    }

    /// Hashes of the rows of one pass.
    fn pass(&mut self, pieces: &[Piece]) -> Result<Vec<u64>, ExecError> {
        let runs: Vec<Run<'_>> = pieces
            .iter()
            .map(|(slot, start, tokens, outputs)| Run {
                slot: *slot,
                start: *start,
                tokens,
                outputs: *outputs,
                hidden: false,
            })
            .collect();
        let rows = self.engine.forward(&runs)?;
        self.finite &= rows.logits.iter().all(|row| row.iter().all(|x| x.is_finite()));
        Ok(rows.logits.iter().map(|row| hash(row)).collect())
    }

    /// Rows and seconds of passes with a row, with one of each slot, and with a few of each; none of the last, and no
    /// round more, after `end`.
    fn measure(&mut self, end: Instant) -> Result<Vec<(u32, f64)>, ExecError> {
        let shapes = [(1, 1), (SLOTS, 1), (SLOTS, RUN)];
        // It reads the weights from disk.
        self.time(shapes[0])?;
        let mut best = [f64::INFINITY; 3];
        for round in 0..3 {
            for (i, shape) in shapes.into_iter().enumerate() {
                if (round > 0 || i > 1) && Instant::now() > end {
                    break;
                }
                best[i] = best[i].min(self.time(shape)?);
            }
        }
        let rows = shapes.map(|(slots, run)| slots * run);
        Ok(rows.into_iter().zip(best).filter(|(_, seconds)| seconds.is_finite()).collect())
    }

    /// Seconds of a pass with `run` tokens of each of `slots`.
    fn time(&mut self, (slots, run): (u32, u32)) -> Result<f64, ExecError> {
        let pieces: Vec<Piece> =
            (0..slots).map(|s| (Slot(s), 0, self.some_tokens(run as usize), run)).collect();
        let begin = Instant::now();
        self.pass(&pieces)?;
        let took = begin.elapsed().as_secs_f64();
        for slot in 0..slots {
            self.engine.truncate(Slot(slot), 0)?;
        }
        Ok(took)
    }

    /// The prompt in one pass, then single steps: a hash for the row of every token from the prompt's last.
    fn alone(&mut self, tokens: &[Token], prompt: usize) -> Result<Vec<u64>, ExecError> {
        let mut hashes = self.pass(&[(TESTED, 0, tokens[..prompt].to_vec(), 1)])?;
        for (start, &token) in (0u32..).zip(tokens).skip(prompt) {
            hashes.extend(self.pass(&[(TESTED, start, vec![token], 1)])?);
        }
        self.engine.truncate(TESTED, 0)?;
        Ok(hashes)
    }

    /// The same under churn; compares what it gets to in time, and at least one row.
    fn beside_others(
        &mut self,
        tokens: &[Token],
        prompt: usize,
        alone: &[u64],
        end: Instant,
    ) -> Result<(), ExecError> {
        let mut held = [0u32; SLOTS as usize];
        while (held[TESTED.index()] as usize) < tokens.len() {
            let done = held[TESTED.index()] as usize;
            let longest = if done < prompt { prompt.div_ceil(3) } else { LONGEST_RUN };
            let right = (1 + self.random.below(longest as u64) as usize).min(tokens.len() - done);
            // Prompt pieces have no wrong tail.
            let wrong = if done < prompt { 0 } else { self.random.below(4) as usize };
            let mut pieces = Vec::new();
            for slot in (0..SLOTS).map(Slot) {
                if slot == TESTED {
                    let tail = self.some_tokens(wrong);
                    let run = [&tokens[done..done + right], &tail[..]].concat();
                    let outputs = run.len() as u32;
                    pieces.push((slot, held[slot.index()], run, outputs));
                } else if let Some(piece) = self.neighbour(slot, &mut held[slot.index()])? {
                    pieces.push(piece);
                }
            }
            let hashes = self.pass(&pieces)?;
            self.compare(&pieces, &hashes, right, (alone, prompt));
            for (slot, start, run, _) in &pieces {
                held[slot.index()] = start + run.len() as u32;
            }
            held[TESTED.index()] = (done + right) as u32;
            self.engine.truncate(TESTED, held[TESTED.index()])?;
            if self.rows > 0 && Instant::now() > end {
                break;
            }
        }
        Ok(())
    }

    /// What a neighbour does in this step: nothing, a prompt after being freed, a few rows, the same after a rollback.
    fn neighbour(&mut self, slot: Slot, held: &mut u32) -> Result<Option<Piece>, ExecError> {
        let act = self.random.below(8);
        if *held + 32 > self.engine.caps().kv_per_slot || act == 0 {
            *held = 0;
        } else if act == 1 {
            *held -= u32::min(*held, self.random.below(4) as u32);
        }
        self.engine.truncate(slot, *held)?;
        let n = match act {
            2 => return Ok(None),
            _ if *held == 0 => 1 + self.random.below(24),
            _ => 1 + self.random.below(3),
        };
        let tokens = self.some_tokens(n as usize);
        Ok(Some((slot, *held, tokens, 1)))
    }

    /// Compares the tested sequence's first `right` rows with those `alone`, whose first is that of token `prompt - 1`.
    fn compare(&mut self, pieces: &[Piece], hashes: &[u64], right: usize, alone: (&[u64], usize)) {
        let (alone, prompt) = alone;
        let before: u32 = pieces.iter().take_while(|p| p.0 != TESTED).map(|p| p.3).sum();
        let Some((_, start, ..)) = pieces.iter().find(|p| p.0 == TESTED) else { return };
        let rows = &hashes[before as usize..before as usize + right];
        for (position, hash) in (*start as usize..).zip(rows).filter(|(p, _)| *p + 1 >= prompt) {
            self.rows += 1;
            self.differ += usize::from(alone[position + 1 - prompt] != *hash);
        }
    }
}

/// Tells rows apart by their bits.
fn hash(row: &[f32]) -> u64 {
    row.iter().fold(0xcbf2_9ce4_8422_2325, |h: u64, x| {
        (h ^ u64::from(x.to_bits())).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::{Caps, Kv, Rows};

    /// Scores are a hash of the slot's tokens; with a fault, of something else too.
    struct Fake {
        caps: Caps,
        held: Vec<Vec<Token>>,
        rows: Vec<[f32; 4]>,
        fault: Fault,
        passes: usize,
    }

    #[derive(PartialEq)]
    enum Fault {
        None,
        /// Rows depend on the number of rows in the batch.
        Batch,
        /// What was rolled back is still seen.
        Rollback,
        /// Not a number, once 30 tokens are held.
        Nan,
    }

    impl Fake {
        fn new(fault: Fault) -> Self {
            let caps = Caps { max_logits: 64 << 20, ..Caps::of_rows(4, SLOTS, 256) };
            Fake { caps, held: vec![Vec::new(); SLOTS as usize], rows: Vec::new(), fault, passes: 0 }
        }
    }

    impl Forward for Fake {
        fn caps(&self) -> &Caps {
            &self.caps
        }

        fn forward(&mut self, runs: &[Run<'_>]) -> Result<Rows<'_>, ExecError> {
            self.rows.clear();
            self.passes += 1;
            for run in runs {
                let held = &mut self.held[run.slot.index()];
                assert_eq!(held.len(), run.start as usize);
                assert!(held.len() + run.tokens.len() <= 256);
                for (i, token) in run.tokens.iter().enumerate() {
                    held.push(*token);
                    let mut score = held.iter().fold(1.0f32, |h, t| (h * 7.0 + *t as f32) % 8191.0);
                    if self.fault == Fault::Batch && runs.len() > 2 {
                        score += 0.5;
                    }
                    if self.fault == Fault::Nan && held.len() > 30 {
                        score = f32::NAN;
                    }
                    if run.tokens.len() - i <= run.outputs as usize {
                        self.rows.push([score, 1.0, 2.0, 3.0]);
                    }
                }
            }
            Ok(Rows { logits: self.rows.iter().map(|r| &r[..]).collect(), hidden: Vec::new() })
        }
    }

    impl Kv for Fake {
        fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
            let held = &mut self.held[slot.index()];
            if self.fault == Fault::Rollback && keep > 0 && held.len() > keep as usize {
                held[0] = 3 - held[0];
            }
            held.truncate(keep as usize);
            Ok(())
        }

        fn copy(&mut self, _: Slot, _: Slot, _: u32) -> Result<(), ExecError> {
            Ok(())
        }
    }

    fn probed(fault: Fault) -> Found {
        let mut engine = Fake::new(fault);
        let found = run(&mut engine, Duration::from_secs(5)).unwrap();
        assert!(engine.held.iter().all(Vec::is_empty), "slots are left empty");
        assert!(found.rows > 100, "{found:?}");
        found
    }

    #[test]
    fn faults_are_found() {
        let good = probed(Fault::None);
        assert!(good.differ == 0 && good.finite, "{good:?}");
        assert!(probed(Fault::Batch).differ > 10);
        assert!(probed(Fault::Rollback).differ > 10);
        assert!(!probed(Fault::Nan).finite);
    }

    #[test]
    fn a_slow_engine_is_probed_briefly() {
        let mut engine = Fake::new(Fault::None);
        let found = run(&mut engine, Duration::ZERO).unwrap();
        assert!((1..20).contains(&found.rows), "{found:?}");
        assert!(engine.passes <= 12, "{} passes", engine.passes);
    }
}
