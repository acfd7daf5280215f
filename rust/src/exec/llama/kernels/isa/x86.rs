//! Intel's and AMD's.

use crate::exec::llama::kernels::attend::attend;
use crate::exec::llama::kernels::attention::Attend;
use crate::exec::llama::kernels::cells::Cells;
use crate::exec::llama::kernels::lanes::{Amx, Avx2, AvxVnni, Narrow, Wide};
#[cfg(test)]
use crate::exec::llama::kernels::lanes::{Avx512Vnni, Plain};
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

compiled! {
    Wide<Amx>, "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c": amx;
    Wide, "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c": avx512, attend_512;
    Narrow<AvxVnni>, "avx2,fma,f16c,avxvnni": avx_vnni;
    Narrow<Avx2>, "avx2,fma,f16c": avx2, attend_256;
}

/// For instructions that a processor may lack, kernels that AVX-512 computes in their place: AMX's with tiles in plain code, and
/// AVX-VNNI's in the other encoding.
#[cfg(test)]
pub(in super::super) fn twins<K: Kernel>() -> Vec<Tiles> {
    compiled! {
        Wide<Plain>, "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c": as_amx;
        Narrow<Avx512Vnni>, "avx2,fma,f16c,avx512vnni,avx512vl": as_avx_vnni;
    }
    if Isa::Avx512.is_here() { vec![as_amx::<K>, as_avx_vnni::<K>] } else { vec![] }
}
