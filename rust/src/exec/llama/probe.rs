//! The probe at start: do a sequence's rows have the same bits whatever shares the batch?
//!
//! One sequence is computed alone, step by step. Then it is computed again in pieces, as verification would, with
//! wrong tails that are rolled back, beside neighbours that get prompts, go on, roll back and are freed at random.
//! A table of what is known to be equal would be shorter, but would not know this machine's instruction set.

use crate::exec::{ExecError, Forward, Run};
use crate::types::{Slot, Token};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
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
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Found {
    /// Rows compared: one at least, if there was a probe.
    pub(super) rows: usize,
    /// Of these, rows with other bits.
    pub(super) differ: usize,
    /// Rows and seconds of some passes.
    pub(super) passes: Vec<(u32, f64)>,
    /// Time it took.
    pub(super) took: Duration,
}

/// Probes an engine whose slots are empty, and leaves them so. It takes about `budget`, but makes about ten short passes
/// at least: an engine that needs more than a tenth of the budget for one takes longer.
///
/// # Errors
/// Where the engine failed, or gave scores that are no numbers.
pub(super) fn run(engine: &mut dyn Forward, budget: Duration) -> Result<Found, ExecError> {
    let begin = Instant::now();
    let mut test = Test { engine, drawn: 0, found: Found::default() };
    let passes = test.measure(begin + budget.mul_f64(MEASURING))?;
    let pass = passes[0].1;
    let row = ((passes[1].1 - pass) / f64::from(SLOTS - 1)).max(pass / 16.0);
    let share = |part: f64, cost: f64| (budget.as_secs_f64() * part / cost.max(1e-6)) as usize;
    let room = test.engine.caps().kv_per_slot as usize - 2 * LONGEST_RUN;
    let steps = share(0.2, pass).clamp(1, room / 2);
    let prompt = share(0.1, row).clamp(8, room / 2);
    let tokens = test.tokens(prompt + steps);
    let alone = test.alone(&tokens, prompt)?;
    test.beside_others(&tokens, &alone, begin + budget)?;
    test.empty()?;
    Ok(Found { passes, took: begin.elapsed(), ..test.found })
}

struct Test<'a> {
    engine: &'a mut dyn Forward,
    /// Numbers that were drawn.
    drawn: u64,
    found: Found,
}

/// A run, with its tokens: slot, start, tokens, outputs.
type Piece = (Slot, u32, Vec<Token>, u32);

