//! The weightless engine: a [`Forward`] whose logits are a hash of the tokens in the slot's KV cells.
//!
//! It stands in for a model in tests and overhead measurements. A row is a pure function of every token before it and
//! of its position, so a wrong cell, a cell too many, or a wrong position changes the output; and each call is checked
//! against the cells, so most scheduling mistakes are errors at once.

use super::{Caps, Copying, ExecError, Forward, Kv, Promise, Rows, Run};
use crate::error::{Error, Result};
use crate::types::{Slot, Token};
use crate::vocab::{Vocab, VocabOptions};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Shape of a weightless engine; written `toy:slots=4,context=64,kv=160` as a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToyConfig {
    /// Slots.
    pub slots: u32,
    /// KV tokens per slot.
    pub context: u32,
    /// KV tokens in total.
    pub kv: u64,
    /// Most tokens per step.
    pub step_tokens: u32,
    /// Microseconds that a step takes, plus as many per 64 tokens of it.
    pub step_us: u64,
    /// Seed of the hash: another seed is another model.
    pub seed: u64,
    /// Likeliness of end tokens: added to their logits.
    pub end_bias: f32,
    /// Percent of further noise in the logits: a draft for the engine with the same seed and none.
    pub blur: f32,
    /// Milliseconds that it takes to open.
    pub load_ms: u64,
    /// Above 0: it keeps prompts by itself, as far as the scheduler is told, and fails where it is given one in pieces.
    pub whole: u64,
    /// Bytes of KV for each token. Above 0, the engine behaves as one whose KV lies in host memory: stored prefixes count as `kv`,
    /// a copy takes only the tokens that are asked for, and a pass computes neighbouring slots only.
    pub token_bytes: u64,
    /// Memory is short while slots hold more tokens than this.
    pub enough: u64,
    /// Above 0: a slot can be cut by so many tokens at most, or to nothing.
    pub window: u32,
    /// Above 0: it has other tokens than toys have, and most of the same text.
    pub other_tokens: u64,
    /// Above 0: a slot carries a state: it can be cut to nothing only, and copied as a whole.
    pub stateful: u64,
}

impl Default for ToyConfig {
    fn default() -> Self {
        ToyConfig {
            slots: 128,
            context: 4096,
            kv: 1 << 19,
            step_tokens: 8192,
            step_us: 0,
            seed: 1,
            end_bias: 1.0,
            blur: 0.0,
            load_ms: 0,
            whole: 0,
            token_bytes: 0,
            enough: u64::MAX,
            window: 0,
            other_tokens: 0,
            stateful: 0,
        }
    }
}

impl ToyConfig {
    /// Reads the part of a target's name after `toy`.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the target where a key or value is unknown.
    pub fn parse(options: &str) -> Result<Self> {
        let wrong = |why: String| Error::invalid("target", why);
        let mut config = serde_json::json!(ToyConfig::default());
        for pair in options.trim_start_matches(':').split(',').filter(|p| !p.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| wrong(format!("toy option {pair} has no value")))?;
            let number: u64 =
                value.parse().map_err(|_| wrong(format!("toy option {key} wants a number, not {value}")))?;
            let option = config.get_mut(key).ok_or_else(|| wrong(format!("toy has no option {key}")))?;
            *option = number.into();
        }
        serde_json::from_value(config).map_err(|why| wrong(format!("toy options: {why}")))
    }

    /// Its vocabulary.
    ///
    /// # Errors
    /// None.
    pub fn vocab(&self) -> Result<Arc<Vocab>> {
        if self.other_tokens == 0 {
            return Vocab::toy();
        }
        let bytes = (0..=255).rev().map(|byte| vec![byte]);
        let pairs =
            ["th", "the", " a", "an", "\": \"", "\"}", "in", "<|im_start|>", "<|im_end|>", "<|other|>"];
        let tokens: Vec<_> = bytes.chain(pairs.map(|text| text.as_bytes().to_vec())).map(Some).collect();
        let n = tokens.len() as Token;
        let options = VocabOptions { eog: vec![n - 2], ..VocabOptions::default() };
        Vocab::from_tokens(tokens, &[n - 3, n - 2, n - 1], None, &options)
    }
}

