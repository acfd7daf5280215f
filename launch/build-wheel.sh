#!/usr/bin/env bash
# Makes a wheel that needs no compiler where it is installed, and its SBOM, in target/wheels: for x86-64-v3 (the kernels choose further
# instructions when they run), glibc 2.34 or newer, any Python from 3.10 on, the demo pair in it. To be built with a glibc of
# 2.34 to 2.37: Debian 12, Ubuntu 22.04. What is not committed is built, too, if git knows the file.
set -euo pipefail

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"
cd "$LLGTRT_ROOT"
if [[ $(uname -m) != x86_64 ]]; then refuse "wheels are made on x86-64 only"; fi

mkdir -p .build
setup_venv run build wheel audit
# shellcheck source=launch/env.sh
. "$LLGTRT_ROOT/launch/env.sh"
need_rust
need_compiler

# The build has folders of its own, beside that for this machine.
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$LLGTRT_ROOT/target}"
wheels="$CARGO_TARGET_DIR/wheels"
export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/wheel"
source="$CARGO_TARGET_DIR/source" static="$CARGO_TARGET_DIR/static"
rm -rf "$source" "$static"
mkdir -p "$source" "$static" "$wheels"
git ls-files -z | xargs -0 cp -P --parents -t "$source"
mkdir "$source/python/llgtrt/demo_pair"
cp -r demo/target demo/draft demo/speculator "$source/python/llgtrt/demo_pair/"
echo x86-64-v3 >"$source/python/llgtrt/baseline.txt"

# The only C++ library that the linker finds here is the static one: older systems have an older one than the compiler's.
"$CC" -O2 -fPIC -c launch/wheel/arc4random.c -o "$static/arc4random.o"
printf 'INPUT(%s %s)\n' "$("$CXX" -print-file-name=libstdc++.a)" "$static/arc4random.o" >"$static/libstdc++.a"
export RUSTFLAGS="-C target-cpu=x86-64-v3 -L native=$static"
# Every wheel is compiled from new copies, so nothing could be taken from the last build's units.
export CARGO_INCREMENTAL=0
forget_other_compiler
sbom="$wheels/llgtrt-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml).cdx.json"
"$VIRTUAL_ENV/bin/python" launch/sbom.py "$sbom"
cd "$source"
say "wheel for x86-64-v3, in $wheels"
logged wheel maturin build --release --locked --strip --compatibility manylinux_2_34 --sbom-include "$sbom" \
    --out "$wheels"
ls "$wheels"
