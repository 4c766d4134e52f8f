"""Reads topics in batch: the driver plans ranges of offsets, the workers fetch and decode them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from towpath._towpath import DecodeError
from towpath.decoder import Decoder
from towpath.spark.kafka.client import Cluster
from towpath.spark.kafka.columns import to_batch
from towpath.spark.kafka.fetch import fetcher, report_loss
from towpath.spark.kafka.offsets import EARLIEST, LATEST, Boundary, Offsets, Range, TopicPartition, split
from towpath.spark.kafka.options import KafkaSettings
from towpath.workers import begin_task


@dataclass
class KafkaPartition(InputPartition):
    """Input of one task."""

    range: Range


class KafkaReader(DataSourceReader):
    """Reader of a batch query."""

    def __init__(self, settings: KafkaSettings) -> None:
        """Check for options that only streams have.

        Raises:
            ValueError: An option, or its value, is only for streams.
        """
        if settings.max_offsets is not None:
            raise ValueError("option maxOffsetsPerTrigger is for streams; use endingOffsets to limit a batch")
        _refuse(settings.starting, LATEST, "startingOffsets", "the end of a partition")
        _refuse(settings.ending, EARLIEST, "endingOffsets", "the beginning of a partition")
        self._settings = settings

    def partitions(self) -> list[InputPartition]:
        """Return tasks from the start to the end. The offsets are fixed here, so a retried task reads the same."""
        begin_task()
        settings = self._settings
        cluster = Cluster(settings)
        found = cluster.partitions()
        start = resolved(cluster, settings.starting or Boundary(EARLIEST), "starting", found)
        end = resolved(cluster, settings.ending or Boundary(LATEST), "ending", found)
        return planned(settings, cluster, start, end)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition. Without partitions, Spark still starts one task with None."""
        return rows(self._settings, partition.range) if isinstance(partition, KafkaPartition) else iter(())


def _refuse(boundary: Boundary | None, word: int, option: str, what: str) -> None:
    if boundary is not None and not boundary.by_time and word in boundary.values():
        raise ValueError(f"option {option}: {what} is not allowed in a batch")


def resolved(cluster: Cluster, boundary: Boundary, side: str, partitions: list[TopicPartition]) -> Offsets:
    """Return the offsets of a boundary. It must name these partitions."""
    option = f"{side}OffsetsByTimestamp" if boundary.by_time else f"{side}Offsets"
    boundary.check(option, partitions)
    return cluster.resolve(boundary, option, partitions)


def planned(settings: KafkaSettings, cluster: Cluster, start: Offsets, end: Offsets) -> list[InputPartition]:
    """Return the tasks for all messages from `start` to `end`.

    Raises:
        ValueError: Messages are gone, and `failOnDataLoss` is true. Checking here is earlier than in each task.
    """
    ranges = [Range(partition, start[partition], stop) for partition, stop in sorted(end.items())]
    ranges = [one for one in ranges if one.start < one.end]
    first = cluster.earliest(one.partition for one in ranges)
    following = cluster.latest(one.partition for one in ranges)
    existing = []
    for one in ranges:
        begin, stop = max(one.start, first[one.partition]), min(one.end, following[one.partition])
        if (begin, stop) != (one.start, one.end):
            log = f"the partition has offsets {first[one.partition]} to {following[one.partition]}"
            report_loss(one, log, settings.fail_on_data_loss)
        if begin < stop:
            existing.append(Range(one.partition, begin, stop))
    return [KafkaPartition(part) for part in split(existing, settings.min_partitions)]


def rows(settings: KafkaSettings, wanted: Range) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range: decoded, or Spark's columns of its messages."""
    begin_task()
    with fetcher(settings) as source:
        lists = source.messages(wanted, settings.fail_on_data_loss)
        if settings.undecoded:
            for messages in lists:
                yield to_batch(messages, settings.arguments["keep"])
            return
        decoder = settings.decoder()
        names = ["value", "key", *settings.arguments["keep"], *_ordering(decoder)]
        for messages in lists:
            try:
                yield from decoder.decode_batches(to_batch(messages, names))
            except DecodeError as error:
                raise ValueError(f"{wanted.partition}: offset {messages[error.row].offset()}: {error}") from error


def _ordering(decoder: Decoder) -> list[str]:
    """Return the input column `offset` if `_sequence` orders by it. It need not be kept."""
    return ["offset"] if "_sequence" in decoder.schema.names else []
