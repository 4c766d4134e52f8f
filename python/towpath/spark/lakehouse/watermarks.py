"""TiCDC's watermarks: all changes up to a time have been sent before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.spark.lakehouse.sql import Sql, equal_columns, merge, table
from towpath.spark.lakehouse.tables import create_or_evolve, temporary_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def after_watermark(changes: DataFrame, spark: SparkSession, watermarks: str) -> DataFrame:
    """Without changes that TiCDC sent again after a watermark that says that they had been sent.

    What came before the watermark, and is read again, is no such change.
    """
    from pyspark.sql import functions as f

    c, w = changes.alias("c"), spark.read.table(table(watermarks)).alias("w")
    same = (
        "c.topic = w.topic AND c.partition = w.partition AND c.source.commit_ts <= w.watermark_ts "
        "AND c.offset > w.offset"
    )
    return c.join(w, f.expr(same), "left_anti")


def write_watermarks(watermarks: DataFrame, target: str) -> None:
    """Write the newest watermark of each partition, after all changes before it have been applied."""
    from pyspark.sql import functions as f

    spark = watermarks.sparkSession
    newest = watermarks.groupBy("topic", "partition").agg(f.expr(_NEWEST))
    newest = newest.selectExpr(
        "topic",
        "partition",
        "newest.watermark_ts",
        "timestamp_millis(shiftright(newest.watermark_ts, 18)) AS complete_until",
        "newest.offset",
    )
    create_or_evolve(spark, target, newest.schema)
    with temporary_view(newest) as view:
        merge(
            spark,
            target,
            view,
            equal_columns(["topic", "partition"]),
            Sql("WHEN MATCHED AND s.watermark_ts > t.watermark_ts THEN UPDATE SET *"),
            Sql("WHEN NOT MATCHED THEN INSERT *"),
        )


_NEWEST = "max(struct(source.watermark_ts AS watermark_ts, -offset AS negated, offset AS offset)) AS newest"
