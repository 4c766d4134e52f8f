"""Offsets of topic partitions in the formats of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from towpath.foreign_json import parsed_json

EARLIEST = -2
LATEST = -1
"""Special offsets of the beginning and the end of a partition, as in Spark's options."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"partition {self.number} of topic {self.topic}"


Offsets = dict[TopicPartition, int]


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return offsets in Spark's format, `{"topic": {"0": 17}}`, ordered by topic and partition.

    Spark compares offsets as text, so equal offsets must have equal texts.
    """
    written: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        written.setdefault(topic, {})[str(number)] = offset
    return written


def from_json(written: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Reverse `to_json`."""
    return {
        TopicPartition(topic, int(number)): offset
        for topic, numbers in written.items()
        for number, offset in numbers.items()
    }


def parse(text: str) -> Offsets:
    """Parse offsets, or times in milliseconds, from JSON in Spark's format.

    Raises:
        ValueError: The text has another format.
    """
    written = _object(text)
    if not all(isinstance(numbers, dict) for numbers in written.values()):
        raise ValueError('JSON such as {"topic": {"0": 17}}')
    values = [value for numbers in written.values() for value in numbers.values()]
    if not all(type(value) is int for value in values) or not all(number.isdecimal() for number in _keys(written)):
        raise ValueError('JSON such as {"topic": {"0": 17}}')
    return from_json(written)


def parse_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Parse partitions from JSON such as `{"topic": [0, 1]}`, the format of `assign`.

    Raises:
        ValueError: The text has another format.
    """
    written = _object(text)
    if not all(isinstance(numbers, list) and all(type(one) is int for one in numbers) for numbers in written.values()):
        raise ValueError('JSON such as {"topic": [0, 1]}')
    return tuple(sorted({TopicPartition(topic, number) for topic, numbers in written.items() for number in numbers}))


def _object(text: str) -> dict[str, Any]:
    try:
        written = parsed_json(text)
    except ValueError:
        written = None
    if not isinstance(written, dict) or not written:
        raise ValueError("a JSON object that is not empty")
    return written


def _keys(written: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    return (number for numbers in written.values() for number in numbers)


@dataclass(frozen=True)
class Boundary:
    """Start or end of reading, from options."""

    value: int | Offsets
    """Value for all partitions or by partition: an offset, `EARLIEST`, `LATEST`, or a time in milliseconds."""
    by_time: bool = False
    """Whether the value is a time. It stands for the offset of the first message with this time or a later one."""
    or_latest: bool = False
    """Whether a time after the last message means the end of the partition. Otherwise it is an error."""

    def of(self, partition: TopicPartition) -> int:
        """Return the value for a partition that `check` has seen."""
        return self.value if isinstance(self.value, int) else self.value[partition]

    def values(self) -> Iterable[int]:
        """Return all values."""
        return [self.value] if isinstance(self.value, int) else self.value.values()

    def check(self, option: str, partitions: Iterable[TopicPartition]) -> None:
        """Compare the boundary with the partitions that are read.

        Raises:
            ValueError: The values are for other partitions.
        """
        if isinstance(self.value, int):
            return
        given, wanted = set(self.value), set(partitions)
        if unnamed := sorted(wanted - given):
            raise ValueError(f"{option}: no value for {unnamed[0]}; name all partitions")
        if unread := sorted(given - wanted):
            raise ValueError(f"{option}: {unread[0]} does not exist or is not subscribed")


@dataclass(frozen=True)
class Range:
    """Messages of one partition from the offset `start` up to, but not including, `end`."""

    partition: TopicPartition
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.partition}, offsets {self.start} to {self.end}"


def split(ranges: list[Range], at_least: int | None) -> list[Range]:
    """Split the ranges into about `at_least` parts, if there are fewer. Long ranges are cut into more parts."""
    if at_least is None or len(ranges) >= at_least:
        return ranges
    total = sum(one.end - one.start for one in ranges)
    return [part for one in ranges for part in _cut(one, round((one.end - one.start) * at_least / total))]


def _cut(whole: Range, parts: int) -> list[Range]:
    length = whole.end - whole.start
    parts = max(1, min(parts, length))
    edges = [whole.start + length * part // parts for part in range(parts + 1)]
    return [replace(whole, start=start, end=end) for start, end in pairwise(edges)]


def limited(start: Offsets, end: Offsets, most: int | None) -> Offsets:
    """Return the end of at most about `most` messages after `start`. Each partition's share depends on its backlog.

    Every partition with messages gets at least one, as in Spark's source, so no partition starves.
    """
    backlog = {partition: max(0, offset - start[partition]) for partition, offset in end.items()}
    total = sum(backlog.values())
    if most is None or total <= most:
        return end
    share = {partition: min(size, max(1, size * most // total)) for partition, size in backlog.items()}
    return {partition: min(offset, start[partition] + share[partition]) for partition, offset in end.items()}
