"""Decodes the messages of a DataFrame.

Classic Spark and Spark Connect share `DataFrame.mapInArrow` and `DataFrame.observe`, so one implementation serves both,
for batch and streaming.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Observation
    from pyspark.sql.types import StructField, StructType
    from typing_extensions import Unpack

    from towpath.arguments import RowOptions
    from towpath.literals import Dialect


def decode(
    df: DataFrame,
    dialect: Dialect = "auto",
    schema: str | pa.Schema | StructType | None = None,
    *,
    keep: Sequence[str] = (),
    value: str = "value",
    key: str | None = None,
    metrics: str | Observation | None = None,
    **options: Unpack[RowOptions],
) -> DataFrame:
    """Decode the messages of a DataFrame, batch or streaming, classic or Spark Connect.

    Only the needed columns (`value`, `key`, `keep`) are sent to Python. Layout "upsert" also needs Kafka's `offset`, by
    which `_sequence` orders changes. Mode "FAILFAST" also needs `topic`, `partition` and `offset` for its errors.

    Args:
        df: DataFrame with a column of messages, such as Spark's Kafka source returns.
        dialect: As for `towpath.Decoder`.
        schema: Columns of the table.
        keep: Columns of `df` to copy to every output row, with the types that they have in `df`.
        value: Column with the messages, binary or string.
        key: Column with the messages' keys.
        metrics: Name of an observation, or an `Observation`, for the metrics `messages`, `rows`, `filtered`, `dropped`,
            `zero_dates`, `errors` and `errors_<kind>`. Spark delivers them as for any `DataFrame.observe`: by
            `Observation.get` in batch, in `observedMetrics` of a streaming query's progress. Without it nothing is
            counted. With it every output column is declared nullable.
        **options: Other arguments of `towpath.Decoder`.

    Raises:
        ValueError: A column is missing in `df` or has the wrong type, `towpath.Decoder` rejects an argument,
            `_sequence` has no column to order by, or PYSPARK_PYTHON of a local Spark is not a program.
        ImportError: Spark's Python needs a package that is not installed.
    """
    from pyspark.sql.types import BinaryType, StringType, StructType

    from towpath.ddl import quoted
    from towpath.decoder import Decoder
    from towpath.places import KAFKA
    from towpath.spark.requirements import map_in_arrow
    from towpath.spark.types import is_data_frame, not_a_data_frame

    if isinstance(keep, str):
        raise ValueError(f"keep: expected a list of columns such as [{keep!r}], not {keep!r}")
    if not is_data_frame(df):
        raise not_a_data_frame("df", df)
    kept = [_field(df, name) for name in keep]
    for name in filter(None, (value, key)):
        if not isinstance(_field(df, name).dataType, BinaryType | StringType):
            raise ValueError(
                f"column {name!r}: expected binary or string, not {_field(df, name).dataType.simpleString()}"
            )
    without_kept = Decoder(dialect, schema, value=value, key=key, **options)
    decoder = Decoder(dialect, schema, value=value, key=key, keep=tuple(keep), **options)
    output = StructType([*without_kept.spark_schema.fields, *kept])
    ordering = _ordering(df, options, dialect)
    # Errors in mode FAILFAST name the place of the message.
    places = KAFKA if options.get("mode") == "FAILFAST" else ()
    wanted = [value, key, *keep, *ordering, *(name for name in places if name in df.columns)]
    needed = df.select(*map(quoted, dict.fromkeys(filter(None, wanted))))
    if metrics is None:
        return map_in_arrow(needed, decoder, output)
    from towpath.spark.metrics import count_and_observe

    return count_and_observe(needed, decoder, output, metrics)


def _ordering(df: DataFrame, options: Mapping[str, Any], dialect: str) -> list[str]:
    """Return the column by which `_sequence` orders. It need not be kept."""
    from pyspark.sql.types import LongType

    from towpath.sequence import OFFSET, has_sequence, needs_offset, unordered

    has_offset = OFFSET in df.columns and isinstance(df.schema[OFFSET].dataType, LongType)
    if not has_offset and needs_offset(options, dialect):
        raise unordered('layout="upsert"', f"add the bigint column {OFFSET!r} to the DataFrame")
    return [OFFSET] if has_offset and has_sequence(options) else []


def _field(df: DataFrame, name: str) -> StructField:
    if name not in df.columns:
        raise ValueError(f"the DataFrame has no column {name!r}, only {', '.join(df.columns)}")
    return df.schema[name]
