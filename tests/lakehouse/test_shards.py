"""Shards of a table in one target: random changes and statements, compared with tables in plain Python."""

import json
import random
import re
from itertools import pairwise

import pytest

import towpath
from lake_topic import Topic, canal

SHARDS = 3
CREATED = {"id": "int", "name": "varchar(20)"}


class Shard:
    """A table of the source."""

    def __init__(self, number, partition, of_statements=None):
        self.name, self.partition = f"t_{number}", partition
        self.of_statements = partition if of_statements is None else of_statements
        self.types, self.rows, self.next = dict(CREATED), {}, 100 * number
        self.exists = True

    def message(self, at, kind, cells, old=None):
        return canal(at, kind, self.name, cells, self.types, old=old, second=at, partition=self.partition)

    def statement(self, at, text, kind="ALTER"):
        text = text.format(table=self.name)
        return canal(at, kind, self.name, sql=text, second=at, partition=self.of_statements)

    def insert(self, at, rng):
        self.next += 1
        cells = {name: rng.choice(["1", "2"]) if kind.startswith("int") else "x" for name, kind in self.types.items()}
        # A column that was added may be null, unless it is `NOT NULL`.
        cells |= {name: None for name in cells if name.startswith("nullable") and rng.random() < 0.3}
        self.rows[self.next] = cells | {"id": str(self.next)}
        return self.message(at, "INSERT", self.rows[self.next])

    def change(self, at, rng):
        key = rng.choice(list(self.rows))
        if rng.random() < 0.3:
            return self.message(at, "DELETE", self.rows.pop(key))
        old, self.rows[key] = self.rows[key], {**self.rows[key], "name": f"v{at}"}
        return self.message(at, "UPDATE", self.rows[key], {"name": old["name"]})

    def add(self, at, name):
        self.types = {**self.types, name: "int"}
        self.rows = {key: {**cells, name: "7"} for key, cells in self.rows.items()}
        null = "" if name.startswith("nullable") else "NOT NULL "
        conditional = "IF NOT EXISTS " if at % 2 else ""
        return self.statement(at, f"ALTER TABLE {{table}} ADD COLUMN {conditional}{name} int {null}DEFAULT 7")

    def empty(self, at):
        self.rows = {}
        return self.statement(at, "TRUNCATE TABLE {table}", "QUERY" if at % 2 else "TRUNCATE")

    def drop(self, at):
        self.exists = False
        return self.statement(at, "DROP TABLE {table}", "ERASE")

    def create(self, at):
        self.exists, self.rows, self.types = True, {}, dict(CREATED)
        return self.statement(at, "CREATE TABLE {table} (id int PRIMARY KEY, name varchar(20))", "CREATE")

    def rename(self, at):
        """Within the target: the new name is one of its tables, too."""
        message = self.statement(at, f"RENAME TABLE {{table}} TO {self.name}{at}", "RENAME")
        self.name = f"{self.name}{at}"
        return message

    def do(self, at, rng, statements):
        """Change the table at random. Returns the message."""
        if not self.exists:
            return self.create(at)
        if rng.random() < 0.2:
            what = rng.choice(statements)
            if what in ("strict", "nullable") and what not in self.types:
                return self.add(at, what)
            if what == "truncate":
                return self.empty(at)
            if what == "drop":
                return self.drop(at)
            if what == "rename":
                return self.rename(at)
        return self.change(at, rng) if self.rows and rng.random() < 0.4 else self.insert(at, rng)


def found(topic):
    return {row.pop("id"): {name: str(cell) for name, cell in row.items()} for row in topic.rows("t")}


def wanted(shards):
    """The rows of all tables. Those of one that was dropped stay; a column that one of them lacks is null."""
    names = {name for one in shards for name in one.types} - {"id"}
    rows = {key: cells for one in shards for key, cells in one.rows.items()}
    return {key: {name: str(cells.get(name)) for name in names} for key, cells in rows.items()}


