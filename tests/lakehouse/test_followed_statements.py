"""Named regressions of statements that are followed. `test_migrations.py` has random statements and rows."""

import json
import re

import pytest

import towpath
from lake_cases import Together
from lake_topic import TYPES, Topic, canal, row
from towpath.lakehouse.following.follow import Follower
from towpath.lakehouse.log.statement_log import StatementLog

together = Together()

TEXT = "CREATE TABLE {} (id int PRIMARY KEY, name varchar(20))"


@pytest.fixture
def topic(spark, tmp_path):
    return Topic(spark, tmp_path)


def said(at, table, text, second=5, **more):
    return canal(at, "QUERY", table, sql=text, second=second, **more)


def altered(at, table, text, second=5, **more):
    return said(at, table, f"ALTER TABLE {table} {text}", second, **more)


@together
def test_a_dropped_database(topic):
    yield [canal(at, "INSERT", name, row(at, "old")) for at, name in enumerate("abc")]
    yield [
        said(3, "", "DROP DATABASE `shop`", 10),
        said(4, "", "CREATE DATABASE `shop`", 10),
        said(5, "a", TEXT.format("IF NOT EXISTS a"), 11),
        canal(6, "INSERT", "a", row(7, "new"), second=12),
        said(7, "b", TEXT.format("b"), 12),
        # Its table is created with the same name, and its rows are in another partition, in a later batch.
        said(8, "c", TEXT.format("c"), 12),
    ]
    yield [canal(0, "INSERT", "c", row(9, "new"), second=12, partition=1)]
    assert {name: topic.names(name) for name in "abc"} == {"a": {7: "new"}, "b": {}, "c": {9: "new"}}
    assert topic.state_of() == dict.fromkeys("abc", "ok")


@together
def test_what_waits_in_quarantine_when_its_table_is_created_again(topic):
    """A row of the new table may be read before the statements, and it does not fit the former one."""
    text = {"id": "int", "n": "varchar(9)"}
    yield [canal(at, "INSERT", name, {"id": "1", "n": "1"}, {"id": "int", "n": "int"}) for at, name in enumerate("ab")]
    yield [
        canal(0, "INSERT", "a", {"id": "2", "n": "new"}, text, second=30, partition=1),
        canal(2, "INSERT", "b", {"id": "2", "n": "old"}, text),
    ]
    assert topic.state_of() == dict.fromkeys("ab", "quarantined")
    yield [said(3 + at, name, f"DROP TABLE {name}; {TEXT.format(name)}", 20) for at, name in enumerate("ab")]
    assert topic.state_of() == {"a": "quarantined", "b": "ok"}
    assert topic.states()["a"]["reason"].startswith("quarantined messages may belong to the recreated table")


@together
def test_the_value_of_an_added_column(topic):
    wide = TYPES | {"n": "int"}
    yield [canal(at, "INSERT", table, row(1, "old")) for at, table in enumerate(["a", "again", "renamed"])]
    yield [
        altered(2, "a", "ADD COLUMN n int DEFAULT 5", 9),
        altered(6, "renamed", "RENAME COLUMN name TO title"),
        altered(7, "renamed", "DROP COLUMN title, ADD COLUMN title varchar(20) DEFAULT 'new'"),
        altered(3, "again", "DROP COLUMN NAME"),
        altered(4, "again", "ADD COLUMN name varchar(20)", 6),
        canal(5, "INSERT", "again", row(2, "new"), second=7),
    ]
    yield [
        canal(0, "INSERT", "a", row(2, "late"), second=8, partition=1),
        # An online ALTER has the time of its start, so a row before its end seems to be newer.
        canal(1, "INSERT", "a", row(3, "during"), second=10, partition=1),
        canal(2, "INSERT", "a", row(4, "after") | {"n": None}, wide, second=11, partition=1),
    ]
    yield [altered(5, "a", "ADD COLUMN n int DEFAULT 5", 9)]  # sent again: a value that is null since then stays null
    assert {one["id"]: one["n"] for one in topic.rows("a")} == {1: 5, 2: 5, 3: 5, 4: None}
    assert (topic.names("again"), topic.rows("renamed")[0]["title"]) == ({1: None, 2: "new"}, "new")
    assert topic.state_of() == {"a": "ok", "again": "ok", "renamed": "ok"}


