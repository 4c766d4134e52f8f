"""Streams of topics. Spark keeps the offsets in the query's checkpoint, so nothing is committed to Kafka.

A reader in the driver lives as long as a run of its query, and plans each micro-batch. The tasks are those of a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from towpath.spark.kafka.client import Cluster
from towpath.spark.kafka.fetch import report_loss
from towpath.spark.kafka.offsets import LATEST, Boundary, Offsets, Range, TopicPartition, from_json, limited, to_json
from towpath.spark.kafka.options import KafkaSettings
from towpath.spark.kafka.reader import KafkaPartition, planned, resolved, rows

_log = logging.getLogger("towpath.spark")

Json = dict[str, dict[str, int]]


def stream_reader(settings: KafkaSettings) -> DataSourceStreamReader:
    """The reader for the version of pyspark.

    Raises:
        ValueError: An option is one of batches.
    """
    if settings.ending is not None:
        raise ValueError(
            "options endingOffsets, endingOffsetsByTimestamp and endingTimestamp are for a batch, not a stream"
        )
    return (AdmittingStreamReader or KafkaStreamReader)(settings)


class KafkaStreamReader(DataSourceStreamReader):
    """A stream on pyspark 4.0 and 4.1, which does not say where a micro-batch begins when it asks where it ends.

    So the reader remembers the end of the last one. After a restart Spark first plans from that offset, or to it.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._last: Offsets | None = None

    @cached_property
    def _cluster(self) -> Cluster:
        """Made where it is needed: the reader itself is sent to the workers."""
        return Cluster(self._settings)

    @cached_property
    def _initial(self) -> Offsets:
        boundary = self._settings.starting or Boundary(LATEST)
        return resolved(self._cluster, boundary, "starting", self._cluster.partitions())

    def initialOffset(self) -> Json:  # noqa: N802
        """Where a query without a checkpoint begins."""
        return to_json(self._initial)

    def latestOffset(self) -> Json:  # noqa: N802
        """The end of the next micro-batch: at most `maxOffsetsPerTrigger` after the last one."""
        if self._last is None:
            self._last = self._first_end()
        else:
            self._last = self._next(self._last, self._newest(self._last))
        return to_json(self._last)

    def _first_end(self) -> Offsets:
        """The end of the first micro-batch. One that begins at the latest offsets is empty.

        Spark stores where a micro-batch ends, but where the first one began it asks again if the query dies in it: by
        then there are later offsets. So they have to be in the checkpoint before anything is read.
        """
        return self._initial if self._from_latest else self._next(self._initial, self._newest(self._initial))

    @property
    def _from_latest(self) -> bool:
        boundary = self._settings.starting or Boundary(LATEST)
        return not boundary.by_time and LATEST in boundary.values()

    def _newest(self, last: Offsets) -> Offsets:
        """The latest offsets of all partitions that there are now.

        Raises:
            ValueError: Partitions are gone, or end before `last`, and `failOnDataLoss` is true.
        """
        newest = self._cluster.latest(self._cluster.partitions())
        for partition, offset in sorted(last.items()):
            if partition not in newest:
                self._lost(partition, f"{partition} is gone")
            elif newest[partition] < offset:
                self._lost(partition, f"{partition} ends at {newest[partition]}, before offset {offset}")
        return newest

    def _lost(self, partition: TopicPartition, what: str) -> None:
        text = f"{what}: messages were deleted, or the topic was created again"
        if self._settings.fail_on_data_loss:
            raise ValueError(f"{text}; failOnDataLoss=false goes on without them")
        _log.warning("%s", text)

    def _next(self, start: Offsets, newest: Offsets) -> Offsets:
        return limited(self._with_new(start, newest), newest, self._settings.max_offsets)

    def _with_new(self, start: Offsets, end: Offsets) -> Offsets:
        """The start with partitions that are only in the end: those that are new begin with their first message."""
        new = [partition for partition in end if partition not in start]
        begin = self._cluster.earliest(new) if new else {}
        for partition, offset in begin.items():
            if offset > 0:
                lost = Range(partition, 0, offset)
                report_loss(lost, f"the partition is new, and begins at {offset}", self._settings.fail_on_data_loss)
        return {**start, **begin}

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """The tasks of a micro-batch: exactly its offsets, whenever it is run.

        An end before the start has no messages: a topic that was created again, or a first micro-batch that is rerun.
        """
        until = from_json(end)
        self._last = until
        if start == end:
            return []
        return planned(self._settings, self._cluster, self._with_new(from_json(start), until), until)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        assert isinstance(partition, KafkaPartition)
        return rows(self._settings, partition.range)

    def commit(self, end: Json) -> None:
        """Nothing: the offsets are in the checkpoint."""


AdmittingStreamReader: type[KafkaStreamReader] | None = None
"""The reader of pyspark 4.2 and later."""

try:
    from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found]  # of pyspark 4.2 and later
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    pass
else:

    class _AdmittingStreamReader(KafkaStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
        """A stream on pyspark 4.2 and later, where Spark says where a micro-batch begins."""

        _target: Offsets | None = None
        _newest_seen: Offsets | None = None

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            """`maxOffsetsPerTrigger`, which is what most streams are limited by."""
            most = self._settings.max_offsets
            return ReadAllAvailable() if most is None else ReadMaxRows(most)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            """The query ends where the topics end now."""
            self._target = self._cluster.latest(self._cluster.partitions())

        def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # type: ignore[override] # noqa: N802
            """The end of the micro-batch that begins at `start`."""
            begin = from_json(start)
            newest = self._newest(begin)
            if self._target is not None:
                newest = {one: min(newest[one], offset) for one, offset in self._target.items() if one in newest}
            if self._newest_seen is None and self._from_latest and begin == self._initial:
                newest = begin
            self._newest_seen = newest
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return to_json(limited(self._with_new(begin, newest), newest, most))

        def reportLatestOffset(self) -> Json | None:  # noqa: N802
            """The end of the topics, for the query's progress."""
            return None if self._newest_seen is None else to_json(self._newest_seen)

    AdmittingStreamReader = _AdmittingStreamReader
