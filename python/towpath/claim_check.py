"""Messages that were too large for Kafka: TiCDC stores them as files and sends only where they are."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.files import filesystem


def fetched(values: Any, places: list[tuple[int, str]], location: str, column: str) -> Any:
    """Put stored messages in the place of those that only name them.

    Args:
        values: An array of messages, or a record batch or struct array that has them in `column`.
        places: Index of each such message, and where its producer stored it.
        location: Folder or URI where the files are now.
        column: Name of the message column.

    Returns:
        The same values, with the messages as large binary if any was replaced.

    Raises:
        OSError: A file cannot be read.
    """
    if not places:
        return values
    stored = _read(places, location)
    if not isinstance(values, pa.RecordBatch | pa.StructArray):
        return _replaced(pa.array(values), stored)
    batch = values if isinstance(values, pa.RecordBatch) else pa.RecordBatch.from_struct_array(values)
    at = batch.schema.get_field_index(column)
    return batch.set_column(at, column, _replaced(batch.column(at), stored))


def _read(places: list[tuple[int, str]], location: str) -> dict[int, bytes]:
    """The files, by message: the last part of a place is the file's name, wherever its folder has moved to."""
    known, folder = filesystem(location)
    stored = {}
    for message, place in places:
        with known.open_input_file(f"{folder}/{PurePosixPath(place).name}") as file:
            stored[message] = file.read()
    return stored


def _replaced(messages: pa.Array, stored: dict[int, bytes]) -> pa.Array:
    mask = pa.array([at in stored for at in range(len(messages))], pa.bool_())
    replacements = pa.array([stored[at] for at in sorted(stored)], pa.large_binary())
    return pc.replace_with_mask(_large(messages), mask, replacements)


def _large(messages: pa.Array) -> pa.Array:
    """Messages as large binary; older pyarrow casts no views."""
    if pa.types.is_binary_view(messages.type) or pa.types.is_string_view(messages.type):
        return pa.array(messages.to_pylist(), pa.large_binary())
    return messages.cast(pa.large_binary())
