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
    rows = [(number, number + 2**40, value) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, "number int, offset long, value binary").coalesce(1)


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
    offset = {"offset": "offset"} if arguments.get("layout") == "upsert" else {}
    column = towpath.spark.from_cdc("value", "canal-json", **arguments, **offset)
    rows = source.select("number", f.explode(column).alias("row"))
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
    names = {"df": numbered(spark, MIXED).drop("number"), "towpath": towpath, "functions": f}
    run_block("docs/spark/index.md", "towpath.spark.from_cdc", names)
    decoded = towpath.spark.decode(
        names["df"], "canal-json", "id bigint, total decimal(10,2)", layout="upsert", keep=["offset"]
    )
    assert of_spark(names["orders"].select(decoded.columns).collect()) == of_spark(decoded.collect())


@needs_arrow_functions
@pytest.mark.parametrize("kind", ["long", "int"])
def test_the_offset_orders_changes(spark, kind):
    """In batches of one message each, so nothing else could."""
    key, count = b'{"id":7}', 20
    value = b'{"before":null,"after":{"id":7},"op":"c","source":{"db":"d","table":"t"}}'
    source = spark.createDataFrame(
        [(key, value, offset) for offset in range(count)], f"key binary, value binary, offset {kind}"
    )
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    try:
        for keys in ({}, {"key": "key"}):
            column = towpath.spark.from_cdc(
                "value", "debezium-json", "id bigint", layout="upsert", offset="offset", **keys
            )
            rows = source.select("offset", f.explode(column).alias("row")).orderBy("row._sequence").collect()
            assert [row["offset"] for row in rows] == list(range(count))
            assert [row["row"]["_sequence"]["major"] for row in rows] == list(range(count))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@needs_arrow_functions
def test_a_sequence_without_offsets_is_refused(spark):
    schema = {"schema": "id int", "layout": "upsert"}
    with pytest.raises(ValueError, match=r"_sequence requires Kafka offsets; name the column with offset="):
        towpath.spark.from_cdc("value", "canal-json", **schema)
    towpath.spark.from_cdc("value", "canal-json", **schema, fields=["_op"])
    towpath.spark.from_cdc("value", "ticdc-open", **schema)


@needs_arrow_functions
def test_arguments_that_make_no_sense_are_refused(spark):
    with pytest.raises(ValueError, match=r"^keep: from_cdc"):
        towpath.spark.from_cdc("value", keep=["offset"])


@pytest.mark.skipif(VERSION >= (4, 1), reason="this Spark has Arrow functions")
def test_an_older_spark_is_an_error_that_names_decode():
    with pytest.raises(NotImplementedError, match=r"Spark 4\.1 or later, not .*: use towpath\.spark\.decode"):
        towpath.spark.from_cdc("value")
