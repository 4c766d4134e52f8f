"""The messages of tables that cannot go on: put aside until the cause is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.spark.lakehouse.changes import MESSAGE, PLACE
from towpath.spark.lakehouse.tables import append_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def put_aside(events: DataFrame, table: str, target: str | None, reason: str) -> None:
    """Append the messages of a table's events, without those that the quarantine already has.

    Args:
        events: The events of one table.
        table: Name or path of the quarantine.
        target: The target that does not get them; None if it is not known.
        reason: Why the table cannot go on.
    """
    from pyspark.sql import functions as f

    rows = events.select(
        *MESSAGE,
        "database",
        "table",
        f.lit(target).cast("string").alias("target"),
        f.lit(reason).alias("reason"),
        f.current_timestamp().alias("recorded_at"),
        f.lit(None).cast("timestamp").alias("done_at"),
    )
    append_once(rows, table, (*PLACE, "database", "table"))
