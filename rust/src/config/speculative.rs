//! The group `speculative`.

use crate::error::{Error, Result};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Speculation. Text is the same with and without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpeculativeConfig {
    /// Maximum draft length in one step; 0 = no drafts. null = as many as pay, up to 32; 10 if not `adaptive`.
    #[schemars(range(min = 0, max = 64))]
    pub max_draft_len: Option<u32>,
    /// Engine folder or .gguf file of the draft model, the second name on the command line: a smaller model, an EAGLE-3 head, or an
    /// MTP head (the target's own file, if it has MTP layers). null = none.
    #[schemars(length(min = 1))]
    pub draft_model: Option<String>,
    /// Tokens in the draft model's KV cache for each token in the target's. Less than 1 leaves more memory to the target;
    /// the draft model then drafts nothing for texts that are longer than its part. A head has as many as the target.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub draft_kv_fraction: f64,
    /// Folder of an MLP speculator (config.json and .safetensors files) trained for the target; null = none.
    #[schemars(length(min = 1))]
    pub mlp_speculator: Option<String>,
    /// Where drafts come from. The sources that need no model work together, token by token. Then a model continues the draft;
    /// with `adaptive` the server picks the model that saves the most time, or none. Empty = no speculation, null = all sources,
    /// a draft model and a speculator only if they are given.
    pub sources: Option<Vec<DraftSource>>,
    /// How drafted tokens are accepted: exact, rejection, tokens, or auto (by use_logits, else exact).
    pub acceptance: AcceptanceKey,
    /// TensorRT-LLM's name for `acceptance`: true = rejection, false = exact (tokens, if the engine returns no logits).
    pub use_logits: Option<bool>,
    /// TensorRT-LLM's list `[draft_len, [draft devices], [target devices], use_logits]`, also as text such as
    /// `"[4, [0], [1], False]"`; sets max_draft_len, use_logits, parallel.draft_devices and parallel.devices.
    #[serde(deserialize_with = "list_or_text")]
    pub draft_target_model_config: Option<String>,
    /// Choose each step's sources and draft lengths by measured cost and acceptance rate; false = use all sources, always
    /// with max_draft_len.
    pub adaptive: bool,
    /// No drafts while more sequences than this run; null = the server drafts if it pays.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub disable_by_batch_size: Option<u32>,
    /// For measurements only: accept drafted tokens with these probabilities, by their place in the draft, whatever the
    /// model says; the last value is for further places. Answers are worthless then, and their system_fingerprint says so.
    /// null = off.
    #[schemars(inner(range(min = 0, max = 1)))]
    pub synthetic_acceptance: Option<Vec<f64>>,
    /// The source `prompt_lookup`.
    pub prompt_lookup: PromptLookupConfig,
}

/// Puts what `draft_target_model_config` says in its places, in one file or one set of flags.
///
/// # Errors
/// `Invalid` for what is no such list, or contradicts another key beside it.
pub(super) fn take_list(layer: &mut Value) -> Result<()> {
    const KEY: &str = "draft_target_model_config";
    let Some(group) = layer.get_mut("speculative").and_then(Value::as_object_mut) else { return Ok(()) };
    let text = match group.remove(KEY) {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(text)) => text,
        Some(list) => list.to_string(),
    };
    let refused = |why: String| Error::invalid(format!("speculative.{KEY}"), why);
    let json = text.replace("True", "true").replace("False", "false");
    let (length, draft, target, logits): (u32, Vec<u32>, Vec<u32>, bool) = serde_json::from_str(&json)
        .map_err(|_| {
            refused(format!("must be like [4, [0], [1], False]: draft length, devices of the draft, devices of the target, use_logits; not {text}"))
        })?;
    for (model, devices) in [("draft", &draft), ("target", &target)] {
        let ranks = match devices.len() {
            0 => {
                return Err(refused(format!(
                    "has no device for the {model}; name one, or several for ranks"
                )));
            }
            1 => "no ranks".to_owned(),
            n => format!("{n} ranks"),
        };
        log::info!("{KEY}: the {model} on {devices:?}: {ranks}");
    }
    let settings = [
        ("speculative", "max_draft_len", Value::from(length)),
        ("speculative", "use_logits", Value::from(logits)),
        ("parallel", "draft_devices", Value::from(draft)),
        ("parallel", "devices", Value::from(target)),
    ];
    settings.into_iter().try_for_each(|(group, key, value)| set(layer, (group, key), value))
}

/// Sets a key that the list speaks of, unless the layer contradicts it.
fn set(layer: &mut Value, (group, key): (&str, &str), value: Value) -> Result<()> {
    let layer = layer.as_object_mut().expect("the caller has looked. This is a bug.");
    let members = layer.entry(group).or_insert_with(|| Value::Object(Default::default()));
    let Some(members) = members.as_object_mut() else { return Ok(()) };
    match members.get(key) {
        Some(own) if !own.is_null() && *own != value => {
            let why =
                format!("contradicts draft_target_model_config, which says {value}; leave one of them out");
            Err(Error::invalid(format!("{group}.{key}"), why))
        }
        _ => {
            members.insert(key.into(), value);
            Ok(())
        }
    }
}

