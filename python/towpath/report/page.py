"""The report as an HTML page with plots: one file without external resources.

The plots are SVG, drawn by matplotlib. It never draws names from messages, since it would need fonts for them and would
interpret `$` as mathematics. Legends and tables are HTML, in which every text is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath import _towpath
from towpath.report.summary import LAG_EDGES, OTHERS, Summary, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#000000", "#bbbbbb")
_MOST_ROWS = 500

_LAGS = (
    "below 0",
    "under 10 ms",
    "10 to 100 ms",
    "0.1 to 1 s",
    "1 to 10 s",
    "10 s to 1 min",
    "1 to 10 min",
    "10 min to 1 h",
    "1 h to 1 d",
    "1 d or more",
)
assert len(_LAGS) == len(LAG_EDGES) + 1

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h1, h2 { line-height: 1.2 } h2 { margin-top: 2.5rem } svg { width: 100%; height: auto }
table { border-collapse: collapse } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top }
td.number { text-align: right } tr { border-bottom: 1px solid #ddd } td { overflow-wrap: anywhere }
dt { float: left; clear: left; width: 6rem; color: #666 } dd { margin-left: 6rem; overflow-wrap: anywhere }
.legend span { display: inline-block; margin-right: 1.2rem } .legend i { display: inline-block; width: .8rem;
height: .8rem; margin-right: .4rem; vertical-align: -.05rem }
"""


def write_report(
    batches: Iterable[pa.RecordBatch],
    path: str | Path,
    title: str = "Change messages",
    warnings: Callable[[], Sequence[str]] | None = None,
    details: Mapping[str, str] | None = None,
) -> None:
    """Write a report of decoded batches.

    Args:
        batches: Batches of a decoder of layout "change", with at least the columns `FIELDS`.
        path: File to write.
        title: Heading of the page.
        warnings: Function that is called after all batches have been read. It returns the texts below the page's
            heading.
        details: Names and texts below the heading, such as the file and the dialect.

    Raises:
        ImportError: matplotlib is not installed. The extra `towpath[report]` installs it.
    """
    require_matplotlib()
    summary = summarize(batches)
    Path(path).write_text(page(summary, title, warnings() if warnings else (), details), encoding="utf-8")


def require_matplotlib() -> None:
    """Raise an `ImportError` with a remedy before any messages are read."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError('a report needs matplotlib: pip install "towpath[report]"') from error


def page(
    summary: Summary,
    title: str = "Change messages",
    warnings: Sequence[str] = (),
    details: Mapping[str, str] | None = None,
) -> str:
    """Return a summary as an HTML page: errors first, then counts and plots."""
    sections = [_heading(summary, title), _details({**(details or {}), **_period(summary), "Written": _now()})]
    sections += [f"<p><strong>Warning:</strong> {escape(one)}</p>" for one in warnings]
    if len(summary.counts):
        sections += [_errors(summary.errors), _over_time(summary), _lag(summary), _counts(summary.counts)]
    content = "\n".join(sections)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{content}\n</body>\n</html>\n"
    )


def _heading(summary: Summary, title: str) -> str:
    events, bad = _total(summary.counts), _total(summary.errors)
    if not events:
        return f"<h1>{escape(title)}</h1>\n<p>There are no events, so there is nothing to show.</p>"
    tables = len(pc.unique(summary.counts["table"]))
    return f"<h1>{escape(title)}</h1>\n<p>{events:,} events of {tables:,} tables; {bad:,} with an error.</p>"


def _details(details: Mapping[str, str]) -> str:
    """Return the details as HTML."""
    entries = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in details.items())
    return f"<dl>\n{entries}\n</dl>"


def _period(summary: Summary) -> dict[str, str]:
    """Return the times of the first and the last event, with the precision of the plots' bars."""
    if not len(summary.times):
        return {}
    first, last = (_utc(function(summary.times["time"]).as_py()) for function in (pc.min, pc.max))
    return {"Events": f"{first} to {last} (UTC, in steps of {_span(summary.width)})"}


def _utc(seconds: int) -> str:
    return f"{datetime(1970, 1, 1) + timedelta(seconds=seconds)}"


def _now() -> str:
    return f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC by towpath {_towpath.__version__}"


def _total(counts: pa.Table) -> int:
    return pc.sum(counts["rows"]).as_py() or 0


def _over_time(summary: Summary) -> str:
    if not len(summary.times):
        return "<h2>Events over time</h2>\n<p>No event has an event time.</p>"
    each = f"<p>By the source's own clock (UTC); each bar is {_span(summary.width)}.</p>"
    by_op, by_table = (_stacked(summary, column) for column in ("op", "table"))
    return f"<h2>Events over time, by op</h2>\n{each}\n{by_op}\n<h2>Events over time, by table</h2>\n{by_table}"


def _span(seconds: int) -> str:
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return f"{seconds // size} {unit}{'s' * (seconds != size)}"


