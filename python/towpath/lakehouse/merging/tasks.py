"""Selects tables that a task merges, and runs the job. Spark's MERGE merges all others."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit

from towpath.lakehouse.arguments import one_of
from towpath.lakehouse.merging.delta_rs import LIMITS, Size, attempted, opened
from towpath.lakehouse.merging.jobs import session_settings
from towpath.lakehouse.merging.owned_table import PART, RESULT, OwnedTable, TableTasks
from towpath.lakehouse.reading.blocks import BLOCKS_IN_BATCH, BlockReader
from towpath.lakehouse.reading.changes import READ
from towpath.lakehouse.reading.events import BLOCK, CHANGE
from towpath.lakehouse.reading.source_tables import SourceTable
from towpath.lakehouse.tables.formats import DELTA, delta_detail, format_of
from towpath.lakehouse.tables.sessions import hadoop_path, jvm_of
from towpath.lakehouse.tables.targets import is_path
from towpath.printable import SHOWN, printable
from towpath.spark.requirements import map_in_arrow
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_log = logging.getLogger("towpath.spark")

_T = TypeVar("_T")

AUTO, SPARK, TASK = "auto", "spark", "task"
"""Values of the argument `merge`."""

_SHARED = ("hdfs", "abfs", "abfss", "gs")
"""Schemes of stores in which commits of Spark and delta-rs cannot replace each other.

Both create a version's file only if it does not exist. On HDFS this is a rename without overwriting.
"""

_OWN = ("s3", "s3a")
"""Schemes of stores in which Delta's Spark writer checks for a version's file, and then writes it.

delta-rs creates the file atomically, so a task's commit never replaces another one. But another driver's commit may
replace a task's commit.
"""

_TABLES_PER_CORE = 4

_ROWS_IN_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


def why_not_there(location: str, merge: str, *, has_storage: bool) -> str | None:
    """Return why tasks cannot write tables in a local folder or at a URI; None if they can.

    `has_storage` says whether `storage_options` are given, so that workers can open a store.
    """
    if location.startswith("/"):
        has_escape = re.search("%[0-9A-Fa-f]{2}", location)
        return "delta-rs decodes % escapes in folder names" if has_escape else None
    scheme = urlsplit(location).scheme
    if "%25" in location:  # delta-rs decodes the location twice and may find another folder
        return "delta-rs cannot read object stores with % in folder names"
    if scheme == "hdfs" and not (location.isascii() and "%" not in location):  # delta-rs never decodes it there
        return "delta-rs cannot read HDFS with spaces or other encoded characters in folder names"
    if scheme in _SHARED:
        return None if merge == TASK or has_storage else f"it is on {scheme}, and storage_options is not set"
    if scheme in _OWN:
        return None if merge == TASK else f"it is on {scheme}, and merge is not {TASK!r}"
    return f"tasks cannot write to {scheme or 'a place without a scheme'}"


@dataclass(frozen=True)
class TaskMerges:
    """State of merges in tasks across batches."""

    mode: str = field(default_factory=lambda: available(AUTO))
    refused: dict[str, str] = field(default_factory=dict)
    """Reasons why targets are left to Spark until the query restarts."""
    storage: Mapping[str, str] | None = field(default=None, repr=False)
    """Options of delta-rs to open a store."""
    locations: dict[str, str] = field(default_factory=dict)
    """Local folder or URI of each table, for delta-rs."""
    ids: dict[str, str | None] = field(default_factory=dict)
    """Id in the metadata of each table."""

    def may(self, spark: SparkSession, target: str, *, exists: bool = True) -> bool:
        """Return whether delta-rs may write a table. For a missing table the answer is provisional."""
        if self.mode == SPARK or target in self.refused:
            return False
        reason = None if format_of(spark, target) is DELTA else "it is an Iceberg table"
        # A named table has a location only after it exists. A Connect client cannot find it earlier.
        if reason is None and (exists or (is_path(target) and jvm_of(spark) is not None)):
            place, has_storage = self.location(spark, target), self.storage is not None
            reason = why_not_there(place, self.mode, has_storage=has_storage)
        if reason is not None:
            self.refuse(target, reason)
        return reason is None

    def may_in_driver(self, spark: SparkSession, target: str, *, exists: bool = True) -> bool:
        """Return whether the driver may write a table with delta-rs. A Connect client may be on another machine."""
        return jvm_of(spark) is not None and self.may(spark, target, exists=exists)

    def in_driver(self, spark: SparkSession, target: str, action: Callable[[], _T]) -> _T | None:
        """Return the result of an action of delta-rs on the driver; None if Spark has to act instead."""
        if not self.may_in_driver(spark, target):
            return None
        found = attempted(action)
        if isinstance(found, BaseException):
            _log.info("%s: left to Spark: %s", target, printable(str(found), SHOWN))
            return None
        return found

    def merged_in_driver(self, target: str, merge: Callable[[], _T]) -> _T | None:
        """Return the result of a merge by delta-rs on the driver; None if Spark has to merge."""
        found = attempted(merge)
        if isinstance(found, BaseException):
            self.refuse(target, str(found), is_lasting=getattr(found, "is_lasting", True))
            return None
        return found

    def open(self, spark: SparkSession, target: str, limits: Size = LIMITS) -> DeltaTable:
        """Open a table on the driver that delta-rs may write. Raise the errors of `opened`."""
        return opened(self.location(spark, target), self.storage, self.id(spark, target), limits)

    def refuse(self, target: str, reason: str, *, is_lasting: bool = True) -> None:
        """Leave a target to Spark, in this batch or in all batches."""
        self.ids.pop(target, None)  # the table may have been replaced
        if is_lasting:
            self.refused[target] = reason
        _log.info("%s: merged by Spark: %s", target, printable(reason))

    def location(self, spark: SparkSession, name: str) -> str:
        """Return the location of a Delta table for delta-rs. It must exist, except a path in a classic session."""
        if name not in self.locations:
            if is_path(name) and (found := hadoop_path(spark, name)):
                path, file_system = found
                place = file_system.makeQualified(path).toString()
            else:
                detail = delta_detail(spark, name)
                place, self.ids[name] = detail["location"], detail["id"]
            self.locations[name] = _location(place)
        return self.locations[name]

    def id(self, spark: SparkSession, name: str) -> str | None:
        """Return the id of an existing Delta table with a known location, as Spark reads it."""
        if name not in self.ids:
            self.ids[name] = _id(spark, name)
        return self.ids[name]


def available(merge: str) -> str:
    """Return the argument `merge`, or `SPARK` for `AUTO` without the package deltalake.

    Raises:
        ValueError: The argument has another value, or is `TASK` and the package is missing.
    """
    one_of("merge", merge, (AUTO, SPARK, TASK))
    if merge != SPARK and find_spec("deltalake") is None:
        if merge == TASK:
            raise ValueError('merge: "task" needs the package deltalake: pip install "towpath[delta]"')
        _log.info('deltalake is not installed (pip install "towpath[delta]"): Spark merges all tables')
        return SPARK
    return merge


def _location(place: str) -> str:
    """Return the local folder or URI of a Hadoop path, in whose text nothing is encoded.

    Java's `toASCIIString` would change the name, since it normalizes Unicode.
    """
    scheme, _, path = place.partition(":")
    return re.sub("^/+", "/", path) if scheme == "file" else f"{scheme}:{quote(path, safe=_UNESCAPED)}"


_UNESCAPED = "/:@!$&'()*+,;=~"


def _id(spark: SparkSession, target: str) -> str | None:
    """Return the id of a path in Delta's metadata, as Spark reads it; None if the session does not tell."""
    try:
        log = getattr(jvm_of(spark), "org.apache.spark.sql.delta.DeltaLog").forTable(spark._jsparkSession, target)
        return str(log.unsafeVolatileSnapshot().metadata().id())
    except Exception as error:  # some builds of Delta, such as on Databricks, lack these classes
        _log.info("%s: its table id is unknown: %s", target, printable(str(error)))
        return None


