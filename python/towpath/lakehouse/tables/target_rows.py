"""Finds the rows and columns of a target that a statement affects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.lakehouse.tables.driver_tables import DriverTable
from towpath.lakehouse.tables.sql import TRUE, Sql, column, expressions, sql, table
from towpath.lakehouse.tables.tables import order_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from towpath.lakehouse.merging.tasks import TaskMerges

ALL_ROWS = TRUE
"""Condition for the rows of a table with its own target."""


def other_rows(spark: SparkSession, own: Sql, target: str, in_tasks: TaskMerges) -> DataFrame | None:
    """Return the rows of a target that do not meet the condition `own`; None if all rows meet it."""
    others = sql("NOT ({own})", own=own)
    return filtered(spark, target, others) if own != ALL_ROWS and has_row(spark, target, others, in_tasks) else None


def find_column(schema: StructType | None, name: str) -> str | None:
    """Return the name of a target's column. MySQL compares names without case."""
    return next((one for one in schema.names if one.lower() == name.lower()), None) if schema is not None else None


def order_of_rows(schema: StructType | None) -> Sql | None:
    """Return the order value of a row `t` of a target; None if it does not exist or towpath did not create it."""
    name = order_column(schema) if schema is not None else None
    return column("t", name) if name is not None else None


def has_row(spark: SparkSession, target: str, condition: Sql, in_tasks: TaskMerges) -> bool:
    """Return whether a row `t` of a target meets a condition. `in_tasks` says which tables delta-rs may read."""
    return has_any(_filtered(current_rows(spark, target, in_tasks), condition))


def has_any(rows: DataFrame) -> bool:
    """Return whether a DataFrame has a row."""
    return bool(rows.selectExpr("1").limit(1).collect())


def current_rows(spark: SparkSession, target: str, in_tasks: TaskMerges) -> DataFrame:
    """Return the rows that a table has now if they are few, else those that it has when they are used."""
    few = DriverTable(spark, target, in_tasks).frame()
    return spark.read.table(table(target)) if few is None else few


def filtered(spark: SparkSession, target: str, condition: Sql) -> DataFrame:
    """Return the rows `t` of a target that meet a condition."""
    return _filtered(spark.read.table(table(target)), condition)


def _filtered(rows: DataFrame, condition: Sql) -> DataFrame:
    return rows.alias("t").filter(expressions(rows.sparkSession)(condition))