/// A list as it would stand in a text.
fn list_or_text<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<String>, D::Error> {
    match Option::<Value>::deserialize(from)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(list @ Value::Array(_)) => Ok(Some(list.to_string())),
        Some(_) => Err(D::Error::custom("neither a list nor a text")),
    }
}

impl Default for SpeculativeConfig {
    fn default() -> Self {
        SpeculativeConfig {
            max_draft_len: None,
            draft_model: None,
            draft_kv_fraction: 1.0,
            mlp_speculator: None,
            sources: None,
            acceptance: AcceptanceKey::Auto,
            use_logits: None,
            draft_target_model_config: None,
            adaptive: true,
            disable_by_batch_size: None,
            synthetic_acceptance: None,
            prompt_lookup: PromptLookupConfig::default(),
        }
    }
}

impl SpeculativeConfig {
    pub(super) fn validate(&self) -> Result<()> {
        let PromptLookupConfig { min_ngram, max_ngram, .. } = self.prompt_lookup;
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
        let rates = self.synthetic_acceptance.as_deref();
        if rates.is_some_and(<[f64]>::is_empty) {
            return Err(Error::invalid(
                "speculative.synthetic_acceptance",
                "must have at least one probability",
            ));
        }
        if rates.is_some() && self.acceptance() == Acceptance::Rejection {
            let why = "contradicts acceptance by rejection; leave one of them out";
            return Err(Error::invalid("speculative.synthetic_acceptance", why));
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
        if self.mlp_speculator.is_none() && sources.contains(&DraftSource::MlpSpeculator) {
            let why = "names mlp_speculator, but none is given; set speculative.mlp_speculator to its folder";
            return Err(Error::invalid("speculative.sources", why));
        }
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

    /// Most tokens drafted ahead of a sequence in one step.
    pub fn draft_len(&self) -> u32 {
        self.max_draft_len.unwrap_or(if self.adaptive { 32 } else { 10 })
    }

    /// The sources to ask, in their order.
    pub fn sources(&self) -> Vec<DraftSource> {
        match &self.sources {
            _ if self.max_draft_len == Some(0) => Vec::new(),
            Some(sources) => sources.clone(),
            None => {
                let free = |source: &DraftSource| !source.is_model();
                let mut sources: Vec<_> = DraftSource::ALL.into_iter().filter(free).collect();
                sources.extend(self.mlp_speculator.as_ref().map(|_| DraftSource::MlpSpeculator));
                sources.extend(self.draft_model.as_ref().map(|_| DraftSource::DraftModel));
                sources
            }
        }
    }

    /// KV tokens of the draft model beside so many of the target.
    pub fn draft_kv(&self, tokens: u64) -> u64 {
        ((tokens as f64 * self.draft_kv_fraction).ceil() as u64).max(1)
    }

    /// The folder of the MLP speculator, where it is asked.
    pub fn mlp_speculator(&self) -> Option<&str> {
        self.mlp_speculator.as_deref().filter(|_| self.sources().contains(&DraftSource::MlpSpeculator))
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
    /// What a smaller model draws, or a head that was trained for the target.
    DraftModel,
    /// What small stages on the target's last hidden state draw.
    MlpSpeculator,
    /// What came next in the same state of the grammar, lately.
    Grammar,
}

impl DraftSource {
    /// All sources, in the order of their numbers.
    pub const ALL: [DraftSource; 6] = [
        DraftSource::Forced,
        DraftSource::PromptLookup,
        DraftSource::Prediction,
        DraftSource::DraftModel,
        DraftSource::MlpSpeculator,
        DraftSource::Grammar,
    ];

    /// Whether a model guesses, which takes time; the others find what is there.
    pub fn is_model(self) -> bool {
        matches!(self, DraftSource::DraftModel | DraftSource::MlpSpeculator)
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            DraftSource::Forced => "forced",
            DraftSource::PromptLookup => "prompt_lookup",
            DraftSource::Prediction => "prediction",
            DraftSource::DraftModel => "draft_model",
            DraftSource::MlpSpeculator => "mlp_speculator",
            DraftSource::Grammar => "grammar",
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
    /// Most tokens that are compared; the longest match is used.
    #[schemars(range(min = 1, max = 64))]
    pub max_ngram: u32,
    /// Maximum draft length of this source; null = speculative.max_draft_len.
    #[schemars(range(min = 1, max = 64))]
    pub max_draft_len: Option<u32>,
    /// Tokens of earlier outputs that are kept to look in, of all clients together, about 50 bytes each; 0 = none. Only
    /// requests of the same API key and `cache_salt` with the same constraint look in them.
    #[schemars(range(max = 16_777_216))]
    pub history_tokens: u32,
}

impl Default for PromptLookupConfig {
    fn default() -> Self {
        PromptLookupConfig { min_ngram: 2, max_ngram: 6, max_draft_len: None, history_tokens: 1 << 18 }
    }
}
