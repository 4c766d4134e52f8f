"""What `_sequence` needs to order changes across batches: Kafka's offsets, or TiDB's commit times in every message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.scalars import integers

if TYPE_CHECKING:
    from collections.abc import Mapping

OFFSET = "offset"
"""The input column that orders messages."""

_WITH_COMMIT_TIMES = ("ticdc-open", "ticdc-simple")


def has_sequence(arguments: Mapping[str, Any]) -> bool:
    """Whether a decoder with these arguments has the column `_sequence`."""
    fields = arguments.get("fields")
    return arguments.get("layout") == "upsert" and (fields is None or "_sequence" in fields)


def needs_offset(arguments: Mapping[str, Any], dialect: str) -> bool:
    """Whether changes in several batches have an order only with offsets."""
    return has_sequence(arguments) and dialect not in _WITH_COMMIT_TIMES


def unordered(what: str, cure: str) -> ValueError:
    """The error of an input without offsets, which would be ordered within each batch only."""
    return ValueError(
        f'{what}: _sequence orders changes by Kafka\'s offset; {cure}, or leave out "_sequence" with fields'
    )


def check_ordered(arguments: Mapping[str, Any], messages: pa.Schema) -> None:
    """Refuse one of several batches without offsets; numbers of other types order nothing.

    Raises:
        ValueError: A decoder with these arguments has a `_sequence`, which would begin again with each batch.
    """
    has_offsets = OFFSET in messages.names and messages.field(OFFSET).type == pa.int64()
    if not has_offsets and needs_offset(arguments, arguments.get("dialect", "auto")):
        raise unordered("the input", f"select the column {OFFSET!r}, a bigint, too")


def numbered(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Messages with numbers as their offsets, unless they have offsets."""
    if OFFSET in batch.schema.names:
        return batch
    return batch.append_column(OFFSET, integers(list(range(first, first + len(batch)))))
