//! Drafts from an MLP speculator: a few small stages on the target's last hidden state.
//!
//! From the state of the position that the target's last token was drawn at, and that token, the first stage guesses the
//! next token, the second the one after it, and so on; there is no KV and no prompt to read. All sequences go through a
//! stage together. What earlier sources drafted is fed to the stages as if they had guessed it.
//!
//! A state comes with the round that computed it, and only from steps without prompt chunks: with states asked for, the
//! engine computes logits for every token of a batch. So the first step after a prompt has no draft from here, and no
//! step waits.

mod load;
mod model;
#[cfg(test)]
mod tests;

use super::draft_walk::{Walk, guarded, widened};
use super::{Ask, Caps, Drafter, Round};
use crate::error::{Error, Result};
use crate::sampler::Scratch;
use crate::types::{Slot, Token};
use model::Model;
use ndarray::{Array2, Axis};
use std::path::Path;

/// Proposes what an MLP speculator draws.
pub struct MlpSpeculator {
    model: Model,
    /// Of each slot, if it is known.
    states: Vec<Option<State>>,
    /// Width of the target's rows, in tokens.
    width: usize,
    row: Vec<f32>,
    scratch: Scratch,
}

/// The target's hidden state at the last of `computed` tokens.
#[derive(Debug, Clone)]
struct State {
    hidden: Vec<f32>,
    computed: u32,
}

impl MlpSpeculator {
    /// Loads `config.json` and the `.safetensors` files of `folder` for a target with these `caps`.
    ///
    /// # Errors
    /// `Error::Invalid` naming `speculative.mlp_speculator` where the folder holds no such model, or none for this
    /// target.
    pub fn open(folder: &str, caps: &Caps) -> Result<Self> {
        let model = load::model(Path::new(folder))?;
        if model.emb_dim() != caps.n_embd {
            let why = format!(
                "{folder} wants states of {} numbers, the target's have {}; it was trained for another model",
                model.emb_dim(),
                caps.n_embd
            );
            return Err(Error::invalid(load::KEY, why));
        }
        let states = vec![None; caps.slots as usize];
        Ok(MlpSpeculator { model, states, width: caps.n_vocab, row: Vec::new(), scratch: Scratch::default() })
    }

    /// The state after which `ask` goes on: that of the token before its last one.
    fn state(&self, ask: &Ask<'_>) -> Option<&[f32]> {
        let state = self.states[ask.slot.index()].as_ref()?;
        (state.computed as usize + 1 == ask.known.len()).then_some(&state.hidden[..])
    }

    /// Draws with one stage for all walks that go on; `states` are theirs.
    fn stage(&mut self, stage: usize, walks: &mut Vec<Walk<'_>>, states: &mut Array2<f32>) {
        let width = self.width;
        let ids = self.model.ids();
        let input = |walk: &Walk<'_>| match stage.checked_sub(1) {
            None => walk.known.last().copied(),
            Some(before) => walk.draft.tokens.get(before).copied(),
        };
        let mut going = Vec::new();
        let mut tokens: Vec<Token> = Vec::new();
        let mut at = 0;
        walks.retain_mut(|walk| {
            let waits = walk.draft.tokens.len() > stage || guarded(|| walk.needs_row(width));
            let token = input(walk).filter(|&t| waits && !walk.over && (t as usize) < ids);
            going.extend(token.map(|_| at));
            tokens.extend(token);
            at += 1;
            token.is_some()
        });
        *states = self.model.step(stage, &states.select(Axis(0), &going), &tokens);
        let drawing: Vec<usize> =
            (0..walks.len()).filter(|i| walks[*i].draft.tokens.len() == stage).collect();
        let rows = self.model.rows(stage, &states.select(Axis(0), &drawing));
        for (index, row) in drawing.into_iter().zip(rows.rows()) {
            let walk = &mut walks[index];
            let row = row.to_slice().expect("rows are stored one after the other. This is a bug.");
            let row = widened(row, width, &mut self.row);
            walk.over = !guarded(|| walk.draw(row, &mut self.scratch));
        }
    }
}

impl Drafter for MlpSpeculator {
    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        let mut states = Vec::new();
        let mut walks = Vec::new();
        for ask in asks {
            let Some(state) = self.state(ask) else {
                ask.late = true;
                continue;
            };
            states.extend_from_slice(state);
            let mut walk = Walk::new(ask, usize::MAX);
            walk.over |= !guarded(|| walk.begin(self.width));
            walks.push(walk);
        }
        let states = Array2::from_shape_vec((walks.len(), self.model.emb_dim()), states);
        let mut states = self.model.input(states.expect("each state has its width. This is a bug."));
        for stage in 0..self.model.stages() {
            if walks.is_empty() {
                break;
            }
            self.stage(stage, &mut walks, &mut states);
        }
    }

    fn reach(&self) -> u32 {
        self.model.stages() as u32
    }

    fn wants_hidden(&self) -> bool {
        true
    }

    fn observe(&mut self, round: &Round) {
        let state = |hidden: &Vec<f32>| State { hidden: hidden.clone(), computed: round.computed };
        self.states[round.job.slot.index()] = round.hidden.as_ref().map(state);
    }

    fn keep(&mut self, slot: Slot, len: u32) {
        self.states[slot.index()].take_if(|state| state.computed > len || len == 0);
    }

    fn held(&self) -> u64 {
        self.states.iter().flatten().count() as u64
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) {
        self.states[to.index()] = self.states[from.index()].clone().filter(|state| state.computed <= len);
    }
}
