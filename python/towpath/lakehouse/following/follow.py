"""Follows DDL statements: changes a target as its source table was changed, or says that it is stale."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from towpath.lakehouse.following.follow_columns import ColumnChanges
from towpath.lakehouse.following.follow_renames import TableRenames
from towpath.lakehouse.log.ordered_statements import Place, Statement
from towpath.lakehouse.log.timeline import Name
from towpath.lakehouse.merging.retries import is_interruption
from towpath.lakehouse.order.order import is_before
from towpath.lakehouse.rules.protection import rule_of
from towpath.lakehouse.seen.status import (
    DROPPED,
    GONE,
    OK,
    QUARANTINED,
    STALE,
    STATES,
    TableStatus,
    by_table,
    unordered,
)
from towpath.lakehouse.statements import (
    AddColumn,
    ChangePrimaryKey,
    CreateTable,
    DropColumn,
    DropTable,
    ModifyColumn,
    NotFollowed,
    RenameColumn,
    RenameTable,
    TruncateTable,
)
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import Sql, sql
from towpath.lakehouse.tables.tables import exists
from towpath.lakehouse.tables.target_properties import SOURCE
from towpath.lakehouse.tables.target_rows import has_row, order_of_rows
from towpath.printable import SHOWN, printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.lakehouse.statements import Action

    Actions = tuple[Action, ...]

_log = logging.getLogger("towpath.spark")

_CREATED_TWICE = "the table was created, but has older rows: that it was dropped was not read"
_IGNORED = "ddl_policy is ignore: the table was"
_UNLABELLED = "rows that replicate has not written do not say which table of the target they are of"
_WAITING = "messages that may be of the table which was created again wait in quarantine: apply them with reprocess"


@dataclass(frozen=True)
class Follower:
    """Follows the actions of statements."""

    spark: SparkSession
    known: KnownTargets

    def follow(self, statements: Sequence[Statement]) -> list[TableStatus]:
        """Follow statements. Returns the targets that have another state now."""
        said: list[TableStatus] = []
        done: list[str] = []
        log = self.known.log
        for statement in statements:
            for at, actions in enumerate(_grouped(statement.actions)):
                mark = f"{at} {statement.identity}"
                if log.has_followed(mark):
                    continue
                if isinstance(actions[0], RenameColumn | RenameTable):
                    self._write_ahead(said)  # a table takes along why it is stale
                    if done:  # repeated, it would miss the former names
                        log.add_followed(self.spark, done)
                    done = []
                said += self._follow_actions(actions, statement)
                if isinstance(actions[0], RenameColumn):  # repeated, it would move what got the former name meanwhile
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
        """Follow a change. Yields the states of targets."""
        try:
            for one in self._follow(actions, statement):
                yield self._said(one, statement)
        except Exception as error:  # a target that cannot follow must not stop the others
            if is_interruption(error):
                raise
            for name in statement.tables_of(actions[0]):
                yield self._said(TableStatus(*name, None, STALE, str(error)), statement)

    def _said(self, status: TableStatus, statement: Statement) -> TableStatus:
        """The state of a target, with the statement."""
        name, text = (status.database or "", status.table), printable(statement.text, SHOWN)
        status = replace(status, target=self.known.find(name), statement=text)
        if status.ends:
            self.known.status.end(self.spark, name, status.ends)
        if status.state == STALE:
            status = replace(status, reason=printable(status.reason or "", SHOWN))
            _log.warning("%s is stale: %s: %s", printable(".".join(name), SHOWN), status.reason, text)
        return status

    def _follow(self, actions: Actions, statement: Statement) -> Iterator[TableStatus]:
        """Follow a change. Yields the states of targets, without the statement."""
        action = actions[0]
        tables = statement.tables_of(action)
        if isinstance(action, NotFollowed):
            if not tables:
                shown = printable(action.reason, SHOWN), printable(statement.text, SHOWN)
                _log.warning("a statement that names no table is not followed: %s: %s", *shown)
            yield from (
                TableStatus(*one, None, STALE, action.reason) for one in tables if not self.known.is_skipped(one)
            )
        elif isinstance(action, RenameTable):
            yield from TableRenames(self.spark, self.known).follow(action, statement)
        elif tables and (target := self.known.of_names(*tables[0])) is not None:
            yield from self._follow_in(target, tables[0], actions, statement)

    def _follow_in(self, target: str, name: Name, actions: Actions, statement: Statement) -> Iterator[TableStatus]:
        """Follow a change in the target of its table."""
        action = actions[0]
        if not exists(self.spark, target):
            if isinstance(action, CreateTable):
                self.known.status.end(self.spark, name, GONE)
        elif isinstance(action, DropTable):
            yield TableStatus(*name, None, DROPPED, "the table was dropped")
        else:
            if isinstance(action, CreateTable):
                yield from self._create_table(action, name, target, statement)
            elif reason := self._unless_ruled_out(actions, name, target, statement):
                yield TableStatus(*name, None, STALE, reason)
            if not isinstance(action, DropColumn) and self._is_unlabelled(target):
                yield TableStatus(*name, None, STALE, _UNLABELLED)

    def _is_unlabelled(self, target: str) -> bool:
        """Whether some rows of a target do not say of which of its tables they are."""
        order = order_of_rows(self.spark, target) if self.known.may_share else None
        if order is None or SOURCE in self.known.table(target).properties(self.spark):
            return False
        return has_row(self.spark, target, sql("{order}.`table` IS NULL", order=order))

    def _unless_ruled_out(self, actions: Actions, name: Name, target: str, statement: Statement) -> str | None:
        """Change a target, as far as the rules for the columns of its table allow it. Returns why it is stale."""
        timeline, protection = self.known.log.timeline(self.spark, name), self.known.protection(self.spark)
        cut = timeline.cut(statement, actions[0])
        before, rules = protection.of(name, cut), protection.of(name, cut + len(actions))
        ruled = [rules.in_target(one, before) for one in actions]
        added = [one for one in ruled if isinstance(one, AddColumn)]
        reasons = [one for one in ruled if isinstance(one, str)]
        if added:
            known, former = timeline.columns(name, cut), timeline.ever_added(name, cut)
            reasons += self._columns(name, target).add(added, statement.place, known, former)
        elif not isinstance(ruled[0], str | None):
            reasons += filter(None, [self._change(ruled[0], name, target, statement.place)])
        return "; ".join(reasons) or None

    def _change(self, action: Action, name: Name, target: str, place: Place) -> str | None:
        """Change a target. Returns why it is stale."""
        match action:
            case TruncateTable():
                return self._truncate(name, target, place)
            case ModifyColumn(column=column):
                return self._columns(name, target).modify(column)
            case RenameColumn(old=old, new=new):
                return self._columns(name, target).rename(old, new, place)
            case ChangePrimaryKey():
                return self._change_key(action, name, target)
            case _:
                return None

    def _change_key(self, action: ChangePrimaryKey, name: Name, target: str) -> str | None:
        """Why a target is stale whose rows are merged by another key than its table has now."""
        if rule_of(self.known.options.keys, *name):
            return None
        key = self.known.table(target).key(self.spark) or []
        if {one.lower() for one in key} in (set(), {one.lower() for one in action.columns}):
            return None
        new = f"is ({', '.join(action.columns)}) now" if action.columns else "was dropped"
        return f"the primary key {new}; rows are merged by ({', '.join(key)})"

    def _columns(self, name: Name, target: str) -> ColumnChanges:
        rows = self.known.rows_of(self.spark, name, target)
        small = self.known.small(self.spark, name, target)
        return ColumnChanges(self.spark, target, self.known.table(target), self.known.follows, rows, small)

    def _create_table(
        self, action: CreateTable, name: Name, target: str, statement: Statement
    ) -> Iterator[TableStatus]:
        """A table that was dropped has no rows when it is created again.

        A table that was not dropped has none either: then the rows of its target came with the statement, in other
        partitions. They are deleted by the drop's place, since no row is between the drop and the creation.
        """
        timeline = self.known.log.timeline(self.spark, name)
        cut = timeline.cut(statement, action)
        gone_at = timeline.ended(name, cut)
        if timeline.exists(name, cut) is not False or gone_at is None:
            if not action.if_not_exists and self._has_older_rows(name, target, statement.place):
                yield TableStatus(*name, None, STALE, _CREATED_TWICE)
            return
        if reason := self._truncate(name, target, gone_at, "created again"):
            yield TableStatus(*name, None, STALE, reason)
        elif (aside := self.known.quarantine) is not None and aside.has_since(self.spark, name, gone_at):
            yield TableStatus(*name, None, QUARANTINED, _WAITING, ends=[*GONE, STALE])
        else:  # the target is correct again
            yield TableStatus(*name, None, OK, ends=STATES[1:])

    def _has_older_rows(self, name: Name, target: str, place: Place) -> bool:
        """Whether a table has rows in its target that are older than a place."""
        order = order_of_rows(self.spark, target)
        if order is None:
            return False
        rows, older = self.known.rows_of(self.spark, name, target), is_before(order, Sql("s.place"))
        return has_row(self.spark, target, sql("{rows} AND {older}", rows=rows, older=older), place)

    def _truncate(self, name: Name, target: str, place: Place, what: str = "truncated") -> str | None:
        """Delete the rows of a table that are older than a place. Returns why the target is stale."""
        if not self.known.follows:
            return f"{_IGNORED} {what}"
        kept = self.known.truncate(self.spark, target, name, place)
        return unordered(kept) if kept else None


def _grouped(actions: Iterable[Action]) -> Iterator[Actions]:
    """The actions. Those that add columns to one table one after the other are one change of its target."""
    for name, group in groupby(actions, lambda action: action.table if isinstance(action, AddColumn) else None):
        found = tuple(group)
        yield from ((one,) for one in found) if name is None else [found]
