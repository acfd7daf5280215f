//! Drafts from a smaller model, one pass a token for all sequences together.
//!
//! What the model holds of a slot is compared with what is known, the rest is cut off, and what is missing is computed:
//! a token that the target added, tokens that other sources drafted, a prompt, a restored sequence are all just gap.
//! A long gap is closed in chunks over several steps, in which the sequence gets no draft; the sequence's first token
//! never waits for it.
//!
//! The model may have less room for KV than the target. A text longer than its slots is left out, and so are, where all
//! slots share a pool, those texts that are furthest behind once it is full.
//!
//! A model with a state cannot take back what it has read. It reads only known tokens in the slot of a sequence. It draws the draft
//! in a copy of that slot, which is emptied when the draft is made, so it needs twice as many slots. Drafted tokens that were
//! accepted are read again in the sequence's own slot, together with the rest of the next gap.
//!
//! With a grammar, a cursor walks ahead of the text. Tokens that it forces or proposes need no pass of the model, and verification
//! uses the masks that it has computed. A token is drawn with the sampler and the noise of the target, so that it is the
//! same wherever the two models agree.

use super::cost::{Cost, Work, cells};
use super::draft_walk::Walk;
use super::helpers::Helpers;
use super::{Ask, Drafter, ExecError, Forward, Run};
use crate::sampler::Scratch;
use crate::types::{Slot, Token};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A gap of up to this many tokens is closed at once.
const SHORT: usize = 16;

/// Tokens whose KV a slot holds.
#[derive(Debug, Clone, Default)]
struct Held {
    tokens: Vec<Token>,
    /// So many of them, at the beginning, were found to be known tokens of the slot's sequence. These stay the same until
    /// [`Drafter::keep`] cuts them off, so that they need not be compared in every step.
    agreed: usize,
}

impl Held {
    /// Tokens at the beginning of `known` that are held, those of `draft` behind it included.
    fn same(&self, known: &[Token], draft: &[Token]) -> usize {
        let common = |a: &[Token], b: &[Token]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let agreed = self.agreed.min(known.len());
        let same = agreed + common(&self.tokens[agreed..], &known[agreed..]);
        if same < known.len() { same } else { same + common(&self.tokens[same..], draft) }
    }

    fn truncate(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.agreed = self.agreed.min(len);
    }
}

/// Proposes what a smaller model draws.
pub struct DraftModel {
    forward: Box<dyn Forward>,
    /// What each slot holds; of a model with a state, behind those of the sequences their copies.
    held: Vec<Held>,
    /// Width of the target's rows, in tokens.
    width: usize,
    /// Time for the chunks of one step.
    patience: Duration,
    /// Of its passes.
    cost: Cost,
    /// See [`Drafter::caught_up`].
    caught_up: Duration,
    helpers: Arc<Helpers>,
    /// Of each thread.
    scratches: Vec<Scratch>,
    broken: bool,
}

impl DraftModel {
    /// A drafter for a target whose rows have `width` tokens. Closing long gaps takes about `patience` of a step. A model with a
    /// state must have twice as many slots as the target.
    pub fn new(forward: Box<dyn Forward>, width: usize, patience: Duration, helpers: Arc<Helpers>) -> Self {
        DraftModel {
            held: vec![Held::default(); forward.caps().slots as usize],
            cost: Cost::new(&forward.caps().probed),
            forward,
            width,
            patience,
            caught_up: Duration::ZERO,
            helpers,
            scratches: Vec::new(),
            broken: false,
        }
    }

    /// Draws token by token until no walk goes on.
    fn run(&mut self, walks: &mut [Walk<'_, '_>]) -> Result<(), ExecError> {
        let held = |walk: &Walk<'_, '_>| self.same(walk) as u64;
        let beside = Work::of_step(walks.len() as u32, walks.iter().map(held).sum());
        let depth = walks.iter().map(held).max().unwrap_or(0);
        // Tokens of long gaps that this step closes.
        let mut chunks = self.cost.chunk_tokens(beside, depth, self.patience) as usize;
        loop {
            let mut room = self.forward.caps().max_step_tokens as usize;
            let mut pieces = Vec::new();
            for walk in walks.iter_mut() {
                if !walk.needs_row() {
                    continue;
                }
                let (slot, Range { start, end }) = self.missing(walk)?;
                let gap = end - start;
                let behind = gap > SHORT;
                let count = gap.min(room).min(if behind { chunks } else { SHORT });
                chunks -= if behind { count } else { 0 };
                room -= count;
                // What is not closed now goes on in the next step.
                walk.over = count < gap;
                walk.ask.late |= behind || walk.over;
                if count > 0 {
                    let tokens = walk.text().skip(start).take(count).copied().collect();
                    let draws = !walk.over && start + count == walk.len();
                    pieces.push(Piece { walk, slot, start, tokens, behind, draws });
                }
            }
            if pieces.is_empty() {
                return Ok(());
            }
            pieces.sort_unstable_by_key(|piece| piece.slot);
            self.pass(pieces)?;
        }
    }

