"""A target that does not equal its source table any more is rebuilt."""

import pytest

import towpath
import towpath.lakehouse.rebuild as rebuilding
from lake_cases import Together
from lake_topic import Topic, canal, row
from towpath.lakehouse.tables.formats import format_of

together = Together(catalogs=[None, pytest.param("ice", marks=pytest.mark.soak)])
soaked = Together(catalogs=[None, "ice"], marks=[pytest.mark.soak], zero_date="error")


def rebuild(topic, *messages, **options):
    name, status = f"{topic.database}.a", topic.options["status"]
    messages = topic.frame(*topic.sent(messages))
    towpath.spark.rebuild(messages, name, topic.target, "canal-json", status=status, **options)


@together
def test_a_target_is_rebuilt_from_a_snapshot(topic):
    lost = canal(2, "ALTER", "a", None, None, sql="ALTER TABLE a TRUNCATE PARTITION p1", second=2)
    yield [canal(0, "INSERT", "a", row(1, "x")), canal(1, "INSERT", "a", row(2, "x"), second=1), lost]
    assert topic.states()["a"]["state"] == "stale"
    # The source has lost row 1. Row 3 was inserted and changed after the snapshot, and row 2 deleted.
    later = [
        canal(3, "INSERT", "a", row(3, "x"), second=3),
        canal(4, "DELETE", "a", row(2, "x"), second=4),
        canal(5, "UPDATE", "a", row(3, "y"), old={"name": "x"}, second=5),
    ]
    yield later
    snapshot = topic.spark.createDataFrame([(2, "x")], "id bigint, name string")
    rebuild(topic, *later, snapshot=snapshot)
    assert topic.names("a") == {3: "y"}
    assert topic.load("shop/a").schema["id"].dataType.simpleString() == "int"
    assert topic.states()["a"]["state"] == "ok"
    assert topic.states()["a"]["statement"] is None
    # The query goes on: what it has applied is old, what is new is applied.
    version = topic.version("a")
    yield later
    assert topic.version("a") == version
    yield [canal(6, "UPDATE", "a", row(3, "z"), old={"name": "y"}, second=6)]
    assert topic.names("a") == {3: "z"}
    # With the statement in the messages it cannot be known whether the snapshot is older.
    rebuild(topic, lost, *later, snapshot=snapshot)
    assert topic.states()["a"]["state"] == "stale"
    assert "TRUNCATE PARTITION" in topic.states()["a"]["statement"]


@together
def test_what_a_query_follows_while_its_target_is_rebuilt(topic):
    """The rebuild follows it in the new target, and what the query says meanwhile stays said."""
    first, added = canal(0, "INSERT", "a", row(1, "x")), "ALTER TABLE a ADD COLUMN n int DEFAULT 5"
    statement = canal(1, "ALTER", "a", None, None, sql=added, second=5)
    lost = canal(2, "ALTER", "a", None, None, sql="ALTER TABLE a TRUNCATE PARTITION p1", second=6)
    yield [first]
    replace = rebuilding._replace

    def meanwhile(*arguments):
        topic.replicate(*topic.sent([statement, lost]))
        replace(*arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rebuilding, "_replace", meanwhile)
        rebuild(topic, first)
    assert topic.states()["a"]["state"] == "stale"
    assert "TRUNCATE PARTITION" in topic.states()["a"]["statement"]
    assert topic.rows("a") == [{"id": 1, "name": "x", "n": 5}]
    # A rebuild is no batch of the query, to which `last_batch` belongs.
    topic.spark.sql(f"UPDATE {topic.sql_name('status')} SET last_batch = 7 WHERE database = '{topic.database}'")
    rebuild(topic, first, statement)
    state = topic.states()["a"]
    assert (state["state"], state["last_batch"]) == ("ok", 7)


