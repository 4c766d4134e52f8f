"""The query of a stream, or one batch in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from towpath.lakehouse.merging.interruption import interruptible

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from towpath.lakehouse import arguments


def for_each_batch(frame: DataFrame, function: Any, query: arguments.Query | None) -> StreamingQuery | None:
    """Call a function with a batch DataFrame, or with each micro-batch of a stream."""
    if query is None:
        function(frame, 0)
        return None
    writer = frame.writeStream.foreachBatch(interruptible(function)).options(**query.writer_options)
    writer = writer.option("checkpointLocation", query.checkpoint)
    if query.name:
        writer = writer.queryName(query.name)
    return (writer.trigger(**query.trigger) if query.trigger else writer).start()
