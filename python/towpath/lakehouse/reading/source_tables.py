"""The tables that a batch changes, with a summary of their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from operator import or_
from typing import TYPE_CHECKING, Any

from towpath.lakehouse.log.timeline import Columns
from towpath.lakehouse.merging.jobs import FEW_ROWS, session_settings
from towpath.lakehouse.reading.declarations import Declaration
from towpath.lakehouse.reading.events import BLOCK, CHANGE
from towpath.lakehouse.reading.schemas import filter_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

_ROWS_PER_TASK, _BYTES_PER_TASK = 100_000, 256 << 20


@dataclass(frozen=True)
class SourceTable:
    """Summary of a batch's messages about one table."""

    database: str | None
    name: str
    topics: frozenset[str]
    messages: int
    rows: int
    size: int
    """Size of the messages in bytes."""
    has_commit: bool
    in_log: bool
    declarations: tuple[Declaration, ...]
    declared: frozenset[int]
    """Hashes of the declarations."""
    in_blocks: bool
    """Whether the events are blocks."""
    slices: frozenset[str] = frozenset()
    """Slices of the events; empty if the events are not sliced."""
    columns: Columns = field(default_factory=Columns, compare=False)
    """Columns after later statements."""
    cuts: frozenset[int] = field(default=frozenset(), compare=False)
    """Cuts at which the rows may have been written. Empty means after all statements."""
    former: tuple[str | None, str] | None = None
    """Former name of the table, which its events have. None if it is the current name."""
    is_gone: bool = False
    """Whether later statements removed the rows."""
    dropped: str | None = field(default=None, compare=False)
    """Statement that dropped the table later."""
    doubt: str | None = None
    """Reason for doubt that the rows belong here unchanged."""
    candidates: frozenset[tuple[str, str]] = frozenset()
    """Tables that the doubt is about."""
    parts: tuple[SourceTable, ...] = ()
    """Parts in which the rows were read, oldest first, if statements are between them."""

    @property
    def name_key(self) -> tuple[str | None, str]:
        """Name as in events."""
        return self.former or (self.database, self.name)

    @property
    def written_key(self) -> tuple[str, str]:
        """Name in the messages, in the form of statements."""
        database, name = self.name_key
        return database or "", name

    @property
    def events(self) -> list[tuple[str | None, str, str | None]]:
        """Database, table and slice of the events. The slice is null if they are not sliced."""
        return [(*self.name_key, one) for one in self.slices or (None,)]

    @property
    def key(self) -> tuple[str, str]:
        """Name in the form of statements."""
        return self.database or "", self.name

    @property
    def is_carried(self) -> bool:
        """Whether the log determines the fate of each row without reading its values."""
        is_here = not (self.is_gone or self.dropped or self.doubt)
        return is_here and not self.columns.types and not any(one.unknown for one in self.columns.added.values())

    @property
    def tasks(self) -> int:
        """Number of tasks that the changes need."""
        return max(1, -(-self.rows // _ROWS_PER_TASK), -(-self.size // _BYTES_PER_TASK))

    @property
    def full_name(self) -> str:
        """Name in `keys`, `schemas` and `table_options`."""
        return f"{self.database}.{self.name}"

    def condition(self) -> Column:
        """Return a condition for the events of this table's changes."""
        if self.parts:
            return any_of(self.parts)
        from pyspark.sql import functions as f

        database, name = self.name_key
        of_database = f.col("database").eqNullSafe(f.lit(database))
        of_table = f.col("kind").isin(CHANGE, BLOCK) & of_database & (f.col("table") == name)
        return of_table & f.col("slice").isin(*self.slices) if self.slices else of_table

    def filter_options(self) -> dict[str, str]:
        """Return decoder options that select this table."""
        return filter_options(*self.name_key)


def summary(events: DataFrame, *more: str) -> list[Row]:
    """Return the tables in the batch by kind of event, topic, declaration, and more columns."""
    from pyspark.sql import functions as f

    groups = events.groupBy("kind", "database", "table", "topic", "declared", *more)
    with session_settings(events.sparkSession, FEW_ROWS):
        # Aggregate only numbers and booleans: Spark would sort the events for a text.
        return groups.agg(
            *(f.sum(name).alias(name) for name in ("messages", "rows", "size")),
            f.max(f.col("commit_ts").isNotNull()).alias("has_commit"),
            f.max("in_log").alias("in_log"),
        ).collect()


def source_tables(found: Iterable[Row], declarations: Mapping[int, Declaration]) -> list[SourceTable]:
    """Return the tables whose rows change, with the most changes first."""
    groups: dict[tuple[str | None, str], list[Row]] = {}
    for row in found:
        if row["kind"] in (CHANGE, BLOCK):
            groups.setdefault((row["database"], row["table"]), []).append(row)
    tables = [_table(database, name, rows, declarations) for (database, name), rows in groups.items()]
    return sorted(tables, key=lambda table: -table.rows)


def _table(database: str | None, name: str, rows: list[Row], declarations: Mapping[int, Declaration]) -> SourceTable:
    declared = dict.fromkeys(row["declared"] for row in rows)
    return SourceTable(
        database,
        name,
        frozenset(row["topic"] or "" for row in rows),
        **_counts(rows),
        declarations=tuple(dict.fromkeys(declarations[one] for one in declared if one in declarations)),
        declared=frozenset(declared),
        in_blocks=any(row["kind"] == BLOCK for row in rows),
    )


def _counts(parts: Sequence[Any]) -> dict[str, Any]:
    """Return the sums and unions over tables or rows of a summary."""
    sums = {name: sum(getattr(one, name) for one in parts) for name in ("messages", "rows", "size")}
    return sums | {name: any(getattr(one, name) for one in parts) for name in ("has_commit", "in_log")}


def joined(parts: Sequence[SourceTable]) -> SourceTable:
    """Return the table to which the rows of all parts belong. The oldest part is first."""
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[-1],
        **_counts(parts),
        declarations=tuple(dict.fromkeys(chain.from_iterable(one.declarations for one in parts))),
        slices=frozenset(chain.from_iterable(one.slices for one in parts)),
        columns=Columns(),
        former=None,
        parts=tuple(parts),
    )


def any_of(tables: Iterable[SourceTable]) -> Column:
    """Return a condition for the events of changes of some tables."""
    from pyspark.sql import functions as f

    return reduce(or_, (one.condition() for one in tables), f.lit(False))
