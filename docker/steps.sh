#!/usr/bin/env bash
# What the Dockerfiles of this folder run: `steps.sh STEP ARGUMENTS`. Each step works in any folder, too.
set -euo pipefail

# wheel SOURCE WHEELS: the wheel of a source tree, without the embedded engine: TensorRT-LLM computes.
wheel() {
    MATURIN_PEP517_ARGS="--features python" python3 -m pip wheel --no-deps --wheel-dir "$2" "$1"
}

# install WHEELS REQUIREMENTS PREFIX: an environment with the wheel and the pinned wheels that it needs, in which what
# the image has (TensorRT-LLM, PyTorch) is there, too. Without pip, which Debian's Python may lack for environments.
install() {
    local wheels=$1 requirements=$2 prefix=$3
    python3 -m venv --without-pip --system-site-packages "$prefix"
    without_hub "$requirements" >"$prefix/requirements.txt"
    into "$prefix" --only-binary :all: --require-hashes -r "$prefix/requirements.txt"
    into "$prefix" "$wheels"/llgtrt-*.whl
    "$prefix/bin/python" -m compileall -q "$prefix/lib"
}

into() {
    local prefix=$1
    shift
    python3 -m pip --python "$prefix/bin/python" install --disable-pip-version-check --no-input --no-cache-dir \
        --no-deps --ignore-installed --progress-bar off "$@"
}

# TensorRT-LLM's transformers wants an older huggingface-hub than ours, which only `-hf` uses.
without_hub() {
    awk '/^[^ #]/ { skip = /^huggingface-hub==/ } !skip' "$1"
}

# setup ROOT: environment and extension as for the launcher, without what only building needs.
setup() {
    LLGTRT_ROOT=$1
    # shellcheck source=launch/setup.sh
    . "$LLGTRT_ROOT/launch/setup.sh"
    setup_all run
    "$LLGTRT_ROOT/.venv/bin/python" -m pip uninstall -y -r "$LLGTRT_ROOT/launch/requirements/build.in"
}

case ${1:-} in
    wheel | install | setup) "$@" ;;
    *)
        echo "usage: steps.sh wheel SOURCE WHEELS | install WHEELS REQUIREMENTS PREFIX | setup ROOT" >&2
        exit 2
        ;;
esac
