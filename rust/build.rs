//! Looks whether llama.cpp is built as `exec::llama::kernels` needs it.

fn main() {
    println!("cargo:rerun-if-changed=rust/build.rs");
    println!("cargo:rerun-if-env-changed=CXXFLAGS");
    if std::env::var_os("CARGO_FEATURE_LLAMA").is_none() {
        return;
    }
    let flags = std::env::var("CXXFLAGS").unwrap_or_default();
    assert!(
        flags.contains("-Dggml_tiled_wdata_size=ggml_tiled_wdata_size_stock"),
        "the feature `llama` needs the build environment: `. launch/env.sh` first"
    );
    // Another llama.cpp in the same process must not take the places of ours, nor ours of its.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
