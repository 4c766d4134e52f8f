"""Which tables are merged by a task that owns the table, and the job that does it. Spark's MERGE has all others."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from importlib.util import find_spec
from operator import and_, or_
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pyarrow as pa

from towpath.lakehouse.arguments import one_of
from towpath.lakehouse.merging.delta_rs import Limits
from towpath.lakehouse.merging.jobs import session_settings
from towpath.lakehouse.merging.owned_table import PART, RESULT, OwnedTable, Part, TableTasks
from towpath.lakehouse.merging.rows import DELETE, OLD, REJECTED, ROW, Applied
from towpath.lakehouse.reading.blocks import BLOCKS_IN_BATCH
from towpath.lakehouse.reading.changes import READ
from towpath.lakehouse.reading.events import BLOCK, CHANGE
from towpath.lakehouse.tables.formats import delta_detail
from towpath.lakehouse.tables.sessions import hadoop_path, jvm_of
from towpath.lakehouse.tables.targets import companion, is_path
from towpath.printable import printable
from towpath.spark.requirements import map_in_arrow
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_log = logging.getLogger("towpath.spark")

AUTO, SPARK, TASK = "auto", "spark", "task"
"""What the argument `merge` may be."""

_LOCAL = "file"
_SAFE = "/:@!$&'()*+,;=~"
"""Characters that need no escape in the path of a URI."""

_SHARED = ("hdfs", "abfs", "abfss", "gs")
"""The schemes of stores in which a commit of Spark and one of delta-rs cannot replace each other.

Both create the file of a version only if there is none. On HDFS that is a rename without overwriting.
"""

_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_PERCENT = "%25"
"""A percent sign in a URI. delta-rs decodes the paths of a store once too often: the folder may be another one."""

_HDFS = "hdfs"

_OWN = ("s3", "s3a")
"""Those in which Spark's Delta looks for the file of a version before it writes it, and delta-rs creates it atomically.