@together
def test_a_column_of_another_type_gets_the_name_of_one_that_was_dropped(topic):
    number, text = {"id": "int", "n": "int"}, {"id": "int", "n": "varchar(9)"}
    yield [
        *(canal(at, "INSERT", name, {"id": "1", "n": "5"}, number) for at, name in enumerate("ab")),
        canal(2, "INSERT", "c", {"id": "1", "n": "5", "m": "x"}, {**number, "m": "varchar(9)"}),
    ]
    yield [
        altered(3, "a", "DROP COLUMN n"),
        altered(4, "a", "ADD COLUMN N varchar(9) DEFAULT 'x'"),
        said(5, "b", "DROP TABLE b; CREATE TABLE b (id int PRIMARY KEY, n varchar(9))"),
        altered(6, "c", "DROP COLUMN n"),
        altered(7, "c", "RENAME COLUMN m TO n"),
        *(canal(8 + at, "INSERT", name, {"id": "2", "n": "new"}, text, second=6) for at, name in enumerate("abc")),
    ]
    late = canal(0, "INSERT", "a", {"id": "3", "n": "7"}, number, second=1, partition=1)
    yield [late, altered(11, "a", "MODIFY COLUMN n varchar(20)", 9)]
    found = {name: {one["id"]: one.get("n", one.get("N")) for one in topic.rows(name)} for name in "abc"}
    assert found == {"a": {1: "x", 2: "new", 3: "x"}, "b": {2: "new"}, "c": {1: "x", 2: "new"}}
    assert topic.state_of() == dict.fromkeys("abc", "ok")


@together.having(columns={"shop.early": {"exclude": ["secret"]}})
def test_a_creation_ends_no_doubt_about_rows_that_were_read_before_it(topic):
    types = dict.fromkeys(("id", "secret"), "int")
    yield [canal(0, "INSERT", "early", {"id": "1", "secret": "5"}, types)]
    # A row of the new table, with a column that no statement explains yet.
    newer = {"id": "2", "secret": "5", "n": "7"}
    yield [canal(5, "INSERT", "early", newer, {**types, "n": "int"}, second=9, partition=1)]
    assert topic.states()["early"]["state"] == "stale"
    dropped = canal(1, "ERASE", "early", None, None, sql="DROP TABLE early", second=2)
    yield [dropped, canal(2, "CREATE", "early", None, None, sql="CREATE TABLE early (id int)", second=3)]
    assert topic.states()["early"]["state"] == "stale"
    assert [one["id"] for one in topic.rows("early")] == [2]


@together
def test_rows_of_unknown_order_before_another_table_gets_their_name(topic):
    """Both have the second and canal's batch of the rename. The next `b` was created in a later batch than the row."""

    def at_once(at, table, text):
        return said(at, table, text, 9, id=7)

    yield [canal(at, "INSERT", name, row(1, "old"), second=5, id=1) for at, name in enumerate("ab")]
    yield [
        *(at_once(2 + at, name, f"RENAME TABLE {name} TO {name}_old") for at, name in enumerate("ab")),
        *(canal(at, "INSERT", name, row(2, "new"), second=9, id=7, partition=1) for at, name in enumerate("ab")),
    ]
    assert topic.state_of(["a", "b"]) == {"a": "renamed", "b": "renamed"}
    yield [at_once(4, "a", TEXT.format("a")), said(5, "b", TEXT.format("b"), 10, id=8)]
    assert topic.state_of() == {"a": "stale", "a_old": "stale", "b": "ok", "b_old": "ok"}
    assert (topic.names("a_old"), topic.names("b_old")) == ({1: "old", 2: "new"}, {1: "old", 2: "new"})


@together.having(columns={"shop.masked": {"mask": {"name": "sha2(value, 256)"}}})
def test_a_table_without_rows_has_a_target(topic):
    """TRUNCATE is the last statement of its batch, or of a table whose rows are masked."""
    yield [
        canal(0, "INSERT", "a", row(1, "x"), second=5, id=1),
        canal(0, "INSERT", "a", row(7, "x"), second=5, id=2, partition=1),
        canal(1, "TRUNCATE", "a", types=None, sql="TRUNCATE TABLE a", second=5, id=3),
        canal(2, "INSERT", "masked", row(1, "old")),
    ]
    yield [canal(3, "TRUNCATE", "masked", types=None, sql="TRUNCATE TABLE masked", second=20)]
    assert (topic.rows("a"), topic.rows("masked")) == ([], [])
    assert topic.state_of() == {"a": "ok", "masked": "ok"}


