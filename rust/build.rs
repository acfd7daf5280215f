//! Looks whether llama.cpp is built as `exec::llama::kernels` needs it.

/// Functions of ggml whose places the kernels take: C++ defines them by other names.
const RENAMED: [&str; 18] = [
    "ggml_tiled_wdata_size",
    "ggml_compute_forward_mul_mat_tiled",
    "ggml_compute_forward_mul_mat_id_tiled",
    "ggml_compute_forward_flash_attn_ext",
    "ggml_compute_forward_add",
    "ggml_compute_forward_cpy",
    "ggml_compute_forward_cont",
    "ggml_compute_forward_get_rows",
    "ggml_compute_forward_glu",
    "ggml_compute_forward_mul",
    "ggml_compute_forward_norm",
    "ggml_compute_forward_rms_norm",
    "ggml_compute_forward_rms_norm_mul_fused",
    "ggml_compute_forward_rope",
    "ggml_compute_forward_scale",
    "ggml_compute_forward_set_rows",
    "ggml_compute_forward_soft_max",
    "ggml_compute_forward_unary",
];
/// The profile that gives -O3; ggml's other products, whose bits depend on the number of rows.
const SETTINGS: [(&str, &str); 3] =
    [("LLAMA_LIB_PROFILE", "Release"), ("GGML_LLAMAFILE", "OFF"), ("GGML_CPU_REPACK", "OFF")];

fn main() {
    println!("cargo:rerun-if-changed=rust/build.rs");
    println!("cargo:rerun-if-env-changed=CXXFLAGS");
    SETTINGS.iter().for_each(|(name, _)| println!("cargo:rerun-if-env-changed={name}"));
    if std::env::var_os("CARGO_FEATURE_LLAMA").is_none() {
        return;
    }
    let missing = missing(|name| std::env::var(name).unwrap_or_default());
    assert!(
        missing.is_empty(),
        "the feature `llama` needs the build environment, `. launch/env.sh` first: {} missing",
        missing.join(", ")
    );
    // Another llama.cpp in the same process must not take the places of ours, nor ours of its.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}

/// What launch/env.sh sets, and the environment lacks.
fn missing(variable: impl Fn(&str) -> String) -> Vec<String> {
    let flags = variable("CXXFLAGS");
    let renamed = RENAMED.iter().map(|name| format!("-D{name}={name}_stock"));
    let renamed = renamed.filter(|flag| !flags.split_whitespace().any(|given| given == flag));
    let settings = SETTINGS.iter().filter(|(name, value)| variable(name) != *value);
    let settings = settings.map(|(name, value)| format!("{name}={value}"));
    settings.chain(renamed.map(|flag| format!("{flag} in CXXFLAGS"))).collect()
}
