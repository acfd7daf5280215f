//! The arithmetic of an MLP speculator (Wertheimer et al., "Accelerating Production LLMs with Combined Token/Embedding
//! Speculators", 2024; published models are `MLPSpeculatorPreTrainedModel`).

use crate::types::Token;
use ndarray::{Array1, Array2, Axis, Zip};
use std::f32::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::sync::Arc;

/// Added to the mean square before its root.
const EPS: f32 = 1e-6;

/// One stage. Tied stages share their weights.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    /// `[ids, inner]`.
    pub(super) emb: Arc<Array2<f32>>,
    /// `[inner, emb_dim]` in the first stage, `[inner, inner]` in the others.
    pub(super) proj: Arc<Array2<f32>>,
    /// `[ids, inner]`.
    pub(super) head: Arc<Array2<f32>>,
    /// `[inner]`, of the normalisation.
    pub(super) scale: Arc<Array1<f32>>,
    /// `[inner]`, of the normalisation.
    pub(super) shift: Arc<Array1<f32>>,
}

/// A speculator: never without stages.
#[derive(Debug)]
pub(super) struct Model {
    stages: Vec<Stage>,
    scale_input: bool,
    /// Weight of a token's embedding beside the state.
    emb_weight: f32,
}

impl Model {
    /// `stages` as `config.json` describes them, at least one.
    pub(super) fn new(stages: Vec<Stage>, scale_input: bool) -> Self {
        // The first state makes up half of the last one.
        let state_weight = 0.5f64.powf(0.5 / stages.len() as f64);
        let inner = stages[0].proj.nrows() as f64;
        let emb_weight = ((1.0 - state_weight * state_weight) * inner / 2.0).sqrt() / state_weight;
        Model { stages, scale_input, emb_weight: emb_weight as f32 }
    }

    /// Stages: the longest draft.
    pub(super) fn stages(&self) -> usize {
        self.stages.len()
    }

    /// Width of the target's states.
    pub(super) fn emb_dim(&self) -> usize {
        self.stages[0].proj.ncols()
    }

    /// Token ids that it knows.
    pub(super) fn ids(&self) -> usize {
        self.stages[0].emb.nrows()
    }

    /// What the first stage takes for the target's states `[n, emb_dim]`.
    pub(super) fn input(&self, mut states: Array2<f32>) -> Array2<f32> {
        if self.scale_input {
            normalise(&mut states);
            states *= FRAC_1_SQRT_2;
        }
        states
    }

    /// The states `[n, inner]` after those of the stage before, and one token for each, each below [`Model::ids`].
    pub(super) fn step(&self, stage: usize, states: &Array2<f32>, tokens: &[Token]) -> Array2<f32> {
        let stage = &self.stages[stage];
        let mut states = states.dot(&stage.proj.t());
        for (mut state, &token) in states.axis_iter_mut(Axis(0)).zip(tokens) {
            state.scaled_add(self.emb_weight, &stage.emb.row(token as usize));
        }
        normalise(&mut states);
        for mut state in states.axis_iter_mut(Axis(0)) {
            Zip::from(&mut state)
                .and(&*stage.scale)
                .and(&*stage.shift)
                .for_each(|x, scale, shift| *x = gelu(*x * scale + shift));
        }
        states
    }

    /// Logits `[n, ids]` of the stage for its states.
    pub(super) fn rows(&self, stage: usize, states: &Array2<f32>) -> Array2<f32> {
        states.dot(&self.stages[stage].head.t()).as_standard_layout().into_owned()
    }
}

/// Scales each row to root mean square 1.
fn normalise(states: &mut Array2<f32>) {
    for mut state in states.axis_iter_mut(Axis(0)) {
        let mean = state.dot(&state) / state.len() as f32;
        state *= (mean + EPS).sqrt().recip();
    }
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + libm::erff(x / SQRT_2))
}
