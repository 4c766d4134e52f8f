"""The driver's requests to Kafka: partitions and their offsets."""

from __future__ import annotations

import concurrent.futures
import re
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from towpath.linear import full_match
from towpath.spark.kafka.offsets import EARLIEST, LATEST, Boundary, Offsets, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from towpath.spark.kafka.options import KafkaSettings

    Answers = dict[Any, concurrent.futures.Future[Any]]

_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_PAUSE = 0.2  # seconds between failing requests, and between looks at librdkafka's reports
_ANSWER = 3.0  # seconds to wait for an answer, which takes milliseconds; longer after each missing answer
_UNREACHABLE = 3.0  # seconds until refusals by all brokers are an error: a restarting broker may refuse for a moment


def import_client() -> Any:
    """Import and return Confluent's client.

    Raises:
        ImportError: The client is not installed.
    """
    try:
        import confluent_kafka
    except ImportError:
        raise ImportError(
            "the Kafka input needs Confluent's client: pip install confluent-kafka (the extra 'kafka')"
        ) from None
    return confluent_kafka


def client_config(client: Mapping[str, str], errors: list[KafkaError]) -> dict[str, Any]:
    """Return settings of any librdkafka client. Its errors are appended to `errors` instead of being logged."""
    return {"log_level": 0, "isolation.level": "read_uncommitted", **client, "error_cb": errors.append}


def refused(error: Exception) -> ValueError:
    """Return the error for a setting that librdkafka does not know or allow. The message names the setting."""
    reason = error.args[0].str() if error.args and hasattr(error.args[0], "str") else str(error)
    return ValueError(f"options kafka.*: {reason}; expected a setting of librdkafka, or one of Java with an equivalent")


