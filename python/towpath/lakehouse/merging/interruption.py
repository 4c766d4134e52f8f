"""Errors of a query that was stopped in the middle of a batch. They say nothing about its tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# As Java prints an exception; Spark Connect has its class in parentheses.
_INTERRUPTION = re.compile(
    r"\(?(java\.lang\.InterruptedException|java\.io\.InterruptedIOException"
    r"|java\.nio\.channels\.ClosedByInterruptException"
    r"|org\.apache\.spark\.SparkException\)?:? (\[SPARK_JOB_CANCELLED\] )?Job \d+ cancelled)"
)

# Spark's stream searches the text of an error for this, to know that it was stopped. In the text of a whole stack trace
# its regular expression overflows the stack.
_AS_SPARK_FINDS_IT = "py4j.protocol.Py4JJavaError: An error occurred while calling foreachBatch: "


def is_interruption(error: BaseException) -> bool:
    """Whether a call ended with this error because the query was stopped, or its job was cancelled."""
    return any(_INTERRUPTION.match(text) for text in _causes(error))


def interruptible(function: Callable[[DataFrame, int], Any]) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that ends with a short error if its query is stopped meanwhile."""

    def apply(batch: DataFrame, batch_id: int) -> None:
        try:
            function(batch, batch_id)
        except Exception as error:
            if not is_interruption(error):
                raise
            raise InterruptedError(_AS_SPARK_FINDS_IT + "java.lang.InterruptedException") from None

    return apply


def _causes(error: BaseException) -> Iterator[str]:
    """The exceptions of Java from the outermost to the innermost one; without Java the text of the error."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        yield str(error)
    while java is not None:
        yield java.toString()
        java = java.getCause()