    /// Sees to it that the pool holds all that the walks may need: what is held for other slots is given up where it
    /// must be, and walks that do not fit end, those that have most to compute first.
    fn make_room(&mut self, walks: &mut [Walk<'_, '_>]) -> Result<(), ExecError> {
        let mut room = self.forward.caps().kv_total;
        let mut needs: Vec<_> = self.held.iter().map(|held| held.tokens.len() as u64).collect();
        for walk in walks.iter() {
            let need = &mut needs[walk.ask.slot.index()];
            *need = walk.longest().max(*need);
        }
        if needs.iter().sum::<u64>() <= room {
            return Ok(());
        }
        let mut order: Vec<_> = walks.iter_mut().filter(|walk| !walk.over).collect();
        order.sort_by_cached_key(|walk| walk.len() - self.same(walk));
        let mut stays = vec![false; needs.len()];
        for walk in order {
            let slot = walk.ask.slot.index();
            walk.over = needs[slot] > room;
            if !walk.over {
                room -= needs[slot];
                stays[slot] = true;
            }
        }
        for index in (0..needs.len()).filter(|index| !stays[*index]) {
            if self.held[index].tokens.len() as u64 > room {
                self.truncate(Slot(index as u32), 0)?;
            }
            room -= self.held[index].tokens.len() as u64;
        }
        Ok(())
    }

    /// Cuts a slot to so many tokens, if it holds more.
    fn truncate(&mut self, slot: Slot, len: usize) -> Result<(), ExecError> {
        let held = &mut self.held[slot.index()];
        let longer = held.tokens.len() > len;
        held.truncate(len);
        if longer { self.forward.truncate(slot, len as u32) } else { Ok(()) }
    }

    /// So many tokens, or none, where the slot cannot be cut to so few.
    fn not_below_floor(&self, slot: Slot, len: usize) -> usize {
        if len < self.forward.floor(slot) as usize { 0 } else { len }
    }

    /// The tokens of the walk's text that must be computed next, and the slot for them.
    fn missing(&mut self, walk: &Walk<'_, '_>) -> Result<(Slot, Range<usize>), ExecError> {
        let (slot, known) = (walk.ask.slot, walk.ask.known.len());
        let start = self.not_below_floor(slot, self.same(walk).min(walk.len() - 1));
        self.truncate(slot, start)?;
        self.held[slot.index()].agreed = start.min(known);
        if !self.forward.caps().stateful {
            return Ok((slot, start..walk.len()));
        }
        if start < known {
            return Ok((slot, start..known));
        }
        let copy = slot.index() + self.held.len() / 2;
        if self.held[copy].tokens.is_empty() {
            self.forward.copy(slot, Slot(copy as u32), start as u32)?;
            self.held[copy] = self.held[slot.index()].clone();
        }
        Ok((Slot(copy as u32), self.held[copy].tokens.len()..walk.len()))
    }

    /// Empties the copies.
    fn drop_copies(&mut self) -> Result<(), ExecError> {
        let copies = if self.forward.caps().stateful { self.held.len() / 2 } else { 0 };
        (0..self.held.len() as u32).rev().take(copies).try_for_each(|copy| self.truncate(Slot(copy), 0))
    }

    /// Tokens at the beginning of the walk's text that its slot holds.
    fn same(&self, walk: &Walk<'_, '_>) -> usize {
        self.held[walk.ask.slot.index()].same(walk.ask.known, &walk.ask.draft.tokens)
    }

