#!/usr/bin/env bash
# Sets up what is missing (Python environment, release build), then serves. Works through a symlink, from any folder.
set -euo pipefail

usage() {
    cat <<'END'
usage: launch-llgtrt.sh <target> [<draft>] [flags]     engine folders, or .gguf files; <draft> may be an MLP speculator
       launch-llgtrt.sh <folder> --engine vllm [flags] Hugging Face folder, on vLLM (installed if it is missing: 6 GB)
       launch-llgtrt.sh --demo [flags]                 SmolLM2-135M-Instruct, as `demo`; --demo=tiny: a smaller pair
       launch-llgtrt.sh models                         real models that were tried
       launch-llgtrt.sh --help                         all flags
END
}

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"

for arg in "$@"; do
    if [[ $arg == -h || $arg == --help ]]; then
        usage
        echo
        exec "$(find_python)" -I "$LLGTRT_ROOT/python/llgtrt/flags.py" serve --help
    fi
done
if (($# == 0)); then
    usage >&2
    exit 2
fi
if [[ $1 == models ]]; then exec "$(find_python)" -I "$LLGTRT_ROOT/python/llgtrt/models.py"; fi
demo="" vllm="" before=""
for arg in "$@"; do
    if [[ $arg == --demo || $arg == --demo=smollm2 ]]; then demo=demo; fi
    if [[ $arg == --engine=vllm || "$before $arg" == "--engine vllm" ]]; then vllm=1; fi
    before=$arg
done

(setup_all run $demo) # a subshell: the server does not inherit the build's environment
python="${LLGTRT_CACHE:-$LLGTRT_ROOT}/.venv/bin/python"
if [[ -n $vllm ]]; then
    # shellcheck source=launch/vllm.sh
    . "$LLGTRT_ROOT/launch/vllm.sh"
    (setup_vllm)
    python=$(vllm_python)
fi
# Isolated, here and in the child processes: what lies in the caller's folder must not be imported.
export PYTHONSAFEPATH=1
exec "$python" -I -m llgtrt serve "$@"
