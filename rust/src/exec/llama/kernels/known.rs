//! The check at start: a product and an attention whose results are known.

use super::graph::{Graph, Operand};
use crate::exec::llama::devices::ffi::DeviceRef;
use llama_cpp_sys_2 as sys;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows, activations and tokens of the known product.
const PRODUCT: [usize; 3] = [40, 64, 3];

/// Weights in Q8_0 and activations that both are small integers, exactly.
pub(super) fn product() -> (Vec<u8>, Vec<f32>) {
    let [rows, row, tokens] = PRODUCT;
    let mut weights = Vec::new();
    for block in 0..rows * row / 32 {
        // 1 as f16.
        weights.extend(0x3c00u16.to_ne_bytes());
        weights.extend((0..32).map(|i| (weight(block * 32 + i) as i8).cast_unsigned()));
    }
    (weights, (0..row * tokens).map(|i| value(i) as f32).collect())
}

fn weight(i: usize) -> i32 {
    (i * 37 % 255) as i32 - 127
}

/// Each 32 have 127 among them, so that their scale is 1.
pub(super) fn value(i: usize) -> i32 {
    if i.is_multiple_of(32) { 127 } else { (i * 53 % 201) as i32 - 100 }
}

/// Dimensions of the known attention, its tokens, its cells, and its heads of queries and of KV.
const ATTENTION: [usize; 5] = [64, 3, 64, 4, 2];

/// Queries, and in f16 keys, values and a mask, that all are integers. A query looks for two cells of which only the last
/// token sees the second: what other cells have is too far below to count.
pub(super) fn attention() -> (Vec<f32>, [Vec<u16>; 3]) {
    let [dims, tokens, cells, heads, kv_heads] = ATTENTION;
    let query = |i: usize| {
        let (head, token, d) = (i / dims / tokens, i / dims % tokens, i % dims);
        if looked_for(token, head).contains(&d) { 200.0 } else { 0.0 }
    };
    let key = |i: usize| if i / dims % cells == i % dims { 1.0 } else { 0.0 };
    let value = |i: usize| cell_value(i / dims / cells, i / dims % cells, i % dims);
    let mask = |i: usize| if sees(i / cells, i % cells) { 0.0 } else { f32::NEG_INFINITY };
    // SAFETY: a conversion of a number.
    let half = |x: f32| unsafe { sys::ggml_fp32_to_fp16(x) };
    let kv = kv_heads * cells * dims;
    let keys = (0..kv).map(|i| half(key(i))).collect();
    let values = (0..kv).map(|i| half(value(i))).collect();
    let mask = (0..tokens * cells).map(|i| half(mask(i))).collect();
    ((0..heads * tokens * dims).map(query).collect(), [keys, values, mask])
}

fn looked_for(token: usize, head: usize) -> [usize; 2] {
    [5 + 9 * head + token, 60 + token]
}

fn sees(token: usize, cell: usize) -> bool {
    cell < 60 + token || token + 1 == ATTENTION[1]
}

/// From 1 to 50.
fn cell_value(head: usize, cell: usize, d: usize) -> f32 {
    (1 + (7 * cell + 3 * d + 11 * head) % 50) as f32
}

/// Looks whether ggml calls the kernels, and whether they compute what is known.
///
/// # Errors
/// What is wrong with this build, or with the choice of instructions.
pub(in crate::exec::llama) fn check() -> Result<(), String> {
    super::isa::Isa::choice()?;
    let (weights, values) = product();
    called(&super::PRODUCTS, "matrix products", || compare_product(&weights, &values))?;
    let (queries, kv) = attention();
    called(&super::ATTENTIONS, "attention", || compare_attention(&queries, &kv))
}

/// Computes what is counted there, and looks whether that was done here.
fn called(
    counter: &AtomicU64,
    name: &str,
    compute: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let before = counter.load(Ordering::Relaxed);
    compute()?;
    if super::isa::Isa::here().is_some() && counter.load(Ordering::Relaxed) == before {
        return Err(format!("llama.cpp does not call this build's {name}; build with `. launch/env.sh`"));
    }
    Ok(())
}

/// Computes a product and compares it with the known one.
pub(super) fn compare_product(weights: &[u8], values: &[f32]) -> Result<(), String> {
    let [rows, row, tokens] = PRODUCT;
    let operand = Operand { ty: sys::GGML_TYPE_Q8_0, shape: [row, rows, 1], bytes: weights };
    let got = Graph::product(&operand, values).ok_or("no memory")?.compute(1);
    for token in 0..tokens {
        for r in 0..rows {
            let terms = (0..row).map(|i| weight(r * row + i) * value(token * row + i));
            same("a matrix product", got[token * rows + r], terms.sum::<i32>() as f32)?;
        }
    }
    Ok(())
}

/// Share of the sum of a product's terms by which a GPU may miss it: it may compute in 8 or 16 bits.
const ROUGH: f32 = 0.02;

/// Looks whether a GPU computes what is known. Its driver may have taken it, and yet be wrong about it.
///
/// # Errors
/// What it gave.
pub(in crate::exec::llama) fn check_on(device: DeviceRef) -> Result<(), String> {
    let (weights, values) = product();
    let [rows, row, tokens] = PRODUCT;
    // Sums of products that are whole numbers would be too large for 16 bits.
    let values: Vec<f32> = values.iter().map(|x| x / 1024.0).collect();
    let operand = Operand { ty: sys::GGML_TYPE_Q8_0, shape: [row, rows, 1], bytes: &weights };
    let got = Graph::product_on(device, &operand, &values).ok_or("a product failed")?;
    for token in 0..tokens {
        for r in 0..rows {
            let terms = (0..row).map(|i| weight(r * row + i) as f32 * values[token * row + i]);
            let (want, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            let got = got[token * rows + r];
            // What is no number never is.
            let near = (got - want).abs() <= ROUGH * size;
            if !near {
                return Err(format!("a matrix product gave {got} instead of {want}"));
            }
        }
    }
    Ok(())
}

/// Computes an attention and compares it with the known one.
pub(super) fn compare_attention(queries: &[f32], kv: &[Vec<u16>; 3]) -> Result<(), String> {
    let [dims, _, _, heads, kv_heads] = ATTENTION;
    let got = Graph::known_attention(ATTENTION, queries, kv).ok_or("no memory")?.compute(1);
    for (i, got) in got.into_iter().enumerate() {
        let (token, head, d) = (i / dims / heads, i / dims % heads, i % dims);
        let seen: Vec<usize> = looked_for(token, head).into_iter().filter(|c| sees(token, *c)).collect();
        let sum: f32 = seen.iter().map(|cell| cell_value(head / (heads / kv_heads), *cell, d)).sum();
        same("attention", got, sum / seen.len() as f32)?;
    }
    Ok(())
}

fn same(what: &str, got: f32, want: f32) -> Result<(), String> {
    if got.to_bits() == want.to_bits() { Ok(()) } else { Err(format!("{what} gave {got} instead of {want}")) }
}
