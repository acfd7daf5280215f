//! `runtime.json`: every key, its default, its range and its meaning.
//!
//! The structs are the only place where a key is described: [`load`] takes names, types and ranges from their schema,
//! [`print()`] takes the comments of `--print-config` from their docs.

mod load;
mod print;
mod schema;
#[cfg(test)]
mod tests;

pub use load::{for_draft, load};
pub use print::print;

use crate::error::{Error, Result};
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
    /// Share of the free memory (of the cgroup's, where it is less) that KV may take.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub kv_cache_free_gpu_mem_fraction: f64,
    /// MiB of host memory for the KV of preempted sequences; 0 = recompute them.
    #[schemars(range(min = 0, max = 16_777_216))]
    pub kv_cache_host_memory_megabytes: u64,
    /// No effect on llama.cpp.
    pub kv_cache_onboard_blocks: bool,
    /// No effect on llama.cpp.
    pub enable_batch_size_tuning: bool,
    /// No effect on llama.cpp.
    pub enable_max_num_tokens_tuning: bool,
    /// No effect on llama.cpp.
    #[schemars(range(min = 0, max = 1))]
    pub cross_kv_cache_fraction: Option<f64>,
    /// No effect on llama.cpp.
    #[schemars(range(min = 0, max = 100))]
    pub secondary_offload_min_priority: Option<u32>,
    /// No effect on llama.cpp.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub event_buffer_max_size: u64,
    /// Most KV tokens in total; null = only the memory and the batch bound it.
    #[schemars(range(min = 1, max = 1_000_000_000_000_i64))]
    pub kv_cache_max_tokens: Option<u64>,
    /// Speculation: tokens drafted ahead, of which the target keeps those that it would have drawn itself.
    pub speculative: SpeculativeConfig,
    /// The engine.
    pub engine: EngineConfig,
    /// Limits on grammars.
    pub grammar: GrammarConfig,
    /// The HTTP server.
    pub server: ServerConfig,
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
            kv_cache_free_gpu_mem_fraction: 0.5,
            kv_cache_host_memory_megabytes: 0,
            kv_cache_onboard_blocks: true,
            enable_batch_size_tuning: false,
            enable_max_num_tokens_tuning: false,
            cross_kv_cache_fraction: None,
            secondary_offload_min_priority: None,
            event_buffer_max_size: 0,
            kv_cache_max_tokens: None,
            speculative: SpeculativeConfig::default(),
            engine: EngineConfig::default(),
            grammar: GrammarConfig::default(),
            server: ServerConfig::default(),
        }
    }
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
        self.speculative.validate()
    }

    /// Names among the keys without effect on llama.cpp that the file `text` sets, in a fixed order, so that they can
    /// be logged once. Empty for a file that cannot be read.
    pub fn ignored_keys_set(text: Option<&str>) -> Vec<&'static str> {
        let file = text.and_then(|text| load::parse(text).ok()).unwrap_or_default();
        IGNORED_ON_LLAMA.into_iter().filter(|key| file.get(key).is_some()).collect()
    }
}

/// Speculation. Text is the same with and without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpeculativeConfig {
    /// Most tokens drafted ahead of a sequence in one step; 0 = none.
    #[schemars(range(min = 0, max = 64))]
    pub max_draft_len: u32,
    /// Engine folder or .gguf file of the draft model, the second name on the command line; null = none.
    #[schemars(length(min = 1))]
    pub draft_model: Option<String>,
    /// Where drafts come from, in this order; each source goes on where the ones before it end. Empty = no speculation,
    /// null = prediction, and where there is a draft model forced, prediction and draft_model.
    pub sources: Option<Vec<DraftSource>>,
    /// How drafted tokens are accepted: exact, rejection, tokens, or auto (as use_logits says, else exact).
    pub acceptance: AcceptanceKey,
    /// TensorRT-LLM's name for it: true = rejection, false = exact (tokens, where the engine gives no logits).
    pub use_logits: Option<bool>,
    /// TensorRT-LLM's list `[draft_len, [draft devices], [target devices], use_logits]`, as text such as
    /// `"[4, [0], [1], False]"`; sets max_draft_len and use_logits. Devices have no effect on llama.cpp.
    pub draft_target_model_config: Option<String>,
    /// Choose each step's draft lengths by measured cost and acceptance; false = always max_draft_len.
    pub adaptive: bool,
    /// The source `prompt_lookup`.
    pub prompt_lookup: PromptLookupConfig,
}

impl Default for SpeculativeConfig {
    fn default() -> Self {
        SpeculativeConfig {
            max_draft_len: 10,
            draft_model: None,
            sources: None,
            acceptance: AcceptanceKey::Auto,
            use_logits: None,
            draft_target_model_config: None,
            adaptive: true,
            prompt_lookup: PromptLookupConfig::default(),
        }
    }
}

