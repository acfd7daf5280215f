#!/usr/bin/env bash
# Builds the feature vulkan and runs the tests of GPUs on a machine that has none: Mesa's lavapipe computes. The build has
# folders of its own, beside that without GPUs. Not a part of check.sh, because the build takes minutes more.
set -euo pipefail

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
export LLGTRT_FEATURES=python,llama,vulkan
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"
cd "$LLGTRT_ROOT"

packages=(glslc libvulkan-dev mesa-vulkan-drivers spirv-headers)
driver=$(compgen -G '/usr/share/vulkan/icd.d/lvp_icd.*.json' || true)
if ! command -v glslc >/dev/null || [[ -z $driver ]]; then
    if [[ $(id -u) != 0 ]]; then refuse "packages are missing; install them: $(apt_line "${packages[@]}")"; fi
    say "packages: ${packages[*]}"
    mkdir -p .build
    logged apt sh -c "apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
    driver=$(compgen -G '/usr/share/vulkan/icd.d/lvp_icd.*.json')
fi

setup_venv run build dev
# shellcheck source=launch/env.sh
. "$LLGTRT_ROOT/launch/env.sh"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$LLGTRT_ROOT/target}/vulkan"
need_rust
need_compiler
need_gpu_tools
forget_other_compiler
say "release build, features $LLGTRT_FEATURES, in $CARGO_TARGET_DIR"
logged build-vulkan cargo build --release --locked --lib --features "$LLGTRT_FEATURES"

# The package with this build's extension, beside the one with the other.
export LLGTRT_PACKAGE="$CARGO_TARGET_DIR/package"
rm -rf "$LLGTRT_PACKAGE"
mkdir -p "$LLGTRT_PACKAGE"
cp -r python/llgtrt "$LLGTRT_PACKAGE/"
cp "$CARGO_TARGET_DIR/release/libllgtrt.so" "$LLGTRT_PACKAGE/llgtrt/_core.abi3.so"

# lavapipe calls itself a processor, which ggml takes only by its number; Mesa 22 crashes with fused operations.
export VK_ICD_FILENAMES="$driver" VK_DRIVER_FILES="$driver" GGML_VK_VISIBLE_DEVICES=0 GGML_VK_DISABLE_FUSION=1
PYTHONPATH="$LLGTRT_PACKAGE" exec python -m pytest -q -p no:cacheprovider -m gpu "$@" tests/server/test_gpu.py
