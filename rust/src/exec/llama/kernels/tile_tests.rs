//! Products by tiles, by AVX-VNNI, and of many activations, against plain code.

use super::blocks::{Blocks, Iq4Nl, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use super::formats::CHUNK;
use super::grids::{Iq2Xs, Iq3Xxs};
use super::isa::Isa;
use super::kquants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K, Tq2_0};
use super::lanes::{Avx512Vnni, Narrow, Plain, TOKENS, Wide};
use super::product::{Kernel, Product, Quantised, TILE, tiles};
use super::superblocks::SuperBlocks;
use super::table::{Entry, Tiles};
use super::tests::{bits, floats, outputs_of, quantised, scalar};
use llama_cpp_sys_2 as sys;
use proptest::prelude::*;
use std::ops::Range;

/// AVX-VNNI's kernel of the type with the most special cases, by the instruction of AVX-512.
#[target_feature(enable = "avx2,fma,f16c,avx512vnni,avx512vl")]
unsafe fn as_avx_vnni<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    unsafe { tiles::<Narrow<Avx512Vnni>, K>(product, rows, sums) }
}

/// AMX's kernel with tiles in plain code.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c")]
unsafe fn as_amx<K: Kernel>(product: &Product, rows: Range<usize>, sums: *mut f32) {
    unsafe { tiles::<Wide<Plain>, K>(product, rows, sums) }
}

fn has_avx512() -> bool {
    let is_here = Isa::Avx512.is_here();
    if !is_here {
        eprintln!("skipped: no AVX-512");
    }
    is_here
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The instruction that this processor may lack, by its twin.
    #[test]
    fn avx_vnni_computes_what_plain_code_computes(rows in TILE..40, count in 1usize..6, seed: u64) {
        if !has_avx512() {
            return Ok(());
        }
        for (ty, kernel) in [
            (sys::GGML_TYPE_Q8_0, as_avx_vnni::<Quantised<Blocks<Q8_0>>> as Tiles),
            (sys::GGML_TYPE_Q6_K, as_avx_vnni::<Quantised<SuperBlocks<Q6K>>>),
            (sys::GGML_TYPE_Q4_K, as_avx_vnni::<Quantised<SuperBlocks<Q4K>>>),
            (sys::GGML_TYPE_IQ4_XS, as_avx_vnni::<Quantised<SuperBlocks<Iq4Xs>>>),
        ] {
            let weights = quantised(ty, rows, 512, seed);
            let values = floats(!seed, count * 512);
            let weights = (&weights[..], ty, rows);
            let plain = outputs_of(weights, (&values, count, 16), (1, scalar(ty)));
            let got = outputs_of(weights, (&values, count, 16), (1, kernel));
            prop_assert_eq!(bits(&got), bits(&plain), "type {}", ty);
        }
    }

    /// Runs the kernels for AMX with tiles in plain code, since the processor may have none. Token counts that are no multiple of a
    /// tile leave some tokens to the vectors.
    #[test]
    fn tiles_compute_what_plain_code_computes(
        rows in TILE..40,
        count in TOKENS - 1..3 * TOKENS,
        chunks in prop::sample::select(&[3usize, 8, 16][..]),
        seed: u64,
    ) {
        if !has_avx512() {
            return Ok(());
        }
        for (ty, kernel) in [
            (sys::GGML_TYPE_Q8_0, as_amx::<Quantised<Blocks<Q8_0>>> as Tiles),
            (sys::GGML_TYPE_Q4_0, as_amx::<Quantised<Blocks<Q4_0>>>),
            (sys::GGML_TYPE_Q4_1, as_amx::<Quantised<Blocks<Q4_1>>>),
            (sys::GGML_TYPE_Q5_0, as_amx::<Quantised<Blocks<Q5_0>>>),
            (sys::GGML_TYPE_Q5_1, as_amx::<Quantised<Blocks<Q5_1>>>),
            (sys::GGML_TYPE_IQ4_NL, as_amx::<Quantised<Blocks<Iq4Nl>>>),
            (sys::GGML_TYPE_MXFP4, as_amx::<Quantised<Blocks<Mxfp4>>>),
            (sys::GGML_TYPE_Q2_K, as_amx::<Quantised<SuperBlocks<Q2K>>>),
            (sys::GGML_TYPE_Q3_K, as_amx::<Quantised<SuperBlocks<Q3K>>>),
            (sys::GGML_TYPE_Q4_K, as_amx::<Quantised<SuperBlocks<Q4K>>>),
            (sys::GGML_TYPE_Q5_K, as_amx::<Quantised<SuperBlocks<Q5K>>>),
            (sys::GGML_TYPE_Q6_K, as_amx::<Quantised<SuperBlocks<Q6K>>>),
            (sys::GGML_TYPE_IQ4_XS, as_amx::<Quantised<SuperBlocks<Iq4Xs>>>),
            (sys::GGML_TYPE_TQ2_0, as_amx::<Quantised<SuperBlocks<Tq2_0>>>),
            (sys::GGML_TYPE_IQ2_XS, as_amx::<Quantised<SuperBlocks<Iq2Xs>>>),
            (sys::GGML_TYPE_IQ3_XXS, as_amx::<Quantised<SuperBlocks<Iq3Xxs>>>),
        ] {
            let row = chunks * CHUNK;
            if Entry::of(ty, row).is_none() {
                continue;
            }
            let weights = quantised(ty, rows, row, seed);
            let values = floats(!seed, count * row);
            let (weights, values) = ((&weights[..], ty, rows), (&values[..], count, chunks));
            let plain = outputs_of(weights, values, (1, scalar(ty)));
            let got = outputs_of(weights, values, (2, kernel));
            prop_assert_eq!(bits(&got), bits(&plain), "type {}", ty);
        }
    }
}

/// So many activations that tiles of rows take turns.
#[test]
fn many_activations_change_no_bit() {
    let (ty, rows, count) = (sys::GGML_TYPE_Q4_K, 150, 4100);
    let (weights, values) = (quantised(ty, rows, 256, 3), floats(4, count * 256));
    let (weights, values) = ((&weights[..], ty, rows), (&values[..], count, 8));
    let plain = outputs_of(weights, values, (1, scalar(ty)));
    let entry = Entry::of(ty, 256).unwrap();
    let mut kernels: Vec<Tiles> = Isa::all_here().map(|isa| entry.tiles(isa)).collect();
    if has_avx512() {
        kernels.push(as_amx::<Quantised<SuperBlocks<Q4K>>>);
    }
    for kernel in kernels {
        assert!(bits(&outputs_of(weights, values, (1, kernel))) == bits(&plain));
    }
}
