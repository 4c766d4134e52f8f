"""Reports the metrics of each micro-batch while a stream runs.

Spark's listeners receive the progress of every query, with the metrics of `decode(..., metrics=...)`. This module only
formats them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.spark.metrics import ERROR_KINDS, MISSING, TOTALS
from towpath.spark.requirements import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
        StreamingQueryProgress,
    )

_log = logging.getLogger("towpath.spark")


@dataclass(frozen=True)
class BatchCounts:
    """Metrics of one micro-batch."""

    query: str
    """Name of the query, or its id if it has no name."""
    metrics: str
    """Name that was passed to `decode`."""
    batch: int
    messages: int
    rows: int
    filtered: int
    dropped: int
    zero_dates: int
    """Number of cells that are null because of a zero date."""
    errors: dict[str, int]
    """Counts by kind, without kinds that did not occur."""
    missing_columns: dict[str, int]
    """Number of rows whose message lacks a column of the schema, by column. Columns that no row lacks are left out."""
    messages_per_second: float
    """Spark's `processedRowsPerSecond`: input rows of the whole query per second of the batch's duration."""

    def __str__(self) -> str:
        counts = ", ".join(f"{getattr(self, name)} {name.replace('_', ' ')}" for name in TOTALS)
        errors = ", ".join(f"{count} {kind}" for kind, count in self.errors.items()) or "none"
        missing = "".join(f", {count} rows without {name}" for name, count in self.missing_columns.items())
        speed = f"{self.messages_per_second:.0f} messages/s"
        return f"{self.query}: batch {self.batch}: {counts}, errors: {errors}{missing} ({speed})"


def progress_listener(report: Callable[[BatchCounts], object] | None = None) -> StreamingQueryListener:
    """Create a listener that reports each micro-batch's metrics: `spark.streams.addListener(progress_listener())`.

    It reports every streaming query whose `decode` got a name as `metrics`, on classic Spark and, since Spark 4, on
    Spark Connect.

    Args:
        report: Function that Spark's listener thread calls with the `BatchCounts` of each micro-batch. By default they
            are logged to "towpath.spark": as a warning if there are errors or dropped rows, otherwise as info.

    Returns:
        A `pyspark.sql.streaming.StreamingQueryListener`.
    """
    require_pyspark()
    from pyspark.sql.streaming.listener import StreamingQueryListener

    emit = report or _log_counts

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
            pass

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            for counts in batch_counts(event.progress):
                emit(counts)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            pass

    return Listener()


def batch_counts(progress: StreamingQueryProgress) -> list[BatchCounts]:
    """Return towpath's metrics in a query's progress. Other observations of the query are ignored."""
    observed = progress.observedMetrics.items()
    return [_counts(progress, name, row) for name, row in observed if {*TOTALS, "errors"} <= {*row.asDict()}]


def _counts(progress: StreamingQueryProgress, name: str, row: Row) -> BatchCounts:
    errors = {kind: row[f"errors_{kind}"] for kind in ERROR_KINDS}
    counts = row.asDict().items()
    missing = {name.removeprefix(MISSING): count for name, count in counts if name.startswith(MISSING) and count}
    return BatchCounts(
        query=progress.name or str(progress.id),
        metrics=name,
        batch=progress.batchId,
        **{total: row[total] for total in TOTALS},
        errors={kind: count for kind, count in errors.items() if count},
        missing_columns=missing,
        messages_per_second=progress.processedRowsPerSecond,
    )


def _log_counts(counts: BatchCounts) -> None:
    _log.log(logging.WARNING if counts.errors or counts.dropped else logging.INFO, "%s", counts)
