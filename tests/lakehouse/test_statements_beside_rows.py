"""Statements and rows of different partitions: a target equals its table, or is said to be stale."""

import random
from itertools import permutations

import pytest

from lake_topic import Topic, canal, row
from statements_source import Source, micro_batches
from towpath.spark.lakehouse.ordered_statements import Place, Statement, in_order


def replicated(topic, source, rng, batches):
    """The tables that are wrong, and those that are not ok by their status, after the messages in random batches."""
    for batch in micro_batches(source.messages, rng, batches):
        if batch:
            topic.replicate(*batch)
    states = topic.states()
    # Rows of before a column was renamed are put aside.
    said = {name for name, status in states.items() if status["state"] != "ok"}
    wrong = {}
    for name, rows in source.tables.items():
        wanted = [rows[key] for key in sorted(rows)]
        columns = list(wanted[0]) if wanted else []
        found = [{column: one[column] for column in columns} for one in topic.rows(name)] if name in states else []
        if found != wanted and name not in said:
            wrong[name] = (wanted, found)
    return wrong, said


def random_source(seed, tables, steps):
    rng = random.Random(seed)
    source = Source(rng, has_batches=seed % 2 == 0)
    for _ in range(steps):
        source.step(f"t{rng.randrange(tables)}")
    return source, rng


@pytest.mark.parametrize("seed", [2, 3])
def test_random_statements_and_rows(spark, tmp_path, seed):
    source, rng = random_source(seed, tables=3, steps=36)
    wrong, said = replicated(Topic(spark, tmp_path), source, rng, batches=2)
    assert wrong == {}
    assert len(said) < 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 40))
def test_many_random_statements_and_rows(spark, tmp_path, seed):
    source, rng = random_source(seed, tables=8, steps=160)
    wrong, _ = replicated(Topic(spark, tmp_path), source, rng, batches=4)
    assert wrong == {}


@pytest.mark.soak
@pytest.mark.parametrize("seed", [2, 3, 24, 27])
def test_random_statements_and_rows_on_iceberg(spark, tmp_path, seed):
    source, rng = random_source(seed, tables=4, steps=80)
    wrong, _ = replicated(Topic(spark, tmp_path, "ice"), source, rng, batches=3)
    assert wrong == {}


def test_a_dropped_database_and_a_table_that_is_renamed_away(spark, tmp_path):
    topic = Topic(spark, tmp_path)

    def statement(at, table, sql, second, **more):
        return canal(at, "QUERY", table, sql=sql, second=second, **more)

    topic.replicate(*(canal(at, "INSERT", name, row(at, "old")) for at, name in enumerate(["a", "b", "c"])))
    topic.replicate(
        statement(3, "", "DROP DATABASE `shop`", 10),
        statement(4, "", "CREATE DATABASE `shop`", 10),
        statement(5, "a", "CREATE TABLE IF NOT EXISTS a (id int PRIMARY KEY, name varchar(20))", 11),
        canal(6, "INSERT", "a", row(7, "new"), second=12),
        statement(7, "b", "CREATE TABLE b (id int PRIMARY KEY, name varchar(20))", 12),
        # Its table is created with the same name, and its rows are in another partition, in a later batch.
        statement(8, "c", "CREATE TABLE c (id int PRIMARY KEY, name varchar(20))", 12),
    )
    topic.replicate(canal(0, "INSERT", "c", row(9, "new"), second=12, partition=1))
    assert {name: topic.names(name) for name in "abc"} == {"a": {7: "new"}, "b": {}, "c": {9: "new"}}
    assert {status["state"] for status in topic.states().values()} == {"ok"}
    topic.replicate(
        statement(9, "a", "RENAME TABLE a TO b2", 20),
        statement(10, "a", "CREATE TABLE a (id int PRIMARY KEY, name varchar(20))", 21),
        canal(11, "INSERT", "a", row(8, "newer"), second=22),
    )
    assert (topic.names("a"), topic.names("b2")) == ({8: "newer"}, {7: "new"})