impl Test<'_> {
    /// A number below `n`, from a sequence that is the same at every start.
    fn below(&mut self, n: usize) -> usize {
        self.drawn += 1;
        (BuildHasherDefault::<DefaultHasher>::default().hash_one(self.drawn) % n as u64) as usize
    }

    fn tokens(&mut self, n: usize) -> Vec<Token> {
        let n_vocab = self.engine.caps().n_vocab;
        (0..n).map(|_| self.below(n_vocab) as Token).collect()
    }

    fn empty(&mut self) -> Result<(), ExecError> {
        (0..SLOTS).try_for_each(|slot| self.engine.truncate(Slot(slot), 0))
    }

    /// Hashes of the rows of one pass, from the tested sequence's first on.
    fn pass(&mut self, pieces: &[Piece]) -> Result<Vec<u64>, ExecError> {
        let runs: Vec<Run<'_>> = pieces
            .iter()
            .map(|&(slot, start, ref tokens, outputs)| Run { slot, start, tokens, outputs, hidden: false })
            .collect();
        let rows = self.engine.forward(&runs)?.logits;
        if !rows.iter().all(|row| row.iter().all(|x| x.is_finite())) {
            return Err(ExecError("its weights give scores that are no numbers".into()));
        }
        let before: u32 = pieces.iter().take_while(|piece| piece.0 < TESTED).map(|piece| piece.3).sum();
        Ok(rows[before as usize..].iter().map(|row| hash(row)).collect())
    }

    /// Rows and seconds of passes with a row, with one of each slot, and with a few of each; none of the last, and no
    /// round more, after `end`.
    fn measure(&mut self, end: Instant) -> Result<Vec<(u32, f64)>, ExecError> {
        let shapes = [(1, 1), (SLOTS, 1), (SLOTS, RUN)];
        // It reads the weights from disk.
        self.time(shapes[0])?;
        let mut best = shapes.map(|(slots, run)| (slots * run, f64::INFINITY));
        for round in 0..3 {
            for (i, shape) in shapes.into_iter().enumerate() {
                if (round > 0 || i > 1) && Instant::now() > end {
                    break;
                }
                best[i].1 = best[i].1.min(self.time(shape)?);
            }
        }
        Ok(best.into_iter().filter(|(_, seconds)| seconds.is_finite()).collect())
    }

    /// Seconds of a pass with `run` tokens of each of `slots`.
    fn time(&mut self, (slots, run): (u32, u32)) -> Result<f64, ExecError> {
        let pieces: Vec<Piece> = (0..slots).map(|s| (Slot(s), 0, self.tokens(run as usize), run)).collect();
        let begin = Instant::now();
        self.pass(&pieces)?;
        let took = begin.elapsed().as_secs_f64();
        self.empty()?;
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

    /// The same under churn; compares what it gets to in time with the rows `alone`, and at least one.
    fn beside_others(&mut self, tokens: &[Token], alone: &[u64], end: Instant) -> Result<(), ExecError> {
        // The first row alone is that of the token before.
        let prompt = tokens.len() + 1 - alone.len();
        let (mut done, mut held) = (0, [0u32; SLOTS as usize]);
        while done < tokens.len() {
            let longest = if done < prompt { prompt.div_ceil(3) } else { LONGEST_RUN };
            let right = (1 + self.below(longest)).min(tokens.len() - done);
            // Prompt pieces have no wrong tail.
            let wrong = if done < prompt { 0 } else { self.below(4) };
            let mut pieces = Vec::new();
            for slot in (0..SLOTS).map(Slot) {
                if slot == TESTED {
                    let run = [&tokens[done..done + right], &self.tokens(wrong)].concat();
                    pieces.push((slot, done as u32, run, (right + wrong) as u32));
                } else {
                    pieces.extend(self.neighbour(slot, &mut held[slot.index()])?);
                }
            }
            let hashes = self.pass(&pieces)?;
            for (position, hash) in (done + 1..).zip(&hashes[..right]).filter(|(p, _)| *p >= prompt) {
                self.found.rows += 1;
                self.found.differ += usize::from(alone[position - prompt] != *hash);
            }
            done += right;
            self.engine.truncate(TESTED, done as u32)?;
            if self.found.rows > 0 && Instant::now() > end {
                break;
            }
        }
        Ok(())
    }

    /// What a neighbour does in this step: nothing, a prompt after being freed, a few rows, the same after a rollback.
    fn neighbour(&mut self, slot: Slot, held: &mut u32) -> Result<Option<Piece>, ExecError> {
        let act = self.below(8);
        if *held + 32 > self.engine.caps().kv_per_slot || act == 0 {
            *held = 0;
        } else if act == 1 {
            *held -= u32::min(*held, self.below(4) as u32);
        }
        self.engine.truncate(slot, *held)?;
        let n = match act {
            2 => return Ok(None),
            _ if *held == 0 => 1 + self.below(24),
            _ => 1 + self.below(3),
        };
        let start = std::mem::replace(held, *held + n as u32);
        Ok(Some((slot, start, self.tokens(n), 1)))
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
            Ok(Rows { logits: self.rows.iter().map(|r| &r[..]).collect(), ..Rows::default() })
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
        assert!(good.differ == 0, "{good:?}");
        assert!(probed(Fault::Batch).differ > 10);
        assert!(probed(Fault::Rollback).differ > 10);
        assert!(run(&mut Fake::new(Fault::Nan), Duration::from_secs(5)).is_err());
    }

    #[test]
    fn a_slow_engine_is_probed_briefly() {
        let mut engine = Fake::new(Fault::None);
        let found = run(&mut engine, Duration::ZERO).unwrap();
        assert!((1..20).contains(&found.rows), "{found:?}");
        assert!(engine.passes <= 12, "{} passes", engine.passes);
    }
}
