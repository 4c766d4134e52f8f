"""Tables that tasks merge with delta-rs are those that Spark's MERGE would have made."""

import json
import random
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from delta_history import commits
from lake_cases import Case, Together
from lake_topic import TYPES, Topic, canal, of_delta, row
from random_table import RandomTable
from spark_rows import of_spark
from task_attempts import PART, batch
from towpath.lakehouse.merging import by_tasks, fold, owned_table
from towpath.lakehouse.merging import rows as rows_module
from towpath.lakehouse.merging.delta_rs import RefusedError, compact
from towpath.lakehouse.merging.owned_table import OwnedTable, apply
from towpath.lakehouse.merging.tasks import TaskMerges, _location, merge_in_tasks
from towpath.lakehouse.reading.changes import ChangeDecoder

together = Together(merge="auto")


@pytest.fixture
def topic(spark, tmp_path):
    return Topic(spark, tmp_path)


def writers(topic, table):
    """What made each version of a table that changed its rows."""
    made = commits(topic.spark, topic.sql_name(f"shop/{table}"))
    return [writer for operation, writer in made if operation in ("MERGE", "WRITE", "CREATE TABLE AS SELECT")]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))])
def test_random_tables_are_those_of_sparks_merge(spark, tmp_path, seed):
    """Columns of any name and type, batches of any size, a message that comes again, and the way that changes."""
    rng = random.Random(seed)
    options = {"soft_deletes": "was deleted"} if seed % 2 else {}
    source = RandomTable(rng)
    lake = Topic(spark, tmp_path)
    topics = {way: Case(lake, way) for way in ("auto", "spark", "mixed")}
    sent = []
    for _ in range(3):
        batch = source.messages(rng.randrange(1, 40)) + rng.sample(sent, min(len(sent), 3))
        sent += batch
        rng.shuffle(batch)
        of_mixed = rng.choice(["auto", "spark"])
        for way in ("auto", "spark"):
            names = [way, "mixed"] if way == of_mixed else [way]
            messages = (message for name in names for message in topics[name].sent(batch))
            lake.replicate(*messages, merge=way, **options)
    tables = {way: sorted(topic.rows("a"), key=repr) for way, topic in topics.items()}
    assert tables["auto"] == tables["spark"] == tables["mixed"]
    ids = [tuple(str(one[key]) for key in source.keys) for one in tables["auto"] if not one.get("was deleted")]
    assert sorted(ids) == sorted(source.rows)
    orders = {}
    for way, topic in topics.items():
        rows = topic.read("shop/a")
        orders[way] = sorted(repr(one).replace(topic.database, "") for one in rows)
    assert orders["auto"] == orders["spark"]
    assert set(writers(topics["auto"], "a")) == {"task"}
    assert set(writers(topics["spark"], "a")) == {"spark"}
    # A query writes its own tables as it writes its targets.
    assert [writer for _, writer in commits(spark, lake.sql_name("status"))][:2] == ["spark", "task"]
    assert {one["a"]["state"] for one in map(Topic.states, topics.values())} == {"ok"}


@together
def test_a_replay_writes_nothing(topic):
    messages = [canal(at, "INSERT", "a", row(at, "x"), second=at) for at in range(5)]
    messages += [canal(9, "DELETE", "a", row(3, "x"), second=9)]
    yield messages
    version = topic.version("a")
    yield messages
    assert topic.version("a") == version
    assert sorted(topic.names("a")) == [0, 1, 2, 4]
    assert topic.states()["a"]["ignored_as_old"] == 5


@together
def test_rows_with_errors_are_dead_letters(topic):
    types = {"id": "tinyint", "name": "varchar(3)"}
    yield [canal(0, "INSERT", "a", row(1, "x"), types), canal(1, "INSERT", "a", row(700, "x"), types)]
    assert topic.names("a") == {1: "x"}
    [letter] = topic.read("dead")
    assert (letter["offset"], letter["column"], letter["table"]) == (1, "id", "a")
    assert topic.states()["a"]["dead_letters"] == 1
    assert set(writers(topic, "a")) == {"task"}