@together
def test_names_that_other_tables_have(topic):
    """Tables exchange their names, and one is put away as another gets its name."""
    names = ["a", "b", "t", "t_new", "t_old"]
    yield [canal(at, "INSERT", name, row(at, name)) for at, name in enumerate(names)]
    yield [
        said(5, "a", "RENAME TABLE a TO swap, b TO a, swap TO b", 9),
        said(6, "t_old", "DROP TABLE t_old"),
        said(7, "t", "RENAME TABLE t TO t_old, t_new TO t", 10),
        said(8, "t_old", TEXT.format("IF NOT EXISTS t_old"), 11),
        said(9, "t", "ALTER TABLE t RENAME TO t", 12),
    ]
    yield [canal(0, "INSERT", "t", row(5, "late"), partition=1), canal(10, "INSERT", "t", row(6, "new"), second=13)]
    found = {name: topic.names(name) for name in ("a", "b", "t", "t_old")}
    assert found == {"a": {1: "b"}, "b": {0: "a"}, "t": {3: "t_new", 6: "new"}, "t_old": {2: "t", 5: "late"}}
    assert topic.state_of() == dict.fromkeys(found, "ok") | dict.fromkeys(("swap", "t_new"), "renamed")


@together
def test_the_column_of_the_key_is_renamed(topic):
    types = {"no": "int", "name": "varchar(20)"}
    yield [canal(at, "INSERT", "t", row(at, "x"), second=1) for at in range(3)]
    yield [
        altered(3, "t", "RENAME COLUMN id TO no", 5),
        canal(4, "INSERT", "t", {"no": "3", "name": "new"}, types, second=6),
        canal(5, "DELETE", "t", {"no": "1", "name": "x"}, types, second=6),
    ]
    yield [
        canal(6, "UPDATE", "t", {"no": "2", "name": "y"}, types, old={"name": "x"}, second=7),
        canal(0, "INSERT", "t", row(4, "late"), second=2, partition=1),
        altered(7, "t", "RENAME COLUMN name TO Name", 8),  # Spark refuses to change the case only
        canal(8, "INSERT", "t", {"no": "5", "Name": "newest"}, {"no": "int", "Name": "varchar(20)"}, second=9),
    ]
    found = topic.load("shop/t").select("no", "name").collect()
    assert {one["no"]: one["name"] for one in found} == {0: "x", 2: "y", 3: "new", 4: "late", 5: "newest"}
    assert topic.state_of()["t"] == "ok"


@together
def test_newer_changes_of_a_name_that_another_table_gets(topic):
    """They were read before the statement, from another partition. The deletes of both tables are remembered."""
    newer = {"second": 20, "partition": 1}
    yield [
        *(canal(at, "INSERT", "old", row(at, "old"), second=2) for at in range(4)),
        canal(4, "DELETE", "old", row(9, "old"), second=3),
    ]
    yield [canal(0, "INSERT", "t", row(1, "newer"), **newer), canal(1, "DELETE", "t", row(2, "old"), **newer)]
    yield [said(5, "old", "RENAME TABLE old TO t", 10)]
    yield [
        canal(2, "INSERT", "old", row(9, "late"), second=1, partition=1),
        canal(3, "INSERT", "old", row(2, "late"), second=5, partition=1),
    ]
    assert topic.names("t") == {0: "old", 1: "newer", 3: "old"}
    assert topic.state_of() == {"old": "renamed", "t": "ok"}


@together
def test_a_key_gets_another_type_in_a_copy(topic):
    types = {"id": "varchar(9)", "name": "varchar(20)"}
    yield [
        canal(0, "INSERT", "t", row(1, "x"), second=1),
        canal(1, "DELETE", "t", row(1, "x"), second=2),
        *(canal(at, "INSERT", "_t_gho", row(f"k{at}", "x"), types, second=3) for at in (2, 3)),
        said(4, "t", "RENAME TABLE t TO _t_del, _t_gho TO t", 4),
    ]
    yield [canal(5, "DELETE", "t", row("k2", "x"), types, second=5)]
    assert topic.names("t") == {"k3": "x"}
    assert topic.state_of()["t"] == "ok"