class Cluster:
    """Kafka's brokers as the driver sees them."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._kafka = import_client()
        import_module("confluent_kafka.admin")  # only on the driver: workers start twice as fast without it
        self._errors: list[KafkaError] = []
        self._reached = False
        self._admin = self._connected()

    def _connected(self) -> Any:
        """Return a client that knows only the bootstrap servers."""
        try:
            return self._kafka.admin.AdminClient(client_config(self._settings.client, self._errors))
        except self._kafka.KafkaException as error:
            raise refused(error) from None

    def partitions(self) -> list[TopicPartition]:
        """Return the subscribed or assigned partitions in order.

        Raises:
            ValueError: A topic or a partition does not exist.
            ConnectionError: Kafka does not answer.
        """
        settings = self._settings
        if settings.pattern is not None:
            return sorted(self._matching(settings.pattern))
        existing = self._described({*settings.topics, *(partition.topic for partition in settings.assigned)})
        if missing := sorted(set(settings.assigned) - set(existing)):
            raise ValueError(f"assign: {missing[0]} does not exist")
        return sorted(settings.assigned or existing)

    def _matching(self, pattern: str) -> Iterable[TopicPartition]:
        found = self._ask(lambda: {"": _done(lambda: self._admin.list_topics(timeout=5))})[""]
        return (
            TopicPartition(topic, number)
            for topic, described in found.topics.items()
            if full_match(re.compile(pattern), topic) and topic not in _INTERNAL
            for number in described.partitions
        )

    def _described(self, topics: set[str]) -> list[TopicPartition]:
        names = self._kafka.TopicCollection(sorted(topics))
        try:
            found = self._ask(lambda: self._admin.describe_topics(names))
        except self._kafka.KafkaException as error:
            raise ValueError(f"subscribe {', '.join(sorted(topics))}: {error.args[0].str()}") from None
        return [TopicPartition(topic, one.id) for topic, described in found.items() for one in described.partitions]

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the earliest available offset of each partition."""
        return self.resolve(Boundary(EARLIEST), "", partitions)

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the next message's offset of each partition; with `read_committed`, the first open transaction's."""
        return self.resolve(Boundary(LATEST), "", partitions)

    def resolve(self, boundary: Boundary, option: str, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offsets of a boundary.

        Raises:
            ValueError: A partition has no message with the requested time or later.
            ConnectionError: Kafka does not answer.
        """
        wanted = {partition: boundary.of(partition) for partition in partitions}
        specs = self._kafka.admin.OffsetSpec
        if boundary.by_time:
            asked = {partition: specs.for_timestamp(value) for partition, value in wanted.items()}
        else:
            words = {EARLIEST: specs.earliest(), LATEST: specs.latest()}
            asked = {partition: words[value] for partition, value in wanted.items() if value in words}
        found = {**wanted, **self._offsets(asked)}
        late = [partition for partition, offset in found.items() if boundary.by_time and offset < 0]
        if late and not boundary.or_latest:
            raise ValueError(
                f"{option}: {late[0]} has no message at or after {wanted[late[0]]} ms; "
                "startingOffsetsByTimestampStrategy=latest starts at its end instead"
            )
        return {**found, **self.latest(late)} if late else found

    def _offsets(self, asked: Mapping[TopicPartition, Any]) -> Offsets:
        if not asked:
            return {}
        places = {self._kafka.TopicPartition(*partition): spec for partition, spec in asked.items()}
        level = self._settings.client.get("isolation.level", "read_uncommitted").upper()
        isolation = self._kafka.IsolationLevel[level]
        found = self._ask(lambda: self._admin.list_offsets(places, isolation_level=isolation))
        return {TopicPartition(place.topic, place.partition): result.offset for place, result in found.items()}

    def _ask(self, question: Callable[[], Answers]) -> dict[Any, Any]:
        """Return the answers. Retry transient errors for as long as Kafka may be silent."""
        began = time.monotonic()
        patience = self._settings.poll_seconds if self._reached else self._settings.connect_seconds
        limit = _ANSWER if self._reached else patience / 2
        while True:
            answers = question()
            error = self._error(answers, time.monotonic() + limit, lambda: self._give_up(began, patience, None))
            if error is None:
                self._reached = True
                self._errors.clear()
                return {key: one.result() for key, one in answers.items()}
            if not self._passes(error, time.monotonic() - began):
                raise error
            self._give_up(began, patience, error)
            if isinstance(error, TimeoutError):
                limit *= 1.5
            time.sleep(_PAUSE)
            # The old client may know an earlier leader or its epoch, and does not always ask for a later one.
            self._admin = self._connected()

    def _error(self, answers: Answers, deadline: float, check: Callable[[], None]) -> BaseException | None:
        """Wait for the answers, and return the error of one of them.

        librdkafka may wait a minute for a broker that is gone although other brokers are up, or return an invalid
        offset. Both are a `TimeoutError` here: a new client asks the brokers that are up.
        """
        pending = set(answers.values())
        while pending:
            pending = concurrent.futures.wait(pending, timeout=_PAUSE).not_done
            self._admin.poll(0)
            if pending:
                check()
                if time.monotonic() > deadline:
                    return TimeoutError("no response")
        for one in answers.values():
            if (error := one.exception()) is not None:
                return error
            if getattr(one.result(), "offset", None) == self._kafka.OFFSET_INVALID:
                return TimeoutError("no response from the partition leader")
        return None

    def _passes(self, error: BaseException, waited: float) -> bool:
        """Return whether to ask again: brokers that restart or move leaders answer wrongly for a moment."""
        kinds = self._kafka.KafkaError
        if not isinstance(error, self._kafka.KafkaException):
            return isinstance(error, TimeoutError)
        code = error.args[0].code()
        if code == kinds.UNKNOWN_TOPIC_OR_PART:
            return self._reached and waited < _UNREACHABLE
        moving = (
            *(kinds.UNKNOWN_LEADER_EPOCH, kinds.FENCED_LEADER_EPOCH, kinds.BROKER_NOT_AVAILABLE),
            *(kinds.LEADER_NOT_AVAILABLE, kinds.NOT_LEADER_FOR_PARTITION, kinds.OFFSET_NOT_AVAILABLE),
            kinds._NOENT,  # no partition has a leader
        )
        silent = (kinds._TIMED_OUT, kinds._TRANSPORT, kinds._ALL_BROKERS_DOWN, kinds._TIMED_OUT_QUEUE)
        return bool(error.args[0].retriable() or code in (*moving, *silent))

    def _give_up(self, began: float, patience: float, error: BaseException | None) -> None:
        """Raise if waiting longer is useless: a wrong password stays wrong, and a wrong host never becomes a broker."""
        waited = time.monotonic() - began
        kinds = self._kafka.KafkaError
        codes = {one.code() for one in self._errors}
        hopeless = not self._reached and (
            codes & {kinds._AUTHENTICATION, kinds._SSL}
            or (kinds._ALL_BROKERS_DOWN in codes and waited > min(_UNREACHABLE, patience))
        )
        if hopeless or waited > patience:
            raise unanswered(self._kafka, self._settings, self._errors, waited, error) from None


def unanswered(
    kafka: Any, settings: KafkaSettings, errors: list[KafkaError], waited: float, last: object = None
) -> ConnectionError:
    """Return the error for brokers that do not answer, with librdkafka's last report about a broker."""
    reasons = [one.str() for one in errors if one.code() != kafka.KafkaError._ALL_BROKERS_DOWN]
    reason = reasons[-1] if reasons else str(last or "no response")
    return ConnectionError(f"Kafka at {settings.client['bootstrap.servers']}: {reason} (after {waited:.0f} s)")


def _done(function: Callable[[], Any]) -> concurrent.futures.Future[Any]:
    """Return the result of a call that blocks as a future."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    try:
        future.set_result(function())
    except Exception as error:
        future.set_exception(error)
    return future
