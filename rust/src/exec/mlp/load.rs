//! Reads a speculator's folder: `config.json` and the weights beside it.

use super::model::{Model, Stage};
use crate::error::{Error, Result};
use half::{bf16, f16};
use ndarray::{Array1, Array2};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The key of the configuration that names the folder.
pub(super) const KEY: &str = "speculative.mlp_speculator";
/// The architecture as `config.json` names it.
const ARCHITECTURE: &str = "MLPSpeculatorPreTrainedModel";

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

/// Reads the speculator in `folder`.
pub(super) fn model(folder: &Path) -> Result<Model> {
    let about = describe(&folder.join("config.json"))?;
    let tensors = read_all(folder)?;
    let inner = if about.inner_dim == 0 { about.emb_dim } else { about.inner_dim };
    let (ids, first) = (about.vocab_size, about.emb_dim);
    let mut stages: Vec<Stage> = Vec::new();
    for stage in 0..about.n_predict {
        // Tied weights may stand there once; only the first projection has another shape than the others.
        let tied = stages.get(if about.tie_weights { 0 } else { usize::MAX }).cloned();
        let projected = stages.get(if about.tie_weights { 1 } else { usize::MAX }).cloned();
        let matrix = |name: &str, rows: usize, columns: usize| {
            let values = tensors.get(&format!("{name}.{stage}.weight"), &[rows, columns], folder)?;
            Ok(Arc::new(Array2::from_shape_vec((rows, columns), values).expect("checked. This is a bug.")))
        };
        let vector = |name: &str| {
            let values = tensors.get(&format!("ln.{stage}.{name}"), &[inner], folder)?;
            Ok(Arc::new(Array1::from_vec(values)))
        };
        let width = if stage == 0 { first } else { inner };
        let proj = projected.map_or_else(|| matrix("proj", inner, width), |s| Ok(s.proj))?;
        stages.push(match tied {
            Some(tied) => Stage { proj, ..tied },
            None => Stage {
                emb: matrix("emb", ids, inner)?,
                proj,
                head: matrix("head", ids, inner)?,
                scale: vector("weight")?,
                shift: vector("bias")?,
            },
        });
    }
    Ok(Model::new(stages, about.scale_input))
}

fn describe(path: &Path) -> Result<Description> {
    let text = std::fs::read(path).map_err(|e| wrong(path, &format!("cannot be read: {e}")))?;
    let about: Description = serde_json::from_slice(&text)
        .map_err(|e| wrong(path, &format!("does not describe an MLP speculator: {e}")))?;
    if !about.architectures.iter().any(|name| name == ARCHITECTURE) {
        return Err(wrong(path, &format!("has not the architecture {ARCHITECTURE}")));
    }
    if about.n_predict == 0 || about.emb_dim == 0 || about.vocab_size == 0 {
        return Err(wrong(path, "has n_predict, emb_dim or vocab_size 0"));
    }
    Ok(about)
}

/// Tensors by their names without `speculator.`: file, type, shape, bytes.
#[derive(Debug, Default)]
struct Tensors(HashMap<String, Tensor>);

#[derive(Debug)]
struct Tensor {
    kind: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

fn read_all(folder: &Path) -> Result<Tensors> {
    let listed = std::fs::read_dir(folder).map_err(|e| wrong(folder, &format!("cannot be read: {e}")))?;
    let mut tensors = Tensors::default();
    for path in listed.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|e| e != "safetensors") {
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|e| wrong(&path, &format!("cannot be read: {e}")))?;
        let file = SafeTensors::deserialize(&bytes)
            .map_err(|e| wrong(&path, &format!("is no safetensors file: {e}")))?;
        for (name, view) in file.tensors() {
            let name = name.strip_prefix("speculator.").unwrap_or(&name).to_owned();
            let (kind, shape, bytes) = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
            tensors.0.insert(name, Tensor { kind, shape, bytes });
        }
    }
    Ok(tensors)
}

impl Tensors {
    /// The numbers of the tensor `name`, which must have this shape.
    fn get(&self, name: &str, shape: &[usize], folder: &Path) -> Result<Vec<f32>> {
        let Some(tensor) = self.0.get(name) else {
            return Err(wrong(folder, &format!("lacks the weights {name} in its .safetensors files")));
        };
        if tensor.shape != shape {
            let why =
                format!("has {name} with the shape {:?}, where config.json wants {shape:?}", tensor.shape);
            return Err(wrong(folder, &why));
        }
        let (pairs, _) = tensor.bytes.as_chunks::<2>();
        let (fours, _) = tensor.bytes.as_chunks::<4>();
        Ok(match tensor.kind {
            Dtype::F32 => fours.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Dtype::F16 => pairs.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect(),
            Dtype::BF16 => pairs.iter().map(|b| bf16::from_le_bytes(*b).to_f32()).collect(),
            other => {
                let why = format!("has {name} as {other:?}; F32, F16 and BF16 can be read");
                return Err(wrong(folder, &why));
            }
        })
    }
}

fn wrong(path: &Path, why: &str) -> Error {
    Error::invalid(KEY, format!("{} {why}", path.display()))
}
