"""Structured Streaming from a real broker: topics of every dialect in one stream, limits, stops and restarts."""

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

import towpath
from all_golden import GOLDEN, captures
from canal_messages import change, order
from kafka_source import KEPT, decoded_locally, ordered, stream

# At least one capture of each dialect; those of TiCDC are compressed, Debezium's has tombstones.
CHOSEN = [
    "canal-json/canal-mysql/mixed.flat.jsonl.zst",
    "canal-json/tencent/small.jsonl",
    "canal-json/ticdc/canal_json_ext_lz4.lenrec.zst",
    "canal-json/ticdc/canal_json_ext_snappy.lenrec.zst",
    "canal-protobuf/canal-mysql/mixed.pb.bin.zst",
    "cloudcanal-json/small_ddl_key.jsonl",
    "dataworks-json/messages.jsonl",
    "debezium-avro/shop.kvrec.zst",
    "debezium-json/mysql-default/mixed.kv.jsonl.zst",
    "dms-json/messages.jsonl",
    "dts-avro/dts_v2_born.lenrec.zst",
    "maxwell-json/maxwell-maria/maxwell.jsonl.zst",
    "river-json/small_null_v_omitted.jsonl",
    "ticdc-avro/orders.kvrec.zst",
    "ticdc-open/open_protocol.kvrec.zst",
    "ticdc-simple/avro.lenrec",
    "ticdc-simple/json.jsonl",
]
MOST = 80
"""How many messages of each capture."""
LIMIT = 500
FIELDS = ("op", "database", "table", "primary_key", "before", "after", "source", "row", "error", "_corrupt_record")
SCHEMAS = {
    number: schema
    for file in ("debezium-avro/shop.avsc", "ticdc-avro/orders.avsc")
    for number, schema in json.loads((GOLDEN / file).read_text()).items()
}
WRITER_SCHEMAS = {number: json.dumps(schema) for number, schema in SCHEMAS.items()}
OPTIONS = {"key": "key", "fields": FIELDS, "writer_schemas": WRITER_SCHEMAS}


@pytest.fixture(scope="module")
def sent(kafka):
    """The stored messages of each capture, in its own topic with two partitions."""
    dialects = [dialect["name"] for dialect in towpath.dialects()]
    assert {name.partition("/")[0] for name in CHOSEN} == set(dialects)
    found = {capture.name: capture for dialect in dialects for capture in captures(dialect)}
    return {name: _sent(kafka, name, found[name].records[-MOST:]) for name in CHOSEN}


def _sent(kafka, name, records):
    topic = kafka.create_topic(name.replace("/", "."), 2)
    return kafka.produce(topic, [(record.key, record.value, at % 2) for at, record in enumerate(records)])


@pytest.fixture(scope="module")
def streamed(spark, kafka, sent, tmp_path_factory):
    """The whole stream in a Delta table, and the progress of its query."""
    folder = tmp_path_factory.mktemp("streamed")
    source = stream(spark, kafka.bootstrap, *_topics(sent), limit=LIMIT)
    decoded = towpath.spark.decode(source, keep=KEPT, metrics="cdc", **OPTIONS)
    query = finished(decoded.writeStream.format("delta"), folder)
    return spark.read.format("delta").load(str(folder / "table")), query.recentProgress


def _topics(sent):
    return [records[0].topic for records in sent.values()]


def finished(writer, folder: Path):
    """A query that has processed all messages."""
    query = started(writer.trigger(availableNow=True), folder)
    assert query.awaitTermination(900)
    return query


def started(writer, folder: Path):
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "table"))


def everything(sent):
    return [record for records in sent.values() for record in records]


def test_every_dialect_arrives_as_it_is_decoded_locally(sent, streamed):
    table, _ = streamed
    rows, wanted = ordered(table), decoded_locally(everything(sent), **OPTIONS)
    assert len(rows) == len(wanted)
    assert [row for row, want in zip(rows, wanted, strict=True) if row != want] == []


def test_kept_columns_are_the_coordinates_that_the_producer_got(sent, streamed):
    table, _ = streamed
    rows = table.selectExpr("topic", "partition", "offset", "unix_millis(timestamp) as timestamp").distinct().collect()
    coordinates = [(record.topic, record.partition, record.offset, record.timestamp) for record in everything(sent)]
    assert sorted(tuple(row) for row in rows) == sorted(coordinates)