@together
def test_a_table_that_is_renamed_or_dropped_says_so_until_it_is_created(topic):
    yield [canal(0, "INSERT", "people", row(1, "x"), second=5)]
    yield [said(1, "people", "RENAME TABLE people TO persons", 10)]
    assert topic.state_of() == {"people": "renamed", "persons": "ok"}
    found = topic.states()["people"]
    assert found["statement"] == "RENAME TABLE people TO persons"
    assert found["reason"] == f"the table was renamed to {topic.database}.persons"
    yield [said(2, "people", TEXT.format("people"), 20)]
    assert topic.state_of() == {"people": "ok", "persons": "ok"}
    yield [said(3, "people", "DROP TABLE people", 30), canal(4, "INSERT", "persons", row(2, "y"), second=40)]
    assert topic.state_of() == {"people": "dropped", "persons": "ok"}
    yield [said(5, "people", TEXT.format("people"), 50), canal(6, "INSERT", "people", row(3, "z"), second=60)]
    assert topic.state_of() == {"people": "ok", "persons": "ok"}
    assert (topic.names("people"), topic.names("persons")) == ({3: "z"}, {1: "x", 2: "y"})


@together
def test_a_statement_that_converts_values_makes_its_table_stale(topic):
    """MySQL rounds them without a message. `test_combinations.py` has other types; some rows are read late."""
    half, new = "2024-01-01 00:00:00.5", "2024-01-01 00:00:00"
    times = {"rounded": ("datetime(6)", half), "exact": ("datetime", new)}
    late = {
        "late_rounded": ("datetime(6)", half, "datetime", new),
        "late_widened": ("int", "1", "bigint", "7"),
        "late_scale": ("decimal(6,2)", "1.55", "decimal(6,0)", "3"),
    }
    yield [
        canal(at, "INSERT", table, {"id": "1", "v": value}, {"id": "int", "v": kind})
        for at, (table, (kind, value)) in enumerate(times.items())
    ]
    yield [
        *(altered(10 + at, table, "CHANGE v v datetime", 20) for at, table in enumerate(times)),
        *(altered(20 + at, table, f"MODIFY v {kind}", 20) for at, (table, (*_, kind, _)) in enumerate(late.items())),
        *(
            canal(at, "INSERT", table, {"id": "2", "v": value}, {"id": "int", "v": kind}, second=30, partition=2)
            for at, (table, (*_, kind, value)) in enumerate(late.items())
        ),
    ]
    yield [
        canal(at, "INSERT", table, {"id": "1", "v": value}, {"id": "int", "v": kind}, second=10, partition=1)
        for at, (table, (kind, value, *_)) in enumerate(late.items())
    ]
    kept = {"exact", "late_widened"}
    assert topic.state_of() == {one: "ok" if one in kept else "stale" for one in [*times, *late]}


@together.having(keys={"shop.given": ["id"]})
def test_another_primary_key_makes_its_table_stale(topic):
    """Messages without a key of their own are merged by that of the target."""
    changes = {
        "keyless": "DROP PRIMARY KEY",
        "given": "DROP PRIMARY KEY",
        "wider": "DROP PRIMARY KEY, ADD PRIMARY KEY (id, name)",
        "equal": "ADD PRIMARY KEY (ID), DROP PRIMARY KEY",
    }
    yield [canal(at, "INSERT", name, row(1, "x")) for at, name in enumerate(changes)]
    yield [
        message
        for at, (name, change) in enumerate(changes.items())
        for message in (
            altered(10 + 2 * at, name, change),
            canal(11 + 2 * at, "INSERT", name, row(1, "y"), second=6, pkNames=None),
        )
    ]
    assert topic.state_of() == {"keyless": "stale", "given": "ok", "wider": "stale", "equal": "ok"}
    assert topic.states()["keyless"]["reason"] == "the primary key was dropped; rows are merged by (id)"


