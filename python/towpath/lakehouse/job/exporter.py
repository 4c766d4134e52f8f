"""The metrics of a job, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from towpath.lakehouse.status import STATES, TableStatus

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

_TABLE = ("database", "table")


class Exporter:
    """Counts what batches did. Prometheus reads it over HTTP."""

    def __init__(self, address: str, port: int) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

        registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"towpath_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"towpath_{name}", text, labels, registry=registry)

        self._records = counter("records", "Messages that batches have read")
        self._batches = counter("batches", "Batches that have been applied")
        self._seconds = counter("batch_seconds", "Seconds that batches took")
        self._last = gauge("last_batch_seconds", "Seconds that the last batch took")
        self._ended = gauge("last_batch_timestamp_seconds", "When the last batch ended, in seconds since 1970")
        self._lag = gauge("lag_records", "Messages of a partition that have not been read", "topic", "partition")
        self._rows = counter("rows", "Rows that were inserted, updated or deleted", *_TABLE)
        self._deleted = counter("deleted_rows", "Rows that were deleted", *_TABLE)
        self._old = counter("old_rows", "Changes that were ignored as old", *_TABLE)
        self._dead = counter("dead_letters", "Rows in dead letters", *_TABLE)
        self._table_seconds = counter("table_seconds", "Seconds that merges of a table took", *_TABLE)
        self._state = gauge("table_state", "1 for the state that a table has", *_TABLE, "state")
        server, _ = start_http_server(port, address, registry)
        self.port: int = server.server_port
        """The port that it listens on."""

    def count_tables(self, found: Iterable[TableStatus]) -> None:
        """Count what a batch did to tables."""
        for one in found:
            labels = one.database or "", one.table
            self._rows.labels(*labels).inc(one.applied)
            self._deleted.labels(*labels).inc(one.deleted)
            self._old.labels(*labels).inc(one.ignored_as_old)
            self._dead.labels(*labels).inc(one.dead_letters)
            self._table_seconds.labels(*labels).inc(one.merge_seconds or 0)
            for state in STATES:
                self._state.labels(*labels, state).set(state == one.state)

    def count_batch(self, progress: StreamingQueryProgress, seconds: float, lag: Mapping[tuple[str, str], int]) -> None:
        """Count a batch that has ended."""
        self._records.inc(progress.numInputRows)
        self._batches.inc()
        self._seconds.inc(seconds)
        self._last.set(seconds)
        self._ended.set_to_current_time()
        for partition, messages in lag.items():
            self._lag.labels(*partition).set(messages)
