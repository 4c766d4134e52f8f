"""Changes of one table into a Delta table: order, duplicates, deletes, truncates, changed keys, and added columns."""

import json
import random
import shutil

import pytest

import towpath
from lake_topic import Topic, canal, of_delta
from towpath.lakehouse.merging import stored
from towpath.lakehouse.merging.rows import relevant
from towpath.lakehouse.tables.targets import companion
from towpath.spark import applier

SCHEMA = "id bigint, name string"


class Source:
    """A table that canal reads: each change becomes a message with the next offset."""

    def __init__(self):
        self.sent = []

    def change(self, kind, row=None, old=None, *, second=None, **more):
        at = len(self.sent)
        second = at if second is None else second
        self.sent.append(canal(at, kind, "orders", row, None, old=old, second=second, **more))
        return self.sent[-1]


@pytest.fixture
def source():
    return Source()


class Lake:
    """A target and its contents."""

    def __init__(self, spark, folder):
        self.spark, self.topic = spark, Topic(spark, folder)
        self.target = str(folder / "orders")
        self.dead_letters = str(folder / "dead_letters")

    def frame(self, *messages, schema=SCHEMA):
        keep = ["topic", "partition", "offset"]
        return towpath.spark.decode(self.topic.frame(*messages), "canal-json", schema, layout="upsert", keep=keep)

    def apply(self, *messages, schema=SCHEMA, **options):
        towpath.spark.apply_changes(self.frame(*messages, schema=schema), self.target, ["id"], **options)

    def rows(self):
        rows = of_delta(self.target)
        return {row.pop("id"): {name: cell for name, cell in row.items() if name != "_towpath"} for row in rows}

    def names(self):
        return {key: row["name"] for key, row in self.rows().items()}


@pytest.fixture
def lake(spark, tmp_path):
    return Lake(spark, tmp_path)


def test_what_arrives_again_changes_nothing(lake, source):
    first = [
        source.change("INSERT", {"id": "1", "name": "a"}),
        source.change("INSERT", {"id": "2", "name": "b"}),
        source.change("UPDATE", {"id": "1", "name": "c"}, {"name": "a"}),
    ]
    lake.apply(*first)
    assert lake.names() == {1: "c", 2: "b"}
    second = [
        source.change("DELETE", {"id": "2", "name": "b"}),
        source.change("UPDATE", {"id": "9", "name": "c"}, {"id": "1"}),
    ]
    lake.apply(*second)
    assert lake.names() == {9: "c"}
    # The inserts of keys that were deleted later, alone, and then all changes again in one batch.
    lake.apply(*first)
    status = f"{lake.target}_status"
    lake.apply(*first, *second, *first, status=status)
    assert lake.names() == {9: "c"}
    [row] = of_delta(status)
    assert (row["table"], row["state"]) == (lake.target, "ok")
    assert (row["applied"], row["ignored_as_old"], row["dead_letters"]) == (0, 3, 0)


def test_tombstones_are_found_by_hash(spark):
    """A comparison of all tombstones with all changes would take the time of their product."""
    tombstones = spark.createDataFrame(
        [(1, "a", False), (1, "b", False), (2, "a", False), (None, None, True)],
        "k0 bigint, k1 string, truncated boolean",
    )
    newest = spark.sql("SELECT named_struct('id', id, 'name', 'a') AS columns FROM range(1, 4)")
    found = relevant(tombstones, newest, ["id", "name"], are_few=False)
    assert sorted(map(tuple, found.collect()), key=str) == [(1, "a", False), (2, "a", False), (None, None, True)]
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "NestedLoop" not in plan
    assert "Cartesian" not in plan


def test_rows_that_cannot_be_decoded_are_kept_elsewhere(lake, source):
    good = source.change("INSERT", {"id": "1", "name": "a"})
    bad = [source.change("INSERT", {"id": "x", "name": "b"}), {"partition": 0, "offset": 7, "value": b"{nothing"}]
    with pytest.raises(ValueError, match=r'2 rows cannot be applied.*"x" is not a bigint.*dead_letters'):
        lake.apply(good, *bad)
    for _ in range(2):
        lake.apply(good, *bad, dead_letters=lake.dead_letters)
    assert lake.names() == {1: "a"}
    dead_letters = {row["offset"]: row for row in of_delta(lake.dead_letters)}
    assert len(dead_letters) == len(of_delta(lake.dead_letters)) == 2
    assert [dead_letters[1][name] for name in ("message", "topic", "partition", "row", "kind", "column")] == [
        bad[0]["value"],
        "t",
        0,
        0,
        "type",
        "id",
    ]
    assert dead_letters[1]["reason"] == 'canal-json: after.id: "x" is not a bigint'
    assert (dead_letters[7]["message"], dead_letters[7]["kind"]) == (b"{nothing", "syntax")


