"""Spark jobs that apply changes: session settings for them, and parallel execution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

SMALL, REWRITING, MARKING, UNKNOWN_SIZE = "small", "rewriting", "marking", "unknown size"
"""Kinds of a table's jobs: one task; several tasks that rewrite files; several that mark rows in files as deleted.

The last kind also marks rows, in a target of unknown size.
"""

KINDS = (SMALL, REWRITING, MARKING, UNKNOWN_SIZE)

_SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"

# The merged rows are computed already and stay the same on each read.
_MERGE = {"spark.databricks.delta.merge.materializeSource": "none"}
_REWRITE = {**_MERGE, "spark.databricks.delta.merge.deletionVectors.persistent": "false"}
_BLOOM_FILTER = "spark.sql.optimizer.runtime.bloomFilter"
# A MERGE reads and shuffles all rows of the files that it changes. Most rows have no change, so a Bloom filter of the
# changed keys removes them from the scan. Spark builds it only for a join with a shuffle and known sizes.
_MARK = {
    **_MERGE,
    f"{_BLOOM_FILTER}.enabled": "true",
    f"{_BLOOM_FILTER}.applicationSideScanSizeThreshold": "0",
    f"{_BLOOM_FILTER}.creationSideThreshold": "1t",
    "spark.sql.defaultSizeInBytes": "1g",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
_INTERPRET = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_SETTINGS = {
    # Compiling the code of a small job takes longer than interpreting its plan.
    SMALL: {
        **_REWRITE,
        **_INTERPRET,
        "spark.sql.shuffle.partitions": "1",
        # A broadcast holds a page of Spark's memory, 8 to 64 MB, until the JVM collects garbage.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        _SNAPSHOT_PARTITIONS: "1",
    },
    REWRITING: _REWRITE,
    MARKING: _MARK,
    UNKNOWN_SIZE: _MERGE,
}

FEW_ROWS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "4"}
"""Settings of a job with one row per table: adaptive planning between stages takes longer than the stages."""

_ENOUGH_CLASSES = 500

_SMALL_FILE = "spark.databricks.delta.optimize.minFileSize"


_OF_BATCH = {
    # Delta reads a table's file list after each commit, by default in 50 tasks, which suits a million files. With many
    # tables these would be most tasks of a batch.
    _SNAPSHOT_PARTITIONS: "4",
    # Reading the three times of an order value takes an eighth of the time of INT96, Spark's default. delta-rs and
    # Iceberg also write this format.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # OPTIMIZE merges files below this size. Delta's default, 1 GiB, would make a batch rewrite a whole large table.
    _SMALL_FILE: str(16 << 20),
}


def batch_settings(spark: SparkSession) -> Mapping[str, str]:
    """Return the settings for a whole batch, without settings that the user has changed."""
    return {name: value for name, value in _OF_BATCH.items() if not spark.conf.get(name, None)}


def settings_for(spark: SparkSession, kind: str) -> Mapping[str, str]:
    """Return the settings for a kind of jobs.

    A batch of a large table needs more than 100 generated classes. Spark caches 100 by default, so it would compile all
    classes again in each batch. Unless the target is large, compiling takes longer than interpreting the expressions
    outside of the row loops. Interpreting leaves about 20 classes. A session with a larger cache keeps the generated
    code.
    """
    kept = int(spark.conf.get("spark.sql.codegen.cache.maxEntries", None) or 100)
    is_compiled = kind == MARKING or kept >= _ENOUGH_CLASSES
    return _SETTINGS[kind] if is_compiled else {**_SETTINGS[kind], **_INTERPRET}


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set properties of the session until the end of the block, then restore the former values."""
    former = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, before in former.items():
            spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def in_parallel(spark: SparkSession, function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Call a function with each item in up to `threads` threads.

    Raises:
        Exception: The error of the first failed call, raised after all calls have ended.
    """
    if len(items) <= 1 or threads <= 1:
        return list(map(function, items))
    with ThreadPoolExecutor(threads, "towpath") as pool:
        return list(pool.map(_inheriting(spark, function), items))


def _inheriting(spark: SparkSession, function: Any) -> Any:
    """Bind a function to Spark's settings of this thread, such as the job group, for use in another thread."""
    from pyspark.util import inheritable_thread_target

    try:
        return inheritable_thread_target(spark)(function)
    except TypeError:  # Spark 3.5 does not accept the session
        return inheritable_thread_target(function)