@together
def test_updates_of_before_a_column_was_added_keep_its_value(topic):
    """They lack it, and their own declaration has it not."""
    wide = {**TYPES, "note": "varchar(9)"}
    yield [canal(0, "INSERT", "a", {**row(1, "x"), "note": "kept"}, wide)]
    update = canal(1, "UPDATE", "a", row(1, "y"), old={"name": "x"}, second=1)
    yield [update, canal(2, "INSERT", "a", {**row(2, "z"), "note": "n"}, wide, second=2)]
    assert {one["id"]: (one["name"], one["note"]) for one in topic.rows("a")} == {1: ("y", "kept"), 2: ("z", "n")}


def test_without_a_table_for_dead_letters_nothing_is_merged(topic):
    """As by Spark: the table is quarantined, with its good rows."""
    bad = canal(1, "INSERT", "a", row(700, "x"), {"id": "tinyint", "name": "varchar(3)"})
    good = canal(0, "INSERT", "a", row(1, "x"), {"id": "tinyint", "name": "varchar(3)"})
    topic.replicate(good, bad, dead_letters=None, quarantine=topic.name("aside"))
    assert topic.names("a") == {}
    assert topic.states()["a"]["state"] == "quarantined"
    assert len(topic.read("aside")) == 2


@together
def test_a_table_that_delta_rs_does_not_write_is_merged_by_spark(topic):
    """Here a type was widened, for which Delta needs a feature. No batch is lost."""
    yield [canal(0, "INSERT", "a", row(1, "x"), {"id": "smallint", "name": "varchar(3)"})]
    yield [canal(1, "INSERT", "a", row(70_000, "y"), {"id": "int", "name": "varchar(3)"})]
    yield [canal(2, "DELETE", "a", row(1, "x"), {"id": "int", "name": "varchar(3)"})]
    assert topic.names("a") == {70_000: "y"}
    assert writers(topic, "a") == ["spark", "spark", "task"]


# The worker's part alone.

FEATURES = {
    "cdf": ("SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')", "changeDataFeed"),
    "append_only": ("SET TBLPROPERTIES ('delta.appendOnly' = 'true')", "delta.appendOnly"),
    "checked": ("ADD CONSTRAINT positive CHECK (id >= 0)", "unsupported Delta writer version 3"),
    "widened": ("SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", "typeWidening"),
    "tracked": ("SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')", "rowTracking"),
}
"""For each table, a statement and the reason for which a task refuses it."""

ROWS = {"appended": 1, "overwritten": 2, "merged": 2, "dies": 2}
"""The tables of the other tests, and their rows."""


@pytest.fixture(scope="module")
def targets(spark, tmp_path_factory):
    """Each table is of one test."""
    found, tables = Topic(spark, tmp_path_factory.mktemp("targets")), {**ROWS, **dict.fromkeys(FEATURES, 1)}
    found.replicate(
        *(
            canal(at, "INSERT", table, row(at, "x"), second=at, partition=partition)
            for partition, table in enumerate(tables)
            for at in range(tables[table])
        )
    )
    return found


def owned(topic, table, **changed):
    """A table, as the driver describes it to a task."""
    target = topic.name(f"shop/{table}")
    decoder = ChangeDecoder("canal-json", "id int, name string", {"table": table})
    known = {"keys": ("id",), "target": target, "tombstones": f"{target}__tombstones", "order": "_towpath"}
    return OwnedTable({PART: decoder}, **{**known, "forget_before": None, **changed})


