"""Errors that do not depend on a table: a concurrent commit, a lost worker, or a stopped query."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_log = logging.getLogger("towpath.spark")

_CONFLICT = re.compile(
    r"Concurrent(Append|DeleteRead|DeleteDelete|Transaction|Write|Modification)Exception|MetadataChangedException|"
    r"ProtocolChangedException|DELTA_CONCURRENT_|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|"
    r"iceberg\.exceptions\.(Validation|CommitFailed)Exception"
)
_ATTEMPTS = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0

# Java prints exceptions like this; Spark Connect prints the class in parentheses.
_INTERRUPTION = re.compile(
    r"\(?(java\.lang\.InterruptedException|java\.io\.InterruptedIOException"
    r"|java\.nio\.channels\.ClosedByInterruptException"
    r"|org\.apache\.spark\.SparkException\)?:? (\[SPARK_JOB_CANCELLED\] )?Job \d+ cancelled)"
)

T = TypeVar("T")


def is_conflict(error: Exception) -> bool:
    """Return whether another transaction changed the table meanwhile."""
    return _CONFLICT.search(str(error)) is not None


def with_retries(
    action: Callable[[], T], is_transient: Callable[[Exception], bool] = is_conflict, attempts: int = _ATTEMPTS
) -> T:
    """Perform an action, and repeat it after a transient error (by default a conflict) with growing pauses.

    Raises:
        Exception: The error of the last attempt, or any error that is not transient.
    """
    for attempt in range(1, attempts):
        try:
            return action()
        except Exception as error:  # conflicts have no common class in Python
            if not is_transient(error):
                raise
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempt) * random.uniform(0.5, 1)
            _log.info("attempt %d starts in %.1f s: %s", attempt + 1, pause, str(error).partition("\n")[0][:200])
            time.sleep(pause)
    return action()


def is_lost(error: Exception) -> bool:
    """Return whether a worker with computed rows was lost."""
    return "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in str(error)


def is_being_created(error: Exception) -> bool:
    """Return whether another writer, such as another shard, began to create the table but has not committed it."""
    return "DELTA_TABLE_NOT_FOUND" in str(error)


def may_pass(error: Exception) -> bool:
    """Return whether a retry may succeed: a job failed, but neither towpath nor Spark's analysis refused the input."""
    from pyspark.errors import AnalysisException

    return not (isinstance(error, ValueError | AnalysisException) or is_interruption(error))


def is_interruption(error: BaseException) -> bool:
    """Return whether the error means that the query was stopped, or its job cancelled."""
    return any(_INTERRUPTION.match(text) for text in _causes(error))


def _causes(error: BaseException) -> Iterator[str]:
    """Yield Java's exceptions from the outermost to the innermost one. Without Java yield the text of the error."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        yield str(error)
    while java is not None:
        yield java.toString()
        java = java.getCause()
