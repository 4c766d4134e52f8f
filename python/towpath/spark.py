"""towpath in Spark: the only file that names pyspark, which is imported when one of these functions is called.

Everything here is `DataFrame.mapInArrow` and `DataFrame.observe`, which classic Spark and Spark Connect share, so there
is one implementation for both, for batch and for streaming.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from typing import TypeGuard

    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import DataType, StructField, StructType

    from towpath.decoder import Decoder

ERROR_KINDS = ("syntax", "encoding", "envelope", "type", "range", "missing", "depth", "size", "compression")
"""Every `error.kind`, in the order of `docs/errors.md`."""


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
    return _observed(needed.mapInArrow(_Counting(decoder), _counted(output)), metrics)


def struct_type(schema: pa.Schema) -> StructType:
    """An Arrow schema as Spark's `StructType`; `ValueError` for what Spark cannot take back from Arrow."""
    from pyspark.sql.types import StructType

    return StructType([_spark_field(field, field.name) for field in schema])


def arrow_schema(schema: StructType) -> pa.Schema:
    """A `StructType` as an Arrow schema. Every column is nullable: a value that cannot be converted becomes null."""
    return pa.schema([(field.name, _arrow_type(field.dataType, field.name)) for field in schema.fields])


def is_struct_type(schema: object) -> TypeGuard[StructType]:
    """Whether this is a `StructType`, told without importing pyspark."""
    return any(
        base.__name__ == "StructType" and base.__module__.startswith("pyspark.") for base in type(schema).__mro__
    )


def _field(df: DataFrame, name: str) -> StructField:
    if name not in df.columns:
        raise ValueError(f"the DataFrame has no column {name!r}, only {', '.join(df.columns)}")
    return df.schema[name]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# Types. Both directions are written out here, as pyspark's own conversions differ between its versions.


def _spark_field(field: pa.Field, path: str) -> StructField:
    from pyspark.sql.types import StructField

    return StructField(field.name, _spark_type(field.type, path), field.nullable)


def _spark_type(arrow: pa.DataType, path: str) -> DataType:
    import pyspark.sql.types as spark

    if pa.types.is_struct(arrow):
        return spark.StructType([_spark_field(field, f"{path}.{field.name}") for field in arrow])
    if pa.types.is_list(arrow):
        return spark.ArrayType(_spark_type(arrow.value_type, f"{path}[]"), arrow.value_field.nullable)
    if pa.types.is_map(arrow):
        key, value = _spark_type(arrow.key_type, f"{path}.key"), _spark_type(arrow.item_type, f"{path}.value")
        return spark.MapType(key, value, arrow.item_field.nullable)
    if pa.types.is_decimal128(arrow):
        return spark.DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow) and arrow.unit == "us":
        return spark.TimestampType() if arrow.tz else spark.TimestampNTZType()
    fitting: type[DataType] | None = getattr(spark, _SPARK_NAMES.get(arrow, ""), None)
    if fitting:
        return fitting()
    raise ValueError(f"column {path}: Spark has no type for Arrow's {arrow}; ask for {_instead(arrow)}")