def test_columns_come_and_grow(lake, source):
    lake.apply(source.change("INSERT", {"id": "1", "n": "5", "d": "1.50"}), schema="id bigint, n int, d decimal(5,2)")
    wide = "id bigint, n bigint, d decimal(8,3), `added on` timestamp_ntz"
    row = {"id": "2", "n": str(2**40), "d": "12345.678", "added on": "2024-02-29 01:02:03.5"}
    with pytest.raises(ValueError, match=r"added on timestamp_ntz.*n bigint.*d decimal\(8,3\).*evolve=False"):
        lake.apply(source.change("INSERT", row), schema=wide, evolve=False)
    lake.spark.sql(f"ALTER TABLE delta.`{lake.target}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    lake.apply(source.change("INSERT", row), schema=wide)
    # Messages of an older table definition may arrive later: their missing columns are null.
    lake.apply(source.change("INSERT", {"id": "3", "n": "7", "d": "0.25"}), schema="id bigint, n int, d decimal(5,2)")
    types = dict(lake.spark.read.format("delta").load(lake.target).dtypes)
    assert (types["n"], types["d"], types["added on"]) == ("bigint", "decimal(8,3)", "timestamp_ntz")
    got = {key: [str(cell) for cell in row.values()] for key, row in lake.rows().items()}
    assert got == {
        1: ["5", "1.500", "None"],
        2: [str(2**40), "12345.678", "2024-02-29 01:02:03.500000"],
        3: ["7", "0.250", "None"],
    }
    with pytest.raises(ValueError, match="column n is bigint in the table and string in the messages"):
        lake.apply(source.change("INSERT", {"id": "4", "n": "x"}), schema="id bigint, n string")
    with pytest.raises(ValueError, match=r"column d is .* in the table and binary in the messages"):
        lake.apply(source.change("INSERT", {"id": "4", "d": "x"}), schema="id bigint, d binary")
    assert len(lake.rows()) == 3


def test_a_stream_is_applied_by_one_call_and_by_foreach_batch(lake, source, spark, kafka, topic, tmp_path):
    kafka.create_topic(topic, 2)
    for number in range(40):
        source.change("INSERT", {"id": str(number), "name": f"n{number}"})
    for number in range(0, 40, 2):
        source.change("DELETE" if number % 4 else "UPDATE", {"id": str(number), "name": "new"}, {"name": f"n{number}"})
    values = [one["value"] for one in source.sent]
    kafka.produce(topic, [(None, value, json.loads(value)["data"][0]["id"] > "2") for value in values])
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    messages = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=40).load()
    changes = towpath.spark.decode(
        messages, "canal-json", SCHEMA, layout="upsert", keep=["topic", "partition", "offset"], metrics="changes"
    )
    once = {"availableNow": True}
    query = towpath.spark.apply_changes(changes, lake.target, ["id"], checkpoint=str(tmp_path / "c1"), trigger=once)
    query.awaitTermination()
    counted = [progress["observedMetrics"]["changes"] for progress in query.recentProgress if progress["numInputRows"]]
    assert len(counted) >= 2
    assert sum(counts["messages"] for counts in counted) == 60
    function = towpath.spark.applier(str(tmp_path / "other"), ["id"])
    writer = changes.writeStream.foreachBatch(function).option("checkpointLocation", str(tmp_path / "c2"))
    writer.trigger(**once).start().awaitTermination()
    want = {number: f"n{number}" for number in range(1, 40, 2)} | dict.fromkeys(range(0, 40, 4), "new")
    assert lake.names() == want
    assert {row["id"]: row["name"] for row in of_delta(tmp_path / "other")} == want


def test_what_cannot_be_applied_is_refused(lake, source, spark):
    insert = source.change("INSERT", {"id": "1", "name": "a"})
    changes = lake.frame(insert)
    with pytest.raises(ValueError, match=r"missing columns _sequence.*layout=\"upsert\""):
        towpath.spark.apply_changes(changes.drop("_sequence"), lake.target, ["id"])
    with pytest.raises(ValueError, match="keys: give the columns of the primary key"):
        towpath.spark.apply_changes(changes, lake.target)
    with pytest.raises(ValueError, match=r"keys: unknown uid; did you mean id\? expected one of id, name"):
        towpath.spark.apply_changes(changes, lake.target, ["uid"])
    with pytest.raises(ValueError, match="keys: expected a list of columns"):
        towpath.spark.apply_changes(changes, lake.target, "id")
    with pytest.raises(ValueError, match=r"1 changes have NULL in the key \(id\)"):
        lake.apply(source.change("INSERT", {"id": None, "name": "x"}))
    with pytest.raises(ValueError, match="checkpoint: required for a stream"):
        towpath.spark.apply_changes(spark.readStream.format("rate").load(), lake.target, ["id"])


