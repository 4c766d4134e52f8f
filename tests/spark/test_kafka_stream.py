"""Topics on every Spark 4, without the jars of its Kafka source. `tests/lakehouse` compares with that source."""

import json

import pyspark
import pytest

pytest.importorskip("confluent_kafka", reason="Confluent's client is not installed")

from canal_messages import SCHEMA, change, order
from kafka_broker import KafkaBroker
from server_process import jars

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))


def _have_broker():
    try:
        return bool(jars("kafka"))
    except RuntimeError:
        return False


pytestmark = [
    pytest.mark.skipif(VERSION < (4, 0), reason="data sources in Python came with Spark 4"),
    pytest.mark.skipif(not _have_broker(), reason="`make jars` fetches the broker"),
]


@pytest.fixture(scope="module")
def kafka():
    with KafkaBroker() as broker:
        broker.create_topic("orders", 3)
        produce(broker, range(90))
        yield broker


def produce(broker, numbers):
    broker.produce("orders", [(None, change(data=[order(number, "1.50")]), number % 3) for number in numbers])


def configured(reader, kafka):
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "orders", "startingOffsets": "earliest"}
    return reader.format("towpath").options(dialect="canal-json", schema=SCHEMA, keep="offset", **options)


def run(spark, kafka, folder, **trigger):
    frame = configured(spark.readStream, kafka).option("maxOffsetsPerTrigger", 30).load().select("after.id", "offset")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(**trigger).start(str(folder / "table"))
    query.processAllAvailable() if "processingTime" in trigger else query.awaitTermination(600)
    query.stop()
    ids = sorted(row.id for row in spark.read.parquet(str(folder / "table")).collect())
    return ids, [one for one in query.recentProgress if one.numInputRows]


def test_a_batch(spark, kafka):
    frame = configured(spark.read, kafka).option("endingOffsets", '{"orders": {"0": 30, "1": 30, "2": 30}}').load()
    rows = frame.select("after.id", "offset").collect()
    assert sorted((row.id, row.offset) for row in rows) == [(number, number // 3) for number in range(90)]


def test_bounded_micro_batches_and_a_restart(spark, kafka, tmp_path):
    ids, batches = run(spark, kafka, tmp_path, processingTime="100 milliseconds")
    assert ids == list(range(90))
    assert [one.numInputRows for one in batches] == [30, 30, 30]
    produce(kafka, range(90, 180))
    ids, batches = run(spark, kafka, tmp_path, processingTime="100 milliseconds")
    assert ids == list(range(180))
    assert [one.numInputRows for one in batches] == [30, 30, 30]


def test_available_now(spark, kafka, tmp_path):
    """Spark 4.2 and later ask for micro-batches up to what is there now, and show how far that is."""
    ids, batches = run(spark, kafka, tmp_path, availableNow=True)
    if VERSION < (4, 2):
        assert [one.numInputRows for one in batches] == [30]
        return
    there = len(ids) // 3
    assert ids == list(range(3 * there))
    assert {one.numInputRows for one in batches} == {30}
    assert len(batches) > 1
    latest = [json.loads(one.sources[0].latestOffset) for one in batches]
    assert latest == [{"orders": dict.fromkeys("012", there)}] * len(batches)


def test_a_stream_starts_at_the_latest_offsets(spark, kafka, tmp_path):
    """What arrives while its first micro-batch is run again is not lost."""
    reader = configured(spark.readStream, kafka).option("startingOffsets", "latest")
    writer = reader.load().select("after.id").writeStream.format("parquet").trigger(processingTime="100 milliseconds")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for numbers in (range(1000, 1003), range(1003, 1006)):
        query = writer.start(str(tmp_path / "table"))
        query.processAllAvailable()
        query.stop()
        if numbers.start == 1000:
            for commit in (tmp_path / "checkpoint" / "commits").iterdir():
                commit.unlink()
        produce(kafka, numbers)
    query = writer.start(str(tmp_path / "table"))
    query.processAllAvailable()
    query.stop()
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "table")).collect()) == list(range(1000, 1006))
