"""Where the CPU time of `mapInArrow` goes: in the JVM, in decoding, in the rest of the Python workers, in imports.

    python benches/profile_spark.py --count 400000 --rounds 5
    python benches/profile_spark.py --set spark.sql.execution.arrow.maxRecordsPerBatch=2000
    python benches/profile_spark.py --session spark.python.unix.domain.socket.enabled=true

The messages, measures and rounds of bench_spark.py, on whatever pyspark runs this. Each `--set` is a setting that a running
session takes: every way is measured with and without it, in turn. `--session` is for settings that only a new session takes.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time

import pyarrow as pa

import corpus
import towpath
from bench_spark import identity, read_only, run_timed, session, with_towpath_rows
from peers import DDL

THREE = "id bigint, total decimal(10,2), updated_at timestamp"
ROWS = ["_op", "_event_time", "_produced_time"]
IMAGES = ["op", "before", "after", "event_time", "produced_time"]
MEASURES = ("cpu", "jvm", "workers", "decode", "faults", "wall")


def decoder(schema=DDL, **options):
    return lambda: towpath.Decoder("canal-json", schema=schema, **options)


# What each way decodes with.
DECODERS = {
    "rows": decoder(layout="upsert", fields=ROWS),
    "rows, 3 of 12 columns": decoder(THREE, layout="upsert", fields=ROWS),
    "both images": decoder(fields=IMAGES),
    "both images, 3 of 12 columns": decoder(THREE, fields=IMAGES),
    "after only": decoder(fields=[name for name in IMAGES if name != "before"]),
    "all envelope columns": decoder(),
}


class Watched:
    """A decoder for `mapInArrow` that adds up the seconds it takes, and the page faults of the worker meanwhile."""

    def __init__(self, decoder, spent):
        self._decoder = decoder
        self._spent = spent

    def __call__(self, batches):
        seconds, before = 0, resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for batch in batches:
            start = time.thread_time()
            rows = self._decoder.decode(batch)
            seconds += time.thread_time() - start
            yield rows
        self._spent["decode"].add(seconds)
        self._spent["faults"].add(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def watched(frame, make, spent):
    return frame.mapInArrow(Watched(make(), spent), make().spark_schema)


def counted_rows(frame):
    options = {"schema": DDL, "layout": "upsert", "fields": ROWS}
    return towpath.spark.decode(frame, "canal-json", metrics="counts", **options)


def ways(frame, spent):
    decoding = {name: watched(frame, make, spent) for name, make in DECODERS.items()}
    text = frame.selectExpr("cast(value as string) as value").mapInArrow(lambda batches: batches, "value string")
    return {
        "read only": read_only(frame),
        "identity mapInArrow": identity(frame),
        "identity mapInArrow, text": text,
        "towpath.spark.decode, rows": with_towpath_rows(frame),
        "towpath.spark.decode, rows, metrics": counted_rows(frame),
        **decoding,
    }


def variants(settings):
    """Nothing set, and each of the settings by itself."""
    return {"": None, **{setting: setting.split("=", 1) for setting in settings}}


def run_with(spark, frame, setting, spent):
    """One run; see bench_spark.run_once for why it may take two."""
    if setting:
        earlier = spark.conf.get(setting[0], None)
        spark.conf.set(*setting)
    try:
        for _ in range(2):
            before = {name: total.value for name, total in spent.items()}
            figures, steady = run_timed(frame)
            if steady:
                break
        return figures | {name: total.value - before[name] for name, total in spent.items()}
    finally:
        if setting:
            spark.conf.unset(setting[0]) if earlier is None else spark.conf.set(setting[0], earlier)


def measure(spark, frames, settings, rounds, spent):
    found = {}
    runs = [(name, variant) for name in frames for variant in variants(settings)]
    for turn in range(rounds + 2):
        for name, variant in random.sample(runs, len(runs)):
            figures = run_with(spark, frames[name], variants(settings)[variant], spent)
            if turn >= 2:  # the first are warm-up
                found.setdefault((name, variant), []).append(figures)
    return {run: found[run] for run in runs}


def imports():
    """CPU seconds of importing in a new process: what each Python worker pays before its first batch."""
    program = (
        "import time\nstart = time.process_time()\nimport pyarrow\nmiddle = time.process_time()\n"
        "import towpath\nprint(middle - start, time.process_time() - middle)"
    )
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() for _ in range(7)]
    return [min(map(float, figures)) for figures in zip(*runs, strict=True)]


def table(found):
    header = ["way", "setting", *MEASURES]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for (way, setting), runs in found.items():
        # What other work on the machine adds to a run is never less than nothing.
        least = [min(run[measure] for run in runs) for measure in MEASURES]
        cells = [
            f"{figure:,.0f}" if name == "faults" else f"{figure:.2f}"
            for name, figure in zip(MEASURES, least, strict=True)
        ]
        lines.append("| " + " | ".join([way, setting, *cells]) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--session", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--ways", nargs="+", help="only these")
    parser.add_argument("--json", action="store_true", help="print every round's figures")
    arguments = parser.parse_args()
    source = corpus.ensure("wide", arguments.count)
    os.chdir(corpus.CACHE)  # Spark leaves a folder or two where it runs
    arrow, ours = imports()
    spark = session(**dict(setting.split("=", 1) for setting in arguments.session))
    spent = {"decode": spark.sparkContext.accumulator(0.0), "faults": spark.sparkContext.accumulator(0)}
    frames = ways(spark.read.parquet(str(source)).select("value"), spent)
    frames = {name: frame for name, frame in frames.items() if not arguments.ways or name in arguments.ways}
    found = measure(spark, frames, arguments.set, arguments.rounds, spent)
    if arguments.json:
        print(json.dumps([[*key, runs] for key, runs in found.items()]))
    else:
        print(
            f"Spark {spark.version}, pyarrow {pa.__version__}, {arguments.count:,} messages, {' '.join(arguments.session)}"
        )
        print(f"importing pyarrow {arrow:.3f} s of CPU, towpath {ours:.3f} s more\n")
        print(table(found))
    spark.stop()


if __name__ == "__main__":
    main()
