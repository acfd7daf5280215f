//! Engine folders of TensorRT-LLM: `config.json`, one `rank*.engine` for each rank, and what lies beside them.
//!
//! What an engine can do was fixed when it was built, so most mistakes show before anything is loaded: each refusal is
//! one sentence with the flag of the build that mends it.

use crate::config::Config;
use crate::error::{Error, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The bit of the speculative mode for draft tokens that come with the request.
const DRAFT_TOKENS_EXTERNAL: u64 = 2;
/// The mode without speculation.
const NONE: u64 = 1;
const TARGET_MODE: &str = "--speculative_decoding_mode=draft_tokens_external";

/// What an engine was built for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Folder {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// The release that built it.
    pub(crate) version: String,
    /// The model's architecture.
    pub(crate) architecture: String,
    /// Tokens of the vocabulary; rows of logits may be padded further.
    pub(crate) n_vocab: u32,
    /// Ranks: tensor parallel size times pipeline parallel size.
    pub(crate) ranks: u32,
    /// Bytes of K and V for one token, over all ranks.
    pub(crate) kv_bytes: u64,
    /// Longest prompt of a request.
    pub(crate) max_input_len: u32,
    /// Longest prompt and output of a request.
    pub(crate) max_seq_len: u32,
    pub(crate) max_batch_size: u32,
    pub(crate) max_num_tokens: u32,
    /// Most draft tokens of a request; 0 = it takes none.
    pub(crate) max_draft_len: u32,
    /// Tokens of a block of KV.
    pub(crate) block: u32,
    mode: u64,
    gathers_logits: bool,
    paged_kv: bool,
    paged_context: bool,
}

/// Whether an engine of TensorRT-LLM lies there: `config.json` and an engine, or a `config.json` that speaks of a build.
pub(crate) fn is_engine(path: &Path) -> bool {
    let Ok(text) = std::fs::read(path.join("config.json")) else { return false };
    let built = || serde_json::from_slice::<Value>(&text).is_ok_and(|c| c.get("build_config").is_some());
    has_engine(path) || built()
}

fn has_engine(path: &Path) -> bool {
    let named = |name: &str| name.starts_with("rank") && name.ends_with(".engine");
    std::fs::read_dir(path).is_ok_and(|mut files| {
        files.any(|file| file.is_ok_and(|file| file.file_name().to_str().is_some_and(named)))
    })
}

impl Folder {
    /// Reads `config.json` and looks for the engines of all ranks. `what`: "target" or "draft".
    ///
    /// # Errors
    /// `Invalid` of `what` where a key or a file is missing, or the engine cannot be used at all.
    pub(crate) fn open(what: &str, path: &Path) -> Result<Folder> {
        let file = path.join("config.json");
        let refused = |why: String| Error::invalid(what, format!("{}: {why}", path.display()));
        let text = std::fs::read(&file).map_err(|e| refused(format!("config.json cannot be read: {e}")))?;
        let json: Value = serde_json::from_slice(&text)
            .map_err(|e| refused(format!("config.json is not valid JSON ({e}); build the engine again")))?;
        let folder = Folder::of(&json, path.to_owned()).map_err(refused)?;
        folder.check().map_err(refused)?;
        Ok(folder)
    }

    /// What `config.json` says.
    pub(super) fn of(json: &Value, path: PathBuf) -> std::result::Result<Folder, String> {
        Keys { json }.folder(path)
    }

    /// What holds for every engine.
    fn check(&self) -> std::result::Result<(), String> {
        for rank in 0..self.ranks {
            let name = format!("rank{rank}.engine");
            if !self.path.join(&name).is_file() {
                let size = self.ranks;
                return Err(format!(
                    "{name} is missing, and config.json speaks of {size} ranks; copy it there, or build again from a \
                     checkpoint that was converted with --tp_size {size}"
                ));
            }
        }
        if self.mode != NONE && self.mode & DRAFT_TOKENS_EXTERNAL == 0 {
            let mode = self.mode;
            return Err(format!(
                "was built for speculative decoding of another kind (mode {mode}); build it with {TARGET_MODE}, or \
                 without"
            ));
        }
        if !self.paged_kv {
            return Err("its KV is not paged; build it with --kv_cache_type=paged".into());
        }
        Ok(())
    }

