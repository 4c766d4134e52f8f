"""Messages of a DataFrame to rows.

Everything here is `DataFrame.mapInArrow` and `DataFrame.observe`, which classic Spark and Spark Connect share, so there
is one implementation for both, for batch and for streaming.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from towpath.spark.counts import Counting, counted, observed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Observation
    from pyspark.sql.types import StructField, StructType


def decode(
    df: DataFrame,
    dialect: str = "auto",
    schema: str | pa.Schema | StructType | None = None,
    *,
    keep: Sequence[str] = (),
    value: str = "value",
    key: str | None = None,
    metrics: str | Observation | None = None,
    **options: Any,
) -> DataFrame:
    """Decode the messages of a DataFrame, batch or streaming, classic or Spark Connect.

    Only the columns that are needed (`value`, `key`, `keep`) cross into Python.

    Args:
        df: A DataFrame with a column of messages, such as Spark's Kafka source gives.
        dialect: As for `towpath.Decoder`, and so are `schema`, `key` and `options`.
        schema: The table's columns.
        keep: Columns of `df` to copy beside every output row, with the types they have in `df`.
        value: The column with the messages, binary or string.
        key: The column with the messages' keys.
        metrics: Name of an observation, or an `Observation`, that gets the counts `messages`, `rows`, `filtered`,
            `dropped`, `errors` and `errors_<kind>`. They arrive as any `DataFrame.observe` metrics do: from
            `Observation.get` in batch, in `observedMetrics` of a streaming query's progress. Without it nothing
            is counted. With it every output column is declared nullable.
        **options: Everything else that `towpath.Decoder` takes.

    Raises:
        ValueError: A column is not in `df` or has the wrong type, or `towpath.Decoder` refuses an argument.
    """
    from pyspark.sql.types import BinaryType, StringType, StructType

    from towpath.decoder import Decoder

    kept = [_field(df, name) for name in keep]
    for name in filter(None, (value, key)):
        if not isinstance(_field(df, name).dataType, BinaryType | StringType):
            raise ValueError(
                f"column {name!r} is {_field(df, name).dataType.simpleString()}: messages are binary or string"
            )
    layout = Decoder(dialect, schema, value=value, key=key, **options)
    decoder = Decoder(dialect, schema, value=value, key=key, keep=tuple(keep), **options)
    output = StructType([*layout.spark_schema.fields, *kept])
    needed = df.select(*map(_quoted, dict.fromkeys(filter(None, (value, key, *keep)))))
    if metrics is None:
        return needed.mapInArrow(decoder, output)
    return observed(needed.mapInArrow(Counting(decoder), counted(output)), metrics)


def _field(df: DataFrame, name: str) -> StructField:
    if name not in df.columns:
        raise ValueError(f"the DataFrame has no column {name!r}, only {', '.join(df.columns)}")
    return df.schema[name]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
