//! TensorRT-LLM's LLM API in the place of an executor: it takes Hugging Face folders, speculates and enforces constraints by
//! itself, and asks nobody for masks.

use super::interface::{Executor, LLM};
use super::orders::Abilities;
use super::pair::{Alone, Checkpoint};
use super::target::{Logits, Parts, TrtTarget};
use crate::config::Config;
use crate::error::Result;
use crate::exec::{self, Caps, Copying, Promise};
use crate::request::{Feature, Lacks};
use serde::Serialize;

/// Arguments of `LLM`.
#[derive(Serialize)]
struct Options<'a> {
    draft: Option<&'a str>,
    max_draft_len: u32,
    tensor_parallel_size: u32,
    max_batch_size: u32,
    max_num_tokens: u32,
    max_seq_len: u32,
    enable_chunked_prefill: bool,
}

/// What it cannot do, or does by itself.
const LACKS: [Feature; 12] = [
    Feature::LogitBias,
    Feature::PromptLogprobs,
    Feature::Logprobs,
    Feature::TopLogprobs,
    Feature::AllowedLogprobs,
    Feature::Decisions,
    Feature::AllowedTokens,
    Feature::IgnoreEos,
    // It holds one end token back, not all.
    Feature::MinTokens,
    Feature::Rejection,
    Feature::Acceptance,
    Feature::MinP,
];

/// Loads the model.
///
/// # Errors
/// `Invalid` of `target` where TensorRT-LLM is missing or refuses it.
pub(super) fn open_llm(checkpoint: &Checkpoint<'_>, config: &Config) -> Result<Alone> {
    let options = Options {
        draft: checkpoint.draft,
        // As many as TensorRT-LLM's examples draft, where nothing is said.
        max_draft_len: config.speculative.max_draft_len.unwrap_or(10),
        tensor_parallel_size: config.trtllm.device_ids.as_ref().map_or(1, |ids| ids.len() as u32),
        max_batch_size: config.max_batch_size,
        max_num_tokens: config.max_num_tokens,
        max_seq_len: checkpoint.max_seq_len,
        enable_chunked_prefill: config.enable_chunked_context,
    };
    let executor = Executor::open(LLM, ("target", checkpoint.path), &options, None)?;
    let caps = exec::Caps {
        prefix_reuse: false,
        rollback: 0,
        copying: Copying::Never,
        keeps_prompts: true,
        draws: true,
        ragged: true,
        promise: Promise::NearTies,
        ..Caps::of_rows(checkpoint.n_vocab as usize, config.max_batch_size, checkpoint.max_seq_len)
    };
    let abilities = Abilities { cache_salt: true, prompt_ignore_length: false, min_p: false };
    let parts =
        Parts { caps, abilities, most: 0, drafts: 0, guided: true, block: 0, logits: Logits::default() };
    let lacks = Lacks { engine: "TensorRT-LLM's LLM API".into(), features: LACKS.to_vec() };
    Ok((Box::new(TrtTarget::new(executor, parts)), lacks))
}
