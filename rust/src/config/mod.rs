//! `runtime.json`: every key, its default, its range and its meaning.
//!
//! The structs are the only place where a key is described: [`load`] takes names, types and ranges from their schema,
//! [`print()`] takes the comments of `--print-config` from their docs.

mod engine;
mod load;
mod parallel;
mod print;
mod sampling;
mod schema;
mod server;
mod speculative;
#[cfg(test)]
mod tests;
mod tool_format;
mod trtllm;
mod vllm;

pub use engine::{Backend, EngineConfig, GenerationConfig, KvCacheType, KvLayout, Numa, RopeScaling};
pub use llgtrt_grammar::config::{
    Formats, GrammarConfig, KeyOrder, UndeclaredKeys, UnknownFormat, Whitespace,
};
pub use load::{for_draft, load};
pub use parallel::{ParallelConfig, SplitKey};
pub use print::print;
pub use sampling::SamplingDefaults;
pub use server::{AccessLog, LogFormat, ServerConfig, UnknownFields};
pub use speculative::{Acceptance, AcceptanceKey, DraftSource, PromptLookupConfig, SpeculativeConfig};
pub use tool_format::{ToolFormat, ToolFormats};
pub use trtllm::TrtllmConfig;
pub use vllm::{Distribution, VllmConfig};

use crate::error::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole configuration. Keys of TensorRT-LLM's `runtime.json` keep their names; our own are grouped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Admit a request only when prompt + max_tokens of everything running fits: nothing is ever preempted.
    pub guaranteed_no_evict: bool,
    /// Most sequences that run at the same time.
    #[schemars(range(min = 1, max = 256))]
    pub max_batch_size: u32,
    /// Most tokens computed in one step, over all sequences.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_num_tokens: u32,
    /// Most waiting requests; one more gets 429. 0 = no bound.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_queue_size: u32,
    /// Compute long prompts in chunks between other sequences' steps.
    pub enable_chunked_context: bool,
    /// Keep the KV of finished requests and reuse it for prompts that begin with the same tokens.
    pub enable_kv_cache_reuse: bool,
    /// Whose KV may be reused: that of requests with the same API key, or of all. With `all`, response times tell a client
    /// which prompts others have sent.
    pub kv_cache_reuse_scope: ReuseScope,
    /// Share of the free memory that the KV cache may take: running sequences, kept prefixes and the draft model together.
    /// Free memory is what weights and passes leave: of the cgroup's limit if that is lower, and of the GPU's memory for KV
    /// on a GPU. null = 0.9 of a GPU's, half of the machine's.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub kv_cache_free_gpu_mem_fraction: Option<f64>,
    /// Bytes that the KV cache may take, instead of that share. null = the share decides.
    #[schemars(range(min = 1, max = 1_125_899_906_842_624_u64))]
    pub kv_cache_memory: Option<u64>,
    /// MiB of host memory for the KV of prefixes that are no longer in a slot and, with KV on GPUs, of preempted sequences;
    /// 0 = compute them again. null = with KV on GPUs, a quarter of the memory that is free at start (TensorRT-LLM: none).
    /// On CPUs this memory is a part of the KV cache's, for more prefixes than there are slots (128 or more); null = none.
    #[schemars(range(min = 0, max = 16_777_216))]
    pub kv_cache_host_memory_megabytes: Option<u64>,
    /// TensorRT-LLM: KV blocks in host memory go back to the GPU to be reused. No effect on llama.cpp.
    pub kv_cache_onboard_blocks: bool,
    /// TensorRT-LLM: its batch size follows the load, up to max_batch_size. No effect on llama.cpp.
    pub enable_batch_size_tuning: bool,
    /// TensorRT-LLM: tokens of one step follow the load, up to max_num_tokens. No effect on llama.cpp.
    pub enable_max_num_tokens_tuning: bool,
    /// TensorRT-LLM: share of KV for cross attention, which only models with an encoder have. No effect on llama.cpp.
    #[schemars(range(min = 0, max = 1))]
    pub cross_kv_cache_fraction: Option<f64>,
    /// TensorRT-LLM: KV blocks of a lower priority are dropped, not moved to host memory. No effect on llama.cpp.
    #[schemars(range(min = 0, max = 100))]
    pub secondary_offload_min_priority: Option<u32>,
    /// TensorRT-LLM: number of KV cache events that it keeps for clients; null = none. No effect on llama.cpp.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub event_buffer_max_size: Option<u64>,
    /// Most KV tokens in total; null = only the memory and the batch limit it.
    #[schemars(range(min = 256, max = 1_000_000_000_000_i64))]
    pub kv_cache_max_tokens: Option<u64>,
    /// Speculation: tokens drafted ahead, of which the target keeps those that it would have drawn itself.
    pub speculative: SpeculativeConfig,
    /// The engine.
    pub engine: EngineConfig,
    /// Ranks: how models are split over devices.
    pub parallel: ParallelConfig,
    /// TensorRT-LLM.
    pub trtllm: TrtllmConfig,
    /// vLLM.
    pub vllm: VllmConfig,
    /// Sampling parameters of requests that do not set them.
    pub sampling: SamplingDefaults,
    /// Constraints: how they are enforced, and their limits.
    pub grammar: GrammarConfig,
    /// The HTTP server.
    pub server: ServerConfig,
    /// Where KV lives, as the server's first engine laid it out: requests are checked against that. Not a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub plan: Option<KvPlan>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            guaranteed_no_evict: false,
            max_batch_size: 128,
            max_num_tokens: 8192,
            max_queue_size: 1000,
            enable_chunked_context: true,
            enable_kv_cache_reuse: true,
            kv_cache_reuse_scope: ReuseScope::Key,
            kv_cache_free_gpu_mem_fraction: None,
            kv_cache_memory: None,
            kv_cache_host_memory_megabytes: None,
            kv_cache_onboard_blocks: true,
            enable_batch_size_tuning: false,
            enable_max_num_tokens_tuning: false,
            cross_kv_cache_fraction: None,
            secondary_offload_min_priority: None,
            event_buffer_max_size: None,
            kv_cache_max_tokens: None,
            speculative: SpeculativeConfig::default(),
            engine: EngineConfig::default(),
            parallel: ParallelConfig::default(),
            trtllm: TrtllmConfig::default(),
            vllm: VllmConfig::default(),
            sampling: SamplingDefaults::default(),
            grammar: GrammarConfig::default(),
            server: ServerConfig::default(),
            plan: None,
        }
    }
}

