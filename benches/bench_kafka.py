"""Spark local[2]: a Kafka topic's messages through each way of decoding into the noop sink.

    make jars && python benches/bench_kafka.py --count 400000 --rounds 5 --json results.json

The same messages, measures and rounds as in bench_spark.py, from a broker of its own: 4 partitions, compressed with lz4,
or as `--partitions` and `--compression` say. The ways take the column `value` of Spark's Kafka source, except the two
that are read on the workers: they are `format("towpath")` on the topic.
It needs pyspark 4.0, as Spark's Kafka source is complete only for that one here. The ways run in a process of their own,
so that the broker's CPU time is not counted: it is a cluster's business, and the same for every way.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "support"))

import pyarrow as pa

import bench_spark
import corpus
from bench_spark import WAYS, measure, sums
from kafka_broker import KafkaBroker
from peers import DDL
from server_process import jars

MEASURED = ("read only", "identity mapInArrow", "towpath", "towpath rows", "from_json tuned")


def fill(kafka, topic, count, partitions, compression):
    """The messages take turns between the partitions."""
    values = corpus.messages("wide", count)
    kafka.create_topic(topic, partitions, compression_type=compression)
    kafka.produce(topic, ((None, value, at % partitions) for at, value in enumerate(values)))
    return topic


def read(spark, bootstrap, topic):
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return source.option("startingOffsets", "earliest").load().select("value")


def source(spark, bootstrap, topic, **options):
    reader = spark.read.format("towpath").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.options(dialect="canal-json", schema=DDL, **options).load()


def of_source(spark, bootstrap, topic):
    """As `towpath` and `towpath rows`, but the messages do not pass through the JVM."""
    both = source(spark, bootstrap, topic, fields="op,before,after,event_time,produced_time")
    rows = source(spark, bootstrap, topic, layout="upsert", fields="_op,_event_time,_produced_time")
    return {"source on the workers, both images": both, "source on the workers": rows}


def verify(ways, count):
    """Every way that decodes has to have decoded the same, out of all messages."""
    assert ways["read only"].count() >= count
    wanted = sums(ways["from_json tuned"])
    for name in set(ways) - {"read only", "identity mapInArrow", "from_json tuned"}:
        got = sums(ways[name])
        assert got == wanted, f"{name} decoded {got}, not {wanted}"


def measure_topic(spark, bootstrap, topic, count, rounds):
    frame = read(spark, bootstrap, topic)
    ways = {name: WAYS[name](frame) for name in MEASURED} | of_source(spark, bootstrap, topic)
    verify(ways, count)
    versions = {"pyspark": spark.version, "pyarrow": pa.__version__}
    return {"ways": measure(ways, rounds), "count": count, "versions": versions}


def measure_here(bootstrap, topic, arguments):
    os.chdir(corpus.CACHE)  # Spark leaves a folder or two where it runs
    spark = bench_spark.session(**{"spark.jars": ",".join(map(str, jars("spark")))})
    results = measure_topic(spark, bootstrap, topic, arguments.count, arguments.rounds)
    spark.stop()
    arguments.json.write_text(json.dumps(results, indent=1))


def measure_apart(arguments):
    with KafkaBroker() as kafka:
        topic = fill(kafka, "orders", arguments.count, arguments.partitions, arguments.compression)
        options = ["--count", arguments.count, "--rounds", arguments.rounds, "--json", arguments.json]
        command = [sys.executable, __file__, *options, "--topic", kafka.bootstrap, topic]
        subprocess.run([str(word) for word in command], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--compression", default="lz4")
    parser.add_argument("--json", type=Path, required=True, help="where to write the figures")
    parser.add_argument("--topic", nargs=2, metavar=("BROKER", "NAME"), help="measure a topic that is there already")
    arguments = parser.parse_args()
    arguments.json = arguments.json.resolve()
    corpus.CACHE.mkdir(exist_ok=True)
    if arguments.topic:
        measure_here(*arguments.topic, arguments)
    else:
        measure_apart(arguments)


if __name__ == "__main__":
    main()
