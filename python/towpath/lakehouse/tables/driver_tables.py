"""Reads, creates and extends Delta tables with delta-rs on the driver. Spark needs 0.2 s for each, mostly for planning.

delta-rs creates tables without column mapping. Spark enables it before the first RENAME COLUMN.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from towpath.lakehouse.merging.delta_rs import (
    RefusedError,
    Size,
    all_rows,
    is_mapped,
    next_version,
    open_if_exists,
    quoted,
    select,
    size_of,
)
from towpath.lakehouse.tables.sessions import may_exist
from towpath.lakehouse.tables.target_properties import OWN, read, written
from towpath.lakehouse.tables.targets import is_path
from towpath.spark.requirements import has_arrow

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from towpath.lakehouse.merging.tasks import TaskMerges

_T = TypeVar("_T")

_DEFAULTS = "spark.databricks.delta.properties.defaults."

_NAME = re.compile(r"\w+")
"""Column names that a Parquet file may have. Spark gives other columns physical names by column mapping."""


_FEW = Size(20_000, 4 << 20)
"""Largest table whose rows the driver gives to Spark."""


class DriverTable:
    """Table at a path. Methods return None or False if Spark has to do the work instead."""

    def __init__(self, spark: SparkSession, target: str, in_tasks: TaskMerges | None) -> None:
        """Create a table. `in_tasks` says which tables delta-rs may write; None means no tables."""
        self._spark, self._target, self._in_tasks = spark, target, in_tasks

    def read(self) -> tuple[StructType, Mapping[str, str]] | None:
        """Return the schema and the properties."""
        return self._tried(self._read)

    def rows(self, names: Sequence[str]) -> list[dict[str, Any]] | None:
        """Return these columns of all rows."""
        return self._tried(lambda in_tasks: self._rows(in_tasks, names))

    def size(self) -> int | None:
        """Return the size of the files in bytes. Spark estimates it with its own snapshot of the table."""
        found = self._tried(self._opened)
        return None if found is None else size_of(found).bytes

    def frame(self) -> DataFrame | None:
        """Return the rows of a table of few rows. Spark reads them only with a snapshot of the table."""
        from pyspark.sql import DataFrame

        return self._tried(self._frame) if has_arrow(DataFrame) else None

    def create(self, columns: StructType, properties: Mapping[str, str]) -> bool:
        """Create an empty table in an empty location. Return whether it was created."""
        names = {one.lower() for one in columns.names}
        if len(names) < len(columns) or not all(map(_NAME.fullmatch, names)) or not _are_own(properties):
            return False
        return self._tried(lambda in_tasks: self._create(in_tasks, columns, properties)) or False

    def add(self, columns: Sequence[StructField]) -> bool:
        """Add columns. Return whether they were added."""
        if not all(_NAME.fullmatch(one.name) for one in columns):
            return False
        return self._tried(lambda in_tasks: self._add(in_tasks, columns)) or False

    def _tried(self, action: Callable[[TaskMerges], _T]) -> _T | None:
        in_tasks = self._in_tasks
        if in_tasks is None or not is_path(self._target):
            return None
        return in_tasks.in_driver(self._spark, self._target, lambda: action(in_tasks))

    def _read(self, in_tasks: TaskMerges) -> tuple[StructType, Mapping[str, str]] | None:
        if (found := self._opened(in_tasks)) is None:
            return None
        return _schema(found), read(found.metadata().configuration)

    def _rows(self, in_tasks: TaskMerges, names: Sequence[str]) -> list[dict[str, Any]] | None:
        if (found := self._opened(in_tasks)) is None:
            return None
        parts = select(found, {quoted(name): quoted(name) for name in names})
        return [row for part in parts for row in part.to_pylist()]

    def _frame(self, in_tasks: TaskMerges) -> DataFrame | None:
        table = in_tasks.open(self._spark, self._target)
        if not size_of(table).is_within(_FEW):
            return None
        return self._spark.createDataFrame(all_rows(table), _schema(table))

    def _opened(self, in_tasks: TaskMerges) -> DeltaTable | None:
        found = open_if_exists(in_tasks.location(self._spark, self._target), in_tasks.storage)
        if found is not None:
            self._learn(in_tasks, found)
        return found

    def _create(self, in_tasks: TaskMerges, columns: StructType, properties: Mapping[str, str]) -> bool:
        from deltalake import DeltaTable, Schema

        # Leave it to Spark if the folder has files, or if the session has properties for all new tables.
        if may_exist(
            self._spark, self._target
        ) or _DEFAULTS in self._spark._jsparkSession.conf().getAll().keys().mkString(" "):
            return False
        created = DeltaTable.create(
            in_tasks.location(self._spark, self._target),
            Schema.from_json(_nullable(columns)),
            configuration=written(properties),
            storage_options=dict(in_tasks.storage or {}),
            commit_properties=next_version(),  # do not replace another writer's table
            raise_if_key_not_exists=False,  # accept properties that are not Delta's
        )
        self._learn(in_tasks, created)
        return True

    def _add(self, in_tasks: TaskMerges, columns: Sequence[StructField]) -> bool:
        from deltalake import Field

        table = in_tasks.open(self._spark, self._target)
        if is_mapped(table):
            raise RefusedError("delta-rs cannot add columns to tables with column mapping")
        table.alter.add_columns([Field.from_json(_nullable(one)) for one in columns], commit_properties=next_version())
        return True

    def _learn(self, in_tasks: TaskMerges, table: DeltaTable) -> None:
        """Learn the id of a table in a local folder, unless Spark looks for the table elsewhere."""
        if not may_exist(self._spark, f"{self._target}/_delta_log/{table.version():020}.json"):
            raise RefusedError("delta-rs and Spark opened different tables, or the last version's file was removed")
        if in_tasks.location(self._spark, self._target).startswith("/"):
            in_tasks.ids[self._target] = str(table.metadata().id)


def _are_own(properties: Mapping[str, str]) -> bool:
    """Return whether Delta gives no property a meaning that delta-rs may not know."""
    return all(name.startswith(OWN) or name == "delta.dataSkippingNumIndexedCols" for name in properties)


def _nullable(columns: StructType | StructField) -> str:
    """Serialize columns as JSON, each of them nullable. Later rows may have nulls."""
    flags = ("nullable", "containsNull", "valueContainsNull")
    found = json.loads(columns.json(), object_hook=lambda one: {**one, **{name: True for name in flags if name in one}})
    return json.dumps(found)


def _schema(table: DeltaTable) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json(), object_hook=_without_metadata))


def _without_metadata(value: dict[str, Any]) -> dict[str, Any]:
    """Return a schema field in Spark's form, without the ids and the physical names of column mapping."""
    return {**value, "metadata": {}} if "metadata" in value else value
