//! The engine's keys.

use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The engine. All keys but `backend`, `context`, `seed` and `generation_config` are about llama.cpp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// What computes the model. auto = llama.cpp for GGUF files and folders of llgtrt build; TensorRT-LLM for its engine folders;
    /// for Hugging Face folders the first that is installed: TensorRT-LLM, vLLM.
    pub backend: Backend,
    /// Engine threads; 0 = the number of physical cores that this process may use.
    #[schemars(range(min = 0, max = 512))]
    pub threads: u32,
    /// How threads are placed on a machine with several NUMA nodes: distribute (over all of them) or isolate (all on one).
    /// auto = as the system does.
    pub numa: Numa,
    /// Longest prompt + output of one request in tokens; 0 = what the model was trained for. More needs rope_scaling,
    /// rope_freq_scale or rope_freq_base.
    #[schemars(range(min = 0, max = 16_777_216))]
    pub context: u32,
    /// How positions are scaled to contexts beyond the trained one: yarn, linear or none. auto = as the model says.
    pub rope_scaling: RopeScaling,
    /// Scale of positions, 0.25 for four times the trained context. null = computed from context with rope_scaling, else as
    /// the model says.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub rope_freq_scale: Option<f64>,
    /// Base frequency of RoPE. null = the model's.
    #[schemars(range(min = 1, max = 1_000_000_000_000_i64))]
    pub rope_freq_base: Option<f64>,
    /// YaRN: tokens of context that the model was trained for before it was extended. null = as the model says.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub yarn_orig_ctx: Option<u32>,
    /// YaRN: how far positions are extrapolated, 0 = interpolated only. null = 1 with yarn.
    #[schemars(range(min = 0, max = 1))]
    pub yarn_ext_factor: Option<f64>,
    /// YaRN: factor of attention's scores. null = as the model says, else 1.
    #[schemars(range(min = 0, max = 100))]
    pub yarn_attn_factor: Option<f64>,
    /// YaRN: rotations over the context below which a dimension is interpolated. null = as the model says, else 1.
    #[schemars(range(min = 0, max = 10_000))]
    pub yarn_beta_slow: Option<f64>,
    /// YaRN: rotations over the context above which a dimension is left as it is. null = as the model says, else 32.
    #[schemars(range(min = 0, max = 10_000))]
    pub yarn_beta_fast: Option<f64>,
    /// Type of K and V in the cache; auto = f16, or bf16 on CPUs where only that gives equal bits in every batch.
    pub kv_cache_type: KvCacheType,
    /// Layout of the KV cache on GPUs: slots (each sequence has its own cells), shared (one pool), or auto (slots if whole
    /// contexts for max_batch_size sequences fit, or for 16). In host memory each sequence has its own cells.
    pub kv_layout: KvLayout,
    /// Map the model's file. false = read it into memory, in huge pages if the system has them: starting takes longer, and
    /// each token takes less time. null = false on CPUs if the file takes at most half of the free memory, else true.
    pub mmap: Option<bool>,
    /// Lock weights into memory, so that the system never drops what it can read again from the file.
    pub mlock: bool,
    /// Chunked prefill: while sequences decode, prompt chunks are limited so that a step, without drafts, stays under this
    /// many milliseconds.
    #[schemars(range(min = 1, max = 600_000))]
    pub max_step_ms: u32,
    /// Threads that compute masks during the forward pass; 0 = between steps. null = as many as the engine leaves cores free:
    /// all but one where GPUs compute.
    #[schemars(range(min = 0, max = 512))]
    pub mask_threads: Option<u32>,
    /// Layers on GPUs, counted from the last; the output counts as one. null = all that fit, or none without a GPU; 0 =
    /// none. A larger number than the model has means all.
    #[schemars(range(min = 0, max = 65_535))]
    pub gpu_layers: Option<u32>,
    /// Use this GPU only, by its number from 0. null = all GPUs.
    #[schemars(range(min = 0, max = 255))]
    pub main_gpu: Option<u32>,
    /// Shares of the GPUs in these layers, one number for each, in their order. null = by their free memory.
    #[schemars(inner(range(min = 0, max = 1_000_000)))]
    pub tensor_split: Option<Vec<f64>>,
    /// Seed of the requests that have none: each gets one by its number in the order of arrival. null = random ones.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    pub seed: Option<u64>,
    /// Whether the engine folder's `generation_config.json` sets the defaults that the group `sampling` and
    /// `server.default_max_tokens` do not.
    pub generation_config: GenerationConfig,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            backend: Backend::Auto,
            threads: 0,
            numa: Numa::Auto,
            context: 0,
            rope_scaling: RopeScaling::Auto,
            rope_freq_scale: None,
            rope_freq_base: None,
            yarn_orig_ctx: None,
            yarn_ext_factor: None,
            yarn_attn_factor: None,
            yarn_beta_slow: None,
            yarn_beta_fast: None,
            kv_cache_type: KvCacheType::Auto,
            kv_layout: KvLayout::Auto,
            mmap: None,
            mlock: false,
            max_step_ms: 250,
            mask_threads: None,
            gpu_layers: None,
            main_gpu: None,
            tensor_split: None,
            seed: None,
            generation_config: GenerationConfig::Auto,
        }
    }
}

