"""A driver that is going to be killed: replicates topics up to their end, in its own process.

python tests/support/replication_driver.py job.json

The job has the arguments of `towpath.spark.replicate`, where the broker is, which topics to read, and how much at once.
"""

import json
import sys
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

import towpath
from driver_progress import print_batches, stop_at_the_end
from lake_session import lake_session
from towpath.lakehouse.reading import blocks


def replicated(spark: SparkSession, job: dict[str, Any]) -> StreamingQuery:
    """Start the query of a job."""
    source = spark.readStream.format(job["format"]).options(**job["source"]).load()
    schemas = {name: StructType.fromJson(schema) for name, schema in job["schemas"].items()}
    # On Spark 4.0 a source in Python has one micro-batch with availableNow.
    trigger = {"availableNow": True} if job["format"] == "kafka" else {"processingTime": "0 seconds"}
    return towpath.spark.replicate(source, schemas=schemas, trigger=trigger, **job["replicate"])


def main() -> None:
    """Run the job, and print the number of each finished batch."""
    blocks._WORTH_KNOWING = 1  # the batches of tests are small
    job = json.loads(Path(sys.argv[1]).read_text())
    spark = lake_session(Path(job["warehouse"]), job["settings"])
    query = replicated(spark, job)
    if job["format"] != "kafka":
        Thread(target=stop_at_the_end, args=[query]).start()
    print_batches(query)
    spark.stop()


if __name__ == "__main__":
    main()
