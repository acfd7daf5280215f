//! A model's context: KV cells, the batch, the threads.

pub mod ffi;

pub use ffi::Context;

use super::rope::Rope;

/// Most sequences that one context can hold (`LLAMA_MAX_SEQ`).
pub const MAX_SEQUENCES: u32 = 256;
/// The library rounds the cells of a sequence (of the pool, where shared) up to this number.
pub const CELL_BLOCK: u32 = 256;
/// Tokens that one pass through the layers takes; a larger batch is cut. Below 64 prompts take twice the time, above
/// 128 nothing is gained.
pub const PASS_TOKENS: u32 = 512;
/// The same on GPUs.
pub const GPU_PASS_TOKENS: u32 = 2048;

/// Type of K and V in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvType {
    /// Blocks of 32 values of 8 bits.
    Q8_0,
    /// 16 bits with the exponent of 32.
    Bf16,
    /// 16 bits.
    F16,
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
        f.write_str(match self {
            KvType::Q8_0 => "q8_0",
            KvType::Bf16 => "bf16",
            KvType::F16 => "f16",
        })
    }
}

/// How a context is laid out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// One pool of cells for all sequences, instead of cells of their own.
    pub shared: bool,
    /// Sequences, 1 to [`MAX_SEQUENCES`].
    pub sequences: u32,
    /// Cells of all sequences together.
    pub cells: u32,
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
    /// How positions are scaled.
    pub rope: Rope,
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

/// A batch in the library's layout: one entry per token in each list.
#[derive(Debug, Default)]
struct Batch {
    tokens: Vec<i32>,
    positions: Vec<i32>,
    /// Sequences that a token belongs to: always one.
    counts: Vec<i32>,
    sequences: Vec<i32>,
    outputs: Vec<i8>,
    /// Room for pointers into `sequences`, made anew for every call.
    pointers: Vec<*mut i32>,
}

impl Batch {
    fn with_capacity(n: usize) -> Self {
        Batch {
            tokens: Vec::with_capacity(n),
            positions: Vec::with_capacity(n),
            counts: vec![1; n],
            sequences: Vec::with_capacity(n),
            outputs: Vec::with_capacity(n),
            pointers: Vec::with_capacity(n),
        }
    }

    fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.sequences.clear();
        self.outputs.clear();
    }

    fn push(&mut self, token: i32, position: i32, sequence: i32, output: bool) {
        self.tokens.push(token);
        self.positions.push(position);
        self.sequences.push(sequence);
        self.outputs.push(i8::from(output));
    }
}
