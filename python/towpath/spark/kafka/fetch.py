"""A worker's requests to Kafka: the messages of one range of a partition.

librdkafka fetches and decompresses in its own threads while a batch is decoded. Memory holds its queue and one batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from towpath.spark.kafka.client import client_config, import_client, refused, unanswered
from towpath.spark.kafka.offsets import Range, TopicPartition

if TYPE_CHECKING:
    from towpath.spark.kafka.options import KafkaSettings

_log = logging.getLogger("towpath.spark")

_MESSAGES = 10_000  # per batch, as in Spark's Arrow batches
_BYTES = 16 << 20  # per batch, approximately
_FIRST = 200  # messages of the first batch, since their size is unknown
_SECONDS = 0.1  # a batch contains the messages that have arrived by then
_SHORT_SECONDS = 3.0  # a partition may seem short or unknown for a moment after its leader has moved or restarted

_FIXED = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # Ranges end, so no request waits for future messages: a waiting request would delay the next range.
    "fetch.wait.max.ms": 10,
    # Look again soon after a full queue. The default of one second leaves the worker without messages.
    "fetch.queue.backoff.ms": 20,
}


class Fetcher:
    """Consumer for one range at a time."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._kafka = import_client()
        self._errors: list[Any] = []
        self._short_since: float | None = None
        config = {
            "group.id": f"{settings.group_prefix}-{uuid4()}",
            "queued.max.messages.kbytes": max(1, settings.buffer_bytes >> 10),
            **client_config(settings.client, self._errors),
            **_FIXED,
        }
        try:
            self._consumer = self._kafka.Consumer(config)
        except self._kafka.KafkaException as error:
            raise refused(error) from None

    def messages(self, wanted: Range, fail_on_data_loss: bool) -> Iterator[list[Any]]:
        """Yield the messages of a range in lists, each of about `_BYTES` at most.

        Offsets may be missing: offsets of transaction markers, aborted messages and compacted messages. So a range ends
        with the first message, or end of the partition, at or after its end. A count cannot decide it.

        Raises:
            ValueError: Messages of the range are gone, and `fail_on_data_loss` is true.
            PermissionError: The user may not read the topic.
            ConnectionError: Kafka was silent for too long.
        """
        self._errors.clear()
        self._seek(wanted)
        limit, heard = _FIRST, time.monotonic()
        while wanted.start < wanted.end:
            got = self._consumer.consume(min(limit, wanted.end - wanted.start), _SECONDS)
            found, events = _parted(got)
            if found:
                limit = _limit(found)
                wanted, within = _read(wanted, found)
                if within:
                    yield within
                heard, self._short_since = time.monotonic(), None
            for event in events:
                wanted = self._after(event, wanted, fail_on_data_loss)
            if self._short_since and time.monotonic() - self._short_since > _SHORT_SECONDS:
                wanted = self._shortened(wanted, fail_on_data_loss)
            self._check_patience(time.monotonic() - heard)

    def release(self) -> None:
        """Stop fetching."""
        self._consumer.unassign()

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _seek(self, wanted: Range) -> None:
        self._short_since = None
        self._consumer.assign([self._kafka.TopicPartition(*wanted.partition, wanted.start)])

    def _after(self, event: Any, wanted: Range, fail_on_data_loss: bool) -> Range:
        """Return the rest of a range after an event of librdkafka about its partition."""
        kinds = self._kafka.KafkaError
        code = event.error().code()
        if code == kinds._PARTITION_EOF:
            if event.offset() >= wanted.end:
                return replace(wanted, start=wanted.end)
            if event.offset() >= wanted.start:
                self._short_since = self._short_since or time.monotonic()
        elif code == kinds._AUTO_OFFSET_RESET:
            return self._out_of_range(wanted, fail_on_data_loss)
        elif code in (kinds.UNKNOWN_TOPIC_OR_PART, kinds._UNKNOWN_PARTITION, kinds._UNKNOWN_TOPIC):
            self._short_since = self._short_since or time.monotonic()
        elif code == kinds.TOPIC_AUTHORIZATION_FAILED:
            raise PermissionError(f"{wanted}: {event.error().str()}")
        elif code in (kinds._BAD_MSG, kinds._BAD_COMPRESSION, kinds._NOT_IMPLEMENTED):
            raise ValueError(f"{wanted}: a message cannot be read: {event.error().str()}")
        else:
            self._errors.append(event.error())
        return wanted

    def _out_of_range(self, wanted: Range, fail_on_data_loss: bool) -> Range:
        first, following = self._bounds(wanted)
        if wanted.start < first:
            lost = replace(wanted, end=min(first, wanted.end))
            report_loss(lost, f"the partition begins at {first}", fail_on_data_loss)
            wanted = replace(wanted, start=lost.end)
        elif wanted.start > following:
            return self._shortened(wanted, fail_on_data_loss)
        self._seek(wanted)
        return wanted

    def _shortened(self, wanted: Range, fail_on_data_loss: bool) -> Range:
        """Return the rest of a range whose partition ended before it, perhaps only for a moment."""
        _, following = self._bounds(wanted)
        if following >= wanted.end:
            self._seek(wanted)
            return wanted
        lost = replace(wanted, start=max(wanted.start, following))
        report_loss(lost, f"the partition ends at {following}", fail_on_data_loss)
        return replace(wanted, start=wanted.end)

    def _bounds(self, wanted: Range) -> tuple[int, int]:
        """Return the first offset of the partition and its next message's offset; both 0 if it does not exist.

        Without an answer return the range's offsets: fetching continues, and its patience also ends.
        """
        place = self._kafka.TopicPartition(*wanted.partition)
        try:
            first, following = self._consumer.get_watermark_offsets(place, 5)
        except self._kafka.KafkaException as error:
            if self._is_gone(wanted.partition):
                return 0, 0
            self._errors.append(error.args[0])
            return wanted.start, wanted.end
        return first, following

    def _is_gone(self, partition: TopicPartition) -> bool:
        """Return whether the brokers say that a partition does not exist. A partition without a leader still exists."""
        kinds = self._kafka.KafkaError
        try:
            found = self._consumer.list_topics(partition.topic, timeout=5).topics[partition.topic]
        except self._kafka.KafkaException:
            return False
        if found.error is not None:
            return bool(found.error.code() in (kinds.UNKNOWN_TOPIC_OR_PART, kinds._UNKNOWN_TOPIC))
        return bool(found.partitions) and partition.number not in found.partitions

    def _check_patience(self, silent: float) -> None:
        if silent > self._settings.poll_seconds:
            raise unanswered(self._kafka, self._settings, self._errors, silent)