@together
def test_statements_with_names_in_another_case(topic):
    """With lower_case_table_names rows have names in lower case, and statements those that somebody wrote."""
    yield [canal(at, "INSERT", table, row(1, "x")) for at, table in enumerate(["emptied", "kept"])]
    yield [
        canal(11, "TRUNCATE", "Emptied", types=None, sql="TRUNCATE TABLE Emptied", pkNames=None, second=5),
        said(13, "Kept", "CREATE TABLE Kept (id int PRIMARY KEY)"),  # another table on a server that distinguishes case
    ]
    assert topic.state_of(["emptied", "kept"]) == {"emptied": "stale", "kept": "ok"}


@together
def test_a_column_that_is_added_unless_it_exists(topic):
    """MariaDB's statement does nothing if the table has the column."""
    tables = {"has": {"id": "1", "name": None}, "full": row(1, "x"), "lacks": {"id": "1"}}
    yield [
        canal(at, "INSERT", table, values, {name: TYPES[name] for name in values})
        for at, (table, values) in enumerate(tables.items())
    ]
    added = "ADD COLUMN IF NOT EXISTS name varchar(20) DEFAULT 'd'"
    yield [altered(9 + at, table, added) for at, table in enumerate(tables)]
    assert [topic.names(table) for table in tables] == [{1: None}, {1: "x"}, {1: "d"}]
    assert topic.state_of() == {"has": "stale", "full": "ok", "lacks": "ok"}


@together.having(schemas=dict.fromkeys(("shop.grown", "shop.renamed"), "id int, name string"))
def test_statements_about_a_table_whose_columns_are_given(topic):
    """As for messages of Maxwell, which declare no types."""
    yield [canal(at, "INSERT", table, row(1, "x"), types=None) for at, table in enumerate(["grown", "renamed"])]
    yield [
        altered(2, "grown", "ADD COLUMN n int DEFAULT 5"),
        canal(3, "INSERT", "grown", row(2, "y") | {"n": "7"}, types=None, second=6),
        altered(4, "renamed", "RENAME COLUMN name TO title"),
        canal(5, "INSERT", "renamed", {"id": "2", "title": "y"}, types=None, second=6),
    ]
    yield [canal(6, "UPDATE", "grown", row(1, "x") | {"n": "8"}, types=None, old={"n": "5"}, second=7)]
    assert {one["id"]: one["n"] for one in topic.rows("grown")} == {1: 8, 2: 7}
    assert {one["id"]: one["title"] for one in topic.rows("renamed")} == {1: "x", 2: "y"}
    assert topic.state_of() == {"grown": "ok", "renamed": "ok"}


def test_statements_that_are_ignored_make_both_names_stale(topic):
    topic.replicate(canal(0, "INSERT", "t", row(1, "x")), said(1, "t", "RENAME TABLE t TO u"), ddl_policy="ignore")
    assert topic.state_of() == {"t": "stale", "u": "stale"}


def test_names_that_others_get_in_a_batch_that_is_read_again(topic, monkeypatch):
    """The driver ends when all statements are followed, and before the log says so."""
    columns = dict.fromkeys(("id", "a", "b"), "int")
    topic.replicate(
        canal(0, "INSERT", "t", {"id": "1", "a": "1", "b": "2"}, columns),
        *(canal(at, "INSERT", name, row(at, name)) for at, name in enumerate("xy", 1)),
    )
    statements = [
        altered(5, "t", "RENAME COLUMN b TO c, RENAME COLUMN a TO b"),
        altered(6, "t", "ADD COLUMN a int DEFAULT 9"),
        said(7, "y", "RENAME TABLE y TO z"),
        said(8, "x", "RENAME TABLE x TO y"),
    ]
    follow = Follower.follow

    def ends(*arguments):
        follow(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Follower, "follow", ends)
        with pytest.raises(KeyboardInterrupt):
            topic.replicate(*statements)
    topic.replicate(*statements)
    assert topic.rows("t") == [{"id": 1, "a": 9, "b": 1, "c": 2}]
    assert (topic.names("y"), topic.names("z")) == ({1: "x"}, {2: "y"})
    assert topic.state_of() == {"t": "ok", "x": "renamed", "y": "ok", "z": "ok"}


