"""The history of a table against a small database that remembers each version; soft deletes; rules for columns."""

import random
from datetime import datetime, timedelta
from hashlib import sha256

import pytest
from deltalake import DeltaTable

import towpath
from lake_cases import Together
from lake_topic import TYPES, Topic, canal, row
from spark_rows import of_spark
from towpath.lakehouse import history as histories
from towpath.lakehouse.merging.by_spark import BySpark

EPOCH = datetime(2023, 11, 14, 22, 13, 20)
"""The time 1,700,000,000 in UTC, which is second 0 of `canal`."""

OWN = ("_towpath", "_op", "_event_time", "_missing_columns")

together = Together(keyless="append")


@pytest.fixture
def topic(spark, tmp_path):
    return Topic(spark, tmp_path)


class Database:
    """A table that executes a statement each second, writes canal's messages, and remembers its versions."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._rows = {}
        self.messages = []
        self.versions = []

    def execute(self):
        """One statement of a random kind."""
        kind = self._random.choices(["insert", "update", "move", "delete", "truncate"], [30, 30, 10, 15, 1])[0]
        keys = sorted(self._rows)
        if kind == "truncate":
            self._end(*keys)
            self._send("TRUNCATE", None, types=None)
        elif kind == "insert" or not keys:
            key = self._random.choice([key for key in range(60) if key not in self._rows])
            self._begin(key, self._name())
            self._send("INSERT", row(key, self._rows[key][0]))
        else:
            self._change(kind, self._random.choice(keys))

    def _change(self, kind, key):
        name, _ = self._rows[key]
        self._end(key)
        if kind == "delete":
            self._send("DELETE", row(key, name))
            return
        free = [key for key in range(60, 90) if key not in self._rows]
        new = self._random.choice(free) if kind == "move" else key
        self._begin(new, self._name())
        old = {"name": name} | ({"id": str(key)} if new != key else {})
        self._send("UPDATE", row(new, self._rows[new][0]), old=old)

    @property
    def _second(self):
        return len(self.messages)

    def _name(self):
        return f"name {self._random.randrange(1000)}"

    def _begin(self, key, name):
        self._rows[key] = (name, self._second)

    def _end(self, *keys):
        for key in keys:
            name, since = self._rows.pop(key)
            self.versions.append((key, name, since, self._second))

    def _send(self, kind, cells, types=TYPES, **more):
        self.messages.append(canal(self._second, kind, "people", cells, types, second=self._second, **more))

    def all_versions(self):
        """Of rows that are gone, and those that are there."""
        return sorted(
            [*self.versions, *((key, name, since, None) for key, (name, since) in self._rows.items())], key=str
        )


def seconds(value):
    return None if value is None else round((value - EPOCH) / timedelta(seconds=1))


@together.having(history=["shop.people"])
def test_versions_are_those_of_the_database(topic):
    database = Database(seed=17)
    for _ in range(300):
        database.execute()
    parts = [database.messages[:120], database.messages[120:]]
    yield from parts
    history = topic.load("shop/people__history")
    count = history.count()
    found = of_spark(towpath.spark.versions(history, ["id"]).collect())
    spans = [(one["id"], one["name"], seconds(one["valid_from"]), seconds(one["valid_to"])) for one in found]
    assert sorted(spans, key=str) == database.all_versions()
    # A replay adds nothing, and the target has the current versions.
    yield database.messages
    assert len(topic.read("shop/people__history")) == count
    current = {key: name for key, name, _, until in database.all_versions() if until is None}
    assert topic.names("people") == current


@pytest.mark.soak
def test_a_history_has_what_was_put_aside_partial_rows_and_its_own_names(topic, spark):
    types = {"id": "int", "_op": "int", "b": "int"}
    whole = {"id": "1", "_op": "1", "b": "2"}
    topic.replicate(
        canal(0, "INSERT", "a", {"id": "1", "b": "2"}, {"id": "int", "b": "int"}),
        canal(1, "INSERT", "keyless", {"a": "1"}, {"a": "int"}, pkNames=None),
        history=["shop.a", "shop.keyless"],
    )
    topic.replicate(
        canal(2, "UPDATE", "a", whole, types, old={"_op": None}, second=2),
        canal(3, "UPDATE", "a", {"id": "1", "_op": "5"}, types, old={"_op": "1"}, second=3),
        canal(4, "INSERT", "other", row(1, "x")),
        history=["shop.a", "shop.keyless"],
    )
    history = topic.load("shop/a__history")
    found = of_spark(towpath.spark.versions(history, ["id"], valid_from="_op_since").collect())
    assert [(one["_op"], one["b"]) for one in found] == [(None, 2), (1, 2), (5, 2)]
    assert [one["_missing_columns"] for one in of_spark(history.orderBy("_towpath.offset").collect())] == [
        None,
        None,
        ["b"],
    ]
    with pytest.raises(ValueError, match="already has a column b"):
        towpath.spark.versions(history, ["id"], valid_to="b")
    with pytest.raises(ValueError, match="expected a table that replicate"):
        towpath.spark.versions(topic.load("shop/a"), ["id"])
    for _ in range(2):
        towpath.spark.reprocess(
            spark,
            quarantine=str(topic.lake / "dead_quarantine"),
            keys={"shop.keyless": ["a"]},
            history=["shop.keyless"],
        )
    assert len(topic.read("shop/keyless__history")) == 1
    assert not (topic.lake / "shop" / "other__history").exists()


@together.having(history=["shop.a", "shop.log"])
def test_a_history_follows_what_emptied_its_table_only(topic):
    def statement(at, kind, table, sql):
        return canal(at, kind, table, None, None, sql=sql, second=at)

    yield [
        canal(0, "INSERT", "a", {"id": "1", "x": "5"}, {"id": "int", "x": "int"}),
        statement(1, "ALTER", "a", "ALTER TABLE a RENAME COLUMN x TO y, ADD COLUMN z int DEFAULT 7"),
        statement(2, "ERASE", "a", "DROP TABLE a"),
        statement(3, "CREATE", "a", "CREATE TABLE a (id int PRIMARY KEY, y int, z int)"),
        canal(4, "INSERT", "a", {"id": "1", "y": "6", "z": "8"}, {"id": "int", "y": "int", "z": "int"}, second=4),
        canal(5, "INSERT", "log", {"x": "5"}, {"x": "int"}, pkNames=None),
        statement(6, "ERASE", "log", "DROP TABLE log"),
        statement(7, "CREATE", "log", "CREATE TABLE log (x int)"),
        canal(8, "INSERT", "log", {"x": "5"}, {"x": "int"}, pkNames=None, second=8),
    ]
    found = of_spark(towpath.spark.versions(topic.load("shop/a__history"), ["id"]).collect())
    assert [
        (one["x"], one["y"], one["z"], seconds(one["valid_from"]), seconds(one["valid_to"]))
        for one in sorted(found, key=lambda one: one["valid_from"])
    ] == [(5, None, None, 0, 2), (None, 6, 8, 4, None)]
    # The target of a table without a key is a history itself.
    log = of_spark(topic.load("shop/log").orderBy("_towpath.offset").collect())
    assert [(one["_op"], one["x"]) for one in log] == [("insert", 5), ("truncate", None), ("insert", 5)]


def test_deleted_rows_stay_with_the_time_of_their_deletion(topic):
    def rows(table):
        return {one["id"]: (one["name"], seconds(one["gone_at"])) for one in topic.rows(table)}

    def send(*messages):
        topic.replicate(*messages, soft_deletes="gone_at")

    tables = ["people", "cut", "dropped"]
    first = [canal(4 * at + key, "INSERT", table, row(key, "x")) for at, table in enumerate(tables) for key in range(4)]
    deletes = [
        canal(20, "DELETE", "people", row(0, "x"), second=4),
        canal(21, "DELETE", "people", row(1, "x"), second=5),
        canal(22, "INSERT", "people", row(1, "again"), second=6),
        canal(23, "DELETE", "people", row(9, "never seen"), second=7),
        canal(24, "UPDATE", "people", row(5, "x"), old={"id": "3"}, second=8),
        canal(25, "DELETE", "cut", row(0, "x"), second=9),
    ]
    send(*first)
    send(*deletes)
    assert rows("people") == {0: ("x", 4), 1: ("again", None), 2: ("x", None), 3: ("x", 8), 5: ("x", None)}
    send(
        *(first + deletes),  # again
        # A row that is back has no time; an update without all columns inherits nothing from a deleted row.
        canal(30, "INSERT", "people", row(0, "back"), second=10),
        canal(31, "UPDATE", "people", {"id": "3"}, old={"name": "x"}, second=11),
        canal(32, "TRUNCATE", "cut", None, None, second=12),
        canal(33, "TRUNCATE", "cut", None, None, second=13),
        canal(34, "INSERT", "cut", row(2, "new"), second=14),
        canal(35, "ERASE", "dropped", None, None, sql="DROP TABLE dropped", second=15),
        canal(36, "CREATE", "dropped", None, None, sql="CREATE TABLE dropped (id int PRIMARY KEY)", second=16),
        canal(37, "INSERT", "taken", {"id": "1", "Gone_At": "5"}, {"id": "int", "Gone_At": "int"}),
    )
    assert rows("people") == {0: ("back", None), 1: ("again", None), 2: ("x", None), 3: ("x", 8), 5: ("x", None)}
    assert len(topic.read("dead")) == 1
    assert rows("cut") == {0: ("x", 9), 1: ("x", 12), 2: ("new", None), 3: ("x", 12)}
    assert rows("dropped") == dict.fromkeys(range(4), ("x", 15))
    assert "soft_deletes: the table already has a column gone_at" in topic.states()["taken"]["reason"]


def test_tasks_merge_a_table_with_a_history(topic, monkeypatch):
    """The driver ends between both, and then one history cannot be appended to: each change is a row once."""
    sent = [canal(at, "INSERT", "ab"[at % 2], row(at, "x"), second=at) for at in range(4)]
    append_few = histories._append_few

    def ends(*_):
        raise KeyboardInterrupt

    def fails(changes, target, *arguments):
        if target.endswith("/b__history"):
            raise ValueError("no space is left")
        return append_few(changes, target, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(BySpark, "append_to_histories", ends)
        with pytest.raises(KeyboardInterrupt):
            topic.replicate(*sent, history=True)
    assert [topic.names(name) for name in "ab"] == [{0: "x", 2: "x"}, {1: "x", 3: "x"}]
    with monkeypatch.context() as patched:
        patched.setattr(histories, "_append_few", fails)
        topic.replicate(*sent, history=True)
    assert topic.state_of() == {"a": "ok", "b": "quarantined"}
    assert topic.states()["b"]["reason"] == "no space is left"
    topic.reprocess(history=True)
    topic.replicate(*sent, history=True)
    assert topic.state_of() == {"a": "ok", "b": "ok"}
    for at, name in enumerate("ab"):
        found = sorted((one["id"], one["_op"]) for one in topic.read(f"shop/{name}__history"))
        assert found == [(at, "insert"), (at + 2, "insert")]
        made = (
            DeltaTable(topic.name(f"shop/{name}__history")).history() + DeltaTable(topic.name(f"shop/{name}")).history()
        )
        assert all("delta-rs" in one.get("clientVersion", "") for one in made)


RULES = {
    "shop.a": {"exclude": ["PIN"], "mask": {"mail": "sha2(value, 256)"}},
    "shop.b": {"include": ["id", "mail"], "mask": {"mail": "length(value)"}},
    "shop.keyed": {"mask": {"id": "0"}},
}


@together.having(columns=RULES, history=["shop.a"])
def test_columns_are_left_out_and_masked(topic):
    types = {"id": "int", "name": "varchar(20)", "mail": "varchar(20)", "pin": "int"}
    cells = {"id": "1", "name": "n", "mail": "x@y", "pin": "7"}
    masked = sha256(b"x@y").hexdigest()
    yield [canal(at, "INSERT", table, cells, types) for at, table in enumerate(["a", "b", "keyed", "c"])]
    yield [
        canal(4, "ALTER", "a", None, None, sql="ALTER TABLE a ADD COLUMN z int DEFAULT 1", second=4),
        canal(5, "ALTER", "b", None, None, sql="ALTER TABLE b ADD COLUMN z int DEFAULT 1", second=5),
        canal(6, "ALTER", "b", None, None, sql="ALTER TABLE b MODIFY COLUMN mail varchar(99)", second=6),
        canal(7, "UPDATE", "b", {"id": "1", "mail": "longer"}, types, old={"mail": "x@y"}, second=7),
        canal(8, "ALTER", "c", None, None, sql="ALTER TABLE c RENAME COLUMN pin TO pin2", second=8),
        canal(9, "ALTER", "a", None, None, sql="ALTER TABLE a RENAME COLUMN pin TO pin2", second=9),
        canal(10, "ALTER", "a", None, None, sql="ALTER TABLE a RENAME COLUMN z TO PIN", second=10),
    ]
    assert topic.rows("a") == [{"id": 1, "name": "n", "mail": masked, "z": 1}]
    [kept] = of_spark(topic.load("shop/a__history").drop(*OWN).collect())
    assert kept == {"id": 1, "name": "n", "mail": masked}
    assert topic.rows("b") == [{"id": 1, "mail": 6}]
    assert topic.rows("c") == [{"id": 1, "name": "n", "mail": "x@y", "pin2": 7}]
    assert "the primary key column id cannot be excluded or masked" in topic.states()["keyed"]["reason"]
    assert (topic.states()["a"]["state"], topic.states()["b"]["state"]) == ("stale", "ok")
    assert topic.states()["a"]["reason"] == "the column z was renamed to PIN, which has another rule in columns"


@together.having(history=["shop.a"])
def test_a_truncate_before_the_first_row_is_in_the_history(topic):
    yield [canal(0, "TRUNCATE", "a", sql="TRUNCATE TABLE a", second=20)]
    yield [canal(1, "INSERT", "a", row(2, "new"), second=30)]
    yield [canal(0, "INSERT", "a", row(1, "old"), second=10, partition=1)]
    assert topic.names("a") == {2: "new"}
    found = of_spark(towpath.spark.versions(topic.load("shop/a__history"), ["id"]).collect())
    assert {one["id"] for one in found if one["valid_to"] is None} == {2}


def ints(*names):
    return dict.fromkeys(names, "int")


def cells(**values):
    return {name: str(value) for name, value in values.items()}


@together.having(
    columns={"shop.people": {"exclude": ["pin"], "mask": {"tax": "string(value + 1)"}}},
    history=["shop.a", "shop.b", "shop.gone", "shop.people"],
)
def test_a_history_has_rows_that_are_older_than_statements_as_their_messages_have_them(topic):
    def changes(table):
        rows = of_spark(topic.load(f"shop/{table}__history").filter("_op = 'insert'").drop(*OWN).collect())
        return sorted(
            ({name: value for name, value in one.items() if value is not None} for one in rows),
            key=lambda one: one["id"],
        )

    yield [
        canal(0, "ALTER", "a", sql="ALTER TABLE a RENAME COLUMN x TO y, ADD COLUMN z int DEFAULT 7", second=10),
        canal(1, "ALTER", "a", sql="ALTER TABLE a DROP COLUMN w", second=11),
        canal(2, "ALTER", "a", sql="ALTER TABLE a ADD COLUMN w int DEFAULT 1", second=12),
        canal(3, "INSERT", "a", cells(id=1, y=1, z=1, w=1), ints("id", "y", "z", "w"), second=13),
        canal(4, "RENAME", "b", sql="RENAME TABLE b TO c", second=14),
        canal(5, "TRUNCATE", "gone", sql="TRUNCATE TABLE gone", second=15),
        canal(6, "ALTER", "people", sql="ALTER TABLE people RENAME COLUMN pin TO p, RENAME COLUMN tax TO t", second=16),
        canal(7, "INSERT", "people", cells(id=1, p=5, t=5), ints("id", "p", "t"), second=17),
    ]
    yield [
        canal(0, "INSERT", "a", cells(id=2, x=2, w=9), ints("id", "x", "w"), second=5, partition=1),
        canal(1, "INSERT", "b", cells(id=2, v=2), ints("id", "v"), second=5, partition=1),
        canal(2, "INSERT", "gone", cells(id=2, v=2), ints("id", "v"), second=5, partition=1),
        canal(3, "INSERT", "people", cells(id=2, pin=7, tax=7), ints("id", "pin", "tax"), second=5, partition=1),
    ]
    assert changes("a") == [{"id": 1, "y": 1, "z": 1, "w": 1}, {"id": 2, "x": 2, "w": 9}]
    assert topic.rows("a") == [{"id": 1, "y": 1, "z": 1, "w": 1}, {"id": 2, "y": 2, "z": 7, "w": 1}]
    assert changes("b") == topic.rows("c") == [{"id": 2, "v": 2}]
    assert changes("gone") == [{"id": 2, "v": 2}]
    assert topic.rows("gone") == []
    assert changes("people") == [{"id": 1, "t": "6"}, {"id": 2, "tax": "8"}]
    assert topic.rows("people") == [{"id": 1, "t": "6"}, {"id": 2, "t": "8"}]
