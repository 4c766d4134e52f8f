"""Targets that Spark merges by large jobs: changed rows are marked as deleted, or all rows are written again."""

import random
from pathlib import Path

import pytest

from lake_topic import Topic, canal, row
from random_table import RandomTable
from towpath.lakehouse.merging import by_spark, jobs
from towpath.lakehouse.merging.jobs import MARKING, REWRITING, batch_settings, session_settings
from towpath.lakehouse.tables.tables import optimize_in_turn

MARKS_ROWS = {"delta": {"delta.enableDeletionVectors": "true"}, "ice": {}}


def queries(spark):
    """The plans of the session's queries by their numbers."""
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    each = (found.apply(at) for at in range(found.size()))
    return {one.executionId(): one.physicalPlanDescription() for one in each}


def operations(topic, table):
    """What made the commits of a table, the first one at first."""
    name = topic.sql_name(table)
    query = (
        f"SELECT operation FROM {name}.snapshots ORDER BY committed_at" if topic.catalog else f"DESCRIBE HISTORY {name}"
    )
    found = [row["operation"] for row in topic.spark.sql(query).collect()]
    return found if topic.catalog else found[::-1]


def contents(topic):
    return sorted(map(repr, topic.read("shop/a")))


@pytest.mark.soak  # `test_overwrite.py` has the job that rewrites
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("catalog", ["delta", "ice"])
def test_random_tables_are_the_same_by_both_large_jobs(spark, tmp_path, monkeypatch, catalog, seed):
    """Keys of any name and type, batches of any size, and messages that come again. Spark filters the target's rows."""
    rng = random.Random(seed)
    source = RandomTable(rng)
    topics = [Topic(spark, tmp_path / kind, catalog if catalog == "ice" else None) for kind in ("m", "r")]
    marked, rewritten = topics
    sent, runs = [], []
    for _ in range(2):
        batch = source.messages(rng.randrange(1, 40))
        sent += batch
        runs.append([*batch, *rng.sample(sent, 2)])
        rng.shuffle(runs[-1])
    before = queries(spark)
    monkeypatch.setattr(by_spark.BySpark, "_kind", lambda *_: MARKING)
    marked.replicate_in_turn(runs, merge="spark", table_properties=MARKS_ROWS[catalog])
    assert any("might_contain" in plan for number, plan in queries(spark).items() if number not in before)
    monkeypatch.setattr(by_spark.BySpark, "_kind", lambda *_: REWRITING)
    rewritten.replicate_in_turn(runs, merge="spark")
    assert operations(rewritten, "shop/a")[-1] == ("overwrite" if catalog == "ice" else "WRITE")
    assert contents(rewritten) == contents(marked)
    found = sorted(tuple(str(one[key]) for key in source.keys) for one in rewritten.rows("a"))
    assert found == sorted(source.rows)
    assert {topic.states()["a"]["state"] for topic in topics} == {"ok"}


def test_watermarks_rule_out_changes(spark, tmp_path, monkeypatch):
    """The watermarks are broadcast: a partition's changes are not in one task."""
    monkeypatch.setattr(by_spark.BySpark, "_kind", lambda *_: MARKING)
    topic = Topic(spark, tmp_path)
    topic.options["watermarks"] = topic.name("watermarks")

    def ticdc(at, kind, commit, values=None):
        field = "watermarkTs" if values is None else "commitTs"
        return canal(at, kind, "a", values, isDdl=False, _tidb={field: commit << 18})

    first = [ticdc(0, "INSERT", 100, row(1, "x")), ticdc(1, "TIDB_WATERMARK", 200)]
    topic.replicate(*first, dialect="ticdc-canal-json")
    before = queries(spark)
    later = [ticdc(2, "INSERT", 199, row(2, "late")), ticdc(3, "INSERT", 201, row(3, "y"))]
    topic.replicate(*later, dialect="ticdc-canal-json")
    assert topic.names("a") == {1: "x", 3: "y"}
    lines = [line for number, plan in queries(spark).items() if number not in before for line in plan.splitlines()]
    joins = [line for line in lines if "LeftAnti" in line]
    assert joins
    assert all("BroadcastHashJoin" in line for line in joins)


@pytest.mark.parametrize("limit", [None, str(1 << 30)], ids=["default", "of the user"])
def test_a_batch_does_not_wait_until_large_files_are_written_again(spark, tmp_path, monkeypatch, limit):
    target, name = f"{tmp_path}/a", "spark.databricks.delta.optimize.minFileSize"
    for rows in (1, 1, 5_000):
        spark.range(0, rows, 1, 1).selectExpr("id", "uuid() AS text").write.format("delta").mode("append").save(target)
    large = max(Path(target).glob("*.parquet"), key=lambda file: file.stat().st_size)
    monkeypatch.setitem(jobs._OF_BATCH, name, "20000")
    if limit:
        spark.conf.set(name, limit)
    try:
        with session_settings(spark, batch_settings(spark)):
            optimize_in_turn(spark, target, 1, 1)
        assert spark.conf.get(name, None) == limit
    finally:
        spark.conf.unset(name)
    files = {Path(file).name for file in spark.read.format("delta").load(target).inputFiles()}
    assert (len(files), large.name in files) == ((1, False) if limit else (2, True))
    assert spark.read.format("delta").load(target).count() == 5_002