impl SpeculativeConfig {
    fn validate(&self) -> Result<()> {
        let PromptLookupConfig { min_ngram, max_ngram } = self.prompt_lookup;
        if min_ngram > max_ngram {
            let why = format!("must be at most max_ngram, which is {max_ngram}, not {min_ngram}");
            return Err(Error::invalid("speculative.prompt_lookup.min_ngram", why));
        }
        if let Some(logits) = self.use_logits
            && self.acceptance != AcceptanceKey::Auto
            && logits != (self.acceptance == AcceptanceKey::Rejection)
        {
            let why = format!("{logits} contradicts speculative.acceptance; leave one of them out");
            return Err(Error::invalid("speculative.use_logits", why));
        }
        let sources = self.sources();
        let repeated = |(i, source)| sources[..i].contains(source);
        if sources.iter().enumerate().any(repeated) {
            return Err(Error::invalid("speculative.sources", "must name each source once"));
        }
        if self.draft_model.is_none() && sources.contains(&DraftSource::DraftModel) {
            let why = "names draft_model, but no draft model is given; name its folder after the target's, or set \
                       speculative.draft_model";
            return Err(Error::invalid("speculative.sources", why));
        }
        Ok(())
    }

    /// Takes over what `draft_target_model_config` says.
    fn take_list(&mut self) -> Result<()> {
        let Some(text) = &self.draft_target_model_config else { return Ok(()) };
        let json = text.replace("True", "true").replace("False", "false");
        let parsed: (u32, Vec<u32>, Vec<u32>, bool) = serde_json::from_str(&json).map_err(|_| {
            let why = format!("must be like [4, [0], [1], False]: draft length, devices of the draft, devices of the target, use_logits; not {text}");
            Error::invalid("speculative.draft_target_model_config", why)
        })?;
        if self.use_logits.is_some_and(|own| own != parsed.3) {
            let why = "contradicts draft_target_model_config; leave one of them out";
            return Err(Error::invalid("speculative.use_logits", why));
        }
        (self.max_draft_len, self.use_logits) = (parsed.0, Some(parsed.3));
        Ok(())
    }

    /// How drafted tokens are accepted, on an engine that gives logits.
    pub fn acceptance(&self) -> Acceptance {
        match self.acceptance {
            AcceptanceKey::Rejection => Acceptance::Rejection,
            AcceptanceKey::Auto if self.use_logits == Some(true) => Acceptance::Rejection,
            AcceptanceKey::Auto | AcceptanceKey::Exact | AcceptanceKey::Tokens => Acceptance::Exact,
        }
    }

    /// The sources to ask, in their order.
    pub fn sources(&self) -> Vec<DraftSource> {
        match (&self.sources, &self.draft_model) {
            _ if self.max_draft_len == 0 => Vec::new(),
            (Some(sources), _) => sources.clone(),
            (None, Some(_)) => {
                vec![DraftSource::Forced, DraftSource::Prediction, DraftSource::DraftModel]
            }
            (None, None) => vec![DraftSource::Prediction],
        }
    }

    /// The draft model, where it is asked.
    pub fn draft_model(&self) -> Option<&str> {
        self.draft_model.as_deref().filter(|_| self.sources().contains(&DraftSource::DraftModel))
    }
}

/// How drafted tokens are accepted, as the configuration says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcceptanceKey {
    /// As use_logits says, else exact.
    Auto,
    /// The target draws each token, and a drafted one is kept if it is the same: text does not depend on drafts.
    Exact,
    /// Modified rejection sampling: more is accepted at a temperature above 0; text depends on drafts, its distribution
    /// does not.
    Rejection,
    /// Token ids are compared: the same as exact on an engine that gives logits.
    Tokens,
}

/// How drafted tokens are accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acceptance {
    /// The target draws each token, and a drafted one is kept if it is the same.
    #[default]
    Exact,
    /// Modified rejection sampling.
    Rejection,
}

/// Where drafts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DraftSource {
    /// Tokens that the grammar forces: they are always accepted.
    Forced,
    /// What followed the last tokens when they came before, in prompt or output.
    PromptLookup,
    /// What the client predicts, from where the output has come to.
    Prediction,
    /// What a smaller model draws.
    DraftModel,
}

impl DraftSource {
    /// All sources, in the order of their numbers.
    pub const ALL: [DraftSource; 4] =
        [DraftSource::Forced, DraftSource::PromptLookup, DraftSource::Prediction, DraftSource::DraftModel];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            DraftSource::Forced => "forced",
            DraftSource::PromptLookup => "prompt_lookup",
            DraftSource::Prediction => "prediction",
            DraftSource::DraftModel => "draft_model",
        }
    }
}

