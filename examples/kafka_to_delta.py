"""A topic of Kafka into Delta tables.

    python examples/kafka_to_delta.py --broker 127.0.0.1:9092 --topic binlog --lake demo-output/lake

Reads what is in the topic, keeps a table for each table in it, and prints them. Run it again to go on where it stopped.
Without `--broker` it starts a broker on this machine for the time of the run, with the messages of a real canal.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

import towpath

ROOT = Path(__file__).parents[1]
CAPTURE = ROOT / "tests" / "golden" / "canal-json" / "canal-mysql" / "mixed.flat.jsonl.zst"


def main() -> None:
    """Replicate the topic, and print the tables."""
    arguments = parsed()
    check_spark(arguments.jars)
    lake = arguments.lake.resolve()
    with broker(arguments, lake) as address:
        if arguments.fill or not arguments.broker:
            fill(address, arguments.topic)
        spark = session(arguments.jars)
        replicate(spark, address, lake, arguments)
        show(spark, lake)
        spark.stop()


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", help="host and port of a Kafka broker; without it one is started and filled")
    parser.add_argument("--topic", default="binlog")
    parser.add_argument("--lake", type=Path, default=Path("demo-output/lake"), help="folder for the tables")
    parser.add_argument("--tables", nargs="+", metavar="DATABASE.TABLE", help="only these; otherwise all")
    parser.add_argument("--at-once", type=int, default=100_000, help="messages in a micro-batch")
    parser.add_argument(
        "--jars", type=Path, default=ROOT / "target" / "jars" / "spark", help="where `make jars` put them"
    )
    parser.add_argument("--fill", action="store_true", help="first produce the messages of a capture")
    return parser.parse_args()


def check_spark(jars: Path) -> None:
    """Stop with one line if the jars are missing, or are for another version of Spark."""
    delta = next(jars.glob("delta-spark_*.jar"), None)
    if not delta:
        sys.exit(f"there is no Delta in {jars}: run `make jars`, or name the folder with --jars")
    version = re.sub(r".*-([\d.]+)\.jar", r"\1", delta.name)
    if version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        fitting = ".".join(version.split(".")[:2])
        sys.exit(
            f"Delta {version} runs on Spark {fitting}, not on Spark {pyspark.__version__}: "
            f"pip install 'pyspark=={fitting}.*'"
        )


@contextmanager
def broker(arguments: argparse.Namespace, lake: Path) -> Iterator[str]:
    """The address of the broker that was named, or of one that runs until the end of the block."""
    if arguments.broker:
        yield arguments.broker
        return
    if lake.exists():
        sys.exit(f"{lake} has the tables of an earlier broker: remove it, or name another folder with --lake")
    sys.path.append(str(ROOT / "tests" / "support"))
    from kafka_broker import KafkaBroker  # type: ignore[import-not-found]

    with KafkaBroker() as started:
        yield started.bootstrap


def replicate(spark: SparkSession, address: str, lake: Path, arguments: argparse.Namespace) -> None:
    """Apply all messages of the topic that have not been applied yet."""
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", arguments.at_once)
        .load()
    )
    query = towpath.spark.replicate(
        messages,
        f"{lake}/{{database}}/{{table}}" if arguments.tables is None else targets(lake, arguments.tables),
        checkpoint=f"{lake}/checkpoint",
        dead_letters=f"{lake}/dead_letters",
        ddl=f"{lake}/ddl",
        keyless="append",  # a table without a primary key becomes a history: a row for each change
        trigger={"availableNow": True},
    )
    assert query is not None  # a stream's
    query.awaitTermination()


def targets(lake: Path, tables: list[str]) -> dict[str, str]:
    """A path for each table that was named."""
    return {name: f"{lake}/{name.replace('.', '/')}" for name in tables}


def fill(address: str, topic: str) -> None:
    """Produce what canal wrote while it read a MySQL server."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # it does export them

    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "16000000"})])[topic].result(60)
    producer = Producer({"bootstrap.servers": address, "message.max.bytes": 16_000_000})
    with pa.input_stream(str(CAPTURE), compression="zstd") as file:
        for line in file.read().splitlines():
            producer.produce(topic, line)
    producer.flush()


def session(jars: Path) -> SparkSession:
    """A local Spark with Kafka and Delta, and workers that run this Python, which has towpath."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return (
        SparkSession.builder.master("local[2]")
        .appName("Kafka to Delta")
        .config("spark.jars", ",".join(map(str, jars.glob("*.jar"))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def show(spark: SparkSession, lake: Path) -> None:
    """Print the number of rows of each table, and three rows of the largest one with fewer than eight columns."""
    tables = {log.parent: spark.read.format("delta").load(str(log.parent)) for log in sorted(lake.rglob("_delta_log"))}
    # Tombstones are what towpath remembers of deleted rows.
    counts = {path: table.count() for path, table in tables.items() if not path.name.endswith("__tombstones")}
    for path, count in counts.items():
        print(f"{path.relative_to(lake)}: {count} rows")
    narrow = [path for path in counts if path.parent != lake and len(tables[path].columns) < 8]
    if narrow:
        largest = max(narrow, key=lambda path: counts[path])
        table = tables[largest].drop("_towpath")
        print(f"\n{largest.relative_to(lake)}:")
        table.orderBy(table.columns[0]).show(3)


if __name__ == "__main__":
    main()
