"""What is particular to tables of an Iceberg catalog. The guarantees and rebuilding are tested for both formats."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from pyspark.sql.types import DoubleType, IntegerType

import towpath
from lake_topic import Topic, canal, of_delta, row
from spark_rows import of_spark
from towpath.lakehouse.tables.formats import DELTA, ICEBERG, format_of
from towpath.lakehouse.tables.sql import Sql, execute, sql
from towpath.lakehouse.tables.tables import optimize_in_turn


@pytest.fixture
def topic(spark, tmp_path):
    return Topic(spark, tmp_path, "ice")


def test_the_catalog_decides_the_format(spark):
    assert format_of(spark, "/lake/orders") is DELTA
    assert format_of(spark, "shop.orders") is DELTA
    assert format_of(spark, "ice.shop.orders") is format_of(spark, "`ice`.orders") is ICEBERG
    spark.sql("USE ice")
    try:
        assert format_of(spark, "orders") is format_of(spark, "shop.orders") is ICEBERG
        assert format_of(spark, "spark_catalog.shop.orders") is DELTA
    finally:
        spark.sql("USE spark_catalog")


def test_types_are_those_of_the_source_or_wider(topic):
    """Iceberg has no integers of one or two bytes, and cannot change as many types as Delta."""
    types = {"id": "tinyint", "small": "smallint", "price": "decimal(5,2)", "day": "date", "ratio": "float"}
    first = {"id": "1", "small": "2", "price": "1.25", "day": "2026-01-02", "ratio": "0.5"}
    topic.replicate(canal(0, "INSERT", "a", first, types))
    wider = types | {"id": "bigint", "price": "decimal(9,2)", "ratio": "double"}
    second = first | {"id": str(2**40), "price": "1234567.25", "ratio": "0.1"}
    topic.replicate(canal(1, "INSERT", "a", second, wider, second=1))
    found = {field.name: field.dataType.simpleString() for field in topic.load("shop/a").schema}
    assert found.pop("_towpath")
    assert found == {"id": "bigint", "small": "int", "price": "decimal(9,2)", "day": "date", "ratio": "double"}
    assert [(one["id"], str(one["price"]), one["ratio"]) for one in topic.rows("a")] == [
        (1, "1.25", 0.5),
        (2**40, "1234567.25", 0.1),
    ]
    third = first | {"id": "3", "price": "1.2345"}
    topic.replicate(canal(2, "INSERT", "a", third, wider | {"price": "decimal(9,4)"}, second=2))
    state = topic.states()["a"]
    assert (state["state"], "column price is " in state["reason"]) == ("quarantined", True)
    assert len(topic.rows("a")) == 2
    assert not ICEBERG.can_change(IntegerType(), DoubleType())


def test_history_and_soft_deletes(topic):
    messages = [
        canal(0, "INSERT", "a", row(1, "x")),
        canal(1, "INSERT", "a", row(2, "x"), second=1),
        canal(2, "UPDATE", "a", row(1, "y"), old={"name": "x"}, second=2),
        canal(3, "DELETE", "a", row(2, "x"), second=3),
    ]
    for sent in (messages[:2], messages):
        topic.replicate(*sent, history=True, soft_deletes="deleted_at")
    assert [(one["name"], one["deleted_at"]) for one in topic.rows("a")] == [
        ("y", None),
        ("x", datetime(2023, 11, 14, 22, 13, 23)),
    ]
    history = topic.load("shop/a__history")
    assert history.count() == 4
    versions = of_spark(towpath.spark.versions(history, ["id"]).collect())
    assert sorted((one["id"], one["name"], one["valid_to"] is None) for one in versions) == [
        (1, "x", False),
        (1, "y", True),
        (2, "x", False),
    ]
    # Later changes lack columns of the history: one that was dropped, and all for a truncate.
    topic.replicate(canal(4, "QUERY", "a", types=None, sql="ALTER TABLE a DROP COLUMN name", second=4), history=True)
    short = canal(5, "INSERT", "a", {"id": "3"}, {"id": "int"}, second=5)
    emptied = canal(6, "TRUNCATE", "a", types=None, sql="TRUNCATE TABLE a", second=6)
    topic.replicate(short, emptied, history=True)
    found = [
        (one["_op"], one["id"], one["name"]) for one in topic.read("shop/a__history") if one["_event_time"].second > 23
    ]
    assert sorted(found) == [("insert", 3, None), ("truncate", None, None)]
    assert topic.state_of() == {"a": "ok"}


def test_one_table_with_dead_letters_in_another_format(topic, tmp_path):
    messages = [
        canal(0, "INSERT", "a", row(1, "x")),
        canal(1, "DELETE", "a", row(1, "x"), second=1),
        canal(2, "INSERT", "a", row(2, "x"), second=2),
        canal(3, "INSERT", "a", row("none", "x"), second=3),
    ]
    changes = towpath.spark.decode(
        topic.frame(*messages),
        "canal-json",
        "id int, name string",
        layout="upsert",
        keep=["topic", "partition", "offset", "timestamp"],
    )
    towpath.spark.apply_changes(changes, topic.name("shop/a"), ["id"], dead_letters=str(tmp_path / "dead"))
    assert topic.names("a") == {2: "x"}
    assert [one["offset"] for one in of_delta(str(tmp_path / "dead"))] == [3]


def test_files_are_compacted_and_rows_stay(topic):
    name = topic.name("shop/a")
    topic.replicate(canal(0, "INSERT", "a", row(0, "x")), optimize_every=None)
    for at in range(1, 6):
        topic.spark.sql(f"INSERT INTO {name} SELECT {at}, name, _towpath FROM {name} WHERE id = 0")
    assert topic.spark.table(f"{name}.files").count() == 6
    optimize_in_turn(topic.spark, name, 1, 1)
    assert topic.spark.table(f"{name}.files").count() == 1
    assert [one["id"] for one in topic.rows("a")] == list(range(6))


@pytest.mark.parametrize("partitions", ["", "`na ``me`, id", "bucket(4, `na ``me`), years(at), id"])
def test_the_partitions_of_a_table_are_read(topic, partitions):
    name = topic.name("shop/a")
    clause = f"PARTITIONED BY ({partitions}) " if partitions else ""
    topic.spark.sql(f"CREATE TABLE {name} (id int, `na ``me` string, at timestamp) USING iceberg {clause}")
    assert ICEBERG.layout(topic.spark, name) == clause


def test_what_iceberg_has_not_is_refused():
    with pytest.raises(ValueError, match="cluster_by: Iceberg has no clustering"):
        ICEBERG.clustering(["id"])


def test_a_conflict_with_another_writer_is_repeated(topic, caplog):
    caplog.set_level("INFO", "towpath.spark")
    topic.replicate(canal(0, "INSERT", "a", {"id": "1", "n": "0"}, {"id": "int", "n": "int"}))
    statement = sql("UPDATE {table} SET n = n + 1", table=Sql(topic.name("shop/a")))
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(execute, topic.spark, statement) for _ in range(8)]:
            done.result()
    assert topic.rows("a") == [{"id": 1, "n": 8}]
    assert "attempt 2 starts" in caplog.text
