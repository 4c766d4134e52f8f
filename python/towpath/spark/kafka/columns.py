"""Converts Kafka's messages to Arrow columns, with as little Python per message as the client allows.

Do not use `pa.array`: it imports pandas, which takes longer than most batches.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable
from itertools import accumulate
from operator import methodcaller
from typing import Any

import pyarrow as pa

from towpath.places import COLUMNS
from towpath.printable import printable
from towpath.scalars import text

_log = logging.getLogger("towpath.spark")

_VALUE, _KEY, _OFFSET = methodcaller("value"), methodcaller("key"), methodcaller("offset")
_TIMESTAMP, _HEADERS = methodcaller("timestamp"), methodcaller("headers")


def to_batch(messages: list[Any], names: Iterable[str]) -> pa.RecordBatch:
    """Return a batch with these of Spark's columns.

    Args:
        messages: At least one `confluent_kafka.Message`, all of one partition.
        names: Names out of `COLUMNS`.
    """
    chosen = list(dict.fromkeys(names))
    schema = pa.schema([(name, COLUMNS[name]) for name in chosen])
    return pa.record_batch([_BUILDERS[name](messages) for name in chosen], schema=schema)


def _binary(values: list[bytes | None]) -> pa.Array:
    validity = _validity([value is not None for value in values]) if None in values else None
    present = [value or b"" for value in values] if validity else values
    ends = array("i", accumulate(map(len, present), initial=0))  # type: ignore[arg-type]
    data = pa.py_buffer(b"".join(present))  # type: ignore[arg-type]
    return pa.Array.from_buffers(pa.binary(), len(values), [validity, pa.py_buffer(ends), data])


def _validity(valid: list[bool]) -> pa.Buffer:
    """Return a bit for each value, the lowest first."""
    bits = "".join("1" if one else "0" for one in reversed(valid))
    return pa.py_buffer(int(bits, 2).to_bytes((len(valid) + 7) // 8, "little"))


def _numbers(kind: pa.DataType, values: array[int]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _keys(messages: list[Any]) -> pa.Array:
    keys = list(map(_KEY, messages))
    return pa.nulls(len(keys), pa.binary()) if keys.count(None) == len(keys) else _binary(keys)


def _times(messages: list[Any]) -> pa.Array:
    times = [time for _, time in map(_TIMESTAMP, messages)]
    if max(times) < _MAX_TIME and min(times) >= _MIN_TIME:
        return _numbers(COLUMNS["timestamp"], array("q", [1000 * time for time in times]))
    readable = [_readable_time(time, message) for time, message in zip(times, messages, strict=True)]
    return pa.array(readable, pa.int64()).cast(COLUMNS["timestamp"])


_MIN_TIME, _MAX_TIME = -62_135_596_800_000, 253_402_300_800_000
"""Years 1 to 9999 in milliseconds, the range of Python and Spark. A broker accepts any number from a producer."""


def _readable_time(time: int, message: Any) -> int | None:
    """Return microseconds, or null for an unreadable time, so that one record does not stop its topic."""
    if _MIN_TIME <= time < _MAX_TIME:
        return 1000 * time
    _warn(message, f"timestamp {time} is outside of the years 1 to 9999 and becomes null")
    return None


def _warn(message: Any, problem: str) -> None:
    place = f"{printable(message.topic())}, partition {message.partition()}, offset {message.offset()}"
    _log.warning("record of topic %s: %s", place, problem)


def _time_types(messages: list[Any]) -> pa.Array:
    """Return Spark's timestamp types. Java numbers them from -1, librdkafka from 0."""
    return _numbers(pa.int32(), array("i", [kind - 1 for kind, _ in map(_TIMESTAMP, messages)]))


def _headers(messages: list[Any]) -> pa.Array:
    """Return the headers. They are null for a message without headers, as in Spark's source."""
    headers = list(map(_readable_headers, messages))
    pairs = [pair for of_message in headers for pair in of_message or ()]
    names = _binary([name.encode() for name, _ in pairs])
    names = pa.Array.from_buffers(pa.string(), len(names), names.buffers())
    structs = pa.StructArray.from_arrays([names, _binary([value for _, value in pairs])], ["key", "value"])
    validity = _validity([bool(of_message) for of_message in headers])
    ends = array("i", accumulate((len(of_message or ()) for of_message in headers), initial=0))
    buffers = [validity, pa.py_buffer(ends)]
    return pa.Array.from_buffers(COLUMNS["headers"], len(headers), buffers, children=[structs])


def _readable_headers(message: Any) -> list[tuple[str, bytes | None]] | None:
    """Return the headers; None if the client cannot read them, so that one record does not stop its topic."""
    try:
        found: list[tuple[str, bytes | None]] | None = _HEADERS(message)
    except (UnicodeDecodeError, SystemError):  # depends on the client's version
        _warn(message, "a header key is not UTF-8: all headers of the record are dropped")
        return None
    return found


_BUILDERS: dict[str, Callable[[list[Any]], pa.Array]] = {
    "key": _keys,
    "value": lambda messages: _binary(list(map(_VALUE, messages))),
    "topic": lambda messages: pa.repeat(text(messages[0].topic()), len(messages)),
    "partition": lambda messages: _numbers(pa.int32(), array("i", [messages[0].partition()]) * len(messages)),
    "offset": lambda messages: _numbers(pa.int64(), array("q", map(_OFFSET, messages))),
    "timestamp": _times,
    "timestampType": _time_types,
    "headers": _headers,
}
