//! What an engine can do, each thing told apart: the scheduler asks for what it needs and knows no engine by name.
//! What a request cannot have of an engine is in [`crate::request::Lacks`].

use crate::config::KvPlan;
use crate::request::Limits;
use crate::types::Token;
use serde::{Deserialize, Serialize};

/// What an engine can do. Constant after opening.
#[derive(Debug, Clone, PartialEq)]
pub struct Caps {
    /// Width of a logits row, in tokens.
    pub n_vocab: usize,
    /// Floats in a hidden state; 0 = the engine gives none.
    pub n_embd: usize,
    /// Slots: sequences that can hold KV at the same time, kept prefixes included.
    pub slots: u32,
    /// KV tokens that one slot may hold (also the longest context).
    pub kv_per_slot: u32,
    /// KV tokens that all slots together may hold.
    pub kv_total: u64,
    /// Bytes of host memory that a KV token takes where KV lies there and takes what is used: what is stored elsewhere in host
    /// memory then counts as so many tokens. 0: KV has memory of its own.
    pub token_bytes: u64,
    /// Most tokens in one call of `forward`, over all runs.
    pub max_step_tokens: u32,
    /// Logits that the engine has memory for in one step: drafts add rows of the vocabulary's width.
    pub max_logits: u64,
    /// An idle slot can be cut to any length from its floor on: what it holds of one text serves another that begins the same.
    pub prefix_reuse: bool,
    /// A slot carries a state: its floor is all that it holds, and only all of it can be copied.
    pub stateful: bool,
    /// Most drafted tokens of a round that are taken back where they were refused; 0: nothing can be guessed ahead.
    pub rollback: u32,
    /// Only what the last pass through the layers computed can be taken back: drafts of a step are equally long, come without
    /// prompts beside them, and have at most so many tokens together, those that they follow included. None: any drafts.
    pub even_drafts: Option<u32>,
    /// What it takes to hand the beginning of a slot to another.
    pub copying: Copying,
    /// The engine keeps prompts and prefixes by itself and finds them by their tokens: it is given each gap whole, cuts
    /// it as it likes, and a slot that no sequence holds keeps nothing.
    pub keeps_prompts: bool,
    /// A constrained output is completed within `max_tokens`. Not where an engine draws tokens by itself: none can be drawn again
    /// in place of one behind which the output cannot be completed. vLLM does it by itself.
    pub completes: bool,
    /// Runs of differing lengths cost no more than as many tokens in runs of one length.
    pub ragged: bool,
    /// The promise found by the probe at start.
    pub promise: Promise,
    /// Rows and seconds of passes that the probe measured; may be empty.
    pub probed: Vec<(u32, f64)>,
}

impl Caps {
    /// Those of an engine that hands out rows of `n_vocab` logits and has `slots` with room for `kv_per_slot` tokens each,
    /// all of which a step may compute.
    pub fn of_rows(n_vocab: usize, slots: u32, kv_per_slot: u32) -> Self {
        Caps {
            n_vocab,
            n_embd: 0,
            slots,
            kv_per_slot,
            kv_total: u64::from(slots) * u64::from(kv_per_slot),
            token_bytes: 0,
            max_step_tokens: slots.saturating_mul(kv_per_slot),
            max_logits: u64::MAX,
            prefix_reuse: true,
            stateful: false,
            rollback: u32::MAX,
            even_drafts: None,
            copying: Copying::Slots,
            keeps_prompts: false,
            completes: true,
            ragged: false,
            promise: Promise::NearTies,
            probed: Vec::new(),
        }
    }
}

/// What it takes to hand the first KV tokens of a slot to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copying {
    /// It can't be done.
    Never,
    /// A whole slot is copied with the next pass.
    Slots,
    /// Only the wanted tokens are copied, at once. That takes far less time than computing them.
    Tokens,
    /// The KV is shared, which costs nothing.
    Shares,
}

/// What the engine promises about the same request in another batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Promise {
    /// Rows have the same bits whatever shares the batch.
    BitIdentical,
    /// Two runs may part at two tokens whose scores differ by less than the engine's noise.
    NearTies,
}

/// Facts of an opened engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// What requests are checked against.
    pub limits: Limits,
    /// Sequences that can run at the same time: `max_batch_size`, or fewer where the slots are fewer.
    pub max_running: u32,
    /// KV tokens of all slots together.
    pub kv_tokens: u64,
    /// CPU threads that compute passes; 0 where the engine has its own.
    pub threads: u32,
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
    /// Its template for requests with functions, if its file carries one.
    pub tool_use_template: Option<String>,
    /// Its template for requests with documents, if its file carries one.
    pub rag_template: Option<String>,
}
