"""Dead letters: messages and rows that cannot be applied, written to a table with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from towpath.spark.lakehouse.columns import COORDINATES
from towpath.spark.lakehouse.sql import Sql, column, sql
from towpath.spark.lakehouse.tables import append_once

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MESSAGE = ("message", *COORDINATES, "row")


def is_key_only(source: str) -> Sql:
    """True if TiCDC sent only the key of a row.

    Args:
        source: Name of the column with the fields of `source`.
    """
    return sql("coalesce({source}.handle_key_only OR {source}.claim_check IS NOT NULL, false)", source=column(source))


def dead_letter_rows(
    rejected: DataFrame, message: Mapping[str, Column], error: str, default: tuple[str, str], target: str | None
) -> DataFrame:
    """The rows to write to the table of dead letters.

    Args:
        rejected: The rows that cannot be applied.
        message: Columns of `rejected` with the Kafka message, its coordinates, and the row's index in it.
        error: Name of the column of `rejected` with the fields of `error`.
        default: Kind and reason of rows that were decoded without an error.
        target: The table that the row is missing in; None if it is not known.
    """
    from pyspark.sql import functions as f

    kind, reason = map(f.lit, default)
    return rejected.select(
        *(message[name].alias(name) for name in _MESSAGE),
        f.coalesce(f.col(f"{error}.kind"), kind).alias("kind"),
        f.coalesce(f.col(f"{error}.message"), reason).alias("reason"),
        f.col(f"{error}.column").alias("column"),
        f.col(f"{error}.byte").alias("byte"),
        f.lit(target).cast("string").alias("target"),
        f.current_timestamp().alias("recorded_at"),
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
    append_once(rows, table, (*_MESSAGE, "reason"))