def test_late_rows_get_the_value_of_an_added_column(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    topic.replicate(canal(0, "INSERT", "a", row(1, "x")))
    topic.replicate(canal(1, "ALTER", "a", sql="ALTER TABLE a ADD COLUMN n int DEFAULT 5", second=9))
    types = {"id": "int", "name": "varchar(20)", "n": "int"}
    topic.replicate(
        canal(0, "INSERT", "a", row(2, "late"), second=8, partition=1),
        # An online ALTER has the time of its start, so a row before its end seems to be newer.
        canal(1, "INSERT", "a", row(3, "during"), second=10, partition=1),
        canal(2, "INSERT", "a", row(4, "after") | {"n": None}, types, second=11, partition=1),
    )
    assert {one["id"]: one["n"] for one in topic.rows("a")} == {1: 5, 2: 5, 3: 5, 4: None}
    # The statement is sent again: values that were null since then stay null.
    topic.replicate(canal(2, "ALTER", "a", sql="ALTER TABLE a ADD COLUMN n int DEFAULT 5", second=9))
    assert {one["id"]: one["n"] for one in topic.rows("a")} == {1: 5, 2: 5, 3: 5, 4: None}


BEFORE_ITS_TARGET = {
    "TRUNCATE TABLE a": {2: {"id": 2, "name": "new"}},
    "DROP TABLE a; CREATE TABLE a (id int PRIMARY KEY, name varchar(20))": {2: {"id": 2, "name": "new"}},
    "ALTER TABLE a ADD COLUMN c int DEFAULT 5": {
        1: {"id": 1, "name": "old", "c": 5},
        2: {"id": 2, "name": "new", "c": 7},
    },
    "ALTER TABLE a RENAME COLUMN name TO title": {2: {"id": 2, "title": "new"}},
}


@pytest.mark.parametrize("sql", BEFORE_ITS_TARGET)
@pytest.mark.parametrize("together", [False, True], ids=["later", "in a batch"])
def test_a_statement_before_the_target_of_its_table(spark, tmp_path, sql, together):
    """The statement is read first, then a newer row, and then one of another partition that is older than it."""
    wanted = BEFORE_ITS_TARGET[sql]
    types = {name: "int" if name in ("id", "c") else "varchar(20)" for name in wanted[2]}
    new = {name: str(value) for name, value in wanted[2].items()}
    topic = Topic(spark, tmp_path)
    first = [canal(0, "QUERY", "a", sql=sql, second=20)]
    second = [canal(1, "INSERT", "a", new, types, second=30)]
    late = [canal(0, "INSERT", "a", row(1, "old"), second=10, partition=1)]
    for batch in [first + second, late] if together else [first, second, late]:
        topic.replicate(*batch)
    assert {one["id"]: one for one in topic.rows("a")} == wanted
    state = topic.states()["a"]
    assert state["state"] == ("quarantined" if "RENAME" in sql else "ok"), state["reason"]


def test_names_that_are_exchanged_or_come_late_are_said(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    named = {"id": "int", "title": "varchar(20)"}
    topic.replicate(*(canal(at, "INSERT", name, row(at, name)) for at, name in enumerate("abcd")))
    topic.replicate(
        canal(4, "RENAME", "a", sql="RENAME TABLE a TO swap, b TO a, swap TO b", second=9),
        canal(5, "ALTER", "c", sql="ALTER TABLE c RENAME COLUMN name TO title", second=9),
        canal(6, "INSERT", "c", {"id": "8", "title": "new"}, named, second=10),
        canal(0, "INSERT", "d", {"id": "8", "title": "new"}, named, second=10, partition=1),
    )
    topic.replicate(
        canal(1, "INSERT", "c", row(9, "late"), second=8, partition=1),
        canal(7, "ALTER", "d", sql="ALTER TABLE d RENAME COLUMN name TO title", second=9),
    )
    states = {name: status["state"] for name, status in topic.states().items()}
    assert states == {"a": "stale", "b": "stale", "c": "quarantined", "d": "stale"}
    assert topic.rows("c") == [{"id": 2, "title": "c"}, {"id": 8, "title": "new"}]


def some_statement(rng, offset):
    fields = {
        "event_time": rng.choice([None, 1, 2]),
        "produced_time": rng.choice([None, 1, 2]),
        "batch": rng.choice([None, 1, 2]),
        "timestamp": rng.choice([None, 1, 2]),
        "offset": offset,
        "step": 0,
        "commit_ts": None,
        "is_row": True,
        "log": rng.choice([None, "1/bin", "2/bin"]),
        "file": 1,
        "at": rng.randrange(3),
        "topic": "t",
        "partition": rng.randrange(3),
    }
    return Statement(Place(fields), "", "d", "t", ())


def test_the_order_of_statements_does_not_depend_on_their_arrival():
    rng = random.Random(5)
    for _ in range(300):
        statements = [some_statement(rng, offset) for offset in rng.sample(range(9), 4)]
        found = [[statement.place.fields for statement in in_order(arrived)] for arrived in permutations(statements)]
        assert all(one == found[0] for one in found)
        for partition in range(3):
            offsets = [one["offset"] for one in found[0] if one["partition"] == partition]
            assert offsets == sorted(offsets)
