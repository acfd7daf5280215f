#!/usr/bin/env bash
# Runs tests/clients: the server by the libraries that people use (docs/clients.md), in environments of their own beside the
# server's, because not all of them go together. Not a part of check.sh: 1.8 GB, and 3 minutes. With --guidellm that, too, which
# needs torch: 5.6 GB more. Other arguments are pytest's.
set -euo pipefail

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"
cd "$LLGTRT_ROOT"

lists=(clients clients-openai2)
if [[ ${1:-} == --guidellm ]]; then
    lists+=(clients-guidellm)
    shift
fi
python=$(find_python)
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    refuse "the clients need Python 3.11 or newer; install it: $(apt_line python3.11 python3.11-venv)"
fi
setup_all run

folder="${LLGTRT_CACHE:-$LLGTRT_ROOT/.build}/clients"
failed=()
for name in "${lists[@]}"; do
    mkdir -p "$folder/$name"
    (LLGTRT_CACHE="$folder/$name" setup_venv "$name")
    tests=tests/clients
    if [[ $name == clients-guidellm ]]; then tests=tests/clients/test_loads.py; fi
    say "$name: $(du -sh "$folder/$name" | cut -f 1)"
    start=$SECONDS
    # The libraries' own warnings are theirs. 5: what the arguments choose is not in this list.
    LLGTRT_PYTHON="$VIRTUAL_ENV/bin/python" "$folder/$name/.venv/bin/python" -m pytest -q -W ignore -p no:cacheprovider \
        "$@" "$tests" || (($? == 5)) || failed+=("$name")
    say "$name: $((SECONDS - start)) s"
done
say "$SECONDS s in all"
if ((${#failed[@]} > 0)); then
    say "failed: ${failed[*]}"
    exit 1
fi