def test_null_values_are_tombstones_at_their_offsets(sent, streamed):
    nulls = {(record.topic, record.partition, record.offset) for record in everything(sent) if record.value is None}
    rows = streamed[0].filter("op = 'tombstone'").select("topic", "partition", "offset").collect()
    assert nulls
    assert sorted(tuple(row) for row in rows) == sorted(nulls)


def test_a_limit_makes_several_micro_batches_whose_counts_add_up(sent, streamed):
    table, progress = streamed
    batches = [batch for batch in progress if batch["numInputRows"]]
    count = len(everything(sent))
    assert len(batches) >= count / LIMIT > 1
    assert all(batch["numInputRows"] <= LIMIT for batch in batches)
    counted = [batch["observedMetrics"]["cdc"] for batch in batches]
    assert [counts["messages"] for counts in counted] == [batch["numInputRows"] for batch in batches]
    assert sum(counts["messages"] for counts in counted) == count
    assert sum(counts["rows"] for counts in counted) == table.count()
    assert sum(counts["errors"] for counts in counted) == table.filter("error is not null").count()


# The following tests need few messages: they are about where a stream continues.


def orders(first: int, count: int):
    """Inserts of the orders `first`, `first` + 1 and so on, for two partitions."""
    numbers = range(first, first + count)
    return [(str(number).encode(), change(data=[order(number, "1.00")]), number % 2) for number in numbers]


def numbers(table):
    return sorted(int(row.id) for row in table.selectExpr("after['id'] as id").collect())


def test_a_micro_batch_that_failed_is_decoded_again_from_the_same_messages(spark, kafka, topic, tmp_path):
    kafka.create_topic(topic, 2)
    kafka.produce(topic, orders(0, 100))

    def write(fail_at):
        def into_folder(batch, number):
            batch.write.mode("overwrite").parquet(str(tmp_path / "table" / f"batch={number}"))
            if number == fail_at:
                raise ArithmeticError("the sink broke after it had written")

        decoded = towpath.spark.decode(stream(spark, kafka.bootstrap, topic, limit=30), "canal-json", keep=KEPT)
        return decoded.writeStream.foreachBatch(into_folder)

    with pytest.raises(StreamingQueryException, match="the sink broke"):
        finished(write(fail_at=1), tmp_path)
    broken = ordered(spark.read.parquet(str(tmp_path / "table" / "batch=1")))
    kafka.produce(topic, orders(100, 10))
    finished(write(fail_at=None), tmp_path)
    assert ordered(spark.read.parquet(str(tmp_path / "table" / "batch=1"))) == broken
    assert len(broken) == 30
    assert numbers(spark.read.parquet(str(tmp_path / "table"))) == list(range(110))
    # The checkpoint has Kafka's offsets only, and no state of towpath that a newer version could not read.
    names = {path.name for path in (tmp_path / "checkpoint").iterdir() if not path.name.startswith(".")}
    assert names == {"commits", "metadata", "offsets", "sources"}
    last = max((path for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")), key=lambda path: int(path.name))
    assert json.loads(last.read_text().splitlines()[-1]) == {topic: {"0": 55, "1": 55}}


def test_a_failfast_stream_stops_at_the_bad_message_and_loses_nothing(spark, kafka, topic, tmp_path):
    kafka.create_topic(topic, 1)
    messages = [change(data=[order(number, "1.00")]) for number in range(30)]
    messages[25] = b'{"type":"INSERT","data":[{'
    kafka.produce(topic, [(None, message, 0) for message in messages])

    def writer(mode):
        source = stream(spark, kafka.bootstrap, topic, limit=10)
        return towpath.spark.decode(source, "canal-json", keep=KEPT, mode=mode).writeStream.format("parquet")

    with pytest.raises(StreamingQueryException, match=r"DecodeError.*canal-json"):
        finished(writer("FAILFAST"), tmp_path)
    assert numbers(spark.read.parquet(str(tmp_path / "table"))) == list(range(20))
    finished(writer("PERMISSIVE"), tmp_path)
    table = spark.read.parquet(str(tmp_path / "table"))
    assert numbers(table.filter("error is null")) == [number for number in range(30) if number != 25]
    [bad] = table.filter("error is not null").collect()
    assert (bad.offset, bytes(bad["_corrupt_record"])) == (25, messages[25])
