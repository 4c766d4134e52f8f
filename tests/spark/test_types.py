"""Conversion of schemas between Arrow and Spark, and types that Spark does not have."""

import pyarrow as pa
import pyspark.sql.types as types
import pytest

from towpath import spark

PAIRS = [
    (pa.bool_(), types.BooleanType()),
    (pa.int8(), types.ByteType()),
    (pa.int16(), types.ShortType()),
    (pa.int32(), types.IntegerType()),
    (pa.int64(), types.LongType()),
    (pa.float32(), types.FloatType()),
    (pa.float64(), types.DoubleType()),
    (pa.decimal128(20, 0), types.DecimalType(20, 0)),
    (pa.decimal128(38, 30), types.DecimalType(38, 30)),
    (pa.string(), types.StringType()),
    (pa.binary(), types.BinaryType()),
    (pa.date32(), types.DateType()),
    (pa.timestamp("us", "UTC"), types.TimestampType()),
    (pa.timestamp("us"), types.TimestampNTZType()),
    (pa.duration("us"), types.DayTimeIntervalType()),
    (pa.list_(pa.string()), types.ArrayType(types.StringType())),
    (pa.map_(pa.string(), pa.int32()), types.MapType(types.StringType(), types.IntegerType())),
    (pa.struct({"a": pa.int32()}), types.StructType([types.StructField("a", types.IntegerType())])),
]


@pytest.mark.parametrize(("arrow", "of_spark"), PAIRS, ids=str)
def test_types_both_ways(arrow, of_spark):
    schema = types.StructType([types.StructField("c", of_spark)])
    assert spark.struct_type(pa.schema({"c": arrow})) == schema
    assert spark.arrow_schema(schema).equals(pa.schema({"c": arrow}))


def test_not_null_is_kept_for_spark_and_dropped_for_table_columns():
    assert spark.struct_type(pa.schema([pa.field("op", pa.string(), nullable=False)]))[0].nullable is False
    schema = types.StructType([types.StructField("id", types.IntegerType(), nullable=False)])
    assert spark.arrow_schema(schema).field("id").nullable


@pytest.mark.parametrize("text", [types.CharType(3), types.VarcharType(9)], ids=str)
def test_character_types_are_text(text):
    assert spark.arrow_schema(types.StructType([types.StructField("c", text)])).field("c").type == pa.string()


@pytest.mark.parametrize(
    ("arrow", "instead"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), r"decimal\(20,0\)"),
        (pa.decimal256(65, 30), r"decimal\(38,30\) or string"),
        (pa.timestamp("ns"), "timestamp_ntz"),
        (pa.timestamp("ms", "UTC"), "timestamp"),
        (pa.duration("s"), "interval day to second"),
        (pa.time64("us"), "interval day to second"),
    ],
    ids=str,
)
def test_what_spark_cannot_take_names_the_column_and_the_way_out(arrow, instead):
    with pytest.raises(ValueError, match=rf"column after\.c: .*{instead}"):
        spark.struct_type(pa.schema({"after": pa.struct({"c": arrow})}))


@pytest.mark.parametrize("unfit", [types.NullType(), types.YearMonthIntervalType()], ids=str)
def test_spark_types_that_no_value_becomes(unfit):
    with pytest.raises(ValueError, match=r"column c: .*request string"):
        spark.arrow_schema(types.StructType([types.StructField("c", unfit)]))


@pytest.mark.skipif(not hasattr(types, "TimeType"), reason="TIME came with Spark 4.1")
def test_time_of_day():
    schema = types.StructType([types.StructField("c", types.TimeType())])
    assert spark.arrow_schema(schema).field("c").type == pa.time64("ns")
    assert spark.struct_type(pa.schema({"c": pa.time64("ns")})) == schema
