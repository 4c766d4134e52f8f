"""RENAME TABLE: what a target remembered of its former rows is not true of those that it gets."""

from datetime import datetime, timezone

import pytest

import towpath
from lake_topic import Topic, canal, row


@pytest.fixture
def topic(spark, tmp_path):
    return Topic(spark, tmp_path)


def ddl(at, text, second, partition=0, table="t", kind="RENAME", **more):
    return canal(at, kind, table, sql=text, second=second, partition=partition, **more)


def insert(at, table, key, second, partition=0, kind="INSERT"):
    return canal(at, kind, table, row(key, f"{table}{key}"), second=second, partition=partition)


def arrived(message, second):
    """A message with the time of its arrival in Kafka. Without it, a lower event time means a new topic."""
    return message | {"timestamp": datetime.fromtimestamp(1_700_000_000 + second, timezone.utc)}


SWAP = "RENAME TABLE t TO t_old, t_new TO t"


def states(topic):
    return {name: status["state"] for name, status in topic.states().items()}


def test_reprocess_deletes_no_row_by_a_tombstone_of_the_former_table(topic, spark):
    bad = canal(4, "INSERT", "t", {"id": "7", "day": "0000-00-00"}, {"id": "int", "day": "date"}, second=6)
    topic.replicate(
        insert(0, "t_new", 1, 3),
        insert(1, "t_new", 2, 3),
        insert(2, "t", 1, 4),
        insert(3, "t", 1, 5, kind="DELETE"),
        bad,
        ddl(5, SWAP, 10),
        zero_date="error",
    )
    towpath.spark.reprocess(spark, dead_letters=topic.options["dead_letters"], status=topic.options["status"])
    assert topic.names("t") == {1: "t_new1", 2: "t_new2"}


@pytest.mark.soak
def test_a_key_of_another_type(topic):
    types = {"id": "varchar(9)", "name": "varchar(20)"}
    topic.replicate(
        insert(0, "t", 1, 1),
        insert(1, "t", 1, 2, kind="DELETE"),
        canal(2, "INSERT", "_t_gho", row("k1", "x"), types, second=3),
        canal(3, "INSERT", "_t_gho", row("k2", "x"), types, second=3),
        ddl(4, "RENAME TABLE t TO _t_del, _t_gho TO t", 4),
    )
    topic.replicate(canal(5, "DELETE", "t", row("k1", "x"), types, second=5))
    assert topic.names("t") == {"k2": "x"}
    assert states(topic)["t"] == "ok"


@pytest.mark.parametrize(
    "created",
    ["CREATE TABLE IF NOT EXISTS t (id int)", pytest.param("CREATE TABLE t (id int)", marks=pytest.mark.soak)],
)
def test_a_new_name_that_is_not_replicated(topic, created):
    target = {"shop.t": topic.name("shop/t")}
    messages = [insert(0, "t", 1, 1), ddl(1, "RENAME TABLE t TO t_2024", 10)]
    towpath.spark.replicate(topic.frame(*messages), target, "canal-json", **topic.options)
    assert states(topic)["t"] == "renamed"
    more = [ddl(2, created, 11, kind="CREATE"), insert(3, "t", 3, 12)]
    for _ in range(2):  # a batch that is read again changes nothing
        towpath.spark.replicate(topic.frame(messages[1], *more), target, "canal-json", **topic.options)
        assert topic.names("t") == {3: "t3"}
        assert states(topic)["t"] == "ok"


def test_statements_that_are_ignored_make_both_names_stale(topic):
    topic.replicate(insert(0, "t", 1, 1), ddl(1, "RENAME TABLE t TO u", 10), ddl_policy="ignore")
    assert states(topic) == {"t": "stale", "u": "stale"}


def test_a_table_leaves_a_target_that_it_shares_and_another_one_gets_a_new_name_there(topic):
    shared = {f"shop.{name}": topic.name("all") for name in "abe"} | {"shop.c": topic.name("shop/c")}
    messages = [insert(0, "a", 1, 1), insert(1, "b", 2, 1)]
    renamed = [ddl(2, "RENAME TABLE a TO c", 10, table="a"), ddl(3, "RENAME TABLE b TO e", 11, table="b")]
    created = ddl(4, "CREATE TABLE a (id int PRIMARY KEY, name varchar(20))", 12, table="a", kind="CREATE")
    emptied = [created, ddl(5, "TRUNCATE TABLE e", 12, table="e"), insert(6, "a", 3, 13)]
    for batch in (messages, renamed, emptied):
        towpath.spark.replicate(topic.frame(*batch), shared, "canal-json", **topic.options)
    assert topic.names("c") == {1: "a1"}
    assert {one["id"] for one in topic.load("all").collect()} == {3}
    assert states(topic) == {"a": "ok", "b": "renamed", "c": "ok", "e": "ok"}


