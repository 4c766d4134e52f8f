"""The tables of a log of statements: the current place of rows, and their columns.

A *cut* is a position among the actions of statements: a row at cut 3 was written after the first three actions and
before the fourth. A `Route` leads a row from its cut through all later statements. Everything here is a pure function
of the log: it does not depend on when a statement or a row arrived.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from towpath.lakehouse.log.ordered_statements import Place, Statement
from towpath.lakehouse.statements import (
    Action,
    AddColumn,
    Column,
    CreateTable,
    DropColumn,
    DropTable,
    ModifyColumn,
    NotFollowed,
    RenameColumn,
    RenameTable,
    TruncateTable,
)

Name = tuple[str, str]
"""Database and name of a table."""


@dataclass
class Columns:
    """Columns of a row after some statements. MySQL ignores the case of their names."""

    names: dict[str, str | None] = field(default_factory=dict)
    """Current names by the lower-case names in the row; None if the column was dropped."""
    added: dict[str, Column] = field(default_factory=dict)
    """Columns that the row lacks, by their lower-case names."""
    types: dict[str, Column] = field(default_factory=dict)
    """Columns of the row whose type statements changed, by their current lower-case names."""

    def follow(self, action: Action) -> None:
        """Apply a change of columns."""
        match action:
            case AddColumn(column=column):
                self.added.setdefault(column.name.lower(), column)  # the source may send it twice
            case DropColumn(name=name):
                self._drop(name.lower())
            case RenameColumn(old=old, new=new):
                self._rename(old, new)
            case ModifyColumn(column=column):
                # MySQL also converts the initial value that ADD COLUMN gave to older rows.
                self.types[column.name.lower()] = column
            case _:
                pass

    def now(self, name: str) -> str | None:
        """Return the current name of a column of the row; None if the column was dropped."""
        return self.names.get(name.lower(), name)

    def _drop(self, lower: str) -> None:
        self.types.pop(lower, None)
        if self.added.pop(lower, None) is None and (origin := self.origin(lower)) is not None:
            self.names[origin] = None

    def _rename(self, old: str, new: str) -> None:
        if modified := self.types.pop(old.lower(), None):
            self.types[new.lower()] = replace(modified, name=new)
        if added := self.added.pop(old.lower(), None):
            self.added[new.lower()] = replace(added, name=new)
        elif (origin := self.origin(old)) is not None:
            self.names[origin] = new

    def origin(self, name: str) -> str | None:
        """Return the lower-case name that a current column has in the row; None if the row lacks the column."""
        lower = name.lower()
        found = (origin for origin, current in self.names.items() if current and current.lower() == lower)
        return next(found, None if lower in self.names or lower in self.added else lower)

    def source(self, name: str) -> str | None:
        """Return the lower-case name in the row of a target's column; None if the row lacks it.

        A dropped column keeps its name until another one gets it. A row that was written during an online ALTER may
        have an added column.
        """
        lower = name.lower()
        if (origin := self.origin(lower)) is not None:
            return origin
        is_other = lower in self.names and (lower in self.added or self.names[lower] is not None)
        return None if is_other else lower


class Identity(NamedTuple):
    """Names of a column since its table was created, or since the column was added."""

    names: list[tuple[Name, str]]
    """Names of the table and of the column in lower case, the newest first."""
    cut: int
    """Cut before the oldest action on them."""
    is_added: bool
    """Whether ADD COLUMN or CREATE TABLE created the column."""


@dataclass(frozen=True)
class Route:
    """Effect of the statements after a cut on the rows of a table."""

    table: Name | None
    """Table that has the rows now, or had them when it was dropped; None if the rows are gone."""
    columns: Columns = field(default_factory=Columns)
    dropped: Statement | None = field(default=None, compare=False)
    """Statement that dropped the table."""
    unknown: str | None = None
    """Why the statements do not determine the fate of the rows."""


class Timeline:
    """Actions of statements in the source's order."""

    def __init__(self, statements: Iterable[Statement] = ()) -> None:
        """Index the actions of statements.

        Args:
            statements: Statements, oldest first, each once.
        """
        self.steps = [(statement, action) for statement in statements for action in statement.actions]
        self._routes: dict[tuple[Name, int], Route] = {}
        self._about: dict[Name, list[int]] = {}
        for at, (statement, action) in enumerate(self.steps):
            for name in dict.fromkeys(statement.tables_of(action)):
                self._about.setdefault(name, []).append(at)

    def about(self, name: Name) -> list[int]:
        """Return the positions of the actions on a table."""
        return self._about.get(name, [])

    def places(self, name: Name) -> list[Place]:
        """Return the places of the actions on a table."""
        return [self.steps[at][0].place for at in self.about(name)]

    def cut(self, statement: Statement, action: Action) -> int:
        """Return the cut before an action."""
        found = (at for at, one in enumerate(self.steps) if one[0].identity == statement.identity and one[1] == action)
        return next(found, len(self.steps))

    def route(self, name: Name, cut: int) -> Route:
        """Return the route of the rows that a table had at a cut."""
        if (name, cut) not in self._routes:
            self._routes[name, cut] = self._route(name, cut, len(self.steps))
        return self._routes[name, cut]

    def columns(self, name: Name, cut: int) -> Columns:
        """Return the columns of a table at a cut, with the effects of all actions since its creation."""
        return self._route(*self.origin(name, cut), cut).columns

    def origin(self, name: Name, cut: int) -> tuple[Name, int]:
        """Return the first name of the table at a cut, and the table's first cut."""
        *_, first = self.lineage(name, cut)
        return first

    def _route(self, name: Name, cut: int, end: int) -> Route:
        columns, dropped, unknown = Columns(), None, None
        for at, _, now in self._later(name, cut, end):
            if now is None:
                return Route(None, columns)
            statement, action = self.steps[at]
            dropped = dropped or (statement if isinstance(action, DropTable) else None)
            unknown = action.reason if isinstance(action, NotFollowed) else unknown
            columns.follow(action)
            name = now
        return Route(name, columns, dropped, unknown)

    def _later(self, name: Name, cut: int, end: int) -> Iterator[tuple[int, Name, Name | None]]:
        """Yield the actions between two cuts on the rows that a table had at the first cut.

        Each action comes with the table's name before and after it. The name after it is None if the rows are gone.
        """
        at, is_dropped = self._next(name, cut), False
        while at is not None and at < end:
            statement, action = self.steps[at]
            now = _moved(statement, action, name, is_dropped=is_dropped)
            yield at, name, now
            if now is None:
                return
            is_dropped |= isinstance(action, DropTable)
            name, at = now, self._next(now, at + 1)

    def _earlier(self, name: Name, cut: int) -> Iterator[tuple[int, Name, Name | None]]:
        """Yield the actions before a cut on the table at the cut, newest first.

        Each action comes with the table's name after and before it. The name before it is None if the table is new.
        """
        at = self._previous(name, cut)
        while at is not None:
            statement, action = self.steps[at]
            former: Name | None = name
            if isinstance(action, RenameTable):
                former = _former(statement, action, name)
            elif isinstance(action, DropTable) or (isinstance(action, CreateTable) and not action.if_not_exists):
                former = None
            yield at, name, former
            if former is None:
                return
            name, at = former, self._previous(former, at)

    def may_have(self, name: Name, cut: int, columns: Set[str]) -> bool:
        """Return whether a table may have had exactly these columns at a cut: earlier and later actions fit them.

        Args:
            name: The table.
            cut: The cut.
            columns: Lower-case names of the columns.
        """
        return self._fit_later(name, cut, set(columns)) and self._fit_earlier(name, cut, set(columns))

    def _fit_later(self, name: Name, cut: int, columns: set[str]) -> bool:
        for at, _, now in self._later(name, cut, len(self.steps)):
            if now is None:
                break
            action = self.steps[at][1]
            taken, given = _exchanged(action)
            may_have = isinstance(action, AddColumn) and action.if_not_exists
            if ((given & columns) - taken and not may_have) or (taken - columns and not isinstance(action, DropColumn)):
                return False
            columns = columns - taken | given
        return True

    def _fit_earlier(self, name: Name, cut: int, columns: set[str]) -> bool:
        for at, _, former in self._earlier(name, cut):
            action = self.steps[at][1]
            if former is None or isinstance(action, CreateTable):
                break
            taken, given = _exchanged(action)
            if (taken & columns) - given or given - columns:
                return False
            if isinstance(action, DropColumn) or (isinstance(action, AddColumn) and action.if_not_exists):
                break  # the table may have had the column
            columns = columns - given | taken
        return True

    def exists(self, name: Name, cut: int) -> bool | None:
        """Return whether a table of a name exists at a cut; None if the actions do not tell."""
        if (at := self._previous(name, cut)) is not None:
            return not self._ends(at, name)
        if (at := self._next(name, cut)) is None:
            return None
        statement, action = self.steps[at]
        is_created = isinstance(action, CreateTable) and not action.if_not_exists
        is_given = isinstance(action, RenameTable) and _moved(statement, action, name) is None
        return False if is_created or is_given else None

    def ended(self, name: Name, cut: int) -> Place | None:
        """Return the place of the last action before a cut that dropped or renamed a table."""
        about = self.about(name)
        found = (at for at in reversed(about[: bisect_left(about, cut)]) if self._ends(at, name))
        return next((self.steps[at][0].place for at in found), None)

    def renamed(self, name: Name, cut: int) -> tuple[Name, Place] | None:
        """Return the table that has the rows of the former table of a name, and the place where it was renamed.

        Return None if the name has a table at the cut, or if the former table was dropped.
        """
        about = self.about(name)
        for at in reversed(about[: bisect_left(about, cut)]):
            if not self._ends(at, name):
                break
            statement, action = self.steps[at]
            if isinstance(action, RenameTable) and (now := self.route(name, at).table) is not None:
                return now, statement.place
        return None

    def _ends(self, at: int, name: Name) -> bool:
        """Return whether no table has a name after an action on it."""
        statement, action = self.steps[at]
        if isinstance(action, RenameTable):
            return _former(statement, action, name) is None
        return isinstance(action, DropTable)

    def lineage(self, name: Name, cut: int) -> Iterator[tuple[Name, int]]:
        """Yield the names of the table at a cut, newest first, each with the table's first cut under the name."""
        former: Name | None = name
        for at, now, former in self._earlier(name, cut):
            if former != now:
                yield now, at + 1
        if former is not None:
            yield former, 0

    def identity(self, name: Name, column: str, cut: int) -> Identity:
        """Return the names that a column of a table had up to a cut."""
        column, is_added = column.lower(), False
        names = [(name, column)]
        for at, _, former in self._earlier(name, cut):
            cut = at
            match self.steps[at][1]:
                case CreateTable(if_not_exists=False, columns=columns):
                    is_added = column in {one.name.lower() for one in columns}
                case AddColumn(column=added, if_not_exists=False) if added.name.lower() == column:
                    is_added = True
                    break
                case RenameColumn(old=old, new=new) if new.lower() == column:
                    column = old.lower()
                case DropColumn(name=lost) | RenameColumn(old=lost) if lost.lower() == column:
                    break  # another column has the name now
            if former is not None and (former, column) != names[-1]:
                names.append((former, column))
        return Identity(names, cut, is_added)

    def has_definition(self, name: Name) -> bool:
        """Return whether the CREATE TABLE of a table, with its columns, is among the actions."""
        _, cut = self.origin(name, len(self.steps))
        action = self.steps[cut - 1][1] if cut else None
        return isinstance(action, CreateTable) and bool(action.columns)

    def lost(self, name: Name, cut: int) -> set[str]:
        """Return the lower-case column names that a table, or a former table of its name, has lost at a cut."""
        steps = {at for at in self.about(name) if at < cut}.union(at for at, *_ in self._earlier(name, cut))
        lost: set[str] = set()
        for at in sorted(steps):
            taken, given = _exchanged(self.steps[at][1])
            lost = (lost | taken) - given
        return lost

    def emptied(self, name: Name) -> list[Place]:
        """Return the places of the actions after which a name had no rows."""
        return [
            self.steps[at][0].place
            for at in self.about(name)
            if isinstance(self.steps[at][1], TruncateTable) or self._ends(at, name)
        ]

    def _next(self, name: Name, cut: int) -> int | None:
        about = self.about(name)
        at = bisect_left(about, cut)
        return about[at] if at < len(about) else None

    def _previous(self, name: Name, cut: int) -> int | None:
        about = self.about(name)
        at = bisect_left(about, cut)
        return about[at - 1] if at else None


