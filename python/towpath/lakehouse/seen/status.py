"""The state of each target: whether it equals its source table as of what was read, or why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.lakehouse.merging.jobs import SMALL, session_settings, settings_for
from towpath.lakehouse.merging.rows import DELETE, OLD, REJECTED, ROW, UNKNOWN, Applied
from towpath.lakehouse.reading.batch_messages import frame_of
from towpath.lakehouse.tables.sql import Sql, comma_separated, execute, merge, sql, string, table
from towpath.lakehouse.tables.tables import create_or_evolve, schema_of, temporary_view
from towpath.printable import SHOWN, printable
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OK, DROPPED, RENAMED, QUARANTINED, STALE = STATES = "ok", "dropped", "renamed", "quarantined", "stale"
"""The states of a target, the worst one last. The rows of a table that was dropped or renamed stay in its target."""

NO_BATCH = -1
"""The number in place of a query's batch, if there is none."""

GONE = (DROPPED, RENAMED)
"""The states of targets whose table is gone."""

REBUILT = "it is being rebuilt"
"""Why a target is stale meanwhile."""

REMOVED = "somebody removed the target: it has only the rows since then; rebuild it with rebuild"
"""Why a target is stale that was created again."""

_UNSOUND = (QUARANTINED, STALE)
"""The states of targets that do not equal their tables."""

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
"""Those of the table of states."""

_COUNTS = ("applied", "ignored_as_old", "deleted", "dead_letters")


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
    ends: Sequence[str] = ()
    """The states that do not hold any more, since the table was created again, or another one got its name."""

    @classmethod
    def stale(cls, name: tuple[str, str], target: str | None, reason: str, statement: str) -> TableStatus:
        """The status of a table that does not equal its source because of a statement."""
        return cls(*name, target, STALE, printable(reason, SHOWN), printable(statement, SHOWN))

    @classmethod
    def of(cls, database: str | None, table: str, target: str | None, applied: Applied) -> TableStatus:
        """The status of a table whose changes were applied; `target` is None if it does not exist yet."""
        counts = applied.counts
        reason = unordered(applied.unordered) if applied.unordered else _unconverted(applied.unconverted)
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


def unordered(rows: int) -> str:
    """Why a target is stale that keeps rows which a statement may have deleted."""
    return (
        f"{rows} rows may be older or newer than the statement that emptied the table: they are in other partitions, "
        "at the same time"
    )


def _unconverted(columns: Sequence[str]) -> str | None:
    """Why a target is stale that has rows from before a statement changed the types of columns."""
    if not columns:
        return None
    return (
        f"rows from before the columns {', '.join(columns)} got another type were read after the statement: the source "
        "may have changed their values without a message"
    )


def by_table(found: Iterable[TableStatus]) -> list[TableStatus]:
    """One status for each table: a batch applies a table several times if there are statements between its changes."""
    combined: dict[tuple[str | None, str], TableStatus] = {}
    for one in found:
        key = one.database, one.table
        combined[key] = _combined(combined[key], one) if key in combined else one
    return list(combined.values())


def _combined(first: TableStatus, second: TableStatus) -> TableStatus:
    """Both counts, the worse state, and the rest of the second."""
    worse = max(first, second, key=lambda one: STATES.index(one.state))
    worse = second if first.state in second.ends else worse
    times = [time for time in (first.last_event_time, second.last_event_time) if time is not None]
    seconds = [time for time in (first.merge_seconds, second.merge_seconds) if time is not None]
    return replace(
        worse,
        **{name: getattr(first, name) + getattr(second, name) for name in _COUNTS},
        target=second.target or first.target,
        last_event_time=max(times, default=None),
        last_place=second.last_place or first.last_place,
        merge_seconds=sum(seconds) if seconds else None,
        ends=(*first.ends, *second.ends),
    )


def status_rows(found: Iterable[TableStatus], batch_id: int) -> pa.Table:
    """What a batch did, a row for each table, with the columns of the table of states."""
    rows = [dict(zip(COLUMNS.names, map(_in_utc, row), strict=True)) for row in _rows(found, batch_id)]
    return pa.Table.from_pylist(rows, COLUMNS)