def compare(spark, folder, seed, statements, changes, batches, merge="auto", late=None, of_statements=None, first=()):
    """No row of any table is missing. All are right, unless a state says that they are not.

    Args:
        spark: The session.
        folder: An empty folder.
        seed: Of the changes.
        statements: Which there are.
        changes: How many messages.
        batches: How many batches.
        merge: The way.
        late: A partition whose messages come after all others.
        of_statements: The partition of statements, if it is the same for all tables.
        first: The shards that begin with a row: their target is known when statements come.
    """
    rng, topic = random.Random(seed), Topic(spark, folder)
    topic.target = {re.compile(r"shop\.t_\d+"): f"{topic.lake}/shop/t"}
    # In one partition, the order of a row and a statement is certain.
    partitions = 1 if seed % 2 else SHARDS
    shards = [Shard(number, number % partitions, of_statements) for number in range(SHARDS)]
    messages = [shards[number].insert(at, rng) for at, number in enumerate(first)]
    messages += [rng.choice(shards).do(at, rng, statements) for at in range(len(messages), changes)]
    # A migration is done when all shards have the column: their rows do not say which of them lacks it.
    added = {name for one in shards for name in one.types} - CREATED.keys()
    lacking = [(one, name) for one in shards if one.exists for name in sorted(added - one.types.keys())]
    messages += [one.add(changes + at, name) for at, (one, name) in enumerate(lacking)]
    messages.sort(key=lambda one: one["partition"] == late)
    cuts = [0, *sorted(rng.sample(range(1, changes), batches - 1)), len(messages)]
    topic.replicate_in_turn([messages[begin:end] for begin, end in pairwise(cuts)], merge=merge)
    states = {name: one["state"] for name, one in topic.states().items()}
    assert "quarantined" not in states.values(), seed
    assert wanted(shards).keys() <= found(topic).keys(), seed
    if "stale" not in states.values():
        assert found(topic) == wanted(shards), seed
    return states


def test_columns_are_added_to_one_shard_after_the_other(spark, tmp_path, known_tables):
    states = compare(spark, tmp_path, 1, ["strict"], changes=40, batches=2)
    assert set(states.values()) == {"ok"}


def test_a_truncate_of_one_shard_leaves_the_rows_of_the_others(spark, tmp_path):
    compare(spark, tmp_path, 2, ["truncate", "drop"], changes=40, batches=2)
    rebuilt = {"source_table": "shop.t_0", "target": {"shop.t_0": f"{tmp_path}/lake/shop/t"}, "dialect": "canal-json"}
    with pytest.raises(ValueError, match=r"shares its target with shop\.t_1, .* and rebuild has the rows of one table"):
        towpath.spark.rebuild(Topic(spark, tmp_path).frame(), **rebuilt)


def test_a_truncate_behind_rows_of_its_message_leaves_the_rows_of_other_shards(spark, tmp_path):
    topic, shards = Topic(spark, tmp_path), [Shard(number, 0) for number in range(2)]
    topic.target = {re.compile(r"shop\.t_\d+"): f"{topic.lake}/shop/t"}
    topic.replicate(*(one.message(at, "INSERT", {"id": str(at), "name": "x"}) for at, one in enumerate(shards)))
    shared = [("ok", '["shop.t_0", "shop.t_1"] share the target')]
    assert [(one["state"], one["reason"][:41]) for one in topic.states().values()] == shared * 2
    both = shards[0].message(5, "INSERT", {"id": "7", "name": "x"}), shards[0].empty(6)
    topic.replicate({**both[0], "value": b"\n".join(one["value"] for one in both)})
    assert found(topic).keys() == {0, 1, 7}
    assert topic.states()["t_0"]["state"] == "stale"


