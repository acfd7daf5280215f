//! Which kernel is for which weights, in the widest instructions that the processor has.

use super::blocks::{Blocks, Iq4Nl, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use super::floats::{Bf16, F16};
use super::formats::CHUNK;
use super::kquants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K, Tq2_0};
use super::lanes::{Amx, Avx2, AvxVnni, Narrow, NoTiles, Wide};
use super::product::{Kernel, Product, Quantised, pack, tiles};
use super::superblocks::SuperBlocks;
use llama_cpp_sys_2 as sys;
use std::ops::Range;
use std::sync::OnceLock;

/// Instructions that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isa {
    /// AVX-512 with VNNI, and AMX for many tokens.
    Amx,
    /// AVX-512 with VNNI.
    Avx512,
    /// AVX2 with AVX-VNNI.
    AvxVnni,
    /// AVX2.
    Avx2,
}

/// Names instructions to use in place of the widest: one of [`Isa::name`], or `stock` for ggml's own kernels.
const CHOICE: &str = "LLGTRT_ISA";

impl Isa {
    const ALL: [Self; 4] = [Self::Amx, Self::Avx512, Self::AvxVnni, Self::Avx2];

    fn name(self) -> &'static str {
        match self {
            Self::Amx => "amx",
            Self::Avx512 => "avx512",
            Self::AvxVnni => "avx-vnni",
            Self::Avx2 => "avx2",
        }
    }

    /// Whether this processor has them.
    pub(super) fn is_here(self) -> bool {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        avx2 && match self {
            Self::Amx => Self::Avx512.is_here() && Amx::is_here(),
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vnni")
            }
            Self::AvxVnni => is_x86_feature_detected!("avxvnni"),
            Self::Avx2 => true,
        }
    }

    /// All of this processor, the widest first.
    pub(super) fn all_here() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_here())
    }

    /// Those to use: the ones that `LLGTRT_ISA` names, or the widest of this processor.
    ///
    /// # Errors
    /// The variable names none that this processor has.
    pub(super) fn chosen(choice: Option<&str>) -> Result<Option<Self>, String> {
        match choice {
            None | Some("") => Ok(Self::all_here().next()),
            Some("stock") => Ok(None),
            Some(name) => Self::all_here().find(|isa| isa.name() == name).map(Some).ok_or_else(|| {
                let names: Vec<&str> = Self::all_here().map(Self::name).collect();
                format!("{CHOICE}: \"{name}\" is not here; use one of: {}, stock", names.join(", "))
            }),
        }
    }

    /// See [`chosen`](Isa::chosen); where that fails, which is told at start, the widest.
    pub(super) fn here() -> Option<Self> {
        static HERE: OnceLock<Option<Isa>> = OnceLock::new();
        *HERE.get_or_init(|| Self::choice().unwrap_or_else(|_| Self::all_here().next()))
    }

    /// See [`chosen`](Isa::chosen).
    ///
    /// # Errors
    /// As there.
    pub(super) fn choice() -> Result<Option<Self>, String> {
        Self::chosen(std::env::var(CHOICE).ok().as_deref())
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
    /// Activations and bytes of a record; of none without records.
    record: (usize, usize),
    /// See [`pack`].
    pub(super) pack: unsafe fn(&Product, Range<usize>),
    amx: Tiles,
    avx512: Tiles,
    avx_vnni: Tiles,
    avx2: Tiles,
}

impl Entry {
    const fn new<K: Kernel>() -> Self {
        Self {
            block: K::BLOCK.0,
            bytes: K::BLOCK.1,
            record: match K::PACKING {
                Some(packing) => (packing.count, packing.bytes()),
                None => (CHUNK, 0),
            },
            pack: pack_avx2::<K>,
            amx: if K::TILED { amx::<K> } else { avx512::<K> },
            avx512: avx512::<K>,
            avx_vnni: avx_vnni::<K>,
            avx2: avx2::<K>,
        }
    }

    /// See [`tiles`].
    pub(super) fn tiles(&self, isa: Isa) -> Tiles {
        match isa {
            Isa::Amx => self.amx,
            Isa::Avx512 => self.avx512,
            Isa::AvxVnni => self.avx_vnni,
            Isa::Avx2 => self.avx2,
        }
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
        let entry = match weights {
            sys::GGML_TYPE_F16 => const { &Self::new::<F16>() },
            sys::GGML_TYPE_BF16 => const { &Self::new::<Bf16>() },
            sys::GGML_TYPE_Q8_0 => const { &Self::new::<Quantised<Blocks<Q8_0>>>() },
            sys::GGML_TYPE_Q4_0 => const { &Self::new::<Quantised<Blocks<Q4_0>>>() },
            sys::GGML_TYPE_Q4_1 => const { &Self::new::<Quantised<Blocks<Q4_1>>>() },
            sys::GGML_TYPE_Q5_0 => const { &Self::new::<Quantised<Blocks<Q5_0>>>() },
            sys::GGML_TYPE_Q5_1 => const { &Self::new::<Quantised<Blocks<Q5_1>>>() },
            sys::GGML_TYPE_IQ4_NL => const { &Self::new::<Quantised<Blocks<Iq4Nl>>>() },
            sys::GGML_TYPE_Q4_K => const { &Self::new::<Quantised<SuperBlocks<Q4K>>>() },
            sys::GGML_TYPE_Q5_K => const { &Self::new::<Quantised<SuperBlocks<Q5K>>>() },
            sys::GGML_TYPE_Q6_K => const { &Self::new::<Quantised<SuperBlocks<Q6K>>>() },
            sys::GGML_TYPE_MXFP4 => const { &Self::new::<Quantised<Blocks<Mxfp4>>>() },
            sys::GGML_TYPE_Q2_K => const { &Self::new::<Quantised<SuperBlocks<Q2K>>>() },
            sys::GGML_TYPE_Q3_K => const { &Self::new::<Quantised<SuperBlocks<Q3K>>>() },
            sys::GGML_TYPE_IQ4_XS => const { &Self::new::<Quantised<SuperBlocks<Iq4Xs>>>() },
            sys::GGML_TYPE_TQ2_0 => const { &Self::new::<Quantised<SuperBlocks<Tq2_0>>>() },
            _ => return None,
        };
        (row > 0 && row.is_multiple_of(entry.block) && row.is_multiple_of(CHUNK)).then_some(entry)
    }
}

/// # Safety
/// As for [`pack`]; the processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn pack_avx2<K: Kernel>(product: &Product, records: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { pack::<K>(product, records) }
}

/// # Safety
/// As for [`tiles`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c")]
unsafe fn amx<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tiles::<Wide<Amx>, K>(product, rows, sums) }
}

/// # Safety
/// As for [`tiles`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c")]
unsafe fn avx512<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { tiles::<Wide<NoTiles>, K>(product, rows, sums) }
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
