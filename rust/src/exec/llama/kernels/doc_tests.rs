//! The table of docs/determinism.md.

use super::attention::Job;
use super::isa::Isa;
use super::table::Entry;
use llama_cpp_sys_2 as sys;
use std::ffi::CStr;

/// Types that models have in files.
const STORED: &str = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, \
    MXFP4, NVFP4, IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, TQ1_0, TQ2_0, Q1_0";
const KV: &str = "F16, BF16, Q8_0";

fn name(ty: sys::ggml_type) -> String {
    // SAFETY: a known type, whose name is static.
    unsafe { CStr::from_ptr(sys::ggml_type_name(ty)) }.to_string_lossy().to_uppercase()
}

/// Those of some types, by their names, that are kept.
fn names(types: &str, keep: impl Fn(sys::ggml_type) -> bool) -> String {
    let keep = |wanted: &&str| {
        let ty = (0..sys::GGML_TYPE_COUNT).find(|ty| name(*ty) == *wanted);
        keep(ty.unwrap_or_else(|| panic!("no type {wanted}")))
    };
    let kept: Vec<&str> = types.split(", ").filter(keep).collect();
    if kept.is_empty() { "none".into() } else { kept.join(", ") }
}

/// Which types have kernels is what the documentation says. That their bits are equal in every batch and with all instructions is
/// what the other tests show.
#[test]
fn documentation_lists_the_types_with_kernels() {
    let has_product = |ty| Entry::of(ty, 256).is_some();
    let has_attention = |ty| !Job::kernels(ty).is_empty();
    let table = format!(
        "| | own kernels | ggml's product of single vectors |\n|---|---|---|\n| weights | {} | {} |\n| KV | {} | {} |\n",
        names(STORED, has_product),
        names(STORED, |ty| !has_product(ty)),
        names(KV, has_attention),
        names(KV, |ty| !has_attention(ty)),
    );
    if Isa::here().is_none() {
        return;
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/determinism.md");
    let text = std::fs::read_to_string(path).expect("docs/determinism.md");
    assert!(text.contains(&table), "docs/determinism.md should have:\n{table}");
}
