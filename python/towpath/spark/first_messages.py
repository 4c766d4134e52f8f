"""The first messages of a Spark DataFrame, on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST = 10_000


def first_messages(frame: DataFrame) -> pa.Table:
    """Return the column `value`, and the column `key` if it exists, of the first 10,000 messages.

    Raises:
        ValueError: The DataFrame is a stream, or has no column `value`.
    """
    if frame.isStreaming:
        raise ValueError("infer_schema: this DataFrame is a stream; read some messages with spark.read instead")
    if "value" not in frame.columns:
        raise ValueError(f"infer_schema: the DataFrame has no column 'value', only {', '.join(frame.columns)}")
    names = [name for name in ("value", "key") if name in frame.columns]
    rows = frame.select(*names).limit(_MOST).collect()  # Spark 3.5 lacks toArrow
    columns = {name: [_bytes(row[name]) for row in rows] for name in names}
    return pa.table({name: pa.array(cells, pa.binary()) for name, cells in columns.items()})


def _bytes(cell: str | bytes | None) -> bytes | None:
    return cell.encode() if isinstance(cell, str) else cell
