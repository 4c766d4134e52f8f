"""What do many partitions of a Kafka topic cost? The same messages in topics of 10, 100 and 1,000 partitions.

    make jars && .venv/bin/python benches/bench_partitions.py --count 50000

Starts a broker of its own and decodes each topic in one micro-batch, local[2], into the noop sink. Prints a table in
Markdown from the query's own progress.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "support")]
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import SparkSession

import corpus
import towpath
from kafka_broker import KafkaBroker
from peers import DDL
from server_process import jars

STEPS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution")


def session(conf):
    builder = SparkSession.builder.master("local[2]").appName("towpath partitions")
    for name, value in {
        "spark.jars": ",".join(map(str, jars("spark"))),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(corpus.CACHE / "warehouse"),
        **dict(setting.split("=", 1) for setting in conf),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(spark, kafka, topic, checkpoint, limit, tasks):
    """The progress of each micro-batch that had messages."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    source = source.option("subscribe", topic).option("startingOffsets", "earliest")
    source = source.option("maxOffsetsPerTrigger", limit)
    frame = source.load().coalesce(tasks) if tasks else source.load()
    decoded = towpath.spark.decode(frame, "canal-json", schema=DDL, layout="upsert", keep=["partition", "offset"])
    writer = decoded.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [batch for batch in query.recentProgress if batch["numInputRows"]]


def median_step(batches, step):
    values = sorted(batch["durationMs"].get(step, 0) for batch in batches)
    return values[len(values) // 2]


def measure(spark, kafka, values, sizes, batches_each, folder, tasks=None):
    """The median seconds of each step for topics of these numbers of partitions."""
    results = []
    for partitions in sizes:
        topic = kafka.create_topic(f"partitions-{partitions}-{len(results)}", partitions)
        kafka.produce(topic, [(None, value, at % partitions) for at, value in enumerate(values)])
        limit = len(values) // batches_each + partitions  # a limit is rounded for each partition
        batches = run(spark, kafka, topic, f"{folder}/{topic}", limit, tasks)
        steps = {step: median_step(batches, step) for step in STEPS}
        rows = sum(batch["numInputRows"] for batch in batches)
        assert rows == len(values)
        results.append({"partitions": partitions, "batches": len(batches), "messages": rows, **steps})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--coalesce", type=int, help="read several partitions in one task, so many tasks")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    values = list(corpus.messages("wide", arguments.count))
    corpus.CACHE.mkdir(exist_ok=True)
    spark, warmed_up = session(arguments.conf), [arguments.partitions[0], *arguments.partitions]
    with KafkaBroker() as kafka, tempfile.TemporaryDirectory() as folder:
        results = measure(spark, kafka, values, warmed_up, arguments.batches, folder, arguments.coalesce)
    spark.stop()
    print(f"| partitions | messages | micro-batches | {' | '.join(f'{step}, ms' for step in STEPS)} |")
    print("|---" * (len(STEPS) + 3) + "|")
    for result in results[1:]:
        cells = [result["partitions"], result["messages"], result["batches"], *(result[step] for step in STEPS)]
        print("| " + " | ".join(map(str, cells)) + " |")
    if arguments.json:
        arguments.json.write_text(json.dumps(results[1:], indent=1))


if __name__ == "__main__":
    main()