def _in_utc(value: object) -> object:
    """Spark collects times without a zone, in the zone of the process."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.astimezone(timezone.utc)
    return value


def _rows(found: Iterable[TableStatus], batch_id: int) -> list[tuple[Any, ...]]:
    now = datetime.now(timezone.utc)
    return [
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
        for one in by_table(found)
    ]


def _severity(state: str) -> str:
    ranks = " ".join(f"WHEN '{name}' THEN {at}" for at, name in enumerate(STATES))
    return f"CASE {state} {ranks} END"


def _assignments() -> dict[str, str]:
    # A target stays stale or quarantined until it is rebuilt or reprocessed, and dropped or renamed until it is created
    # again.
    # What is quarantined while a target is rebuilt is not in the new target.
    is_missed = f"s.state = '{QUARANTINED}' AND coalesce(t.reason, '') = '{REBUILT}'"
    is_kept = f"s.state = '{OK}' OR {_severity('s.state')} < {_severity('t.state')} AND NOT ({is_missed})"
    of_state = ("state", "since", "statement")
    of_ok = f"CASE WHEN s.state = '{OK}' AND t.state = '{OK}' THEN s.reason END"
    return {
        **{name: f"CASE WHEN {is_kept} THEN t.{name} ELSE s.{name} END" for name in of_state},
        "reason": f"CASE WHEN {is_kept} THEN coalesce(t.reason, {of_ok}) ELSE s.reason END",
        **{name: f"t.{name} + s.{name}" for name in _COUNTS},
        **{name: f"coalesce(s.{name}, t.{name})" for name in ("target", "last_event_time", "last_place")},
        **{name: f"s.{name}" for name in ("merge_seconds", "updated_at")},
        "last_batch": f"CASE WHEN s.last_batch = {NO_BATCH} THEN t.last_batch ELSE s.last_batch END",
    }


SAME_TABLE = "(t.database IS NOT DISTINCT FROM s.database) AND t.{table} = s.{table}"
"""Whether a row `t` of the table of states and a new one `s` are of one table, in SQL of Spark and of delta-rs.

