"""Reads captures with keys and values: one JSON object per line, with both as they were sent."""

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from fidelity import lines

DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Record:
    """A record of a topic."""

    topic: str
    key: bytes | None
    value: bytes | None


def load(path: Path) -> list[Record]:
    """The records of a file of `{"topic":...,"key":...,"value":...}`."""
    return [_record(line.decode()) for line in lines(path)]


def _record(line: str) -> Record:
    """Key and value are substrings of the line, not serialized again: numbers keep the producer's digits."""
    topic, end = _part(line, '{"topic":', 0)
    key, end = _part(line, ',"key":', end)
    value, end = _part(line, ',"value":', end)
    assert line[end:] == "}"
    return Record(json.loads(topic), _bytes(key), _bytes(value))


def _part(line: str, before: str, start: int) -> tuple[str, int]:
    assert line.startswith(before, start)
    start += len(before)
    _, end = DECODER.raw_decode(line, start)
    return line[start:end], end


def _bytes(text: str) -> bytes | None:
    return None if text == "null" else text.encode()


def batch(records: list[Record]) -> pa.RecordBatch:
    """As Spark's Kafka source returns them: the columns `topic`, `key` and `value`."""
    return pa.record_batch(
        {
            "topic": pa.array([record.topic for record in records]),
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
        }
    )
