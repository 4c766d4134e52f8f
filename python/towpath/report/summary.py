"""The contents of a report, counted from decoded batches: small tables for any number of events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from towpath.literals import Field

FIELDS: tuple[Field, ...] = ("op", "database", "table", "event_time", "produced_time", "error")
"""Columns of layout "change" that a summary needs."""

COUNTS = pa.schema({"table": pa.string(), "op": pa.string(), "rows": pa.int64()})
ERRORS = pa.schema(
    {"kind": pa.string(), "table": pa.string(), "column": pa.string(), "rows": pa.int64(), "example": pa.string()}
)
TIMES = pa.schema({"time": pa.int64(), "table": pa.string(), "op": pa.string(), "lag": pa.int8(), "rows": pa.int64()})

LAG_EDGES = (0, 10_000, 100_000, 1_000_000, 10_000_000, 60_000_000, 600_000_000, 3_600_000_000, 86_400_000_000)
"""Boundaries of the lag classes in microseconds. The class of a lag is the number of edges that it reaches."""

MOST_TABLES = 50
"""Maximum number of tables that Spark's summary counts over time. Others count as `OTHERS`."""
OTHERS = "all others"

# Bucket widths in seconds. Each is a multiple of the one before, so that buckets can be merged into wider ones.
_WIDTHS = (1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 21_600, 86_400, 604_800, 2_419_200, 31_449_600)
_MOST_TIMES = 120


@dataclass
class Summary:
    """Counts of events."""

    counts: pa.Table = field(default_factory=COUNTS.empty_table)
    """Counts by table and op."""
    errors: pa.Table = field(default_factory=ERRORS.empty_table)
    """Counts by kind, table and column, with an example of the error's message."""
    times: pa.Table = field(default_factory=TIMES.empty_table)
    """Counts by time (start of a bucket of `width` seconds, in seconds since 1970), table, op and lag class."""
    width: int = 1


def width_of(seconds: int) -> int:
    """Return the bucket width for a plot over `seconds`."""
    return next((width for width in _WIDTHS if seconds // width < _MOST_TIMES), _WIDTHS[-1])


def summarize(batches: Iterable[pa.RecordBatch]) -> Summary:
    """Count the events of decoded batches, batch by batch.

    Args:
        batches: Batches of a decoder of layout "change", with at least `FIELDS`.
    """
    summary = Summary()
    for batch in batches:
        _add(summary, _events(batch))
    return summary


def _events(batch: pa.RecordBatch) -> pa.Table:
    """Return the columns of all three tables, one row per event."""
    error = batch.column("error")
    return pa.table(
        {
            "table": _names(batch.column("database"), batch.column("table")),
            "op": batch.column("op"),
            "kind": pc.struct_field(error, "kind"),
            "column": pc.struct_field(error, "column"),
            "example": pc.struct_field(error, "message"),
            "time": pc.divide(_micros(batch.column("event_time")), 1_000_000),
            "lag": _lags(batch.column("event_time"), batch.column("produced_time")),
            "rows": pa.repeat(pa.scalar(1, pa.int64()), len(batch)),
        }
    )


def _names(database: pa.Array, table: pa.Array) -> pa.Array:
    """Return `database.table`. If a message lacks one of both, return the other, or an empty string."""
    database, table = (pc.if_else(pc.equal(name, ""), None, name) for name in (database, table))
    return pc.coalesce(pc.binary_join_element_wise(database, table, "."), table, database, "")


def _micros(times: pa.Array) -> pa.Array:
    return times.cast(pa.int64())


def _lags(event: pa.Array, produced: pa.Array) -> pa.Array:
    lag = pc.subtract(_micros(produced), _micros(event))
    return reduce(pc.add, [pc.greater_equal(lag, edge).cast(pa.int8()) for edge in LAG_EDGES])


def _add(summary: Summary, events: pa.Table) -> None:
    summary.counts = _merged(summary.counts, events, ("table", "op"))
    bad = events.filter(pc.is_valid(events["kind"]))
    summary.errors = _merged(summary.errors, bad, ("kind", "table", "column"))
    timed = events.filter(pc.is_valid(events["time"]))
    summary.times = _merged(summary.times, _floored(timed, summary.width), TIMES.names[:-1])
    if len(summary.times):
        _widen(summary)


def _merged(known: pa.Table, events: pa.Table, by: Sequence[str]) -> pa.Table:
    both = pa.concat_tables([known, events.select(known.column_names).cast(known.schema)])
    grouped = both.group_by([*by], use_threads=False)
    if "example" not in known.column_names:
        return grouped.aggregate([("rows", "sum")]).select([*by, "rows_sum"]).rename_columns(known.column_names)
    counted = grouped.aggregate([("rows", "sum"), ("example", "first")])
    return counted.select([*by, "rows_sum", "example_first"]).rename_columns(known.column_names)


def _widen(summary: Summary) -> None:
    """Widen the buckets when the times span too many of them."""
    width = width_of(pc.max(summary.times["time"]).as_py() - pc.min(summary.times["time"]).as_py())
    if width > summary.width:
        summary.width = width
        summary.times = _merged(TIMES.empty_table(), _floored(summary.times, width), TIMES.names[:-1])


def _floored(events: pa.Table, width: int) -> pa.Table:
    whole = pc.multiply(pc.divide(events["time"], width), width)
    return events.set_column(events.column_names.index("time"), "time", whole)
