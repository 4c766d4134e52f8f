"""Arrow scalars and arrays without `pa.scalar` and `pa.array`: these import pandas, which takes longer than a batch."""

from __future__ import annotations

import sys

import pyarrow as pa


def integer(value: int) -> pa.Int64Scalar:
    """Return an int64 scalar."""
    return integers([value])[0]


def integers(values: list[int]) -> pa.Array:
    """Return an int64 array."""
    data = b"".join(value.to_bytes(8, sys.byteorder, signed=True) for value in values)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(data)])


def text(value: str) -> pa.StringScalar:
    """Return a string scalar."""
    data = value.encode()
    offsets = b"".join(offset.to_bytes(4, sys.byteorder) for offset in (0, len(data)))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])[0]
