"""The order of changes: Spark's rules are those of the model, and what they mean for a table."""

import random
from datetime import datetime, timedelta, timezone

import pyarrow as pa

import order_model
from lake_cases import Together
from lake_topic import canal, row
from order_model import some_place
from towpath.lakehouse.merging import stored
from towpath.lakehouse.order.order import ORDER_TYPE, is_newer, is_ordered, with_order
from towpath.lakehouse.order.order_arrays import order_values
from towpath.lakehouse.reading.changes import change_schema
from towpath.lakehouse.tables.sql import Sql
from towpath.spark.types import struct_type

TIMES = ("event_time", "produced_time", "timestamp")


def spark_value(place):
    """The value as PySpark takes it."""
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return {
        name: epoch + timedelta(microseconds=value) if name in TIMES and value is not None else value
        for name, value in place.items()
    }


def test_sparks_rules_are_those_of_the_model(spark):
    rng = random.Random(15)
    pairs = [(some_place(rng, rng.randrange(3)), some_place(rng, rng.randrange(3))) for _ in range(4000)]
    rows = [(at, spark_value(one), spark_value(other)) for at, (one, other) in enumerate(pairs)]
    frame = spark.createDataFrame(rows, f"at int, one {ORDER_TYPE}, other {ORDER_TYPE}")
    one, other = Sql("one"), Sql("other")
    rules = frame.selectExpr("at", f"{is_newer(one, other)} AS newer", f"{is_ordered(one, other)} AS ordered")
    found = {row["at"]: (row["newer"], row["ordered"]) for row in rules.collect()}
    wrong = [
        (one, other, found[at])
        for at, (one, other) in enumerate(pairs)
        if (order_model.is_newer(one, other), order_model.is_ordered(one, other)) != found[at]
    ]
    assert wrong == []


def test_bounds_are_the_highest_of_the_stored_values(spark):
    """Places have any 64 bits; and a scan of a large target does not sort it."""
    rng = random.Random(19)
    places = [some_place(rng, rng.randrange(3)) for _ in range(1000)]
    for place in places:
        if place["log"] is not None:
            place |= {"file": rng.choice([0, 1, 2**62, 2**63 - 1]), "at": rng.choice([-(2**63), -1, 0, 2**63 - 1])}
    places.append({**some_place(rng, 1), "log": "damaged", "file": 3, "at": -5})
    frame = spark.createDataFrame([(spark_value(place),) for place in places], f"order {ORDER_TYPE}")
    highest = frame.groupBy(*stored.groups()).agg(*stored.highest())
    assert "SortAggregate" not in highest._jdf.queryExecution().toString()
    found = stored.bounds_of(highest.collect()).highest
    logs = {place["log"] for place in places} - {None}
    assert len(logs) > 1
    for log in logs:
        highest = max((place["file"], max(place["at"], 0)) for place in places if place["log"] == log)
        assert found["place", log] == highest
    assert found["commit_ts",] == max(place["commit_ts"] or 0 for place in places) > 0
    partitions = {(place["topic"], place["partition"]) for place in places}
    for topic, partition in partitions:
        own = [place for place in places if (place["topic"], place["partition"]) == (topic, partition)]
        for name in ("offset", "timestamp", "event_time"):
            assert found[name, topic, partition] == max(place[name] for place in own if place[name] is not None)
    assert len(found) == len(logs) + 1 + 3 * len(partitions) > 1 + 3 + len(logs)


def test_order_values_in_arrow_are_those_of_spark(spark):
    """Of the sources of all kinds of messages, and of odd names of files."""
    rng = random.Random(17)
    files = [None, "bin.000012", "a.b.7", "12", "x", "bin.", ".3", "bin.99999999999999999999", "mysql-bin.000001"]
    schema = change_schema(pa.struct([("id", pa.int64())]))
    times = [None, datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2025, 1, 1, 1, 2, 3, 456, tzinfo=timezone.utc)]

    def change():
        numbers = [None, 0, 1, 2**62]
        source = {name: rng.choice(numbers) for name in ("commit_ts", "server_id", "position", "message_id")}
        op = rng.choice(["insert", "update", "delete", "truncate", "snapshot"])
        place = {"topic": rng.choice([None, "t"]), "partition": rng.choice([None, 3]), "offset": rng.choice(numbers)}
        found = {name: rng.choice(times) for name in ("event_time", "produced_time", "timestamp")}
        return {"op": op, "source": {**source, "file": rng.choice(files)}, "step": rng.randrange(9), **place, **found}

    changes = pa.RecordBatch.from_pylist([change() for _ in range(2000)], schema)
    frame = spark.createDataFrame(pa.Table.from_batches([changes]), struct_type(schema))
    found = with_order(frame.coalesce(1)).select("order.*").toArrow().to_pylist()
    assert order_values(changes).to_pylist() == found


KAFKA = {"timestamp": datetime(2026, 1, 1, tzinfo=timezone.utc)}

together = Together()


def waited(table, at):
    """The first change, one of another partition that is between the two others by time, and one that waited."""
    messages = [
        canal(at, "INSERT", table, row(1, "first"), second=10),
        canal(at, "UPDATE", table, row(1, "moved"), old={"name": "?"}, second=7, partition=1),
        canal(at + 1, "UPDATE", table, row(1, "last"), old={"name": "first"}, second=3),
    ]
    return [message | KAFKA for message in messages]


@together
def test_a_change_that_waited_for_a_lock_is_the_last_one(topic):
    """Its statement began before the others, so its event time is the earliest, but its offset the highest."""
    tables = {"one_batch": 0, "three_batches": 10}
    first, second, third = waited("three_batches", 10)
    parts = [[*waited("one_batch", 0), first], [second], [third]]
    yield from parts
    assert [topic.names(table) for table in tables] == [{1: "last"}] * 2
    # The row's time is still that of the first change.
    late = [
        canal(at + 2, "UPDATE", table, row(1, "moved"), old={"name": "?"}, second=8, partition=1)
        for table, at in tables.items()
    ]
    yield [message | KAFKA for message in late]
    assert [topic.names(table) for table in tables] == [{1: "last"}] * 2
    versions = [topic.version(table) for table in tables]
    yield from parts
    assert [topic.version(table) for table in tables] == versions


@together
def test_a_clock_that_goes_back_in_a_partition(topic):
    rng = random.Random(7)
    wanted, messages, second = {}, [], 5000
    for at in range(120):
        second += rng.choice([0, 1, 1, 2, -1, -3600])
        key = rng.randrange(6)
        message = canal(at, "INSERT", "a", row(key, f"v{at}"), second=second)
        messages.append(message | {"timestamp": datetime.fromtimestamp(1_700_000_000 + at, timezone.utc)})
        wanted[key] = f"v{at}"
    for begin in range(0, 120, 40):
        yield messages[begin : begin + 40]
    assert topic.names("a") == wanted
