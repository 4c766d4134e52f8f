"""The driver's program of test_cluster.py, in a process of its own: it has another master than the other tests.

Its one argument is JSON. It decodes a Kafka topic twice, as a batch and as a stream, into Parquet files, and prints the
stream's counts as JSON.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

import towpath
from kafka_source import KEPT, read, stream

FIELDS = ("op", "database", "table", "before", "after", "row", "error")


class WithOrigin:
    """A decoder that adds a column with the worker's folder, Python and towpath."""

    def __init__(self, decoder: towpath.Decoder) -> None:
        self._decoder = decoder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in self._decoder(batches):
            here = {"folder": os.getcwd(), "python": sys.executable, "towpath": sys.modules["towpath"].__file__}
            yield pa.record_batch(
                [*rows.columns, pa.array([json.dumps(here)] * len(rows))], names=[*rows.schema.names, "where"]
            )


def session(settings: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder.master(settings["master"]).appName("towpath cluster test")
    for name, value in settings["conf"].items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(settings: dict[str, Any]) -> None:
    """Run both jobs."""
    spark = session(settings)
    kafka, topic, folder = settings["kafka"], settings["topic"], settings["folder"]
    decoder = towpath.Decoder(key="key", keep=KEPT, fields=FIELDS)
    output = decoder.spark_schema.add("where", StringType())
    read(spark, kafka, topic).mapInArrow(WithOrigin(decoder), output).write.parquet(f"{folder}/batch")
    decoded = towpath.spark.decode(stream(spark, kafka, topic), key="key", keep=KEPT, fields=FIELDS, metrics="cdc")
    query = (
        decoded.writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/stream")
    )
    query.awaitTermination()
    [batch] = [batch for batch in query.recentProgress if batch["numInputRows"]]
    print(json.dumps(batch["observedMetrics"]["cdc"].asDict()))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
