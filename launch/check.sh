#!/usr/bin/env bash
# Runs every check and test: all of them, whatever fails; the exit code is 1 if anything did.
# The last line is 'N passed, N failed, N skipped'; a check that is not a test run counts as one, and as skipped where it ends
# with 77: it found nothing, but could not look at everything.
set -uo pipefail

LLGTRT_ROOT=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
# shellcheck source=launch/setup.sh
. "$LLGTRT_ROOT/launch/setup.sh"
cd "$LLGTRT_ROOT" || exit 2
export LLGTRT_DATA="${LLGTRT_DATA:-$LLGTRT_ROOT/../shared/data}" CARGO_TERM_COLOR=never
passed=0 failed=0 skipped=0 broken=() partly=()
failures="$LLGTRT_ROOT/.build/failures.log" # ends of what failed, shown again where nobody has to look for them
limit=5100 # seconds for everything: what hangs is ended, and the rest still gets a minute each

# step NAME COMMAND...: runs it, shows its output, its time, and counts the tests that it reports.
step() {
    local name=$1 start=$SECONDS log="$LLGTRT_ROOT/.build/check.log" status=0 counts
    local left=$((limit - SECONDS > 60 ? limit - SECONDS : 60))
    shift
    printf '\n== %s\n' "$name"
    timeout "$left" "$@" 2>&1 </dev/null | tee "$log"
    status=${PIPESTATUS[0]}
    counts=$(count_tests <"$log")
    read -r p f s <<<"$counts"
    if ((status == 77 && p + f == 0)); then
        s=1 status=0
        partly+=("$name")
    elif ((p + f == 0)); then
        p=$((status == 0))
    fi
    if ((status != 0 && f == 0)); then f=1; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if ((f > 0)); then
        broken+=("$name")
        { printf '\n== failed: %s\n' "$name" && tail -n 60 "$log"; } >>"$failures"
    fi
    printf -- '-- %s: %s, %d s\n' "$name" "$( ((f > 0)) && echo FAILED || echo ok)" "$((SECONDS - start))"
}

# Totals over the closing lines of cargo test and pytest on stdin: passed, failed, skipped.
count_tests() {
    awk '
        /^test result: / { p += $4; f += $6; s += $8 }
        /^(=+ )?[0-9]+ (passed|failed|skipped|error|errors|xfailed).* in [0-9.]+s/ {
            gsub(/[=,]/, " ")
            for (i = 1; i < NF; i++) {
                if ($(i + 1) == "passed") p += $i
                if ($(i + 1) ~ /^(failed|error|errors)$/) f += $i
                if ($(i + 1) == "skipped") s += $i
            }
        }
        END { print p + 0, f + 0, s + 0 }'
}

start=$SECONDS
mkdir -p "$LLGTRT_ROOT/.build"
: >"$failures"
printf '== set-up\n'
(
    set -e # in a condition it would be without effect
    setup_all dev
)
status=$?
if ((status != 0)); then refuse "the set-up failed, so nothing was checked"; fi
# shellcheck source=launch/env.sh
. "$LLGTRT_ROOT/launch/env.sh"
printf -- '-- set-up: ok, %d s\n' "$((SECONDS - start))"

step "rustfmt" cargo fmt --all --check
step "ruff format" ruff format --check .
step "ruff" ruff check .
step "prose" python launch/prose.py
step "crates" python launch/audit.py crates
step "Python packages" python launch/audit.py packages
step "shellcheck" shellcheck -x launch/*.sh docker/*.sh bench/run .ci/run
for folder in python/llgtrt bench demo launch tests/*/; do # one by one: test folders have modules of the same name
    if ! compgen -G "$folder/*.py" >/dev/null; then continue; fi
    base=""
    if [[ $folder == tests/* || $folder == bench ]]; then base=$folder; fi # its scripts import each other
    if [[ -e $folder/__init__.py && $folder == tests/* ]]; then base=tests; fi
    if [[ -d $folder/fake ]]; then base+=":$folder/fake"; fi # packages that its tests import by their real names
    step "mypy $folder" env MYPYPATH="$base" mypy "$folder"
done
step "stubtest" python -m mypy.stubtest llgtrt._core
step "clippy" cargo clippy --release --locked --all-targets --features "$LLGTRT_FEATURES" -- -D warnings
step "load client, clippy" cargo clippy --release --locked -p llgtrt-load --all-targets -- -D warnings
# Published vocabularies, which the Rust tests read as files.
if [[ -e $LLGTRT_DATA/vocabularies.tar.xz ]]; then
    export LLGTRT_VOCABS="$LLGTRT_ROOT/.build/vocabularies"
    mkdir -p "$LLGTRT_VOCABS"
    python -W ignore -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
        "$LLGTRT_DATA/vocabularies.tar.xz" "$LLGTRT_VOCABS"
fi
# With the wheel's features: others would build the whole graph again. Without the examples, which clippy has compiled,
# and doc tests, of which there are none: linking and looking for them takes minutes.
step "Rust tests" cargo test --release --locked --features "$LLGTRT_FEATURES" --lib --tests --no-fail-fast
step "load client, tests" cargo test --release --locked -p llgtrt-load --tests
step "Python tests" python -m pytest -q -p no:cacheprovider
step "bench, smoke" ./bench/run smoke
step "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --no-deps --features "$LLGTRT_FEATURES"

cat "$failures"
printf '\n%d s in all' "$((SECONDS - start))"
if ((${#broken[@]} > 0)); then printf '; failed: %s' "$(printf '%s, ' "${broken[@]}" | sed 's/, $//')"; fi
if ((${#partly[@]} > 0)); then printf '; not checked as a whole: %s' "$(printf '%s, ' "${partly[@]}" | sed 's/, $//')"; fi
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0))
