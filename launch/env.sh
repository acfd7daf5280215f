# shellcheck shell=bash
# The build environment: the same for the launcher, the checks and a developer's own cargo calls (`. launch/env.sh`), so
# that the embedded engine's C++ is compiled once. It only sets variables; what it names is installed by setup.sh.
# CC and CXX are taken as they are when set; CC=gcc alone picks g++.

LLGTRT_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
export LLGTRT_ROOT
# LLGTRT_CACHE names a folder that keeps Python environment and build from clone to clone, for CI.
export VIRTUAL_ENV="${LLGTRT_CACHE:-$LLGTRT_ROOT}/.venv"
if [[ -n ${LLGTRT_CACHE:-} ]]; then export CARGO_TARGET_DIR="$LLGTRT_CACHE/target"; fi
case ":$PATH:" in
    *":$VIRTUAL_ENV/bin:"*) ;;
    *) export PATH="$VIRTUAL_ENV/bin:$PATH:${CARGO_HOME:-$HOME/.cargo}/bin" ;;
esac

# True where $1 is a C++ compiler that finds its own and the C library's headers.
llgtrt_compiles() {
    "$1" -x c++ -fsyntax-only - <<<$'#include <cstddef>\n#include <stdlib.h>' 2>/dev/null
}

# clang is right about AMX and up to twice as fast here; GCC is the fallback.
if [[ -z ${CC:-} ]]; then
    if command -v clang >/dev/null && llgtrt_compiles clang++; then CC=clang; else CC=gcc; fi
fi
if [[ -z ${CXX:-} ]]; then
    case $CC in
        *clang*) CXX=${CC/clang/clang++} ;;
        *gcc*) CXX=${CC/gcc/g++} ;;
        *) CXX=c++ ;;
    esac
fi
export CC CXX

# GCC before 13 miscompiles ggml's AMX set-up (SIGILL in every quantised product), and rows have the same bits whatever
# shares the batch only without AMX: off for every compiler that knows it.
if [[ ${CFLAGS:-} != *-mno-amx-tile* ]]; then
    llgtrt_amx="-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
    # shellcheck disable=SC2086 # the flags are three words
    if [[ $(uname -m) == x86_64 ]] && "$CC" $llgtrt_amx -x c -fsyntax-only /dev/null 2>/dev/null; then
        export CFLAGS="${CFLAGS:+$CFLAGS }$llgtrt_amx" CXXFLAGS="${CXXFLAGS:+$CXXFLAGS }$llgtrt_amx"
    fi
    unset llgtrt_amx
fi

# The matrix products and the attention of exec/llama/kernels take the places of these functions of ggml, which get other
# names. They are called from C and defined in C++, so that CXXFLAGS rename the definitions alone.
if [[ ${CXXFLAGS:-} != *ggml_compute_forward_norm=* ]]; then
    CXXFLAGS="${CXXFLAGS:+$CXXFLAGS }-Dggml_tiled_wdata_size=ggml_tiled_wdata_size_stock"
    for llgtrt_name in mul_mat_tiled mul_mat_id_tiled flash_attn_ext add cpy cont get_rows glu mul norm rms_norm rms_norm_mul_fused rope scale \
        set_rows soft_max unary; do
        CXXFLAGS+=" -Dggml_compute_forward_$llgtrt_name=ggml_compute_forward_${llgtrt_name}_stock"
    done
    export CXXFLAGS
    unset llgtrt_name
fi
# The pause in the loops of ggml's threads that wait for each other, in its C. GCC has the pause inline, and keeps it.
if [[ ${CFLAGS:-} != *_mm_pause=* ]]; then export CFLAGS="${CFLAGS:+$CFLAGS }-D_mm_pause=llgtrt_pause"; fi
# The crate would build with -O2 where Cargo's profile asks for line tables. What has no kernel of ours takes ggml's vector
# product, the only one of its products whose bits don't depend on the number of rows.
export LLAMA_LIB_PROFILE=Release GGML_LLAMAFILE=OFF GGML_CPU_REPACK=OFF

# bindgen reads C headers through the libclang wheel, which brings no header of its own.
for llgtrt_lib in "$VIRTUAL_ENV"/lib/python3*; do :; done
export LIBCLANG_PATH="$llgtrt_lib/site-packages/clang/native"
if [[ -z ${BINDGEN_EXTRA_CLANG_ARGS:-} ]]; then
    if command -v gcc >/dev/null; then
        BINDGEN_EXTRA_CLANG_ARGS=-I$(gcc -print-file-name=include)
    elif command -v "$CC" >/dev/null; then
        BINDGEN_EXTRA_CLANG_ARGS=-I$("$CC" -print-resource-dir 2>/dev/null)/include
    fi
    export BINDGEN_EXTRA_CLANG_ARGS
fi

export CMAKE_GENERATOR=Ninja
# The signature makes pyo3 look again where the environment got another Python.
export PYO3_PYTHON="$VIRTUAL_ENV/bin/python" PYO3_BUILD_EXTENSION_MODULE=1
export PYO3_ENVIRONMENT_SIGNATURE="cpython-${llgtrt_lib##*/python}-64bit"
unset llgtrt_lib
