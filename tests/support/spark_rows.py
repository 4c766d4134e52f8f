"""Rows of Spark and of Arrow in a common form for comparison."""

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa


def of_spark(rows: list[Any]) -> list[dict[str, Any]]:
    """What `collect` returned."""
    return [_plain(row.asDict(recursive=True)) for row in rows]


def of_arrow(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """What a decoder returned."""
    return _plain(batch.to_pylist(maps_as_pydicts="strict"))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(timezone.utc).replace(tzinfo=None)
    return value
