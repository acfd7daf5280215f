//! Sets of instructions that kernels are compiled for, and which of them to use.

/// Compiles the kernels of products, and of attention, for lanes by some instructions.
macro_rules! compiled {
    ($($lanes:ty, $instructions:literal: $tiles:ident $(, $attend:ident)?;)*) => {$(
        /// # Safety
        /// As for [`product::tiles`]; the processor has the instructions.
        #[target_feature(enable = $instructions)]
        unsafe fn $tiles<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
            // SAFETY: the caller's promise.
            unsafe { product::tiles::<$lanes, K>(product, rows, sums) }
        }
        $(
            /// # Safety
            /// As for [`attend`]; the processor has the instructions.
            #[target_feature(enable = $instructions)]
            unsafe fn $attend<C: Cells>(attention: &Attention, unit: &Unit, scratch: &mut Scratch) {
                // SAFETY: the caller's promise.
                unsafe { attend::<$lanes, C>(attention, unit, scratch) }
            }
        )?
    )*};
}

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(all(test, target_arch = "aarch64"))]
pub(super) use arm::twins;
#[cfg(target_arch = "aarch64")]
pub(super) use arm::{Isa, attention, pack, tiles};
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) use x86::twins;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Isa, attention, pack, tiles};
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
compile_error!("the feature llama needs x86-64 or 64-bit Arm: build without it");

use std::sync::OnceLock;

/// Names instructions to use in place of the widest: one of [`Isa::name`], or `stock` for ggml's own kernels.
const CHOICE: &str = "LLGTRT_ISA";

impl Isa {
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
