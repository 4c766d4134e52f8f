"""Targets that are overwritten as most of their rows change: other writers, and tables whose readers would see it."""

import pyarrow.parquet as pq
import pytest

from lake_topic import TYPES, Topic, canal, row
from towpath.lakehouse.merging import by_spark, overwrite
from towpath.lakehouse.merging.jobs import REWRITING

ALL_NEW = {0: "new", 1: "new", 2: "new", 3: "old"}
TABLES = ["whole", "updated", "inserted", "changed", "emptied", "extended", "widened"]


def first(table):
    return [canal(at, "INSERT", table, row(at, "old")) for at in range(4)]


def updates(table):
    return [canal(10 + at, "UPDATE", table, row(at, "new"), old={"name": "old"}) for at in range(3)]


@pytest.fixture(autouse=True)
def rewriting(monkeypatch):
    monkeypatch.setattr(by_spark.BySpark, "_kind", lambda *_: REWRITING)


ICEBERG = pytest.param("ice", marks=pytest.mark.soak)


@pytest.fixture(scope="module", params=[None, ICEBERG], ids=["delta", "ice"])
def topic(request, spark, tmp_path_factory):
    found = Topic(spark, tmp_path_factory.mktemp("overwritten"), request.param)
    found.replicate(*(message for table in TABLES for message in first(table)), merge="spark")
    return found


def last_operation(topic, table):
    name = topic.sql_name(f"shop/{table}")
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
    """Columns come with the changes, and those that the user has added stay."""
    types, before, extended = {**TYPES, "note": "varchar(9)"}, topic.version("whole"), topic.sql_name("shop/extended")

    def noted(at, kind, key, name, note):
        return canal(at, kind, "widened", {**row(key, name), "note": note}, types, old={"name": "old"})

    topic.spark.sql(f"ALTER TABLE {extended} ADD COLUMNS (note string)")
    topic.spark.sql(f"UPDATE {extended} SET note = 'mine'")
    of_widened = [noted(10 + key, "UPDATE", key, "new", "n") for key in range(3)]
    of_whole = [*updates("whole"), canal(20, "DELETE", "whole", row(3, "old"))]
    topic.replicate(*of_whole, *updates("extended"), *of_widened, merge="spark")
    topic.replicate(noted(20, "INSERT", 9, "x", None), merge="spark")
    assert topic.names("whole") == {0: "new", 1: "new", 2: "new"}
    assert (last_operation(topic, "whole"), topic.version("whole")) == ("WRITE", before + 1)
    expected = {key: (name, "mine") for key, name in ALL_NEW.items()}
    assert {one["id"]: (one["name"], one["note"]) for one in topic.rows("extended")} == expected
    expected = {key: (name, "n" if name == "new" else None) for key, name in ALL_NEW.items()} | {9: ("x", None)}
    assert {one["id"]: (one["name"], one["note"]) for one in topic.rows("widened")} == expected
    assert topic.states()["widened"]["state"] == "ok"


def test_times_are_integers_in_files(topic):
    """INT96, Spark's default, takes eight times as long to read, and has no statistics."""
    rows = topic.spark.read.table(topic.sql_name("shop/whole"))
    files = {path.removeprefix("file:") for (path,) in rows.selectExpr("input_file_name()").collect()}
    footers = [pq.read_metadata(name) for name in files]
    types = {footer.schema.column(at).physical_type for footer in footers for at in range(footer.num_columns)}
    assert "INT64" in types
    assert "INT96" not in types


@pytest.mark.parametrize(
    ("kind", "table"), [("UPDATE", "updated"), pytest.param("INSERT", "inserted", marks=pytest.mark.soak)]
)
def test_a_newer_change_of_another_query_stays(topic, monkeypatch, kind, table):
    other = canal(30, kind, table, row({"UPDATE": 1, "INSERT": 7}[kind], "newest"), old={"name": "old"}, second=1)
    topic_of_other = Topic(topic.spark, topic.lake.parent)
    topic_of_other.target, topic_of_other.options = topic.target, {}
    meanwhile(monkeypatch, lambda: topic_of_other.replicate(other, merge="spark"))
    topic.replicate(*updates(table), canal(20, "INSERT", table, row(7, "new")), merge="spark")
    expected = {**ALL_NEW, 7: "new"} | ({1: "newest"} if kind == "UPDATE" else {7: "newest"})
    assert topic.names(table) == expected


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        pytest.param("UPDATE {} SET name = 'own' WHERE id = 3", "changed", marks=pytest.mark.soak),
        ("DELETE FROM {} WHERE id = 3", "emptied"),
    ],
)
def test_a_statement_of_somebody_else_is_not_undone(topic, monkeypatch, statement, table):
    meanwhile(monkeypatch, lambda: topic.spark.sql(statement.format(topic.sql_name(f"shop/{table}"))))
    topic.replicate(*updates(table), merge="spark")
    expected = {**ALL_NEW, 3: "own"} if "UPDATE" in statement else dict.fromkeys(range(3), "new")
    assert topic.names(table) == expected


@pytest.mark.soak
def test_tables_whose_readers_would_see_it_are_merged(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    tables = {
        "fed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "tracked": "TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "parted": "PARTITIONED BY (id)",
    }
    for table, clause in tables.items():
        spark.sql(f"CREATE TABLE {topic.sql_name(f'shop/{table}')} (id int, name string) USING delta {clause}")
    for messages in (first, updates):
        topic.replicate(*(message for table in tables for message in messages(table)), merge="spark")
    assert {table: topic.names(table) for table in tables} == dict.fromkeys(tables, ALL_NEW)
    assert {table: last_operation(topic, table) for table in tables} == dict.fromkeys(tables, "MERGE")