@pytest.mark.soak  # `unit/test_fold.py` has what the bounds decide
@pytest.mark.parametrize("seed", range(1, 4))
def test_bounds_change_no_result(spark, tmp_path, monkeypatch, seed):
    """Random batches of two partitions, with changes sent again, while others write the same target.

    One target is written by a process that knows its bounds, another one by processes that never do.
    """
    known = stored.StoredBounds.known
    found = []

    def known_of_one(self, *of):
        if self._target == without.target:
            return None
        found.append(known(self, *of))
        return found[-1]

    monkeypatch.setattr(stored.StoredBounds, "known", known_of_one)
    rng = random.Random(seed)
    with_bounds, without = Lake(spark, tmp_path / "with"), Lake(spark, tmp_path / "without")
    apply, sent, clock = applier(with_bounds.target, ["id"]), [], 0
    source = Source()
    for number in range(7):
        batch = []
        for _ in range(rng.randrange(4, 16)):
            clock += rng.random() < 0.6
            row = {"id": str(rng.randrange(8)), "name": f"{len(source.sent)}"}
            kind, partition = rng.choice(["INSERT", "UPDATE", "UPDATE", "DELETE"]), rng.randrange(2)
            second = clock - rng.choice([0, 0, 0, 2 * partition, 5])
            batch.append(source.change(kind, row, {"name": ""}, partition=partition, second=second))
        sent += batch
        batch += rng.sample(sent, rng.choice([0, 0, 4]))
        apply(with_bounds.frame(*batch), number)
        without.apply(*batch)
        if number == 0:
            spark.sql(f"OPTIMIZE delta.`{with_bounds.target}`")
        if number == 1:  # another process is ahead
            ahead = [source.change("DELETE", {"id": f"{key}", "name": ""}, second=clock + 9) for key in range(4)]
            for lake in (with_bounds, without):
                lake.apply(*ahead)
    assert with_bounds.names() == without.names()
    assert sum(bounds is not None for bounds in found) > 2
    tombstones = [of_delta(companion(lake.target, "tombstones")) for lake in (with_bounds, without)]
    [first, second] = [sorted(str((row["k0"], row["order"])) for row in rows) for rows in tombstones]
    assert first == second


def test_a_truncate_deletes_the_older_rows_of_all_partitions(lake, source):
    def insert(key, second, partition):
        return source.change("INSERT", {"id": str(key), "name": "x"}, second=second, partition=partition)

    status = f"{lake.target}_status"
    lake.apply(insert(1, 0, 0), insert(2, 9, 1))
    batch = [source.change("TRUNCATE", second=5), insert(3, 6, 0), insert(4, 4, 1), insert(5, 5, 1)]
    lake.apply(*batch, status=status)
    assert sorted(lake.names()) == [2, 3, 5]
    # Again, with a late row and a new one.
    lake.apply(*batch, insert(6, 4, 1), insert(7, 8, 1), status=status)
    assert sorted(lake.names()) == [2, 3, 5, 7]
    [found] = of_delta(status)
    assert (found["state"], found["applied"], found["ignored_as_old"]) == ("stale", 2 + 1, 2 + 5)
    assert found["reason"].startswith("1 concurrent rows in other partitions may be older or newer")
    [tombstone] = of_delta(companion(lake.target, "tombstones"))
    assert (tombstone["k0"], tombstone["truncated"]) == (None, True)


def test_a_removed_target_is_noticed_by_the_next_batch(lake, source):
    status = f"{lake.target}_status"
    apply = towpath.spark.applier(lake.target, ["id"], status=status)
    row = {"id": "1", "name": "x"}
    apply(lake.frame(source.change("INSERT", row)), 0)
    shutil.rmtree(lake.target)
    apply(lake.frame(source.change("INSERT", row | {"id": "2"})), 1)
    [found] = of_delta(status)
    assert (lake.names(), found["state"]) == ({2: "x"}, "stale")
    assert "the target was removed" in found["reason"]