def test_a_new_name_that_is_not_replicated(topic):
    topic.target = {"shop.t": topic.name("shop/t")}
    rows = canal(0, "INSERT", "t", row(1, "old")), canal(3, "INSERT", "t", row(3, "new"), second=12)
    renamed = said(1, "t", "RENAME TABLE t TO t_2024", 10)
    topic.replicate(rows[0], renamed)
    assert topic.state_of()["t"] == "renamed"
    for _ in range(2):  # a batch that is read again changes nothing
        topic.replicate(renamed, said(2, "t", TEXT.format("IF NOT EXISTS t"), 11), rows[1])
        assert (topic.names("t"), topic.state_of()["t"]) == ({3: "new"}, "ok")


def test_reprocess_deletes_no_row_by_a_tombstone_of_the_former_table(topic, spark):
    topic.replicate(
        *(canal(at, "INSERT", "t_new", row(at, "new"), second=3) for at in (0, 1)),
        canal(2, "INSERT", "t", row(1, "old"), second=4),
        canal(3, "DELETE", "t", row(1, "old"), second=5),
        canal(4, "INSERT", "t", {"id": "7", "day": "0000-00-00"}, {"id": "int", "day": "date"}, second=6),
        said(5, "t", "RENAME TABLE t TO t_old, t_new TO t", 10),
        zero_date="error",
    )
    topic.reprocess()
    assert topic.names("t") == {0: "new", 1: "new"}


@pytest.fixture
def shards(topic):
    """With the target `t` for `t_0`, `t_1` and so on."""
    topic.target = {re.compile(r"shop\.t_\d+"): f"{topic.lake}/shop/t"}
    return topic


def test_a_statement_about_one_shard_hides_none_about_another_one(shards):
    """It is before the other one in the log, and is read after it from another partition."""
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
    shards.replicate(*(sent(at, 0, 10 + at, op="c", before=None, after=row) for at, row in enumerate(rows)), **options)
    shards.replicate(added(0, 1, 200), **options)
    shards.replicate(added(1, 1, 100), **options)
    assert shards.rows("t") == [rows[0] | {"c0": 7, "c1": None}, rows[1] | {"c0": None, "c1": 7}]
    version = shards.version("t")
    shards.replicate(added(0, 1, 200), added(1, 1, 100), **options)
    assert shards.version("t") == version


def test_a_shard_gets_the_name_of_a_dropped_one(shards, monkeypatch):
    """A driver that ends within the statement does not delete the rows that have the name already."""
    shards.replicate(*(canal(at, "INSERT", f"t_{at % 2}", row(at, "x"), second=at) for at in range(4)))
    statements = said(4, "t_0", "DROP TABLE t_0", 10), said(5, "t_1", "RENAME TABLE t_1 TO t_0", 11)
    add_followed, marks = StatementLog.add_followed, []

    def ends(log, spark, found):
        marks.extend(found)
        if any(one.startswith("shop.t_0 ") and " without " not in one for one in found):
            raise KeyboardInterrupt
        add_followed(log, spark, found)

    with monkeypatch.context() as patched:
        patched.setattr(StatementLog, "add_followed", ends)
        with pytest.raises(KeyboardInterrupt):
            shards.replicate(*statements)
    shards.replicate(*statements)
    assert shards.names("t") == {1: "x", 3: "x"}
    assert any(" without " in one for one in marks)


def test_one_shard_is_rebuilt(shards, spark):
    sent = [canal(at, "INSERT", f"t_{at % 2}", row(at, "x"), second=at) for at in range(4)]
    shards.replicate(*sent)
    spark.sql(f"UPDATE {shards.sql_name('shop/t')} SET name = 'damaged' WHERE id <> 1")
    options = {"source_table": "shop.t_0", "target": shards.target, "dialect": "canal-json"}
    towpath.spark.rebuild(shards.frame(*sent), **options)
    assert shards.names("t") == {0: "x", 1: "x", 2: "x", 3: "damaged"}
    with pytest.raises(ValueError, match=r"shop\.t_0 shares its target"):
        towpath.spark.rebuild(shards.frame(*sent), snapshot=spark.sql("SELECT 1 AS id, 'x' AS name"), **options)
    # Rows that say no table are of any.
    spark.sql(f"UPDATE {shards.sql_name('shop/t')} SET _towpath = NULL WHERE id = 3")
    spark.sql(f"ALTER TABLE {shards.sql_name('shop/t')} UNSET TBLPROPERTIES ('towpath.source')")
    shards.replicate(said(9, "t_1", "TRUNCATE TABLE t_1", 9))
    assert shards.names("t") == {0: "x", 2: "x", 3: "damaged"}
    assert shards.state_of()["t_1"] == "stale"


