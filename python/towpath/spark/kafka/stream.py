"""Streams of topics. Spark keeps the offsets in the query's checkpoint, so nothing is committed to Kafka.

A reader on the driver lives as long as a run of its query, and plans each micro-batch. The tasks are the same as in
batch.
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
    """Return the stream reader for the installed pyspark.

    Raises:
        ValueError: An option is only for batches.
    """
    if settings.ending is not None:
        raise ValueError(
            "options endingOffsets, endingOffsetsByTimestamp and endingTimestamp are for a batch, not a stream"
        )
    return (AdmittingStreamReader or KafkaStreamReader)(settings)


class KafkaStreamReader(DataSourceStreamReader):
    """Stream reader for pyspark 4.0 and 4.1, which ask for a micro-batch's end without giving its start.

    So the reader remembers the end of the last one. After a restart Spark first plans from this offset, or to it.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._last: Offsets | None = None

    @cached_property
    def _cluster(self) -> Cluster:
        """Connection, made on first use: Spark sends the reader itself to the workers."""
        return Cluster(self._settings)

    @cached_property
    def _initial(self) -> Offsets:
        boundary = self._settings.starting or Boundary(LATEST)
        return resolved(self._cluster, boundary, "starting", self._cluster.partitions())

    def initialOffset(self) -> Json:  # noqa: N802
        """Return the start of a query without a checkpoint."""
        return to_json(self._initial)

    def latestOffset(self) -> Json:  # noqa: N802
        """Return the end of the next micro-batch: at most `maxOffsetsPerTrigger` after the last one."""
        if self._last is None:
            self._last = self._first_end()
        else:
            self._last = self._next(self._last, self._newest(self._last))
        return to_json(self._last)

    def _first_end(self) -> Offsets:
        """Return the end of the first micro-batch. It is empty if the query starts at the latest offsets.

        Spark stores a micro-batch's end. But if the query dies in the first micro-batch, Spark asks again for its
        start, and later offsets would be the latest by then. So the start must be in the checkpoint before any message
        is read.
        """
        return self._initial if self._from_latest else self._next(self._initial, self._newest(self._initial))

    @property
    def _from_latest(self) -> bool:
        boundary = self._settings.starting or Boundary(LATEST)
        return not boundary.by_time and LATEST in boundary.values()

    def _newest(self, last: Offsets) -> Offsets:
        """Return the latest offsets of all current partitions.

        Raises:
            ValueError: Partitions are gone, or end before `last`, and `failOnDataLoss` is true.
        """
        newest = self._cluster.latest(self._cluster.partitions())
        for partition, offset in sorted(last.items()):
            if partition not in newest:
                self._lost(partition, f"{partition} no longer exists")
            elif newest[partition] < offset:
                self._lost(partition, f"{partition} ends at {newest[partition]}, before offset {offset}")
        return newest

    def _lost(self, partition: TopicPartition, what: str) -> None:
        text = f"{what}: messages were deleted, or the topic was recreated"
        if self._settings.fail_on_data_loss:
            raise ValueError(f"{text}; set failOnDataLoss=false to continue without them")
        _log.warning("%s", text)

    def _next(self, start: Offsets, newest: Offsets) -> Offsets:
        return limited(self._with_new(start, newest), newest, self._settings.max_offsets)

    def _with_new(self, start: Offsets, end: Offsets) -> Offsets:
        """Add partitions that only the end has to the start. New partitions begin with their first message."""
        new = [partition for partition in end if partition not in start]
        begin = self._cluster.earliest(new) if new else {}
        for partition, offset in begin.items():
            if offset > 0:
                lost = Range(partition, 0, offset)
                report_loss(lost, f"the partition is new, and begins at {offset}", self._settings.fail_on_data_loss)
        return {**start, **begin}

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Return the tasks of a micro-batch: exactly its offsets, at every run.

        An end before the start means no messages: a recreated topic, or a first micro-batch that is rerun.
        """
        until = from_json(end)
        self._last = until
        if start == end:
            return []
        return planned(self._settings, self._cluster, self._with_new(from_json(start), until), until)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        assert isinstance(partition, KafkaPartition)
        return rows(self._settings, partition.range)

    def commit(self, end: Json) -> None:
        """Do nothing: the offsets are in the checkpoint."""


AdmittingStreamReader: type[KafkaStreamReader] | None = None
"""Reader for pyspark 4.2 and later."""

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
        """Stream reader for pyspark 4.2 and later, where Spark gives the start of a micro-batch."""

        _target: Offsets | None = None
        _newest_seen: Offsets | None = None

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            """Return `maxOffsetsPerTrigger`, the usual limit of a stream."""
            most = self._settings.max_offsets
            return ReadAllAvailable() if most is None else ReadMaxRows(most)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            """Fix the query's end at the current end of the topics."""
            self._target = self._cluster.latest(self._cluster.partitions())

        def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # type: ignore[override] # noqa: N802
            """Return the end of the micro-batch that begins at `start`."""
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
            """Return the end of the topics, for the query's progress."""
            return None if self._newest_seen is None else to_json(self._newest_seen)

    AdmittingStreamReader = _AdmittingStreamReader
