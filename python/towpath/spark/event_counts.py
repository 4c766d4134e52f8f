"""Counts the events of a decoded DataFrame on the cluster. The driver only collects the counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.report.summary import COUNTS, ERRORS, LAG_EDGES, MOST_TABLES, OTHERS, TIMES, Summary, width_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def summarize(frame: DataFrame) -> Summary:
    """Count the events of a decoded DataFrame."""
    seconds = _by_second(frame).persist()
    try:
        counts = _collect(seconds, COUNTS)
        errors = _collect(seconds.filter("kind is not null"), ERRORS)
        timed = seconds.filter("time is not null")
        [(first, last)] = timed.selectExpr("min(time)", "max(time)").collect()
        width = 1 if first is None else width_of(last - first)
        return Summary(counts, errors, _collect(_by_bucket(timed, width, _largest(counts)), TIMES), width)
    finally:
        seconds.unpersist()


def _by_second(frame: DataFrame) -> DataFrame:
    """Group events by everything that a summary distinguishes, and by second."""
    lag = "unix_micros(produced_time) - unix_micros(event_time)"
    events = frame.selectExpr(
        "concat_ws('.', nullif(database, ''), nullif(table, '')) as table",
        "op",
        "error.kind as kind",
        "error.column as column",
        "error.message as example",
        "unix_seconds(event_time) as time",
        f"cast({' + '.join(f'int({lag} >= {edge}L)' for edge in LAG_EDGES)} as tinyint) as lag",
        "1L as rows",
    )
    return _sum_rows(events, ["table", "op", "kind", "column", "time", "lag"])


def _sum_rows(events: DataFrame, by: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions

    totals = [functions.sum("rows").alias("rows")]
    if "example" in events.columns:
        totals.append(functions.min("example").alias("example"))
    return events.groupBy(*by).agg(*totals)


def _by_bucket(timed: DataFrame, width: int, tables: Sequence[str]) -> DataFrame:
    """Group events by time bucket. Count tables that no plot names together, to bound the number of rows."""
    from pyspark.sql import functions

    table = functions.when(functions.col("table").isin(*tables), functions.col("table")).otherwise(OTHERS)
    return timed.withColumns({"table": table, "time": functions.expr(f"time - time % {width}")})


def _largest(counts: pa.Table) -> list[str]:
    sums = counts.group_by("table").aggregate([("rows", "sum")]).sort_by([("rows_sum", "descending")])
    tables: list[str] = sums["table"].to_pylist()[:MOST_TABLES]
    return tables


def _collect(events: DataFrame, schema: pa.Schema) -> pa.Table:
    """Return the counts grouped by the columns of the schema."""
    by = [name for name in schema.names if name not in ("rows", "example")]
    rows = _sum_rows(events.select(*schema.names), by).select(*schema.names).collect()
    return pa.Table.from_pylist([row.asDict() for row in rows], schema)
