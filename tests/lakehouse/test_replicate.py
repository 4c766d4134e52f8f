"""Whole topics into Delta tables: one target per table, dead letters, TiCDC's commit times and watermarks."""

from datetime import datetime
from functools import partial

import pytest

import captures_for_replication
import towpath
from fidelity import lines
from golden_files import GOLDEN
from lake_topic import Topic, canal, row
from spark_rows import of_spark
from towpath.ddl import quoted

TSO = 1 << 18  # a millisecond of TiDB's clock


@pytest.fixture
def topic(spark, tmp_path):
    return Topic(spark, tmp_path)


def in_one(*messages):
    """Several messages in one of Kafka's, as canal sends them."""
    return {**messages[0], "value": b"[" + b",".join(one["value"] for one in messages) + b"]"}


def test_each_table_goes_to_its_own_and_grows(topic):
    types = {"id": "int", "value": "varchar(9)", "offset": "time(3)"}
    cells = {"id": "1", "value": "v", "offset": "-01:02:03.500"}
    sent = [
        canal(0, "CREATE", "a", sql="create table a (...)"),
        canal(1, "INSERT", "a", cells, types),
        canal(2, "INSERT", "odd `name", {"编号": "7"}, {"编号": "bigint unsigned"}),
        canal(3, "INSERT", "left out", row(1, "x"), database="other"),
        {"partition": 0, "offset": 4, "value": b"no message"},
        canal(5, "INSERT", "a", {"id": "2", "value": "w", "offset": None}, types),
    ]
    topic.replicate(*sent, database="shop")
    # The columns have the names of Kafka's, and a TIME is text as MySQL prints it.
    assert topic.rows("a") == [cells | {"id": 1}, {"id": 2, "value": "w", "offset": None}]
    odd = topic.spark.read.format("delta").load(topic.name("shop/odd `name"))
    assert [int(one["编号"]) for one in odd.collect()] == [7]
    assert topic.tables("other") == []
    [dead] = topic.read("dead")
    assert (dead["message"], dead["offset"], dead["kind"]) == (b"no message", 4, "syntax")
    [statement] = topic.read("ddl")
    assert (statement["offset"], statement["table"], statement["sql"]) == (0, "a", "create table a (...)")
    # An ALTER TABLE: a wider type and another column, from the next message on. It has changed within a message, too.
    wide, new = types | {"id": "bigint", "new": "decimal(5,2)"}, cells | {"id": str(2**40), "new": "1.25"}
    more = in_one(
        canal(6, "INSERT", "a", cells | {"id": "3"}, types),
        canal(6, "INSERT", "b", row(7, "x")),
        canal(6, "INSERT", "a", new, wide),
    )
    topic.replicate(*sent, more, database="shop")
    assert {one["id"]: one["new"] and str(one["new"]) for one in topic.rows("a")} == {
        **dict.fromkeys((1, 2, 3)),
        2**40: "1.25",
    }
    assert topic.names("b") == {7: "x"}
    assert len(topic.read("ddl")) == len(topic.read("dead")) == 1
    with pytest.raises(ValueError, match="column id is bigint in the table and string in the messages"):
        topic.replicate(canal(7, "INSERT", "a", row("x", "x"), {"id": "varchar(20)"}), on_table_error="fail")


def test_missing_information_is_an_error_that_names_the_argument(topic, tmp_path):
    topic.options, topic.target = {}, {"shop.a": f"default.`{tmp_path.name}_a`"}
    keyless = canal(0, "INSERT", "a", {"id": "1"}, {"id": "int"}, pkNames=None)
    with pytest.raises(ValueError, match=r"shop\.a: the messages do not declare.*schemas=\{'shop\.a'"):
        topic.replicate(canal(0, "INSERT", "a", {"id": "1"}, None))
    with pytest.raises(ValueError, match=r"shop\.a: the messages declare no primary key.*keys=\{'shop\.a'"):
        topic.replicate(keyless)
    with pytest.raises(ValueError, match=r"1 messages cannot be read.*dead_letters"):
        topic.replicate({"partition": 0, "offset": 0, "value": b"["})
    with pytest.raises(ValueError, match="layout: not allowed, since replicate sets it"):
        topic.replicate(keyless, layout="change")
    with pytest.raises(ValueError, match=r"has no \{table\}"):
        towpath.spark.replicate(topic.frame(keyless), "lake.orders")
    others = canal(1, "INSERT", "b", {"id": "1"}, None)  # not in the mapping
    topic.replicate(keyless, others, schemas={"shop.a": "id bigint"}, keys={"shop.a": ["id"]})
    assert [one["id"] for one in topic.spark.table(f"default.`{tmp_path.name}_a`").collect()] == [1]


