//! Which engine loads a checkpoint, with what options, and what it lacks.

use super::interface::{Facts, PyEngine};
use super::request::{GrammarFormat, RequestOptions};
use super::target::ExternalTarget;
use super::{Checkpoint, OPEN, Opened};
use crate::config::{Backend, Config, ReuseScope};
use crate::error::{Error, Result};
use crate::exec::exception::refusal;
use crate::exec::{Caps, Copying};
use crate::request::{Feature, Lacks};
use pyo3::prelude::*;
use serde_json::{Value, json};

/// Lets the core open checkpoints.
pub(crate) fn install() {
    // A second import finds it there.
    let _ = OPEN.set(open);
}

/// An engine that reads checkpoints.
struct Kind {
    /// As messages name it.
    name: &'static str,
    /// Its class `Engine` is there.
    module: &'static str,
    format: GrammarFormat,
    lacks: &'static [Feature],
}

const VLLM: Kind = Kind {
    name: "vLLM",
    module: "llgtrt.engines.vllm",
    format: GrammarFormat::Spec,
    lacks: &[
        Feature::AllowedLogprobs,
        Feature::Decisions,
        Feature::Rejection,
        Feature::Acceptance,
        Feature::DraftChoice,
        Feature::ConstrainedMinTokens,
    ],
};

const TENSORRT_LLM: Kind = Kind {
    name: "TensorRT-LLM's LLM API",
    module: "llgtrt.engines.tensorrt_llm",
    format: GrammarFormat::Lark,
    lacks: &[
        Feature::LogitBias,
        Feature::PromptLogprobs,
        Feature::Logprobs,
        Feature::AllowedLogprobs,
        Feature::Decisions,
        Feature::AllowedTokens,
        Feature::IgnoreEos,
        // It holds one end token back, not all.
        Feature::MinTokens,
        Feature::Rejection,
        Feature::Acceptance,
        Feature::MinP,
    ],
};

fn open(checkpoint: &Checkpoint<'_>, config: &Config) -> Result<Opened> {
    let kind = kind(checkpoint, config)?;
    let options = options(checkpoint, config).to_string();
    let (engine, facts) = PyEngine::open(kind.module, checkpoint.path, &options)?;
    let (summary, counted) = (facts.summary.clone(), facts.speculates);
    let lacks = lacks(&kind, facts)?;
    let seeded = config.engine.seed.is_some();
    if seeded && lacks.features.contains(&Feature::Seed) {
        let why = format!("is not possible on {}; leave it out", lacks.engine);
        return Err(Error::invalid("engine.seed", why));
    }
    let caps = Caps {
        // The engine keeps prefixes by itself.
        prefix_reuse: false,
        rollback: 0,
        copying: Copying::Never,
        keeps_prompts: true,
        completes: kind.format == GrammarFormat::Spec,
        ragged: true,
        ..Caps::of_rows(checkpoint.n_vocab as usize, config.max_batch_size, checkpoint.max_seq_len)
    };
    let shared = config.kv_cache_reuse_scope == ReuseScope::All;
    let options = RequestOptions { format: kind.format, seeded, shared, counted };
    let target = Box::new(ExternalTarget::new(engine, kind.name, options, caps));
    Ok(Opened { target, lacks, summary })
}

/// The engine that the configuration names, or the first that is installed.
fn kind(checkpoint: &Checkpoint<'_>, config: &Config) -> Result<Kind> {
    match config.engine.backend {
        Backend::Vllm => return Ok(VLLM),
        Backend::TensorrtLlm => return Ok(TENSORRT_LLM),
        Backend::Auto | Backend::LlamaCpp => {}
    }
    let installed = Python::attach(|py| -> PyResult<String> {
        py.import("llgtrt.engines")?.call_method0("installed")?.extract()
    });
    let installed = installed.map_err(|e| refusal("target", checkpoint.path, &e))?;
    Ok(if installed == "vllm" { VLLM } else { TENSORRT_LLM })
}

/// What the Python class is told; the same as `Options` in `python/llgtrt/engines/__init__.py`.
fn options(checkpoint: &Checkpoint<'_>, config: &Config) -> Value {
    json!({
        "draft": checkpoint.draft,
        "max_draft_len": config.speculative.max_draft_len,
        "tensor_parallel_size": config.parallel.target_size(),
        "draft_tensor_parallel_size": config.parallel.draft_size(),
        "max_batch_size": config.max_batch_size,
        "max_num_tokens": config.max_num_tokens,
        "max_seq_len": checkpoint.max_seq_len,
        "enable_chunked_prefill": config.enable_chunked_context,
        "enable_prefix_caching": config.enable_kv_cache_reuse,
        "memory_fraction": config.kv_cache_free_gpu_mem_fraction,
        "kv_cache_bytes": config.kv_cache_memory,
        "grammar": config.grammar,
        "vllm": config.vllm,
        "trtllm": config.trtllm,
    })
}

fn lacks(kind: &Kind, facts: Facts) -> Result<Lacks> {
    let mut features = kind.lacks.to_vec();
    for name in &facts.lacks {
        let feature = serde_json::from_value(Value::from(name.as_str()));
        features.push(feature.map_err(|e| Error::Executor(format!("{name}: {e}. This is a bug.")))?);
    }
    Ok(Lacks { engine: facts.name, features })
}
