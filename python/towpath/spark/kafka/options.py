"""Options of the Kafka input, with the names and meanings of Spark's Kafka source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.decoder import Decoder
from towpath.places import COLUMNS
from towpath.spark.kafka.client_options import client_settings
from towpath.spark.kafka.offsets import EARLIEST, LATEST, Boundary, TopicPartition, parse, parse_partitions
from towpath.spark.source_options import DECODER_PARSERS, Parser, flag, kept, one_of, parsed, size
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MESSAGES = "messages"
"""Layout that returns these columns undecoded."""


@dataclass(frozen=True)
class KafkaSettings:
    """Options of one read."""

    arguments: dict[str, Any]
    """Arguments of `towpath.Decoder`, with the types of `keep`. Layout `MESSAGES` has only `keep`, its columns."""
    undecoded: bool
    """Whether the layout is `MESSAGES`."""
    client: dict[str, str]
    """Settings of librdkafka."""
    topics: tuple[str, ...]
    pattern: str | None
    assigned: tuple[TopicPartition, ...]
    starting: Boundary | None
    ending: Boundary | None
    max_offsets: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    group_prefix: str
    buffer_bytes: int
    connect_seconds: float
    """Maximum duration of the first contact."""
    poll_seconds: float
    """Maximum silence of Kafka after the first contact."""

    def decoder(self) -> Decoder:
        """Return the decoder of the messages."""
        return Decoder(**self.arguments, key="key")

    @property
    def spark_schema(self) -> StructType:
        """Columns of the output."""
        if self.undecoded:
            return struct_type(pa.schema(list(self.arguments["keep"].items())))
        return self.decoder().spark_schema


def is_kafka(options: Mapping[str, str]) -> bool:
    """Return whether any option belongs to the Kafka input only."""
    return any(name.lower() in _KAFKA_NAMES or name.lower().startswith("kafka.") for name in options)


def parse_kafka_options(options: Mapping[str, str]) -> KafkaSettings:
    """Parse options. Their names are case-insensitive.

    Raises:
        ValueError: An option is unknown, missing, or its value is invalid; or two options exclude each other.
    """
    client = {name[6:].lower(): text for name, text in options.items() if name.lower().startswith("kafka.")}
    others = {name: text for name, text in options.items() if not name.lower().startswith("kafka.")}
    given = parsed(others, _PARSERS)
    own = {name: given.pop(name, None) for name in _KAFKA_PARSERS}
    if "bootstrap.servers" not in client:
        raise ValueError("option kafka.bootstrap.servers is missing: name the brokers, host:port,host:port")
    _one_selection(own)
    undecoded = given.get("layout") == MESSAGES
    return KafkaSettings(
        arguments=_of_messages(given, own["includeHeaders"]) if undecoded else _of_decoder(given),
        undecoded=undecoded,
        client=client_settings(client),
        topics=own["subscribe"] or (),
        pattern=own["subscribePattern"],
        assigned=own["assign"] or (),
        starting=_boundary(own, "starting"),
        ending=_boundary(own, "ending"),
        max_offsets=own["maxOffsetsPerTrigger"],
        min_partitions=own["minPartitions"],
        fail_on_data_loss=own["failOnDataLoss"] is not False,
        group_prefix=own["groupIdPrefix"] or "towpath-kafka-source",
        buffer_bytes=own["fetchBufferBytes"] or 64 << 20,
        connect_seconds=(own["connectTimeoutMs"] or 10_000) / 1000,
        poll_seconds=(own["kafkaConsumer.pollTimeoutMs"] or 120_000) / 1000,
    )


def _one_selection(own: Mapping[str, Any]) -> None:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if own[name]]
    if len(given) != 1:
        raise ValueError(f"expected one of the options subscribe, subscribePattern and assign, not {given or 'none'}")


def _of_messages(given: Mapping[str, Any], with_headers: bool | None) -> dict[str, Any]:
    """Return Spark's columns as arguments. The layout has no decoder, so other arguments are refused."""
    if extra := sorted(given.keys() - {"layout"}):
        raise ValueError(f"option {extra[0]}: not supported with layout {MESSAGES}, which does not decode")
    return {"keep": {name: kind for name, kind in COLUMNS.items() if name != "headers" or with_headers}}


def _of_decoder(given: Mapping[str, Any]) -> dict[str, Any]:
    return {**given, "keep": {name: COLUMNS[name] for name in given.get("keep", ())}}


def _boundary(own: Mapping[str, Any], side: str) -> Boundary | None:
    """Return the start or the end of reading. As in Spark, one time precedes times by partition, then offsets."""
    or_latest = side == "ending" or own["startingOffsetsByTimestampStrategy"] == "latest"
    for name in (f"{side}Timestamp", f"{side}OffsetsByTimestamp"):
        if own[name] is not None:
            return Boundary(own[name], by_time=True, or_latest=or_latest)
    offsets = own[f"{side}Offsets"]
    return None if offsets is None else Boundary(offsets)


def _offsets(*words: str) -> Parser:
    """Return a parser of offsets: one of these words, or JSON."""

    def parse_offsets(text: str) -> Any:
        word = text.strip().lower()
        return _WORDS[word] if word in words else parse(text)

    return parse_offsets


_WORDS = {"earliest": EARLIEST, "latest": LATEST}


def _count(text: str) -> int:
    if not text.strip().isdecimal() or not int(text):
        raise ValueError("a positive integer")
    return int(text)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression: {error}") from None
    return text


def _topics(text: str) -> tuple[str, ...]:
    return tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))


_KAFKA_PARSERS: dict[str, Parser] = {
    "subscribe": _topics,
    "subscribePattern": _pattern,
    "assign": parse_partitions,
    "startingOffsets": _offsets("earliest", "latest"),
    "startingOffsetsByTimestamp": parse,
    "startingOffsetsByTimestampStrategy": one_of("error", "latest"),
    "startingTimestamp": _count,
    "endingOffsets": _offsets("latest"),
    "endingOffsetsByTimestamp": parse,
    "endingTimestamp": _count,
    "failOnDataLoss": flag,
    "minPartitions": _count,
    "maxOffsetsPerTrigger": _count,
    "includeHeaders": flag,
    "groupIdPrefix": str,
    "kafkaConsumer.pollTimeoutMs": _count,
    "connectTimeoutMs": _count,
    "fetchBufferBytes": size,
}
_KAFKA_NAMES = {name.lower() for name in _KAFKA_PARSERS}

_PARSERS: dict[str, Parser] = {
    **DECODER_PARSERS,
    "keep": kept(tuple(name for name in COLUMNS if name != "value")),
    "kafka.bootstrap.servers": str,  # listed for the error about an unknown option
    **_KAFKA_PARSERS,
}
