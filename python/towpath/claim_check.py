"""The claim-check pattern: TiCDC stores a message that is too large for Kafka in a file, and sends the file's path."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.files import filesystem


def load_messages(values: Any, pointers: list[tuple[int, str]], location: str, column: str) -> Any:
    """Replace claim-check pointers by the messages that they point to.

    Args:
        values: An array of messages, or a record batch or struct array that has them in `column`.
        pointers: Index of each message that is a pointer, and the path that its producer wrote.
        location: Folder or URI that has the files now.
        column: Name of the message column.

    Returns:
        The same values; the messages are large binary if any was replaced.

    Raises:
        OSError: A file cannot be read.
    """
    if not pointers:
        return values
    stored = _read(pointers, location)
    if not isinstance(values, pa.RecordBatch | pa.StructArray):
        return _replaced(pa.array(values), stored)
    batch = values if isinstance(values, pa.RecordBatch) else pa.RecordBatch.from_struct_array(values)
    at = batch.schema.get_field_index(column)
    return batch.set_column(at, column, _replaced(batch.column(at), stored))


def _read(pointers: list[tuple[int, str]], location: str) -> dict[int, bytes]:
    """The stored messages by index. Only the file name of a path counts, since the folder may have been moved."""
    known, folder = filesystem(location)
    stored = {}
    for index, path in pointers:
        with known.open_input_file(f"{folder}/{PurePosixPath(path).name}") as file:
            stored[index] = file.read()
    return stored


def _replaced(messages: pa.Array, stored: dict[int, bytes]) -> pa.Array:
    mask = pa.array([index in stored for index in range(len(messages))], pa.bool_())
    replacements = pa.array([stored[index] for index in sorted(stored)], pa.large_binary())
    return pc.replace_with_mask(_as_large_binary(messages), mask, replacements)


def _as_large_binary(messages: pa.Array) -> pa.Array:
    """Older versions of pyarrow cannot cast view types."""
    if pa.types.is_binary_view(messages.type) or pa.types.is_string_view(messages.type):
        return pa.array(messages.to_pylist(), pa.large_binary())
    return messages.cast(pa.large_binary())
