"""Exports the metrics of a job to Prometheus."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from towpath.lakehouse.seen.status import STATES, TableStatus
from towpath.printable import printable

if TYPE_CHECKING:
    from prometheus_client import Counter, Gauge
    from pyspark.sql.streaming.listener import StreamingQueryProgress

_TABLE = ("database", "table")
_MOST_CONNECTIONS = 16
_SECONDS = 10
"""Maximum seconds of a read or a write of a connection."""


class _Handler(WSGIRequestHandler):
    timeout = _SECONDS

    def log_message(self, *_: Any) -> None:
        """Log no request."""


class Server(ThreadingMixIn, WSGIServer):
    """HTTP server with few connections. A new connection ends the oldest, so a silent client cannot block others.

    Raises:
        ValueError: The server cannot listen.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, port: int) -> None:
        self._open: deque[Any] = deque(maxlen=_MOST_CONNECTIONS)
        try:
            self.address_family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
            super().__init__((str(place[0]), port), _Handler)
        except OSError as error:
            raise ValueError(f"metrics: cannot listen on {address}:{port}: {error.strerror}") from None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread."""
        if len(self._open) == _MOST_CONNECTIONS:
            with suppress(OSError):  # the connection has already ended
                self._open[0].shutdown(socket.SHUT_RDWR)
        self._open.append(request)
        super().process_request(request, client_address)

    def handle_error(self, *_: Any) -> None:
        """Ignore a client that closes its connection early."""


class Exporter:
    """Counters of batches, which Prometheus reads over HTTP."""

    def __init__(self, address: str, port: int) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, make_wsgi_app

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
        server = Server(address, port)
        server.set_app(make_wsgi_app(registry))
        Thread(target=server.serve_forever, daemon=True).start()
        self.port: int = server.server_port
        """Port on which the server listens."""

    def count_tables(self, found: Iterable[TableStatus]) -> None:
        """Count the effects of a batch on tables."""
        for one in found:
            labels = one.database or "", one.table
            _of(self._rows, *labels).inc(one.applied)
            _of(self._deleted, *labels).inc(one.deleted)
            _of(self._old, *labels).inc(one.ignored_as_old)
            _of(self._dead, *labels).inc(one.dead_letters)
            _of(self._table_seconds, *labels).inc(one.merge_seconds or 0)
            for state in STATES if one.table else ():
                _of(self._state, *labels, state).set(state == one.state)

    def count_batch(self, progress: StreamingQueryProgress, seconds: float, lag: Mapping[tuple[str, str], int]) -> None:
        """Count a finished batch."""
        self._records.inc(progress.numInputRows)
        self._batches.inc()
        self._seconds.inc(seconds)
        self._last.set(seconds)
        self._ended.set_to_current_time()
        for partition, messages in lag.items():
            _of(self._lag, *partition).set(messages)


_Metric = TypeVar("_Metric", "Counter", "Gauge")


def _of(metric: _Metric, *labels: str) -> _Metric:
    """Return the metric with these labels. Prometheus refuses all metrics if one label has a control character."""
    return metric.labels(*map(printable, labels))
