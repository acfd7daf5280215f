//! Random lives in an engine's slots, every row held against the same text computed alone.

use llgtrt::exec::{Copying, Forward, Run};
use llgtrt::types::{Slot, Token};

/// Numbers from a seed (xorshift64*).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// Computes one run in one slot; gives back its rows.
pub(super) fn step(
    engine: &mut dyn Forward,
    slot: u32,
    start: usize,
    tokens: &[Token],
    outputs: usize,
) -> Vec<Vec<f32>> {
    let run = Run { slot: Slot(slot), start: start as u32, tokens, outputs: outputs as u32, hidden: false };
    let rows = engine.forward(&[run]).unwrap();
    rows.logits.iter().map(|row| row.to_vec()).collect()
}

/// Texts that share beginnings, and the row after each of their tokens from `prompt - 1` on, computed alone in slot 0:
/// the prompt whole, then token by token.
pub(super) struct Texts {
    pub(super) tokens: Vec<Vec<Token>>,
    rows: Vec<Vec<Vec<f32>>>,
    prompt: usize,
}

impl Texts {
    pub(super) fn new(engine: &mut dyn Forward, prompt: usize, len: usize) -> Self {
        let mut random = Random(7);
        let n_vocab = engine.caps().n_vocab;
        let mut tokens: Vec<Vec<Token>> = Vec::new();
        for i in 0..4 {
            let shared = if i % 2 == 1 { prompt + len / 3 } else { 0 };
            let mut text: Vec<Token> = tokens.last().map_or(Vec::new(), |t| t[..shared].to_vec());
            text.extend((shared..prompt + len).map(|_| random.below(n_vocab) as Token));
            tokens.push(text);
        }
        let rows = tokens.iter().map(|text| alone(engine, text, prompt)).collect();
        Texts { tokens, rows, prompt }
    }

    /// The row after token `index` of text `text`, if it was computed.
    fn row(&self, text: usize, index: usize) -> Option<&[f32]> {
        Some(&self.rows[text][(index + 1).checked_sub(self.prompt)?])
    }
}

fn alone(engine: &mut dyn Forward, text: &[Token], prompt: usize) -> Vec<Vec<f32>> {
    let mut rows = step(engine, 0, 0, &text[..prompt], 1);
    for at in prompt..text.len() {
        rows.extend(step(engine, 0, at, &text[at..=at], 1));
    }
    engine.truncate(Slot(0), 0).unwrap();
    rows
}

/// What was compared.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) rows: usize,
    pub(super) differ: usize,
    /// Largest difference of two log-probabilities, over tokens above -20 nats.
    pub(super) nats: f32,
    pub(super) copies: usize,
    pub(super) restores: usize,
}

/// A slot's text and how many of its tokens it holds.
type Life = Option<(usize, usize)>;

pub(super) struct World<'a> {
    engine: &'a mut dyn Forward,
    texts: &'a Texts,
    lives: Vec<Life>,
    random: Random,
    pub(super) tally: Tally,
}

impl<'a> World<'a> {
    pub(super) fn new(engine: &'a mut dyn Forward, texts: &'a Texts, seed: u64) -> Self {
        let lives = vec![None; engine.caps().slots.min(9) as usize];
        World { engine, texts, lives, random: Random(seed), tally: Tally::default() }
    }

    /// One step: some slots end, begin, copy, move or roll back; then a pass over some of those that live.
    pub(super) fn step(&mut self) {
        for slot in 0..self.lives.len() {
            match self.random.below(24) {
                0 => self.end(slot),
                1 => self.copy(slot),
                2 => self.relocate(slot),
                3 => self.roll_back(slot),
                _ => {}
            }
        }
        let mut runs: Vec<(usize, usize, Vec<Token>, usize)> = Vec::new();
        for slot in 0..self.lives.len() {
            if self.random.below(3) > 0 {
                runs.extend(self.run(slot));
            }
        }
        if !runs.is_empty() {
            self.pass(&runs);
        }
    }

