"""The order of changes: Spark's rule and Python's agree, and what it means for a table."""

import random
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from lake_topic import Topic, canal, row
from spark_rows import of_spark
from towpath.spark.lakehouse.changes import change_schema
from towpath.spark.lakehouse.newest import newest_changes
from towpath.spark.lakehouse.order import ORDER_TYPE, Kinds, is_newer
from towpath.spark.lakehouse.ordered_statements import Place
from towpath.spark.lakehouse.sql import Sql
from towpath.spark.types import struct_type

TIMES = ("event_time", "produced_time", "timestamp")


@pytest.fixture
def topic(spark, tmp_path):
    return Topic(spark, tmp_path)


def some_place(rng, offset):
    """An order value of few different values, so that every rule has to decide some pairs. Times are microseconds."""
    kind = rng.choice(["canal", "canal", "log", "commit", "unknown"])
    return {
        "event_time": rng.choice([None, 3_000_000, 4_000_000, 5_000_000, 6_000_000]),
        "produced_time": rng.choice([3_500_000, 4_500_000]) if kind == "canal" else None,
        "batch": rng.choice([1, 2, 3]) if kind == "canal" else None,
        "timestamp": rng.choice([None, 4_000_000, 4_000_500, 8_000_000]),
        "offset": offset,
        "step": rng.choice([0, 1, 2]),
        "commit_ts": rng.choice([7, 8]) if kind == "commit" else None,
        "is_row": rng.choice([True, False]),
        "log": rng.choice(["1/bin", "2/bin"]) if kind == "log" else None,
        "file": rng.choice([1, 2]) if kind == "log" else None,
        "at": rng.choice([4, 5]) if kind == "log" else None,
        "topic": None if kind == "unknown" else "t",
        "partition": None if kind == "unknown" else rng.choice([0, 1]),
    }


def spark_value(place):
    """The value as PySpark takes it."""
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return {
        name: epoch + timedelta(microseconds=value) if name in TIMES and value is not None else value
        for name, value in place.items()
    }


def test_spark_and_python_have_one_rule(spark):
    rng = random.Random(15)
    pairs = [(some_place(rng, rng.randrange(3)), some_place(rng, rng.randrange(3))) for _ in range(4000)]
    rows = [(at, spark_value(one), spark_value(other)) for at, (one, other) in enumerate(pairs)]
    frame = spark.createDataFrame(rows, f"at int, one {ORDER_TYPE}, other {ORDER_TYPE}")
    found = {
        row["at"]: row["newer"]
        for row in frame.selectExpr("at", f"{is_newer(Sql('one'), Sql('other'))} AS newer").collect()
    }
    wrong = [
        (one, other, found[at])
        for at, (one, other) in enumerate(pairs)
        if Place(one).is_newer(Place(other)) is not found[at]
    ]
    assert wrong == []
    # No two changes are newer than each other, and none is newer than itself.
    assert not any(Place(one).is_newer(Place(other)) and Place(other).is_newer(Place(one)) for one, other in pairs)


def one_by_one(places):
    """The place that is left, with its event time, after changes were applied as they arrived."""
    newest, *others = sorted(places, key=lambda place: [(place[name] or 0) for name in ("timestamp", "offset", "step")])
    for place in others:
        if Place(place).is_newer(Place(newest)):
            times = [time for time in (place["event_time"], newest["event_time"]) if time is not None]
            newest = {**place, "event_time": max(times, default=None)}
    return newest


def test_a_batch_has_the_result_of_its_changes_one_by_one(spark):
    rng = random.Random(16)
    keys = [[some_place(rng, offset) for offset in rng.sample(range(9), rng.randrange(1, 6))] for _ in range(600)]
    own = struct_type(change_schema(pa.struct([("id", pa.int64())])))
    schema = StructType([*own, *StructType.fromDDL(f"`order` {ORDER_TYPE}")])
    empty = dict.fromkeys(schema.names)
    rows = [
        empty | {"op": "insert", "columns": {"id": key}, "partial": False, "key_only": False, "order": spark_value(one)}
        for key, places in enumerate(keys)
        for one in places
    ]
    changes = spark.createDataFrame([tuple(row[name] for name in schema.names) for row in rows], schema)
    newest = newest_changes(changes, ["id"], Kinds(), partial=False).select("columns.id", "order")
    found = {row["id"]: row["order"] for row in of_spark(newest.collect())}
    wanted = {key: spark_value(one_by_one(places)) for key, places in enumerate(keys)}
    assert {key: in_utc(order) for key, order in found.items()} == wanted


def in_utc(order):
    return {
        name: value.astimezone(timezone.utc) if isinstance(value, datetime) else value for name, value in order.items()
    }


@pytest.mark.parametrize("batches", [1, 3])
def test_a_change_that_waited_for_a_lock_is_the_last_one(topic, batches):
    """Its statement began before the others, so its event time is the earliest, but its offset the highest."""
    kafka = {"timestamp": datetime(2026, 1, 1, tzinfo=timezone.utc)}
    messages = [
        canal(0, "INSERT", "a", row(1, "first"), second=10),
        # Of another partition, and between the two others by time.
        canal(0, "UPDATE", "a", row(1, "moved"), old={"name": "?"}, second=7, partition=1),
        canal(1, "UPDATE", "a", row(1, "last"), old={"name": "first"}, second=3),
    ]
    messages = [message | kafka for message in messages]
    parts = [messages] if batches == 1 else [[message] for message in messages]
    for part in parts:
        topic.replicate(*part)
    assert topic.names("a") == {1: "last"}
    # The row's time is still that of the first change.
    topic.replicate(canal(2, "UPDATE", "a", row(1, "moved"), old={"name": "?"}, second=8, partition=1) | kafka)
    assert topic.names("a") == {1: "last"}
    version = topic.version("a")
    for part in parts:
        topic.replicate(*part)
    assert topic.version("a") == version