/// The source `prompt_lookup`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PromptLookupConfig {
    /// Fewest tokens that must have come before.
    #[schemars(range(min = 1, max = 64))]
    pub min_ngram: u32,
    /// Most tokens that are compared; the longest match is followed.
    #[schemars(range(min = 1, max = 64))]
    pub max_ngram: u32,
}

impl Default for PromptLookupConfig {
    fn default() -> Self {
        PromptLookupConfig { min_ngram: 2, max_ngram: 6 }
    }
}

/// The embedded engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EngineConfig {
    /// Engine threads; 0 = the cores this process may use.
    #[schemars(range(min = 0, max = 512))]
    pub threads: u32,
    /// Longest prompt + output of one request in tokens; 0 = what the model was trained for.
    #[schemars(range(min = 0, max = 16_777_216))]
    pub context: u32,
    /// Type of K and V in the cache.
    pub kv_cache_type: KvCacheType,
    /// Where KV lives: slots (bit-identical rows), shared (one pool), or auto (slots where the probe finds equal bits).
    pub kv_layout: KvLayout,
    /// While anything decodes, prompt chunks are cut so that a step stays under this many milliseconds.
    #[schemars(range(min = 1, max = 600_000))]
    pub max_step_ms: u32,
    /// Threads that compute masks during the forward pass; 0 = between steps, on the engine thread. null = by the cores.
    #[schemars(range(min = 0, max = 512))]
    pub mask_threads: Option<u32>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            threads: 0,
            context: 0,
            kv_cache_type: KvCacheType::Q8_0,
            kv_layout: KvLayout::Auto,
            max_step_ms: 250,
            mask_threads: None,
        }
    }
}

/// Type of K and V in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KvCacheType {
    /// 8 bits a value in blocks of 32: bit-identical rows.
    Q8_0,
    /// 16 bits a value: bit-identical rows.
    Bf16,
    /// 16 bits a value: rows depend on the batch.
    F16,
}

/// Where KV lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KvLayout {
    /// Slots where the probe finds equal bits, else shared.
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
    /// What to do with a `format` that cannot be enforced.
    pub unknown_format: UnknownFormat,
    /// Longest JSON schema in bytes.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub max_schema_bytes: usize,
    /// Longest Lark grammar or regular expression in bytes.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub max_lark_bytes: usize,
    /// Threads that compile grammars; 0 = half of the cores, at least 2.
    #[schemars(range(min = 0, max = 512))]
    pub compile_threads: u32,
    /// MiB of compiled grammars kept.
    #[schemars(range(min = 0, max = 1_048_576))]
    pub cache_megabytes: u64,
}

impl Default for GrammarConfig {
    fn default() -> Self {
        GrammarConfig {
            unknown_format: UnknownFormat::Refuse,
            max_schema_bytes: 512 * 1024,
            max_lark_bytes: 64 * 1024,
            compile_threads: 0,
            cache_megabytes: 256,
        }
    }
}

/// What to do with a `format` that cannot be enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFormat {
    /// Refuse the schema.
    Refuse,
    /// Ignore the keyword.
    Ignore,
}

/// The HTTP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address to listen on.
    #[schemars(length(min = 1))]
    pub host: String,
    /// Port to listen on; 0 = a free one.
    #[schemars(range(max = 65_535))]
    pub port: u16,
    /// The model's name in the API; null = the engine folder's name.
    #[schemars(length(min = 1))]
    pub served_model_name: Option<String>,
    /// Keys of which a client must send one; empty = anybody may.
    #[schemars(inner(length(min = 1)))]
    pub api_keys: Vec<String>,
    /// Chat template: a file, or the name of a preset; null = the model's own.
    #[schemars(length(min = 1))]
    pub chat_template: Option<String>,
    /// Seconds that a client may take to read what is ready for it before its request is dropped.
    #[schemars(range(max = 86_400), extend("exclusiveMinimum" = 0))]
    pub send_timeout: f64,
    /// Seconds that running and waiting requests have to finish at shutdown.
    #[schemars(range(min = 0, max = 86_400))]
    pub grace_period: f64,
    /// Largest request body in bytes.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub max_body_bytes: u64,
    /// Run the engine in a supervised child process.
    pub engine_process: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            host: "127.0.0.1".into(),
            port: 3000,
            served_model_name: None,
            api_keys: Vec::new(),
            chat_template: None,
            send_timeout: 30.0,
            grace_period: 30.0,
            max_body_bytes: 16 * 1024 * 1024,
            engine_process: true,
        }
    }
}
