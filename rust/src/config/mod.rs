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
mod trtllm;

pub use engine::{EngineConfig, GenerationConfig, KvCacheType, KvLayout, Numa, RopeScaling};
pub use load::{for_draft, load};
pub use parallel::{ParallelConfig, SplitKey};
pub use print::print;
pub use sampling::SamplingDefaults;
pub use server::{AccessLog, LogFormat, ServerConfig, UnknownFields};
pub use speculative::{Acceptance, AcceptanceKey, DraftSource, PromptLookupConfig, SpeculativeConfig};
pub use trtllm::TrtllmConfig;

use crate::error::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// Whose KV may be reused: that of requests with the same API key, or of all. Reuse shows, by the time that an answer
    /// takes, what others have sent.
    pub kv_cache_reuse_scope: ReuseScope,
    /// Share of the free memory that KV may take: of running sequences, kept prefixes and the draft model together. Free is what
    /// weights and passes leave: of the cgroup's memory where that is less, of the GPU's for KV that lies there. null = 0.9 of a
    /// GPU's, half of the machine's.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub kv_cache_free_gpu_mem_fraction: Option<f64>,
    /// Bytes that KV may take, in place of that share. null = the share decides.
    #[schemars(range(min = 1, max = 1_125_899_906_842_624_u64))]
    pub kv_cache_memory: Option<u64>,
    /// MiB of host memory for the KV of prefixes that no slot keeps any more and, where KV lies on GPUs, of preempted sequences;
    /// 0 = compute them again. null = a quarter of what is free at start where KV lies on GPUs (TensorRT-LLM: none); on CPUs
    /// none: there it is a part of the memory that KV may take, for more prefixes than there are slots (128 or more).
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
    /// TensorRT-LLM: events of the KV cache that it keeps for who asks; null = none. No effect on llama.cpp.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub event_buffer_max_size: Option<u64>,
    /// Most KV tokens in total; null = only the memory and the batch bound it. Fewer than a block of cells would hold no request.
    #[schemars(range(min = 256, max = 1_000_000_000_000_i64))]
    pub kv_cache_max_tokens: Option<u64>,
    /// Speculation: tokens drafted ahead, of which the target keeps those that it would have drawn itself.
    pub speculative: SpeculativeConfig,
    /// The engine.
    pub engine: EngineConfig,
    /// Ranks, over which models are split.
    pub parallel: ParallelConfig,
    /// TensorRT-LLM.
    pub trtllm: TrtllmConfig,
    /// What requests sample with where they say nothing.
    pub sampling: SamplingDefaults,
    /// Limits on grammars.
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

/// Limits on grammars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrammarConfig {
    /// What a `format` asks of a string.
    pub formats: Formats,
    /// What to do with a `format` whose name no specification has.
    pub unknown_format: UnknownFormat,
    /// Schemas that references in requests may lead to: files by the URI under which they are referred to. The metaschemas of
    /// the drafts are there anyhow.
    pub documents: BTreeMap<String, String>,
    /// In which order the keys of an object come.
    pub key_order: KeyOrder,
    /// White space between the tokens of JSON.
    pub whitespace: Whitespace,
    /// Whether objects with `properties` have keys of which the schema says nothing.
    pub undeclared_keys: UndeclaredKeys,
    /// Whether less may be allowed than a schema does, where all of it cannot be said; else it is refused.
    pub narrow: bool,
    /// Whether an output that is constrained is completed within `max_tokens`: a token may come only where what is left
    /// is enough to complete the output behind it.
    pub complete: bool,
    /// Longest JSON schema in bytes.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub max_schema_bytes: usize,
    /// Longest Lark grammar or regular expression in bytes. A longer one than the most that this takes could exhaust the stack.
    #[schemars(range(min = 1, max = 131_072))]
    pub max_lark_bytes: usize,
    /// Threads that compile grammars; 0 = half of the cores, at least 2.
    #[schemars(range(min = 0, max = 512))]
    pub compile_threads: u32,
    /// Seconds that a compilation may take.
    #[schemars(range(max = 600), extend("exclusiveMinimum" = 0))]
    pub compile_seconds: f64,
    /// Steps over a schema that compiling it may take: schemas looked at, and parts of them compared. They are the same on every
    /// machine, about three million a second.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub compile_steps: u64,
    /// MiB of compiled grammars kept.
    #[schemars(range(min = 0, max = 1_048_576))]
    pub cache_megabytes: u64,
}

impl Default for GrammarConfig {
    fn default() -> Self {
        GrammarConfig {
            formats: Formats::Enforce,
            unknown_format: UnknownFormat::Ignore,
            documents: BTreeMap::new(),
            key_order: KeyOrder::Required,
            whitespace: Whitespace::Natural,
            undeclared_keys: UndeclaredKeys::Never,
            narrow: true,
            complete: true,
            max_schema_bytes: 512 * 1024,
            max_lark_bytes: 64 * 1024,
            compile_threads: 0,
            compile_seconds: 2.0,
            compile_steps: 3_500_000,
            cache_megabytes: 256,
        }
    }
}

/// In which order the keys of an object come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrder {
    /// Required keys in the order of the schema, others anywhere between them.
    Required,
    /// Those that the schema describes in its order, then others.
    Schema,
    /// As the model writes them, each once.
    Any,
}

/// White space between the tokens of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Whitespace {
    /// As models write it: none, a space, or a line break with up to 40 spaces or 10 tabs. Before the text at most a space.
    Natural,
    /// None.
    Compact,
}

/// Whether objects have keys of which their schema says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UndeclaredKeys {
    /// None where the schema has `properties`, as other engines have it, unless it says `additionalProperties: true`.
    Never,
    /// Any, as the letter of JSON Schema has it.
    Schema,
}

/// What a `format` asks of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Formats {
    /// What its specification says.
    Enforce,
    /// Nothing: it is an annotation, as JSON Schema's drafts from 2019-09 on have it by default.
    Annotate,
}

/// What to do with a `format` whose name no specification has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFormat {
    /// Refuse the schema.
    Refuse,
    /// Ignore the keyword.
    Ignore,
}
