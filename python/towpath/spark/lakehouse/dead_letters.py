"""Dead letters: messages and rows that cannot be applied, written to a table with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.spark.lakehouse.changes import PLACE
from towpath.spark.lakehouse.tables import append_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_IDENTITY = ("message", *PLACE, "row", "reason")


def dead_letter_rows(rejected: DataFrame, default: tuple[str, str], target: str | None) -> DataFrame:
    """The rows to write to the table of dead letters.

    Args:
        rejected: The changes that cannot be applied, or the events that cannot be read.
        default: Kind and reason of those that were decoded without an error.
        target: The table that the row is missing in; None if it is not known.
    """
    from pyspark.sql import functions as f

    kind, reason = map(f.lit, default)
    return rejected.select(
        "message",
        *PLACE,
        "row",
        f.coalesce(f.col("error.kind"), kind).alias("kind"),
        f.coalesce(f.col("error.message"), reason).alias("reason"),
        f.col("error.column").alias("column"),
        f.col("error.byte").alias("byte"),
        f.lit(target).cast("string").alias("target"),
        f.current_timestamp().alias("recorded_at"),
        f.col("message_key").alias("key"),
    )


def write_dead_letters(rows: DataFrame, table: str | None, problem: str) -> None:
    """Append dead letters to their table, without those that it already has.

    Raises:
        ValueError: There is no table for dead letters. The text is the problem, followed by the first reason.
    """
    if table is None:
        first = rows.select("reason").first()
        raise ValueError(
            f"{problem}, the first because of {first and first.reason!r}; name a table for them with dead_letters"
        )
    append_once(rows, table, _IDENTITY)