def test_a_statement_about_one_shard_hides_none_about_another_one(spark, tmp_path):
    """It is before the other one in the log, and is read after it from another partition."""
    topic = Topic(spark, tmp_path)
    topic.target = {re.compile(r"shop\.t_\d+"): f"{topic.lake}/shop/t"}
    names = [f"shop.t_{number}" for number in range(2)]
    options = {"dialect": "debezium-json", "keys": {name: ["id"] for name in names}}
    options["schemas"] = dict.fromkeys(names, "id bigint, name string")

    def sent(shard, at, position, **message):
        source = {"connector": "mysql", "db": "shop", "table": f"t_{shard}", "ts_ms": 1_700_000_000_000 + position}
        source |= {"server_id": 5, "file": "bin.000007", "pos": position}
        return {"partition": shard, "offset": at, "value": json.dumps({"source": source, **message}).encode()}

    def added(shard, at, position):
        text = f"ALTER TABLE t_{shard} ADD COLUMN c{shard} int NOT NULL DEFAULT 7"
        return sent(shard, at, position, databaseName="shop", ddl=text, tableChanges=[])

    rows = [{"id": shard, "name": "x"} for shard in range(2)]
    topic.replicate(*(sent(at, 0, 10 + at, op="c", before=None, after=row) for at, row in enumerate(rows)), **options)
    topic.replicate(added(0, 1, 200), **options)
    topic.replicate(added(1, 1, 100), **options)
    assert topic.rows("t") == [row | {"c0": 7, "c1": 7} for row in rows]
    version = topic.version("t")
    topic.replicate(added(0, 1, 200), added(1, 1, 100), **options)
    assert topic.version("t") == version


def late_rows(kind):
    """A statement about a shard whose older row is read after another one has created the target."""
    shards = [Shard(number, 0, of_statements=1) for number in range(2)]
    older = shards[1].insert(5, random.Random(1))
    statement = shards[1].add(10, "strict") if kind == "add" else getattr(shards[1], kind)(10)
    return shards, [statement], [shards[0].insert(20, random.Random(1))], [older]


OF_OTHERS = [
    ("add", False),
    ("empty", True),
    *(pytest.param(*one, marks=pytest.mark.soak) for one in [("add", True), ("empty", False), ("drop", False)]),
]


@pytest.mark.parametrize(("kind", "are_in_one_batch"), OF_OTHERS)
def test_another_shard_creates_the_target_after_a_statement(spark, tmp_path, kind, are_in_one_batch):
    topic = Topic(spark, tmp_path)
    topic.target = {re.compile(r"shop\.t_\d+"): f"{topic.lake}/shop/t"}
    shards, statement, first, older = late_rows(kind)
    topic.replicate_in_turn([statement, first + older] if are_in_one_batch else [statement, first, older])
    states = {name: one["state"] for name, one in topic.states().items()}
    assert states["t_1"] == "stale" or found(topic) == wanted(shards), states
    assert states["t_0"] == "ok"


@pytest.mark.soak
@pytest.mark.parametrize("late", [1, 2])
def test_statements_of_shards_in_a_partition_of_their_own(spark, tmp_path, known_tables, late):
    """As of a producer that distributes rows by their keys, and statements not."""
    for seed in range(1, 13):
        statements = ["strict", "truncate", "drop"]
        compare(spark, tmp_path / str(seed), seed, statements, changes=14, batches=3, late=late, of_statements=0)


@pytest.mark.soak
def test_shards_get_other_names(spark, tmp_path):
    states = compare(spark, tmp_path, 3, ["rename", "strict"], changes=40, batches=2)
    assert set(states.values()) == {"ok", "renamed"}


@pytest.mark.soak
def test_a_truncate_hides_no_row_of_a_shard_that_joins_later(spark, tmp_path):
    states = compare(spark, tmp_path, 4, ["truncate"], changes=40, batches=2, late=2)
    assert states["t_2"] == "stale"


@pytest.mark.soak
@pytest.mark.parametrize("late", range(SHARDS))
def test_random_statements_of_shards_that_join_later(spark, tmp_path, known_tables, late):
    for seed in range(20, 28, 2):
        statements = ["strict", "nullable", "truncate", "drop", "rename"]
        compare(spark, tmp_path / str(seed), seed, statements, changes=80, batches=4, late=late)


@pytest.mark.soak
@pytest.mark.parametrize("merge", ["auto", "spark"])
@pytest.mark.parametrize(
    "statements",
    [["strict"], ["strict", "nullable"], ["strict", "rename"], ["strict", "nullable", "truncate", "drop", "rename"]],
)
def test_random_statements_of_shards(spark, tmp_path, known_tables, statements, merge):
    found = [
        compare(spark, tmp_path / str(seed), seed, statements, 80, batches=4, merge=merge, first=range(SHARDS))
        for seed in range(10, 18)
    ]
    are_right = [set(states.values()) <= {"ok", "renamed"} for states in found]
    assert "truncate" in statements or sum(are_right) >= (8 if "nullable" not in statements else 1)
