"""Follows DDL statements: changes a target like its source table, or marks it stale."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from towpath.lakehouse.following.follow_renames import UNORDERED, follow_renames
from towpath.lakehouse.following.follow_table import Actions, TableChange
from towpath.lakehouse.following.stored_rows import stored_rows
from towpath.lakehouse.log.ordered_statements import Statement
from towpath.lakehouse.log.timeline import Name
from towpath.lakehouse.merging.retries import is_interruption
from towpath.lakehouse.seen.status import OK, STALE, TableStatus, by_table
from towpath.lakehouse.statements import Action, AddColumn, CreateTable, NotFollowed, RenameColumn, RenameTable
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.printable import SHOWN, printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("towpath.spark")


@dataclass(frozen=True)
class Follower:
    """Follower of the actions of statements."""

    spark: SparkSession
    known: KnownTargets

    def follow(self, statements: Sequence[Statement]) -> list[TableStatus]:
        """Follow statements. Return the targets with a new state."""
        said: list[TableStatus] = []
        done: list[str] = []
        log = self.known.log
        for statement in statements:
            for at, actions in enumerate(_grouped(statement.actions)):
                mark = f"{at} {statement.identity}"
                if log.has_followed(mark):
                    continue
                if isinstance(actions[0], RenameColumn | RenameTable):
                    self._write_ahead(said)  # a renamed table keeps its stale reason
                    log.add_followed(self.spark, done)  # repeated statements would miss the former names
                    done = []
                said += self._follow_actions(actions, statement)
                if isinstance(actions[0], RenameColumn):  # a repeat would move a newer column of the former name
                    log.add_followed(self.spark, [mark])
            done.append(statement.identity)
            for name in statement.tables:
                if target := self.known.find(name):
                    self.known.forget(target)
        self._write_ahead(said)
        return said

    def _write_ahead(self, said: Sequence[TableStatus]) -> None:
        if any(one.state != OK for one in said):
            self.known.status.write(self.spark, by_table(said))

    def _follow_actions(self, actions: Actions, statement: Statement) -> Iterator[TableStatus]:
        """Follow a change. Yield the states of targets."""
        try:
            for one in self._follow(actions, statement):
                yield self._said(one, statement)
        except Exception as error:  # a target that cannot follow must not stop other targets
            if is_interruption(error):
                raise
            for name in statement.tables_of(actions[0]):
                yield self._said(TableStatus(*name, None, STALE, str(error)), statement)

    def _said(self, status: TableStatus, statement: Statement) -> TableStatus:
        """Return the state of a target with the statement."""
        name, text = (status.database or "", status.table), printable(statement.text, SHOWN)
        status = replace(status, target=self.known.find(name), statement=text)
        if status.ends:
            self.known.status.end(self.spark, name, status.ends)
        if status.state == STALE:
            status = replace(status, reason=printable(status.reason or "", SHOWN))
            _log.warning("%s is stale: %s: %s", printable(".".join(name), SHOWN), status.reason, text)
        return status

    def _follow(self, actions: Actions, statement: Statement) -> Iterator[TableStatus]:
        """Follow a change. Yield the states of targets without the statement."""
        action = actions[0]
        tables = statement.tables_of(action)
        if isinstance(action, NotFollowed):
            if not tables:
                shown = printable(action.reason, SHOWN), printable(statement.text, SHOWN)
                _log.warning("a statement without a table name is not followed: %s: %s", *shown)
            yield from (
                TableStatus(*one, None, STALE, action.reason) for one in tables if not self.known.is_skipped(one)
            )
        elif isinstance(action, RenameTable):
            yield from follow_renames(self.spark, self.known, action, statement)
            for _, new in action.pairs:
                yield from self._named(statement.full_name(new), statement, action)
        elif tables and (target := self.known.of_names(*tables[0])) is not None:
            yield from TableChange(self.spark, self.known, statement, actions, tables[0], target).follow()
            if isinstance(action, CreateTable):
                yield from self._named(tables[0], statement, action)

    def _named(self, name: Name, statement: Statement, action: Action) -> Iterator[TableStatus]:
        """Yield the states of a table that got a name, and of the former table of this name, if they are in doubt.

        A row whose order relative to the rename of the former table is unknown may be of either.
        """
        timeline = self.known.log.timeline(self.spark, name)
        former = timeline.renamed(name, timeline.cut(statement, action)) if self.known.follows else None
        rows = stored_rows(self.spark, self.known, *former) if former else ()
        if former and any(one.has_unordered(statement.place) for one in rows):
            yield from (TableStatus(*one, None, STALE, UNORDERED) for one in (name, former[0]))


def _grouped(actions: Iterable[Action]) -> Iterator[Actions]:
    """Group the actions: consecutive actions that add columns to one table are one change of its target."""
    for name, group in groupby(actions, lambda action: action.table if isinstance(action, AddColumn) else None):
        found = tuple(group)
        yield from ((one,) for one in found) if name is None else [found]
