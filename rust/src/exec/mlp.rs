//! Drafts from an MLP speculator: a few small stages on the target's last hidden state.
//!
//! From the state of the position that the target's last token was drawn at, and that token, the first stage guesses the
//! next token, the second the one after it, and so on; there is no KV and no prompt to read. All sequences go through a
//! stage together. What earlier sources drafted is fed to the stages as if they had guessed it.
//!
//! A state comes with the round that computed it, and only from steps without prompt chunks: with states asked for, the
//! engine computes logits for every token of a batch. So the first step after a prompt has no draft from here, and no
//! step waits.

mod model;
#[cfg(test)]
mod tests;

use super::draft_walk::Walk;
use super::{Ask, Caps, Drafter, Round};
use crate::error::{Error, Result};
use crate::sampler::Scratch;
use crate::types::Slot;
use model::Model;
use ndarray::{Array2, Axis};
use std::path::Path;

/// Proposes what an MLP speculator draws.
pub struct MlpSpeculator {
    model: Model,
    /// Of each slot, if it is known: the target's hidden state at the last of so many computed tokens.
    states: Vec<Option<(Vec<f32>, u32)>>,
    /// Width of the target's rows, in tokens.
    width: usize,
    scratch: Scratch,
}

impl MlpSpeculator {
    /// Loads `config.json` and the `.safetensors` files of `folder` for a target with these `caps`.
    ///
    /// # Errors
    /// `Error::Invalid` naming `speculative.mlp_speculator` where the folder holds no such model, or none for this
    /// target.
    pub fn open(folder: &str, caps: &Caps) -> Result<Self> {
        let model = Model::open(Path::new(folder))?;
        if model.emb_dim() != caps.n_embd {
            let why = format!(
                "{folder} wants states of {} numbers, the target's have {}; it was trained for another model",
                model.emb_dim(),
                caps.n_embd
            );
            return Err(Error::invalid(model::KEY, why));
        }
        let states = vec![None; caps.slots as usize];
        Ok(MlpSpeculator { model, states, width: caps.n_vocab, scratch: Scratch::default() })
    }

    /// Draws with one stage for all walks that go on; `states` are theirs.
    fn stage(&mut self, stage: usize, walks: &mut Vec<Walk<'_, '_>>, states: &mut Array2<f32>) {
        let (mut going, mut tokens, mut row) = (Vec::new(), Vec::new(), 0..);
        walks.retain_mut(|walk| {
            let row = row.next();
            let drafts = walk.ask.draft.tokens.len() > stage || walk.needs_row();
            let token = walk.text().nth(walk.ask.known.len() - 1 + stage).copied();
            let token = token.filter(|&token| drafts && !walk.over && (token as usize) < self.model.ids());
            going.extend(row.filter(|_| token.is_some()));
            tokens.extend(token);
            token.is_some()
        });
        *states = self.model.step(stage, &states.select(Axis(0), &going), &tokens);
        let drawing = |i: &usize| walks[*i].ask.draft.tokens.len() == stage;
        let drawing: Vec<usize> = (0..walks.len()).filter(drawing).collect();
        let rows = self.model.rows(stage, &states.select(Axis(0), &drawing));
        for (index, row) in drawing.into_iter().zip(rows.rows()) {
            let row = row.to_slice().expect("rows are stored one after the other. This is a bug.");
            walks[index].draw(row, &mut self.scratch);
        }
    }
}

impl Drafter for MlpSpeculator {
    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        let (mut states, mut walks) = (Vec::new(), Vec::new());
        for ask in asks {
            // The state after which it goes on is that of the token before its last one.
            match &self.states[ask.slot.index()] {
                Some((state, computed)) if *computed as usize + 1 == ask.known.len() => {
                    states.extend_from_slice(state);
                    walks.push(Walk::new(ask, usize::MAX, self.width));
                }
                _ => ask.late = true,
            }
        }
        let states = Array2::from_shape_vec((walks.len(), self.model.emb_dim()), states);
        let mut states = self.model.input(states.expect("each state has its width. This is a bug."));
        for stage in 0..self.model.stages {
            if walks.is_empty() {
                break;
            }
            self.stage(stage, &mut walks, &mut states);
        }
    }

    fn reach(&self) -> u32 {
        self.model.stages as u32
    }

    fn wants_hidden(&self) -> bool {
        true
    }

    fn observe(&mut self, round: &Round) {
        self.states[round.job.slot.index()] = round.hidden.clone().map(|state| (state, round.computed));
    }

    fn keep(&mut self, slot: Slot, len: u32) {
        self.states[slot.index()].take_if(|(_, computed)| *computed > len || len == 0);
    }

    fn held(&self) -> u64 {
        self.states.iter().flatten().count() as u64
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) {
        self.states[to.index()] = self.states[from.index()].clone().filter(|(_, computed)| *computed <= len);
    }
}
