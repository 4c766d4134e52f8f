"""The tables of a log of statements: where rows belong now, and with which columns.

A *cut* is a position among the actions of statements: a row at cut 3 was written after the first three and before the
fourth. A
`Route` leads a row from its cut through all later statements. Nothing depends on when a statement or a row arrived.
Everything here is a pure function of the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
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
"""The database and the name of a table."""


@dataclass
class Columns:
    """The columns of a row after some statements. MySQL ignores the case of their names."""

    names: dict[str, str | None] = field(default_factory=dict)
    """Current names by the lower-case names in the row; None if the column was dropped."""
    added: dict[str, Column] = field(default_factory=dict)
    """The columns that the row lacks, by their lower-case names."""
    types: dict[str, Column] = field(default_factory=dict)
    """The columns of the row that statements gave another type, by their current lower-case names."""

    def follow(self, action: Action) -> None:
        """Follow a change of columns."""
        match action:
            case AddColumn(column=column):
                self.added.setdefault(column.name.lower(), column)  # a second one was sent again
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
        """Return the current name of a column of the row; None if it was dropped."""
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
        """Return the lower-case name in the row of a current column; None if the row lacks it."""
        lower = name.lower()
        found = (origin for origin, current in self.names.items() if current and current.lower() == lower)
        return next(found, None if lower in self.names or lower in self.added else lower)

    def origins(self, name: str) -> set[str]:
        """Return the lower-case names that a column of the target may have in the row; a dropped one keeps its own."""
        lower = name.lower()
        found = {origin for origin, current in self.names.items() if current and current.lower() == lower}
        return found | ({lower} if self.names.get(lower) is None else set())


class Identity(NamedTuple):
    """What a column has been since its table was created, or since it was added."""

    names: list[tuple[Name, str]]
    """The names of the table and of the column in lower case, the newest first."""
    cut: int
    """The cut before the oldest action on them."""
    is_added: bool
    """Whether ADD COLUMN or CREATE TABLE says that there is such a column."""


@dataclass(frozen=True)
class Route:
    """What the statements after a cut make of the rows of a table."""

    table: Name | None
    """The table that has the rows now, or that had them when it was dropped; None if they are gone."""
    columns: Columns = field(default_factory=Columns)
    dropped: Statement | None = field(default=None, compare=False)
    """The statement that dropped the table."""
    is_put_away: bool = False
    """Whether another table got the name in the statement that took it from this one, as in a migration."""
    unknown: str | None = None
    """Why the statements do not say what became of the rows."""


class Timeline:
    """The actions of statements in the source's order."""

    def __init__(self, statements: Iterable[Statement] = ()) -> None:
        """Read the statements.

        Args:
            statements: The statements, oldest first, each once.
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
        """Return what became of the rows that a table had at a cut."""
        if (name, cut) not in self._routes:
            self._routes[name, cut] = self._route(name, cut, len(self.steps))
        return self._routes[name, cut]

    def columns(self, name: Name, cut: int) -> Columns:
        """Return what the actions since its creation made of the columns of a table at a cut."""
        return self._route(*self.origin(name, cut), cut).columns

    def origin(self, name: Name, cut: int) -> tuple[Name, int]:
        """Return the first name of the table of a cut, and the first cut of the table there."""
        *_, first = self.lineage(name, cut)
        return first

    def _route(self, name: Name, cut: int, end: int) -> Route:
        columns, dropped, is_put_away, unknown = Columns(), None, False, None
        for at, former, now in self._later(name, cut, end):
            if now is None:
                return Route(None, columns)
            statement, action = self.steps[at]
            is_put_away |= now != former and not self._ends(at, former)
            dropped = dropped or (statement if isinstance(action, DropTable) else None)
            unknown = action.reason if isinstance(action, NotFollowed) else unknown
            columns.follow(action)
            name = now
        return Route(name, columns, dropped, is_put_away, unknown)

    def _later(self, name: Name, cut: int, end: int) -> Iterator[tuple[int, Name, Name | None]]:
        """Yield the actions between two cuts on the rows that a table had at the first one.

        Each with the name of the table before it, and after it; None: the rows are gone.
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
        """Yield the actions on the table of a cut before it, the newest first.

        Each with the name of the table after it, and before it; None: there was no table.
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
        """Return whether a table may have had exactly these columns at a cut: the actions before and after it fit.

        Args:
            name: The table.
            cut: The cut.
            columns: Their names in lower case.
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
                break  # it may have had the column, or not
            columns = columns - given | taken
        return True

    def exists(self, name: Name, cut: int) -> bool | None:
        """Return whether there is a table of a name at a cut; None if the actions do not say."""
        if (at := self._previous(name, cut)) is not None:
            return not self._ends(at, name)
        if (at := self._next(name, cut)) is None:
            return None
        statement, action = self.steps[at]
        is_created = isinstance(action, CreateTable) and not action.if_not_exists
        is_given = isinstance(action, RenameTable) and _moved(statement, action, name) is None
        return False if is_created or is_given else None

    def ended(self, name: Name, cut: int) -> Place | None:
        """Return the place of the last action before a cut that dropped a table, or gave it another name."""
        about = self.about(name)
        found = (at for at in reversed(about[: bisect_left(about, cut)]) if self._ends(at, name))
        return next((self.steps[at][0].place for at in found), None)

    def _ends(self, at: int, name: Name) -> bool:
        """Whether no table has a name after an action on it."""
        statement, action = self.steps[at]
        if isinstance(action, RenameTable):
            return _former(statement, action, name) is None
        return isinstance(action, DropTable)

    def lineage(self, name: Name, cut: int) -> Iterator[tuple[Name, int]]:
        """Yield the names that a table of a cut had, the newest first, each with the first cut of the table there."""
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
            if former is not None and (former, column) != names[-1]:
                names.append((former, column))
        return Identity(names, cut, is_added)

    def put_away_from(self, name: Name) -> Name | None:
        """Return the former name of a table that another table got in the same statement; None if there is none."""
        for (_, begin), (former, _) in pairwise(self.lineage(name, len(self.steps))):
            if not self._ends(begin - 1, former):
                return former
        return None

    def ever_added(self, name: Name, cut: int) -> set[str]:
        """Return the lower-case names of the columns that tables of a name got before a cut."""
        actions = (self.steps[at][1] for at in self.about(name) if at < cut)
        return {one.column.name.lower() for one in actions if isinstance(one, AddColumn)}

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
    """Return the lower-case names of columns that a table has before an action and not after it, and the reverse.

    A column that the action changes in place is among both.
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
    """Return the name of a table's rows after an action; None if they are gone."""
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
            return None  # an earlier statement dropped or renamed the table that had the name
    return name


def _former(statement: Statement, action: RenameTable, name: Name) -> Name | None:
    """Return the name before RENAME TABLE of the table that has a name after it; None if there was none."""
    found = [one for one in statement.tables_of(action) if _moved(statement, action, one) == name]
    return found[0] if found else None
