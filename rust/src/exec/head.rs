//! Drafts from a head: a layer or so that was trained to go on from the target's hidden states (EAGLE-3: Li et al., 2025).
//!
//! A head reads pairs: a token, and the state of the token before it, which it makes of what the target computed there. Its row says what
//! comes behind the pair's token, and it hands on a state of its own, with which it goes on by itself. So it has KV of its own, one
//! pair for each token but the last, and must have read all that comes before.
//!
//! Pairs of known tokens are read with the target's states, which come with the rounds: those of a prompt as its chunks are computed,
//! the others with the first pass of the next draft. What a draft added is cut off when it is made: the target's states of the tokens
//! that it accepts come with its round. Of a text whose beginning the target had from elsewhere, the head reads what follows: positions
//! count from there, which rotary positions allow.
//!
//! Tokens are drawn under the grammar's mask with the target's sampler and noise, as those of a draft model (`draft_walk`).

#[cfg(test)]
mod tests;

use super::draft_walk::Walk;
use super::helpers::Helpers;
use super::{Ask, Caps, Drafter, ExecError, Forward, Kv, Round, Run};
use crate::sampler::Scratch;
use crate::types::{Slot, Token};
use std::sync::Arc;

/// Pairs that wait for the next draft, at most: more of them are read at once.
const SHORT: usize = 16;

/// What a head computed behind a token.
#[derive(Debug, Clone, Copy)]
pub struct Drawn<'a> {
    /// Logits of the next token.
    pub logits: &'a [f32],
    /// The state that goes with it.
    pub state: &'a [f32],
}

