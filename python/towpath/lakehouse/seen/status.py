"""The state of each target: whether it equals its source table up to the messages read, and the reason if not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import pyarrow as pa

from towpath.lakehouse.merging.rows import DELETE, OLD, REJECTED, ROW, UNKNOWN, Applied
from towpath.printable import SHOWN, printable

OK, DROPPED, RENAMED, QUARANTINED, STALE = STATES = "ok", "dropped", "renamed", "quarantined", "stale"
"""States of a target, the worst one last. A target keeps the rows of a dropped or renamed table."""

NO_BATCH = -1
"""Batch number outside of a query's batches."""

GONE = (DROPPED, RENAMED)
"""States of targets whose table is gone."""

REBUILT = "it is being rebuilt"
"""Reason of a stale target during a rebuild."""

REMOVED = "the target was removed: it has only the rows since then; rebuild it with towpath.spark.rebuild"
"""Reason of a stale target that was created again."""

_TIME = pa.timestamp("us", "UTC")

COLUMNS = pa.schema(
    [
        ("database", pa.string()),
        ("table", pa.string()),
        ("target", pa.string()),
        ("state", pa.string()),
        ("since", _TIME),
        ("reason", pa.string()),
        ("statement", pa.string()),
        ("applied", pa.int64()),
        ("ignored_as_old", pa.int64()),
        ("deleted", pa.int64()),
        ("dead_letters", pa.int64()),
        ("last_event_time", _TIME),
        ("last_place", pa.string()),
        ("last_batch", pa.int64()),
        ("merge_seconds", pa.float64()),
        ("updated_at", _TIME),
    ]
)
"""Schema of the table of states."""

COUNTS = ("applied", "ignored_as_old", "deleted", "dead_letters")


@dataclass(frozen=True)
class TableStatus:
    """Effects of a batch on a target."""

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
    ends: Sequence[str] = ()
    """States that no longer hold, since the table was created again or another table got its name."""

    @classmethod
    def stale(cls, name: tuple[str, str], target: str | None, reason: str, statement: str) -> TableStatus:
        """Return the status of a table that a statement made unequal to its source."""
        return cls(*name, target, STALE, printable(reason, SHOWN), printable(statement, SHOWN))

    @classmethod
    def of(cls, database: str | None, table: str, target: str | None, applied: Applied) -> TableStatus:
        """Return the status of a table whose changes were applied. `target` is None if it does not exist yet."""
        counts = applied.counts
        reason = unordered(applied.unordered) if applied.unordered else None
        return cls(
            database,
            table,
            target,
            state=STALE if reason else OK,
            reason=reason,
            applied=counts.get(ROW, 0) + counts.get(DELETE, 0),
            ignored_as_old=counts.get(OLD, 0),
            deleted=counts.get(DELETE, 0),
            dead_letters=counts.get(REJECTED, 0) + counts.get(UNKNOWN, 0),
            last_event_time=applied.event_time,
            last_place=applied.place,
            merge_seconds=applied.seconds,
        )


TableResult = TableStatus | Exception
"""Result of a table's changes in a batch: its state, or an error that requires reading the batch again."""


def unordered(rows: int) -> str:
    """Return why a target is stale if it keeps rows that a statement may have deleted."""
    return f"{rows} concurrent rows in other partitions may be older or newer than the statement that emptied the table"


def by_table(found: Iterable[TableStatus]) -> list[TableStatus]:
    """Combine statuses by table. A batch with statements between a table's changes applies the table several times."""
    combined: dict[tuple[str | None, str], TableStatus] = {}
    for one in found:
        key = one.database, one.table
        combined[key] = _combined(combined[key], one) if key in combined else one
    return list(combined.values())


def _combined(first: TableStatus, second: TableStatus) -> TableStatus:
    """Return the sums of the counts, the worse state, and the other fields of the second status."""
    worse = max(first, second, key=lambda one: STATES.index(one.state))
    worse = second if first.state in second.ends else worse
    times = [_in_utc(time) for time in (first.last_event_time, second.last_event_time) if time is not None]
    seconds = [time for time in (first.merge_seconds, second.merge_seconds) if time is not None]
    return replace(
        worse,
        **{name: getattr(first, name) + getattr(second, name) for name in COUNTS},
        target=second.target or first.target,
        last_event_time=max(times, default=None),
        last_place=second.last_place or first.last_place,
        merge_seconds=sum(seconds) if seconds else None,
        ends=(*first.ends, *second.ends),
    )


def status_rows(found: Iterable[TableStatus], batch_id: int) -> pa.Table:
    """Return the effects of a batch, a row for each table, with the columns of the table of states."""
    now = datetime.now(timezone.utc)
    others = {"since": now, "last_batch": batch_id, "updated_at": now}
    rows = [
        {**vars(one), **others, "last_event_time": one.last_event_time and _in_utc(one.last_event_time)}
        for one in by_table(found)
    ]
    return pa.Table.from_pylist(rows, COLUMNS)


def _in_utc(time: datetime) -> datetime:
    """Convert a time to UTC. Spark collects times without a zone, in the zone of the process."""
    return time.astimezone(timezone.utc) if time.tzinfo is None else time
