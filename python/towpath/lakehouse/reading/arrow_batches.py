"""Arrow record batches: row selection and column access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

INDEX = "_message"
"""Column with the index of each row's message. A decoder copies it to the rows; copying messages is expensive."""


def indices_of(rows: Sized) -> pa.Int64Array:
    """Return the indices of rows: 0, 1 and so on."""
    return _range(len(rows))


@lru_cache(16)  # most batches have the same length, and making the array takes longer than using it
def _range(count: int) -> pa.Int64Array:
    return pa.array(range(count), pa.int64())


def taken(rows: Any, indices: pa.Int64Array) -> Any:
    """Return rows of an array or a record batch. Do not copy them if they are all rows in order."""
    is_all = len(rows) == len(indices) and indices.equals(indices_of(rows))
    return rows if is_all else rows.take(indices)


def by_name(batch: pa.RecordBatch | pa.Table) -> dict[str, Any]:
    """Return the columns of a batch or a table by name."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Replace columns of a batch with columns of the same types."""
    return pa.record_batch(
        [cast(columns.get(one.name, batch.column(one.name)), one.type) for one in batch.schema], batch.schema
    )


def fields_of(structs: pa.StructArray) -> dict[str, pa.Array]:
    """Return the fields of structs by name. One call for all is quicker than a kernel for each."""
    return dict(zip((one.name for one in structs.type), structs.flatten(), strict=True))


def cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array to a type, unless it has it already."""
    return array if array.type == kind else array.cast(kind)


def part_of(struct: pa.StructArray, fields: Mapping[str, pa.DataType], nulls: pa.Array | None = None) -> pa.StructArray:
    """Return structs with some of their fields, null where they were null or where `nulls` is true."""
    of_struct = fields_of(struct)
    arrays = [of_struct[name] for name in fields]
    mask = pc.is_null(struct) if nulls is None else nulls
    return pa.StructArray.from_arrays(arrays, fields=[pa.field(*field) for field in fields.items()], mask=mask)


def with_index(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return messages with the column `INDEX`."""
    return messages.append_column(INDEX, indices_of(messages))


def row_ids(messages: pa.Array, rows: pa.Array) -> pa.Array:
    """Return a number for each row from its message's index and its number in the message."""
    return pc.add(pc.shift_left(messages.cast(pa.int64()), 32), rows.cast(pa.int64()))


def groups_of(batch: pa.RecordBatch, *names: str) -> Iterator[tuple[tuple[Any, ...], pa.Int64Array]]:
    """Yield the distinct values of some columns, each with the indices of its rows."""
    rows = pa.table({name: batch.column(name) for name in names} | {"at": indices_of(batch)})
    groups = rows.group_by(list(names), use_threads=False).aggregate([("at", "list")])
    for *values, at in zip(*(groups[name] for name in (*names, "at_list")), strict=True):
        yield tuple(one.as_py() for one in values), at.values
