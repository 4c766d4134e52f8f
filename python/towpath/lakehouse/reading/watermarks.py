"""TiCDC's watermarks: TiCDC has sent all changes up to a time before the watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.lakehouse.tables.sql import Sql, equal_columns, merge, table
from towpath.lakehouse.tables.tables import create_or_evolve, temporary_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Watermarks:
    """Watermarks of earlier batches in an existing table. They rule out changes."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._table = spark.read.table(table(name)).alias("w")

    def without_late(self, changes: DataFrame, *, is_small: bool) -> DataFrame:
        """Remove changes that TiCDC sent again after a watermark that covers them.

        A change before the watermark is kept if it is only read again. In a small job a broadcast would cost more
        memory than it saves.
        """
        from pyspark.sql import functions as f

        # The table has few rows. Without a broadcast all changes of a partition would be in one task.
        watermarks = self._table if is_small else f.broadcast(self._table)
        return changes.alias("c").join(watermarks, f.expr(_is_late("c.source.commit_ts")), "left_anti")

    def count_late(self, events: DataFrame) -> dict[tuple[str | None, str], int]:
        """Count the removed changes of each table."""
        from pyspark.sql import functions as f

        late = events.alias("c").join(self._table, f.expr(_is_late("c.commit_ts")), "left_semi")
        found = late.groupBy("database", "table").agg(f.sum("rows").alias("rows")).collect()
        return {(row["database"], row["table"]): row["rows"] for row in found}


def _is_late(commit_ts: str) -> str:
    return (
        f"c.topic = w.topic AND c.partition = w.partition AND {commit_ts} <= w.watermark_ts AND c.offset > w.offset "
        # Former versions stored watermarks of any time.
        "AND w.complete_until <= coalesce(c.timestamp, current_timestamp()) + INTERVAL 1 DAY"
    )


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
            Sql(f"WHEN MATCHED AND (s.watermark_ts > t.watermark_ts OR {_IS_REFUSED_NOW}) THEN UPDATE SET *"),
            Sql("WHEN NOT MATCHED THEN INSERT *"),
        )


_NEWEST = "max(struct(source.watermark_ts AS watermark_ts, -offset AS negated, offset AS offset)) AS newest"
_IS_REFUSED_NOW = "t.complete_until > current_timestamp() + INTERVAL 1 DAY AND s.offset > t.offset"
