"""A report of decoded messages that is counted on the cluster: only the counts come to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.summary import COUNTS, ERRORS, FIELDS, LAG_EDGES, MOST_TABLES, OTHERS, TIMES, Summary, width_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def report(frame: DataFrame, path: str | Path, title: str = "Change messages") -> None:
    """Write an HTML page with plots of what decoded messages hold.

    The frame is computed once. Its counts by second are kept while the page is made (`DataFrame.persist`).

    Args:
        frame: What `decode` gave in layout "change", with at least the columns `op`, `database`, `table`, `event_time`,
            `produced_time` and `error`; not streaming.
        path: Where the page goes, on the driver.
        title: Its heading.

    Raises:
        ValueError: A column is not there, or the frame is streaming.
        ImportError: matplotlib is not there; `pip install "towpath[report]"` brings it.
    """
    from towpath.report import need_matplotlib, page

    need_matplotlib()
    _check(frame)
    Path(path).write_text(page(summarized(frame), title), encoding="utf-8")


def _check(frame: DataFrame) -> None:
    absent = [name for name in FIELDS if name not in frame.columns]
    if absent:
        raise ValueError(f"a report needs the columns {', '.join(FIELDS)}; the DataFrame has no {', '.join(absent)}")
    if frame.isStreaming:
        raise ValueError("a report is of a batch; of a stream, report what it has written, or use foreachBatch")


def summarized(frame: DataFrame) -> Summary:
    """Count the events of a decoded DataFrame."""
    seconds = _by_second(frame).persist()
    try:
        counts = _collected(seconds, COUNTS)
        errors = _collected(seconds.filter("kind is not null"), ERRORS)
        timed = seconds.filter("time is not null")
        [(first, last)] = timed.selectExpr("min(time)", "max(time)").collect()
        width = 1 if first is None else width_of(last - first)
        return Summary(counts, errors, _collected(_by_span(timed, width, _largest(counts)), TIMES), width)
    finally:
        seconds.unpersist()


def _by_second(frame: DataFrame) -> DataFrame:
    """One row for all events that a summary does not tell apart, but for the second in which they were."""
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
    return _summed(events, ["table", "op", "kind", "column", "time", "lag"])


def _summed(events: DataFrame, by: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions

    totals = [functions.sum("rows").alias("rows")]
    if "example" in events.columns:
        totals.append(functions.min("example").alias("example"))
    return events.groupBy(*by).agg(*totals)


def _by_span(timed: DataFrame, width: int, tables: Sequence[str]) -> DataFrame:
    """Tables that no plot names are counted together, so that there are few rows however many tables there are."""
    from pyspark.sql import functions

    table = functions.when(functions.col("table").isin(*tables), functions.col("table")).otherwise(OTHERS)
    return timed.withColumns({"table": table, "time": functions.expr(f"time - time % {width}")})


def _largest(counts: pa.Table) -> list[str]:
    sums = counts.group_by("table").aggregate([("rows", "sum")]).sort_by([("rows_sum", "descending")])
    tables: list[str] = sums["table"].to_pylist()[:MOST_TABLES]
    return tables


def _collected(events: DataFrame, schema: pa.Schema) -> pa.Table:
    """The counts by the columns of the schema."""
    by = [name for name in schema.names if name not in ("rows", "example")]
    rows = _summed(events.select(*schema.names), by).select(*schema.names).collect()
    return pa.Table.from_pylist([row.asDict() for row in rows], schema)