/// Faults that tests plant to see whether they are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToyFault {
    /// `truncate` leaves the cells as they are.
    KeepsCells,
    /// Positions are counted from the beginning of a run.
    WrongPosition,
    /// Slots that hold something cannot be emptied.
    StuckSlots,
}

/// What a slot holds.
#[derive(Clone)]
struct Cells {
    tokens: Vec<Token>,
    /// Of each prefix: one more than tokens.
    hashes: Vec<u64>,
    floor: u32,
}

/// Floats in a hidden state.
const STATE: usize = 8;
/// Added to token ids for noise of another kind.
const BLURRED: usize = 1 << 20;
const HIDDEN: usize = 1 << 21;

/// The engine.
pub struct Toy {
    caps: Caps,
    config: ToyConfig,
    bonus: Vec<f32>,
    /// Of each slot.
    cells: Vec<Cells>,
    logits: Vec<f32>,
    hidden: Vec<f32>,
    took: Option<Duration>,
    /// Planted by a test.
    pub fault: Option<ToyFault>,
}

impl Toy {
    /// An engine over the toy vocabulary.
    pub fn new(config: ToyConfig, vocab: &Vocab) -> Self {
        let caps = Caps {
            n_embd: STATE,
            kv_total: config.kv,
            token_bytes: config.token_bytes,
            max_step_tokens: config.step_tokens,
            max_logits: 64 << 20,
            prefix_reuse: config.whole == 0,
            stateful: config.stateful > 0,
            rollback: if config.stateful > 0 { 0 } else { u32::MAX },
            copying: match (config.whole, config.token_bytes) {
                (0, 0) => Copying::Slots,
                (0, _) => Copying::Tokens,
                _ => Copying::Never,
            },
            keeps_prompts: config.whole > 0,
            ragged: config.token_bytes == 0,
            promise: Promise::BitIdentical,
            ..Caps::of_rows(vocab.len(), config.slots, config.context)
        };
        let bonus = (0..vocab.len() as Token).map(|t| bonus_of(vocab, t, config.end_bias)).collect();
        let none = Cells { tokens: Vec::new(), hashes: vec![config.seed], floor: 0 };
        let cells = vec![none; config.slots as usize];
        Toy { caps, config, bonus, cells, logits: Vec::new(), hidden: Vec::new(), took: None, fault: None }
    }

    fn push(&mut self, run: &Run<'_>) -> Result<(), ExecError> {
        let first = if self.fault == Some(ToyFault::WrongPosition) { run.start as usize } else { 0 };
        let Cells { tokens, hashes, floor } = &mut self.cells[run.slot.index()];
        if run.start as usize != tokens.len() {
            let have = tokens.len();
            return failed(&format!("slot {} holds {have} tokens, run starts at {}", run.slot.0, run.start));
        }
        if self.caps.keeps_prompts && run.outputs == 0 {
            return failed("a prompt in pieces");
        }
        if run.tokens.is_empty() || run.outputs as usize > run.tokens.len() {
            return failed("empty run, or more outputs than tokens");
        }
        for token in run.tokens {
            let position = (tokens.len() - first) as u64;
            hashes.push(mix(hashes[tokens.len()] ^ mix(u64::from(*token) << 32 | position)));
            tokens.push(*token);
        }
        let least = match self.config {
            ToyConfig { stateful: 1.., .. } => tokens.len() as u32,
            ToyConfig { window: 0, .. } => 0,
            ToyConfig { window, .. } => (tokens.len() as u32).saturating_sub(window),
        };
        *floor = least.max(*floor);
        Ok(())
    }

    fn used(&self) -> u64 {
        if self.config.stateful == 0 {
            return self.cells.iter().map(|c| c.tokens.len() as u64).sum();
        }
        // As in one pool: a copy shares its cells.
        let mut prefixes: Vec<_> = self.cells.iter().flat_map(|c| &c.hashes[1..]).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        prefixes.len() as u64
    }
}

/// Text-like output: letters are likelier than other bytes, padding never comes.
fn bonus_of(vocab: &Vocab, token: Token, end_bias: f32) -> f32 {
    if vocab.is_eog(token) {
        return end_bias;
    }
    match vocab.bytes(token) {
        _ if vocab.is_special(token) => -20.0,
        [b] if b.is_ascii_alphanumeric() || *b == b' ' => 3.0,
        [b] if b.is_ascii_graphic() => 1.5,
        _ => 0.0,
    }
}

