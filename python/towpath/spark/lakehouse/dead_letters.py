"""Dead letters: messages and rows that cannot be applied, kept in a table of their own with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from towpath.spark.tables import append_once

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MESSAGE = ("message", "topic", "partition", "offset", "row")


def key_only(source: str) -> str:
    """SQL that is true where TiCDC has sent the key of a row instead of all of it.

    Args:
        source: The column that has the fields of `source`.
    """
    return f"coalesce({source}.handle_key_only OR {source}.claim_check IS NOT NULL, false)"


def letters(
    refused: DataFrame, message: Mapping[str, Column], error: str, otherwise: tuple[str, str], target: str | None
) -> DataFrame:
    """The rows of the table of dead letters.

    Args:
        refused: What cannot be applied.
        message: The columns of `refused` with Kafka's message, its topic, partition and offset, and the row in it.
        error: The column of `refused` that has the fields of `error`.
        otherwise: Kind and reason for rows that were decoded without an error.
        target: The table that lacks the row; None if it is not known which.
    """
    from pyspark.sql import functions as f

    kind, reason = map(f.lit, otherwise)
    return refused.select(
        *(message[name].alias(name) for name in _MESSAGE),
        f.coalesce(f.col(f"{error}.kind"), kind).alias("kind"),
        f.coalesce(f.col(f"{error}.message"), reason).alias("reason"),
        f.col(f"{error}.column").alias("column"),
        f.col(f"{error}.byte").alias("byte"),
        f.lit(target).cast("string").alias("target"),
        f.current_timestamp().alias("recorded_at"),
    )


def bury(dead: DataFrame, table: str | None, complaint: str) -> None:
    """Append dead letters to their table, those that are not in it yet.

    Raises:
        ValueError: There is no such table. The complaint is followed by the first reason.
    """
    if table is None:
        first = dead.select("reason").first()
        raise ValueError(
            f"{complaint}, the first because of {first and first.reason!r}; name a table for them with dead_letters"
        )
    append_once(dead, table, (*_MESSAGE, "reason"))
