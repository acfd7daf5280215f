//! Heads: which files have one, what it needs of a target, and what llama.cpp would end the process for.

use super::gguf::ffi::Metadata;
use super::loaded::Loaded;
use crate::error::{Error, Result};
use std::path::Path;

/// The architecture of EAGLE-3 heads.
const EAGLE3: &str = "eagle3";
/// Architectures of heads that cannot be used.
const OTHERS: [&str; 2] = ["dflash", "gemma4-assistant"];
/// Architectures whose layers' inputs llama.cpp hands out.
const READABLE: [&str; 15] = [
    "bailingmoe3",
    "gemma4",
    "gpt-oss",
    "hunyuan_vl",
    "lfm2",
    "llama",
    "mimo2",
    "minimax-m2",
    "nemotron_h",
    "nemotron_h_moe",
    "qwen3",
    "qwen35",
    "qwen35moe",
    "qwen3moe",
    "qwen3next",
];
/// Architectures whose MTP layers llama.cpp computes one token further, from the state behind the last layer.
const MTP: [&str; 5] = ["deepseek2", "glm4moe", "qwen35", "qwen35moe", "qwen3next"];

/// A head.
pub(super) enum Head {
    /// A layer that goes on from the inputs of three of the target's.
    Eagle3(Needs),
    /// The layer for multi-token prediction that models are trained with, in a file of its own or in its model's.
    Mtp,
}

/// What the file of an EAGLE-3 head says.
pub(super) struct Needs {
    /// Numbers of what goes into the target's layers.
    width: i64,
    /// Numbers of its own state.
    own: i64,
    /// It has token embeddings, and a matrix that makes scores.
    embeds: bool,
    scores: bool,
    /// The tokens that it scores; None: all. Empty where they are no numbers.
    scored: Option<Vec<i64>>,
}

/// MTP layers, as a file's keys claim and its tensors show. More than one are not computed: they are trained for one token each.
pub(super) fn mtp_layers(file: &Metadata, arch: &str, tensors: &[(String, u64)]) -> u32 {
    let claimed = file.integer(&format!("{arch}.nextn_predict_layers")).unwrap_or(0);
    let has = tensors.iter().any(|(name, _)| name.ends_with(".nextn.eh_proj.weight"));
    if has { u32::try_from(claimed).unwrap_or(0) } else { 0 }
}

impl Head {
    /// The head that this file is; None where it is a model. `mtp`: its MTP layers.
    pub(super) fn read(
        (gguf, file): (&Path, &Metadata),
        arch: &str,
        tensors: &[(String, u64)],
        mtp: u32,
    ) -> Option<Self> {
        let number = |key: &str| file.integer(&format!("{EAGLE3}.{key}")).unwrap_or(0);
        let has = |name: &str| tensors.iter().any(|(tensor, _)| tensor == name);
        if arch == EAGLE3 {
            return Some(Head::Eagle3(Needs {
                width: number("target_hidden_size"),
                own: number("embedding_length"),
                embeds: has("token_embd.weight"),
                scores: has("output.weight"),
                scored: has("d2t").then(|| file.numbers(gguf, "d2t").unwrap_or_default()),
            }));
        }
        (mtp > 0 && !has("blk.0.attn_norm.weight")).then_some(Head::Mtp)
    }

    /// Its name in messages.
    fn name(&self) -> &'static str {
        match self {
            Head::Eagle3(_) => "an EAGLE-3 head",
            Head::Mtp => "an MTP head",
        }
    }
}

/// Why a file of this architecture is none that can be used, if it is one of a head.
pub(super) fn unusable(arch: &str) -> Option<String> {
    let why = "which cannot draft here: give an EAGLE-3 head, an MTP head or a small model of the family";
    OTHERS.contains(&arch).then(|| format!("is a head of the kind {arch}, {why}"))
}

/// Looks whether this head can draft for the target, and gives back the layers of the target's that it reads: see
/// [`super::context::Context::tap`].
///
/// # Errors
/// `Invalid` of the target, which the caller makes one of the draft.
pub(super) fn check(head: &Loaded<'_>, kind: &Head, target: &Loaded<'_>) -> Result<Vec<u32>> {
    let fits = || -> Result<Vec<u32>, String> {
        if !head.on_host() || !target.on_host() {
            return Err("drafts where the CPU computes target and head: set engine.gpu_layers to 0 and leave ranks out, or leave the \
                        head out"
                .into());
        }
        let (own, theirs) = (head.model.n_vocab(), target.model.n_vocab());
        if own != theirs {
            return Err(format!(
                "has {own} tokens, and the target {theirs}: give the head that was made for it"
            ));
        }
        match kind {
            Head::Eagle3(needs) => needs.fit(head, target),
            Head::Mtp => fit_mtp(head, target),
        }
    };
    fits().map_err(|why| Error::target(head.gguf, format!("is {}, which {why}", kind.name())))
}

impl Needs {
    fn fit(&self, head: &Loaded<'_>, target: &Loaded<'_>) -> Result<Vec<u32>, String> {
        let arch = &target.file.arch;
        if !READABLE.contains(&arch.as_str()) {
            return Err(format!("needs a target whose layers llama.cpp hands out, not {arch}: leave it out"));
        }
        let (width, layers) = (target.model.layer_width(), target.model.n_layer());
        // What it lacks it has of the target, whose rows must be as long as its own.
        let alike = self.embeds && self.scores || self.own == width as i64;
        if self.width != width as i64 || !alike {
            return Err(format!(
                "reads hidden states of {} numbers (its own have {}), and the target's have {width}: give the head that was made for \
                 this target",
                self.width, self.own
            ));
        }
        let read = head.model.read_layers();
        if let Some(layer) = read.iter().find(|layer| **layer >= layers) {
            return Err(format!(
                "reads the input of layer {layer}, and the target has {layers}: give its own head"
            ));
        }
        let Some(scored) = &self.scored else { return Ok(read) };
        let known = 0..target.model.n_vocab() as i64;
        if !self.scores || scored.is_empty() || scored.iter().any(|token| !known.contains(token)) {
            return Err("is damaged: it scores some tokens only, and has no output.weight or none of the target's ids for them".into());
        }
        Ok(read)
    }
}

fn fit_mtp(head: &Loaded<'_>, target: &Loaded<'_>) -> Result<Vec<u32>, String> {
    let (own, arch) = (&head.file.arch, &target.file.arch);
    if own != arch || !MTP.contains(&arch.as_str()) {
        let known = MTP.join(", ");
        return Err(format!(
            "has the architecture {own}, and the target {arch}: both must have the same of {known}; leave it out"
        ));
    }
    let (own, theirs) = (head.model.n_embd(), target.model.n_embd());
    if own != theirs {
        return Err(format!(
            "has hidden states of {own} numbers, and the target's have {theirs}: give its own head"
        ));
    }
    if head.file.mtp != 1 {
        return Err(format!("has {} layers: one can draft; leave it out", head.file.mtp));
    }
    Ok(vec![target.model.n_layer()])
}
