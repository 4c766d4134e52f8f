"""towpath on batch DataFrames: Spark returns what the decoder returns for the same bytes."""

import gc
from datetime import time

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import functions, types
from pyspark.sql.types import StructType

import towpath
from canal_messages import MIXED, SCHEMA, change, order
from golden_files import CAPTURES, lines, truth
from spark_rows import of_arrow, of_spark

EVERY_TYPE = """
    c_tinyint tinyint, c_smallint smallint, c_int int, c_bigint bigint, c_bigint_u decimal(20,0), c_bool tinyint,
    c_float float, c_double double, c_dec_10_4 decimal(10,4), c_date date, c_datetime6 timestamp_ntz,
    c_timestamp6 timestamp, c_time6 interval day to second, c_bit8 binary, c_year int
"""


def frame(spark, values, kind="binary"):
    return spark.createDataFrame([(value,) for value in values], f"value {kind}").coalesce(1)


@pytest.mark.parametrize("capture", CAPTURES)
def test_captures_decode_as_they_do_locally(spark, capture):
    decoder = towpath.Decoder("canal-json")
    decoded = towpath.spark.decode(frame(spark, lines(capture)), "canal-json")
    assert decoded.schema == decoder.spark_schema
    assert of_spark(decoded.collect()) == of_arrow(decoder.decode(pa.array(lines(capture))))


def test_every_type_arrives_typed(spark):
    decoder = towpath.Decoder("canal-json", EVERY_TYPE, table="all_types")
    values = lines("canal-mysql/mixed.flat.jsonl.zst")
    decoded = towpath.spark.decode(frame(spark, values), "canal-json", EVERY_TYPE, table="all_types")
    rows = of_spark(decoded.collect())
    assert rows == of_arrow(decoder.decode(pa.array(values)))
    integers = ["c_tinyint", "c_smallint", "c_int", "c_bigint"]
    wanted = [want for want in truth("canal-mysql/truth.jsonl.zst") if want["table"] == "all_types"]
    inserted = [[row["after"][name] for name in integers] for row in rows if row["op"] == "insert"]
    assert sorted(map(str, inserted)) == sorted(
        str([want["after"][name] and int(want["after"][name]) for name in integers])
        for want in wanted
        if want["op"] == "insert"
    )


@pytest.mark.parametrize("kind", ["binary", "string"])
def test_a_schema_is_inferred_from_a_data_frame(spark, kind):
    values = lines("canal-mysql/mixed.flat.jsonl.zst")
    messages = frame(spark, values if kind == "binary" else [value.decode() for value in values], kind)
    found = towpath.infer_schema(messages, "canal-json", table="all_types")
    assert found == towpath.infer_schema(pa.array(values), "canal-json", table="all_types")
    with pytest.raises(ValueError, match="no column 'value', only body"):
        towpath.infer_schema(messages.withColumnRenamed("value", "body"))
    with pytest.raises(ValueError, match="this DataFrame is a stream"):
        towpath.infer_schema(spark.readStream.format("rate").load())


def test_text_columns_are_messages_too(spark):
    values = [line.decode() for line in lines("tencent/small.jsonl")]
    decoded = towpath.spark.decode(frame(spark, values, "string"), "canal-json")
    assert of_spark(decoded.collect()) == of_arrow(towpath.Decoder("canal-json").decode(pa.array(values)))


def test_the_decoder_is_the_function(spark):
    decoder = towpath.Decoder("canal-json", SCHEMA, table="orders")
    decoded = frame(spark, MIXED).mapInArrow(decoder, decoder.spark_schema)
    assert of_spark(decoded.collect()) == of_arrow(decoder.decode(pa.array(MIXED)))


def with_offsets(spark, values):
    return spark.createDataFrame(list(enumerate(values)), "offset long, value binary").coalesce(1)


def arrow_with_offsets(values):
    return pa.record_batch({"offset": pa.array(range(len(values)), pa.int64()), "value": pa.array(values)})