They quote the name of the column `table` in different ways.
"""

ASSIGNMENTS: Mapping[str, str] = _assignments()
"""What becomes of the columns of such a row `t`, in the same SQL."""


def write_status(spark: SparkSession, target: str, found: Sequence[TableStatus], batch_id: int) -> None:
    """Merge what a batch did into the table of states."""
    if not found:
        return
    frame = frame_of(spark, status_rows(found, batch_id), struct_type(COLUMNS))
    create_or_evolve(spark, target, frame.schema)
    updates = ", ".join(f"t.{name} = {value}" for name, value in ASSIGNMENTS.items())
    with session_settings(spark, settings_for(spark, SMALL)), temporary_view(frame) as view:
        merge(
            spark,
            target,
            view,
            Sql(SAME_TABLE.format(table="`table`")),
            Sql(f"WHEN MATCHED THEN UPDATE SET {updates}"),
            Sql("WHEN NOT MATCHED THEN INSERT *"),
        )


def write_ahead(spark: SparkSession, target: str | None, found: Sequence[TableStatus]) -> None:
    """Write states before the commits that they come from, if there is a table of states.

    The end of the batch writes it again. If the driver ends in between, the batch is read again, but what the commit
    replaced cannot say it any more.
    """
    if target:
        write_status(spark, target, found, NO_BATCH)


def read_tables(spark: SparkSession, target: str) -> set[tuple[str, str]]:
    """The database and the name of each table that has a state."""
    if schema_of(spark, target) is None:
        return set()
    rows = spark.read.table(table(target)).select("database", "table").collect()
    return {(row["database"] or "", row["table"]) for row in rows}


def read_written(spark: SparkSession, target: str) -> dict[str, tuple[int, int]]:
    """The targets that have been created, but for those of dropped and renamed tables.

    Returns:
        For each of them the last batch, and when its state was written last, in microseconds since 1970.
    """
    if schema_of(spark, target) is None:
        return {}
    # Those of snapshots and of RENAME TABLE have rows before a change is applied to them.
    is_there = f"target IS NOT NULL AND (state = '{OK}' OR applied > 0 AND state NOT IN {GONE})"
    rows = spark.read.table(table(target)).filter(is_there)
    found = rows.selectExpr("target", "last_batch", "unix_micros(updated_at) AS written_at").collect()
    return {row["target"]: (row["last_batch"], row["written_at"]) for row in found}


class Unsound:
    """The states of tables but `ok`: those that a batch has found so far, and those of earlier ones."""

    def __init__(self, spark: SparkSession, status: str | None, write: Callable[[Sequence[TableStatus]], None]) -> None:
        """Know nothing of earlier batches.

        Args:
            spark: The session.
            status: The table of states, if there is one.
            write: Writes states into it; does nothing without a table.
        """
        self._spark, self._status, self._write = spark, status, write
        self._known: dict[tuple[str, str], dict[str, str]] | None = None
        self._lock = RLock()

    def add(self, found: Iterable[TableStatus]) -> None:
        """Add what a batch found."""
        for one in found:
            if one.state != OK:
                states = self._states().setdefault((one.database or "", one.table), {})
                states.pop(one.state, None)  # the last one is the newest
                states[one.state] = one.reason or one.state

    def reason(self, name: tuple[str, str]) -> str | None:
        """Why the target of a table does not equal it."""
        with self._lock:
            found = dict(self._states().get(name, {}))
        return next((found[state] for state in reversed(found) if state in _UNSOUND), None)

    def write_ahead(self, found: Sequence[TableStatus]) -> None:
        """Write states before the commits that they come from."""
        with self._lock:
            self._write(found)
            self.add(found)

    def end(self, name: tuple[str, str], states: Sequence[str]) -> None:
        """States of a table do not hold any more."""
        with self._lock:
            known = self._states().get(name, {})
            if known.keys().isdisjoint(states):  # an UPDATE of nothing takes as long as a small merge
                return
            for state in states:
                known.pop(state, None)
            if self._status and schema_of(self._spark, self._status) is not None:
                set_ok(self._spark, self._status, [name, (None, name[1])][: 1 if name[0] else 2], states)

    def _states(self) -> dict[tuple[str, str], dict[str, str]]:
        """By table its states, the newest last, each with why."""
        if self._known is None:
            self._known = _read_states(self._spark, self._status) if self._status else {}
        return self._known


def _read_states(spark: SparkSession, status: str) -> dict[tuple[str, str], dict[str, str]]:
    if schema_of(spark, status) is None:
        return {}
    rows = spark.read.table(table(status)).filter(f"state <> '{OK}'").collect()
    return {(row["database"] or "", row["table"]): {row["state"]: row["reason"] or row["state"]} for row in rows}


def read_stale(spark: SparkSession, target: str) -> list[TableStatus]:
    """The tables that are stale."""
    if schema_of(spark, target) is None:
        return []
    rows = spark.read.table(table(target)).filter(f"state = '{STALE}'").collect()
    return [
        TableStatus(row["database"], row["table"], None, STALE, reason=row["reason"], statement=row["statement"])
        for row in rows
    ]


def set_ok(
    spark: SparkSession,
    target: str,
    tables: Iterable[tuple[str | None, str]],
    states: Sequence[str] = (QUARANTINED,),
    reason: str | None = None,
) -> None:
    """Say that tables are right again that were in one of the states, for this reason if one is given."""
    template = (
        "UPDATE {status} SET state = 'ok', since = current_timestamp(), reason = NULL, statement = NULL "
        "WHERE state IN ({states}) AND database <=> {database} AND `table` = {name} AND {because}"
    )
    because = sql("reason = {reason}", reason=string(reason)) if reason else Sql("true")
    for database, name in tables:
        of_database = string(database) if database is not None else Sql("NULL")
        values = {"states": comma_separated(map(string, states)), "database": of_database, "name": string(name)}
        values["because"] = because
        execute(spark, sql(template, status=table(target), **values))
