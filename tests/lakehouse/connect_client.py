"""The client's program of test_connect_kafka.py: a classic session and a Connect session do not live in one process.

Its one argument is JSON. It reads a Kafka topic through a Connect server, as a stream and as a batch, and writes what
was decoded to Delta tables. Prints JSON: the session's class, and the stream's counts.
"""

import json
import sys

from pyspark.sql import Row, SparkSession

import towpath
from kafka_source import KEPT, read, stream

OPTIONS = {"key": "key", "keep": KEPT}


def observed(row: Row) -> dict[str, int]:
    """The Connect client of pyspark 4.0 gives the names and the values apart."""
    return dict(zip((field["name"] for field in row["schema"]["fields"]), row["values"], strict=True))


def main(settings: dict[str, str]) -> None:
    """Run both."""
    kafka, topic, folder = settings["kafka"], settings["topic"], settings["folder"]
    spark = SparkSession.builder.remote(settings["remote"]).getOrCreate()
    towpath.spark.decode(read(spark, kafka, topic), **OPTIONS).write.format("delta").save(f"{folder}/batch")
    decoded = towpath.spark.decode(stream(spark, kafka, topic, limit=300), metrics="cdc", **OPTIONS)
    writer = decoded.writeStream.format("delta").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start(f"{folder}/stream")
    query.awaitTermination()
    counts = [observed(batch["observedMetrics"]["cdc"]) for batch in query.recentProgress]
    print(json.dumps({"session": type(spark).__module__, "messages": [count["messages"] for count in counts]}))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
