//! Which kernel is for which weights.

use super::blocks::{Blocks, Iq4Nl, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use super::floats::{Bf16, F16};
use super::formats::CHUNK;
use super::grids::{Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};
use super::isa::{self, Isa};
use super::kquants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K, Tq2_0};
use super::product::{Kernel, Product, Quantised};
use super::superblocks::SuperBlocks;
use super::ternary::{Iq1M, Iq1S, Tq1_0};
use llama_cpp_sys_2 as sys;
use std::ops::Range;

/// See [`product::tiles`](super::product::tiles).
pub(super) type Tiles = unsafe fn(&Product, Range<usize>, *mut f32);
/// See [`product::pack`](super::product::pack).
pub(super) type Pack = unsafe fn(&Product, Range<usize>);

/// A type's kernel.
pub(super) struct Entry {
    /// The weights'.
    pub(super) ty: sys::ggml_type,
    /// Weights of a block.
    pub(super) block: usize,
    /// Bytes of a block.
    pub(super) bytes: usize,
    /// Activations and bytes of a record; of none without records.
    record: (usize, usize),
    pub(super) pack: Pack,
    /// In the order of [`Isa::ALL`].
    tiles: [Tiles; Isa::ALL.len()],
    /// What the others are compared with, and see [`isa::twins`].
    #[cfg(test)]
    pub(super) plain: Tiles,
    #[cfg(test)]
    twins: fn() -> Vec<Tiles>,
}

/// All types'.
pub(super) static ENTRIES: [Entry; 24] = [
    Entry::new::<F16>(sys::GGML_TYPE_F16),
    Entry::new::<Bf16>(sys::GGML_TYPE_BF16),
    Entry::new::<Quantised<Blocks<Q8_0>>>(sys::GGML_TYPE_Q8_0),
    Entry::new::<Quantised<Blocks<Q4_0>>>(sys::GGML_TYPE_Q4_0),
    Entry::new::<Quantised<Blocks<Q4_1>>>(sys::GGML_TYPE_Q4_1),
    Entry::new::<Quantised<Blocks<Q5_0>>>(sys::GGML_TYPE_Q5_0),
    Entry::new::<Quantised<Blocks<Q5_1>>>(sys::GGML_TYPE_Q5_1),
    Entry::new::<Quantised<Blocks<Iq4Nl>>>(sys::GGML_TYPE_IQ4_NL),
    Entry::new::<Quantised<Blocks<Mxfp4>>>(sys::GGML_TYPE_MXFP4),
    Entry::new::<Quantised<SuperBlocks<Q2K>>>(sys::GGML_TYPE_Q2_K),
    Entry::new::<Quantised<SuperBlocks<Q3K>>>(sys::GGML_TYPE_Q3_K),
    Entry::new::<Quantised<SuperBlocks<Q4K>>>(sys::GGML_TYPE_Q4_K),
    Entry::new::<Quantised<SuperBlocks<Q5K>>>(sys::GGML_TYPE_Q5_K),
    Entry::new::<Quantised<SuperBlocks<Q6K>>>(sys::GGML_TYPE_Q6_K),
    Entry::new::<Quantised<SuperBlocks<Iq4Xs>>>(sys::GGML_TYPE_IQ4_XS),
    Entry::new::<Quantised<SuperBlocks<Iq2Xxs>>>(sys::GGML_TYPE_IQ2_XXS),
    Entry::new::<Quantised<SuperBlocks<Iq2Xs>>>(sys::GGML_TYPE_IQ2_XS),
    Entry::new::<Quantised<SuperBlocks<Iq2S>>>(sys::GGML_TYPE_IQ2_S),
    Entry::new::<Quantised<SuperBlocks<Iq3Xxs>>>(sys::GGML_TYPE_IQ3_XXS),
    Entry::new::<Quantised<SuperBlocks<Iq3S>>>(sys::GGML_TYPE_IQ3_S),
    Entry::new::<Quantised<SuperBlocks<Iq1S>>>(sys::GGML_TYPE_IQ1_S),
    Entry::new::<Quantised<SuperBlocks<Iq1M>>>(sys::GGML_TYPE_IQ1_M),
    Entry::new::<Quantised<SuperBlocks<Tq1_0>>>(sys::GGML_TYPE_TQ1_0),
    Entry::new::<Quantised<SuperBlocks<Tq2_0>>>(sys::GGML_TYPE_TQ2_0),
];

impl Entry {
    const fn new<K: Kernel>(ty: sys::ggml_type) -> Self {
        Self {
            ty,
            block: K::BLOCK.0,
            bytes: K::BLOCK.1,
            record: match K::PACKING {
                Some(packing) => (packing.count, packing.bytes()),
                None => (CHUNK, 0),
            },
            pack: isa::pack::<K>(),
            tiles: isa::tiles::<K>(),
            #[cfg(test)]
            plain: super::product::tiles::<super::scalar::Scalar, K>,
            #[cfg(test)]
            twins: isa::twins::<K>,
        }
    }

    pub(super) fn tiles(&self, isa: Isa) -> Tiles {
        self.tiles[isa as usize]
    }

    /// Records of a token, of so many chunks.
    pub(super) const fn records(&self, chunks: usize) -> usize {
        chunks * CHUNK / self.record.0
    }

    /// Bytes that the records of so many tokens take.
    pub(super) const fn record_bytes(&self, chunks: usize, tokens: usize) -> usize {
        self.records(chunks) * self.record.1 * tokens
    }

    /// The kernel for a type of weights in rows of so many.
    pub(super) fn of(weights: sys::ggml_type, row: usize) -> Option<&'static Self> {
        let entry = ENTRIES.iter().find(|entry| entry.ty == weights)?;
        (row > 0 && row.is_multiple_of(entry.block) && row.is_multiple_of(CHUNK)).then_some(entry)
    }
}

#[cfg(test)]
impl Entry {
    /// All kernels that this processor can compute.
    pub(super) fn kernels(&self) -> Vec<Tiles> {
        Isa::all_here().map(|isa| self.tiles(isa)).chain((self.twins)()).collect()
    }
}
