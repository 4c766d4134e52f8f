"""Spark's Kafka source on a test's topics, and the same messages decoded locally."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming import DataStreamReader

import towpath
from kafka_broker import Sent
from spark_rows import of_arrow, of_spark

KEPT = ("topic", "partition", "offset", "timestamp")


def read(spark: SparkSession, bootstrap: str, *topics: str) -> DataFrame:
    """Everything that is in the topics now."""
    return _configured(spark.read, bootstrap, topics).load()


def stream(spark: SparkSession, bootstrap: str, *topics: str, limit: int | None = None) -> DataFrame:
    """The topics as a stream from their beginning, `limit` messages per micro-batch."""
    source = _configured(spark.readStream, bootstrap, topics)
    return (source.option("maxOffsetsPerTrigger", limit) if limit else source).load()


def _configured(
    reader: DataFrameReader | DataStreamReader, bootstrap: str, topics: Iterable[str]
) -> DataFrameReader | DataStreamReader:
    source = reader.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    return source.option("subscribe", ",".join(topics)).option("startingOffsets", "earliest")


def decoded_locally(sent: list[Sent], dialect: str = "auto", **options: Any) -> list[dict[str, Any]]:
    """The rows of the messages that the broker stored, in the order of `ordered`."""
    batch = pa.record_batch(
        {
            "key": pa.array([record.key for record in sent], pa.binary()),
            "value": pa.array([record.value for record in sent], pa.binary()),
            "topic": pa.array([record.topic for record in sent]),
            "partition": pa.array([record.partition for record in sent], pa.int32()),
            "offset": pa.array([record.offset for record in sent], pa.int64()),
            "timestamp": pa.array([record.timestamp * 1000 for record in sent], pa.timestamp("us", "UTC")),
        }
    )
    return in_order(of_arrow(towpath.Decoder(dialect, keep=KEPT, **options).decode(batch)))


def ordered(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame of the layout `change` that kept `KEPT`, in the order of topics and offsets."""
    return in_order(of_spark(frame.collect()))


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same for rows that were collected already."""
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"], row["row"] or 0))
