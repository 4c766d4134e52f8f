"""Metrics that are delivered by Spark's observations."""

import pyarrow as pa
import pytest
from pyspark.sql import Observation

import towpath
from canal_messages import MIXED, SCHEMA, change, order
from golden_files import lines
from spark_rows import of_spark


def frame(spark, values, partitions=1):
    return spark.createDataFrame([(value,) for value in values], "value binary").repartition(partitions)


@pytest.mark.parametrize(("mode", "rows", "dropped"), [("PERMISSIVE", 4, 0), ("DROPMALFORMED", 2, 2)])
def test_counts_of_a_batch(spark, mode, rows, dropped):
    seen = Observation("orders")
    decoded = towpath.spark.decode(frame(spark, MIXED), "canal-json", SCHEMA, table="orders", mode=mode, metrics=seen)
    assert len(decoded.collect()) == rows
    counts = {name: count for name, count in seen.get.items() if count}
    wanted = {"messages": 5, "rows": rows, "filtered": 1, "dropped": dropped}
    errors = {"errors": 2, "errors_type": 1, "errors_syntax": 1}
    assert counts == {name: count for name, count in {**wanted, **errors}.items() if count}


def test_zero_dates_are_counted(spark):
    values = [change(data=[order(at, "1.00", placed_at="0000-00-00 00:00:00")]) for at in range(30)]
    seen = Observation()
    towpath.spark.decode(frame(spark, values, 3), "canal-json", SCHEMA, metrics=seen).collect()
    assert (seen.get["zero_dates"], seen.get["errors"]) == (30, 0)


def test_counts_add_up_over_partitions_and_batches(spark):
    values = lines("ticdc/canal_json_stream_ext.jsonl.zst")
    seen = Observation()
    towpath.spark.decode(frame(spark, values, 3), "ticdc-canal-json", metrics=seen).collect()
    assert seen.get["messages"] == seen.get["rows"] == len(values) == 798
    assert seen.get["errors"] == 0


def test_counting_changes_no_row(spark):
    options = {"dialect": "canal-json", "schema": SCHEMA, "keep": ["value"]}
    plain = towpath.spark.decode(frame(spark, MIXED), **options)
    counted = towpath.spark.decode(frame(spark, MIXED), metrics=Observation(), **options)
    assert counted.columns == plain.columns
    assert of_spark(counted.collect()) == of_spark(plain.collect())


def test_an_empty_frame_counts_nothing(spark):
    seen = Observation()
    decoded = towpath.spark.decode(frame(spark, MIXED).filter("false"), "canal-json", metrics=seen)
    assert decoded.collect() == []
    assert set(seen.get.values()) == {0}


def test_every_kind_has_a_count(spark):
    seen = Observation()
    towpath.spark.decode(frame(spark, MIXED), metrics=seen).collect()
    assert set(seen.get) == {"messages", "rows", "filtered", "dropped", "zero_dates", "errors"} | {
        f"errors_{kind}" for kind in towpath.spark.ERROR_KINDS
    }


@pytest.mark.parametrize("wrong", [{}, "", 1, ["name"]])
def test_what_is_no_observation(spark, wrong):
    messages = spark.createDataFrame([(b"",)], "value binary")
    with pytest.raises(ValueError, match="metrics: expected the name of an observation, or an Observation"):
        towpath.spark.decode(messages, "canal-json", metrics=wrong)


@pytest.mark.parametrize("name", ["nope", "a.b", "`c`"])
def test_rows_without_a_column_of_the_schema_are_counted_by_column(spark, name):
    seen = Observation()
    schema = pa.schema([("id", pa.int64()), (name, pa.string())])
    values = [b'{"type":"INSERT","table":"t","data":[{"id":"1"},{"id":"2"}]}'] * 3
    towpath.spark.decode(frame(spark, values, 2), "canal-json", schema, metrics=seen).collect()
    counts = {name: count for name, count in seen.get.items() if name.startswith("missing_columns_")}
    assert counts == {"missing_columns_id": 0, f"missing_columns_{name}": 6}
