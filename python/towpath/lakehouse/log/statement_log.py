"""The log: a table with each statement that a query has read, once. The log is written before a statement is followed.

Without a table the log is in the memory of the driver.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from towpath.ddl import quoted
from towpath.lakehouse.log.ordered_statements import (
    Place,
    Statement,
    completed,
    in_order,
    read_statement,
)
from towpath.lakehouse.log.timeline import Name, Timeline
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.statements import CreateTable
from towpath.lakehouse.tables.own_table import LogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TEXTS = ("identity", "place", "tables", "sql", "table_changes", "schema", "database", "table", "connector")
_COLUMNS = pa.schema([(name, pa.string()) for name in _TEXTS])


_FOLLOWED = "followed "
"""Prefix of the identity of a row that marks a followed statement."""


class Appended(NamedTuple):
    """Statements of a batch that have to be followed."""

    firsts: list[Statement]
    """Statements whose message was read first among their copies."""
    late: list[Statement]
    """New statements that are older than a logged statement about the same table."""


class StatementLog:
    """Log of the statements of a query."""

    def __init__(self, table: str | None, in_tasks: TaskMerges) -> None:
        """Start with no statements.

        Args:
            table: Name or path of the log's table. None keeps the log in memory.
            in_tasks: Settings that say which tables delta-rs may merge.
        """
        self.table = table
        self._stored = LogTable(table, ("identity",), in_tasks) if table else None
        self._entries: dict[str, _Entry] = {}
        self._about: dict[Name, set[str]] = {}
        self._timelines: dict[Name, Timeline] = {}
        self._followed: set[str] = set()
        self._is_read = table is None

    def names(self, spark: SparkSession) -> Collection[Name]:
        """Return the tables that statements name."""
        self._read(spark)
        return self._about.keys()

    def in_memory(self, spark: SparkSession) -> StatementLog:
        """Return a log in memory with the same statements."""
        self._read(spark)
        found = StatementLog(None, TaskMerges())
        found._add(self._entries.values())
        return found

    def append(self, spark: SparkSession, statements: Sequence[Statement]) -> Appended:
        """Append statements that the log lacks. Skip copies, since TiCDC sends a statement to each partition."""
        self._read(spark)
        if any(isinstance(action, CreateTable) for one in statements for action in one.actions):
            self._read_entries(spark)  # `rebuild` may have logged that the table was created
        new: dict[str, _Entry] = {}
        for one in statements:
            if one.identity not in self._entries:
                new.setdefault(one.identity, _Entry.of(one))
        if new and self._stored:
            self._stored.append(spark, pa.Table.from_pylist([one.row for one in new.values()], _COLUMNS))
        self._add(new.values())
        # If the batch of a first message failed, Spark repeats it before any other batch.
        left = [one for one in statements if one.identity not in self._followed]
        firsts = [one for one in left if one.place == self._entries[one.identity].place]
        return Appended(firsts, [one.statement for one in new.values() if self._is_late(one, new)])

    def add_followed(self, spark: SparkSession, identities: Sequence[str]) -> None:
        """Record that statements, or effects of them, were followed, so that a repeated batch does not follow them."""
        new = [one for one in identities if one not in self._followed]
        if new and self._stored:
            rows = [{"identity": f"{_FOLLOWED}{one}"} for one in new]
            self._stored.append(spark, pa.Table.from_pylist(rows, _COLUMNS))
        self._followed.update(new)

    def has_followed(self, identity: str) -> bool:
        """Return whether a statement, or an effect of one, was followed."""
        return identity in self._followed

    def add_created(self, spark: SparkSession, name: Name) -> None:
        """Record that a table exists again, if the last statement about it dropped or renamed it."""
        timeline = self.timeline(spark, name)
        gone_at = timeline.ended(name, len(timeline.steps))
        if gone_at is None or timeline.exists(name, len(timeline.steps)) is not False:
            return
        place = Place({**gone_at.fields, "step": gone_at.fields["step"] + 1})
        named = quoted(name[1])
        said = dict.fromkeys(_TEXTS) | {
            "sql": f"CREATE TABLE {named} LIKE {named}",
            "database": name[0],
            "table": name[1],
        }
        if created := read_statement(place, said):
            self.append(spark, [created])

    def timeline(self, spark: SparkSession, name: Name) -> Timeline:
        """Return the statements about a table, and about all tables that exchanged names with it."""
        self._read(spark)
        if name not in self._timelines:
            identities, names = self._related(name)
            found = Timeline(in_order(self._entries[one].statement for one in sorted(identities)))
            self._timelines |= dict.fromkeys(names, found)
        return self._timelines[name]

    def _related(self, name: Name) -> tuple[set[str], set[Name]]:
        identities: set[str] = set()
        names, waiting = {name}, [name]
        while waiting:
            for one in self._about.get(waiting.pop(), set()) - identities:
                identities.add(one)
                others = set(self._entries[one].tables) - names
                names |= others
                waiting += others
        return identities, names

    def _is_late(self, new: _Entry, others: Mapping[str, _Entry]) -> bool:
        """Return whether an earlier batch had a later statement about one of the same tables."""
        known = {one for name in new.tables for one in self._about[name]} - others.keys()
        return any(self._entries[one].place.is_newer(new.place) for one in known)

    def read_new(self, spark: SparkSession) -> list[Statement]:
        """Read and return the statements that other queries have written since the last read."""
        return [one.statement for one in self._read_entries(spark)]

    def _read(self, spark: SparkSession) -> None:
        """Read the entries of earlier runs, once. Parse their texts later."""
        if not self._is_read:
            self._read_entries(spark)
            self._is_read = True  # set last, so that a failed read is repeated

    def _read_entries(self, spark: SparkSession) -> list[_Entry]:
        """Read and return the new entries."""
        rows = {row["identity"]: row for row in self._stored.rows(spark, _TEXTS)} if self._stored else {}
        marks = {one for one in rows if one.startswith(_FOLLOWED)}
        self._followed |= {one.removeprefix(_FOLLOWED) for one in marks}
        new = [_Entry(row) for one, row in rows.items() if one not in marks and one not in self._entries]
        self._add(new)
        return new

    def _add(self, entries: Iterable[_Entry]) -> None:
        for one in entries:
            self._entries[one.identity] = one
            for name in one.tables:
                self._about.setdefault(name, set()).add(one.identity)
        self._timelines.clear()


@dataclass(frozen=True)
class _Entry:
    """Row of the log. Its text is parsed on first use."""

    row: Mapping[str, Any]

    @classmethod
    def of(cls, statement: Statement) -> _Entry:
        found = cls(
            {
                "identity": statement.identity,
                "place": str(statement.place),
                "tables": json.dumps(sorted(statement.tables), ensure_ascii=False),
                "database": statement.database,
                "table": statement.table,
                **statement.said,
            }
        )
        found.__dict__["statement"] = statement
        return found

    @property
    def identity(self) -> str:
        return str(self.row["identity"])

    @cached_property
    def place(self) -> Place:
        return Place(json.loads(self.row["place"]))

    @cached_property
    def tables(self) -> list[Name]:
        return [(database, name) for database, name in json.loads(self.row["tables"])]

    @cached_property
    def statement(self) -> Statement:
        found = read_statement(self.place, self.row)
        if found is None:  # each logged statement has a text or changes
            raise ValueError(f"empty statement in the table of statements: {self.row['identity']}")
        named = found.tables

        def of_other_case(database: str, table: str) -> list[Name]:
            folded = (database.lower(), table.lower())
            return [one for one in self.tables if one not in named and (one[0].lower(), one[1].lower()) == folded]

        return completed(found, lambda: self.tables, of_other_case)