/// Whose KV a request may reuse; a request's `cache_salt` parts it further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReuseScope {
    /// That of requests with the same API key.
    Key,
    /// That of all requests.
    All,
}

/// What a slot's cells are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KvHome {
    /// Its own, in host memory of which they take what is used.
    Pages,
    /// Its own, laid out at once.
    Slots,
    /// What it takes from a pool for all, laid out at once.
    Pool,
}

/// Where KV lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvPlan {
    /// What a slot's cells are.
    pub home: KvHome,
    /// Slots.
    pub sequences: u32,
    /// Cells in all.
    pub cells: u32,
    /// Tokens that one slot may hold.
    pub per_slot: u32,
    /// Tokens that all slots may hold.
    pub total: u64,
}

/// Keys of TensorRT-LLM's `runtime.json` that are accepted but mean nothing on llama.cpp.
const IGNORED_ON_LLAMA: [&str; 6] = [
    "kv_cache_onboard_blocks",
    "enable_batch_size_tuning",
    "enable_max_num_tokens_tuning",
    "cross_kv_cache_fraction",
    "secondary_offload_min_priority",
    "event_buffer_max_size",
];

impl Config {
    /// Checks every value against the range of its key.
    ///
    /// # Errors
    /// `Invalid` with the key's dotted name for the first value out of its range, or at odds with another.
    pub fn validate(&self) -> Result<()> {
        load::check_ranges(self)?;
        self.engine.validate()?;
        self.speculative.validate()?;
        self.parallel.validate()
    }

    /// Share of the free memory that KV may take, where it lies on a GPU or in the machine's memory.
    pub fn kv_share(&self, on_gpu: bool) -> f64 {
        let share = self.kv_cache_free_gpu_mem_fraction.unwrap_or(if on_gpu { 0.9 } else { 0.5 });
        share.clamp(0.0, 1.0)
    }

    /// Names among the keys without effect on llama.cpp that the file `text` sets to another value than the default, in a fixed
    /// order, so that they can be logged once. Empty for a file that cannot be read.
    pub fn ignored_keys_set(text: Option<&str>) -> Vec<&'static str> {
        let file = text.and_then(|text| load::parse(text).ok()).unwrap_or_default();
        let usual = serde_json::to_value(Config::default()).unwrap_or_default();
        let differs = |key: &&str| file.get(key).is_some_and(|value| usual.get(key) != Some(value));
        IGNORED_ON_LLAMA.into_iter().filter(differs).collect()
    }
}
