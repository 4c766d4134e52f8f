"""The messages that the Python benches decode, as their producers write them, the same on every machine.

    python benches/corpus.py --count 200000 wide narrow

writes `benches/.cache/<shape>-<count>.bin` (a big-endian u32 length before each message) and `.parquet` (one binary
column, `value`). The generator is that of the Rust bench, `corpus/mod.rs`, so this needs cargo.
"""

import argparse
import os
import struct
import subprocess
from pathlib import Path

CACHE = Path(os.environ.get("TOWPATH_BENCH_CACHE", Path(__file__).resolve().parent / ".cache"))
ROOT = Path(__file__).resolve().parents[1]

SHAPES = ("wide", "narrow", "update", "tables", "shuffled", "ticdc", "dts")
"""The shapes that Python benches read. The generator knows more."""


def messages(name, count):
    """At least `count` messages of a shape, as bytes: the last statement may be of several."""
    data = written(name, count).read_bytes()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


def path(name, count, suffix):
    return CACHE / f"{name}-{count}.{suffix}"


def written(name, count):
    """The file of a corpus with lengths. It is made unless an earlier run has made it."""
    target = path(name, count, "bin")
    if not target.exists():
        CACHE.mkdir(exist_ok=True)
        partial = target.with_suffix(".partial")  # a run that is stopped half-way leaves no corpus that looks whole
        command = ["cargo", "run", "--quiet", "--locked", "--example", "corpus", name, str(count), partial]
        subprocess.run(command, cwd=ROOT, check=True)
        partial.rename(target)
    return target


def ensure(name, count):
    """Makes both files of a corpus unless an earlier run has, and gives the Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = path(name, count, "parquet")
    if not target.exists():
        table = pa.table({"value": pa.array(messages(name, count), pa.binary())})
        partial = target.with_suffix(".partial")
        pq.write_table(table, partial, row_group_size=20_000, use_dictionary=False)
        partial.rename(target)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), metavar="shape")
    parser.add_argument("--count", type=int, default=200_000)
    arguments = parser.parse_args()
    for name in arguments.shapes:
        target = ensure(name, arguments.count)
        size = path(name, arguments.count, "bin").stat().st_size
        print(f"{name}: {arguments.count} messages, {size / arguments.count - 4:.0f} bytes each, {target}")


if __name__ == "__main__":
    main()