So a commit of a task replaces no other one. A commit of another driver may replace one of a task.
"""

_MOST_ROWS, _MOST_BYTES = 1_000_000, 256 << 20
"""The largest changes of a table in a batch that a task holds."""

_TABLES_PER_CORE = 4

_ROWS_IN_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True)
class Facts:
    """What decides who merges the changes of a table."""

    is_delta: bool
    rows: int
    size: int
    """Bytes of the messages."""
    keeps_history: bool = False
    soft_deletes: bool = False
    masks: bool = False
    lacked: bool = False
    """Whether changes waited, and newer ones may have been updates of some columns."""
    elsewhere: str | None = None
    """Why tasks do not write where the target is."""


def why_not_there(location: str, merge: str, *, has_storage: bool) -> str | None:
    """Why tasks do not write tables in a place; None if they do.

    Args:
        location: A local folder, or a URI.
        merge: `AUTO` or `TASK`.
        has_storage: Whether there are `storage_options`, so that the workers can open a store.
    """
    if location.startswith("/"):
        return "delta-rs decodes the escape in the name of its folder" if _ESCAPE.search(location) else None
    scheme = urlsplit(location).scheme
    if _PERCENT in location:
        return "delta-rs does not read stores with % in the name of a folder"
    if scheme == _HDFS and not (location.isascii() and "%" not in location):  # it is not decoded once there, but never
        return "delta-rs does not read HDFS with blanks or other encoded characters in the name of a folder"
    if scheme in _SHARED:
        return None if merge == TASK or has_storage else f"it is on {scheme}, and there are no storage_options"
    if scheme in _OWN:
        return None if merge == TASK else f"it is on {scheme}, and merge is not {TASK!r}"
    return f"tasks do not write to {scheme or 'a place without a scheme'}"


def why_spark(facts: Facts) -> str | None:
    """Why Spark's MERGE has to write a target; None if a task may."""
    reasons = {
        "it is an Iceberg table": not facts.is_delta,
        str(facts.elsewhere): facts.elsewhere is not None,
        "the batch has too many of its changes": facts.rows > _MOST_ROWS or facts.size > _MOST_BYTES,
        "it has a history": facts.keeps_history,
        "deleted rows stay": facts.soft_deletes,
        "columns are masked": facts.masks,
        "newer changes may lack columns": facts.lacked,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


@dataclass(frozen=True)
class TaskMerges:
    """What is known of merges in tasks from batch to batch."""

    mode: str = field(default_factory=lambda: available(AUTO))
    limits: Limits = field(default_factory=Limits)
    refused: dict[str, str] = field(default_factory=dict)
    """Why each target is left to Spark until the query is started again."""
    storage: Mapping[str, str] | None = field(default=None, repr=False)
    """What delta-rs needs to open a store."""
    locations: dict[str, str] = field(default_factory=dict)
    """Where each table is, for delta-rs: a local folder, or a URI."""
    ids: dict[str, str | None] = field(default_factory=dict)
    """The id in the metadata of each table."""

    def may(self, spark: SparkSession, target: str) -> bool:
        """Whether a target may be merged by a task at all."""
        return self.mode != SPARK and target not in self.refused

    def may_in_driver(self, spark: SparkSession, target: str) -> bool:
        """Whether the driver may write a table with delta-rs: a client of Connect may be on another machine."""
        return jvm_of(spark) is not None and self.may(spark, target)

    def refuse(self, target: str, reason: str, *, is_lasting: bool = True) -> None:
        """Leave a target to Spark, in this batch or in all."""
        self.ids.pop(target, None)  # it may have been replaced
        if is_lasting:
            self.refused[target] = reason
        _log.info("%s: merged by Spark: %s", target, printable(reason))

    def location(self, spark: SparkSession, name: str) -> str:
        """Where a Delta table is, for delta-rs. It has to exist, but for a path in a classic session."""
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
        """The id of a Delta table that exists, as Spark reads it, of which the location is known."""
        if name not in self.ids:
            self.ids[name] = _id(spark, name)
        return self.ids[name]

    def location_of(self, spark: SparkSession, name: str, suffix: str) -> str:
        """Where a table is that belongs to another one. That of a path need not exist."""
        if is_path(name):
            return companion(self.location(spark, name), suffix)
        return self.location(spark, companion(name, suffix))

    def why_elsewhere(self, spark: SparkSession, target: str) -> str | None:
        """Why tasks do not write where a Delta table is, of which the location is known."""
        return why_not_there(self.location(spark, target), self.mode, has_storage=self.storage is not None)


def available(merge: str) -> str:
    """The argument `merge`, or `SPARK` for `AUTO` without the package deltalake.

    Raises:
        ValueError: The argument has another value, or is `TASK` and there is no package.
    """
    one_of("merge", merge, (AUTO, SPARK, TASK))
    if merge != SPARK and find_spec("deltalake") is None:
        if merge == TASK:
            raise ValueError('merge: "task" needs the package deltalake: pip install "towpath[delta]"')
        _log.info('deltalake is not installed (pip install "towpath[delta]"): Spark merges all tables')
        return SPARK
    return merge


def _location(place: str) -> str:
    """A local folder, or a URI, from the text of a Hadoop path, in which nothing is encoded.

    Java's `toASCIIString` would make another name of it: it normalizes Unicode.
    """
    scheme, _, path = place.partition(":")
    return re.sub("^/+", "/", path) if scheme == _LOCAL else f"{scheme}:{quote(path, safe=_SAFE)}"


def _id(spark: SparkSession, target: str) -> str | None:
    """The id in Delta's metadata of a path, as Spark reads it; None if the session does not say."""
    try:
        log = getattr(jvm_of(spark), "org.apache.spark.sql.delta.DeltaLog").forTable(spark._jsparkSession, target)
        return str(log.unsafeVolatileSnapshot().metadata().id())
    except Exception as error:  # some builds of Delta, such as Databricks', lack these classes
        _log.info("%s: its id is not known: %s", target, printable(str(error)))
        return None


@dataclass(frozen=True)
class TaskResult:
    """What a task did."""

    applied: Applied
    refused: str | None
    is_lasting: bool
    rejected: pa.Table | None
    """Changes for dead letters."""
    properties: Mapping[str, str]
    """Those of the target."""
    files: int
    """How many files the target has."""


def merge_in_tasks(events: DataFrame, tables: Sequence[OwnedTable]) -> dict[int, TaskResult]:
    """Merge the changes of tables, each in one task.

    Args:
        events: The events of a batch.
        tables: The tables.

    Returns:
        The results by the index of the table.
    """
    spark = events.sparkSession
    messages = events.filter(f"kind IN ('{CHANGE}', '{BLOCK}')").select(*PART, *READ)
    count = min(len(tables), _most_tasks(spark))
    # One task needs no shuffle: it reads the cached messages.
    parts = messages.repartition(count, *_owner(tables)) if count > 1 else messages.coalesce(1)
    has_blocks = any(one.in_blocks for one in tables)
    with session_settings(spark, {_ROWS_IN_BATCH: str(BLOCKS_IN_BATCH)} if has_blocks else {}):
        results = map_in_arrow(parts, TableTasks(tables), struct_type(RESULT)).collect()
    return {row["number"]: _result(row.asDict()) for row in results}


def _owner(tables: Sequence[OwnedTable]) -> list[Column]:
    """The columns that are equal for all events of a table. One that was renamed has events of several names."""
    from pyspark.sql import functions as f

    renamed = f.lit(None).cast("int")
    for number, one in enumerate(tables):
        if len({part[:2] for part in one.readers}) > 1:
            renamed = f.when(reduce(or_, map(_is_of, one.readers)), f.lit(number)).otherwise(renamed)
    return [renamed, *(f.when(renamed.isNull(), f.col(name)) for name in PART[:2])]


def _is_of(part: Part) -> Column:
    """True for the events of a part."""
    from pyspark.sql import functions as f

    return reduce(and_, (f.col(name).eqNullSafe(f.lit(value)) for name, value in zip(PART, part, strict=True)))


def _most_tasks(spark: SparkSession) -> int:
    context = getattr(spark, "sparkContext", None)
    if context is None:  # A client of Connect does not know the cores.
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return _TABLES_PER_CORE * int(context.defaultParallelism)


def _result(row: Mapping[str, Any]) -> TaskResult:
    counts = {name: row[name] for name in (ROW, DELETE, OLD, REJECTED) if row[name]}
    event_time: datetime | None = row["event_time"]
    applied = Applied(counts, event_time, row["place"], seconds=row["seconds"])
    rejected = row["rejected_changes"]
    changes = pa.ipc.open_stream(rejected).read_all() if rejected else None
    return TaskResult(
        applied, row["refused"], bool(row["is_lasting"]), changes, row["properties"] or {}, row["files"] or 0
    )