def merge_in_tasks(events: DataFrame, tables: Mapping[SourceTable, OwnedTable]) -> dict[SourceTable, Row]:
    """Merge the changes of tables in the events of a batch, each table in one task. Return each `RESULT`."""
    spark = events.sparkSession
    messages = events.filter(f"kind IN ('{CHANGE}', '{BLOCK}')")
    count = min(len(tables), _most_tasks(spark))
    # One task needs no shuffle: it reads the cached messages.
    parts = messages.repartition(count, *_owner(tables)) if count > 1 else messages.coalesce(1)
    merge = TableTasks(list(tables.values()))
    has_blocks = any(isinstance(reader, BlockReader) for one in tables.values() for reader in one.readers.values())
    with session_settings(spark, {_ROWS_IN_BATCH: str(BLOCKS_IN_BATCH)} if has_blocks else {}):
        rows = map_in_arrow(parts.select(*PART, *READ), merge, struct_type(RESULT)).collect()
    found = {row["number"]: row for row in rows}
    return {table: found[number] for number, table in enumerate(tables) if number in found}


def _owner(tables: Iterable[SourceTable]) -> list[Column]:
    """Return columns that are equal for all events of a table. A renamed table has events with several names."""
    from pyspark.sql import functions as f

    renamed = f.lit(None).cast("int")
    for number, one in enumerate(tables):
        if len({part.name_key for part in one.parts}) > 1:
            renamed = f.when(one.condition(), f.lit(number)).otherwise(renamed)
    return [renamed, *(f.when(renamed.isNull(), f.col(name)) for name in PART[:2])]


def _most_tasks(spark: SparkSession) -> int:
    context = getattr(spark, "sparkContext", None)
    if context is None:  # a Connect client does not know the number of cores
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return _TABLES_PER_CORE * int(context.defaultParallelism)
