"""The client's program of test_connect_kafka.py: a classic session and a Connect session do not live in one process.

Its one argument is JSON. It reads a Kafka topic through a Connect server, as a stream and as a batch, and writes what
was decoded to Delta tables. Prints JSON: the session's class, and the stream's counts.
"""

import json
import sys

from pyspark.sql import DataFrame, Row, SparkSession

import towpath
from kafka_source import KEPT, read, stream

OPTIONS = {"key": "key", "keep": KEPT}


def observed(row: Row) -> dict[str, int]:
    """The Connect client of pyspark 4.0 returns names and values separately."""
    return dict(zip((field["name"] for field in row["schema"]["fields"]), row["values"], strict=True))


def replicate(messages: DataFrame, folder: str) -> None:
    """One table of the topic, from a batch or a stream."""
    query = towpath.spark.replicate(
        messages,
        {"test.composite_pk": f"{folder}/composite_pk"},
        "ticdc-canal-json",
        checkpoint=f"{folder}/checkpoint" if messages.isStreaming else None,
        trigger={"availableNow": True} if messages.isStreaming else None,
        dead_letters=f"{folder}/dead_letters",
        watermarks=f"{folder}/watermarks",
        status=f"{folder}/status",
    )
    if query:
        query.awaitTermination()


def main(settings: dict[str, str]) -> None:
    """Run both."""
    kafka, topic, folder = settings["kafka"], settings["topic"], settings["folder"]
    spark = SparkSession.builder.remote(settings["remote"]).getOrCreate()
    towpath.spark.decode(read(spark, kafka, topic), **OPTIONS).write.format("delta").save(f"{folder}/batch")
    decoded = towpath.spark.decode(stream(spark, kafka, topic, limit=300), metrics="cdc", **OPTIONS)
    writer = decoded.writeStream.format("delta").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start(f"{folder}/stream")
    query.awaitTermination()
    for name, messages in {
        "replica": read(spark, kafka, topic),
        "replica_of_stream": stream(spark, kafka, topic),
    }.items():
        replicate(messages, f"{folder}/{name}")
    counts = [observed(batch["observedMetrics"]["cdc"]) for batch in query.recentProgress]
    print(json.dumps({"session": type(spark).__module__, "messages": [count["messages"] for count in counts]}))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
