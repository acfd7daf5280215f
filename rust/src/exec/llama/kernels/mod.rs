//! Kernels of our own in the places of ggml's: matrix products and attention on CPUs.
//!
//! They are faster than ggml's from two rows on, and an output's bits depend on nothing but its own row: not on what else
//! is in the batch, nor on threads or instruction set. Types without a kernel here take ggml's product of single
//! vectors, of which the same holds.

mod ffi;
mod graph;
mod known;
mod light;
pub(super) mod team;

mod activations;
mod attend;
mod attention;
mod blocks;
mod cells;
mod floats;
mod formats;
mod functions;
mod grids;
mod isa;
mod kquants;
mod lanes;
mod matmul;
mod merge;
mod product;
mod superblocks;
mod table;
mod ternary;
mod unit;

#[cfg(test)]
mod attention_tests;
#[cfg(test)]
mod doc_tests;
#[cfg(test)]
mod scalar;
#[cfg(test)]
mod tests;

pub(super) use known::{check, check_on};

use std::sync::atomic::{AtomicU64, Ordering};

/// Products and attentions that were computed here.
static PRODUCTS: AtomicU64 = AtomicU64::new(0);
static ATTENTIONS: AtomicU64 = AtomicU64::new(0);
/// Multiplications of all products, and of those that have no kernel here.
static ALL: AtomicU64 = AtomicU64::new(0);
static OTHERS: AtomicU64 = AtomicU64::new(0);
/// Attentions that have none.
static STOCK_ATTENTIONS: AtomicU64 = AtomicU64::new(0);

/// Whether most of what `compute` multiplies has a kernel here, and all attention. What has none is ggml's, which a team does
/// not share.
pub(super) fn cover<T>(compute: impl FnOnce() -> T) -> (T, bool) {
    /// Part of the multiplications that may have no kernel.
    const FEW: u64 = 20;
    let read = || [&ALL, &OTHERS, &STOCK_ATTENTIONS].map(|count| count.load(Ordering::Relaxed));
    let before = read();
    let computed = compute();
    let [all, others, attentions] = read();
    let few = (others - before[1]) * FEW <= all - before[0];
    (computed, few && attentions == before[2])
}
