"""The state of each target: whether it equals its source table as of what was read, or why not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from towpath.spark.lakehouse.rows import DELETE, OLD, REJECTED, ROW, UNKNOWN
from towpath.spark.lakehouse.sql import Sql, execute, merge, sql, string, table
from towpath.spark.lakehouse.tables import create_or_evolve, temporary_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.spark.lakehouse.merge import Applied

OK, STALE, QUARANTINED = "ok", "stale", "quarantined"

_COLUMNS = (
    "database string, `table` string, target string, state string, since timestamp, reason string, statement string, "
    "applied bigint, ignored_as_old bigint, deleted bigint, dead_letters bigint, last_event_time timestamp, "
    "last_place string, last_batch bigint, merge_seconds double, updated_at timestamp"
)
_COUNTS = ("applied", "ignored_as_old", "deleted", "dead_letters")
# A target stays stale or quarantined until it is rebuilt or reprocessed.
_KEPT = "s.state = 'ok' OR (t.state = 'stale' AND s.state = 'quarantined')"


@dataclass(frozen=True)
class TableStatus:
    """What a batch did to a target."""

    database: str | None
    table: str
    target: str | None
    state: str = OK
    reason: str | None = None
    statement: str | None = None
    applied: int = 0
    ignored_as_old: int = 0
    deleted: int = 0
    dead_letters: int = 0
    last_event_time: datetime | None = None
    last_place: str | None = None
    merge_seconds: float | None = None

    @classmethod
    def of(cls, database: str | None, table: str, target: str, applied: Applied) -> TableStatus:
        """The status of a table whose changes were applied."""
        counts = applied.counts
        return cls(
            database,
            table,
            target,
            applied=counts.get(ROW, 0) + counts.get(DELETE, 0),
            ignored_as_old=counts.get(OLD, 0),
            deleted=counts.get(DELETE, 0),
            dead_letters=counts.get(REJECTED, 0) + counts.get(UNKNOWN, 0),
            last_event_time=applied.event_time,
            last_place=applied.place,
            merge_seconds=applied.seconds,
        )


def write_status(spark: SparkSession, target: str, found: Sequence[TableStatus], batch_id: int) -> None:
    """Merge what a batch did into the table of states."""
    if not found:
        return
    now = datetime.now(timezone.utc)
    rows = [
        (
            one.database,
            one.table,
            one.target,
            one.state,
            now,
            one.reason,
            one.statement,
            one.applied,
            one.ignored_as_old,
            one.deleted,
            one.dead_letters,
            one.last_event_time,
            one.last_place,
            batch_id,
            one.merge_seconds,
            now,
        )
        for one in found
    ]
    frame = spark.createDataFrame(rows, _COLUMNS)
    create_or_evolve(spark, target, frame.schema)
    state = (f"t.{name} = IF({_KEPT}, t.{name}, s.{name})" for name in ("state", "since", "reason", "statement"))
    counts = (f"t.{name} = t.{name} + s.{name}" for name in _COUNTS)
    latest = (f"t.{name} = coalesce(s.{name}, t.{name})" for name in ("target", "last_event_time", "last_place"))
    newest = (f"t.{name} = s.{name}" for name in ("last_batch", "merge_seconds", "updated_at"))
    with temporary_view(frame) as view:
        merge(
            spark,
            target,
            view,
            Sql("t.database <=> s.database AND t.`table` = s.`table`"),
            Sql("WHEN MATCHED THEN UPDATE SET " + ", ".join([*state, *counts, *latest, *newest])),
            Sql("WHEN NOT MATCHED THEN INSERT *"),
        )


def set_ok(spark: SparkSession, target: str, tables: Iterable[tuple[str | None, str]]) -> None:
    """Say that tables are not in quarantine any more."""
    template = (
        "UPDATE {status} SET state = 'ok', since = current_timestamp(), reason = NULL, statement = NULL "
        "WHERE state = 'quarantined' AND database <=> {database} AND `table` = {name}"
    )
    for database, name in tables:
        of_database = string(database) if database is not None else Sql("NULL")
        execute(spark, sql(template, status=table(target), database=of_database, name=string(name)))
