//! `runtime.json`: every key, its default, its range and its meaning.
//!
//! The structs are the only place where a key is described: [`load`] takes names, types and ranges from their schema,
//! [`print()`] takes the comments of `--print-config` from their docs.

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

pub use load::{for_draft, load};
pub use parallel::{ParallelConfig, SplitKey};
pub use print::print;
pub use sampling::SamplingDefaults;
pub use server::{AccessLog, ServerConfig, UnknownFields};
pub use speculative::{Acceptance, AcceptanceKey, DraftSource, PromptLookupConfig, SpeculativeConfig};
pub use trtllm::TrtllmConfig;

use crate::error::{Error, Result};
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
    /// weights and passes leave: of the cgroup's memory where that is less, of the GPU's for KV that lies there.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub kv_cache_free_gpu_mem_fraction: f64,
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
            kv_cache_free_gpu_mem_fraction: 0.5,
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

    /// Names among the keys without effect on llama.cpp that the file `text` sets, in a fixed order, so that they can
    /// be logged once. Empty for a file that cannot be read.
    pub fn ignored_keys_set(text: Option<&str>) -> Vec<&'static str> {
        let file = text.and_then(|text| load::parse(text).ok()).unwrap_or_default();
        IGNORED_ON_LLAMA.into_iter().filter(|key| file.get(key).is_some()).collect()
    }
}

/// The embedded engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// Engine threads; 0 = as many as there are physical cores that this process may use.
    #[schemars(range(min = 0, max = 512))]
    pub threads: u32,
    /// Longest prompt + output of one request in tokens; 0 = what the model was trained for.
    #[schemars(range(min = 0, max = 16_777_216))]
    pub context: u32,
    /// Type of K and V in the cache; auto = f16, or bf16 on CPUs where only that gives equal bits in every batch.
    pub kv_cache_type: KvCacheType,
    /// Where KV lives on GPUs: slots (each sequence has cells of its own), shared (one pool), or auto (slots where
    /// max_batch_size whole contexts fit and rows are equal in every batch). In host memory each sequence has its own.
    pub kv_layout: KvLayout,
    /// Lock weights into memory, so that the system never drops what it can read again from the file.
    pub mlock: bool,
    /// While anything decodes, prompt chunks are cut so that a step, drafts aside, stays under this many milliseconds.
    #[schemars(range(min = 1, max = 600_000))]
    pub max_step_ms: u32,
    /// Threads that compute masks during the forward pass; 0 = between steps. null = as many as the engine leaves cores free:
    /// all but one where GPUs compute.
    #[schemars(range(min = 0, max = 512))]
    pub mask_threads: Option<u32>,
    /// Layers that lie on GPUs, counted from the last, with the output as one more. null = all that fit, and none where there
    /// is no GPU; 0 = none. More than the model has are all of them.
    #[schemars(range(min = 0, max = 65_535))]
    pub gpu_layers: Option<u32>,
    /// The one GPU that holds these layers, by its number from 0. null = all GPUs, each some of the layers.
    #[schemars(range(min = 0, max = 255))]
    pub main_gpu: Option<u32>,
    /// Shares of the GPUs in these layers, one number for each, in their order. null = by their free memory.
    #[schemars(inner(range(min = 0, max = 1_000_000)))]
    pub tensor_split: Option<Vec<f64>>,
    /// Seed of the requests that have none: each gets one by its number in the order of arrival. null = random ones.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    pub seed: Option<u64>,
    /// Whether `generation_config.json` of the engine folder fills what the group `sampling` and
    /// `server.default_max_tokens` leave open.
    pub generation_config: GenerationConfig,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            threads: 0,
            context: 0,
            kv_cache_type: KvCacheType::Auto,
            kv_layout: KvLayout::Auto,
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
    /// Keys about GPUs that are at odds.
    fn validate(&self) -> Result<()> {
        let given = [("main_gpu", self.main_gpu.is_some()), ("tensor_split", self.tensor_split.is_some())];
        let given = Vec::from_iter(given.into_iter().filter_map(|(name, given)| given.then_some(name)));
        let refuse = |name: &str, why: &str| Err(Error::invalid(format!("engine.{name}"), why));
        match given[..] {
            [name, ..] if self.gpu_layers == Some(0) => {
                refuse(name, "no layer lies on a GPU, because engine.gpu_layers is 0; leave one of them out")
            }
            [_, name] => refuse(name, "one GPU holds everything with engine.main_gpu; leave one of them out"),
            _ if self.tensor_split.as_ref().is_some_and(|shares| !shares.iter().any(|x| *x > 0.0)) => {
                refuse("tensor_split", "must have at least one share above 0")
            }
            _ => Ok(()),
        }
    }
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
    /// Slots where whole contexts fit and the probe finds equal bits, else shared.
    Auto,
    /// Each slot has its own cells.
    Slots,
    /// One pool for all.
    Shared,
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
    /// Whether less may be allowed than a schema does, where all of it cannot be said; else it is refused.
    pub narrow: bool,
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
            key_order: KeyOrder::Schema,
            narrow: true,
            max_schema_bytes: 512 * 1024,
            max_lark_bytes: 64 * 1024,
            compile_threads: 0,
            compile_seconds: 2.0,
            cache_megabytes: 256,
        }
    }
}

/// In which order the keys of an object come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrder {
    /// Those that the schema describes in its order, then others.
    Schema,
    /// As the model writes them, each once.
    Any,
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