@pytest.mark.parametrize("table", ["appended", "overwritten", "merged"])
def test_a_commit_between_reading_and_writing_is_seen(targets, monkeypatch, table):
    """The table `appended` lacks the row before."""
    write, others = owned_table._write, []
    newer = canal(9, "INSERT", table, row(1, "newer"), second=9)

    def write_late(*arguments):
        if not others:
            others.append(targets.replicate(newer, merge="spark"))
        write(*arguments)

    monkeypatch.setattr(owned_table, "_write", write_late)
    if table == "merged":
        monkeypatch.setattr(owned_table, "_is_overwritten", lambda *_: False)
    older = canal(5, "INSERT", table, row(1, "older"), second=5)
    found = apply(owned(targets, table), [batch(older)])
    assert (len(others), found["row"], found["old"]) == (1, 0, 1)
    assert targets.names(table) == {0: "x", 1: "newer"}


def test_a_task_that_dies_between_tombstones_and_merge_is_repeated(targets, monkeypatch):
    delete = batch(canal(2, "DELETE", "dies", row(1, "x"), second=2))

    def die(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(owned_table, "_write", die)
        with pytest.raises(MemoryError):
            apply(owned(targets, "dies"), [delete])
    assert sorted(targets.names("dies")) == [0, 1]
    assert apply(owned(targets, "dies"), [delete])["delete"] == 1
    assert targets.names("dies") == {0: "x"}
    targets.replicate(canal(1, "INSERT", "dies", row(1, "x"), second=1))
    assert targets.names("dies") == {0: "x"}, "the tombstone is known to Spark's merge too"


def test_features_that_a_task_refuses(targets):
    for table, (statement, reason) in FEATURES.items():
        targets.spark.sql(f"ALTER TABLE {targets.sql_name(f'shop/{table}')} {statement}")
        with pytest.raises(RefusedError, match=reason):
            apply(owned(targets, table), [batch(canal(9, "INSERT", table, row(1, "x")))])


def test_a_later_run_forgets_what_an_earlier_one_deleted(topic):
    for key in (1, 2):
        topic.replicate(canal(key, "DELETE", "a", row(key, "x"), second=key), forget_after="0 seconds")
        assert len(topic.read("shop/a__tombstones")) == 1


def test_deletion_vectors_are_read(topic):
    properties = {"delta.enableDeletionVectors": "true"}
    topic.replicate(*(canal(at, "INSERT", "a", row(at, "x")) for at in range(50)), table_properties=properties)
    topic.spark.sql(f"DELETE FROM {topic.sql_name('shop/a')} WHERE id % 5 = 0")
    assert apply(owned(topic, "a"), [batch(canal(90, "INSERT", "a", row(90, "y"), second=9))])["row"] == 1
    assert sorted(topic.names("a")) == [*(at for at in range(50) if at % 5), 90]
    with pytest.raises(RefusedError, match="does not compact tables with column mapping or deletion vectors"):
        compact(DeltaTable(topic.name("shop/a")))


@pytest.mark.parametrize(
    ("properties", "writer"), [({}, "task"), ({"delta.enableDeletionVectors": "true"}, "spark")], ids=["task", "spark"]
)
def test_a_small_target_is_compacted(topic, properties, writer):
    batches = [[canal(at, "INSERT", "a", row(at, "x"))] for at in range(3)]
    topic.replicate_in_turn(batches, optimize_every=1, table_properties=properties)
    assert ("OPTIMIZE", writer) in commits(topic.spark, topic.sql_name("shop/a"))
    assert topic.names("a") == dict.fromkeys(range(3), "x")


def test_spark_reads_a_checkpoint_of_delta_rs(topic):
    """Without the commits before it, as after Spark's cleanup of a log."""
    types = {"id": "int", "n": "decimal(38,9)", "t": "timestamp", "d": "datetime(6)", "f": "double"}
    cells = {"n": "-1.000000001", "t": "2024-01-01 00:00:00", "d": "2024-01-01 00:00:00.000001", "f": "0.1"}
    sent = [canal(at, "INSERT", "a", {"id": str(at), **cells}, types, second=at) for at in range(11)]
    topic.replicate_in_turn([[one] for one in sent])
    log = Path(topic.name("shop/a"), "_delta_log")
    version = json.loads((log / "_last_checkpoint").read_text())["version"]
    for file in log.glob("*.json"):
        if int(file.stem) <= version:
            file.unlink()
    getattr(topic.spark._jvm, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    rows = of_spark(topic.load("shop/a").orderBy("id").collect())
    assert [(one["id"], one["n"], one["f"]) for one in rows] == [(at, Decimal(cells["n"]), 0.1) for at in range(11)]
    assert rows == sorted(of_delta(topic.name("shop/a")), key=lambda one: one["id"])
    topic.replicate(canal(99, "DELETE", "a", {"id": "3", **cells}, types, second=99), merge="spark")
    assert sorted(one["id"] for one in topic.rows("a")) == [at for at in range(11) if at != 3]


def test_tasks_reject_what_sparks_way_rejects(spark):
    rng = random.Random(7)
    kinds = pa.schema(
        [
            ("op", pa.string()),
            ("columns", pa.struct([("ID", pa.int32()), ("name", pa.string()), ("v", pa.int32())])),
            ("error", pa.struct([("column", pa.string())])),
            ("key_only", pa.bool_()),
            ("missing", pa.list_(pa.string())),
        ]
    )
    absent = [None, [], ["v"], ["ID", "v"], [None, "NAME"]]
    rows = [
        {
            "op": rng.choice(["insert", "update", "delete"]),
            "columns": {"ID": rng.choice([None, 1]), "name": rng.choice([None, "x"]), "v": rng.choice([None, 1])},
            "error": rng.choice([None, {"column": rng.choice([None, "id", "NAME", "v"])}]),
            "key_only": rng.random() < 0.3,
            "missing": rng.choice(absent),
        }
        for _ in range(500)
    ]
    changes = pa.RecordBatch.from_pylist(rows, kinds)
    frame = spark.createDataFrame(pa.Table.from_batches([changes]))
    for keys in (["id"], ["Id", "Name"], []):
        expected = [one[0] for one in frame.selectExpr(rows_module.is_rejected(keys)).collect()]
        assert fold.is_rejected(changes, keys).to_pylist() == expected


def test_spark_and_delta_rs_open_the_same_folder(spark, tmp_path):
    """Java's `toASCIIString` normalizes Unicode: the rows of a table in one form went to that in another form."""
    names = [
        "cafe\u0301",
        "caf\u00e9",
        "\ufb01",
        "fi",
        "\u212b",
        "\u00c5",
        "A\u030a",
        "e\u0301 +&\ufb01",
        "%20#?% A\u030a",
    ]
    topic = Topic(spark, tmp_path / "lake in e\u0301")
    batches = [[canal(10 * at + n, "INSERT", name, row(n, name)) for n, name in enumerate(names)] for at in (0, 1)]
    refused = {}

    def merged(events, tables):
        results = merge_in_tasks(events, tables)
        refused.update({table.name: one.refused for table, one in results.items()})
        return results

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(by_tasks, "merge_in_tasks", merged)
        topic.replicate_in_turn(batches, merge="auto")
    assert set(refused.values()) == {None}
    targets = {name: one["target"] for name, one in topic.states().items()}
    escaped = {name for name in names if re.search("%[0-9A-Fa-f]{2}", targets[name])}  # delta-rs would decode them
    assert refused.keys() == set(names) - escaped
    for name, target in targets.items():
        assert [one["name"] for one in spark.read.format("delta").load(target).collect()] == [name]
        [detail] = spark.sql(f"DESCRIBE DETAIL delta.`{target}`").collect()
        assert TaskMerges().location(spark, target) == _location(detail["location"])  # as on Connect
        assert TaskMerges().id(spark, target) == detail["id"]
        assert name in escaped or DeltaTable(_location(detail["location"])).metadata().id == detail["id"]
