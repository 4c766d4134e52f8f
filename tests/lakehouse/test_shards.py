"""Tables that share a target: a statement about one changes its rows only. `test_migrations` has random ones."""

import json
import re

import pytest

import towpath
from lake_topic import Topic, canal, row

TYPES = {"id": "int", "name": "varchar(20)"}


@pytest.fixture
def topic(spark, tmp_path):
    """With the target `t` for `t_0`, `t_1` and so on."""
    topic = Topic(spark, tmp_path)
    topic.target = {re.compile(r"shop\.t_\d+"): f"{topic.lake}/shop/t"}
    return topic


def ddl(at, text, kind="ALTER"):
    return canal(at, kind, re.search(r"t_\d", text)[0], sql=text, second=at)


def states(topic):
    return {name: one["state"] for name, one in topic.states().items()}


@pytest.mark.parametrize("way", ["auto", pytest.param("spark", marks=pytest.mark.soak)])
def test_statements_change_the_rows_of_one_table(topic, way):
    inserts = [canal(at, "INSERT", f"t_{at % 2}", row(at, "x"), second=at) for at in range(4)]
    topic.replicate(*inserts, merge=way)
    topic.replicate(
        ddl(10, "ALTER TABLE t_0 ADD COLUMN c int NOT NULL DEFAULT 7"),
        ddl(11, "ALTER TABLE t_1 RENAME COLUMN name TO title"),
        canal(12, "INSERT", "t_1", {"id": "5", "title": "y"}, {"id": "int", "title": "varchar(20)"}, second=12),
        merge=way,
    )
    assert topic.rows("t") == [
        {"id": 0, "name": "x", "c": 7, "title": None},
        {"id": 1, "name": None, "c": None, "title": "x"},
        {"id": 2, "name": "x", "c": 7, "title": None},
        {"id": 3, "name": None, "c": None, "title": "x"},
        {"id": 5, "name": None, "c": None, "title": "y"},
    ]
    topic.replicate(
        ddl(20, "TRUNCATE TABLE t_0", "TRUNCATE"), canal(21, "INSERT", "t_0", row(6, "z"), second=21), merge=way
    )
    assert [one["id"] for one in topic.rows("t")] == [1, 3, 5, 6]
    assert states(topic) == {"t_0": "ok", "t_1": "ok"}


def test_a_truncate_between_rows_of_its_message(topic):
    topic.replicate(*(canal(at, "INSERT", f"t_{at}", row(at, "x"), second=at) for at in range(2)))
    parts = [
        canal(5, "INSERT", "t_0", row(7, "gone"), second=5),
        ddl(6, "TRUNCATE TABLE t_0", "TRUNCATE"),
        canal(5, "INSERT", "t_0", row(8, "x"), second=6),
    ]
    topic.replicate({**parts[0], "value": b"\n".join(one["value"] for one in parts)})
    assert topic.names("t") == {1: "x", 8: "x"}
    assert states(topic) == {"t_0": "ok", "t_1": "ok"}


def test_a_statement_about_one_table_hides_none_about_another_one(topic):
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
    topic.replicate(*(sent(at, 0, 10 + at, op="c", before=None, after=row) for at, row in enumerate(rows)), **options)
    topic.replicate(added(0, 1, 200), **options)
    topic.replicate(added(1, 1, 100), **options)
    assert topic.rows("t") == [rows[0] | {"c0": 7, "c1": None}, rows[1] | {"c0": None, "c1": 7}]
    version = topic.version("t")
    topic.replicate(added(0, 1, 200), added(1, 1, 100), **options)
    assert topic.version("t") == version


def test_one_table_is_rebuilt(topic, spark):
    sent = [canal(at, "INSERT", f"t_{at % 2}", row(at, "x"), second=at) for at in range(4)]
    topic.replicate(*sent)
    spark.sql(f"UPDATE {topic.sql_name('shop/t')} SET name = 'damaged' WHERE id <> 1")
    options = {"source_table": "shop.t_0", "target": topic.target, "dialect": "canal-json"}
    towpath.spark.rebuild(topic.frame(*sent), **options)
    assert topic.names("t") == {0: "x", 1: "x", 2: "x", 3: "damaged"}
    with pytest.raises(ValueError, match=r"shop\.t_0 shares its target"):
        towpath.spark.rebuild(topic.frame(*sent), snapshot=spark.sql("SELECT 1 AS id, 'x' AS name"), **options)


def test_rows_that_say_no_table_are_of_any(topic, spark):
    topic.replicate(canal(0, "INSERT", "t_0", row(0, "x")))
    rows = spark.sql(f"SELECT 9 AS id, 'old' AS name, _towpath FROM {topic.sql_name('shop/t')} LIMIT 0")
    topic.lake = topic.lake.parent / "made"
    topic.target = {re.compile(r"shop\.t_\d+"): f"{topic.lake}/shop/t"}
    rows.write.format("delta").save(topic.name("shop/t"))
    spark.sql(f"INSERT INTO {topic.sql_name('shop/t')} SELECT 9, 'old', NULL")
    topic.replicate(canal(1, "INSERT", "t_0", row(1, "x")), ddl(2, "TRUNCATE TABLE t_1"), status=topic.name("status"))
    assert topic.names("t") == {1: "x", 9: "old"}
    assert states(topic)["t_1"] == "stale"
