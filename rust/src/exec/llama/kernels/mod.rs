//! Kernels of our own in the places of ggml's: matrix products and attention on CPUs.
//!
//! They are faster than ggml's from two rows on, and an output's bits depend on nothing but its own row: not on what else
//! is in the batch, nor on threads or instruction set. Types without a kernel here take ggml's product of single
//! vectors, of which the same holds.

mod ffi;
mod graph;

#[cfg(target_arch = "x86_64")]
mod activations;
#[cfg(target_arch = "x86_64")]
mod attend;
#[cfg(target_arch = "x86_64")]
mod attention;
#[cfg(target_arch = "x86_64")]
mod cells;
#[cfg(target_arch = "x86_64")]
mod floats;
#[cfg(target_arch = "x86_64")]
mod formats;
#[cfg(target_arch = "x86_64")]
mod functions;
#[cfg(target_arch = "x86_64")]
mod kquants;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod matmul;
#[cfg(target_arch = "x86_64")]
mod product;
#[cfg(target_arch = "x86_64")]
mod table;
#[cfg(target_arch = "x86_64")]
mod unit;

#[cfg(all(test, target_arch = "x86_64"))]
mod attention_tests;
#[cfg(all(test, target_arch = "x86_64"))]
mod scalar;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use graph::{Graph, Operand};
use llama_cpp_sys_2 as sys;
use std::sync::atomic::{AtomicU64, Ordering};

static PRODUCTS: AtomicU64 = AtomicU64::new(0);
static ATTENTIONS: AtomicU64 = AtomicU64::new(0);

/// What was computed here.
#[derive(Debug, Clone, Copy)]
enum Counter {
    Products,
    Attentions,
}

impl Counter {
    fn count(self, first_thread: bool) {
        if first_thread {
            self.cell().fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(self) -> u64 {
        self.cell().load(Ordering::Relaxed)
    }

    fn cell(self) -> &'static AtomicU64 {
        match self {
            Self::Products => &PRODUCTS,
            Self::Attentions => &ATTENTIONS,
        }
    }
}

/// Rows, activations and tokens of the known product.
const KNOWN: [usize; 3] = [40, 64, 3];

/// Weights in Q8_0 and activations that both are small integers, exactly.
fn known_product() -> (Vec<u8>, Vec<f32>) {
    let [rows, row, tokens] = KNOWN;
    let mut weights = Vec::new();
    for block in 0..rows * row / 32 {
        // 1 as f16.
        weights.extend(0x3c00u16.to_ne_bytes());
        weights.extend((0..32).map(|i| (known_weight(block * 32 + i) as i8).cast_unsigned()));
    }
    (weights, (0..row * tokens).map(|i| known_value(i) as f32).collect())
}

fn known_weight(i: usize) -> i32 {
    (i * 37 % 255) as i32 - 127
}

/// Each 32 have 127 among them, so that their scale is 1.
fn known_value(i: usize) -> i32 {
    if i.is_multiple_of(32) { 127 } else { (i * 53 % 201) as i32 - 100 }
}

/// Looks whether ggml calls the kernels, and whether they compute what is known.
///
/// # Errors
/// What is wrong with this build.
pub(super) fn check() -> Result<(), String> {
    let before = Counter::Products.read();
    let (weights, values) = known_product();
    compare(&weights, &values)?;
    #[cfg(target_arch = "x86_64")]
    let has_kernels = table::Isa::here().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    let has_kernels = false;
    if has_kernels && Counter::Products.read() == before {
        return Err("llama.cpp does not call this build's matrix products".into());
    }
    Ok(())
}

/// Computes a product and compares it with the known one.
fn compare(weights: &[u8], values: &[f32]) -> Result<(), String> {
    let [rows, row, tokens] = KNOWN;
    let operand = Operand { ty: sys::GGML_TYPE_Q8_0, shape: [row, rows, 1], bytes: weights };
    let got = Graph::product(&operand, values).ok_or("no memory")?.compute(1);
    for token in 0..tokens {
        for r in 0..rows {
            let terms = (0..row).map(|i| known_weight(r * row + i) * known_value(token * row + i));
            let (want, got) = (terms.sum::<i32>() as f32, got[token * rows + r]);
            if want.to_bits() != got.to_bits() {
                return Err(format!("a matrix product gave {got} instead of {want}"));
            }
        }
    }
    Ok(())
}
