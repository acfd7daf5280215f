//! Files of heads: what they need of a target, and what llama.cpp would end the process for.

use super::gguf::ffi::Metadata;
use super::loaded::Loaded;
use crate::error::{Error, Result};

/// The architecture of EAGLE-3 heads.
const EAGLE3: &str = "eagle3";
/// Architectures of heads that cannot be used.
const OTHERS: [&str; 2] = ["dflash", "gemma4-assistant"];
/// Architectures whose layers' inputs llama.cpp hands out.
const READABLE: [&str; 15] = [
    "gemma4", "gpt-oss", "hunyuan_vl", "lfm2", "llama", "mimo2", "minimax-m2", "nemotron_h", "nemotron_h_moe", "qwen3",
    "qwen35", "qwen35moe", "qwen3moe", "qwen3next", "bailingmoe3",
];

/// What a head's file says.
pub(super) struct Needs {
    /// Numbers of what goes into the target's layers.
    width: i64,
    /// Numbers of its own state.
    own: i64,
    /// It has token embeddings, and a matrix that makes scores.
    embeds: bool,
    scores: bool,
    /// It scores some of the target's tokens only.
    reduced: bool,
}

impl Needs {
    /// Of an EAGLE-3 head; None for any other model.
    pub(super) fn read(file: &Metadata, arch: &str, tensors: &[(String, u64)]) -> Option<Self> {
        let number = |key: &str| file.integer(&format!("{EAGLE3}.{key}")).unwrap_or(0);
        let has = |name: &str| tensors.iter().any(|(tensor, _)| tensor == name);
        (arch == EAGLE3).then(|| Needs {
            width: number("target_hidden_size"),
            own: number("embedding_length"),
            embeds: has("token_embd.weight"),
            scores: has("output.weight"),
            reduced: has("d2t"),
        })
    }
}

/// Why a file of this architecture is none that can be used, if it is one of a head.
pub(super) fn unusable(arch: &str) -> Option<String> {
    let why = "which is no draft model that can be used here: give an EAGLE-3 head or a small model of the family";
    OTHERS.contains(&arch).then(|| format!("is a head of the kind {arch}, {why}"))
}

/// Looks whether this head can draft for the target.
///
/// # Errors
/// `Invalid` of the target, which the caller makes one of the draft.
pub(super) fn check(head: &Loaded<'_>, target: &Loaded<'_>) -> Result<()> {
    let Some(needs) = &head.file.head else { return Ok(()) };
    let refused = |why: String| Err(Error::target(head.gguf, why));
    if !head.on_host() || !target.on_host() {
        let why = "is an EAGLE-3 head, which drafts on the CPU for a target on the CPU only: set engine.gpu_layers to 0 and leave ranks out, \
                   or leave the head out";
        return refused(why.into());
    }
    let arch = &target.file.arch;
    if !READABLE.contains(&arch.as_str()) {
        return refused(format!(
            "is an EAGLE-3 head; llama.cpp hands out no layers of the target's architecture {arch}: leave the head out"
        ));
    }
    let (width, layers) = (target.model.layer_width(), target.model.n_layer());
    let wide = needs.width == width as i64;
    // What it lacks it has of the target, whose rows must be as long as its own.
    let alike = needs.embeds && needs.scores || needs.own == width as i64;
    if !wide || !alike {
        let (theirs, own) = (needs.width, needs.own);
        return refused(format!(
            "was made for a target with {theirs} numbers in a hidden state (its own have {own}), and the target's have {width}: give the head \
             that was made for this target"
        ));
    }
    let read = head.model.read_layers();
    if let Some(layer) = read.iter().find(|layer| **layer >= layers) {
        return refused(format!("reads the input of layer {layer}, and the target has {layers}: give its own head"));
    }
    if needs.reduced && !needs.scores {
        return refused("is damaged: it scores some tokens only, and has no output.weight for them".into());
    }
    let (own, theirs) = (head.model.n_vocab(), target.model.n_vocab());
    if own != theirs {
        return refused(format!("has {own} tokens, and the target {theirs}: give the head that was made for it"));
    }
    Ok(())
}