/// The seam to an engine that computes a head.
pub trait Head: Kv + Send {
    /// Constant facts; `n_embd`: numbers of a state.
    fn caps(&self) -> &Caps;
    /// Appends the states that it makes of what the target computed at any number of tokens.
    ///
    /// # Errors
    /// Where the head failed.
    fn encode(&mut self, features: &[f32], to: &mut Vec<f32>) -> Result<(), ExecError>;
    /// Computes the runs, whose tokens have these states in their order; KV grows as by [`Forward::forward`]. The result has an
    /// entry for each wanted output.
    ///
    /// # Errors
    /// Where the head failed.
    fn pass(&mut self, runs: &[Run<'_>], states: &[f32]) -> Result<Vec<Drawn<'_>>, ExecError>;
}

/// What is given as the draft model.
pub enum Drafting {
    /// A smaller model.
    Model(Box<dyn Forward>),
    /// A head.
    Head(Box<dyn Head>),
}

/// What is there of a slot's text.
#[derive(Debug, Clone, Default)]
struct Held {
    /// The token that it begins with.
    base: usize,
    /// Pairs in the head's KV: the first is of the token behind `base`.
    pairs: usize,
    /// States of the tokens that follow, as far as the target has computed them.
    states: Vec<f32>,
    /// The tokens behind those, which make pairs with the states; that behind the last may lack.
    next: Vec<Token>,
}

impl Held {
    /// The first token whose state is not there.
    fn end(&self, width: usize) -> usize {
        self.base + self.pairs + self.states.len() / width
    }
}

/// Proposes what a head draws.
pub struct HeadDrafter {
    head: Box<dyn Head>,
    held: Vec<Held>,
    /// Width of the target's rows, in tokens.
    width: usize,
    helpers: Arc<Helpers>,
    /// Of each thread.
    scratches: Vec<Scratch>,
    broken: bool,
}

/// A draft in the making.
struct Going<'a, 'b> {
    walk: Walk<'a, 'b>,
    base: usize,
    /// The token before that of the next pair.
    at: usize,
    /// States of the next pairs.
    states: Vec<f32>,
}

impl HeadDrafter {
    /// A drafter for a target whose rows have `width` tokens, with as many slots as the head.
    pub fn new(head: Box<dyn Head>, width: usize, helpers: Arc<Helpers>) -> Self {
        let held = vec![Held::default(); head.caps().slots as usize];
        HeadDrafter { head, held, width, helpers, scratches: Vec::new(), broken: false }
    }

    /// Makes the states of the tokens that a round computed, and reads pairs where many wait.
    fn take(&mut self, round: &Round) -> Result<(), ExecError> {
        let (slot, tokens) = (round.job.slot, &round.job.tokens);
        let (index, numbers) = (slot.index(), self.head.caps().n_embd);
        if self.held[index].end(numbers) != round.job.start as usize {
            self.head.truncate(slot, 0)?;
            self.held[index] = Held { base: round.job.start as usize, ..Held::default() };
        }
        let held = &mut self.held[index];
        let waiting = held.states.len() / numbers;
        self.head.encode(&round.features, &mut held.states)?;
        let all = held.states.len() / numbers;
        // What was thought to follow may have been cut off.
        held.next.truncate(waiting.saturating_sub(1));
        let text = tokens.iter().chain(&round.tokens).skip(usize::from(waiting == 0));
        held.next.extend(text.take(all - held.next.len()));
        // The last state is for the next draft.
        let ready = held.next.len().min(all - 1);
        if ready > SHORT { self.read(slot, ready) } else { Ok(()) }
    }

    /// Reads so many of the pairs that wait.
    fn read(&mut self, slot: Slot, count: usize) -> Result<(), ExecError> {
        let (numbers, most) = (self.head.caps().n_embd, self.head.caps().max_step_tokens as usize);
        let held = &mut self.held[slot.index()];
        let states: Vec<f32> = held.states.drain(..count * numbers).collect();
        let tokens: Vec<Token> = held.next.drain(..count).collect();
        for (tokens, states) in tokens.chunks(most).zip(states.chunks(most * numbers)) {
            let start = held.pairs as u32;
            self.head.pass(&[Run { slot, start, tokens, outputs: 0, hidden: false }], states)?;
            held.pairs += tokens.len();
        }
        Ok(())
    }

    /// Draws token by token until no draft goes on.
    fn run(&mut self, mut all: Vec<Going<'_, '_>>) -> Result<(), ExecError> {
        loop {
            all.retain_mut(|going| going.walk.needs_row());
            if all.is_empty() {
                return Ok(());
            }
            self.step(&mut all)?;
        }
    }

    /// One pass for all.
    fn step(&mut self, all: &mut [Going<'_, '_>]) -> Result<(), ExecError> {
        let numbers = self.head.caps().n_embd;
        let tokens = |going: &Going<'_, '_>| -> Vec<Token> {
            going.walk.text().skip(going.at + 1).take(going.states.len() / numbers).copied().collect()
        };
        let tokens: Vec<_> = all.iter().map(tokens).collect();
        let states: Vec<f32> = all.iter().flat_map(|going| &going.states).copied().collect();
        let run = |(going, tokens): (&Going<'_, '_>, _)| {
            let start = (going.at - going.base) as u32;
            Run { slot: going.walk.ask.slot, start, tokens, outputs: 1, hidden: false }
        };
        let runs: Vec<_> = all.iter().zip(tokens.iter().map(Vec::as_slice)).map(run).collect();
        let rows = self.head.pass(&runs, &states)?;
        let mut drawing = Vec::new();
        for ((going, tokens), Drawn { logits, state }) in all.iter_mut().zip(&tokens).zip(rows) {
            going.at += tokens.len();
            going.states = state.to_vec();
            // Else an earlier source has drafted what comes next.
            if going.at + 1 == going.walk.len() {
                drawing.push((&mut going.walk, logits));
            }
        }
        let looked_at = drawing.len() * self.width;
        self.helpers.each(looked_at, drawing.into_iter(), &mut self.scratches, |(walk, row), scratch| {
            walk.draw(row, scratch);
        });
        Ok(())
    }

    /// Cuts off what drafts have added behind these texts, of each its slot and known tokens.
    fn cut(&mut self, drafted: &[(Slot, usize)]) -> Result<(), ExecError> {
        let numbers = self.head.caps().n_embd;
        for (slot, known) in drafted {
            let held = &mut self.held[slot.index()];
            held.pairs += held.states.len() / numbers;
            debug_assert_eq!(held.base + held.pairs + 1, *known);
            held.states.clear();
            held.next.clear();
            let pairs = held.pairs as u32;
            self.head.truncate(*slot, pairs)?;
        }
        Ok(())
    }

    /// After a failure the target serves on alone.
    fn settle(&mut self, result: Result<(), ExecError>) {
        let Err(error) = result else { return };
        log::error!("the head failed and is not asked any more: {error}");
        self.broken = true;
        self.held.iter_mut().for_each(|held| *held = Held::default());
    }
}

impl Drafter for HeadDrafter {
    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        if self.broken {
            return;
        }
        let (longest, mut room) =
            (self.head.caps().kv_per_slot as usize, self.head.caps().max_step_tokens as usize);
        let numbers = self.head.caps().n_embd;
        let (mut all, mut drafted) = (Vec::new(), Vec::new());
        for ask in asks {
            let held = &self.held[ask.slot.index()];
            let waiting = held.states.len() / numbers;
            let ready = waiting > 0 && held.end(numbers) + 1 == ask.known.len() && waiting <= room;
            ask.late = !ready;
            if !ready || ask.known.len() + ask.draft.tokens.len() > longest {
                continue;
            }
            room -= waiting;
            let (base, at, states) = (held.base, held.base + held.pairs, held.states.clone());
            // What the last token's pair says is not drafted.
            all.push(Going { walk: Walk::new(ask, longest, self.width), base, at, states });
        }
        all.retain_mut(|going| going.walk.needs_row());
        all.sort_unstable_by_key(|going| going.walk.ask.slot);
        drafted.extend(all.iter().map(|going| (going.walk.ask.slot, going.walk.ask.known.len())));
        let result = self.run(all).and_then(|()| self.cut(&drafted));
        self.settle(result);
    }

    fn keep(&mut self, slot: Slot, len: u32) {
        let numbers = self.head.caps().n_embd;
        let (held, len) = (&mut self.held[slot.index()], len as usize);
        let pairs = len.saturating_sub(held.base).min(held.pairs);
        // A pair of the last token stays, though another may follow it now: its state is right.
        let states = len.saturating_sub(held.base + pairs).min(held.states.len() / numbers);
        held.states.truncate(states * numbers);
        held.next.truncate(states.saturating_sub(1));
        let longer = held.pairs > pairs;
        held.pairs = pairs;
        if pairs + states == 0 {
            *held = Held::default();
        }
        if longer && !self.broken {
            let cut = self.head.truncate(slot, pairs as u32);
            self.settle(cut);
        }
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) {
        let held = self.held[from.index()].clone();
        let pairs = (len as usize).saturating_sub(held.base).min(held.pairs);
        self.held[to.index()] = held;
        if !self.broken && pairs > 0 {
            let copied = self.head.copy(from, to, pairs as u32);
            self.settle(copied);
        }
        self.held[to.index()].pairs = pairs;
        self.keep(to, len);
    }

    fn observe(&mut self, round: &Round) {
        if self.broken {
            return;
        }
        if round.features.is_empty() {
            return self.keep(round.job.slot, round.computed);
        }
        let taken = self.take(round);
        self.settle(taken);
    }

    fn held(&self) -> u64 {
        self.held.iter().map(|held| held.pairs as u64).sum()
    }

    fn failed(&self) -> bool {
        self.broken
    }
}
