"""Converts messages in any form of a Python program to Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def as_arrow(values: Any) -> Any:
    """Return messages as an object with the Arrow PyCapsule interface.

    Args:
        values: One message (bytes, bytearray, memoryview, str); a list or other iterable of messages, in which None is
            a tombstone; a numpy array or pandas series of messages; or an object with the Arrow PyCapsule interface,
            which is returned unchanged: arrays, chunked arrays, record batches, tables, polars and pandas frames.

    Raises:
        TypeError: The values are not messages.
    """
    if isinstance(values, pa.RecordBatch):
        return _with_offsets(values)
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return values
    if isinstance(values, bytes | bytearray | memoryview | str):
        return _array([values])
    if hasattr(values, "tolist"):  # numpy, and pandas versions without the interface
        return _array(values.tolist())
    if isinstance(values, dict) or not hasattr(values, "__iter__"):
        raise TypeError(_expected(values))
    return _array(list(values))


def _with_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rewrite the nested columns of a batch: Spark's JVM leaves the offsets of empty children unset."""
    for at, field in enumerate(batch.schema):
        if pa.types.is_nested(field.type):
            batch = batch.set_column(at, field, pa.concat_arrays([batch.column(at), pa.nulls(0, field.type)]))
    return batch


def _array(values: list[Any]) -> pa.Array:
    """Return an array of binary, also for text. It has wide offsets if needed."""
    try:
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        array = pa.array(encoded, pa.binary())
        # Arrow makes several arrays for more than 2 GiB.
        return pa.array(encoded, pa.large_binary()) if isinstance(array, pa.ChunkedArray) else array
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        known = bytes | bytearray | memoryview | str | None
        wrong = next((value for value in values if not isinstance(value, known)), None)
        is_nan = isinstance(wrong, float) and wrong != wrong
        hint = "NaN is how pandas writes a missing value: series.astype(object).where(series.notna(), None)"
        raise TypeError(f"{_expected(wrong)}: {hint if is_nan else error}") from None


def _expected(found: Any) -> str:
    return (
        f"expected messages as bytes or str, a list or an Arrow array of them, or a table, not {type(found).__name__}"
    )