def test_changes_of_one_second_are_ordered_across_batches(spark):
    """Of many batches, whose messages have one time: the offset orders them, though it is not kept."""
    values = [change(data=[order(7, f"{version}.00")], es=1714979289000) for version in range(40)]
    source = with_offsets(spark, values)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3")
    try:
        rows = towpath.spark.decode(source, "canal-json", SCHEMA, layout="upsert")
        assert "offset" not in rows.columns
        ordered = [float(row["total"]) for row in rows.orderBy("_sequence").collect()]
        assert ordered == list(range(40))
        decoder = towpath.Decoder("canal-json", SCHEMA, layout="upsert")
        mapped = source.mapInArrow(decoder, decoder.spark_schema).orderBy("_sequence")
        assert [float(row["total"]) for row in mapped.collect()] == ordered
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.mark.parametrize("offset", ["", "1 as offset, ", "'1' as offset, "])
def test_a_sequence_that_nothing_orders_is_refused(spark, offset):
    source = spark.sql(f"select {offset} cast('x' as binary) as value")
    arguments = {"schema": SCHEMA, "layout": "upsert"}
    with pytest.raises(ValueError, match=r"_sequence requires Kafka offsets; add the bigint column 'offset'"):
        towpath.spark.decode(source, "canal-json", **arguments)
    towpath.spark.decode(source, "canal-json", **arguments, fields=["_op"])
    towpath.spark.decode(source, "ticdc-simple", **arguments)
    decoder = towpath.Decoder("canal-json", **arguments)
    with pytest.raises(Exception, match="_sequence requires Kafka offsets"):
        source.mapInArrow(decoder, decoder.spark_schema).collect()


@pytest.mark.parametrize("layout", ["change", "changelog", "upsert"])
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_layouts_and_modes(spark, layout, mode):
    options = {"schema": SCHEMA, "table": "orders", "layout": layout, "mode": mode}
    source = with_offsets(spark, MIXED)
    decoded = towpath.spark.decode(source, "canal-json", **options)
    wanted = of_arrow(towpath.Decoder("canal-json", **options).decode(arrow_with_offsets(MIXED)))
    assert of_spark(decoded.collect()) == wanted
    assert len(wanted) == {"change": 2, "changelog": 3, "upsert": 2}[layout] + 2 * (mode == "PERMISSIVE")


def test_failfast_fails_the_query_and_says_where(spark):
    decoded = towpath.spark.decode(frame(spark, MIXED), "canal-json", SCHEMA, mode="FAILFAST")
    with pytest.raises(Exception, match=r'DecodeError.*after\.total: "12,50" is not a decimal\(10,2\)'):
        decoded.collect()


def kafka_frame(spark, values):
    """The columns of Spark's Kafka source, and a nested one like its headers."""
    return frame(spark, values).select(
        functions.lit(b"k").alias("key"),
        "value",
        functions.lit("binlog").alias("topic"),
        functions.lit(3).alias("partition"),
        functions.lit(41).cast("long").alias("offset"),
        functions.lit("2024-05-06 07:08:09.123456").cast("timestamp").alias("timestamp"),
        functions.lit(0).alias("timestampType"),
        functions.expr("array(named_struct('key', 'trace', 'value', binary('x')))").alias("headers"),
    )


KAFKA = ("topic", "partition", "offset", "timestamp", "headers", "key")


def test_kept_columns_have_the_types_and_values_of_the_input(spark):
    source = kafka_frame(spark, [change(data=[order(1, "1.00"), order(2, "2.00")]), b"broken"])
    decoded = towpath.spark.decode(source, "canal-json", SCHEMA, fields=["op"], keep=KAFKA, key="key")
    assert decoded.columns == ["op", *KAFKA]
    assert [decoded.schema[name].dataType for name in KAFKA] == [source.schema[name].dataType for name in KAFKA]
    rows = of_spark(decoded.collect())
    assert [row.pop("op") for row in rows] == ["insert", "insert", "error"]
    assert rows == [of_spark(source.select(*KAFKA).limit(1).collect())[0]] * 3


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York"])
def test_the_sessions_zone_does_not_move_instants(spark, zone):
    message = change(data=[{"at": "2024-05-06 07:08:09"}], es=1714979289000)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        source = kafka_frame(spark, [message])
        decoded = towpath.spark.decode(source, "canal-json", "at timestamp", keep=["timestamp"])
        instants = decoded.selectExpr(
            "unix_micros(after.at)",
            "unix_micros(event_time)",
            "timestamp = (select max(t) from values (timestamp '2024-05-06 07:08:09.123456') as kept(t))",
        )
        assert tuple(instants.first()) == (1714979289000000, 1714979289000000, True)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_only_needed_columns_are_read(spark, tmp_path, capsys):
    source = kafka_frame(spark, MIXED).withColumn("ballast", functions.lit("x"))
    source.write.parquet(str(tmp_path / "kafka"))
    decoded = towpath.spark.decode(spark.read.parquet(str(tmp_path / "kafka")), "canal-json", keep=["offset"])
    decoded.explain()
    plan = capsys.readouterr().out
    [read] = [line for line in plan.splitlines() if "ReadSchema" in line]
    assert "ReadSchema: struct<value:binary,offset:bigint>" in read.replace(
        "offset:bigint,value:binary", "value:binary,offset:bigint"
    )


