"""Which tables are merged by a task that owns the table, and the job that does it. Spark's MERGE has all others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from towpath.lakehouse.arguments import one_of
from towpath.lakehouse.blocks import BLOCKS_IN_BATCH
from towpath.lakehouse.changes import MESSAGE
from towpath.lakehouse.events import BLOCK, CHANGE
from towpath.lakehouse.jobs import session_settings
from towpath.lakehouse.owned_table import RESULT, Limits, OwnedTable, TableTasks
from towpath.lakehouse.rows import DELETE, OLD, REJECTED, ROW, Applied
from towpath.lakehouse.sql import execute, sql, table
from towpath.lakehouse.targets import is_path
from towpath.spark.requirements import map_in_arrow
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("towpath.spark")

AUTO, SPARK = "auto", "spark"
"""What the argument `merge` may be."""

_MOST_ROWS, _MOST_BYTES = 1_000_000, 256 << 20
"""The largest changes of a table in a batch that a task holds."""

_TABLES_PER_CORE = 4

_ROWS_IN_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True)
class Facts:
    """What decides who merges the changes of a table."""

    is_delta: bool
    is_local: bool
    """Whether the target is in a local folder, where a commit of delta-rs cannot replace another one."""
    rows: int
    size: int
    """Bytes of the messages."""
    truncates: bool = False
    keeps_history: bool = False
    soft_deletes: bool = False
    masks: bool = False
    additions: bool = False
    """Whether columns were added with a value before there was a target."""
    watermarks: bool = False
    moved: bool = False
    """Whether another table has the rows of this one since a RENAME TABLE."""


def why_spark(facts: Facts) -> str | None:
    """Why Spark's MERGE has to write a target; None if a task may."""
    reasons = {
        "it is an Iceberg table": not facts.is_delta,
        "it is not in a local folder": not facts.is_local,
        "the batch has too many of its changes": facts.rows > _MOST_ROWS or facts.size > _MOST_BYTES,
        "there is a TRUNCATE": facts.truncates,
        "it has a history": facts.keeps_history,
        "deleted rows stay": facts.soft_deletes,
        "columns are masked": facts.masks,
        "columns were added with a value before it was created": facts.additions,
        "watermarks rule changes out": facts.watermarks,
        "the table was renamed": facts.moved,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


@dataclass(frozen=True)
class TaskMerges:
    """What is known of merges in tasks from batch to batch."""

    mode: str = field(default_factory=lambda: available(AUTO))
    limits: Limits = field(default_factory=Limits)
    refused: dict[str, str] = field(default_factory=dict)
    """Why each target is left to Spark until the query is started again."""
    folders: dict[str, str] = field(default_factory=dict)
    """The local folder of each table."""

    def may(self, spark: SparkSession, target: str) -> bool:
        """Whether a target may be merged by a task at all."""
        is_classic = getattr(spark, "_jvm", None) is not None
        return self.mode != SPARK and is_classic and target not in self.refused

    def refuse(self, target: str, reason: str, *, is_lasting: bool = True) -> None:
        """Leave a target to Spark, in this batch or in all."""
        if is_lasting:
            self.refused[target] = reason
        _log.info("%s: merged by Spark: %s", target, reason)

    def folder(self, spark: SparkSession, name: str) -> str | None:
        """The folder of a Delta table that exists; None if it is not in the local file system."""
        if name not in self.folders and (found := _local_folder(spark, name)):
            self.folders[name] = found
        return self.folders.get(name)

    def may_be_local(self, spark: SparkSession, target: str) -> bool:
        """Whether a Delta table is in a local folder. Where the table of a name is, is known when it exists."""
        return not is_path(target) or self.folder(spark, target) is not None


def available(merge: str) -> str:
    """The argument `merge`, or `SPARK` without the package deltalake.

    Raises:
        ValueError: The argument has another value.
    """
    one_of("merge", merge, (AUTO, SPARK))
    if merge == AUTO and find_spec("deltalake") is None:
        _log.info('deltalake is not installed (pip install "towpath[delta]"): Spark merges all tables')
        return SPARK
    return merge


def _local_folder(spark: SparkSession, target: str) -> str | None:
    if is_path(target):
        path = spark._jvm.org.apache.hadoop.fs.Path(target)  # type: ignore[union-attr]
        found = path.getFileSystem(spark._jsc.hadoopConfiguration())
        uri = found.makeQualified(path).toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None
    detail = execute(spark, sql("DESCRIBE DETAIL {table}", table=table(target))).first()
    location = urlsplit(detail["location"] if detail else "")
    return unquote(location.path) if location.scheme == "file" else None


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


def merge_in_tasks(
    events: DataFrame, tables: Mapping[tuple[str | None, str], OwnedTable]
) -> dict[tuple[str | None, str], TaskResult]:
    """Merge the changes of tables, each in one task.

    Args:
        events: The events of a batch.
        tables: The tables by database and name.
    """
    spark = events.sparkSession
    names = ["database", "table"]
    messages = events.filter(f"kind IN ('{CHANGE}', '{BLOCK}')").select(*names, *MESSAGE)
    count = min(len(tables), _TABLES_PER_CORE * spark.sparkContext.defaultParallelism)
    # One task needs no shuffle: it reads the cached messages.
    parts = messages.repartition(count, *names) if count > 1 else messages.coalesce(1)
    has_blocks = any(one.in_blocks for one in tables.values())
    with session_settings(spark, {_ROWS_IN_BATCH: str(BLOCKS_IN_BATCH)} if has_blocks else {}):
        results = map_in_arrow(parts, TableTasks(tables), struct_type(RESULT)).collect()
    return {(row["database"], row["table"]): _result(row.asDict()) for row in results}


def _result(row: Mapping[str, Any]) -> TaskResult:
    counts = {name: row[name] for name in (ROW, DELETE, OLD, REJECTED) if row[name]}
    event_time: datetime | None = row["event_time"]
    applied = Applied(counts, event_time, row["place"], row["unordered"] or 0, row["seconds"])
    rejected = row["rejected_changes"]
    changes = pa.ipc.open_stream(rejected).read_all() if rejected else None
    return TaskResult(
        applied, row["refused"], bool(row["is_lasting"]), changes, row["properties"] or {}, row["files"] or 0
    )
