#!/bin/sh
# rustc for cargo's RUSTC_WRAPPER: towpath and its checks get libFuzzer's instrumentation, which LLVM's pass inserts on stable Rust too.
# Other crates get none: libFuzzer looks at every counter after each execution, so theirs would halve its speed.
case "$CARGO_CRATE_NAME" in
towpath | towpath_fuzz)
    level=-Cllvm-args=-sanitizer-coverage
    exec "$@" -Cpasses=sancov-module $level-level=4 $level-inline-8bit-counters $level-pc-table $level-trace-compares
    ;;
*) exec "$@" ;;
esac
