"""Repeats what failed because another query wrote the same table at the same time, or a worker ended."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from typing import TypeVar

_log = logging.getLogger("towpath.spark")

_CONFLICT = re.compile(
    r"Concurrent(Append|DeleteRead|DeleteDelete|Transaction|Write|Modification)Exception|MetadataChangedException|"
    r"ProtocolChangedException|DELTA_CONCURRENT_|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|"
    r"iceberg\.exceptions\.(Validation|CommitFailed)Exception"
)
_ATTEMPTS = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0

T = TypeVar("T")


def with_retries(action: Callable[[], T], is_transient: Callable[[Exception], bool] | None = None) -> T:
    """Perform an action that may be repeated; after a conflict again, with growing pauses.

    Args:
        action: What is performed.
        is_transient: True for errors after which it is repeated. None: `is_conflict`.

    Raises:
        Exception: What the last of ten attempts raised, or any error that is not transient.
    """
    is_transient = is_transient or is_conflict
    for attempt in range(1, _ATTEMPTS):
        try:
            return action()
        except Exception as error:  # conflicts have no common class in Python
            if not is_transient(error):
                raise
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempt) * random.uniform(0.5, 1)
            _log.info("attempt %d follows in %.1f s: %s", attempt + 1, pause, _first_line(error))
            time.sleep(pause)
    return action()


def is_conflict(error: Exception) -> bool:
    """Whether another transaction changed the table meanwhile."""
    return _CONFLICT.search(str(error)) is not None


def is_lost(error: Exception) -> bool:
    """Whether a worker ended that held computed rows."""
    return "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in str(error)


def is_being_created(error: Exception) -> bool:
    """Whether another writer, such as that of another shard, had begun to create the table, but not committed it."""
    return "DELTA_TABLE_NOT_FOUND" in str(error)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