@together
def test_a_snapshot_of_a_table_that_was_dropped_stays(topic):
    """What the former target remembers of the drop is not true of the new rows."""
    yield [canal(0, "INSERT", "a", row(1, "x")), canal(1, "ERASE", "a", None, None, sql="DROP TABLE a")]
    snapshot = topic.spark.createDataFrame([(2, "y")], "id int, name string")
    rebuild(topic, canal(3, "INSERT", "a", row(3, "z"), second=9), snapshot=snapshot)
    created = "CREATE TABLE IF NOT EXISTS a (id int PRIMARY KEY, name varchar(20))"
    yield [canal(5, "CREATE", "a", None, None, sql=created, second=20)]
    assert topic.names("a") == {2: "y", 3: "z"}


@together
def test_a_target_is_rebuilt_from_its_topic(topic):
    """Its properties stay, and its partitions."""
    spark, path, format = topic.spark, topic.sql_name("shop/a"), "iceberg" if topic.catalog else "delta"
    spark.sql(f"CREATE TABLE {path} (id int, name string) USING {format} PARTITIONED BY (name)")
    messages = [
        canal(0, "INSERT", "a", row(1, "x")),
        canal(1, "INSERT", "a", row(2, "x"), second=1),
        canal(2, "DELETE", "a", row(2, "x"), second=2),
        canal(3, "INSERT", "b", row(1, "x"), second=3),
        canal(4, "INSERT", "a", row(3, "y"), second=4),
    ]
    yield messages
    spark.sql(f"DELETE FROM {path}")
    name, value = ("write.merge.mode", "copy-on-write") if topic.catalog else ("delta.enableDeletionVectors", "false")
    spark.sql(f"ALTER TABLE {path} SET TBLPROPERTIES ('{name}' = '{value}')")
    rebuild(topic, *messages)
    assert topic.names("a") == {1: "x", 3: "y"}
    yield messages[1:2]
    assert topic.names("a") == {1: "x", 3: "y"}
    assert format_of(spark, path).layout(spark, path).replace("`", "") == "PARTITIONED BY (name) "
    shown = {one["key"]: one["value"] for one in spark.sql(f"SHOW TBLPROPERTIES {path}").collect()}
    assert shown[name] == value
    assert spark.sql("SHOW TABLES LIKE 'towpath_rebuild*'").count() == 0
    with pytest.raises(ValueError, match="the messages have no rows of the table"):
        rebuild(topic, messages[3])
    assert topic.names("a") == {1: "x", 3: "y"}
    assert topic.tables("shop")[0] == "a"


@soaked
def test_what_was_put_aside_before_a_snapshot_is_done(topic):
    """It is older than the rows of the snapshot, which nothing orders: `reprocess` would undo them."""
    dates = {"id": "int", "d": "date"}
    first = [canal(at, "INSERT", name, {"id": "1", "d": "2024-01-01"}, dates) for at, name in enumerate("ab")]
    dead = [
        canal(at, "INSERT", name, {"id": "2", "d": "0000-00-00"}, dates, second=at) for at, name in enumerate("ab", 2)
    ]
    yield [*first, *dead]
    yield [canal(4, "INSERT", "a", {"id": "1", "d": "x"}, dates | {"d": "varchar(9)"}, second=4)]
    assert topic.states()["a"]["state"] == "quarantined"
    later = canal(7, "INSERT", "a", {"id": "3", "d": "2024-03-03"}, dates, second=7)
    snapshot = topic.spark.createDataFrame([(1, "2024-02-02")], "id int, d string")
    rebuild(topic, later, snapshot=snapshot, dead_letters=topic.options["dead_letters"])
    assert topic.states()["a"]["state"] == "ok"
    assert len(topic.waiting("dead_quarantine")) == 0
    topic.reprocess(tables=[f"{topic.database}.{name}" for name in "ab"], zero_date="null")
    assert [(one["id"], str(one["d"])) for one in topic.rows("a")] == [(1, "2024-02-02"), (3, "2024-03-03")]
    assert [one["id"] for one in topic.rows("b")] == [1, 2]


def test_a_stream_cannot_rebuild(spark, tmp_path):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="expected a batch of the whole topic"):
        towpath.spark.rebuild(stream, "shop.a", Topic(spark, tmp_path).target)