fn failed<T>(why: &str) -> Result<T, ExecError> {
    Err(ExecError(format!("toy: {why}")))
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

impl Forward for Toy {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn took(&self) -> Option<Duration> {
        self.took
    }

    fn forward(&mut self, runs: &[Run<'_>]) -> Result<Rows<'_>, ExecError> {
        if !runs.is_sorted_by(|a, b| a.slot < b.slot) {
            return failed("runs are not sorted by slot");
        }
        let total: usize = runs.iter().map(|r| r.tokens.len()).sum();
        if total > self.config.step_tokens as usize {
            return failed(&format!("{total} tokens in one step"));
        }
        for run in runs {
            self.push(run)?;
        }
        let used = self.used();
        if used > self.config.kv || self.cells.iter().any(|c| c.tokens.len() > self.config.context as usize) {
            return failed(&format!("{used} KV tokens are more than fit"));
        }
        if self.config.step_us > 0 {
            let took = Duration::from_micros(self.config.step_us * (1 + total as u64 / 64));
            std::thread::sleep(took);
            self.took = Some(took);
        }
        let width = self.caps.n_vocab;
        self.logits.clear();
        self.hidden.clear();
        for run in runs {
            let hashes = &self.cells[run.slot.index()].hashes;
            for hash in &hashes[hashes.len() - run.outputs as usize..] {
                let noise = |t: usize| (mix(hash ^ t as u64) >> 40) as f32 / (1u64 << 24) as f32;
                let blur = self.config.blur / 100.0;
                let logit = |(t, bonus): (usize, &f32)| bonus + 6.0 * (noise(t) + blur * noise(t + BLURRED));
                self.logits.extend(self.bonus.iter().enumerate().map(logit));
                if run.hidden {
                    self.hidden.extend((0..STATE).map(|i| noise(i + HIDDEN) - 0.5));
                }
            }
        }
        let (logits, hidden) = (self.logits.chunks(width).collect(), self.hidden.chunks(STATE).collect());
        Ok(Rows { logits, hidden, ..Rows::default() })
    }
}

impl Kv for Toy {
    fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        let Cells { tokens, hashes, floor } = &mut self.cells[slot.index()];
        if self.fault == Some(ToyFault::KeepsCells) && keep > 0 {
            return Ok(());
        }
        if self.fault == Some(ToyFault::StuckSlots) && keep == 0 && !tokens.is_empty() {
            return failed(&format!("slot {} is stuck", slot.0));
        }
        if keep as usize > tokens.len() {
            return failed(&format!("slot {} holds {} tokens, not {keep}", slot.0, tokens.len()));
        }
        if keep > 0 && keep < *floor {
            return failed(&format!("slot {} cannot be cut to {keep} tokens", slot.0));
        }
        *floor = if keep == 0 { 0 } else { *floor };
        tokens.truncate(keep as usize);
        hashes.truncate(keep as usize + 1);
        Ok(())
    }

    fn floor(&self, slot: Slot) -> u32 {
        self.cells[slot.index()].floor
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        let source = self.cells[from.index()].clone();
        let part = source.tokens.len() < len as usize || len < source.floor;
        if from == to || !self.cells[to.index()].tokens.is_empty() || part {
            return failed(&format!("cannot copy {len} tokens from slot {} to {}", from.0, to.0));
        }
        self.cells[to.index()] = source;
        self.truncate(to, len)
    }

    fn short_of_memory(&mut self) -> bool {
        self.used() > self.config.enough
    }

    fn save(&mut self, slot: Slot) -> Option<Vec<u8>> {
        // What has left a window would be lost.
        let Cells { tokens, floor, .. } = &self.cells[slot.index()];
        let whole = self.config.stateful > 0 || *floor == 0;
        whole.then(|| tokens.iter().flat_map(|t| t.to_le_bytes()).collect())
    }

    fn restore(&mut self, slot: Slot, kv: &[u8]) -> bool {
        let (kv, rest) = kv.as_chunks();
        let tokens: Vec<_> = kv.iter().copied().map(Token::from_le_bytes).collect();
        let run = Run { slot, start: 0, tokens: &tokens, outputs: 0, hidden: false };
        rest.is_empty() && (tokens.is_empty() || self.push(&run).is_ok())
    }
}
