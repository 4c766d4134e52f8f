"""Places of messages, for errors."""

from __future__ import annotations

import pyarrow as pa

from towpath._towpath import DecodeError

KAFKA = ("topic", "partition", "offset")
"""Columns of Spark's Kafka source with the place of a message."""


def coordinates(batch: pa.RecordBatch, row: int) -> list[str]:
    """Return a message's place in Kafka, as far as the batch has it: `topic binlog`, `partition 0`, `offset 17`."""
    names = batch.schema.names
    return [f"{name} {batch[name][row].as_py()}" for name in KAFKA if name in names]


def located(error: DecodeError, *places: str) -> DecodeError:
    """Return the error with the place of its message before its text, and the byte in the message after it."""
    byte = "" if error.byte is None else f" (byte {error.byte} of the message)"
    error.args = (f"{', '.join(places)}: {error.message}{byte}",)
    return error
