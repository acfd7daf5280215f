//! A model's context: KV cells, the batch, the threads.

pub mod ffi;
mod heads;
mod workers {
    pub(super) mod ffi;
}

pub use ffi::Context;
pub use workers::ffi::Workers;

use crate::config::{EngineConfig, KvPlan};
use llama_cpp_sys_2 as sys;

/// Most sequences that one context can hold (`LLAMA_MAX_SEQ`).
pub const MAX_SEQUENCES: u32 = 256;
/// The library rounds the cells of a sequence (of the pool, where shared) up to this number.
pub const CELL_BLOCK: u32 = 256;
/// Tokens that one pass through the layers takes; a larger batch is cut. Below 64 prompts take twice the time, above
/// 128 nothing is gained.
pub const PASS_TOKENS: u32 = 512;
/// The same on GPUs.
pub const GPU_PASS_TOKENS: u32 = 2048;

/// The same of a head, which has room for a row of the whole vocabulary for each of them.
pub const HEAD_PASS_TOKENS: u32 = 64;

/// Type of K and V in the cache, by the library's numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum KvType {
    /// Blocks of 32 values of 8 bits.
    Q8_0 = sys::GGML_TYPE_Q8_0,
    /// 16 bits with the exponent of 32.
    Bf16 = sys::GGML_TYPE_BF16,
    /// 16 bits.
    #[default]
    F16 = sys::GGML_TYPE_F16,
}

impl KvType {
    /// Bytes of a row of so many numbers.
    pub fn bytes(self, numbers: u64) -> u64 {
        match self {
            // 32 numbers of 8 bits and their scale of 16.
            KvType::Q8_0 => numbers.div_ceil(32) * 34,
            KvType::Bf16 | KvType::F16 => numbers * 2,
        }
    }
}

impl std::fmt::Display for KvType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// How a context is laid out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape<'a> {
    /// Whose cells there are, for how many sequences (1 to [`MAX_SEQUENCES`]), and how many.
    pub plan: &'a KvPlan,
    /// Most tokens in one batch.
    pub batch: u32,
    /// Tokens that one pass through the layers takes.
    pub pass: u32,
    /// Type of K and V.
    pub kv: KvType,
    /// KV lies in host memory, of which it takes what is used.
    pub paged: bool,
    /// Most tokens of a sequence with a state that can be taken back after a pass; as many states take memory.
    pub rollback: u32,
    /// How positions are scaled, by the keys `rope_` and `yarn_`.
    pub positions: &'a EngineConfig,
}

/// Why a batch was not computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Nothing was changed.
    #[error("no cell is free for {0} tokens")]
    NoCells(usize),
    /// Nothing was changed.
    #[error("llama.cpp refused the batch: {0}")]
    Refused(String),
    /// Some of the batch may be in the cache.
    #[error("llama.cpp failed (code {0}): {1}")]
    Failed(i32, String),
}
