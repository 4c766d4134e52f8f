"""The first snapshot: targets are created with the rows of existing tables, and the topic is applied to them."""

import random
from functools import partial

import pytest
from pyspark.sql.types import StructField, StructType

import towpath
from lake_topic import Topic, canal, row
from towpath.lakehouse import snapshots
from towpath.lakehouse.tables.jdbc_rows import check_url


@pytest.fixture(params=[None, pytest.param("ice", marks=pytest.mark.soak)], ids=["delta", "iceberg"])
def topic(spark, tmp_path, request):
    return Topic(spark, tmp_path, request.param)


def rows_of(spark, names):
    """A table as a database has it, such as `{1: "x"}`."""
    return spark.createDataFrame(list(names.items()), "id int, name string")


def history(seed, keys=8, changes=60):
    """The messages of a table, and the rows that it had after each number of them."""
    choose = random.Random(seed)
    now, messages, states = {}, [], [{}]
    for at in range(changes):
        key, name = choose.randrange(keys), f"n{at}"
        if key not in now:
            messages.append(canal(at, "INSERT", "a", row(key, name), second=at))
            now[key] = name
        elif choose.random() < 0.3:
            messages.append(canal(at, "DELETE", "a", row(key, now.pop(key)), second=at))
        else:
            messages.append(canal(at, "UPDATE", "a", row(key, name), old={"name": now[key]}, second=at))
            now[key] = name
        states.append(dict(now))
    return messages, states


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))])
def test_a_topic_that_begins_before_the_snapshot(topic, spark, seed):
    messages, states = history(seed)
    choose = random.Random(seed)
    start = choose.randrange(20)
    taken = choose.randrange(start, 50)
    given = {"shop.a": rows_of(spark, states[taken])}
    topic.replicate(*messages[start:taken], snapshots=given)
    topic.replicate(*messages[taken:], snapshots=given)
    assert topic.names("a") == states[-1]
    assert topic.states()["a"]["state"] == "ok"
    # A replay from the beginning, with the snapshot in the arguments, changes nothing.
    version = topic.version("a")
    topic.replicate(*messages[start:], snapshots=given)
    assert topic.version("a") == version


def test_a_column_that_is_added_after_the_snapshot(topic, spark):
    """The rows of the snapshot have no place in the log, but are older.

    Other types than those of the messages are said: Spark's JDBC source reads a DATETIME as an instant by default.
    """
    given = {f"shop.{name}": rows_of(spark, {1: "x", 2: None}) for name in "abc"}
    types = {"id": "int", "name": "varchar(20)", "n": "int"}

    def added(at, table, column):
        return canal(at, "ALTER", table, sql=f"ALTER TABLE {table} ADD COLUMN {column} DEFAULT 5", second=5)

    given["shop.d"] = spark.sql("SELECT 1 AS id, TIMESTAMP'2024-01-01 00:00:00' AS at")
    instant = canal(9, "INSERT", "d", {"id": "2", "at": "2024-01-02 00:00:00"}, {"id": "int", "at": "datetime"})
    topic.replicate(canal(0, "UPDATE", "a", row(1, "new"), old={"name": "x"}), instant, snapshots=given)
    topic.replicate(
        added(1, "a", "n int"),
        canal(2, "INSERT", "a", row(3, "y") | {"n": None}, types, second=6),
        # The snapshot may be newer than this.
        added(3, "b", "name varchar(20)"),
        canal(4, "ALTER", "c", sql="ALTER TABLE c DROP COLUMN name, ADD COLUMN name varchar(20)", second=5),
    )
    assert {one["id"]: one["n"] for one in topic.rows("a")} == {1: 5, 2: 5, 3: None}
    assert topic.state_of() == {"a": "ok", "b": "stale", "c": "stale", "d": "quarantined"}
    assert "column at is timestamp in the table and timestamp_ntz in the messages" in topic.states()["d"]["reason"]


def test_a_start_that_fails_is_repeated(topic, spark, monkeypatch):
    """One target was created when the driver died: it stays, and the others are created at the next start."""
    create, created, called = snapshots.create_with, [], []

    def fail(spark, target, rows, settings):
        if created:
            raise KeyboardInterrupt
        created.append(target)
        return create(spark, target, rows, settings)

    def rows(names):
        called.append(names[1])
        return rows_of(spark, names)

    given = {f"shop.{name}": partial(rows, {1: name, 2: "x"}) for name in "abc"}
    with monkeypatch.context() as patched:
        patched.setattr(snapshots, "create_with", fail)
        with pytest.raises(KeyboardInterrupt):
            topic.replicate(snapshots=given, parallelism=1)
    change = canal(0, "UPDATE", "a", row(1, "new"), old={"name": "a"})
    topic.replicate(change, snapshots=given)
    assert [topic.names(name) for name in "abc"] == [{1: "new", 2: "x"}, {1: "b", 2: "x"}, {1: "c", 2: "x"}]
    assert "".join(called) == "abcbc"
    assert {name: (one["state"], one["applied"]) for name, one in topic.states().items()} == {
        "a": ("ok", 1),
        "b": ("ok", 0),
        "c": ("ok", 0),
    }
    # What exists is left as it is, and not read again. A table that is added gets its rows.
    given["shop.d"] = partial(rows, {1: "d"})
    topic.replicate(canal(1, "DELETE", "b", row(2, "x"), second=1), snapshots=given)
    assert [topic.names(name) for name in "abcd"] == [{1: "new", 2: "x"}, {1: "b"}, {1: "c", 2: "x"}, {1: "d"}]
    assert "".join(called) == "abcbcd"


