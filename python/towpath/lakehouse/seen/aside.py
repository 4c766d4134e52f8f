"""Messages that cannot be applied: dead letters, and the messages of quarantined tables.

Tables store both with the reason, until `towpath.spark.reprocess` applies them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from towpath.lakehouse.log.ordered_statements import Place
from towpath.lakehouse.merging.tasks import SPARK, TaskMerges
from towpath.lakehouse.tables.own_table import LogTable
from towpath.lakehouse.tables.sql import Sql, execute, sql, string, table
from towpath.lakehouse.tables.tables import schema_of
from towpath.lakehouse.tables.target_rows import current_rows, has_any
from towpath.places import MESSAGE, PLACE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from towpath.literals import Dialect

_OF_DEAD_LETTERS = ("message", *PLACE, "row", "reason")
_OF_QUARANTINE = (*PLACE, "database", "table")
_WAITING = "done_at IS NULL AND ({condition})"


@dataclass(frozen=True)
class Aside:
    """Table for messages that cannot be applied."""

    table: str
    since: datetime | None = None
    """Start of reprocessing. Rows that were recorded earlier do not count as waiting."""
    in_tasks: TaskMerges | None = None
    """Tables that delta-rs may write. None means no tables."""

    def append(self, rows: DataFrame, identity: tuple[str, ...], *, are_few: bool) -> None:
        """Append rows except those that already wait. A row that is done may have been applied to another target."""
        waiting = "t.done_at IS NULL"
        if self.since is not None:  # Spark and delta-rs both cast a string literal to a timestamp
            since = datetime.fromtimestamp(self.since.timestamp(), timezone.utc)
            waiting += f" AND t.recorded_at >= '{since.isoformat()}'"
        own = LogTable(self.table, identity, self.in_tasks or TaskMerges(SPARK))
        own.append(rows.sparkSession, rows, Sql(waiting), are_few=are_few)

    def waiting(self, spark: SparkSession, condition: Sql) -> DataFrame | None:
        """Return the waiting rows that meet a condition; None if the table does not exist."""
        if schema_of(spark, self.table, self.in_tasks) is None:
            return None
        rows = current_rows(spark, self.table, self.in_tasks or TaskMerges(SPARK))
        return rows.filter(sql(_WAITING, condition=condition))

    def finish(self, spark: SparkSession, condition: Sql) -> None:
        """Mark the waiting rows that meet a condition as done."""
        if schema_of(spark, self.table, self.in_tasks) is not None:
            update = f"UPDATE {{table}} SET done_at = current_timestamp() WHERE {_WAITING}"
            execute(spark, sql(update, table=table(self.table), condition=condition))

    def has_since(self, spark: SparkSession, name: tuple[str, str], place: Place) -> bool:
        """Return whether messages of a table wait that are not older than a place in their partition."""
        template = (
            "{of_table} AND NOT coalesce("
            "topic = {place}.topic AND `partition` = {place}.`partition` AND `offset` < {place}.`offset`, false)"
        )
        found = self.waiting(spark, sql(template, of_table=is_of(*name), place=place.literal()))
        return found is not None and has_any(found)


@dataclass(frozen=True)
class Origin:
    """Table of the changes. All fields are None if it is unknown."""

    database: str | None = None
    table: str | None = None
    target: str | None = None
    dialect: Dialect | None = None

    def columns(self) -> list[Column]:
        """Return the fields as constant columns."""
        from pyspark.sql import functions as f

        return [f.lit(value).cast("string").alias(name) for name, value in vars(self).items()]


def write_dead_letters(
    rejected: DataFrame,
    aside: Aside | None,
    origin: Origin,
    default: tuple[str, str],
    problem: str,
    *,
    are_few: bool,
) -> None:
    """Append changes that cannot be applied, or events that cannot be read, to the dead letters.

    `default` has the kind and the reason for rows that were decoded without an error. `are_few` says whether the rows
    fit into the driver.

    Raises:
        ValueError: No table for dead letters is given. The text is the problem, followed by the first reason.
    """
    from pyspark.sql import functions as f

    kind, reason = map(f.lit, default)
    rows = rejected.select(
        "message",
        *PLACE,
        "row",
        f.coalesce(f.col("error.kind"), kind).alias("kind"),
        f.coalesce(f.col("error.message"), reason).alias("reason"),
        f.col("error.column").alias("column"),
        f.col("error.byte").alias("byte"),
        *origin.columns(),
        f.col("message_key").alias("key"),
        *_times(),
    )
    if aside is None:
        first = rows.orderBy(*PLACE, "row").select("reason").first()
        raise ValueError(f"{problem}; first reason: {first and first.reason!r}; set dead_letters to a table for them")
    aside.append(rows, _OF_DEAD_LETTERS, are_few=are_few)


def write_quarantine(events: DataFrame, aside: Aside, origin: Origin, reason: str, *, are_few: bool) -> None:
    """Append the messages of the events of a quarantined table. `are_few` says whether they fit into the driver."""
    from pyspark.sql import functions as f

    rows = events.select(*MESSAGE, *origin.columns(), f.lit(reason).alias("reason"), *_times())
    # A message may have several events.
    aside.append(rows.dropDuplicates(list(PLACE)), _OF_QUARANTINE, are_few=are_few)


def is_of(database: str | None, name: str) -> Sql:
    """Return a condition that a waiting row belongs to a table. It is never null."""
    template = "coalesce(coalesce(database, '') = {database} AND `table` = {name}, false)"
    return sql(template, database=string(database or ""), name=string(name))


def timestamp(time: datetime) -> Sql:
    """Return a time as a literal."""
    return Sql(f"timestamp_micros({round(time.timestamp() * 1_000_000)})")


def _times() -> list[Column]:
    from pyspark.sql import functions as f

    return [f.current_timestamp().alias("recorded_at"), f.lit(None).cast("timestamp").alias("done_at")]