    fn pass(&mut self, pieces: Vec<Piece<'_, '_, '_>>) -> Result<(), ExecError> {
        let runs: Vec<Run<'_>> = pieces.iter().map(Piece::run).collect();
        let lengths: Vec<_> = runs.iter().map(|run| (run.slot, run.tokens.len() as u32)).collect();
        let work = Work::of(pieces.iter().map(Piece::work), &self.forward.passes(&lengths));
        let of_prompt =
            |piece: &&Piece<'_, '_, '_>| piece.behind && piece.start < piece.walk.ask.prompt as usize;
        let tokens = |piece: &Piece<'_, '_, '_>| piece.tokens.len() as f64;
        let prompts: f64 = pieces.iter().filter(of_prompt).map(tokens).sum();
        let of_prompts = prompts / pieces.iter().map(tokens).sum::<f64>();
        let begin = Instant::now();
        let mut rows = self.forward.forward(&runs)?.logits.into_iter();
        let mut drawing = Vec::new();
        for Piece { walk, slot, tokens, draws, .. } in pieces {
            self.held[slot.index()].tokens.extend(tokens);
            if draws {
                drawing.push((walk, rows.next().ok_or_else(|| ExecError("a row is missing".into()))?));
            }
        }
        let numbers = drawing.len() * self.width;
        self.helpers.each(numbers, drawing.into_iter(), &mut self.scratches, |(walk, row), scratch| {
            walk.draw(row, scratch);
            // The mask of the next row is computed here, too, where there are threads for it.
            walk.needs_row();
        });
        let took = begin.elapsed();
        self.cost.learn(work, took);
        self.caught_up += took.mul_f64(of_prompts);
        Ok(())
    }

    /// After a failure the target serves on alone.
    fn settle(&mut self, result: Result<(), ExecError>) {
        let Err(error) = result else { return };
        log::error!("the draft model failed and is not asked any more: {error}");
        self.broken = true;
        self.held.iter_mut().for_each(|held| held.truncate(0));
    }
}

impl Drafter for DraftModel {
    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        if self.broken {
            return;
        }
        let (ids, longest) = (self.forward.caps().n_vocab, self.forward.caps().kv_per_slot as usize);
        let width = self.width;
        // An id that this model lacks cannot be read, nor a text beyond its context.
        let reads = |ask: &&mut Ask<'_>| {
            let fits = ask.known.len() + ask.draft.tokens.len() <= longest;
            // What is held was read.
            let agreed = self.held[ask.slot.index()].agreed;
            let mut rest = ask.known.iter().chain(&ask.draft.tokens).skip(agreed);
            fits && (ids >= width || rest.all(|&t| (t as usize) < ids))
        };
        // The last drafted token is not computed.
        let walk = |ask| Walk::new(ask, longest + 1, width);
        let mut walks: Vec<_> = asks.iter_mut().filter(reads).map(walk).collect();
        walks.sort_unstable_by_key(|walk| walk.ask.slot);
        let result = self.make_room(&mut walks).and_then(|()| self.run(&mut walks));
        drop(walks);
        let dropped = self.drop_copies();
        self.settle(result.and(dropped));
    }

    fn keep(&mut self, slot: Slot, len: u32) {
        let cut = self.truncate(slot, self.not_below_floor(slot, len as usize));
        self.settle(cut);
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) {
        let len = self.not_below_floor(from, self.held[from.index()].tokens.len().min(len as usize));
        let room = self.forward.caps().kv_total.saturating_sub(self.held());
        if self.broken || len == 0 || len as u64 > room {
            return;
        }
        let Held { tokens, agreed } = &self.held[from.index()];
        self.held[to.index()] = Held { tokens: tokens[..len].to_vec(), agreed: len.min(*agreed) };
        let copied = self.forward.copy(from, to, len as u32);
        self.settle(copied);
    }

    fn delay(&mut self, slot: Slot, known: &[Token]) -> Option<f64> {
        let start = self.held[slot.index()].same(known, &[]);
        let gap = known.len() - start;
        let work = Work { chunk: gap as f64, cells: cells(start as f64, gap as f64), ..Work::default() };
        (gap > SHORT).then(|| if self.cost.known() { self.cost.seconds(work) } else { 0.0 })
    }

    fn probed(&self) -> &[(u32, f64)] {
        &self.forward.caps().probed
    }

    fn caught_up(&mut self) -> Duration {
        std::mem::take(&mut self.caught_up)
    }

    fn held(&self) -> u64 {
        self.held.iter().map(|held| held.tokens.len() as u64).sum()
    }

    fn failed(&self) -> bool {
        self.broken
    }
}

/// Tokens to compute for one walk.
struct Piece<'w, 'a, 'b> {
    walk: &'w mut Walk<'a, 'b>,
    slot: Slot,
    start: usize,
    tokens: Vec<Token>,
    /// Of a gap that is closed in chunks.
    behind: bool,
    /// The next token is drawn from its last row.
    draws: bool,
}

impl Piece<'_, '_, '_> {
    /// See [`Work::of`].
    fn work(&self) -> (u32, u32, u32) {
        let (start, tokens) = (self.start as u32, self.tokens.len() as u32);
        if self.behind { (start, tokens, 0) } else { (start, 0, tokens) }
    }

    fn run(&self) -> Run<'_> {
        let outputs = u32::from(self.draws);
        Run { slot: self.slot, start: self.start as u32, tokens: &self.tokens, outputs, hidden: false }
    }
}