def _arrow_type(spark: DataType, path: str) -> pa.DataType:
    import pyspark.sql.types as types

    if isinstance(spark, types.StructType):
        return pa.struct([(field.name, _arrow_type(field.dataType, f"{path}.{field.name}")) for field in spark.fields])
    if isinstance(spark, types.ArrayType):
        return pa.list_(_arrow_type(spark.elementType, f"{path}[]"))
    if isinstance(spark, types.MapType):
        return pa.map_(_arrow_type(spark.keyType, f"{path}.key"), _arrow_type(spark.valueType, f"{path}.value"))
    if isinstance(spark, types.DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    if isinstance(spark, types.StringType):  # collated ones too
        return pa.string()
    if type(spark).__name__ in _ARROW_TYPES:
        return _ARROW_TYPES[type(spark).__name__]
    raise ValueError(f"column {path}: no MySQL value becomes Spark's {spark.simpleString()}; ask for string")


# The classes by name: which of them a pyspark has depends on its version.
_ARROW_TYPES = {
    "BooleanType": pa.bool_(),
    "ByteType": pa.int8(),
    "ShortType": pa.int16(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "BinaryType": pa.binary(),
    "DateType": pa.date32(),
    "TimestampType": pa.timestamp("us", "UTC"),
    "TimestampNTZType": pa.timestamp("us"),
    "DayTimeIntervalType": pa.duration("us"),
    "TimeType": pa.time64("ns"),
    "CharType": pa.string(),
    "VarcharType": pa.string(),
    "VariantType": pa.string(),  # a variant is delivered as its text, for Spark's parse_json
}

_SPARK_NAMES = {
    pa.bool_(): "BooleanType",
    pa.int8(): "ByteType",
    pa.int16(): "ShortType",
    pa.int32(): "IntegerType",
    pa.int64(): "LongType",
    pa.float32(): "FloatType",
    pa.float64(): "DoubleType",
    pa.string(): "StringType",
    pa.large_string(): "StringType",
    pa.binary(): "BinaryType",
    pa.large_binary(): "BinaryType",
    pa.date32(): "DateType",
    pa.duration("us"): "DayTimeIntervalType",
    pa.time64("ns"): "TimeType",  # from Spark 4.1 on
}

_INSTEAD = {
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
}


def _instead(arrow: pa.DataType) -> str:
    """What to ask for where Spark does not know a type."""
    if pa.types.is_decimal256(arrow):
        return f"decimal(38,{min(arrow.scale, 38)}) or string"
    if pa.types.is_timestamp(arrow):
        return "timestamp or timestamp_ntz, which have microseconds"
    if pa.types.is_duration(arrow):
        return "interval day to second, which has microseconds"
    if pa.types.is_time64(arrow):
        return 'time64("ns") on Spark 4.1 or later, or interval day to second'
    return _INSTEAD.get(arrow, "string")


# Counts. A worker cannot reach a Spark metric, so each batch is followed by one more row that carries what was counted
# in it. `observe` sums these rows where they pass, on the executors, and a filter takes them out again.

_COUNTS = "_towpath_counts"
_COUNT_NAMES = ("messages", "rows", "filtered", "dropped", "errors", *(f"errors_{kind}" for kind in ERROR_KINDS))


class _Counting:
    """A decoder for `mapInArrow` that puts a row of counts behind each batch of rows."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before = _counts(self._decoder)
        for batch in batches:
            rows = self._decoder.decode(batch)
            yield _with_counts(rows.columns, rows.schema, pa.nulls(len(rows), _COUNTS_TYPE))
            after = _counts(self._decoder)
            counts = pa.array([{name: after[name] - before[name] for name in after}], _COUNTS_TYPE)
            yield _with_counts([pa.nulls(1, field.type) for field in rows.schema], rows.schema, counts)
            before = after


_COUNTS_TYPE = pa.struct([(name, pa.int64()) for name in _COUNT_NAMES])


def _counts(decoder: Decoder) -> dict[str, int]:
    metrics = decoder.metrics
    kinds = {f"errors_{kind}": metrics["errors"].get(kind, 0) for kind in ERROR_KINDS}
    return {
        "messages": metrics["messages"],
        "rows": metrics["rows"],
        "filtered": metrics["filtered"],
        "dropped": metrics["dropped"],
        "errors": sum(metrics["errors"].values()),
        **kinds,
    }


def _with_counts(columns: Sequence[pa.Array], schema: pa.Schema, counts: pa.Array) -> pa.RecordBatch:
    """Both kinds of batch have one schema, as an Arrow stream must."""
    fields = [field.with_nullable(True) for field in schema]
    return pa.record_batch([*columns, counts], schema=pa.schema([*fields, (_COUNTS, _COUNTS_TYPE)]))


def _counted(output: StructType) -> StructType:
    """The output with the counts beside it. Nothing else is set on a row of counts, so every column is nullable."""
    from pyspark.sql.types import StructField, StructType

    columns = [StructField(field.name, field.dataType, True, field.metadata) for field in output.fields]
    return StructType([*columns, StructField(_COUNTS, struct_type(pa.schema([("", _COUNTS_TYPE)]))[0].dataType)])


def _observed(df: DataFrame, metrics: str | Observation) -> DataFrame:
    from pyspark.sql import functions

    def total(name: str) -> Column:
        return functions.coalesce(functions.sum(f"{_COUNTS}.{name}"), functions.lit(0)).alias(name)

    observed = df.observe(metrics, *map(total, _COUNT_NAMES))
    return observed.filter(functions.col(_COUNTS).isNull()).drop(_COUNTS)
