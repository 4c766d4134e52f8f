"""Targets that are overwritten as most of their rows change: other writers, and tables whose readers would see it."""

import pytest

from lake_topic import TYPES, Topic, canal, row
from towpath.lakehouse import by_spark, overwrite
from towpath.lakehouse.jobs import REWRITING

FIRST = [canal(at, "INSERT", "a", row(at, "old")) for at in range(4)]
UPDATES = [canal(10 + at, "UPDATE", "a", row(at, "new"), old={"name": "old"}) for at in range(3)]
ALL_NEW = {0: "new", 1: "new", 2: "new", 3: "old"}


@pytest.fixture
def rewriting(monkeypatch):
    monkeypatch.setattr(by_spark.BySpark, "_kind", lambda *_: REWRITING)


@pytest.fixture(params=["delta", "ice"])
def topic(request, spark, tmp_path, rewriting):
    found = Topic(spark, tmp_path, "ice" if request.param == "ice" else None)
    found.replicate(*FIRST, merge="spark")
    return found


def last_operation(topic):
    name = topic.sql_name("shop/a")
    if topic.catalog:  # a MERGE marks rows, which is an overwrite too, but of other files
        query = f"SELECT summary['total-delete-files'] = '0' AS is_whole FROM {name}.snapshots ORDER BY committed_at"
        return "WRITE" if topic.spark.sql(query).collect()[-1]["is_whole"] else "MERGE"
    return topic.spark.sql(f"DESCRIBE HISTORY {name}").collect()[0]["operation"]


def meanwhile(monkeypatch, action):
    """Do something once, after the target was read for the first time and before it is overwritten."""
    prepared = overwrite.in_few_tasks

    def after(rows, per_core):
        monkeypatch.setattr(overwrite, "in_few_tasks", prepared)
        action()
        return prepared(rows, per_core)

    monkeypatch.setattr(overwrite, "in_few_tasks", after)


def test_rows_of_most_keys_are_written_in_one_commit(topic):
    before = topic.version("a")
    topic.replicate(*UPDATES, canal(20, "DELETE", "a", row(3, "old")), merge="spark")
    assert topic.names("a") == {0: "new", 1: "new", 2: "new"}
    assert (last_operation(topic), topic.version("a")) == ("WRITE", before + 1)


@pytest.mark.parametrize("kind", ["UPDATE", "INSERT"])
def test_a_newer_change_of_another_query_stays(topic, monkeypatch, kind):
    other = canal(30, kind, "a", row({"UPDATE": 1, "INSERT": 7}[kind], "newest"), old={"name": "old"}, second=1)
    topic_of_other = Topic(topic.spark, topic.lake.parent)
    topic_of_other.target, topic_of_other.options = topic.target, {}
    meanwhile(monkeypatch, lambda: topic_of_other.replicate(other, merge="spark"))
    topic.replicate(*UPDATES, canal(20, "INSERT", "a", row(7, "new")), merge="spark")
    expected = {**ALL_NEW, 7: "new"} | ({1: "newest"} if kind == "UPDATE" else {7: "newest"})
    assert topic.names("a") == expected


@pytest.mark.parametrize("statement", ["UPDATE {} SET name = 'own' WHERE id = 3", "DELETE FROM {} WHERE id = 3"])
def test_a_statement_of_somebody_else_is_not_undone(topic, monkeypatch, statement):
    meanwhile(monkeypatch, lambda: topic.spark.sql(statement.format(topic.sql_name("shop/a"))))
    topic.replicate(*UPDATES, merge="spark")
    expected = {**ALL_NEW, 3: "own"} if "UPDATE" in statement else dict.fromkeys(range(3), "new")
    assert topic.names("a") == expected


def test_what_the_user_added_is_not_overwritten(topic):
    name = topic.sql_name("shop/a")
    topic.spark.sql(f"ALTER TABLE {name} ADD COLUMNS (note string)")
    topic.spark.sql(f"UPDATE {name} SET note = 'mine'")
    topic.replicate(*UPDATES, merge="spark")
    assert {one["id"]: (one["name"], one["note"]) for one in topic.rows("a")} == {
        key: (name, "mine") for key, name in ALL_NEW.items()
    }


def test_columns_come_with_the_changes(topic):
    types = {**TYPES, "note": "varchar(9)"}
    later = [
        canal(10 + at, "UPDATE", "a", {**row(at, "new"), "note": "n"}, types, old={"name": "old"}) for at in range(3)
    ]
    topic.replicate(*later, merge="spark")
    topic.replicate(canal(20, "INSERT", "a", {**row(9, "x"), "note": None}, types), merge="spark")
    expected = {key: (name, "n" if name == "new" else None) for key, name in ALL_NEW.items()} | {9: ("x", None)}
    assert {one["id"]: (one["name"], one["note"]) for one in topic.rows("a")} == expected
    assert topic.states()["a"]["state"] == "ok"


@pytest.mark.parametrize(
    ("property_name", "value"), [("delta.enableChangeDataFeed", "true"), ("delta.enableRowTracking", "true")]
)
def test_tables_whose_readers_would_see_it_are_merged(spark, tmp_path, rewriting, property_name, value):
    topic = Topic(spark, tmp_path)
    topic.replicate(*FIRST, merge="spark", table_properties={property_name: value})
    topic.replicate(*UPDATES, merge="spark")
    assert topic.names("a") == ALL_NEW
    assert last_operation(topic) == "MERGE"


def test_partitioned_tables_are_merged(spark, tmp_path, rewriting):
    topic = Topic(spark, tmp_path)
    name = topic.sql_name("shop/a")
    spark.sql(f"CREATE TABLE {name} (id int, name string) USING delta PARTITIONED BY (id)")
    topic.replicate(*FIRST, merge="spark")
    topic.replicate(*UPDATES, merge="spark")
    assert topic.names("a") == ALL_NEW
    assert last_operation(topic) == "MERGE"
