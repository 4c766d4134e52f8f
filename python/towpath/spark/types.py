"""Conversions between Arrow and Spark schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from typing import TypeGuard

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField, StructType


def struct_type(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to a `StructType`. Raise `ValueError` for a type that Spark cannot read from Arrow."""
    from towpath.spark.requirements import require_pyspark

    require_pyspark()
    from pyspark.sql.types import StructType

    return StructType([_spark_field(field, field.name) for field in schema])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Convert a `StructType` to an Arrow schema. All columns are nullable, since failed conversions become null."""
    return pa.schema([(field.name, _arrow_type(field.dataType, field.name)) for field in schema.fields])


def is_struct_type(schema: object) -> TypeGuard[StructType]:
    """Return whether this is a `StructType`, without importing pyspark."""
    return any(
        base.__name__ == "StructType" and base.__module__.startswith("pyspark.") for base in type(schema).__mro__
    )


def is_data_frame(values: object) -> TypeGuard[DataFrame]:
    """Return whether this is a DataFrame of classic Spark or Connect, without importing pyspark."""
    return any(
        base.__name__ == "DataFrame" and base.__module__.startswith("pyspark.sql.") for base in type(values).__mro__
    )


def not_a_data_frame(name: str, value: object) -> ValueError:
    """Return the error for an argument that is not a Spark DataFrame."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    other = f"one of {package}; convert it with spark.createDataFrame"
    return ValueError(f"{name}: expected a DataFrame, not {other if kind.__name__ == 'DataFrame' else kind.__name__}")


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
    spark_class: type[DataType] | None = getattr(spark, _SPARK_NAMES.get(arrow, ""), None)
    if spark_class:
        return spark_class()
    raise ValueError(f"column {path}: Spark has no type for Arrow's {arrow}; request {_alternative(arrow)}")


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
    if isinstance(spark, types.StringType):  # includes collated strings
        return pa.string()
    if type(spark).__name__ in _ARROW_TYPES:
        return _ARROW_TYPES[type(spark).__name__]
    raise ValueError(f"column {path}: no MySQL value can become Spark's {spark.simpleString()}; request string")


# By class name, since the version of pyspark decides which classes exist.
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
    "VariantType": pa.string(),  # delivered as JSON text, for Spark's parse_json
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
    pa.time64("ns"): "TimeType",  # since Spark 4.1
}

_ALTERNATIVES = {
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
}


def _alternative(arrow: pa.DataType) -> str:
    """Return the type to suggest in place of a type that Spark lacks."""
    if pa.types.is_decimal256(arrow):
        return f"decimal(38,{min(arrow.scale, 38)}) or string"
    if pa.types.is_timestamp(arrow):
        return "timestamp or timestamp_ntz, which have microseconds"
    if pa.types.is_duration(arrow):
        return "interval day to second, which has microseconds"
    if pa.types.is_time64(arrow):
        return 'time64("ns") on Spark 4.1 or later, or interval day to second'
    return _ALTERNATIVES.get(arrow, "string")