SECRET = "SECRET"
RULES = {"shop.users": {"exclude": ["phone"]}}


@pytest.fixture
def users(topic):
    yield topic
    assert topic.files_with(SECRET) == set()


def inserted(at, table="users", **cells):
    cells = {"id": str(at), **cells}
    return canal(at, "INSERT", table, cells, dict.fromkeys(cells, "varchar(9)"), second=at)


def test_a_protected_column_is_renamed_without_a_word(users):
    """It may have any name that nothing explains, or that of a column which got one: the rows wait."""
    for one in inserted(0, phone=SECRET, a="w"), inserted(1, tel=SECRET, a="x"), inserted(2, a=SECRET, b="y"):
        users.replicate(one, columns=RULES)
    assert users.rows("users") == [{"id": "0", "a": "w"}]
    state = users.states()["users"]
    assert state["state"] == "quarantined"
    assert "declare b, which no statement added, and no longer declare phone" in state["reason"]
    rules = {"shop.users": {"exclude": ["phone", "tel", "a"], "mask": {"b": "value"}}}
    users.reprocess(columns=rules)
    assert [(one["id"], one["b"]) for one in users.rows("users")] == [("0", None), ("1", None), ("2", "y")]


def test_a_column_that_nothing_explains_is_left_out_until_a_rule_names_it(users):
    for one in inserted(0, phone=SECRET), inserted(1, phone=SECRET, new=SECRET):
        users.replicate(one, columns=RULES)
    assert users.rows("users") == [{"id": "0"}, {"id": "1"}]
    state = users.states()["users"]
    assert state["state"] == "stale"
    assert "new is left out, since no statement added it" in state["reason"]
    accepted = {"shop.users": {"exclude": ["phone"], "mask": {"new": "value"}}}
    users.replicate(inserted(2, phone=SECRET, new="plain"), columns=accepted)
    assert [one["new"] for one in users.rows("users")] == [None, None, "plain"]


def test_a_rebuilt_target_and_one_with_a_snapshot_have_the_rules_of_former_names(users):
    users.replicate(inserted(0, phone=SECRET), columns=RULES)
    renamed = said(2, "users", "RENAME TABLE users TO people", 2)
    users.replicate(altered(1, "users", "CHANGE phone tel varchar(9)", 1), renamed, columns=RULES)
    row = inserted(3, "people", tel=SECRET)
    snapshot = users.spark.sql(f"SELECT '7' AS id, '{SECRET}' AS tel")
    rebuild = towpath.spark.rebuild
    own = {"status": users.options["status"], "columns": RULES["shop.users"]}
    rebuild(users.frame(row), "shop.people", users.target, **own, snapshot=snapshot)
    assert users.rows("people") == [{"id": "3"}, {"id": "7"}]
    with pytest.raises(ValueError, match="new is left out, since no statement added it"):
        rebuild(users.frame(row), "shop.people", users.target, **own, snapshot=snapshot.selectExpr("*", "1 AS new"))
    users.target = {"shop.people": f"{users.lake}/shop/again"}
    users.replicate(row, columns=RULES, snapshots={"shop.people": snapshot})
    assert users.rows("again") == [{"id": "3"}, {"id": "7"}]


def test_a_column_of_a_shard_is_renamed_before_another_one_creates_the_target(users, shards):
    """The log remembers it. A column that the target has from another table explains none."""
    rules = {f"shop.t_{at}": {"exclude": ["phone"]} for at in (1, 2)}
    renamed = altered(0, "t_1", "CHANGE phone tel varchar(9)", 0)
    rows = inserted(1, "t_0", tel="plain"), inserted(2, "t_1", tel=SECRET), inserted(3, "t_2", tel=SECRET)
    for one in (renamed, *rows):
        shards.replicate(one, columns=rules)
    assert shards.rows("t") == [{"id": "1", "tel": "plain"}, {"id": "2", "tel": None}]
    assert shards.state_of() == {"t_0": "ok", "t_1": "ok", "t_2": "quarantined"}
