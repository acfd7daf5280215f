#!/usr/bin/env bash
# Runs every tiny random model of llama.cpp's generator on our server and beside llama-server (tests/models), and writes the
# page docs/architectures.md. Not a part of check.sh: it needs both programs, 1 GB for the models, and a
# quarter of an hour.
set -euo pipefail

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"
cd "$LLGTRT_ROOT"

usage() {
    cat <<'TEXT'
usage: launch/check-models.sh [--peer PROGRAM] [--models FOLDER] [--results FILE] [--only PATTERN] [--port N]
  --peer     llama-server; default: LLGTRT_PEER_SERVER, else the one on PATH. To get it, in llama.cpp's sources:
             cmake -S . -B build -DLLAMA_BUILD_TESTS=ON && cmake --build build --target llama-server test-llama-archs
  --models   folder of .gguf files; default: LLGTRT_ARCHS. To get them: build/bin/test-llama-archs -s 1 -o FOLDER
  --results  what is found, JSON (.build/models.json); what it has of models that are not run stays
  --only     run the models whose name this regular expression finds, and leave docs/architectures.md as it is
  --port     the first of two ports of loopback that servers listen on, one after the other (3200)
TEXT
}

peer=${LLGTRT_PEER_SERVER:-$(command -v llama-server || true)}
models=${LLGTRT_ARCHS:-}
results="$LLGTRT_ROOT/.build/models.json"
page=(--page docs/architectures.md) more=()
while (($# > 0)); do
    case $1 in
        -h | --help) usage && exit ;;
        --peer | --models | --results | --only | --port)
            if (($# < 2)); then refuse "$1 needs a value"; fi
            case $1 in
                --peer) peer=$2 ;;
                --models) models=$2 ;;
                --results) results=$2 ;;
                --only) page=() more+=(--only "$2") ;;
                --port) more+=(--port "$2") ;;
            esac
            shift 2
            ;;
        *) usage >&2 && refuse "unknown argument: $1" ;;
    esac
done
if [[ ! -x $peer ]]; then refuse "no llama-server: --peer PROGRAM, or LLGTRT_PEER_SERVER (--help says how to get it)"; fi
if ! compgen -G "$models/*.gguf" >/dev/null; then
    refuse "no models: --models FOLDER, or LLGTRT_ARCHS; test-llama-archs -s 1 -o FOLDER writes them (--help)"
fi

setup_all dev
# shellcheck source=launch/env.sh
. "$LLGTRT_ROOT/launch/env.sh"
mkdir -p .build
PYTHONPATH=tests exec timeout 3000 python -m models.run --peer "$peer" --models "$models" --results "$results" \
    "${page[@]}" "${more[@]}"