def test_two_tables_join_a_target_in_one_statement(topic):
    targets = {f"shop.{name}": topic.name(f"shop/{name}") for name in "ab"} | {
        f"shop.{name}": topic.name("all") for name in "efg"
    }
    messages = [insert(at, name, at, 1) for at, name in enumerate("abg")]
    renamed = ddl(3, "RENAME TABLE a TO e, b TO f", 10)
    for batch in (messages, [renamed], [ddl(4, "TRUNCATE TABLE e", 11, table="e")]):
        towpath.spark.replicate(topic.frame(*batch), targets, "canal-json", **topic.options)
    assert {one["id"]: one["_towpath"]["table"] for one in topic.load("all").collect()} == {1: "shop.f", 2: "shop.g"}
    assert states(topic) == {"a": "renamed", "b": "renamed", "e": "ok", "f": "ok", "g": "ok"}


def test_a_name_that_was_dropped_before_is_no_new_table(topic):
    topic.replicate(insert(0, "t_old", 9, 1), insert(1, "t", 1, 1), insert(2, "t_new", 2, 1))
    drop = ddl(3, "DROP TABLE t_old", 5, kind="ERASE", table="t_old")
    create = ddl(5, "CREATE TABLE IF NOT EXISTS t_old (id int)", 11, kind="CREATE", table="t_old")
    topic.replicate(drop, ddl(4, SWAP, 10), create)
    assert topic.names("t") == {2: "t_new2"}
    assert states(topic)["t_old"] == "stale"


@pytest.mark.parametrize(
    ("emptied", "renamed"),
    [
        ([], SWAP),
        pytest.param(["TRUNCATE TABLE t"], SWAP, marks=pytest.mark.soak),
        pytest.param(["DROP TABLE t"], "RENAME TABLE t_new TO t", marks=pytest.mark.soak),
    ],
)
def test_a_batch_with_the_former_table_is_read_again(topic, emptied, renamed):
    """Neither its rows nor its statements are of the table that has the name now."""
    messages = [
        insert(0, "t", 1, 1),
        insert(1, "t_new", 10, 2),
        *(ddl(0, text, 5, partition=1, kind="QUERY") for text in emptied),
        arrived(ddl(2, renamed, 10), 10),
    ]
    for _ in range(2):
        topic.replicate(*messages)
        assert topic.names("t") == {10: "t_new10"}
        assert states(topic)["t"] == "ok"
    # A change that waited for the lock of the statement has an earlier time, which decides only between partitions.
    topic.replicate(arrived(insert(3, "t", 11, 9), 11), insert(1, "t", 12, 9, partition=1))
    assert topic.names("t") == {10: "t_new10", 11: "t11"}


def test_a_database_in_another_case_may_be_dropped(topic):
    create = ddl(2, "CREATE TABLE IF NOT EXISTS t (id int)", 6, kind="CREATE")
    topic.replicate(
        insert(0, "t", 1, 1), ddl(1, "DROP DATABASE Shop", 5, kind="QUERY", database="Shop", table=""), create
    )
    assert states(topic)["t"] == "stale"


@pytest.mark.soak
def test_a_name_that_is_not_replicated_and_back(topic):
    target = {"shop.t": topic.name("shop/t")}
    messages = [
        insert(0, "t", 1, 1),
        ddl(1, "RENAME TABLE t TO t_2024", 5),
        ddl(2, "RENAME TABLE t_2024 TO t", 6),
        ddl(3, "CREATE TABLE IF NOT EXISTS t (id int)", 7, kind="CREATE"),
    ]
    for count in (2, 4):
        towpath.spark.replicate(topic.frame(*messages[:count]), target, "canal-json", **topic.options)
    assert topic.names("t") == {1: "t1"}
    assert states(topic)["t"] == "stale"
