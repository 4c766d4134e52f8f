"""Finds the rows and columns of a target that a statement affects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.lakehouse.tables.sql import TRUE, Sql, column, expressions, sql, table
from towpath.lakehouse.tables.tables import order_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


ALL_ROWS = TRUE
"""Condition for the rows of a table with its own target."""


def other_rows(spark: SparkSession, own: Sql, target: str) -> DataFrame | None:
    """Return the rows of a target that do not meet the condition `own`; None if all rows meet it."""
    if own == ALL_ROWS:
        return None
    rows = filtered(spark, target, sql("NOT ({own})", own=own))
    return rows if rows.limit(1).count() else None


def find_column(schema: StructType | None, name: str) -> str | None:
    """Return the name of a target's column. MySQL compares names without case."""
    return next((one for one in schema.names if one.lower() == name.lower()), None) if schema is not None else None


def order_of_rows(schema: StructType | None) -> Sql | None:
    """Return the order value of a row `t` of a target; None if it does not exist or towpath did not create it."""
    name = order_column(schema) if schema is not None else None
    return column("t", name) if name is not None else None


def has_row(spark: SparkSession, target: str, condition: Sql) -> bool:
    """Return whether a row `t` of a target meets a condition."""
    return filtered(spark, target, condition).limit(1).count() > 0


def filtered(spark: SparkSession, target: str, condition: Sql) -> DataFrame:
    """Return the rows `t` of a target that meet a condition."""
    return spark.read.table(table(target)).alias("t").filter(expressions(spark)(condition))
