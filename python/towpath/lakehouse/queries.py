"""Starts the query of a stream, or applies one batch in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from towpath.lakehouse.merging.retries import is_interruption

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from towpath.lakehouse import arguments

# Spark's stream searches an error's text for this prefix to recognize that the query was stopped. On the text of a
# whole stack trace its regular expression overflows the stack.
_AS_SPARK_FINDS_IT = "py4j.protocol.Py4JJavaError: An error occurred while calling foreachBatch: "


def for_each_batch(frame: DataFrame, function: Any, query: arguments.Query | None) -> StreamingQuery | None:
    """Call a function with a batch DataFrame, or with each micro-batch of a stream."""
    if query is None:
        function(frame, 0)
        return None
    writer = frame.writeStream.foreachBatch(_interruptible(function)).options(**query.writer_options)
    writer = writer.option("checkpointLocation", query.checkpoint)
    if query.name:
        writer = writer.queryName(query.name)
    return (writer.trigger(**query.trigger) if query.trigger else writer).start()


def _interruptible(function: Callable[[DataFrame, int], Any]) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that raises a short error if its query is stopped meanwhile."""

    def apply(batch: DataFrame, batch_id: int) -> None:
        try:
            function(batch, batch_id)
        except Exception as error:
            if not is_interruption(error):
                raise
            raise InterruptedError(_AS_SPARK_FINDS_IT + "java.lang.InterruptedException") from None

    return apply
