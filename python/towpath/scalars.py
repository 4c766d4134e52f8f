"""Arrow scalars without `pa.scalar` and `pa.array`: these import pandas, which takes longer than many a batch."""

from __future__ import annotations

import sys

import pyarrow as pa


def integer(value: int) -> pa.Int64Scalar:
    """An int64."""
    return integers([value])[0]


def integers(values: list[int]) -> pa.Array:
    """An array of int64."""
    octets = b"".join(value.to_bytes(8, sys.byteorder, signed=True) for value in values)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(octets)])


def text(value: str) -> pa.StringScalar:
    """A string."""
    octets = value.encode()
    ends = b"".join(end.to_bytes(4, sys.byteorder) for end in (0, len(octets)))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(octets)])[0]
