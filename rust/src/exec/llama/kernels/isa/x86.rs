//! Intel's and AMD's.

use crate::exec::llama::kernels::attend::attend;
use crate::exec::llama::kernels::attention::Attend;
use crate::exec::llama::kernels::cells::Cells;
use crate::exec::llama::kernels::lanes::{Amx, Avx2, AvxVnni, Narrow, NoTiles, Wide};
use crate::exec::llama::kernels::product::{self, Kernel, Product};
use crate::exec::llama::kernels::table::{Pack, Tiles};
use crate::exec::llama::kernels::unit::{Attention, Scratch, Unit};
use std::ops::Range;

/// Instructions that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Isa {
    /// AVX-512 with VNNI, and AMX for many tokens.
    Amx,
    /// AVX-512 with VNNI.
    Avx512,
    /// AVX2 with AVX-VNNI.
    AvxVnni,
    /// AVX2.
    Avx2,
}

impl Isa {
    pub(in super::super) const ALL: [Self; 4] = [Self::Amx, Self::Avx512, Self::AvxVnni, Self::Avx2];

    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::Amx => "amx",
            Self::Avx512 => "avx512",
            Self::AvxVnni => "avx-vnni",
            Self::Avx2 => "avx2",
        }
    }

    /// Whether this processor has them.
    pub(in super::super) fn is_here(self) -> bool {
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
}

/// A weight type's kernels, in the order of [`Isa::ALL`].
pub(in super::super) const fn tiles<K: Kernel>() -> [Tiles; Isa::ALL.len()] {
    [if K::TILED { amx::<K> } else { avx512::<K> }, avx512::<K>, avx_vnni::<K>, avx2::<K>]
}

/// What packs a type's activations.
pub(in super::super) const fn pack<K: Kernel>() -> Pack {
    pack_avx2::<K>
}

/// The kernel of attention for cells of a type.
pub(in super::super) fn attention<C: Cells>(isa: Isa) -> Attend {
    match isa {
        Isa::Amx | Isa::Avx512 => attend_512::<C>,
        Isa::AvxVnni | Isa::Avx2 => attend_256::<C>,
    }
}

/// # Safety
/// As for [`product::pack`]; the processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn pack_avx2<K: Kernel>(product: &Product, records: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { product::pack::<K>(product, records) }
}

/// # Safety
/// As for [`product::tiles`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c")]
unsafe fn amx<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { product::tiles::<Wide<Amx>, K>(product, rows, sums) }
}

/// # Safety
/// As for [`product::tiles`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c")]
unsafe fn avx512<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { product::tiles::<Wide<NoTiles>, K>(product, rows, sums) }
}

/// # Safety
/// As for [`product::tiles`].
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
unsafe fn avx_vnni<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { product::tiles::<Narrow<AvxVnni>, K>(product, rows, sums) }
}

/// # Safety
/// As for [`product::tiles`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { product::tiles::<Narrow<Avx2>, K>(product, rows, sums) }
}

/// # Safety
/// As for [`attend`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c")]
unsafe fn attend_512<C: Cells>(attention: &Attention, unit: &Unit, scratch: &mut Scratch) {
    // SAFETY: the caller's promise.
    unsafe { attend::<Wide, C>(attention, unit, scratch) }
}

/// # Safety
/// As for [`attend`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn attend_256<C: Cells>(attention: &Attention, unit: &Unit, scratch: &mut Scratch) {
    // SAFETY: the caller's promise.
    unsafe { attend::<Narrow<Avx2>, C>(attention, unit, scratch) }
}
