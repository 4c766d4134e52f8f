"""Runs a job: starts its query, prints a line for each batch and table, and ends after a batch on request."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from towpath.job.exporter import Exporter
from towpath.job.file import Job, Snapshot
from towpath.lakehouse.replicate import replicate
from towpath.lakehouse.seen.status import TableStatus
from towpath.printable import printable
from towpath.spark.requirements import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Spark caches 100 generated classes by default, and would compile the classes of a batch again in each batch.
_SETTINGS = {
    "spark.log.level": "ERROR",
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.ui.showConsoleProgress": "false",
}

_EVERY = 0.2
"""Seconds between two polls of a query."""


def session(job: Job, *, is_quiet: bool = False) -> SparkSession:
    """Return the session of a job: the running one, or a new one, with the job's settings. Its workers run this Python.

    Args:
        job: The job.
        is_quiet: Whether to show Java's logs only if Java does not start.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    _check_submitted(job)
    _one_line_for_an_error()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(job.replicate.get("query_name", "towpath replicate"))
    quiet = {"spark.log.level": "OFF"} if is_quiet else {}
    for name, value in {**_SETTINGS, **quiet, **job.spark}.items():
        builder = builder.config(name, value)
    with _kept_errors() if is_quiet else nullcontext():
        return builder.getOrCreate()


@contextmanager
def _kept_errors() -> Iterator[None]:
    """Keep the standard error output of processes that start here, and show it if an error is raised."""
    with TemporaryFile() as kept:
        shown = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(shown, kept.read())
            raise
        finally:
            os.dup2(shown, 2)
            os.close(shown)


def _check_submitted(job: Job) -> None:
    """Refuse jars in a job of `spark-submit`, which has already started Java: Java loads jars when it starts.

    Raises:
        ValueError: The job names jars, but `spark-submit` was given none.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    options = {"spark.jars.packages": "--packages", "spark.jars": "--jars"}
    for name, option in options.items():
        if name in job.spark and not SparkConf().contains("spark.jars"):
            raise ValueError(f"{name} has no effect, the JVM already runs; use spark-submit {option} {job.spark[name]}")


def _one_line_for_an_error() -> None:
    """Disable Spark 4's additional logging of SQL error stacks as JSON."""
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = True


def messages(job: Job, spark: SparkSession, *, stream: bool = True, **more: str) -> DataFrame:
    """Return the messages of a job's source.

    Args:
        job: The job.
        spark: Session of the job.
        stream: Whether to return a stream, instead of a batch of the current messages.
        **more: More options of the source.
    """
    reader: Any = (spark.readStream if stream else spark.read).format(job.source)
    layout = {"layout": "messages"} if job.source == "towpath" else {}
    frame: DataFrame = reader.options(**{**layout, **job.source_options, **more}).load()
    return frame


def snapshots(job: Job, spark: SparkSession) -> dict[str, Callable[[], DataFrame]]:
    """Return functions that read the rows of tables with a snapshot, since only a first start needs the rows."""
    return {name: partial(snapshot, one, spark) for name, one in job.snapshots.items()}


def snapshot(found: Snapshot, spark: SparkSession) -> DataFrame:
    """Return the rows of one table."""
    return spark.read.format(found.format).options(**found.options).load()


Say = Callable[[str, Mapping[str, Any]], None]
"""Function that prints an event: a line, or a record for programs."""


def run(job: Job, say: Say, *, once: bool = False) -> None:
    """Run a job until SIGTERM or SIGINT. It ends after its current batch.

    Args:
        job: The job.
        say: Function that is called with each event.
        once: Whether to end after applying the current messages.

    Raises:
        pyspark.errors.StreamingQueryException: The query failed.
    """
    exporter = Exporter(*job.metrics) if job.metrics else None
    if exporter:
        say(f"metrics: port {exporter.port}", {"metrics": exporter.port})
    spark = session(job)

    def report(found: Sequence[TableStatus]) -> None:
        for one in found:
            say(table_line(one), {"table": asdict(one)})
        if exporter:
            exporter.count_tables(found)

    arguments = {**job.replicate, "snapshots": snapshots(job, spark), "report": report}
    if once:
        arguments["trigger"] = {"availableNow": True}
    query = replicate(messages(job, spark), **arguments)
    assert query is not None  # a stream has a query
    try:
        _follow(query, _asked_to_end(), exporter, say)
    finally:
        spark.stop()
    say("ended", {"state": "ended"})


def _asked_to_end() -> threading.Event:
    """Yield an event that signals set."""
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    return asked


def _follow(query: StreamingQuery, asked: threading.Event, exporter: Exporter | None, say: Say) -> None:
    """Report each batch until the query ends or a signal arrives."""
    said = -1
    say("started", {"state": "started"})
    while True:
        is_active = query.isActive
        for progress in query.recentProgress:
            if progress.batchId > said and progress.numInputRows:
                said = progress.batchId
                seconds, lag = progress.batchDuration / 1000, lag_of(progress.sources)
                counts = {
                    "batch": said,
                    "records": progress.numInputRows,
                    "seconds": seconds,
                    "behind": sum(lag.values()),
                }
                say(batch_line(said, progress.numInputRows, seconds, lag), counts)
                if exporter:
                    exporter.count_batch(progress, seconds, lag)
        if not is_active:
            query.awaitTermination()  # raises the error of a failed query
            return
        if asked.is_set():
            _end_after_the_batch(query)
        asked.wait(_EVERY)


def _end_after_the_batch(query: StreamingQuery) -> None:
    """Stop a query after its batch. A batch that has just begun is read again at the next start."""
    before = _last_batch(query)
    while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == before:
        time.sleep(_EVERY)
    query.stop()


def _last_batch(query: StreamingQuery) -> int:
    return query.lastProgress.batchId if query.lastProgress else -1


def batch_line(number: int, records: int, seconds: float, lag: Mapping[tuple[str, str], int]) -> str:
    """Return the printed line of a batch."""
    left = f", {sum(lag.values())} messages behind" if lag else ""
    return f"batch {number}: {records} messages in {seconds:.1f} s{left}"


def table_line(one: TableStatus) -> str:
    """Return the printed line of a table in a batch."""
    if not one.table:
        return f"messages without a table: {one.dead_letters} dead letters"
    name = f"{one.database}.{one.table}" if one.database else one.table
    counts = f"{one.applied} applied, {one.deleted} of them deletes, {one.ignored_as_old} old"
    dead = f", {one.dead_letters} dead letters" if one.dead_letters else ""
    seconds = f" in {one.merge_seconds:.1f} s" if one.merge_seconds is not None else ""
    reason = f": {one.reason}" if one.reason else ""
    return printable(f"{name}: {one.state}: {counts}{dead}{seconds}{reason}")


def lag_of(sources: Sequence[Any]) -> dict[tuple[str, str], int]:
    """Return the remaining messages by topic and partition, if Spark reports them."""
    return {key: left for one in sources for key, left in _lag(one.endOffset, one.latestOffset)}


def _lag(end: str | None, latest: str | None) -> Iterator[tuple[tuple[str, str], int]]:
    reached, newest = (_offsets(one) for one in (end, latest))
    if not isinstance(reached, dict) or not isinstance(newest, dict):  # a Python source has no latest offset
        return
    for topic, partitions in newest.items():
        for partition, offset in partitions.items():
            yield (topic, partition), offset - reached.get(topic, {}).get(partition, 0)


def _offsets(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:  # another kind of source
        return None
