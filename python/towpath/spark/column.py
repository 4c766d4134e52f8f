"""Decodes a column of messages to a column of rows, as `from_json` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from towpath.decoder import Decoder
    from towpath.literals import Dialect

_INDEX = "_message"
"""The column that the decoder copies to the rows: the index of their message."""


def from_cdc(
    col: Column | str,
    dialect: Dialect = "auto",
    schema: str | pa.Schema | StructType | None = None,
    *,
    key: Column | str | None = None,
    **options: Any,
) -> Column:
    """Decode a column of messages to an array of rows for each message. Needs Spark 4.1 or later.

    `decode` does the same for a DataFrame, on every Spark, and counts what it does. It is cheaper where each row of the
    array becomes a row. This function can be used in any expression, and keeps the other columns without naming them.

    Args:
        col: The column with the messages, binary or string. Null is a tombstone.
        dialect: As for `towpath.Decoder`, and so are `schema` and `options`; not `value` and `keep`.
        schema: The table's columns.
        key: The column with the messages' keys.
        **options: All other arguments of `towpath.Decoder`.

    Returns:
        A column of `array<struct<...>>`: the rows of each message, with the columns of the decoder's schema. The array
        is empty for a message without rows, such as one that the filter excludes.

    Raises:
        NotImplementedError: Spark is older than 4.1.
        ValueError: `towpath.Decoder` rejects an argument.

    Example:
        >>> rows = from_cdc("value", "canal-json", "id bigint, total decimal(10,2)", layout="upsert")
        >>> kafka.select("offset", explode(rows).alias("row")).select("offset", "row.*")
    """
    try:
        from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # of Spark 4.1 and later
    except ImportError:
        import pyspark

        raise NotImplementedError(
            f"from_cdc needs Spark 4.1 or later, and this is {pyspark.__version__}: use towpath.spark.decode"
        ) from None
    from pyspark.sql.types import ArrayType

    from towpath.decoder import Decoder

    for name in ("value", "keep"):
        if name in options:
            raise ValueError(f"{name}: from_cdc has the messages in its first argument, and keeps no columns")
    rows = Decoder(dialect, schema, **options).spark_schema
    decoder = Decoder(dialect, schema, key=None if key is None else "key", keep={_INDEX: pa.int64()}, **options)
    column: Column = (
        arrow_udf(_of_values(decoder), ArrayType(rows))(col)
        if key is None
        else arrow_udf(_of_keys_and_values(decoder), ArrayType(rows))(col, key)
    )
    return column


# Spark reads from a function's annotations what it is called with.
def _of_values(decoder: Decoder) -> Callable[..., pa.Array]:
    def decode(values: pa.Array) -> pa.Array:
        return _decoded(decoder, {"value": values})

    return decode


def _of_keys_and_values(decoder: Decoder) -> Callable[..., pa.Array]:
    def decode(values: pa.Array, keys: pa.Array) -> pa.Array:
        return _decoded(decoder, {"value": values, "key": keys})

    return decode


def _decoded(decoder: Decoder, messages: dict[str, pa.Array]) -> pa.Array:
    """A list of rows for each message."""
    begin_task()
    count = len(messages["value"])
    batch = pa.record_batch({**messages, _INDEX: pa.array(range(count), pa.int64())})
    decoded = pa.Table.from_batches(decoder.decode_batches(batch), decoder.schema)
    rows = decoded.drop_columns([_INDEX]).to_struct_array()
    return pa.ListArray.from_arrays(_offsets(decoded[_INDEX], count), pa.concat_arrays(rows.chunks))


def _offsets(messages: pa.ChunkedArray, count: int) -> pa.Array:
    """Where the rows of each message begin, given the ascending index of each row's message."""
    import numpy as np  # Spark's Arrow functions need it too

    return pa.array(np.searchsorted(messages.to_numpy(), np.arange(count + 1)).astype(np.int32))
