"""The tables of a log of statements: where rows belong now, and with which columns.

A *cut* is a position in a log: a row at cut 3 was written after the first three statements and before the fourth. A
`Route` leads a row from its cut through all later statements. When the log grows, stored rows change from the route of
the shorter log to that of the longer one. Nothing else depends on when a statement or a row arrived.

Everything here is a pure function of the log. `replicate` does not use it yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from towpath.lakehouse.ordered_statements import Statement
from towpath.lakehouse.statements import (
    Action,
    AddColumn,
    ChangeColumn,
    CreateTable,
    DropColumn,
    DropTable,
    NotFollowed,
    RenameColumn,
    RenameTable,
    TruncateTable,
)

Name = tuple[str, str]
"""The database and the name of a table."""

Cells = Mapping[str, Any]
"""The values of a row by column."""


@dataclass
class Columns:
    """The columns of a row after some statements. MySQL ignores the case of their names."""

    names: dict[str, str | None] = field(default_factory=dict)
    """Current names by the lower-case names in the row; None if the column was dropped."""
    added: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """Names and values of the columns that the row lacks, by lower-case names."""

    def add(self, name: str, value: Any) -> None:
        """Follow ADD COLUMN."""
        self.added[name.lower()] = name, value

    def drop(self, name: str) -> None:
        """Follow DROP COLUMN."""
        if self.added.pop(name.lower(), None) is None and (origin := self._origin(name)) is not None:
            self.names[origin] = None

    def rename(self, old: str, new: str) -> None:
        """Follow RENAME COLUMN."""
        if added := self.added.pop(old.lower(), None):
            self.added[new.lower()] = new, added[1]
        elif (origin := self._origin(old)) is not None:
            self.names[origin] = new

    def carry(self, cells: Cells) -> dict[str, Any]:
        """Return the cells of a row after the statements."""
        renamed = ((self.names.get(name.lower(), name), value) for name, value in cells.items())
        return self._with_added({name: value for name, value in renamed if name is not None})

    def change_to(self, other: Columns, cells: Cells) -> dict[str, Any]:
        """Return the cells that `other` carries, from those that this carried."""
        changed = {}
        for name, value in cells.items():
            origin = None if name.lower() in self.added else self._origin(name)
            if origin is not None and (new := other.names.get(origin, name)) is not None:
                changed[new] = value
        return other._with_added(changed)

    def _origin(self, name: str) -> str | None:
        """The lower-case name in the row of a column; None if the row lacks it."""
        lower = name.lower()
        found = (origin for origin, current in self.names.items() if current and current.lower() == lower)
        return next(found, None if lower in self.names else lower)

    def _with_added(self, cells: dict[str, Any]) -> dict[str, Any]:
        known = {name.lower() for name in cells}
        return cells | {name: value for lower, (name, value) in self.added.items() if lower not in known}


@dataclass(frozen=True)
class Route:
    """What the statements after a cut make of the rows of a table."""

    table: Name | None
    """The table that has the rows now; None if they are gone."""
    columns: Columns = field(default_factory=Columns)
    unknown: tuple[str, ...] = ()
    """Why the log does not say all that became of the rows."""


class Timeline:
    """A log of statements in the source's order."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        """Read the log.

        Args:
            statements: The statements, oldest first, each once.
        """
        self.statements = tuple(statements)
        self._routes: dict[tuple[Name, int], Route] = {}
        self._of_table: dict[Name, list[int]] = {}
        for at, statement in enumerate(self.statements):
            for name in statement.tables:
                self._of_table.setdefault(name, []).append(at)

    def route(self, name: Name, cut: int) -> Route:
        """Return what became of the rows that a table had at a cut."""
        if (name, cut) not in self._routes:
            self._routes[name, cut] = self._route(name, cut)
        return self._routes[name, cut]

    def _route(self, name: Name, cut: int) -> Route:
        columns, unknown = Columns(), []
        at = self._next(name, cut)
        while at is not None:
            statement = self.statements[at]
            for action in statement.actions:
                if name in statement.tables_of(action):
                    moved = _moved(statement, action, name)
                    if moved is None:
                        return Route(None)
                    name = moved
                    unknown += _follow(action, columns)
            at = self._next(name, at + 1)
        return Route(name, columns, tuple(unknown))

    def _next(self, name: Name, cut: int) -> int | None:
        return next((at for at in self._of_table.get(name, ()) if at >= cut), None)

    def origin(self, name: Name, cut: int) -> Name | None:
        """Return the name of a current table at a cut; None if it did not exist yet."""
        for statement in reversed(self.statements[cut:]):
            for action in reversed(statement.actions):
                if name in statement.tables_of(action):
                    former = [one for one in statement.tables_of(action) if _moved(statement, action, one) == name]
                    if not former:
                        return None
                    name = former[0]
        return name


def _moved(statement: Statement, action: Action, name: Name) -> Name | None:
    """The name of a table's rows after an action; None if they are gone."""
    if isinstance(action, DropTable | TruncateTable):
        return None
    if isinstance(action, CreateTable):
        return name if action.if_not_exists else None
    if not isinstance(action, RenameTable):
        return name
    for old, new in action.pairs:
        if name == statement.full_name(old):
            name = statement.full_name(new)
        elif name == statement.full_name(new):
            return None  # an earlier statement dropped or renamed the table that had the name
    return name


def _follow(action: Action, columns: Columns) -> list[str]:
    """Follow a change of columns. Return why the values of older rows are not known, if so."""
    match action:
        case AddColumn(column=column):
            columns.add(column.name, column.initial)
            return [f"{column.name}: {column.unknown}"] if column.unknown else []
        case DropColumn(name=name):
            columns.drop(name)
        case RenameColumn(old=old, new=new):
            columns.rename(old, new)
        case ChangeColumn(old=old, column=column):
            columns.rename(old, column.name)
        case NotFollowed(reason=reason):
            return [reason]
        case _:
            pass
    return []