def test_ticdc_is_ordered_by_commit_time_and_watermarks(topic, spark):
    at = iter(range(100))

    def change(kind, commit, cells=None, *, partition=0, **more):
        tidb = {"watermarkTs" if kind == "TIDB_WATERMARK" else "commitTs": commit, **more.pop("_tidb", {})}
        types = {"id": "bigint", "name": "varchar"}
        return canal(next(at), kind, "t", cells, types, isDdl=False, partition=partition, _tidb=tidb, **more)

    def replicate(*messages):
        topic.replicate(*messages, dialect="ticdc-canal-json", watermarks=topic.name("watermarks"))

    insert = change("INSERT", 100 * TSO, row(1, "a"))
    update = change("UPDATE", 300 * TSO, row(1, "c"), old={"name": "b"}, partition=1)
    deleted = change("INSERT", 210 * TSO, row(2, "x")), change("DELETE", 220 * TSO, row(2, "x"))
    # The newest change comes first, in another partition.
    replicate(update, insert, *deleted, change("TIDB_WATERMARK", 400 * TSO))
    assert topic.names("t") == {1: "c"}
    [mark] = topic.read("watermarks")
    assert (mark["topic"], mark["partition"], mark["watermark_ts"]) == ("t", 0, 400 * TSO)
    assert mark["complete_until"] == datetime(1970, 1, 1, 0, 0, 0, 400_000)
    # Again, at higher offsets and without the later changes; then a new key below the watermark.
    counted = topic.states()["t"]["ignored_as_old"]
    old = [
        change("UPDATE", 200 * TSO, row(1, "b"), old={"name": "a"}, partition=1),
        change("INSERT", 210 * TSO, row(2, "x"), partition=1),
        change("INSERT", 399 * TSO, row(3, "z")),
        change("TIDB_WATERMARK", 10 * TSO, partition=1),
    ]
    # Newer than the watermark, and a key-only row.
    partial = change("INSERT", 500 * TSO, {"id": "5"}, _tidb={"onlyHandleKey": True})
    replicate(*old, change("INSERT", 401 * TSO, row(4, "d")), partial)
    assert topic.states()["t"]["ignored_as_old"] - counted == 3
    assert topic.names("t") == {1: "c", 4: "d"}
    [letter] = topic.read("dead")
    assert letter["message"] == partial["value"]
    assert "only the row's key" in letter["reason"]
    # A watermark that no producer can have reached hides no change, nor does one that a former version stored.
    future, marks = change("TIDB_WATERMARK", 2**63 - 1), topic.sql_name("watermarks")
    replicate(future, change("INSERT", 402 * TSO, row(6, "f")))
    spark.sql(f"UPDATE {marks} SET watermark_ts = {2**63 - 1}, complete_until = '3084-01-01'")
    replicate(change("INSERT", 403 * TSO, row(7, "g")), change("TIDB_WATERMARK", 404 * TSO))
    assert topic.names("t") == {1: "c", 4: "d", 6: "f", 7: "g"}
    assert {one["watermark_ts"] for one in spark.table(marks).filter("partition = 0").collect()} == {404 * TSO}
    letters = topic.read("dead")
    assert [one["kind"] for one in letters if one["message"] == future["value"]] == ["range"]


def test_a_real_capture_as_a_batch_is_the_sources_tables(spark, tmp_path):
    """Every table of the capture whose rows canal sends completely, in Iceberg. `test_exactly_once.py` has Delta's."""
    case = captures_for_replication.canal_json_small()
    values = lines(GOLDEN.parent / "canal-json" / "canal-mysql" / "mixed.flat.jsonl.zst")
    sent = [{"partition": 0, "offset": at, "value": value} for at, value in enumerate(values)]
    targets = {name: f"ice.{quoted(tmp_path.name)}.{'.'.join(map(quoted, name.split('.')))}" for name in case.tables}
    towpath.spark.replicate(Topic(spark, tmp_path).frame(*sent), targets)
    for name, rows in case.tables.items():
        key = case.keys[name][0]
        found = of_spark(spark.table(targets[name]).drop("_towpath").collect())
        assert sorted(found, key=lambda one: one[key]) == sorted(rows, key=lambda one: one[key])


def test_small_tables_take_few_tasks_and_no_broadcasts(spark, tmp_path, request):
    """Delta reads the list of a table's files in 50 tasks by default, after each commit.

    A hashed relation takes a page of memory, until the JVM collects garbage: those of hundreds of tables fill it.
    """
    topic, context, tables = Topic(spark, tmp_path), spark.sparkContext, "abc"
    partitions = "spark.databricks.delta.snapshotPartitions"
    request.addfinalizer(partial(spark.conf.set, partitions, spark.conf.get(partitions)))
    spark.conf.unset(partitions)
    memory = spark._jvm.org.apache.spark.SparkEnv.get().memoryManager()

    def replicate(kind, second):
        topic.replicate(
            *(canal(9 * second + at, kind, table, row(1, "x"), second=second) for at, table in enumerate(tables))
        )

    replicate("INSERT", 0)
    before = memory.storageMemoryUsed()
    context.setJobGroup("few-tasks", "")
    replicate("UPDATE", 1)
    replicate("DELETE", 2)
    context.setLocalProperty("spark.jobGroup.id", None)
    pages = (memory.storageMemoryUsed() - before) / memory.pageSizeBytes()
    assert pages < len(tables)
    tracker = context.statusTracker()
    stages = [stage for job in tracker.getJobIdsForGroup("few-tasks") for stage in tracker.getJobInfo(job).stageIds]
    tasks = [info.numTasks for stage in stages if (info := tracker.getStageInfo(stage))]
    assert len(tasks) > 10
    assert max(tasks) <= 4
    assert topic.rows("a") == []
