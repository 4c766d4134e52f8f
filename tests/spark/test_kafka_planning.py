"""What Spark asks of the source, and what the source asks of Kafka: no more often than necessary.

Spark asks the same of a source that does nothing. What it imports is in a process of its own.
"""

import os
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pyspark
import pytest

pytest.importorskip("confluent_kafka", reason="Confluent's client is not installed")
if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 0):
    pytest.skip("data sources in Python came with Spark 4", allow_module_level=True)

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from canal_messages import SCHEMA, change, order
from kafka_broker import KafkaBroker
from server_process import jars
from towpath.spark.kafka.client import Cluster
from towpath.spark.kafka.options import parse_kafka_options
from towpath.spark.kafka.reader import KafkaReader
from towpath.spark.kafka.stream import KafkaStreamReader
from towpath.spark.source import TowpathDataSource


def _have_broker():
    try:
        return bool(jars("kafka"))
    except RuntimeError:
        return False


pytestmark = pytest.mark.skipif(not _have_broker(), reason="`make jars` fetches the broker")


@pytest.fixture(scope="module")
def kafka():
    with KafkaBroker() as broker:
        broker.create_topic("orders", 3)
        broker.produce("orders", [(None, change(data=[order(at, "1.50")]), at % 3) for at in range(90)])
        yield broker


def options(kafka):
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "orders", "startingOffsets": "earliest"}
    return {**given, "dialect": "canal-json", "schema": SCHEMA}


def traced_sources(log):
    """Both sources. They write to `log` what is asked of them, and in which process.

    They are local classes, so that Spark sends them to its workers, which cannot import this module.
    """

    def note(*what):
        with open(log, "a") as file:
            print(os.getpid(), *what, file=file)

    def traced(reader):
        class Traced(type(reader)):
            def partitions(self, *bounds):
                note("partitions", *bounds)
                return super().partitions(*bounds)

            def read(self, partition):
                note("read")
                return super().read(partition)

        note("reader")
        reader.__class__ = Traced
        return reader

    class Topics(TowpathDataSource):
        @classmethod
        def name(cls):
            return "traced_topics"

        def reader(self, schema):
            return traced(super().reader(schema))

        def streamReader(self, schema):  # noqa: N802
            return traced(super().streamReader(schema))

    class Nothing(DataSource):
        @classmethod
        def name(cls):
            return "traced_nothing"

        def schema(self):
            return "id bigint"

        def reader(self, schema):
            return traced(NothingReader())

        def streamReader(self, schema):  # noqa: N802
            return traced(NothingStreamReader())

    class NothingReader(DataSourceReader):
        def partitions(self):
            return [InputPartition(number) for number in range(3)]

        def read(self, partition):
            yield pa.record_batch({"id": pa.repeat(pa.scalar(1, pa.int64()), 10)})

    class NothingStreamReader(DataSourceStreamReader):
        last = 0

        def initialOffset(self):  # noqa: N802
            return {"offset": 0}

        def latestOffset(self, *_):  # noqa: N802
            self.last = min(self.last + 1, 3)
            return {"offset": self.last}

        def partitions(self, start, end):
            return NothingReader().partitions()

        def read(self, partition):
            return NothingReader().read(partition)

        def commit(self, end):
            pass

    return Topics, Nothing


def asked(spark, folder, query, given):
    """What Spark asked of the sources when it ran the same query of both: how often, and how many processes."""
    found = []
    for number, of_source in enumerate((given, {})):
        log = folder / f"{number}.log"
        kind = traced_sources(str(log))[number]
        spark.dataSource.register(kind)
        query(kind.name(), of_source, folder / str(number))
        lines = [line.split(maxsplit=1) for line in log.read_text().splitlines()]
        times = Counter(what.partition(" ")[0] for _, what in lines)
        found.append((times, len({pid for pid, what in lines if what != "read"})))
    return found


def test_a_batch_is_planned_once(spark, kafka, tmp_path):
    def query(name, given, _):
        assert spark.read.format(name).options(**given).load().count() > 0

    topics, nothing = asked(spark, tmp_path, query, options(kafka))
    assert topics == nothing == ({"reader": 1, "partitions": 1, "read": 3}, 1)


def test_a_stream_plans_once_for_each_micro_batch(spark, kafka, tmp_path):
    """A run makes two readers, each in a process of its own: one for offsets and plans, one for the workers' code."""

    def query(name, given, folder):
        writer = spark.readStream.format(name).options(**given).load().select("id").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="0 seconds")
        running = writer.start(str(folder / "table"))
        running.processAllAvailable()
        running.stop()
        assert spark.read.parquet(str(folder / "table")).count() == 90

    given = {**options(kafka), "layout": "upsert", "maxOffsetsPerTrigger": 30}
    topics, nothing = asked(spark, tmp_path, query, given)
    assert topics == nothing == ({"reader": 2, "partitions": 3, "read": 9}, 2)


@pytest.fixture
def questions(monkeypatch):
    """What the driver asks Kafka."""
    asked = []
    ask = Cluster._ask

    def counted(self, question):
        asked.append(question)
        return ask(self, question)

    monkeypatch.setattr(Cluster, "_ask", counted)
    return asked


def test_kafka_is_asked_five_times_for_a_batch(kafka, questions):
    """Its partitions, where it begins and ends; and whether all of that is there."""
    assert len(KafkaReader(parse_kafka_options(options(kafka))).partitions()) == 3
    assert len(questions) == 5


def test_kafka_is_asked_four_times_for_a_micro_batch(kafka, questions):
    """Its partitions and their ends; and whether all of that is there. Twice more where the stream begins."""
    reader = KafkaStreamReader(parse_kafka_options({**options(kafka), "maxOffsetsPerTrigger": "30"}))
    start = reader.initialOffset()
    assert len(questions) == 2
    for asked in (6, 10):
        end = reader.latestOffset()
        assert [task.range.start for task in reader.partitions(start, end)] == list(start["orders"].values())
        assert len(questions) == asked
        start = end


def test_a_stream_begins_at_the_latest_offsets_by_default(kafka):
    given = {name: value for name, value in options(kafka).items() if name != "startingOffsets"}
    assert KafkaStreamReader(parse_kafka_options(given)).initialOffset() == {"orders": dict.fromkeys("012", 30)}


PROGRAM = """
import sys
import pyspark.daemon, pyspark.worker
import pyspark.sql.worker.plan_data_source_read, pyspark.sql.streaming.python_streaming_source_runner
by_spark = set(sys.modules)
from towpath.spark.source import TowpathDataSource
source = TowpathDataSource({options!r})
reader = source.reader(source.schema())
assert sum(len(batch) for task in reader.partitions() for batch in reader.read(task)) == 90
print(*sorted(set(sys.modules) - by_spark))
"""


@pytest.mark.parametrize("layout", ["change", "upsert", "messages"])
def test_a_worker_imports_only_towpath_and_the_client(kafka, layout):
    """And what comes with Python. Not pandas, no more of pyspark and pyarrow than Spark's own worker."""
    given = {**options(kafka), "layout": layout, "keep": "key,offset,timestamp,headers"}
    if layout == "messages":
        given = {name: value for name, value in given.items() if name not in ("dialect", "schema", "keep")}
    program = PROGRAM.format(options=given)
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    packages = {name.partition(".")[0] for name in ran.stdout.split()}
    assert packages - sys.stdlib_module_names == {"towpath", "confluent_kafka"}
