"""The jobs of Spark that apply changes: settings of the session for them, and several at the same time."""

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
"""The kinds of a table's jobs: one task; several tasks that rewrite files, or that mark rows in them as deleted.

The last one marks rows, too, of a target that may be small or large.
"""

KINDS = (SMALL, REWRITING, MARKING, UNKNOWN_SIZE)

_SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"

# What is merged has been computed already, and is the same each time it is read.
_MERGE = {"spark.databricks.delta.merge.materializeSource": "none"}
_REWRITE = {**_MERGE, "spark.databricks.delta.merge.deletionVectors.persistent": "false"}
_BLOOM_FILTER = "spark.sql.optimizer.runtime.bloomFilter"
# A MERGE reads and shuffles all rows of the files that it changes. Most rows have no change, so a Bloom filter of the
# changed keys takes them out of the scan. Spark makes one only for a join that has a shuffle, and sizes that it knows.
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
    # Compiling the code of a small job takes longer than to interpret its plan.
    SMALL: {
        **_REWRITE,
        **_INTERPRET,
        "spark.sql.shuffle.partitions": "1",
        # A broadcast takes a page of Spark's memory, 8 to 64 MB, until the JVM collects garbage.
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
"""For a job that returns a row for each table: to plan it again between its stages takes longer than they do."""

_ENOUGH_CLASSES = 500

_SMALL_FILE = "spark.databricks.delta.optimize.minFileSize"


_OF_BATCH = {
    # Delta reads the list of a table's files after each commit, by default in 50 tasks, which suits a million files.
    # With many tables these tasks are most of the tasks of a batch.
    _SNAPSHOT_PARTITIONS: "4",
    # To read the three times of an order value takes an eighth as long as with INT96, Spark's default. delta-rs and
    # Iceberg write them so, too.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # OPTIMIZE merges smaller files. Delta's default, 1 GiB, would make a batch write all of a large table.
    _SMALL_FILE: str(16 << 20),
}


def batch_settings(spark: SparkSession) -> Mapping[str, str]:
    """The settings for a whole batch. What the user has set stays."""
    return {name: value for name, value in _OF_BATCH.items() if not spark.conf.get(name, None)}


def settings_for(spark: SparkSession, kind: str) -> Mapping[str, str]:
    """The settings for a kind of jobs.

    A batch of a large table needs more than 100 generated classes. Spark keeps 100 by default, so it would compile all
    of them again in each batch. Unless the target is large, that takes longer than to interpret the expressions outside
    of the loops over rows, which leaves some 20 classes. A session may keep enough of them.
    """
    kept = int(spark.conf.get("spark.sql.codegen.cache.maxEntries", None) or 100)
    is_compiled = kind == MARKING or kept >= _ENOUGH_CLASSES
    return _SETTINGS[kind] if is_compiled else {**_SETTINGS[kind], **_INTERPRET}


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session, which have their former values again at the end of the block."""
    former = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, before in former.items():
            spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def in_parallel(spark: SparkSession, function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Call a function with each item, with so many of them at the same time.

    Raises:
        Exception: What the first call raised that failed, after all have ended.
    """
    if len(items) <= 1 or threads <= 1:
        return list(map(function, items))
    with ThreadPoolExecutor(threads, "towpath") as pool:
        return list(pool.map(_inheriting(spark, function), items))


def _inheriting(spark: SparkSession, function: Any) -> Any:
    """The function for another thread, with Spark's settings of this one, such as the job group of the query."""
    from pyspark.util import inheritable_thread_target

    try:
        return inheritable_thread_target(spark)(function)
    except TypeError:  # Spark 3.5 has no argument for the session
        return inheritable_thread_target(function)
