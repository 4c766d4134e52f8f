"""The input that `_sequence` needs to order changes across batches: Kafka's offsets, or TiDB's commit times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.scalars import integers

if TYPE_CHECKING:
    from collections.abc import Mapping

OFFSET = "offset"
"""Input column that orders messages."""

_WITH_COMMIT_TIMES = ("ticdc-open", "ticdc-simple")


def has_sequence(arguments: Mapping[str, Any]) -> bool:
    """Return whether a decoder with these arguments has the column `_sequence`."""
    fields = arguments.get("fields")
    return arguments.get("layout") == "upsert" and (fields is None or "_sequence" in fields)


def needs_offset(arguments: Mapping[str, Any], dialect: str) -> bool:
    """Return whether changes in several batches have an order only with offsets."""
    return has_sequence(arguments) and dialect not in _WITH_COMMIT_TIMES


def unordered(what: str, cure: str) -> ValueError:
    """Return the error for an input without offsets, which would only have an order within each batch."""
    return ValueError(f'{what}: _sequence requires Kafka offsets; {cure}, or exclude "_sequence" with fields')


def check_ordered(arguments: Mapping[str, Any], messages: pa.Schema) -> None:
    """Refuse one of several batches without offsets. Numbers of other types do not order messages.

    Raises:
        ValueError: A decoder with these arguments has a `_sequence`, which would restart with each batch.
    """
    has_offsets = OFFSET in messages.names and messages.field(OFFSET).type == pa.int64()
    if not has_offsets and needs_offset(arguments, arguments.get("dialect", "auto")):
        raise unordered("the input", f"add the bigint column {OFFSET!r}")


def numbered(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Number messages by an offset column, unless they have offsets."""
    if OFFSET in batch.schema.names:
        return batch
    return batch.append_column(OFFSET, integers(list(range(first, first + len(batch)))))
