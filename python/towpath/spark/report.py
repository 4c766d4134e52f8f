"""Writes a report of a decoded DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def report(frame: DataFrame, path: str | Path, title: str = "Change messages") -> None:
    """Write an HTML page with plots of decoded messages. The cluster counts the events.

    The DataFrame is computed once. Its counts per second are persisted while the page is written.

    Args:
        frame: Batch result of `decode` in layout "change", with at least the columns of `towpath.report.FIELDS`.
        path: File to write, on the driver.
        title: Heading of the page.

    Raises:
        ValueError: A column is missing, or the DataFrame is streaming.
        ImportError: matplotlib is not installed. The extra `towpath[report]` installs it.
    """
    from towpath.report.page import page, require_matplotlib
    from towpath.spark.event_counts import summarize

    require_matplotlib()
    _check(frame)
    Path(path).write_text(page(summarize(frame), title), encoding="utf-8")


def _check(frame: DataFrame) -> None:
    from towpath.report.summary import FIELDS

    absent = [name for name in FIELDS if name not in frame.columns]
    if absent:
        raise ValueError(f"a report needs the columns {', '.join(FIELDS)}; the DataFrame has no {', '.join(absent)}")
    if frame.isStreaming:
        raise ValueError("expected a batch, not a stream; report what the stream has written, or use foreachBatch")
