"""The listener's metrics of each micro-batch equal those of json.loads, the files and Spark's progress."""

import json
import logging
import threading

import pytest
from pyspark.sql import functions
from pyspark.sql.streaming.listener import StreamingQueryListener

import towpath
from canal_messages import MIXED, SCHEMA
from golden_files import lines


class Ended(StreamingQueryListener):
    """Added last, so that every other listener gets a query's batches before this one gets its end."""

    def __init__(self):
        self.queries = {}

    def onQueryStarted(self, event):  # noqa: N802
        pass

    def onQueryProgress(self, event):  # noqa: N802
        pass

    def onQueryTerminated(self, event):  # noqa: N802
        self.of(event.runId).set()

    def of(self, run):
        return self.queries.setdefault(str(run), threading.Event())


@pytest.fixture
def listen(spark):
    """Adds listeners, and last the one that waits for the end; removes all afterwards."""
    added = []

    def add(listener):
        ended = Ended()
        for one in (listener, ended):
            spark.streams.addListener(one)
            added.append(one)
        return ended

    yield add
    for one in added:
        spark.streams.removeListener(one)


def run(frame, ended, name):
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination(600)
    assert ended.of(query.runId).wait(300)
    return query


def stream(spark, values, path, files):
    frame = spark.createDataFrame(list(enumerate(values)), "offset long, value binary")
    frame.repartitionByRange(files, "offset").write.parquet(str(path))
    source = spark.readStream.schema("offset long, value binary").option("maxFilesPerTrigger", "1")
    return source.parquet(str(path))


def test_each_micro_batch_is_reported(spark, tmp_path, listen):
    values = lines("cloudcanal/small.jsonl")
    orders = sum(len(message["data"]) for message in map(json.loads, values) if message["table"] == "orders")
    reported = []
    ended = listen(towpath.spark.progress_listener(reported.append))
    source = stream(spark, values, tmp_path / "messages", 2)
    decoded = towpath.spark.decode(source, "canal-json", table="orders", metrics="cdc")
    inserts = functions.count_if(functions.col("op") == "insert").alias("inserts")
    query = run(decoded.observe("an observation of the user's own", inserts), ended, "reported")
    progresses = [progress for progress in query.recentProgress if progress["numInputRows"]]
    counted = [counts for counts in reported if counts.messages]
    assert len(counted) == 2
    assert [counts.batch for counts in counted] == [progress["batchId"] for progress in progresses]
    assert [counts.messages for counts in counted] == [progress["numInputRows"] for progress in progresses]
    assert {(counts.query, counts.metrics) for counts in reported} == {("reported", "cdc")}
    assert sum(counts.messages for counts in reported) == len(values)
    assert sum(counts.rows for counts in reported) == orders == spark.table("reported").count()
    assert sum(counts.filtered for counts in reported) == len(values) - orders
    assert all(counts.messages_per_second > 0 for counts in counted)


def test_errors_are_reported_by_kind(spark, tmp_path, listen):
    reported = []
    ended = listen(towpath.spark.progress_listener(reported.append))
    source = stream(spark, MIXED, tmp_path / "messages", 1)
    options = {"schema": SCHEMA, "table": "orders", "mode": "DROPMALFORMED", "metrics": "cdc"}
    run(towpath.spark.decode(source, "canal-json", **options), ended, "errors")
    [counts] = [counts for counts in reported if counts.messages]
    assert counts.errors == {"syntax": 1, "type": 1}
    assert (counts.messages, counts.rows, counts.filtered, counts.dropped) == (5, 2, 1, 2)


def test_without_a_function_they_are_logged(spark, tmp_path, listen, caplog):
    caplog.set_level(logging.INFO, "towpath.spark")
    ended = listen(towpath.spark.progress_listener())
    run(towpath.spark.decode(stream(spark, MIXED[2:], tmp_path / "messages", 3), metrics="cdc"), ended, "logged")
    said = sorted((record.levelname, record.getMessage().partition(": ")[2]) for record in caplog.records)
    counts = [(level, text.partition(": ")[2].partition(" (")[0]) for level, text in said if " 0 messages" not in text]
    good = ("INFO", "1 messages, 1 rows, 0 filtered, 0 dropped, 0 zero dates, errors: none")
    assert counts == [
        good,
        good,
        ("WARNING", "1 messages, 1 rows, 0 filtered, 0 dropped, 0 zero dates, errors: 1 syntax"),
    ]
