//! What an engine can do, each thing told apart: the scheduler asks for what it needs and knows no engine by name.
//! What a request cannot have of an engine is in [`crate::request::Lacks`].

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
    /// What it takes to hand the beginning of a slot to another.
    pub copying: Copying,
    /// The engine keeps prompts and prefixes by itself and finds them by their tokens: it is given each gap whole, cuts
    /// it as it likes, and a slot that no sequence holds keeps nothing.
    pub keeps_prompts: bool,
    /// The engine draws tokens by itself: none can be drawn again in place of one behind which an output cannot be completed.
    pub draws: bool,
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
            copying: Copying::Moves,
            keeps_prompts: false,
            draws: false,
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
    /// The KV is moved, which takes time and leaves holes.
    Moves,
    /// The KV is shared, which costs nothing.
    Shares,
}

/// What the engine promises about the same request in another batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Promise {
    /// Rows have the same bits whatever shares the batch.
    BitIdentical,
    /// Two runs may part at two tokens whose scores differ by less than the engine's noise.
    NearTies,
}

impl std::fmt::Display for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Promise::BitIdentical => "exact: bit-identical",
            Promise::NearTies => "exact: up to near-ties",
        })
    }
}