def test_types_rules_and_soft_deletes(topic, spark):
    found = spark.createDataFrame([(1, "x", "secret", 7)], "id bigint, name string, phone string, more int")
    rules, both = {"exclude": ["phone"], "mask": {"name": "concat(value, '!')"}}, ("shop.a", "shop.b")
    options = {
        "snapshots": {"shop.a": found, "shop.b": found.drop("phone")},
        "schemas": dict.fromkeys(both, "id int(11), name varchar(20), phone varchar(20)"),
        "columns": dict.fromkeys(both, rules),
        "soft_deletes": "deleted_at",
    }
    topic.replicate(**options)
    kinds = {one.name: one.dataType.simpleString() for one in topic.load("shop/a").schema}
    assert kinds.pop("_towpath").startswith("struct")
    assert kinds == {"id": "int", "name": "string", "deleted_at": "timestamp"}
    assert topic.names("a") == topic.names("b") == {1: "x!"}
    types = {"id": "int", "name": "varchar(20)", "phone": "varchar(20)"}
    topic.replicate(canal(0, "INSERT", "a", {**row(2, "y"), "phone": "secret"}, types), **options)
    assert topic.names("a") == {1: "x!", 2: "y!"}
    properties = spark.sql(f"SHOW TBLPROPERTIES {topic.sql_name('shop/a')}").collect()
    assert {"towpath.source": "shop.a"}.items() <= {one.key: one.value for one in properties}.items()


def test_what_is_refused(topic, spark):
    rows = rows_of(spark, {1: "x"})
    for said, options in {
        r"snapshots: expected a mapping such as": {"snapshots": rows},
        r"snapshots: shop\.a: expected a DataFrame, not str": {"snapshots": {"shop.a": "/dump"}},
        r"snapshots: shop\.a: expected a DataFrame, not int": {"snapshots": {"shop.a": lambda: 1}},
        r"expected a batch with the rows": {"snapshots": {"shop.a": spark.readStream.format("rate").load()}},
        r"snapshots: shop\.a: the snapshot lacks the columns more": {
            "snapshots": {"shop.a": rows},
            "schemas": {"shop.a": "id int, more int"},
        },
    }.items():
        with pytest.raises(ValueError, match=said):
            topic.replicate(**options)
    with pytest.raises(ValueError, match=r"snapshots: shop\.a: the table has no target"):
        towpath.spark.replicate(topic.frame(), {"shop.b": topic.name("shop/b")}, snapshots={"shop.a": rows})
    assert topic.tables("shop") == [] if not topic.catalog else True


def test_char_is_not_padded(topic, spark, tmp_path):
    """Spark pads a CHAR of a JDBC source, or of a file, to its length. MySQL does not."""
    spark.createDataFrame([(1, "x")], "id int, name string").write.parquet(f"{tmp_path}/rows")
    spark.sql(f"CREATE TABLE char_rows (id int, name char(4)) USING parquet LOCATION '{tmp_path}/rows'")
    try:
        with pytest.raises(ValueError, match=r"shop.a: Spark pads the char\(4\) name with blanks"):
            topic.replicate(snapshots={"shop.a": spark.table("char_rows")})
        topic.replicate(snapshots={"shop.a": lambda: spark.table("char_rows")})
    finally:
        spark.sql("DROP TABLE char_rows")
    assert topic.names("a") == {1: "x"}


@pytest.mark.parametrize(
    ("kind", "said", "cure"),
    [
        ("timestamp_ntz", {"logical_time_type": True}, "CHAR"),
        ("string", {"logical_time_type": True}, "CHAR"),
        ("binary", {"binarylong": 1}, "BINARY"),
    ],
)
def test_what_spark_reads_wrong_is_refused(topic, spark, kind, said, cure):
    """Spark's JDBC source says so in the metadata of its columns."""
    schema = StructType([StructField("c", spark.sql(f"SELECT CAST(NULL AS {kind})").schema[0].dataType, True, said)])
    with pytest.raises(ValueError, match=rf"shop\.a: Spark reads .* CAST\(c AS {cure}\)"):
        topic.replicate(snapshots={"shop.a": lambda: spark.createDataFrame([], schema)})


def test_the_url_of_a_database_without_a_dialect(spark):
    check_url(spark, "url", "jdbc:mysql://db")
    with pytest.raises(ValueError, match="column names instead of values"):
        check_url(spark, "url", "jdbc:mariadb://db")
