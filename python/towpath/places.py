"""Columns of Kafka's messages, and places of messages for errors."""

from __future__ import annotations

import pyarrow as pa

from towpath._towpath import DecodeError

COLUMNS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
"""Columns of Spark's Kafka source in its order, with their Arrow types."""

KAFKA = ("topic", "partition", "offset")
"""Columns with the place of a message."""

PLACE = (*KAFKA, "timestamp")
"""Columns that identify a Kafka record. A recreated topic repeats its offsets with later timestamps."""

MESSAGE = {name: COLUMNS[name] for name in ("value", "key", *PLACE)}
"""Columns that are read, with their types."""


def coordinates(batch: pa.RecordBatch, row: int) -> list[str]:
    """Return a message's place in Kafka, as far as the batch has it: `topic binlog`, `partition 0`, `offset 17`."""
    names = batch.schema.names
    return [f"{name} {batch[name][row].as_py()}" for name in KAFKA if name in names]


def located(error: DecodeError, *places: str) -> DecodeError:
    """Return the error with the place of its message before its text, and the byte in the message after it."""
    byte = "" if error.byte is None else f" (byte {error.byte} of the message)"
    error.args = (f"{', '.join(places)}: {error.message}{byte}",)
    return error
