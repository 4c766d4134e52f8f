"""Routes the rows of a batch through the statements of the log to the tables that have them now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from towpath.lakehouse.log.timeline import Name, Route, Timeline
from towpath.lakehouse.reading.declarations import Declaration
from towpath.lakehouse.reading.source_tables import SourceTable, joined, source_tables
from towpath.printable import SHOWN, printable

if TYPE_CHECKING:
    from pyspark.sql import Row


def routed(
    found: Iterable[Row],
    declarations: Mapping[int, Declaration],
    timelines: Mapping[Name, Timeline],
    declared: Callable[[SourceTable], Set[str] | None],
) -> list[SourceTable]:
    """Return the tables that get the rows of a batch.

    Args:
        found: Summary of the events by slice.
        declarations: Declarations of the batch by hash.
        timelines: Statements about each table.
        declared: Returns the lower-case columns that the messages of a table declare, if any.
    """
    groups: dict[tuple[Name, bool], list[tuple[_Lead, list[Row]]]] = {}
    for row in sorted(found, key=_bounds):
        for table in source_tables([row], declarations):
            lead = _lead(timelines[table.key], table.key, _bounds(row), partial(declared, table))
            # Rows from before a primary key was added or dropped may belong to a target of another kind.
            has_key = any(one.key for one in table.declarations)
            of_table = groups.setdefault((table.key, has_key), [])
            same = next((at for at, (one, _) in enumerate(of_table) if one == lead), None)
            if same is None:
                of_table.append((lead, [row]))
            else:
                known, rows = of_table[same]
                of_table[same] = replace(known, cuts=known.cuts | lead.cuts), [*rows, row]
    return _joined(lead.of(name, rows, declarations) for (name, _), parts in groups.items() for lead, rows in parts)


class _Bounds(NamedTuple):
    """Position of a row among the statements about its table. Statements count from 1; 0 precedes the first."""

    surely: int
    """Last statement that the row is after by a stronger order than timestamps."""
    after: int
    """Last statement that the row is known to be after."""
    reached: int
    """Last statement that the row may be after."""


def _bounds(row: Row) -> _Bounds:
    """Parse the slice of a group of rows."""
    return _Bounds(*map(int, row["slice"].split("/")[:3]))


def _joined(tables: Iterable[SourceTable]) -> list[SourceTable]:
    """Join the tables whose rows can be merged at once. Other tables come first: most of their rows are older."""
    found: list[SourceTable] = []
    parts: dict[object, list[SourceTable]] = {}
    for one in tables:
        if one.is_carried:
            has_key = any(declaration.key for declaration in one.declarations)
            parts.setdefault((one.key, has_key, one.topics), []).append(one)
        else:
            found.append(one)
    # The part with the current name is the newest.
    return found + [joined(sorted(one, key=lambda part: part.former is None)) for one in parts.values()]


_UNORDERED = (
    "rows in other partitions may be older or newer than a concurrent statement on the table; "
    "rebuild the target, and send a table and its statements to one partition, or use canal-protobuf, TiCDC or Debezium"
)


@dataclass(frozen=True)
class _Lead:
    """Route of rows, and any doubt about it."""

    route: Route
    cuts: frozenset[int] = field(compare=False)
    """Cuts at which the rows may have been written."""
    candidates: frozenset[Name] = frozenset()
    """Tables that may have the rows, if neither place nor columns tell."""

    def of(self, name: Name, rows: list[Row], declarations: Mapping[int, Declaration]) -> SourceTable:
        [table] = source_tables(rows, declarations)
        now = self.route.table or name
        table = replace(
            table,
            slices=frozenset(row["slice"] for row in rows),
            columns=self.route.columns,
            cuts=self.cuts,
            is_gone=self.route.table is None,
            dropped=None if self.route.dropped is None else printable(self.route.dropped.text, SHOWN),
            doubt=_UNORDERED if self.candidates else self.route.unknown,
            candidates=self.candidates or _tables([self.route] if self.route.unknown else []),
        )
        return table if now == name else replace(table, database=now[0] or None, name=now[1], former=table.name_key)


def _lead(timeline: Timeline, name: Name, bounds: _Bounds, declared: Callable[[], Set[str] | None]) -> _Lead:
    """Return the route of a table's rows. Their place decides it, or else the columns that their messages declare.

    Args:
        timeline: Statements about the table.
        name: The table.
        bounds: Position of the rows among these statements.
        declared: Returns the lower-case columns that the messages declare, if any.
    """
    cuts = [0, *(at + 1 for at in timeline.about(name))]
    possible = cuts[bounds.after : bounds.reached + 1]
    # A row exists only while its table exists.
    possible = [cut for cut in possible if timeline.exists(name, cut) is not False] or possible[-1:]
    routes = [timeline.route(name, cut) for cut in possible]
    last = routes[-1]
    if any(one.table != last.table for one in routes):
        return _Lead(last, frozenset(cuts[bounds.surely : bounds.reached + 1]), _tables(routes))
    origin = timeline.origin(name, possible[-1])  # a dropped table of this name may have had the same columns
    of_table = [
        cut
        for cut in cuts[bounds.surely : bounds.reached + 1]
        if timeline.route(name, cut).table == last.table and timeline.origin(name, cut) == origin
    ]
    columns = declared() if len(of_table) > 1 and last.table is not None else None
    if columns:
        of_table = [cut for cut in of_table if timeline.may_have(name, cut, columns)] or of_table[-1:]
    # The columns decide before times do, since an ALTER has the time of its start.
    likely = [cut for cut in of_table if cut in possible] or of_table
    routes = [timeline.route(name, cut) for cut in likely]
    is_doubtful = columns and any(_effect(one, columns) != _effect(routes[0], columns) for one in routes)
    return _Lead(routes[0], frozenset(of_table), _tables(routes) if is_doubtful else frozenset())


def _tables(routes: Iterable[Route]) -> frozenset[Name]:
    """Return the tables to which routes lead."""
    return frozenset(one.table for one in routes if one.table is not None)


def _effect(route: Route, columns: Set[str]) -> object:
    """Return what becomes of a row with some columns: their current names, and the columns that it gets."""
    return [(route.columns.now(one) or "").lower() for one in sorted(columns)], route.columns.added
