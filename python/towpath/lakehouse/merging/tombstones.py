"""The table of tombstones next to a target: its deleted keys, with the order values of their deletes."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.lakehouse.merging.rows import key_names
from towpath.lakehouse.order.order import key_columns
from towpath.lakehouse.order.order_arrays import ORDER
from towpath.lakehouse.reading.changes import COLUMNS
from towpath.lakehouse.seen.aside import timestamp
from towpath.lakehouse.tables.known_table import KnownTable
from towpath.lakehouse.tables.sql import column, execute, sql, string, table
from towpath.lakehouse.tables.tables import TableSettings, append, create_with
from towpath.lakehouse.tables.targets import companion
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from towpath.lakehouse.merging.tasks import TaskMerges

_FORGET_EVERY = 3600.0
"""Minimum seconds between two deletions of old tombstones. A starting query begins with one."""

_OWN = pa.schema([("order", ORDER), ("truncated", pa.bool_()), ("recorded_at", pa.timestamp("us", "UTC"))])
"""Columns of a tombstone after the key columns."""

_NOW = "current_timestamp() AS recorded_at"


class Tombstones:
    """Tombstones of a target."""

    def __init__(self, target: str, in_tasks: TaskMerges | None = None) -> None:
        """Create tombstones of the target with this name or path. `in_tasks` says which tables delta-rs may write."""
        self.table = KnownTable(companion(target, "tombstones"), in_tasks)
        self._forgot_at: float | None = None

    def read(self, spark: SparkSession) -> DataFrame | None:
        """Return all tombstones; None if the table does not exist."""
        return spark.read.table(table(self.table.name)) if self.table.schema(spark) is not None else None

    def write(self, changes: DataFrame, keys: Sequence[str]) -> None:
        """Append the tombstones of deletes and truncates. A truncate has a null key and applies to all keys."""
        spark, template = changes.sparkSession, "IF(op = 'truncate', NULL, {key}) AS {name}"
        pairs = zip(key_columns(keys), key_names(keys), strict=True)
        values = (sql(template, key=key, name=column(name)) for key, name in pairs)
        rows = changes.selectExpr(*values, "`order`", "op = 'truncate' AS truncated", _NOW)
        if self.table.schema(spark) is None and create_with(spark, self.table.name, rows, TableSettings()):
            self._forgot_at = time.monotonic()
            return
        self.prepare(spark, changes.select(f"{COLUMNS}.*").schema, keys)
        append(spark, self.table.name, rows)

    def prepare(self, spark: SparkSession, columns: StructType, keys: Sequence[str]) -> None:
        """Create the table, or alter it to fit the key's columns."""
        from pyspark.sql.types import StructField

        types = {one.name.lower(): one.dataType for one in columns}
        fields = [StructField(name, types[key.lower()]) for name, key in zip(key_names(keys), keys, strict=True)]
        self.table.make_fit(spark, [*fields, *struct_type(_OWN)])

    def forget(self, spark: SparkSession, age: str | None) -> None:
        """Delete the tombstones that are older than an interval, if due. None deletes nothing."""
        if self.table.schema(spark) is not None and (before := self.forget_before(spark, age)):
            delete = "DELETE FROM {table} WHERE recorded_at < {before}"
            execute(spark, sql(delete, table=table(self.table.name), before=timestamp(before)))

    def forget_before(self, spark: SparkSession, age: str | None) -> datetime | None:
        """Return the time before which tombstones are deleted now, if a deletion is due."""
        now = time.monotonic()
        if age is None or (self._forgot_at is not None and now - self._forgot_at <= _FORGET_EVERY):
            return None
        self._forgot_at = now
        time_now = datetime.now(timezone.utc)
        return time_now - _length(spark, age, time_now.date())


@lru_cache(maxsize=2)
def _length(spark: SparkSession, age: str, _day: date) -> timedelta:
    """Return the length of an interval that ends today. All targets share the result."""
    template = "SELECT unix_micros(now()) - unix_micros(now() - INTERVAL {age})"
    return timedelta(microseconds=execute(spark, sql(template, age=string(age))).collect()[0][0])
