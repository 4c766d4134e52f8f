"""Spark local[2]: a file of JSON lines through each way of reading and decoding it into the noop sink.

    python benches/bench_source.py --count 400000 --rounds 5 --json results.json

The same messages, measures and rounds as in bench_spark.py, whose Parquet file is read here too.
"""

import argparse
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import bench_spark
import corpus
from bench_spark import from_json_tuned, measure, sums, with_orjson, with_towpath, with_towpath_rows
from peers import DDL

ROWS = {"schema": DDL, "layout": "upsert", "fields": "_op,_event_time,_produced_time"}
IMAGES = {"schema": DDL, "fields": "op,before,after,event_time,produced_time"}
PART = "128m"  # the default of the source, and so for all


def ensure_lines(count):
    """The corpus as JSON lines; no message has a newline in it."""
    parquet, target = corpus.ensure("wide", count), corpus.path("wide", count, "jsonl")
    if not target.exists():
        partial = target.with_suffix(".partial")
        with open(partial, "wb") as out:
            for batch in pq.ParquetFile(parquet).iter_batches(columns=["value"]):
                out.writelines(value + b"\n" for value in batch.column(0).to_pylist())
        partial.rename(target)
    return parquet, target


def frames(spark, parquet, lines):
    """What each way decodes, from what it reads."""

    def source(path, **options):
        reader = spark.read.format("towpath").options(dialect="canal-json", maxPartitionBytes=PART, **options)
        return reader.load(str(path))

    text, values = spark.read.text(str(lines)), spark.read.parquet(str(parquet)).select("value")
    return {
        "text only": text,
        "source, rows": source(lines, **ROWS),
        "source, both images": source(lines, **IMAGES),
        "source behind lengths, rows": source(parquet.with_suffix(".bin"), framing="length-prefixed", **ROWS),
        "text, mapInArrow, rows": with_towpath_rows(text),
        "text, from_json tuned": from_json_tuned(text),
        "parquet, mapInArrow, rows": with_towpath_rows(values),
        "parquet, mapInArrow, both images": with_towpath(values),
        "parquet, from_json tuned": from_json_tuned(values),
    }


def verify(ways, values):
    """Every way has to have decoded the same."""
    wanted = sums(with_orjson(values))
    for name, frame in ways.items():
        got = wanted if name == "text only" else sums(frame)
        assert got == wanted, f"{name} decoded {got}, not {wanted}"


def measure_files(spark, parquet, lines, rounds):
    ways = frames(spark, parquet, lines)
    verify(ways, spark.read.parquet(str(parquet)).select("value"))
    return measure(ways, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    report = arguments.json and arguments.json.resolve()
    parquet, lines = ensure_lines(arguments.count)
    os.chdir(corpus.CACHE)  # Spark leaves a folder or two where it runs
    spark = bench_spark.session()
    spark.conf.set("spark.sql.files.maxPartitionBytes", PART)
    results = measure_files(spark, parquet, lines, arguments.rounds)
    versions = {"pyspark": spark.version, "pyarrow": pa.__version__}
    text = json.dumps({"ways": results, "count": arguments.count, "versions": versions}, indent=1)
    report.write_text(text) if report else print(text)
    spark.stop()


if __name__ == "__main__":
    main()