_UNITS = ((604_800, "week"), (86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def _stacked(summary: Summary, column: str) -> str:
    """Return a stacked bar plot with its legend."""
    names = _largest(summary.times, column)
    bottoms: dict[int, int] = {}
    figure, axes = _figure()
    for name, colour in zip(names, _COLOURS, strict=False):
        counts = _by_time(summary.times, column, name, names)
        axes.bar(
            [_day(time) for time in counts],
            list(counts.values()),
            summary.width / 86_400,
            bottom=[bottoms.get(time, 0) for time in counts],
            color=colour,
            align="edge",
        )
        bottoms.update({time: bottoms.get(time, 0) + count for time, count in counts.items()})
    _format_dates(axes)
    axes.set_ylabel("events")
    return f"{_svg(figure, column)}\n{_legend(names)}"


def _largest(times: pa.Table, column: str) -> list[str]:
    """Return the names with the most events, one per colour. The last colour is for all other names."""
    counts = dict(zip(*_sums(times, column), strict=True))
    names = sorted(counts.keys() - {OTHERS}, key=lambda name: (-counts[name], name))
    named = names[: len(_COLOURS) - 1]
    return named if len(named) == len(counts) else [*named, OTHERS]


def _by_time(times: pa.Table, column: str, name: str, names: Sequence[str]) -> dict[int, int]:
    named = pc.is_in(times[column], pa.array({*names} - {OTHERS}, pa.string()))
    chosen = times.filter(pc.invert(named) if name == OTHERS else pc.equal(times[column], name))
    return dict(zip(*_sums(chosen, "time"), strict=True))


def _day(seconds: int) -> float:
    """Return a time in matplotlib's unit: days since 1970."""
    return seconds / 86_400


def _figure() -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _format_dates(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(tz=timezone.utc)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=timezone.utc))  # type: ignore[no-untyped-call]


def _svg(figure: Figure, name: str) -> str:
    """Return the `<svg>` element of a figure. The salt keeps the ids of several figures on one page unique."""
    from matplotlib import rc_context

    file = StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def _legend(names: Sequence[str]) -> str:
    entries = (
        f'<span><i style="background:{colour}"></i>{_shown(name)}</span>'
        for name, colour in zip(names, _COLOURS, strict=False)
    )
    return f'<p class="legend">{"".join(entries)}</p>'


def _shown(name: str | None) -> str:
    return escape(name) if name else "<em>none</em>"


def _lag(summary: Summary) -> str:
    lags = summary.times.filter(pc.is_valid(summary.times["lag"]))
    if not len(lags):
        return "<h2>Lag</h2>\n<p>No event has both an event time and the time of its message.</p>"
    what = "From the change at the source to its message. Many sources count in whole seconds: below that, it is noise."
    over_time = _lag_over_time(lags, summary.width)
    return f"<h2>Lag</h2>\n<p>{what}</p>\n{_distribution(lags)}\n<h2>Lag over time</h2>\n{over_time}"


def _distribution(lags: pa.Table) -> str:
    counts = dict(zip(*_sums(lags, "lag"), strict=True))
    figure, axes = _figure()
    axes.barh(_LAGS, [counts.get(lag, 0) for lag in range(len(_LAGS))], color=_COLOURS[0])
    axes.invert_yaxis()
    axes.set_xlabel("events")
    return _svg(figure, "lag")


def _sums(counts: pa.Table, *columns: str) -> list[list[Any]]:
    """Return the distinct values of the columns, each followed by its sum of `rows`."""
    sums = counts.group_by([*columns]).aggregate([("rows", "sum")])
    return [sums[column].to_pylist() for column in (*columns, "rows_sum")]


def _lag_over_time(lags: pa.Table, width: int) -> str:
    from matplotlib.colors import LogNorm

    times, classes, rows = _sums(lags, "time", "lag")
    spans = range(min(times), max(times) + width, width)
    figure, axes = _figure()
    edges = [_day(time) for time in (*spans, spans[-1] + width)]
    # Cells without events stay empty, since a colour for zero would look like a count.
    cells = [[float("nan")] * len(spans) for _ in _LAGS]
    for time, lag, count in zip(times, classes, rows, strict=True):
        cells[lag][spans.index(time)] = count
    mesh = axes.pcolormesh(edges, range(len(_LAGS) + 1), cells, cmap="viridis_r", norm=LogNorm(), rasterized=True)
    axes.set_yticks([lag + 0.5 for lag in range(len(_LAGS))], _LAGS)
    axes.invert_yaxis()
    _format_dates(axes)
    figure.colorbar(mesh, label="events")
    return _svg(figure, "lag over time")


def _errors(errors: pa.Table) -> str:
    if not len(errors):
        return "<h2>Errors</h2>\n<p>None.</p>"
    rows = errors.sort_by([("rows", "descending"), ("kind", "ascending")]).to_pylist()
    cells = [[row["kind"], row["table"], row["column"], row["rows"], row["example"]] for row in rows]
    return f"<h2>Errors</h2>\n{_table(['kind', 'table', 'column', 'events', 'an example'], cells)}"


def _counts(counts: pa.Table) -> str:
    """Return a table with one row per table and one column per op."""
    by_op: dict[str, Counter[str]] = {}
    totals: Counter[str] = Counter()
    for table, op, rows in zip(*_sums(counts, "table", "op"), strict=True):
        by_op.setdefault(table, Counter())[op] = rows
        totals[table] += rows
    ops = sorted(set().union(*by_op.values()))
    tables = sorted(totals, key=lambda table: (-totals[table], table))
    cells: list[list[str | int | None]] = [
        [table, *(by_op[table][op] for op in ops), totals[table]] for table in tables
    ]
    return f"<h2>Tables</h2>\n{_table(['table', *ops, 'all'], cells)}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:_MOST_ROWS])
    left_out = f"<p>{len(rows) - _MOST_ROWS:,} more are left out.</p>" if len(rows) > _MOST_ROWS else ""
    return f"<table>\n<tr>{head}</tr>\n{body}\n</table>{left_out}"


def _cell(value: str | int | None) -> str:
    return f'<td class="number">{value:,}</td>' if isinstance(value, int) else f"<td>{_shown(value)}</td>"
