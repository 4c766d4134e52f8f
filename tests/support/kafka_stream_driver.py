"""A driver that is going to be killed, or whose workers are: appends a topic to a Parquet table, in its own process.

python tests/support/kafka_stream_driver.py job.json

The job has the source's format and options, the table and its checkpoint. With the format `dying` workers are killed.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from driver_progress import print_batches, stop_at_the_end
from lake_session import QUICK
from local_session import local_session
from towpath.spark.kafka.options import KafkaSettings
from towpath.spark.kafka.reader import KafkaPartition
from towpath.spark.kafka.stream import KafkaStreamReader
from towpath.spark.source import TowpathDataSource


class DyingDataSource(TowpathDataSource):
    """The source, whose tasks of partition 1 each fail once. The option `marks` is a folder."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__({name: value for name, value in options.items() if name != "marks"})
        self._marks = options["marks"]

    @classmethod
    def name(cls) -> str:
        """The name for `spark.readStream.format`."""
        return "dying"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader of a stream."""
        return DyingReader(self._settings, self._marks)


class DyingReader(KafkaStreamReader):
    """It kills its worker in the middle of a task, and leaves a file for each time."""

    def __init__(self, settings: KafkaSettings, marks: str) -> None:
        super().__init__(settings)
        self._marks = marks

    def read(self, partition: KafkaPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, or the first of them."""
        batches = super().read(partition)
        yield next(batches)
        mark = Path(self._marks, str(partition.range.start))
        if partition.range.partition.number == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from batches


def main() -> None:
    """Run the job, and print the number of each finished batch."""
    job = json.loads(Path(sys.argv[1]).read_text())
    spark = local_session("towpath tests of faults", {**QUICK, "spark.master": "local[2,3]"})
    spark.dataSource.register(DyingDataSource)
    frame = spark.readStream.format(job["format"]).options(**job["source"]).load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", job["checkpoint"])
    query = writer.trigger(processingTime="0 seconds").start(job["table"])
    Thread(target=stop_at_the_end, args=[query]).start()
    print_batches(query)
    spark.stop()


if __name__ == "__main__":
    main()
