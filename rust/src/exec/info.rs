//! What is known of an engine once it is open.

use super::Promise;
use crate::config::KvPlan;
use crate::request::Limits;
use crate::types::Token;
use serde::{Deserialize, Serialize};

/// Facts of an opened engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// What requests are checked against.
    pub limits: Limits,
    /// Sequences that can run at the same time: `max_batch_size`, or fewer where the slots are fewer.
    pub max_running: u32,
    /// KV tokens of all slots together.
    pub kv_tokens: u64,
    /// Where KV lives, for the engines that follow this one; None where that follows from the configuration alone.
    pub plan: Option<KvPlan>,
    /// The promise found by the probe.
    pub promise: Promise,
    /// One line about the engine: model, layout, KV type, threads. The same at every start of the same model and
    /// configuration.
    pub summary: String,
    /// A hash of samples of the model's file: another one for other weights.
    pub weights: u64,
    /// End-of-generation ids of the model and of generation_config, ascending.
    pub eog: Vec<Token>,
    /// The token to put before a prompt that comes as text, if the model wants one.
    pub bos: Option<Token>,
    /// The model's begin-of-sequence token, which templates may write.
    pub begin: Option<Token>,
    /// The model's own chat template, if its file carries one.
    pub chat_template: Option<String>,
}