    /// Whether requests may bring draft tokens.
    pub(crate) fn takes_drafts(&self) -> bool {
        self.mode & DRAFT_TOKENS_EXTERNAL != 0 && self.max_draft_len > 0
    }

    /// Checks the target, and the draft where there is one, against the configuration.
    ///
    /// # Errors
    /// `Invalid` of the target, the draft or the key that asks for more than the engine was built for.
    pub(crate) fn check_pair(&self, draft: Option<&Folder>, config: &Config) -> Result<()> {
        self.check_limits("target", config)?;
        let Some(draft) = draft else { return self.check_drafts(config) };
        draft.check_limits("draft", config)?;
        self.check_target(config)?;
        if draft.mode & DRAFT_TOKENS_EXTERNAL != 0 {
            let why =
                "takes draft tokens itself; build the draft's engine without --speculative_decoding_mode";
            return Err(draft.refused("draft", why.into()));
        }
        if draft.n_vocab != self.n_vocab {
            let why = format!(
                "has a vocabulary of {} tokens, the target one of {}; build both from models with the same vocabulary",
                draft.n_vocab, self.n_vocab
            );
            return Err(draft.refused("draft", why));
        }
        for (what, folder) in [("target", self), ("draft", draft)] {
            if wants_logits(config) && !folder.gathers_logits {
                let why = "does not give logits, which speculative.use_logits asks for; build it with \
                           --gather_generation_logits";
                return Err(folder.refused(what, why.into()));
            }
        }
        Ok(())
    }

    /// Drafts without a draft model: only where they were asked for by name.
    fn check_drafts(&self, config: &Config) -> Result<()> {
        if config.speculative.sources.as_ref().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        if wants_logits(config) {
            let why =
                "draft tokens without a draft model have no logits; leave it out, or name a draft model";
            return Err(Error::invalid("speculative.use_logits", why));
        }
        self.check_target(config)
    }

    /// What a target needs that verifies draft tokens.
    fn check_target(&self, config: &Config) -> Result<()> {
        let refused = |why: String| Err(self.refused("target", why));
        let wanted = config.speculative.max_draft_len;
        if self.mode & DRAFT_TOKENS_EXTERNAL == 0 {
            let length = wanted.unwrap_or(10);
            return refused(format!(
                "takes no draft tokens; build the target's engine with {TARGET_MODE} --max_draft_len={length}"
            ));
        }
        if self.max_draft_len < wanted.unwrap_or(1) {
            return refused(format!(
                "was built for {} draft tokens, but speculative.max_draft_len is {}; lower it, or build with \
                 --max_draft_len={1}",
                self.max_draft_len,
                wanted.unwrap_or(1)
            ));
        }
        // A round's prompt is all text so far.
        if self.max_input_len + 1 < self.max_seq_len {
            return refused(format!(
                "takes prompts of {} tokens, and a round of speculation sends all text so far, up to {}; build with \
                 --max_input_len {1}",
                self.max_input_len, self.max_seq_len
            ));
        }
        if !self.paged_context {
            return refused(
                "a round of speculation would compute all text again; build with --use_paged_context_fmha=enable"
                    .into(),
            );
        }
        Ok(())
    }

    fn check_limits(&self, what: &str, config: &Config) -> Result<()> {
        let limits = [
            ("max_batch_size", config.max_batch_size, self.max_batch_size),
            ("max_num_tokens", config.max_num_tokens, self.max_num_tokens),
        ];
        for (key, wanted, built) in limits {
            if wanted > built {
                let why = format!(
                    "was built for a {key} of {built}, but runtime.json's is {wanted}; lower it, or build with --{key} \
                     {wanted}"
                );
                return Err(self.refused(what, why));
            }
        }
        let needs = [
            (config.enable_kv_cache_reuse, "enable_kv_cache_reuse"),
            (config.enable_chunked_context, "enable_chunked_context"),
        ];
        if let Some((_, key)) = needs.iter().find(|(wanted, _)| *wanted && !self.paged_context) {
            let why = format!(
                "{key} needs an engine built with --use_paged_context_fmha=enable; set it to false, or build so"
            );
            return Err(self.refused(what, why));
        }
        Ok(())
    }