def _exchanged(action: Action) -> tuple[set[str], set[str]]:
    """Return two sets of lower-case column names: present only before an action, and present only after it.

    A column that the action changes in place is in both sets.
    """
    match action:
        case AddColumn(column=column):
            return set(), {column.name.lower()}
        case DropColumn(name=name):
            return {name.lower()}, set()
        case RenameColumn(old=old, new=new):
            return {old.lower()}, {new.lower()}
        case ModifyColumn(column=column):
            return {column.name.lower()}, {column.name.lower()}
        case _:
            return set(), set()


def _moved(statement: Statement, action: Action, name: Name, *, is_dropped: bool = False) -> Name | None:
    """Return the name of a table's rows after an action; None if the rows are gone."""
    if isinstance(action, TruncateTable):
        return None
    if isinstance(action, CreateTable):
        return name if action.if_not_exists and not is_dropped else None
    if not isinstance(action, RenameTable):
        return name
    for old, new in action.pairs:
        if name == statement.full_name(old) and not is_dropped:
            name = statement.full_name(new)
        elif name == statement.full_name(new):
            return None  # an earlier statement dropped or renamed the table of this name
    return name


def _former(statement: Statement, action: RenameTable, name: Name) -> Name | None:
    """Return the name that a table had before RENAME TABLE; None if no table got this name."""
    found = [one for one in statement.tables_of(action) if _moved(statement, action, one) == name]
    return found[0] if found else None
