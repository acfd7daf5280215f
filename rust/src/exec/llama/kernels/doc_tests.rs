//! The table of docs/determinism.md.

use super::attention::Job;
use super::isa::Isa;
use super::table::Entry;
use llama_cpp_sys_2 as sys;
use std::ffi::CStr;

/// Types that models have in files.
const STORED: [sys::ggml_type; 27] = [
    sys::GGML_TYPE_F32,
    sys::GGML_TYPE_F16,
    sys::GGML_TYPE_BF16,
    sys::GGML_TYPE_Q8_0,
    sys::GGML_TYPE_Q4_0,
    sys::GGML_TYPE_Q4_1,
    sys::GGML_TYPE_Q5_0,
    sys::GGML_TYPE_Q5_1,
    sys::GGML_TYPE_Q2_K,
    sys::GGML_TYPE_Q3_K,
    sys::GGML_TYPE_Q4_K,
    sys::GGML_TYPE_Q5_K,
    sys::GGML_TYPE_Q6_K,
    sys::GGML_TYPE_IQ4_NL,
    sys::GGML_TYPE_IQ4_XS,
    sys::GGML_TYPE_MXFP4,
    sys::GGML_TYPE_NVFP4,
    sys::GGML_TYPE_IQ1_S,
    sys::GGML_TYPE_IQ1_M,
    sys::GGML_TYPE_IQ2_XXS,
    sys::GGML_TYPE_IQ2_XS,
    sys::GGML_TYPE_IQ2_S,
    sys::GGML_TYPE_IQ3_XXS,
    sys::GGML_TYPE_IQ3_S,
    sys::GGML_TYPE_TQ1_0,
    sys::GGML_TYPE_TQ2_0,
    sys::GGML_TYPE_Q1_0,
];
const KV: [sys::ggml_type; 3] = [sys::GGML_TYPE_F16, sys::GGML_TYPE_BF16, sys::GGML_TYPE_Q8_0];

fn name(ty: sys::ggml_type) -> String {
    // SAFETY: a known type, whose name is static.
    unsafe { CStr::from_ptr(sys::ggml_type_name(ty)) }.to_string_lossy().to_uppercase()
}

fn names(types: &[sys::ggml_type], keep: impl Fn(sys::ggml_type) -> bool) -> String {
    let kept = types.iter().copied().filter(|ty| keep(*ty)).map(name);
    let all = kept.collect::<Vec<_>>().join(", ");
    if all.is_empty() { "none".into() } else { all }
}

/// Which types have kernels is what the documentation says. That their bits are equal in every batch and with all instructions is
/// what the other tests show.
#[test]
fn documentation_lists_the_types_with_kernels() {
    let has_product = |ty| Entry::of(ty, 256).is_some();
    let has_attention = |ty| !Job::kernels(ty).is_empty();
    let table = format!(
        "| | own kernels | ggml's product of single vectors |\n|---|---|---|\n| weights | {} | {} |\n| KV | {} | {} |\n",
        names(&STORED, has_product),
        names(&STORED, |ty| !has_product(ty)),
        names(&KV, has_attention),
        names(&KV, |ty| !has_attention(ty)),
    );
    if Isa::here().is_none() {
        return;
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/determinism.md");
    let text = std::fs::read_to_string(path).expect("docs/determinism.md");
    assert!(text.contains(&table), "docs/determinism.md should have:\n{table}");
}
