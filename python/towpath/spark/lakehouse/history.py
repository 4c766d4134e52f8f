"""A history of the changes of a table without a primary key: every change is a row, once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from towpath.spark.lakehouse.aside import Aside, Origin, write_dead_letters
from towpath.spark.lakehouse.changes import COLUMNS
from towpath.spark.lakehouse.merge import KEY_ONLY
from towpath.spark.lakehouse.order import with_order
from towpath.spark.lakehouse.rows import REJECTED, ROW, Applied, is_rejected
from towpath.spark.lakehouse.sql import Sql, column, merge, sql
from towpath.spark.lakehouse.tables import (
    TableSettings,
    create_or_evolve,
    free_name,
    order_column,
    schema_of,
    temporary_view,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = ("topic", "partition", "offset", "timestamp", "step")


def append_history(
    changes: DataFrame, target: str, dead_letters: Aside | None, origin: Origin, settings: TableSettings
) -> Applied:
    """Append changes to a target, which has the columns of the table, `_op`, `_event_time` and the order value.

    Changes whose place the target has are skipped, so a replay adds nothing.
    """
    from pyspark.sql import functions as f

    began = time.monotonic()
    ordered = with_order(changes).withColumn("rejected", f.expr(is_rejected([]))).persist()
    try:
        counts = {row["rejected"]: row["count"] for row in ordered.groupBy("rejected").count().collect()}
        if counts.get(True):
            problem = f"{target}: {counts[True]} rows cannot be applied"
            write_dead_letters(ordered.filter("rejected"), dead_letters, origin, KEY_ONLY, problem)
        if counts.get(False):
            _append(ordered.filter("NOT rejected"), target, settings)
    finally:
        ordered.unpersist()
    return Applied({ROW: counts.get(False, 0), REJECTED: counts.get(True, 0)}, seconds=time.monotonic() - began)


def _append(changes: DataFrame, target: str, settings: TableSettings) -> None:
    from pyspark.sql import functions as f

    spark = changes.sparkSession
    columns = changes.select(f"{COLUMNS}.*").schema
    existing = schema_of(spark, target)
    order = (order_column(existing) if existing is not None else None) or free_name(columns, existing)
    taken = {name.lower() for name in columns.names}
    own = {name: name if name not in taken else f"{order}{name}" for name in ("_op", "_event_time")}
    rows = changes.select(
        f"{COLUMNS}.*",
        f.col("op").alias(own["_op"]),
        f.col("event_time").alias(own["_event_time"]),
        f.col("order").alias(order),
    )
    create_or_evolve(spark, target, rows.schema, settings=settings)
    same = (sql("{t} <=> {s}", t=column("t", order, name), s=column("s", order, name)) for name in _PLACE)
    with temporary_view(rows) as view:
        merge(spark, target, view, Sql(" AND ".join(same)), Sql("WHEN NOT MATCHED THEN INSERT *"))