    /// A run for the slot: slot, start, tokens, and how many of these are right.
    fn run(&mut self, slot: usize) -> Option<(usize, usize, Vec<Token>, usize)> {
        let (text, held) = match self.lives[slot] {
            Some(life) => life,
            None => (self.random.below(self.texts.tokens.len()), 0),
        };
        let left = self.texts.tokens[text].len() - held;
        let longest = if held < self.texts.prompt { 20 } else { [1, 1, 4, 8][self.random.below(4)] };
        let right = (1 + self.random.below(longest)).min(left);
        if left == 0 {
            self.end(slot);
            return None;
        }
        self.lives[slot] = Some((text, held));
        let mut tokens = self.texts.tokens[text][held..held + right].to_vec();
        let n_vocab = self.engine.caps().n_vocab;
        if longest == 8 {
            tokens.extend((0..self.random.below(4)).map(|_| self.random.below(n_vocab) as Token));
        }
        Some((slot, held, tokens, right))
    }

    fn pass(&mut self, runs: &[(usize, usize, Vec<Token>, usize)]) {
        let jobs: Vec<Run<'_>> = runs
            .iter()
            .map(|(slot, start, tokens, _)| Run {
                slot: Slot(*slot as u32),
                start: *start as u32,
                tokens,
                outputs: tokens.len() as u32,
                hidden: false,
            })
            .collect();
        let rows = self.engine.forward(&jobs).unwrap();
        let mut at = 0;
        for (slot, start, tokens, right) in runs {
            let (text, _) = self.lives[*slot].unwrap();
            for i in 0..*right {
                if let Some(want) = self.texts.row(text, start + i) {
                    self.tally.add(rows.logits[at + i], want);
                }
            }
            at += tokens.len();
            self.lives[*slot] = Some((text, start + right));
        }
        for (slot, start, _, right) in runs {
            self.engine.truncate(Slot(*slot as u32), (start + right) as u32).unwrap();
        }
    }

    fn end(&mut self, slot: usize) {
        self.engine.truncate(Slot(slot as u32), 0).unwrap();
        self.lives[slot] = None;
    }

    fn copy(&mut self, from: usize) {
        if self.engine.caps().copying == Copying::Never {
            return;
        }
        let Some(to) = self.lives.iter().position(Option::is_none) else { return };
        let Some((text, held)) = self.lives[from].filter(|&(_, held)| held > 1) else { return };
        let len = 1 + self.random.below(held);
        self.engine.copy(Slot(from as u32), Slot(to as u32), len as u32).unwrap();
        self.lives[to] = Some((text, len));
        self.tally.copies += 1;
        // The source goes its own way at once.
        if self.random.below(2) == 0 {
            self.end(from);
        }
    }

    /// Saves the slot and restores it somewhere else.
    fn relocate(&mut self, from: usize) {
        let Some(life) = self.lives[from] else { return };
        let Some(kv) = self.engine.save(Slot(from as u32)) else { return };
        self.end(from);
        let free: Vec<usize> = (0..self.lives.len()).filter(|&s| self.lives[s].is_none()).collect();
        let to = free[self.random.below(free.len())];
        assert!(self.engine.restore(Slot(to as u32), &kv), "restored into an empty slot");
        self.lives[to] = Some(life);
        self.tally.restores += 1;
    }

    fn roll_back(&mut self, slot: usize) {
        let Some((text, held)) = self.lives[slot] else { return };
        let keep = self.random.below(held + 1);
        self.engine.truncate(Slot(slot as u32), keep as u32).unwrap();
        self.lives[slot] = (keep > 0).then_some((text, keep));
    }
}

impl Tally {
    fn add(&mut self, row: &[f32], want: &[f32]) {
        self.rows += 1;
        if row.iter().zip(want).all(|(a, b)| a.to_bits() == b.to_bits()) {
            return;
        }
        self.differ += 1;
        let (a, b) = (log_softmax(row), log_softmax(want));
        let far = a.iter().zip(&b).filter(|(_, b)| **b > -20.0).map(|(a, b)| (a - b).abs());
        self.nats = far.fold(self.nats, f32::max);
    }
}

pub(super) fn log_softmax(row: &[f32]) -> Vec<f32> {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|x| f64::from(x - top).exp()).sum();
    row.iter().map(|x| x - top - sum.ln() as f32).collect()
}
