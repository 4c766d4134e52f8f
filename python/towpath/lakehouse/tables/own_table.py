"""Tables of a query that get a few rows per batch. delta-rs merges them where tasks merge targets with it.

Spark's MERGE or INSERT of a few rows takes as long as the rest of a small batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.lakehouse.merging.delta_rs import LIMITS, Size, are_same, begun_merge, maintain, quoted, retried
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.reading.batch_messages import frame_of
from towpath.lakehouse.tables.driver_tables import DriverTable
from towpath.lakehouse.tables.sql import TRUE, Sql, table
from towpath.lakehouse.tables.tables import TableSettings, append_once, create_or_evolve, schema_of
from towpath.spark.requirements import has_arrow
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_OWN = TableSettings(optimize_every=10)


class OwnTable:
    """Table of a query that delta-rs writes if it may."""

    def __init__(
        self, target: str, in_tasks: TaskMerges, settings: TableSettings = _OWN, limits: Size = LIMITS
    ) -> None:
        """Start without information about the table. delta-rs does not write a table above the limits."""
        self.target, self._in_tasks, self._settings, self._limits = target, in_tasks, settings, limits
        self._is_prepared = False

    def may_merge(self, spark: SparkSession) -> bool:
        """Return whether delta-rs may write the table, as far as known."""
        return self._in_tasks.may_in_driver(spark, self.target, exists=self._is_prepared)

    def merge(
        self,
        spark: SparkSession,
        rows: pa.Table,
        schema: StructType,
        same: str,
        updates: Mapping[str, str],
        *,
        adds: bool = True,
    ) -> bool:
        """Merge rows with delta-rs, if possible. Return whether they were merged.

        Args:
            spark: The session.
            rows: Rows `s`.
            schema: Columns that the table gets.
            same: Condition in delta-rs' SQL that a stored row `t` and a new row are the same.
            updates: New values of a stored row by column. If empty, stored rows stay unchanged.
            adds: Whether the other rows are added.
        """
        if not self.may_merge(spark):
            return False

        def merged() -> bool:
            self._is_prepared = self._is_prepared or self._prepare(spark, schema)
            if self._is_prepared:
                retried(lambda: self._merge(spark, rows, same, updates, adds=adds))
            return self._is_prepared

        self._is_prepared = self._in_tasks.merged_in_driver(self.target, merged) or False
        return self._is_prepared

    def rows(self, spark: SparkSession, names: Sequence[str]) -> list[dict[str, Any]]:
        """Read these columns of all rows of a small table. Return no rows if the table does not exist."""
        found = DriverTable(spark, self.target, self._in_tasks).rows(names)
        if found is None and schema_of(spark, self.target) is not None:
            found = [row.asDict() for row in spark.read.table(table(self.target)).select(*names).collect()]
        return found or []

    def _prepare(self, spark: SparkSession, schema: StructType) -> bool:
        """Create the table or alter it to fit. Return whether delta-rs may write it."""
        create_or_evolve(spark, self.target, schema, settings=self._settings, in_tasks=self._in_tasks)
        return self._in_tasks.may_in_driver(spark, self.target)

    def _merge(self, spark: SparkSession, rows: pa.Table, same: str, updates: Mapping[str, str], *, adds: bool) -> None:
        target = self._in_tasks.open(spark, self.target, self._limits)
        since, merge = target.version(), begun_merge(target, rows, same)
        if updates:
            merge = merge.when_matched_update({quoted(name): value for name, value in updates.items()})
        if adds:
            merge = merge.when_not_matched_insert({quoted(name): f"s.{quoted(name)}" for name in rows.column_names})
        merge.execute()
        maintain(target, since, self._settings.optimize_every)


class LogTable(OwnTable):
    """Table to which only new rows are appended."""

    def __init__(self, target: str, identity: Sequence[str], in_tasks: TaskMerges) -> None:
        """Start without information about the table. `identity` are the columns that identify a row."""
        super().__init__(target, in_tasks)
        self._identity = tuple(identity)

    def append(
        self, spark: SparkSession, rows: DataFrame | pa.Table, condition: Sql = TRUE, *, are_few: bool = True
    ) -> None:
        """Append rows as `append_once` does. If they are few, delta-rs appends them."""
        if are_few and (isinstance(rows, pa.Table) or has_arrow(type(rows))) and self.may_merge(spark):
            found = self._without_twins(rows if isinstance(rows, pa.Table) else rows.toArrow())
            same = f"{are_same(map(quoted, self._identity))} AND {condition}"
            if self.merge(spark, found, struct_type(found.schema), same, {}):
                return
        frame = frame_of(spark, rows, struct_type(rows.schema)) if isinstance(rows, pa.Table) else rows
        append_once(frame, self.target, self._identity, condition)

    def _without_twins(self, rows: pa.Table) -> pa.Table:
        """Return the first of the rows with an identity. Convert times to UTC, as delta-rs requires."""
        places: dict[tuple[object, ...], int] = {}
        for at, row in enumerate(rows.select(self._identity).to_pylist()):
            places.setdefault(tuple(row.values()), at)
        found = rows.take(pa.array(places.values(), pa.int64()))
        return found.cast(pa.schema([_in_utc(field) for field in found.schema]))


def _in_utc(field: pa.Field) -> pa.Field:
    return field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field
