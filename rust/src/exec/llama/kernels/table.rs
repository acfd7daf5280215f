//! Which kernel is for which weights, in the widest instructions that the processor has.

use super::activations::record;
use super::floats::{Bf16, F16};
use super::formats::{CHUNK, Iq4Nl, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use super::kquants::{Q4K, Q5K, Q6K};
use super::lanes::{Avx2, AvxVnni, Narrow, Wide};
use super::product::{Kernel, Product, Quantised, TILE, pack, tiles};
use llama_cpp_sys_2 as sys;
use std::ops::Range;
use std::sync::OnceLock;

/// Instructions that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isa {
    /// AVX-512 with VNNI.
    Avx512,
    /// AVX2 with AVX-VNNI.
    AvxVnni,
    /// AVX2.
    Avx2,
}

impl Isa {
    /// The widest of this processor.
    pub(super) fn here() -> Option<Self> {
        static HERE: OnceLock<Option<Isa>> = OnceLock::new();
        *HERE.get_or_init(|| {
            if !(is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c"))
            {
                return None;
            }
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vnni");
            Some(match (wide, is_x86_feature_detected!("avxvnni")) {
                (true, _) => Self::Avx512,
                (false, true) => Self::AvxVnni,
                (false, false) => Self::Avx2,
            })
        })
    }
}

#[cfg(test)]
impl Isa {
    /// All of this processor.
    pub(super) fn all_here() -> Vec<Self> {
        let all = [
            (Self::Avx512, Self::here() == Some(Self::Avx512)),
            (Self::AvxVnni, is_x86_feature_detected!("avxvnni")),
            (Self::Avx2, Self::here().is_some()),
        ];
        all.into_iter().filter_map(|(isa, has)| has.then_some(isa)).collect()
    }
}

/// See [`tiles`].
pub(super) type Tiles = unsafe fn(&Product, Range<usize>, *mut f32);

/// A type's kernel.
pub(super) struct Entry {
    /// Weights of a block.
    pub(super) block: usize,
    /// Bytes of a block.
    pub(super) bytes: usize,
    /// Bytes of a record of 32 activations; 0: none.
    record: usize,
    /// See [`pack`].
    pub(super) pack: unsafe fn(&Product, Range<usize>),
    avx512: Tiles,
    avx_vnni: Tiles,
    avx2: Tiles,
}

impl Entry {
    const fn new<K: Kernel>() -> Self {
        Self {
            block: K::BLOCK.0,
            bytes: K::BLOCK.1,
            record: match K::SCHEME {
                Some(scheme) => record(scheme),
                None => 0,
            },
            pack: pack_avx2::<K>,
            avx512: avx512::<K>,
            avx_vnni: avx_vnni::<K>,
            avx2: avx2::<K>,
        }
    }

    /// See [`tiles`].
    pub(super) fn tiles(&self, isa: Isa) -> Tiles {
        match isa {
            Isa::Avx512 => self.avx512,
            Isa::AvxVnni => self.avx_vnni,
            Isa::Avx2 => self.avx2,
        }
    }

    /// Bytes that the records of so many tokens take.
    pub(super) const fn record_bytes(&self, chunks: usize, tokens: usize) -> usize {
        self.record * chunks * tokens
    }

    /// Bytes that a thread's sums take.
    pub(super) const fn sum_bytes(tokens: usize) -> usize {
        tokens * TILE * size_of::<f32>()
    }

    /// The kernel for a type of weights in rows of so many.
    pub(super) fn of(weights: sys::ggml_type, row: usize) -> Option<&'static Self> {
        let entry = match weights {
            sys::GGML_TYPE_F16 => const { &Self::new::<F16>() },
            sys::GGML_TYPE_BF16 => const { &Self::new::<Bf16>() },
            sys::GGML_TYPE_Q8_0 => const { &Self::new::<Quantised<Q8_0>>() },
            sys::GGML_TYPE_Q4_0 => const { &Self::new::<Quantised<Q4_0>>() },
            sys::GGML_TYPE_Q4_1 => const { &Self::new::<Quantised<Q4_1>>() },
            sys::GGML_TYPE_Q5_0 => const { &Self::new::<Quantised<Q5_0>>() },
            sys::GGML_TYPE_Q5_1 => const { &Self::new::<Quantised<Q5_1>>() },
            sys::GGML_TYPE_IQ4_NL => const { &Self::new::<Quantised<Iq4Nl>>() },
            sys::GGML_TYPE_Q4_K => const { &Self::new::<Quantised<Q4K>>() },
            sys::GGML_TYPE_Q5_K => const { &Self::new::<Quantised<Q5K>>() },
            sys::GGML_TYPE_Q6_K => const { &Self::new::<Quantised<Q6K>>() },
            _ => return None,
        };
        (row > 0 && row.is_multiple_of(entry.block) && row.is_multiple_of(CHUNK)).then_some(entry)
    }
}

/// # Safety
/// As for [`pack`]; the processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn pack_avx2<K: Kernel>(product: &Product, chunks: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { pack::<K>(product, chunks) }
}

/// # Safety
/// As for [`tiles`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c")]
unsafe fn avx512<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tiles::<Wide, K>(product, rows, sums) }
}

/// # Safety
/// As for [`tiles`].
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
unsafe fn avx_vnni<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tiles::<Narrow<AvxVnni>, K>(product, rows, sums) }
}

/// # Safety
/// As for [`tiles`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tiles::<Narrow<Avx2>, K>(product, rows, sums) }
}
