#!/usr/bin/env bash
# build-gpu.sh cuda|vulkan [FOLDER]: compiles llama.cpp's backend for GPUs from the sources that the extension is built from,
# and puts it into FOLDER (python/llgtrt/backends), where the extension finds it at its next start. LLGTRT_LLAMA names a copy
# of these sources (llama.cpp), for machines without Rust, where cmake and ninja have to be there.
set -euo pipefail

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"
kind=${1:-} out=${2:-$LLGTRT_ROOT/python/llgtrt/backends}
build="${CARGO_TARGET_DIR:-${LLGTRT_CACHE:-$LLGTRT_ROOT}/target}/backend-$kind"

need_vulkan() {
    local missing=()
    if ! command -v glslc >/dev/null; then missing+=("the shader compiler glslc"); fi
    if ! finds_header vulkan/vulkan.hpp; then missing+=("Vulkan's C++ headers"); fi
    if ! finds_header spirv/unified1/spirv.hpp; then missing+=("SPIR-V's headers"); fi
    if ((${#missing[@]} == 0)); then return; fi
    refuse "vulkan needs ${missing[0]}; install: $(apt_line glslc libvulkan-dev spirv-headers)"
}

finds_header() { "${CXX:-c++}" -x c++ -fsyntax-only - <<<"#include <$1>" 2>/dev/null; }

toolkit=""
# Sets `toolkit` to the folder of the toolkit's libraries. The driver is not needed to build. Without a GPU to look at, nvcc has
# to be told what to compile for.
need_cuda() {
    # Where NVIDIA's installer puts the toolkit, which nothing adds to PATH.
    if ! command -v nvcc >/dev/null && [[ -x ${CUDA_PATH:=/usr/local/cuda}/bin/nvcc ]]; then
        export CUDA_PATH PATH="$PATH:$CUDA_PATH/bin"
    fi
    if ! command -v nvcc >/dev/null; then
        refuse "cuda needs NVIDIA's CUDA toolkit (nvcc); install it from NVIDIA, or where non-free is on:" \
            "$(apt_line nvidia-cuda-toolkit)"
    fi
    # CMake drops the toolkit's own library folder from the run path, so it is named.
    toolkit=$(dirname -- "$(dirname -- "$(readlink -f -- "$(command -v nvcc)")")")/lib64
    if [[ -z ${CMAKE_CUDA_ARCHITECTURES:-} ]] && ! nvidia-smi >/dev/null 2>&1; then
        refuse "no NVIDIA driver answers here (nvidia-smi), so cuda cannot see what to compile for;" \
            "install the driver, or set CMAKE_CUDA_ARCHITECTURES, for example 80;86;89;90"
    fi
}

# Where Cargo keeps the sources of the embedded engine.
sources() {
    cd "$LLGTRT_ROOT"
    cargo metadata --format-version 1 --locked --features llama \
        --filter-platform "$(rustc -vV | sed -n "s/^host: //p")" | "$VIRTUAL_ENV/bin/python" -c '
import json, pathlib, sys
packages = json.load(sys.stdin)["packages"]
found = next(package for package in packages if package["name"] == "llama-cpp-sys-2")
print(pathlib.Path(found["manifest_path"]).parent / "llama.cpp")'
}

case $kind in
    cuda) need_cuda; settings=(-DGGML_CUDA=ON) ;;
    vulkan)
        need_vulkan
        # What older headers lack. By name, with the folder apart: flags are cut at spaces, which the folder may have.
        export CPATH="$LLGTRT_ROOT/launch/vulkan${CPATH:+:$CPATH}"
        settings=(-DGGML_VULKAN=ON "-DCMAKE_CXX_FLAGS=-include llgtrt_layer_settings.hpp")
        ;;
    *) refuse "usage: build-gpu.sh cuda|vulkan [FOLDER]" ;;
esac
if [[ -n ${CMAKE_CUDA_ARCHITECTURES:-} ]]; then settings+=("-DCMAKE_CUDA_ARCHITECTURES=$CMAKE_CUDA_ARCHITECTURES"); fi
mkdir -p "$LLGTRT_ROOT/.build"
if [[ -n ${LLGTRT_LLAMA:-} ]]; then
    source=$LLGTRT_LLAMA
else
    setup_venv run build
    export VIRTUAL_ENV="${LLGTRT_CACHE:-$LLGTRT_ROOT}/.venv"
    export PATH="$VIRTUAL_ENV/bin:$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
    need_rust
    source=$(sources)
fi
say "backend for $kind, in $out (minutes)"
# The base that it brings along lies beside it; the toolkit's libraries are found where they were linked.
logged "backend-$kind-settings" cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DLLAMA_BUILD_{APP,COMMON,EXAMPLES,SERVER,TESTS,TOOLS}=OFF \
    -DGGML_BACKEND_DL=ON -DGGML_CPU=OFF -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON "-DCMAKE_INSTALL_RPATH=\$ORIGIN${toolkit:+;$toolkit}" \
    -DCMAKE_INSTALL_RPATH_USE_LINK_PATH=ON "${settings[@]}"
logged "backend-$kind" cmake --build "$build" --target "ggml-$kind"
mkdir -p "$out"
base=$(find "$build" -name 'libggml-base.so.*' -type l)
cp -L "$base" "$(find "$build" -name "libggml-$kind.so")" "$out/"
