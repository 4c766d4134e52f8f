"""A driver that is going to be killed: replicates topics up to their end, in its own process.

python tests/support/replication_driver.py job.json

The job has the arguments of `towpath.spark.replicate`, where the broker is, which topics to read, and how much at once.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql.types import StructType

import towpath
from lake_session import lake_session


def main() -> None:
    """Run the job, and print the number of each finished batch."""
    job = json.loads(Path(sys.argv[1]).read_text())
    spark = lake_session(Path(job["warehouse"]), job["settings"])
    source = spark.readStream.format("kafka").options(**job["source"]).load()
    schemas = {name: StructType.fromJson(schema) for name, schema in job["schemas"].items()}
    query = towpath.spark.replicate(source, schemas=schemas, trigger={"availableNow": True}, **job["replicate"])
    said = -1
    while query.isActive:
        progress = query.lastProgress
        if progress and progress["batchId"] != said:
            said = progress["batchId"]
            print(f"batch {said} is done", flush=True)
        time.sleep(0.1)
    query.awaitTermination()
    print("finished", flush=True)
    spark.stop()


main()