def test_columns_with_strange_names(spark):
    source = frame(spark, [change(data=[order(1, "1.00")])]).select(
        functions.col("value").alias("the value"), functions.lit(1).alias("值 b")
    )
    decoded = towpath.spark.decode(source, "canal-json", fields=["op"], value="the value", keep=["值 b"])
    assert of_spark(decoded.collect()) == [{"op": "insert", "值 b": 1}]


def test_wrong_columns_are_refused_before_anything_runs(spark):
    source = frame(spark, MIXED)
    with pytest.raises(ValueError, match="no column 'offset', only value"):
        towpath.spark.decode(source, keep=["offset"])
    with pytest.raises(ValueError, match="no column 'payload'"):
        towpath.spark.decode(source, value="payload")
    with pytest.raises(ValueError, match="'value': expected binary or string, not int"):
        towpath.spark.decode(source.selectExpr("1 as value"))
    with pytest.raises(ValueError, match="PERMISSIVE"):
        towpath.spark.decode(source, mode="strict")


def test_decoded_frames_can_be_queried_and_stored(spark, tmp_path):
    decoded = towpath.spark.decode(
        with_offsets(spark, MIXED), "canal-json", SCHEMA, layout="upsert", table="orders", mode="DROPMALFORMED"
    )
    decoded.drop("_source", "_error").write.parquet(str(tmp_path / "orders"))
    stored = spark.read.parquet(str(tmp_path / "orders"))
    assert stored.groupBy("_op").agg(functions.sum("total").alias("sum")).orderBy("_op").collect() == [
        ("insert", 12.5),
        ("update", 13),
    ]


def test_a_struct_type_is_a_schema(spark):
    schema = StructType.fromDDL(SCHEMA) if hasattr(StructType, "fromDDL") else spark.createDataFrame([], SCHEMA).schema
    decoder = towpath.Decoder("canal-json", schema, fields=["after"])
    assert decoder.schema.equals(towpath.Decoder("canal-json", SCHEMA, fields=["after"]).schema)


@pytest.mark.skipif(not hasattr(types, "TimeType"), reason="TIME came with Spark 4.1")
def test_time_of_day_arrives(spark):
    schema = StructType([types.StructField("at", types.TimeType())])
    source = frame(spark, [change(data=[{"at": "12:34:56.5"}]), change(data=[{"at": "-01:00:00"}])])
    good, bad = towpath.spark.decode(source, "canal-json", schema, fields=["after", "error"]).collect()
    assert good.after.at == time(12, 34, 56, 500000)
    assert (bad.after.at, bad.error.kind) == (None, "range")


def test_nothing_depends_on_how_messages_are_partitioned(spark):
    values = lines("cloudcanal/small.jsonl")
    one = towpath.spark.decode(frame(spark, values), "canal-json")
    many = towpath.spark.decode(frame(spark, values).repartition(7), "canal-json")
    assert sorted(map(str, of_spark(many.collect()))) == sorted(map(str, of_spark(one.collect())))


def test_the_version_of_spark_is_shown(record_property):
    record_property("pyspark", pyspark.__version__)
    assert tuple(map(int, pyspark.__version__.split(".")[:2])) >= (3, 5)


def test_headers_of_messages_that_have_none_are_kept(spark):
    """Spark's Kafka source has null for them, and its JVM writes the empty arrays in them without offsets."""
    columns = "value binary, headers array<struct<key: string, value: binary>>"
    source = spark.createDataFrame([(value, None) for value in MIXED], columns).coalesce(1)
    decoded = towpath.spark.decode(source, "canal-json", fields=["op"], keep=["headers"])
    assert {row["headers"] for row in decoded.collect()} == {None}


def test_a_reused_worker_does_not_visit_its_modules_after_each_task(spark):
    """Spark collects garbage there. In a process that is not Spark's, nothing is excluded from that."""
    decoder = towpath.Decoder("canal-json")

    def excluded(batches):
        list(decoder([]))
        yield from (pa.record_batch({"n": pa.array([gc.get_freeze_count()])}) for _ in batches)

    tasks = spark.range(0, 12, 1, 12).mapInArrow(excluded, "n long")
    assert max(row.n for row in tasks.collect()) > 10_000
    for _ in range(3):
        list(decoder([]))
    assert gc.get_freeze_count() == 0
