"""Kafka topics as the input of a verb, with the client and the options of the Spark source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from towpath.cli.inputs import Messages, limited
from towpath.places import MESSAGE
from towpath.spark.kafka.client import Cluster
from towpath.spark.kafka.columns import to_batch
from towpath.spark.kafka.fetch import fetcher
from towpath.spark.kafka.offsets import EARLIEST, Boundary, Range
from towpath.spark.kafka.options import parse_kafka_options


class Topics:
    """Messages that topics contain when reading begins, one partition after the other."""

    interrupted = False
    paths: Sequence[str] = ()

    def __init__(
        self,
        brokers: str,
        topics: Sequence[str],
        client: Sequence[tuple[str, str]],
        since: datetime | None,
        limit: int | None,
    ) -> None:
        """Check the arguments.

        Args:
            brokers: "host:port,host:port".
            topics: Names of topics.
            client: Settings of the client, such as ("security.protocol", "SASL_SSL").
            since: Earliest timestamp of a message, in UTC if it has no time zone. None means from the beginning.
            limit: Maximum number of messages to read.

        Raises:
            ValueError: A setting is not allowed.
            ImportError: Confluent's client is not installed.
        """
        named = {"kafka.bootstrap.servers": brokers, "subscribe": ",".join(topics), "layout": "messages"}
        self._settings = parse_kafka_options({**{f"kafka.{name}": value for name, value in client}, **named})
        self._start = Boundary(EARLIEST) if since is None else _since(since)
        self._limit = limit
        self._cluster = Cluster(self._settings)

    def __iter__(self) -> Iterator[Messages]:
        return limited(self._all(), self._limit)

    def _all(self) -> Iterator[Messages]:
        partitions = self._cluster.partitions()
        starts = self._cluster.resolve(self._start, "--since", partitions)
        ends = self._cluster.latest(partitions)
        for partition in partitions:
            if starts[partition] < ends[partition]:
                yield from self._of(Range(partition, starts[partition], ends[partition]))

    def _of(self, wanted: Range) -> Iterator[Messages]:
        first = 1
        with fetcher(self._settings) as source:
            for found in source.messages(wanted, fail_on_data_loss=False):
                yield Messages(wanted.partition.topic, first, to_batch(found, list(MESSAGE)))
                first += len(found)


def _since(time: datetime) -> Boundary:
    in_utc = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
    return Boundary(round(in_utc.timestamp() * 1000), by_time=True, or_latest=True)
