"""Spark local[2]: a Parquet file's `value` column through each way of decoding into the noop sink.

    python benches/bench_spark.py --count 400000 --rounds 5 --json results.json

Not a pytest-benchmark file: what counts here is the CPU time of the JVM and of the Python workers it starts, and rounds
that take turns, so that a slow minute of the machine hits every way alike. Neither can be had there.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# The workers import the peers too.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])

import psutil
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import corpus
import towpath.spark
from peers import COLUMNS, DDL

TYPES = {name.strip(): kind for name, kind in (part.split(maxsplit=1) for part in DDL.split(", "))}
ROW = ", ".join(f"{name}: string" for name in COLUMNS.names)
WHOLE = (
    f"data array<struct<{ROW}>>, database string, es bigint, gtid string, id bigint, isDdl boolean, "
    f"mysqlType map<string,string>, old array<struct<{ROW}>>, pkNames array<string>, sql string, "
    "sqlType map<string,int>, table string, ts bigint, type string"
)
PRUNED = f"data array<struct<{ROW}>>, es bigint, ts bigint, type string"


def session(**more):
    builder = SparkSession.builder.master("local[2]").appName("towpath benches")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.maxPartitionBytes": "8m",  # several tasks a core, so neither core waits long for the other
        **more,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read_only(frame):
    return frame


def identity(frame):
    """The floor of everything that decodes in Python: rows to Arrow, to a worker, and back."""
    return frame.mapInArrow(lambda batches: batches, "value binary")


def with_towpath(frame):
    """Both images, typed."""
    fields = ["op", "before", "after", "event_time", "produced_time"]
    return towpath.spark.decode(frame, "canal-json", schema=DDL, fields=fields)


def with_towpath_rows(frame):
    """One typed row a change, as the from_json ways put out: the after image, or the row that a delete took away."""
    fields = ["_op", "_event_time", "_produced_time"]
    return towpath.spark.decode(frame, "canal-json", schema=DDL, layout="upsert", fields=fields)


def typed_row(frame, explode):
    """After image only, as from_json has no word for the rest of it."""
    exploded = frame.select("m.type", "m.es", "m.ts", explode("m.data").alias("row"))
    columns = [f.col(f"row.{name}").cast(TYPES[name]).alias(name) for name in COLUMNS.names]
    times = [f.timestamp_millis("es").alias("es"), f.timestamp_millis("ts").alias("ts")]
    return exploded.select(f.col("type").alias("op"), *times, *columns)


def from_json_naive(frame):
    """As people write it: the whole envelope, explode, casts. Spark then parses each message more than once."""
    parsed = frame.select(f.from_json(f.col("value").cast("string"), WHOLE).alias("m"))
    return typed_row(parsed, f.explode)


def from_json_tuned(frame):
    """Only what is asked for, and explode_outer, for which Spark infers no filter that parses again."""
    parsed = frame.select(f.from_json(f.col("value").cast("string"), PRUNED).alias("m"))
    return typed_row(parsed, f.explode_outer)


def decode_with_orjson(batches):
    from peers import orjson_loads

    for batch in batches:
        yield from orjson_loads.decode(batch.column(0)).to_batches()


def with_orjson(frame):
    """After image only."""
    envelope = "op string, es timestamp, ts timestamp"
    return frame.mapInArrow(decode_with_orjson, f"{envelope}, {DDL}")


WAYS = {
    "read only": read_only,
    "identity mapInArrow": identity,
    "towpath": with_towpath,
    "towpath rows": with_towpath_rows,
    "from_json tuned": from_json_tuned,
    "from_json naive": from_json_naive,
    "orjson mapInArrow": with_orjson,
}


def sums(frame):
    """What a way decoded, in three numbers."""
    if "after" in frame.columns:
        frame = frame.select(f.coalesce("after", "before").alias("row")).select("row.*")
    checks = [
        f.count("*"),
        f.sum("id"),
        f.sum("total"),
        f.sum(f.unix_millis("updated_at") % 1_000_000),
        f.sum(f.length("remark")),
    ]
    return tuple(frame.select(*checks).first())


def verify(frame):
    """Every way that decodes has to have decoded the same."""
    wanted = sums(with_orjson(frame))
    for name in ("towpath", "towpath rows", "from_json tuned", "from_json naive"):
        got = sums(WAYS[name](frame))
        assert got == wanted, f"{name} decoded {got}, not {wanted}"


def processes():
    """CPU seconds of the JVM and of each living Python worker. The driver itself only waits."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found[process.pid, process.create_time(), process.name()] = times.user + times.system
    return found


def run_once(frame):
    """What a run takes. One in which workers began or ended is run again: Spark ends those that had nothing to do for a minute,
    which depends on the ways before this one, and to begin costs more than a second, which only the ways in Python pay.
    """
    figures, steady = run_timed(frame)
    return figures if steady else run_timed(frame)[0]


def run_timed(frame):
    """The figures, and whether the processes stayed the same.

    They are differences of each process, not of sums: pyspark's daemon ignores its children's end, so nobody keeps the time
    of a worker that is gone, and a sum would fall by all that it ever took. One that Spark ends has been idle.
    """
    before = processes()
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    wall = time.perf_counter() - start
    after = processes()
    spent = {process: seconds - before.get(process, 0) for process, seconds in after.items()}
    jvm = sum(seconds for (_, _, name), seconds in spent.items() if "java" in name)
    workers = sum(spent.values()) - jvm
    return {"wall": wall, "cpu": jvm + workers, "jvm": jvm, "workers": workers}, before.keys() == after.keys()


def measure(ways, rounds):
    """Rounds take turns. The first two are warm-up: the JVM compiles what it runs often."""
    results = {name: [] for name in ways}
    for turn in range(rounds + 2):
        for name, frame in ways.items():
            result = run_once(frame)
            if turn >= 2:
                results[name].append(result)
    return results


def measure_file(spark, source, rounds):
    frame = spark.read.parquet(str(source)).select("value")
    verify(frame)
    return measure({name: way(frame) for name, way in WAYS.items()}, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    report = arguments.json and arguments.json.resolve()
    source = corpus.ensure("wide", arguments.count)
    os.chdir(corpus.CACHE)  # Spark leaves a folder or two where it runs
    spark = session()
    results = measure_file(spark, source, arguments.rounds)
    versions = {"pyspark": spark.version, "pyarrow": pa.__version__}
    text = json.dumps({"ways": results, "count": arguments.count, "versions": versions}, indent=1)
    report.write_text(text) if report else print(text)
    spark.stop()


if __name__ == "__main__":
    main()
