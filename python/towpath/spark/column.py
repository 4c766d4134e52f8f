"""Decodes a column of messages to a column of rows, similar to `from_json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.sequence import OFFSET, needs_offset, unordered
from towpath.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType
    from typing_extensions import Unpack

    from towpath.arguments import RowOptions
    from towpath.decoder import Decoder
    from towpath.literals import Dialect

_INDEX = "_message"
"""Column with the index of each row's message. The decoder copies it to the rows."""


def from_cdc(
    col: Column | str,
    dialect: Dialect = "auto",
    schema: str | pa.Schema | StructType | None = None,
    *,
    key: Column | str | None = None,
    offset: Column | str | None = None,
    **options: Unpack[RowOptions],
) -> Column:
    """Decode a column of messages to an array of rows for each message. Needs Spark 4.1 or later.

    `decode` does the same for a DataFrame, on every Spark version, and also counts. It is cheaper if each row of the
    array becomes a row. This function works in any expression, and keeps the other columns without naming them.

    Args:
        col: Column with the messages, binary or string. Null is a tombstone.
        dialect: As for `towpath.Decoder`.
        schema: Columns of the table.
        key: Column with the messages' keys.
        offset: Column with Kafka's offsets (bigint). `_sequence` of layout "upsert" orders changes by it.
        **options: Other arguments of `towpath.Decoder`, except `value` and `keep`.

    Returns:
        A column of `array<struct<...>>`: the rows of each message, with the columns of the decoder's schema. A message
        without rows, for example one that the filter excludes, has an empty array.

    Raises:
        NotImplementedError: Spark is older than 4.1.
        ValueError: `towpath.Decoder` rejects an argument, or `_sequence` has no column to order by.

    Example:
        >>> rows = from_cdc("value", "canal-json", "id bigint, total decimal(10,2)", layout="upsert", offset="offset")
        >>> kafka.select("offset", explode(rows).alias("row")).select("offset", "row.*")
    """
    try:
        from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # of Spark 4.1 and later
    except ImportError:
        import pyspark

        raise NotImplementedError(
            f"from_cdc requires Spark 4.1 or later, not {pyspark.__version__}: use towpath.spark.decode"
        ) from None
    from pyspark.sql.types import ArrayType

    from towpath.decoder import Decoder

    for name in ("value", "keep"):
        if name in options:
            raise ValueError(f"{name}: from_cdc takes the messages as first argument, and keeps no columns")
    rows = Decoder(dialect, schema, **options).spark_schema
    if offset is None and needs_offset(options, dialect):
        raise unordered('layout="upsert"', "name the column with offset=")
    decoder = Decoder(dialect, schema, key=None if key is None else "key", keep={_INDEX: pa.int64()}, **options)
    inputs = {name: one for name, one in {"value": col, "key": key, OFFSET: offset}.items() if one is not None}
    column: Column = arrow_udf(_FUNCTIONS[len(inputs)](decoder, list(inputs)), ArrayType(rows))(*inputs.values())
    return column


# Spark reads the number of arguments from a function's annotations, so each number of columns has its own function.
def _of_one(decoder: Decoder, names: list[str]) -> Callable[..., pa.Array]:
    def decode(one: pa.Array) -> pa.Array:
        return _decoded(decoder, dict(zip(names, [one], strict=True)))

    return decode


def _of_two(decoder: Decoder, names: list[str]) -> Callable[..., pa.Array]:
    def decode(one: pa.Array, two: pa.Array) -> pa.Array:
        return _decoded(decoder, dict(zip(names, [one, two], strict=True)))

    return decode


def _of_three(decoder: Decoder, names: list[str]) -> Callable[..., pa.Array]:
    def decode(one: pa.Array, two: pa.Array, three: pa.Array) -> pa.Array:
        return _decoded(decoder, dict(zip(names, [one, two, three], strict=True)))

    return decode


_FUNCTIONS = {1: _of_one, 2: _of_two, 3: _of_three}


def _decoded(decoder: Decoder, messages: dict[str, pa.Array]) -> pa.Array:
    """Return a list of rows for each message."""
    begin_task()
    count = len(messages["value"])
    if OFFSET in messages:
        messages[OFFSET] = messages[OFFSET].cast(pa.int64())
    batch = pa.record_batch({**messages, _INDEX: pa.array(range(count), pa.int64())})
    decoded = pa.Table.from_batches(decoder.decode_batches(batch), decoder.schema)
    rows = decoded.drop_columns([_INDEX]).to_struct_array()
    return pa.ListArray.from_arrays(_offsets(decoded[_INDEX], count), pa.concat_arrays(rows.chunks))


def _offsets(messages: pa.ChunkedArray, count: int) -> pa.Array:
    """Return where the rows of each message begin, given the ascending index of each row's message."""
    import numpy as np  # Spark's Arrow functions need it too

    return pa.array(np.searchsorted(messages.to_numpy(), np.arange(count + 1)).astype(np.int32))
