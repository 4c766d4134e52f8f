"""A topic of Kafka into Delta tables.

    python examples/kafka_to_delta.py --broker 127.0.0.1:9092 --topic binlog --lake demo-output/lake

Reads what is in the topic, keeps a table for each table in it, and shows them. Run it again to go on where it stopped.
With `--fill` it first produces the messages of a real canal, so that there is something to read.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import towpath

ROOT = Path(__file__).parents[1]
CAPTURE = ROOT / "tests" / "golden" / "canal-json" / "canal-mysql" / "mixed.flat.jsonl.zst"


def main() -> None:
    """Fill the topic if `--fill` is given, replicate it, and print the tables."""
    arguments = parsed()
    if arguments.fill:
        fill(arguments.broker, arguments.topic)
    spark = session(arguments.jars)
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", arguments.broker)
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", arguments.at_once)
        .load()
    )
    query = towpath.spark.replicate(
        messages,
        arguments.lake + "/{database}/{table}" if arguments.tables is None else targets(arguments),
        checkpoint=f"{arguments.lake}/checkpoint",
        dead_letters=f"{arguments.lake}/dead_letters",
        ddl=f"{arguments.lake}/ddl",
        trigger={"availableNow": True},
    )
    assert query is not None  # a stream's
    query.awaitTermination()
    show(spark, Path(arguments.lake))


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", required=True, help="host and port of a Kafka broker")
    parser.add_argument("--topic", default="binlog")
    parser.add_argument("--lake", required=True, help="folder for the tables")
    parser.add_argument("--tables", nargs="+", metavar="DATABASE.TABLE", help="only these; otherwise all")
    parser.add_argument("--at-once", type=int, default=100_000, help="messages in a micro-batch")
    parser.add_argument("--jars", default=str(ROOT / "target" / "jars" / "spark"), help="where `make jars` put them")
    parser.add_argument("--fill", action="store_true", help="first produce the messages of a capture")
    return parser.parse_args()


def targets(arguments: argparse.Namespace) -> dict[str, str]:
    """A path for each table that was named."""
    return {name: f"{arguments.lake}/{name.replace('.', '/')}" for name in arguments.tables}


def fill(broker: str, topic: str) -> None:
    """Produce what canal wrote while it read a MySQL server."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # it does export them

    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "16000000"})])[topic].result(60)
    producer = Producer({"bootstrap.servers": broker, "message.max.bytes": 16_000_000})
    with pa.input_stream(str(CAPTURE), compression="zstd") as file:
        for line in file.read().splitlines():
            producer.produce(topic, line)
    producer.flush()


def session(jars: str) -> SparkSession:
    """A local Spark with Kafka and Delta, and workers that run this Python, which has towpath."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return (
        SparkSession.builder.master("local[2]")
        .appName("Kafka to Delta")
        .config("spark.jars", ",".join(map(str, Path(jars).glob("*.jar"))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def show(spark: SparkSession, lake: Path) -> None:
    """How many rows each table has."""
    for log in sorted(lake.rglob("_delta_log")):
        rows = spark.read.format("delta").load(str(log.parent)).count()
        print(f"{log.parent.relative_to(lake)}: {rows} rows")


if __name__ == "__main__":
    main()
