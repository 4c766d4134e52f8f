"""Does a message cost the same in a small input and in one a hundred times as large, on one core and on two?

    python benches/bench_scale.py --count 20000 --json scale.json

Reads a Parquet file of `--count` messages once, 10 and 100 times over in one job, through towpath into the noop sink,
and the same through a `mapInArrow` that does nothing. Prints a table in Markdown, writes JSON. As in bench_spark.py,
what counts is CPU time of the JVM and its Python workers. Each number of cores is a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import psutil

import corpus
from bench_spark import identity, run_once, with_towpath_rows

WAYS = {"identity mapInArrow": identity, "towpath rows": with_towpath_rows}
CORES = (1, 2)


def session(cores):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").appName("towpath scale")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.maxPartitionBytes": "8m",  # several tasks a core, in each of the sizes
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def workers_peak():
    """The largest resident memory that any living Python worker had, in MiB. Workers are reused, so all still live."""
    sizes = [0]
    for process in psutil.Process().children(recursive=True):
        if "python" in process.name():
            status = Path(f"/proc/{process.pid}/status").read_text()
            sizes += [int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")]
    return max(sizes)


def measure_here(cores, arguments):
    corpus.ensure("wide", arguments.count)
    os.chdir(corpus.CACHE)  # Spark leaves a folder or two where it runs
    spark = session(cores)
    results = measure(spark, cores, arguments.count, arguments.times, arguments.rounds)
    spark.stop()
    return results


def measure(spark, cores, count, times, rounds):
    """For each way and size the rounds' figures; the first round of each way is warm-up."""
    source = str(corpus.ensure("wide", count))
    results = []
    for way, decode in WAYS.items():
        run_once(decode(spark.read.parquet(*[source] * 10).select("value")))
        for size in times:
            frame = spark.read.parquet(*[source] * size).select("value")
            assert frame.count() >= count * size
            ran = [run_once(decode(frame)) for _ in range(rounds)]
            figures = {name: [run[name] for run in ran] for name in ran[0]}
            tasks = frame.rdd.getNumPartitions()
            sizes = {"times": size, "messages": frame.count(), "tasks": tasks, "worker_mib": workers_peak()}
            results.append({"cores": cores, "way": way, **sizes, **figures})
    return results


def measured_apart(cores, arguments):
    """The same in a process of its own: a JVM keeps the master it was given."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--count", arguments.count, "--rounds", arguments.rounds, "--json", report, "--cores", cores]
        times = ["--times", *arguments.times]
        subprocess.run([sys.executable, __file__, *map(str, options + times)], check=True)
        return json.loads(report.read_text())


def table(results):
    lines = [
        "| cores | way | messages | tasks | CPU a message, us | JVM | Python | wall a message, us | largest worker, MiB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        each = [median(result[name]) / result["messages"] * 1e6 for name in ("cpu", "jvm", "workers", "wall")]
        cells = [result["cores"], result["way"], f"{result['messages']:,}", result["tasks"]]
        cells += [f"{figure:.1f}" for figure in each] + [f"{result['worker_mib']:.0f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--times", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, help="measure this number of cores only, and print nothing")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    report = arguments.json and arguments.json.resolve()
    if arguments.cores:
        results = measure_here(arguments.cores, arguments)
    else:
        results = [result for cores in CORES for result in measured_apart(cores, arguments)]
        print(table(results))
    if report:
        report.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