    fn refused(&self, what: &str, why: String) -> Error {
        Error::invalid(what, format!("{}: {why}", self.path.display()))
    }
}

/// Whether the draft's logits are to decide what is accepted.
pub(crate) fn wants_logits(config: &Config) -> bool {
    config.speculative.acceptance() == crate::config::Acceptance::Rejection
}

/// `config.json`, read key by key.
struct Keys<'a> {
    json: &'a Value,
}

impl Keys<'_> {
    fn folder(&self, path: PathBuf) -> std::result::Result<Folder, String> {
        let mapping =
            |name: &str| self.optional(&["pretrained_config", "mapping", name]).and_then(Value::as_u64);
        let build = |name: &str| self.number(&["build_config", name]);
        let plugin = |name: &str| self.optional(&["build_config", "plugin_config", name]);
        let max_seq_len = build("max_seq_len")?;
        Ok(Folder {
            path,
            version: self.text(&["version"]),
            architecture: self.text(&["pretrained_config", "architecture"]),
            n_vocab: self.number(&["pretrained_config", "vocab_size"])?,
            ranks: (mapping("tp_size").unwrap_or(1) * mapping("pp_size").unwrap_or(1)).clamp(1, 1024) as u32,
            kv_bytes: self.kv_bytes()?,
            max_input_len: self.number(&["build_config", "max_input_len"]).unwrap_or(max_seq_len),
            max_seq_len,
            max_batch_size: build("max_batch_size")?,
            max_num_tokens: build("max_num_tokens")?,
            max_draft_len: self.number(&["build_config", "max_draft_len"]).unwrap_or(0),
            block: self.number(&["build_config", "plugin_config", "tokens_per_block"]).unwrap_or(0),
            mode: self.mode()?,
            gathers_logits: self.optional(&["build_config", "gather_generation_logits"])
                == Some(&Value::Bool(true)),
            // Older releases say it among the plugins.
            paged_kv: match self.optional(&["build_config", "kv_cache_type"]).and_then(Value::as_str) {
                Some(kind) => kind.eq_ignore_ascii_case("paged"),
                None => plugin("paged_kv_cache") == Some(&Value::Bool(true)),
            },
            paged_context: plugin("use_paged_context_fmha") == Some(&Value::Bool(true)),
        })
    }

    /// An integer in every engine that was built: the names are the build's command line only.
    fn mode(&self) -> std::result::Result<u64, String> {
        match self.optional(&["build_config", "speculative_decoding_mode"]) {
            None | Some(Value::Null) => Ok(NONE),
            Some(value) => value.as_u64().ok_or_else(|| {
                format!("config.json: build_config.speculative_decoding_mode is {value}, not a number; build the engine again with {TARGET_MODE}")
            }),
        }
    }

    /// Bytes of K and V per token, as far as the sizes are said; 1 where they are not, so that shares stay defined.
    fn kv_bytes(&self) -> std::result::Result<u64, String> {
        let get = |name: &str| self.optional(&["pretrained_config", name]).and_then(Value::as_u64);
        let heads = get("num_attention_heads").unwrap_or(1).max(1);
        let size = get("head_size").unwrap_or(get("hidden_size").unwrap_or(1) / heads).max(1);
        let kind = self.optional(&["pretrained_config", "quantization", "kv_cache_quant_algo"]);
        let bytes = match kind.and_then(Value::as_str) {
            Some(_) => 1,
            None if self.text(&["pretrained_config", "dtype"]) == "float32" => 4,
            None => 2,
        };
        Ok(2 * get("num_hidden_layers").unwrap_or(1)
            * get("num_key_value_heads").unwrap_or(heads)
            * size
            * bytes)
    }

    fn optional(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self.json, |value, key| value.get(key))
    }

    fn text(&self, path: &[&str]) -> String {
        self.optional(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn number(&self, path: &[&str]) -> std::result::Result<u32, String> {
        let value = self.optional(path).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        value.ok_or_else(|| {
            let name = path.join(".");
            format!("config.json has no number {name}; build the engine again with trtllm-build of release 0.18 to 1.2")
        })
    }
}

#[cfg(test)]
mod tests;
