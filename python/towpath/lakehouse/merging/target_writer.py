"""Writes rows and deletes into a target by MERGE or by overwriting it. Creates the target, or alters it to fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.lakehouse.merging.jobs import REWRITING
from towpath.lakehouse.merging.overwrite import Overwrite, may_overwrite
from towpath.lakehouse.merging.rows import ROW, key_names, newest_deletes
from towpath.lakehouse.merging.staging import Staged
from towpath.lakehouse.order.order import ORDER_TYPE, Kinds, is_before, is_newer, is_ordered
from towpath.lakehouse.order.order_arrays import ORDER
from towpath.lakehouse.reading.changes import COLUMNS
from towpath.lakehouse.tables.driver_tables import DriverTable
from towpath.lakehouse.tables.known_table import KnownTable
from towpath.lakehouse.tables.sql import Sql, column, comma_separated, expressions, merge, sql, string, table
from towpath.lakehouse.tables.tables import (
    TableSettings,
    create_with,
    estimated_size,
    free_name,
    has_feed,
    order_column,
    rename_column,
    temporary_view,
)
from towpath.lakehouse.tables.target_rows import ALL_ROWS
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from towpath.lakehouse.merging.tasks import TaskMerges


class TargetWriter:
    """Writer of a target's rows."""

    def __init__(self, target: str, settings: TableSettings, in_tasks: TaskMerges | None = None) -> None:
        """Create a writer. `in_tasks` says which tables delta-rs may write."""
        self.settings = settings
        """Settings for creating and maintaining the target."""
        self._target, self._in_tasks = target, in_tasks
        self.table = KnownTable(target, in_tasks)
        self._size: int | None = None
        self._may_overwrite: bool | None = None

    def size(self, spark: SparkSession) -> int | None:
        """Return the size of the target's files in bytes; 0 if it does not exist, None if the session does not tell."""
        if self.table.schema(spark) is None:
            return 0
        if self._size is None:
            found = DriverTable(spark, self._target, self._in_tasks).size()
            self._size = estimated_size(spark.read.table(table(self._target))) if found is None else found
        return self._size

    def forget(self) -> None:
        """Read the schema and the properties again, since another writer may have changed the table."""
        self.table.forget()
        self._may_overwrite = None

    def forget_size(self) -> None:
        """Read the size again, since it grows with each batch."""
        self._size = None

    def keys(self, spark: SparkSession, keys: list[str]) -> DataFrame | None:
        """Return the keys of the rows with the columns `known`, their order values, and `is_deleted`."""
        schema = self.table.schema(spark)
        if schema is None:
            return None
        order, deleted = order_column(schema), self.settings.soft_deletes
        pairs = zip(keys, key_names(keys), strict=True)
        names = (sql("{key} AS {name}", key=column(key), name=column(name)) for key, name in pairs)
        value = column(order) if order else sql("CAST(NULL AS {type})", type=Sql(ORDER_TYPE))
        is_deleted = Sql("false")
        if deleted is not None and deleted in schema.names:
            is_deleted = sql("{deleted} IS NOT NULL", deleted=column(deleted))
        return spark.read.table(table(self._target)).selectExpr(
            *names,
            sql("{value} AS known", value=value),
            sql("{is_deleted} AS is_deleted", is_deleted=is_deleted),
        )

    def write(self, staged: Staged) -> bool:
        """Write rows and deletes. Return whether this made a commit."""
        changes, spark = staged.changes, staged.changes.sparkSession
        is_new = self.table.schema(spark) is None and staged.applied.counts.get(ROW, 0) > 0
        # A table's change data feed lacks the rows with which it is created.
        is_created = is_new and not has_feed(spark, self._target, self.settings.properties)
        if is_created and self._create(changes.filter("outcome = 'row'")):
            return True
        return self._merge(staged, self.prepare_for(changes))

    def _create(self, rows: DataFrame) -> bool:
        """Create the target with rows, which is much cheaper than a merge. Return whether it did not exist."""
        from pyspark.sql import functions as f

        order = free_name(rows.select(f"{COLUMNS}.*").columns)
        names = [self.settings.soft_deletes] if self.settings.soft_deletes else []
        deleted = [f.lit(None).cast("timestamp").alias(name) for name in names]
        written = rows.select(f"{COLUMNS}.*", *deleted, f.col("order").alias(order))
        self.table.forget()
        return create_with(rows.sparkSession, self._target, written, self.settings)

    def prepare_for(self, changes: DataFrame) -> str:
        """Prepare the target for the columns of changes, like `prepare`."""
        return self.prepare(changes.sparkSession, changes.select(f"{COLUMNS}.*").schema)

    def prepare(self, spark: SparkSession, columns: StructType) -> str:
        """Create the target, or alter it to fit the columns. Return the name of the column with the order values."""
        from pyspark.sql.types import StructField, TimestampType

        existing = self.table.schema(spark)
        names = [*columns.names, *(existing.names if existing else ())]
        order = (order_column(existing) if existing else None) or free_name(names)
        if existing is not None and order.lower() in (name.lower() for name in columns.names):
            order = rename_column(spark, self._target, order, free_name(names))
            self.table.forget()
        deleted = [StructField(name, TimestampType()) for name in [self.settings.soft_deletes] if name]
        own = struct_type(pa.schema([(order, ORDER)]))
        self.table.make_fit(spark, [*columns.fields, *deleted, *own], self.settings)
        return order

    def truncate(self, truncates: DataFrame, order: str, rows: Sql = ALL_ROWS) -> int:
        """Delete the rows that are older than truncates. Return the number of remaining rows that may be older.

        `rows` is a condition for the rows `t` of the table, if other tables share the target.
        """
        spark, of_row = truncates.sparkSession, column("t", order)
        # Use one source row, since a row of the target may be older than several truncates.
        truncates = truncates.selectExpr("collect_list(`order`) AS truncates")
        older = sql("{rows} AND ({t} IS NULL OR {before})", rows=rows, t=of_row, before=is_before(of_row, Sql("x")))
        with temporary_view(truncates) as view:
            condition = sql("exists(s.truncates, x -> {older})", older=older)
            times, deleted = Sql("array_max(transform(s.truncates, x -> x.event_time))"), self.settings.soft_deletes
            is_live = sql("{deleted} IS NULL", deleted=column("t", deleted)) if deleted else Sql("true")
            merge(spark, self._target, view, condition, self._when_deleted(is_live, times))
        left = spark.read.table(table(self._target)).alias("t").crossJoin(truncates)
        ordered = is_ordered(Sql("x"), of_row)
        unordered = sql("{rows} AND exists(truncates, x -> NOT {ordered})", rows=rows, ordered=ordered)
        return left.filter(expressions(spark)(unordered)).count()

    def delete_gone(self, tombstones: DataFrame, keys: list[str]) -> None:
        """Delete the rows that are older than tombstones of their keys. Rows of a snapshot have no order, and stay."""
        spark, order = tombstones.sparkSession, self.table.order(tombstones.sparkSession)
        if order is None:
            return
        gone = newest_deletes(tombstones, keys, Kinds())
        pairs = zip(keys, key_names(keys), strict=True)
        same_key = Sql(" AND ".join(sql("{t} <=> {s}", t=column("t", key), s=column("s", name)) for key, name in pairs))
        of_row = column("t", order)
        older = sql("{t} IS NOT NULL AND {newer}", t=of_row, newer=is_newer(Sql("s.gone"), of_row))
        with temporary_view(gone) as view:
            merge(spark, self._target, view, same_key, self._when_deleted(older, Sql("s.gone.event_time")))

    def _when_deleted(self, condition: Sql, time: Sql, *assignments: Sql) -> Sql:
        """Return the MERGE clause that deletes a row, or marks it as deleted."""
        name = self.settings.soft_deletes
        if name is None:
            return sql("WHEN MATCHED AND {condition} THEN DELETE", condition=condition)
        deleted = sql("{deleted} = coalesce({time}, current_timestamp())", deleted=column("t", name), time=time)
        template = "WHEN MATCHED AND {condition} THEN UPDATE SET {assignments}"
        return sql(template, condition=condition, assignments=comma_separated([deleted, *assignments]))

    def _merge(self, staged: Staged, order: str) -> bool:
        """Merge rows and deletes. Return whether a row may have changed."""
        batch, rows = staged.batch, staged.rows
        names = rows.select(f"{COLUMNS}.*").columns
        newer = is_newer(Sql("s.`order`"), column("t", order), batch.kinds)
        targets = [*map(column, names), column(order)]
        values = [*(column("s", COLUMNS, name) for name in names), Sql("s.`order`")]
        deleted = self.settings.soft_deletes
        restored = [sql("{t} = NULL", t=column("t", deleted))] if deleted else []
        ordered = sql("{t} = s.`order`", t=column("t", order))
        updates = [*(_assignment(name, partial=staged.partial) for name in names), *restored, ordered]
        is_delete = sql("s.op = 'delete' AND {newer}", newer=newer)
        pairs = (sql("{t} = {s}", t=column("t", key), s=column("s", COLUMNS, key)) for key in batch.keys)
        same_key = Sql(" AND ".join(pairs))
        with temporary_view(rows) as view:
            new = Overwrite(view, staged.written, same_key, newer, dict(zip(targets, values, strict=True)))
            if batch.jobs == REWRITING and self._is_overwritten(rows.sparkSession, staged, new):
                return True
            changed = merge(
                rows.sparkSession,
                self._target,
                view,
                same_key,
                self._when_deleted(is_delete, Sql("s.event_time"), ordered),
                sql(
                    "WHEN MATCHED AND {newer} THEN UPDATE SET {updates}", newer=newer, updates=comma_separated(updates)
                ),
                sql(
                    "WHEN NOT MATCHED AND s.op <> 'delete' THEN INSERT ({names}) VALUES ({values})",
                    names=comma_separated(targets),
                    values=comma_separated(values),
                ),
            )
        return changed != 0

    def _is_overwritten(self, spark: SparkSession, staged: Staged, new: Overwrite) -> bool:
        """Overwrite the target if the new rows equal the result of a MERGE. Return whether it was overwritten."""
        schema = self.table.schema(spark)
        own = {column(name).lower() for name in schema.names} if schema is not None else set()
        if staged.partial or self.settings.soft_deletes or own != {name.lower() for name in new.values}:
            return False
        if self._may_overwrite is None:
            self._may_overwrite = may_overwrite(spark, self._target)
        return self._may_overwrite and new.write(spark, self._target)


def _assignment(name: str, *, partial: bool) -> Sql:
    """Return the assignment of a column's new value. A column that a partial update lacks keeps its value."""
    template = "{t} = IF(s.inherits AND array_contains(s.missing, {name}), {t}, {s})" if partial else "{t} = {s}"
    return sql(template, t=column("t", name), s=column("s", COLUMNS, name), name=string(name))
