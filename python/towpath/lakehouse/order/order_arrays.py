"""Order values in Arrow: equal to the values of `order.py`, with their rules in Rust (`rust/order`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.reading.arrow_batches import cast, fields_of

_INSTANT = pa.timestamp("us", "UTC")
_BIGINT = 2**63

ORDER = pa.struct(
    [
        ("event_time", _INSTANT),
        ("produced_time", _INSTANT),
        ("batch", pa.int64()),
        ("timestamp", _INSTANT),
        ("offset", pa.int64()),
        ("step", pa.int64()),
        ("commit_ts", pa.int64()),
        ("is_row", pa.bool_()),
        ("log", pa.string()),
        ("file", pa.int64()),
        ("at", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("table", pa.string()),
    ]
)
"""Type of an order value."""

_BINLOG_FILE = re.compile("(?:(.*)[.])?([0-9]+)", re.ASCII)


def order_values(changes: pa.RecordBatch) -> pa.StructArray:
    """Return the order value of each change in a frame of changes."""
    source = fields_of(changes.column("source"))
    commit, position, server, batch = (source[name] for name in ("commit_ts", "position", "server_id", "message_id"))
    log, number = _logs(source["file"])
    in_log = pc.and_(pc.and_(pc.is_null(commit), pc.is_valid(position)), pc.is_valid(number))
    has_batch = pc.greater(batch, 0).fill_null(False)
    of_server = pc.binary_join_element_wise(server.cast(pa.string()), log, "/")
    names = pc.if_else(pc.is_valid(server), of_server, log)
    values = {
        "event_time": changes.column("event_time"),
        "produced_time": _where(has_batch, changes.column("produced_time")),
        "batch": batch,
        **{name: changes.column(name) for name in ("timestamp", "offset", "step", "topic", "partition")},
        "table": changes.column("label"),
        "commit_ts": commit,
        "is_row": pc.invert(pc.is_in(changes.column("op"), pa.array(["delete", "truncate"]))),
        "log": _where(in_log, names),
        "file": _where(in_log, number),
        "at": _where(in_log, position),
    }
    return pa.StructArray.from_arrays([cast(values[one.name], one.type) for one in ORDER], fields=list(ORDER))


def with_event_times(orders: pa.StructArray, times: pa.Array) -> pa.StructArray:
    """Return order values with other event times."""
    fields = fields_of(orders) | {"event_time": times}
    return pa.StructArray.from_arrays([cast(fields[one.name], one.type) for one in ORDER], fields=list(ORDER))


def cast_struct(array: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    """Cast structs to another type, field by field: delta-rs adds view types and column metadata."""
    fields = fields_of(array)
    arrays = [cast(fields[one.name], one.type) for one in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pc.is_null(array))


def comparable(keys: pa.StructArray) -> pa.StructArray:
    """Return keys that are equal where MySQL's keys are: both zeros of FLOAT and DOUBLE are one key."""
    arrays = [pc.add(one, pa.scalar(0, one.type)) if pa.types.is_floating(one.type) else one for one in keys.flatten()]
    return pa.StructArray.from_arrays(arrays, fields=list(keys.type))


def _where(condition: pa.BooleanArray, values: pa.Array) -> pa.Array:
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _logs(files: pa.StringArray) -> tuple[pa.Array, pa.Array]:
    """Return the log name and the number of each file. The files have few distinct names."""
    encoded = files.dictionary_encode()
    matches = [text and _BINLOG_FILE.fullmatch(text) for text in encoded.dictionary.to_pylist()]

    def of_each(read: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
        return pa.array([read(match) if match else None for match in matches], kind).take(encoded.indices)

    return of_each(lambda match: match[1] or "", pa.string()), of_each(_number, pa.int64())


def _number(match: re.Match[str]) -> int | None:
    number = int(match[2][:20])
    return number if number < _BIGINT and len(match[2]) <= 20 else None
