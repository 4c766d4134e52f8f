"""What the micro-batches of a stream held, told while it runs.

Spark's listeners get every query's progress, and the counts of `decode(..., metrics=...)` are in it. This puts them
into words; it counts nothing itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.spark.counts import ERROR_KINDS

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

_TOTALS = ("messages", "rows", "filtered", "dropped")


@dataclass(frozen=True)
class BatchCounts:
    """What one micro-batch held."""

    query: str
    """The query's name, or its id where it has none."""
    metrics: str
    """The name that was given to `decode`."""
    batch: int
    messages: int
    rows: int
    filtered: int
    dropped: int
    errors: dict[str, int]
    """Counts by kind, without the kinds that did not occur."""
    messages_per_second: float
    """Spark's own `processedRowsPerSecond`: input rows of the whole query, by the time that the batch took."""

    def __str__(self) -> str:
        counts = ", ".join(f"{getattr(self, name)} {name}" for name in _TOTALS)
        errors = ", ".join(f"{count} {kind}" for kind, count in self.errors.items()) or "none"
        speed = f"{self.messages_per_second:.0f} messages/s"
        return f"{self.query}: batch {self.batch}: {counts}, errors: {errors} ({speed})"


def progress_listener(report: Callable[[BatchCounts], object] | None = None) -> StreamingQueryListener:
    """Make a listener that tells what each micro-batch held: `spark.streams.addListener(progress_listener())`.

    It tells of every streaming query whose `decode` was given a name as `metrics`, on classic Spark and, from Spark 4
    on, on Connect.

    Args:
        report: Called with the `BatchCounts` of each micro-batch, on Spark's own listener thread. Without it they go
            to the logger "towpath.spark": as a warning where there are errors or dropped rows, else as info.

    Returns:
        A `pyspark.sql.streaming.StreamingQueryListener`.
    """
    from pyspark.sql.streaming.listener import StreamingQueryListener

    tell = report or _log_counts

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
            pass

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            for counts in batch_counts(event.progress):
                tell(counts)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            pass

    return Listener()


def batch_counts(progress: StreamingQueryProgress) -> list[BatchCounts]:
    """The counts of towpath in a query's progress; other observations of the query are left alone."""
    observed = progress.observedMetrics.items()
    return [_counts(progress, name, row) for name, row in observed if {*_TOTALS, "errors"} <= {*row.asDict()}]


def _counts(progress: StreamingQueryProgress, name: str, row: Row) -> BatchCounts:
    errors = {kind: row[f"errors_{kind}"] for kind in ERROR_KINDS}
    return BatchCounts(
        query=progress.name or str(progress.id),
        metrics=name,
        batch=progress.batchId,
        **{total: row[total] for total in _TOTALS},
        errors={kind: count for kind, count in errors.items() if count},
        messages_per_second=progress.processedRowsPerSecond,
    )


def _log_counts(counts: BatchCounts) -> None:
    _log.log(logging.WARNING if counts.errors or counts.dropped else logging.INFO, "%s", counts)
