#!/usr/bin/env bash
# Tests the Arm kernels on an x86-64 machine: cross-compiles the core with llama.cpp and runs the kernels' tests in qemu. Run by
# hand; takes about 15 minutes on 2 cores. Needs Debian's g++-aarch64-linux-gnu and qemu-user, and Rust's aarch64-unknown-linux-gnu.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=launch/env.sh
. launch/env.sh

arch=-march=armv8.2-a+dotprod
triple=aarch64-unknown-linux-gnu
name=${triple//-/_}
# Keep the flags that rename ggml's functions, and drop those for this machine's compiler: it and the cross compiler get both.
flags=
for flag in $CXXFLAGS; do if [[ $flag == -D* ]]; then flags+=" $flag"; fi; done
export CXXFLAGS=$flags
export "CC_$name=aarch64-linux-gnu-gcc" "CXX_$name=aarch64-linux-gnu-g++" "AR_$name=aarch64-linux-gnu-ar"
export "CFLAGS_$name=$arch" "CXXFLAGS_$name=$arch"
export "CARGO_TARGET_${name^^}_LINKER=aarch64-linux-gnu-g++" "CARGO_TARGET_${name^^}_RUSTFLAGS=-C target-cpu=generic"
export "CARGO_TARGET_${name^^}_RUNNER=qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu max"
export BINDGEN_EXTRA_CLANG_ARGS="--sysroot=/usr/aarch64-linux-gnu -I/usr/aarch64-linux-gnu/include"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/arm CARGO_PROFILE_RELEASE_DEBUG=0
unset CC CXX CFLAGS

cargo test --release --locked --target "$triple" --features llama --lib -- llama::kernels "$@"
