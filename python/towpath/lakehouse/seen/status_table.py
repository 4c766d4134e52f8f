"""The table of target states, and the states that a batch has found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.lakehouse.merging.jobs import SMALL, session_settings, settings_for
from towpath.lakehouse.merging.tasks import SPARK, TaskMerges
from towpath.lakehouse.reading.batch_messages import frame_of
from towpath.lakehouse.seen.status import (
    COLUMNS,
    COUNTS,
    GONE,
    NO_BATCH,
    OK,
    QUARANTINED,
    REBUILT,
    STALE,
    STATES,
    TableStatus,
    status_rows,
)
from towpath.lakehouse.tables.own_table import OwnTable
from towpath.lakehouse.tables.sql import Sql, merge
from towpath.lakehouse.tables.tables import create_or_evolve, schema_of, temporary_view
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNSOUND = (QUARANTINED, STALE)
"""States of targets that do not equal their source tables."""


def _severity(state: str) -> str:
    ranks = " ".join(f"WHEN '{name}' THEN {at}" for at, name in enumerate(STATES))
    return f"CASE {state} {ranks} END"


def _assignments() -> dict[str, str]:
    # A target stays stale or quarantined until it is rebuilt or reprocessed. It stays dropped or renamed until its
    # table is created again. Messages that are quarantined during a rebuild are missing in the new target.
    is_missed = f"s.state = '{QUARANTINED}' AND coalesce(t.reason, '') = '{REBUILT}'"
    is_kept = f"s.state = '{OK}' OR {_severity('s.state')} < {_severity('t.state')} AND NOT ({is_missed})"
    of_state = ("state", "since", "statement")
    of_ok = f"CASE WHEN s.state = '{OK}' AND t.state = '{OK}' THEN s.reason END"
    return {
        **{name: f"CASE WHEN {is_kept} THEN t.{name} ELSE s.{name} END" for name in of_state},
        "reason": f"CASE WHEN {is_kept} THEN coalesce(t.reason, {of_ok}) ELSE s.reason END",
        **{name: f"t.{name} + s.{name}" for name in COUNTS},
        **{name: f"coalesce(s.{name}, t.{name})" for name in ("target", "last_event_time", "last_place")},
        **{name: f"s.{name}" for name in ("merge_seconds", "updated_at")},
        "last_batch": f"CASE WHEN s.last_batch = {NO_BATCH} THEN t.last_batch ELSE s.last_batch END",
    }


_ASSIGNMENTS = _assignments()
"""Expressions for the columns of a stored row `t` when a new row `s` arrives, in SQL of Spark and of delta-rs."""

_SAME_TABLE = "(t.database IS NOT DISTINCT FROM s.database) AND t.{table} = s.{table}"
"""Condition that two rows are of one table. Spark and delta-rs quote the column `table` in different ways."""


_READ = ("database", "table", "target", "state", "reason", "applied", "last_batch", "updated_at")


def _name(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["database"] or "", row["table"]


class StatusTable:
    """Table of states. Without a name nothing is written, and only the states of the batch are known."""

    def __init__(self, target: str | None, in_tasks: TaskMerges | None = None) -> None:
        """Start with no states. Without `in_tasks` delta-rs does not write the table."""
        self.target = target
        self._table = OwnTable(target, in_tasks or TaskMerges(SPARK)) if target else None
        self._known: dict[tuple[str, str], dict[str, str]] | None = None
        self._lock = RLock()

    def begin(self) -> None:
        """Begin a batch: other queries may have written states."""
        self._known = None

    def write(self, spark: SparkSession, found: Sequence[TableStatus], batch_id: int = NO_BATCH) -> None:
        """Merge states.

        Without a batch, states are written ahead of the commits that cause them. If the driver ends in between, the
        batch is read again, but the commit may have replaced the rows that show the state.
        """
        with self._lock:
            if found and self._table is not None:
                self._merge(spark, self._table, status_rows(found, batch_id), _SAME_TABLE, _ASSIGNMENTS)
            for one in found if batch_id == NO_BATCH else ():
                if one.state != OK:
                    states = self._wrong(spark).setdefault((one.database or "", one.table), {})
                    states.pop(one.state, None)  # keep the newest one last
                    states[one.state] = one.reason or one.state

    @staticmethod
    def _merge(
        spark: SparkSession,
        own: OwnTable,
        rows: pa.Table,
        same: str,
        updates: Mapping[str, str],
        *,
        adds: bool = True,
    ) -> None:
        """Merge rows `s` into the rows `t` of the table, with delta-rs or else with Spark."""
        schema = struct_type(COLUMNS)
        if own.merge(spark, rows, schema, same.format(table='"table"'), updates, adds=adds):
            return
        create_or_evolve(spark, own.target, schema)
        sets = ", ".join(f"t.{name} = {value}" for name, value in updates.items())
        actions = [Sql(f"WHEN MATCHED THEN UPDATE SET {sets}")]
        actions += [Sql("WHEN NOT MATCHED THEN INSERT *")] if adds else []
        frame = frame_of(spark, rows, struct_type(rows.schema))
        with session_settings(spark, settings_for(spark, SMALL)), temporary_view(frame) as view:
            merge(spark, own.target, view, Sql(same.format(table="`table`")), *actions)

    def _rows(self, spark: SparkSession) -> list[dict[str, Any]]:
        return self._table.rows(spark, _READ) if self._table else []

    def tables(self, spark: SparkSession) -> set[tuple[str, str]]:
        """Return the database and the name of each table that has a state."""
        return {_name(row) for row in self._rows(spark)}

    def written(self, spark: SparkSession) -> dict[str, tuple[int, int]]:
        """Return the targets that have been created. Leave out dropped and renamed tables.

        Returns:
            Last batch of each target, and the last time its state was written, in microseconds since 1970.
        """
        # Targets of snapshots and of RENAME TABLE have rows before any change is applied to them.
        return {
            row["target"]: (row["last_batch"], int(row["updated_at"].timestamp() * 1e6))
            for row in self._rows(spark)
            if row["target"] is not None and (row["state"] == OK or (row["applied"] and row["state"] not in GONE))
        }

    def reason(self, spark: SparkSession, name: tuple[str, str]) -> str | None:
        """Return why a table's target does not equal its source."""
        with self._lock:
            found = dict(self._wrong(spark).get(name, {}))
        return next((found[state] for state in reversed(found) if state in _UNSOUND), None)

    def end(self, spark: SparkSession, name: tuple[str, str], states: Sequence[str]) -> None:
        """End states of a table."""
        with self._lock:
            known = self._wrong(spark).get(name, {})
            if known.keys().isdisjoint(states):  # an UPDATE without effect takes as long as a small merge
                return
            for state in states:
                known.pop(state, None)
            self.set_ok(spark, [name], states)

    def _wrong(self, spark: SparkSession) -> dict[tuple[str, str], dict[str, str]]:
        """Return the states other than `ok` with their reasons, from earlier batches and this batch, by table."""
        if self._known is None:
            found = (row for row in self._rows(spark) if row["state"] != OK)
            self._known = {_name(row): {row["state"]: row["reason"] or row["state"]} for row in found}
        return self._known

    def set_ok(
        self,
        spark: SparkSession,
        tables: Iterable[tuple[str | None, str]],
        states: Sequence[str] = (QUARANTINED,),
        reason: str | None = None,
    ) -> None:
        """Set tables in one of the states to `ok`, if the reason is the given one."""
        now = datetime.now(timezone.utc)
        names = {(database or "", name) for database, name in tables}
        rows = [{"database": one, "table": name, "since": now, "reason": reason} for one, name in sorted(names)]
        if not rows or self._table is None or schema_of(spark, self._table.target) is None:
            return
        table = pa.Table.from_pylist(rows, pa.schema([COLUMNS.field(name) for name in rows[0]]))
        is_ended = f"t.state IN ({', '.join(map(repr, states))}) AND (s.reason IS NULL OR t.reason = s.reason)"
        same = f"coalesce(t.database, '') = s.database AND t.{{table}} = s.{{table}} AND {is_ended}"
        updates = {"state": f"'{OK}'", "since": "s.since", "reason": "NULL", "statement": "NULL"}
        self._merge(spark, self._table, table, same, updates, adds=False)