def report_loss(lost: Range, now: str, fail: bool) -> None:
    """Report that messages of a range are gone.

    Raises:
        ValueError: `fail` is true.
    """
    text = f"messages lost, {lost} ({now}): they were deleted, or the topic was recreated"
    if fail:
        raise ValueError(f"{text}; set failOnDataLoss=false to continue without them")
    _log.warning("%s", text)


def _parted(got: list[Any]) -> tuple[list[Any], list[Any]]:
    """Split into messages, and librdkafka's events in their place, which are rare."""
    found = [one for one in got if one.error() is None]
    return found, [one for one in got if one.error() is not None] if len(found) < len(got) else []


def _limit(found: list[Any]) -> int:
    """Return the number of messages of this size to request. A sample determines the size."""
    sample = found[:: 1 + len(found) // 100]
    return max(1, min(_MESSAGES, _BYTES * len(sample) // max(1, sum(map(len, sample)))))


def _read(wanted: Range, found: list[Any]) -> tuple[Range, list[Any]]:
    """Return the rest of a range, and the messages that belong to the range."""
    following = found[-1].offset() + 1
    if following > wanted.end:
        found = [one for one in found if one.offset() < wanted.end]
    return replace(wanted, start=following), found


# A Spark worker runs many tasks, one at a time. Reconnecting for each would take longer than a small range.
_idle: dict[tuple[object, ...], Fetcher] = {}
_MOST_IDLE = 4


@contextmanager
def fetcher(settings: KafkaSettings) -> Iterator[Fetcher]:
    """Yield a fetcher with these settings: one of an earlier task in this process, or a new one."""
    key = (*sorted(settings.client.items()), settings.group_prefix, settings.buffer_bytes, settings.poll_seconds)
    used = _idle.pop(key, None) or Fetcher(settings)
    try:
        yield used
        used.release()
    except BaseException:
        used.close()
        raise
    while len(_idle) >= _MOST_IDLE:
        _idle.pop(next(iter(_idle))).close()
    _idle[key] = used
