#!/usr/bin/env bash
# Builds the fuzz targets, runs each for some time, and prints a table. Fails if a target found a crash, a hang or too much memory.
#
#   SECONDS_EACH=300 tests/fuzz/run.sh                 all targets, five minutes each
#   tests/fuzz/run.sh canal-json auto                  these targets
#   tests/fuzz/run.sh --minimise                       renew the corpus in git from what has been found so far
set -euo pipefail
cd "$(dirname "$0")/../.."

SECONDS_EACH=${SECONDS_EACH:-120}
JOBS=${JOBS:-$(nproc)}
WORK=target/fuzz
BINARIES=$WORK/release

build() {
    RUSTC_WRAPPER=$PWD/tests/fuzz/rustc.sh cargo build --locked --release --manifest-path tests/fuzz/Cargo.toml --target-dir "$WORK" --bins
}

targets() {
    sed -n 's/^name = "\(.*\)"/\1/p' tests/fuzz/Cargo.toml | tail -n +2
}

# The folders that a target's inputs are read from; new ones are written to the first.
folders() {
    local archive=tests/fuzz/corpus/$1.tar.gz
    mkdir -p "$WORK/corpus/$1" "$WORK/seeds/$1" "$WORK/artifacts/$1" "$WORK/kept/$1" "tests/fuzz/regressions/$1"
    [ ! -f "$archive" ] || tar -xzf "$archive" -C "$WORK/kept/$1"
    echo "$WORK/corpus/$1" "$WORK/seeds/$1" "$WORK/kept/$1" "tests/fuzz/regressions/$1"
}

# Inputs are at most 16 KiB, an execution takes at most 20 seconds and 3 GiB.
run_one() {
    local target=$1 log=$WORK/logs/$1.log
    mkdir -p "$WORK/logs"
    # shellcheck disable=SC2046
    FUZZ_SEEDS=$WORK/seeds/$target "$BINARIES/$target" $(folders "$target") -max_total_time="$SECONDS_EACH" -max_len=16384 \
        -timeout=20 -rss_limit_mb=3072 -print_final_stats=1 -verbosity=1 -dict=tests/fuzz/dictionary.txt \
        -artifact_prefix="$WORK/artifacts/$target/" >"$log" 2>&1 && echo passed >"$WORK/logs/$target.outcome" || echo FAILED >"$WORK/logs/$target.outcome"
    echo "$target: $(cat "$WORK/logs/$target.outcome")"
}

table() {
    printf '\n%-18s %12s %8s %8s %8s %8s\n' target executions exec/s edges corpus outcome
    for target in "$@"; do
        awk -v target="$target" -v outcome="$(cat "$WORK/logs/$target.outcome")" '
            / cov: / { for (at = 1; at < NF; at++) { if ($at == "cov:") edges = $(at + 1); if ($at == "corp:") corpus = $(at + 1) } }
            /number_of_executed_units/ { executions = $2 }
            /average_exec_per_sec/ { rate = $2 }
            END { sub("/.*", "", corpus); printf "%-18s %12d %8d %8d %8d %8s\n", target, executions, rate, edges, corpus, outcome }
        ' "$WORK/logs/$target.log"
    done
}

# Few inputs that together reach every edge that has been reached, and of those the short ones.
minimise() {
    local target=$1 archive=$PWD/tests/fuzz/corpus/$1.tar.gz
    # shellcheck disable=SC2046
    set -- $(folders "$target")
    rm -rf "$WORK/merged" && mkdir -p "$WORK/merged"
    "$BINARIES/$target" -artifact_prefix="$WORK/artifacts/$target/" -set_cover_merge=1 -use_counters=0 -max_len=1024 "$WORK/merged" "$@" >"$WORK/logs/$target.merge.log" 2>&1
    find "$WORK/merged" -type f -size +512c -delete
    # The same inputs give the same archive.
    (cd "$WORK/merged" && tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - -- * | gzip -9n) >"$archive"
    echo "$target: $(find "$WORK/merged" -type f | wc -l) inputs"
}

build
if [ "${1:-}" = --minimise ]; then
    shift
    for target in $([ $# -gt 0 ] && echo "$@" || targets); do minimise "$target"; done
    exit
fi
export -f run_one folders
export SECONDS_EACH WORK BINARIES
[ $# -gt 0 ] || set -- $(targets)
rm -f "$WORK"/logs/*.outcome
mkdir -p "$WORK" && touch "$WORK/started"
printf '%s\n' "$@" | xargs -P "$JOBS" -I{} bash -c 'run_one {}'
table "$@"
if grep -q FAILED "$WORK"/logs/*.outcome; then
    find "$WORK/artifacts" -type f -newer "$WORK/started" -exec echo "failing input: {}" \;
    echo "The log of each target is in $WORK/logs. CONTRIBUTING.md says what to do with a failing input." >&2
    exit 1
fi