impl EngineConfig {
    /// Keys that are at odds.
    pub(super) fn validate(&self) -> Result<()> {
        let given = [("main_gpu", self.main_gpu.is_some()), ("tensor_split", self.tensor_split.is_some())];
        let given = Vec::from_iter(given.into_iter().filter_map(|(name, given)| given.then_some(name)));
        let refuse = |name: &str, why: &str| Err(Error::invalid(format!("engine.{name}"), why));
        match given[..] {
            [name, ..] if self.gpu_layers == Some(0) => {
                refuse(name, "no layer lies on a GPU, because engine.gpu_layers is 0; leave one of them out")
            }
            [_, name] => refuse(name, "one GPU holds everything with engine.main_gpu; leave one of them out"),
            _ if self.rope_scaling == RopeScaling::None && self.rope_freq_scale.is_some() => refuse(
                "rope_freq_scale",
                "nothing is scaled with engine.rope_scaling \"none\"; leave one of them out",
            ),
            _ if self.tensor_split.as_ref().is_some_and(|shares| !shares.iter().any(|x| *x > 0.0)) => {
                refuse("tensor_split", "must have at least one share above 0")
            }
            _ => Ok(()),
        }
    }
}

/// What computes a model.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// As the model's format asks for.
    #[default]
    Auto,
    /// llama.cpp, in this process.
    LlamaCpp,
    /// vLLM.
    Vllm,
    /// TensorRT-LLM.
    TensorrtLlm,
}

impl Backend {
    /// Its name in `runtime.json`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Auto => "auto",
            Backend::LlamaCpp => "llama_cpp",
            Backend::Vllm => "vllm",
            Backend::TensorrtLlm => "tensorrt_llm",
        }
    }
}

/// How threads lie on memory nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Numa {
    /// Where the system puts them.
    Auto,
    /// In turns over all nodes.
    Distribute,
    /// On the node that the process started on.
    Isolate,
}

/// How RoPE's positions are scaled.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RopeScaling {
    /// As the model says.
    #[default]
    Auto,
    /// Not at all, whatever the model says.
    None,
    /// All dimensions alike.
    Linear,
    /// By YaRN (Peng et al. 2023).
    Yarn,
}

/// What becomes of the model's `generation_config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GenerationConfig {
    /// It is read where there is one.
    Auto,
    /// It is not read.
    None,
}

/// Type of K and V in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KvCacheType {
    /// F16; BF16 where only with that rows have equal bits whatever shares the batch.
    Auto,
    /// 8 bits a value in blocks of 32: half the memory, faster after long prompts, and other answers from some models.
    Q8_0,
    /// 16 bits a value with the exponent of 32.
    Bf16,
    /// 16 bits a value.
    F16,
}

/// Where KV lives on GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KvLayout {
    /// Slots where enough whole contexts fit, else shared.
    Auto,
    /// Each slot has its own cells.
    Slots,
    /// One pool for all.
    Shared,
}
