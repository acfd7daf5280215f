//! Arm's.

use crate::exec::llama::kernels::attend::attend;
use crate::exec::llama::kernels::attention::Attend;
use crate::exec::llama::kernels::cells::Cells;
use crate::exec::llama::kernels::lanes::Neon;
use crate::exec::llama::kernels::product::{self, Kernel, Product};
use crate::exec::llama::kernels::table::{Pack, Tiles};
use crate::exec::llama::kernels::unit::{Attention, Scratch, Unit};
use std::arch::is_aarch64_feature_detected;
use std::ops::Range;

/// Instructions that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Isa {
    /// NEON with products of matrices of bytes (FEAT_I8MM).
    I8mm,
    /// NEON with products of bytes (FEAT_DotProd).
    Neon,
}

impl Isa {
    pub(in super::super) const ALL: [Self; 2] = [Self::I8mm, Self::Neon];

    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::I8mm => "i8mm",
            Self::Neon => "neon",
        }
    }

    /// Whether this processor has them.
    pub(in super::super) fn is_here(self) -> bool {
        is_aarch64_feature_detected!("dotprod")
            && (self == Self::Neon || is_aarch64_feature_detected!("i8mm"))
    }
}

/// A weight type's kernels, in the order of [`Isa::ALL`].
pub(in super::super) const fn tiles<K: Kernel>() -> [Tiles; Isa::ALL.len()] {
    [i8mm::<K>, neon::<K>]
}

/// What packs a type's activations.
pub(in super::super) const fn pack<K: Kernel>() -> Pack {
    pack_neon::<K>
}

/// The kernel of attention for cells of a type.
pub(in super::super) fn attention<C: Cells>(_: Isa) -> Attend {
    attend_neon::<C>
}

/// # Safety
/// As for [`product::pack`].
#[target_feature(enable = "neon")]
unsafe fn pack_neon<K: Kernel>(product: &Product, records: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { product::pack::<K>(product, records) }
}

compiled! {
    Neon<true>, "neon,dotprod,i8mm": i8mm;
    Neon, "neon,dotprod": neon, attend_neon;
}

/// Kernels that other instructions compute in the place of those that a processor may lack.
#[cfg(test)]
pub(in super::super) fn twins<K: Kernel>() -> Vec<Tiles> {
    vec![]
}
