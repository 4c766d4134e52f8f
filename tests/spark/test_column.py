"""`from_cdc` returns what `decode` returns, in an array for each message."""

import pyspark
import pytest
from pyspark.sql import functions as f

import towpath
from canal_messages import MIXED, SCHEMA
from documents import run_block
from golden_files import lines
from spark_rows import of_spark

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
needs_arrow_functions = pytest.mark.skipif(VERSION < (4, 1), reason="Spark has Arrow functions since 4.1")


def numbered(spark, values):
    return spark.createDataFrame(list(enumerate(values)), "number int, value binary").coalesce(1)


@needs_arrow_functions
@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        (MIXED, {"schema": SCHEMA, "table": "orders"}),
        (MIXED, {"schema": SCHEMA, "table": "orders", "layout": "upsert"}),
        (MIXED, {"table": "no such table"}),
        ([*lines("canal-mysql/mixed.flat.jsonl.zst"), None], {}),
    ],
)
def test_the_rows_are_those_of_decode(spark, values, arguments):
    source = numbered(spark, values)
    decoded = towpath.spark.decode(source, "canal-json", keep=["number"], **arguments)
    rows = source.select("number", f.explode(towpath.spark.from_cdc("value", "canal-json", **arguments)).alias("row"))
    exploded = rows.select("row.*", "number")
    assert exploded.schema.simpleString() == decoded.schema.simpleString()
    assert of_spark(exploded.collect()) == of_spark(decoded.collect())


@needs_arrow_functions
def test_keys_are_a_column_too(spark):
    key, value = b'{"id":7}', b'{"before":null,"after":{"id":7},"op":"c","source":{"db":"d","table":"t"}}'
    source = spark.createDataFrame([(key, value)], "key binary, value binary")
    arguments = {"schema": "id bigint", "fields": ["primary_key"]}
    decoded = towpath.spark.decode(source, "debezium-json", key="key", **arguments).collect()
    [found] = source.select(towpath.spark.from_cdc("value", "debezium-json", key="key", **arguments)).collect()
    assert found[0] == decoded
    assert decoded[0]["primary_key"] == ["id"]


@needs_arrow_functions
def test_the_page_on_spark(spark):
    names = {"df": numbered(spark, MIXED).withColumnRenamed("number", "offset"), "towpath": towpath, "functions": f}
    run_block("docs/spark.md", "from_cdc", names)
    decoded = towpath.spark.decode(
        names["df"], "canal-json", "id bigint, total decimal(10,2)", layout="upsert", keep=["offset"]
    )
    assert of_spark(names["orders"].select(decoded.columns).collect()) == of_spark(decoded.collect())


@needs_arrow_functions
def test_arguments_that_make_no_sense_are_refused(spark):
    with pytest.raises(ValueError, match=r"^keep: from_cdc"):
        towpath.spark.from_cdc("value", keep=["offset"])


@pytest.mark.skipif(VERSION >= (4, 1), reason="this Spark has Arrow functions")
def test_an_older_spark_is_an_error_that_names_decode():
    with pytest.raises(NotImplementedError, match=r"Spark 4\.1 or later, and this is .*: use towpath\.spark\.decode"):
        towpath.spark.from_cdc("value")
