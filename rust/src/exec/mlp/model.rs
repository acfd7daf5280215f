//! An MLP speculator (Wertheimer et al., "Accelerating Production LLMs with Combined Token/Embedding Speculators", 2024;
//! published models are `MLPSpeculatorPreTrainedModel`): its folder, and its arithmetic.

use crate::error::{Error, Result};
use crate::types::Token;
use half::{bf16, f16};
use ndarray::{Array, Array1, Array2, Axis, Dimension, Ix1, Ix2};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use std::f32::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::path::Path;

/// The key of the configuration that names the folder.
pub(super) const KEY: &str = "speculative.mlp_speculator";
/// The architecture as `config.json` names it.
const ARCHITECTURE: &str = "MLPSpeculatorPreTrainedModel";
/// Added to the mean square before its root.
const EPS: f32 = 1e-6;

/// What `config.json` must say; it says more.
#[derive(Debug, Deserialize)]
struct Description {
    architectures: Vec<String>,
    n_predict: usize,
    emb_dim: usize,
    /// 0: as `emb_dim`.
    #[serde(default)]
    inner_dim: usize,
    vocab_size: usize,
    #[serde(default)]
    tie_weights: bool,
    #[serde(default)]
    scale_input: bool,
}

/// A speculator: never without stages. Of each kind of weights the last ones are those of all further stages, too.
#[derive(Debug)]
pub(super) struct Model {
    /// Stages: the longest draft.
    pub(super) stages: usize,
    scale_input: bool,
    /// Weight of a token's embedding beside the state.
    emb_weight: f32,
    /// `[ids, inner]`.
    emb: Vec<Array2<f32>>,
    /// `[inner, emb_dim]` in the first stage, `[inner, inner]` in the others.
    proj: Vec<Array2<f32>>,
    /// `[ids, inner]`.
    head: Vec<Array2<f32>>,
    /// `[inner]`, of the normalisation.
    scale: Vec<Array1<f32>>,
    /// `[inner]`, of the normalisation.
    shift: Vec<Array1<f32>>,
}

impl Model {
    /// Reads `config.json` and the weights beside it.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let about = describe(&folder.join("config.json"))?;
        let Description { n_predict: stages, emb_dim, vocab_size: ids, scale_input, .. } = about;
        let inner = if about.inner_dim == 0 { emb_dim } else { about.inner_dim };
        let listed = std::fs::read_dir(folder).map_err(|e| wrong(folder, &format!("cannot be read: {e}")))?;
        let paths = listed.flatten().map(|entry| entry.path());
        let paths = paths.filter(|path| path.extension().is_some_and(|e| e == "safetensors"));
        let files = paths.map(|path| Ok((read(&path)?, path))).collect::<Result<Vec<_>>>()?;
        let files = files.iter().map(|(bytes, path)| {
            SafeTensors::deserialize(bytes).map_err(|e| wrong(path, &format!("is no safetensors file: {e}")))
        });
        let files = files.collect::<Result<Vec<_>>>()?;
        // Tied weights may stand there once; only the first projection has another shape than the others.
        let stages_of = |tied: usize| 0..if about.tie_weights { tied.min(stages) } else { stages };
        let all = (&files[..], folder);
        let width = |i| if i == 0 { emb_dim } else { inner };
        let proj = |i| weights(all, &format!("proj.{i}.weight"), Ix2(inner, width(i)));
        let by_id = |kind| -> Result<Vec<_>> {
            stages_of(1).map(|i| weights(all, &format!("{kind}.{i}.weight"), Ix2(ids, inner))).collect()
        };
        let norm = |part| -> Result<Vec<_>> {
            stages_of(1).map(|i| weights(all, &format!("ln.{i}.{part}"), Ix1(inner))).collect()
        };
        // The first state makes up half of the last one.
        let state_weight = 0.5f64.powf(0.5 / stages as f64);
        let emb_weight = ((1.0 - state_weight * state_weight) * inner as f64 / 2.0).sqrt() / state_weight;
        Ok(Model {
            stages,
            scale_input,
            emb_weight: emb_weight as f32,
            proj: stages_of(2).map(proj).collect::<Result<_>>()?,
            emb: by_id("emb")?,
            head: by_id("head")?,
            scale: norm("weight")?,
            shift: norm("bias")?,
        })
    }

    /// Width of the target's states.
    pub(super) fn emb_dim(&self) -> usize {
        self.proj[0].ncols()
    }

    /// Token ids that it knows.
    pub(super) fn ids(&self) -> usize {
        self.emb[0].nrows()
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
        let mut states = states.dot(&of(&self.proj, stage).t());
        for (mut state, &token) in states.axis_iter_mut(Axis(0)).zip(tokens) {
            state.scaled_add(self.emb_weight, &of(&self.emb, stage).row(token as usize));
        }
        normalise(&mut states);
        (states * of(&self.scale, stage) + of(&self.shift, stage)).mapv_into(gelu)
    }

    /// Logits `[n, ids]` of the stage for its states.
    pub(super) fn rows(&self, stage: usize, states: &Array2<f32>) -> Array2<f32> {
        states.dot(&of(&self.head, stage).t()).as_standard_layout().into_owned()
    }
}

/// What a stage has of one kind of weights.
fn of<T>(weights: &[T], stage: usize) -> &T {
    &weights[stage.min(weights.len() - 1)]
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

fn describe(path: &Path) -> Result<Description> {
    let about: Description = serde_json::from_slice(&read(path)?)
        .map_err(|e| wrong(path, &format!("does not describe an MLP speculator: {e}")))?;
    if !about.architectures.iter().any(|name| name == ARCHITECTURE) {
        return Err(wrong(path, &format!("has not the architecture {ARCHITECTURE}")));
    }
    if about.n_predict == 0 || about.emb_dim == 0 || about.vocab_size == 0 {
        return Err(wrong(path, "has n_predict, emb_dim or vocab_size 0"));
    }
    Ok(about)
}

/// The numbers of the tensor `name`, before which `speculator.` may stand, and which must have this shape.
fn weights<D: Dimension>(
    (files, folder): (&[SafeTensors<'_>], &Path),
    name: &str,
    shape: D,
) -> Result<Array<f32, D>> {
    let wrong = |why: String| Err(wrong(folder, &why));
    let names = [&format!("speculator.{name}"), name];
    let found = files.iter().find_map(|file| names.iter().find_map(|name| file.tensor(name).ok()));
    let Some(tensor) = found else {
        return wrong(format!("lacks the weights {name} in its .safetensors files"));
    };
    let (has, wants) = (tensor.shape(), shape.slice());
    if has != wants {
        return wrong(format!("has {name} with the shape {has:?}, where config.json wants {wants:?}"));
    }
    let (pairs, _) = tensor.data().as_chunks::<2>();
    let (fours, _) = tensor.data().as_chunks::<4>();
    let values = match tensor.dtype() {
        Dtype::F32 => fours.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Dtype::F16 => pairs.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect(),
        Dtype::BF16 => pairs.iter().map(|b| bf16::from_le_bytes(*b).to_f32()).collect(),
        other => return wrong(format!("has {name} as {other:?}; F32, F16 and BF16 can be read")),
    };
    Ok(Array::from_shape_vec(shape, values).expect("it has as many. This is a bug."))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| wrong(path, &format!("cannot be read: {e}")))
}

fn wrong(path: &Path, why: &str) -> Error {
    Error::invalid(KEY, format!("{} {why}", path.display()))
}
