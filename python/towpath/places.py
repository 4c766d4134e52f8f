"""Where a message is, for errors."""

from __future__ import annotations

import pyarrow as pa

from towpath._towpath import DecodeError

KAFKA = ("topic", "partition", "offset")
"""The columns of Spark's Kafka source that say where a message is."""


def coordinates(batch: pa.RecordBatch, row: int) -> list[str]:
    """The place of a message in Kafka, as far as the batch has it: `topic binlog`, `partition 0`, `offset 17`."""
    names = batch.schema.names
    return [f"{name} {batch[name][row].as_py()}" for name in KAFKA if name in names]


def located(error: DecodeError, *places: str) -> DecodeError:
    """The error with the place of its message in front of its text, and the byte in the message behind it."""
    byte = "" if error.byte is None else f" (byte {error.byte} of the message)"
    error.args = (f"{', '.join(places)}: {error.message}{byte}",)
    return error
