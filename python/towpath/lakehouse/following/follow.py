"""Follows DDL statements: changes a target as its source table was changed, or says that it is stale."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import TYPE_CHECKING

from towpath.lakehouse.following.follow_columns import ColumnChanges, KnownColumns
from towpath.lakehouse.following.follow_renames import TableRenames
from towpath.lakehouse.following.followed_targets import FollowedTargets
from towpath.lakehouse.log.ordered_statements import Place, Statement
from towpath.lakehouse.log.statement_log import StatementLog
from towpath.lakehouse.merging.interruption import is_interruption
from towpath.lakehouse.order.order import is_before
from towpath.lakehouse.rules.protection import Protection, rule_of
from towpath.lakehouse.seen.aside import Aside
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
from towpath.lakehouse.seen.status_table import StatusTable
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
from towpath.lakehouse.tables.sql import Sql, sql
from towpath.lakehouse.tables.target_properties import KEY, REBUILT
from towpath.lakehouse.tables.target_rows import has_row, order_of_rows
from towpath.printable import SHOWN, printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.lakehouse.statements import Action, TableName

_log = logging.getLogger("towpath.spark")

_WAITING = "messages that may be of the table which was created again wait in quarantine: apply them with reprocess"


@dataclass(frozen=True)
class _AddColumns:
    """The columns that a statement adds to a table one after the other: they are one change of its target."""

    table: TableName
    actions: tuple[AddColumn, ...]

    @property
    def conditional(self) -> set[str]:
        """Those in lower case that are added only if the table lacks them."""
        return {one.column.name.lower() for one in self.actions if one.if_not_exists}


@dataclass(frozen=True)
class Follower:
    """Follows the actions of statements.

    Args:
        spark: The session.
        targets: The targets of tables.
        follows: Whether targets may be changed.
        protection: The rules for the columns of tables.
        status: The states of targets.
        log: The statements that were read.
        renames: Whether a target gets the rows of the one whose table got its name. The rows of a history stay.
    """

    spark: SparkSession
    targets: FollowedTargets
    follows: bool
    protection: Protection
    status: StatusTable
    log: StatementLog
    renames: bool = True
    quarantine: Aside | None = None
    """The table for messages of tables whose changes cannot be applied."""
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The keys that the user gives, by table."""
    _said: list[TableStatus] = field(default_factory=list, init=False)
    """What the current statement has done to tables as a whole."""

    def follow(self, statements: Sequence[Statement]) -> list[TableStatus]:
        """Follow statements. Returns the targets that have another state now."""
        return replace(self)._follow_each(statements)  # others may be followed at the same time

    def _follow_each(self, statements: Sequence[Statement]) -> list[TableStatus]:
        said: list[TableStatus] = []
        for statement in statements:
            said += self._follow_actions(statement)
            for target in self.targets.of_statement(statement):
                self.targets.changed(target)
        if any(one.state != OK for one in said):
            self.status.write(self.spark, by_table(said))
        return said

    def _follow_actions(self, statement: Statement) -> list[TableStatus]:
        """Follow the actions of a statement."""
        said: list[TableStatus] = []
        for action in _grouped(statement.actions):
            try:
                reasons = self._follow(action, statement)
            except Exception as error:  # a target that cannot follow must not stop the others
                if is_interruption(error):
                    raise
                reasons = {name: str(error) for name in _tables_of(action, statement)}
            said += [replace(one, statement=printable(statement.text, SHOWN)) for one in self._said]
            self._said.clear()
            said += [self._stale(name, reason, statement) for name, reason in reasons.items()]
        return said

    def _say(self, name: tuple[str, str], state: str, reason: str | None = None, *, ends: Sequence[str] = ()) -> None:
        """Say that a table is gone, or that there is one again, with the states that this ends."""
        if not self.renames:  # a history has neither
            return
        if ends:
            self.status.end(self.spark, name, ends)
        self._said.append(TableStatus(*name, self.targets.of(*name), state, reason, ends=ends))

    def _follow(self, action: Action | _AddColumns, statement: Statement) -> dict[tuple[str, str], str]:
        """Follow an action. Returns why the targets of tables are stale."""
        tables = _tables_of(action, statement)
        if isinstance(action, NotFollowed):
            if not tables and self.renames:  # once, not for a history again
                shown = printable(action.reason, SHOWN), printable(statement.text, SHOWN)
                _log.warning("a statement that names no table is not followed: %s: %s", *shown)
            return {name: action.reason for name in tables if not self._is_skipped(name)}
        if isinstance(action, RenameTable):
            return self._renames.follow(action, statement) if self.renames else {}
        if not tables:
            return {}
        target = self.targets.of(*tables[0])
        if target is None:
            return {}
        if not self.targets.exists(target):
            if isinstance(action, CreateTable) and self.renames:
                self.status.end(self.spark, tables[0], GONE)
            return {}
        reason = self._unless_ruled_out(action, tables[0], target, statement)
        if not isinstance(action, DropTable | DropColumn):
            reason = reason or self.targets.why_unlabelled(target)
        return {tables[0]: reason} if reason else {}

    def _stale(self, name: tuple[str, str], reason: str, statement: Statement) -> TableStatus:
        try:
            target = self.targets.of(*name)
        except ValueError:  # a template needs what the statement does not say
            target = None
        status = TableStatus.stale(name, target, reason, statement.text)
        _log.warning("%s is stale: %s: %s", printable(".".join(name), SHOWN), status.reason, status.statement)
        return status

    def _is_skipped(self, name: tuple[str, str]) -> bool:
        """Whether a table is not replicated, so that no statement makes it stale."""
        try:
            return self.targets.of(*name) is None
        except ValueError:  # a template needs what the statement does not say
            return False

    def _unless_ruled_out(
        self, action: Action | _AddColumns, name: tuple[str, str], target: str, statement: Statement
    ) -> str | None:
        """Change a target, as far as the rules for the columns of its table allow it. Returns why it is stale."""
        timeline = self.log.timeline(self.spark, name)
        first, *_ = actions = action.actions if isinstance(action, _AddColumns) else (action,)
        cut = timeline.cut(statement, first)
        rules = self.protection.of(name, cut + len(actions))
        ruled = [rules.in_target(one, self.protection.of(name, cut)) for one in actions]
        reasons = [one for one in ruled if isinstance(one, str)]
        if not isinstance(action, _AddColumns):
            changes = (self._change(one, name, target, statement) for one in ruled if not isinstance(one, str | None))
            return next(chain(reasons, changes), None)
        followed = [one.column for one in ruled if isinstance(one, AddColumn)]
        before, ever_added = timeline.columns(name, cut), timeline.ever_added(name, cut)
        known = KnownColumns(before.added.keys(), before.names.keys() | (ever_added - before.added.keys()))
        added = self._columns(name, target).add(followed, target, statement.place, known, action.conditional)
        return "; ".join(filter(None, [*reasons, added]))

    def _change(self, action: Action, name: tuple[str, str], target: str, statement: Statement) -> str | None:
        """Change a target. Returns why it is stale."""
        place = statement.place
        if isinstance(action, DropTable):
            self._say(name, DROPPED, "the table was dropped")
        elif isinstance(action, CreateTable):
            return self._create_table(action, name, target, statement)
        elif isinstance(action, TruncateTable):
            return self._truncate_table(name, target, place)
        elif isinstance(action, ModifyColumn):
            return self._columns(name, target).modify(action, target)
        elif isinstance(action, RenameColumn):
            return self._columns(name, target).rename(action, target, place)
        elif isinstance(action, ChangePrimaryKey) and self.renames:
            return self._change_key(action, name, target)
        return None

    def _change_key(self, action: ChangePrimaryKey, name: tuple[str, str], target: str) -> str | None:
        """Why a target is stale whose rows are merged by another key than its table has now."""
        if rule_of(self.keys, *name):
            return None
        key: list[str] = json.loads(self.targets.properties(target).get(KEY, "[]"))
        if {one.lower() for one in key} in (set(), {one.lower() for one in action.columns}):
            return None
        new = f"is ({', '.join(action.columns)}) now" if action.columns else "was dropped"
        return f"the primary key {new}; rows are merged by ({', '.join(key)})"

    def _columns(self, name: tuple[str, str], target: str) -> ColumnChanges:
        rows = self.targets.rows_of(name, target)
        small = self.targets.small(name, target)
        return ColumnChanges(self.spark, self.follows, has_rows_of_now=self.renames, rows=rows, small=small)

    @property
    def _renames(self) -> TableRenames:
        return TableRenames(
            self.spark,
            self.targets,
            self.follows,
            self.protection,
            self.log,
            self.status,
            self._say,
        )

    def _create_table(
        self, action: CreateTable, name: tuple[str, str], target: str, statement: Statement
    ) -> str | None:
        """A table that was dropped has no rows when it is created again.

        A table that was not dropped has none either: then the rows of its target came with the statement, in other
        partitions. They are deleted by the drop's place, since no row is between the drop and the creation.
        """
        timeline = self.log.timeline(self.spark, name)
        cut = timeline.cut(statement, action)
        gone_at = timeline.ended(name, cut)
        rebuilt_at = Place.parse(self.targets.properties(target).get(REBUILT))
        is_rebuilt = gone_at is not None and rebuilt_at is not None and not gone_at.is_newer(rebuilt_at)
        if timeline.exists(name, cut) is not False or gone_at is None or is_rebuilt:
            return None if action.if_not_exists else self._created_twice(name, target, statement.place)
        if not self.follows:
            return "ddl_policy is ignore: the table was created again"
        reason = self._truncate(name, target, gone_at)
        if reason:
            self.status.write(self.spark, [TableStatus.stale(name, target, reason, statement.text)])
        elif self.quarantine is not None and self.quarantine.has_since(self.spark, name, gone_at):
            self._say(name, QUARANTINED, _WAITING, ends=[*GONE, STALE])
            self.status.write(self.spark, self._said[-1:])
        else:  # the target is correct again
            self._say(name, OK, ends=STATES[1:])
        return reason

    def _created_twice(self, name: tuple[str, str], target: str, place: Place) -> str | None:
        """Why a target is stale whose table was created, although it had rows before."""
        order = order_of_rows(self.spark, target)
        if order is None:
            return None
        rows = self.targets.rows_of(name, target)
        older = sql("{rows} AND {before}", rows=rows, before=is_before(order, Sql("s.place")))
        if has_row(self.spark, target, older, place):
            return "the table was created, but has older rows: that it was dropped was not read"
        return None

    def _truncate(self, name: tuple[str, str], target: str, place: Place) -> str | None:
        """Delete the rows of a table that are older than a place. Returns why the target is stale."""
        kept = self.targets.truncate(target, name, place)
        return unordered(kept) if kept else None

    def _truncate_table(self, name: tuple[str, str], target: str, place: Place) -> str | None:
        if not self.follows and self.renames:
            return "ddl_policy is ignore: the table was truncated"
        return self._truncate(name, target, place)


def _tables_of(action: Action | _AddColumns, statement: Statement) -> list[tuple[str, str]]:
    return statement.tables_of(action.actions[0] if isinstance(action, _AddColumns) else action)


def _grouped(actions: Iterable[Action]) -> Iterator[Action | _AddColumns]:
    """The actions; columns that are added to one table one after the other are one action."""
    for name, group in groupby(actions, lambda action: action.table if isinstance(action, AddColumn) else None):
        if name is None:
            yield from group
        else:
            yield _AddColumns(name, tuple(one for one in group if isinstance(one, AddColumn)))
