"""The guarantees in docs/lakehouse/order.md on small batches: each test holds several, on tables of one batch."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Timer
from unittest.mock import patch

import pytest
from pyspark.errors import AnalysisException

import towpath
from lake_cases import Together
from lake_topic import TYPES, Topic, canal, of_delta, row
from spark_rows import of_spark
from towpath.lakehouse.merging.retries import is_lost, with_retries
from towpath.lakehouse.reading.batch_messages import computed
from towpath.lakehouse.seen.status_table import StatusTable
from towpath.lakehouse.tables.tables import TableSettings, append_once, create_or_evolve, create_with

SOAKED = pytest.param("ice", marks=pytest.mark.soak)


@pytest.fixture(params=[None, SOAKED], ids=["delta", "iceberg"])
def topic(spark, tmp_path, request):
    return Topic(spark, tmp_path, request.param)


# What decides the order of changes is the same for all formats.
together = Together(catalogs=[None, SOAKED], zero_date="error")


@together
def test_canals_order_holds_across_partitions_and_batches(topic):
    first = [canal(at, "INSERT", table, row(1, "v0")) for at, table in enumerate(["together", "late", "cut", "kept"])]
    yield first
    moved = {"old": {"id": "1"}, "second": 5, "id": 11, "partition": 1}
    again = {"second": 5, "id": 12}
    # Key 1 moves to 9, and is inserted again, in one second; the later change is read first, or in the same batch.
    late = canal(8, "UPDATE", "late", row(9, "v0"), **moved)
    yield [
        canal(7, "UPDATE", "together", row(9, "v0"), **moved),
        canal(7, "INSERT", "together", row(1, "v1"), **again),
        canal(8, "INSERT", "late", row(1, "v1"), **again),
        canal(9, "INSERT", "cut", row(7, "x"), second=5, id=2, partition=1),
        canal(10, "TRUNCATE", "cut", None, None, second=5, id=3),
        canal(11, "INSERT", "kept", row(7, "x"), second=5, id=9, partition=1),
    ]
    truncate = canal(12, "TRUNCATE", "kept", None, None, second=5, id=8)
    yield [late, truncate]
    wanted = {"together": {1: "v1", 9: "v0"}, "late": {1: "v1", 9: "v0"}, "cut": {}, "kept": {7: "x"}}
    assert {table: topic.names(table) for table in wanted} == wanted
    # A replay writes nothing; a topic that was recreated has low offsets and later times.
    versions = {table: topic.version(table) for table in wanted}
    yield [*first, late, truncate]
    assert {table: topic.version(table) for table in wanted} == versions
    yield [canal(0, "DELETE", "late", row(1, "v1"), second=86400)]
    assert topic.names("late") == {9: "v0"}


def debezium(at, table, position, second, after, op="u", *, server=5, partition=0, before=None):
    source = {"db": "shop", "table": table, "server_id": server, "file": "bin.000007", "pos": position}
    source |= {"ts_ms": 1_700_000_000_000 + second * 1000, "connector": "mysql"}
    value = json.dumps({"before": before, "after": after, "op": op, "source": source}).encode()
    return {"partition": partition, "offset": at, "value": value, "key": b'{"id":1}'}


@pytest.mark.parametrize("topic", [None, SOAKED], ids=["delta", "iceberg"], indirect=True)
def test_the_place_in_the_binlog_decides_except_between_servers(topic):
    tables = ["spread", "failover", "cut"]
    options = {
        "dialect": "debezium-json",
        "schemas": {f"shop.{name}": "id bigint, name string" for name in tables},
        "keys": {f"shop.{name}": ["id"] for name in tables},
    }

    def one(name):
        return {"id": 1, "name": name}

    topic.replicate(
        debezium(9, "spread", 100, 10, None, "d", before=one("a")),
        debezium(0, "spread", 200, 10, one("b"), "c", partition=1),
        debezium(10, "failover", 100, 10, one("a"), "c"),
        debezium(11, "failover", 200, 11, one("b")),
        debezium(12, "failover", 4, 30, one("c"), server=6),
        debezium(13, "cut", 300, 10, one("a"), "c"),
        **options,
    )
    topic.replicate(
        debezium(14, "failover", 100, 10, one("a"), "c"),
        debezium(15, "cut", 500, 20, None, "t"),
        debezium(16, "cut", 100, 5, None, "t"),
        **options,
    )
    assert [topic.names(name) for name in tables] == [{1: "b"}, {1: "c"}, {}]


def test_a_quarantined_table_is_reprocessed(topic, spark):
    codes = {"id": "int", "code": "int"}
    topic.replicate(canal(0, "INSERT", "coded", {"id": "1", "code": "5"}, codes))
    poison = [
        canal(1, "INSERT", "coded", {"id": "2", "code": "A5"}, {"id": "int", "code": "varchar(9)"}),
        canal(2, "INSERT", "keyless", {"a": "1"}, {"a": "int"}, pkNames=None),
        canal(3, "INSERT", "rekeyed", {"id": "1", "code": "5"}, codes),
        canal(4, "INSERT", "rekeyed", {"id": "2", "code": "5"}, codes, pkNames=["id", "code"]),
        canal(5, "INSERT", "zero", {"id": "1", "day": "0000-00-00"}, {"id": "int", "day": "date"}),
        canal(6, "INSERT", "good", row(1, "x")),
    ]
    for _ in range(2):
        topic.replicate(*poison, zero_date="error")
    assert topic.names("good") == {1: "x"}
    states = topic.states()
    assert {name for name, status in states.items() if status["state"] == "quarantined"} == {
        "coded",
        "keyless",
        "rekeyed",
    }
    assert "column code is int in the table and string in the messages" in states["coded"]["reason"]
    assert "no primary key" in states["keyless"]["reason"]
    assert states["zero"]["dead_letters"] == 2
    assert len(topic.read("dead")) == 1
    assert len(topic.read("dead_quarantine")) == 4
    with pytest.raises(ValueError, match=r"column code is int|declare \('id',\) and \('id', 'code'\)"):
        topic.replicate(*poison, zero_date="error", on_table_error="fail")
    # The causes are removed.
    for change in ("SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", "RENAME COLUMN code TO number"):
        spark.sql(f"ALTER TABLE {topic.sql_name('shop/coded')} {change}")
    for _ in range(2):
        topic.reprocess(zero_date="null", keys={"shop.keyless": ["a"], "shop.rekeyed": ["id"]})
    assert topic.rows("coded") == [{"id": 1, "number": 5, "code": None}, {"id": 2, "number": None, "code": "A5"}]
    assert topic.rows("zero") == [{"id": 1, "day": None}]
    assert [row["id"] for row in topic.rows("rekeyed")] == [1, 2]
    states = topic.states()
    assert {status["state"] for status in states.values()} == {"ok"}
    applied = {name: states[name]["applied"] for name in ("coded", "keyless", "rekeyed", "zero")}
    assert applied == {"coded": 2, "keyless": 1, "rekeyed": 2, "zero": 1}
    assert len(topic.waiting("dead_quarantine")) == 0


def test_a_row_that_waited_is_not_taken_for_old_if_partial_ones_are_newer(topic, spark):
    """The row's newer change lacks the columns that the older one has."""
    types = {"id": "int", "a": "int", "b": "int", "d": "date"}

    def inserted(at, table, key):
        return canal(at, "INSERT", table, {"id": key, "a": "1", "b": "1", "d": None}, types)

    def waits(at, table, key, **more):
        changed = {"id": key, "a": "5", **more, "d": "0000-00-00"}
        return canal(at, "UPDATE", table, changed, types, old={"a": "1"}, second=1)

    def newer(at, table, key, **more):
        return canal(at, "UPDATE", table, {"id": key, **more, "b": "7"}, types, old={"b": "1"}, second=2)

    whole = {"a": "5", "d": None}
    topic.replicate(
        *(inserted(at, "t", str(at + 1)) for at in range(3)),
        *(inserted(3 + at, table, "1") for at, table in enumerate(["later", "whole"])),
        *(waits(5, "t", "1"), waits(6, "t", "2"), newer(7, "t", "1")),
        *(waits(8, "t", "3", b="1"), newer(9, "t", "3")),
        *(waits(10, "whole", "1", b="1"), newer(11, "whole", "1", **whole)),
        zero_date="error",
    )
    topic.replicate(waits(12, "later", "1", b="1"), newer(13, "later", "1"), zero_date="error")
    for _ in range(2):
        topic.reprocess(zero_date="null")
        lacking = [{"id": key, "a": 1, "b": 7, "d": None} for key in (1, 3)]
        assert topic.rows("t") == [lacking[0], {"id": 2, "a": 5, "b": 1, "d": None}, lacking[1]]
        assert topic.rows("later") == lacking[:1]
        assert topic.rows("whole") == [{"id": 1, "a": 5, "b": 7, "d": None}]
        waiting = topic.waiting("dead")
        assert [one["offset"] for one in waiting] == [5, 8, 12]
        assert all("newer change" in one["reason"] for one in waiting)
        assert all(one["message"] for one in waiting)
    deleted = [("t", "1"), ("t", "3"), ("later", "1")]
    topic.replicate(
        *(canal(20 + at, "DELETE", table, {"id": key}, types, second=3) for at, (table, key) in enumerate(deleted))
    )
    topic.reprocess(zero_date="null")
    assert len(topic.waiting("dead")) == 0


NAMES = [
    "_towpath",
    "_op",
    "_row",
    "columns",
    "order",
    "key",
    "value",
    "offset",
    "a.b",
    "c`d",
    "备注 信息",
    "${user.home}",
]


@together
def test_columns_and_tables_may_have_any_name(topic):
    types = {"id": "int"} | dict.fromkeys(NAMES, "varchar(9)")
    cells = {"id": "1"} | {name: f"v{at}" for at, name in enumerate(NAMES)}
    changed = cells | {"value": "new"}
    yield [
        canal(0, "INSERT", "../../out", row(1, "x")),
        canal(1, "INSERT", "a%20b#c?:*[d]{e} `f", row(1, "x")),
        canal(2, "INSERT", "plain", row(1, "x")),
        canal(3, "INSERT", "named", cells, types),
        canal(4, "UPDATE", "named", changed, types, old={"value": cells["value"]}),
    ]
    assert topic.rows("named") == [changed | {"id": 1}]
    assert topic.tables("shop") == (
        ["a%20b#c?:*[d]{e} `f", "named", "plain"]
        if topic.catalog
        else ["%2E.%2F..%2Fout", "a%2520b%23c%3F:*[d]{e} `f", "named", "plain"]
    )
    # A catalog could make a path of it.
    assert (topic.states()["../../out"]["state"] == "quarantined") == bool(topic.catalog)
    # A column that is our own by name is added later, and one that differs in case only.
    yield [canal(5, "INSERT", "plain", {"ID": "2", "_TOWPATH": "y"}, {"ID": "int", "_TOWPATH": "varchar(9)"}, second=1)]
    assert topic.rows("plain") == [
        {"id": 1, "name": "x", "_TOWPATH": None},
        {"id": 2, "name": None, "_TOWPATH": "y"},
    ]


@together
def test_ddl_is_followed_or_the_target_is_stale(topic):
    def statement(at, sql, kind="ALTER", **more):
        return canal(at, kind, more.pop("table", "a"), None, None, sql=sql, second=at, **more)

    wide = {"id": "int", "y": "int", "z": "int"}
    yield [
        canal(0, "INSERT", "a", {"id": "1", "x": "5"}, {"id": "int", "x": "int"}),
        statement(1, "ALTER TABLE a RENAME COLUMN x TO y, ADD COLUMN z int DEFAULT 7"),
        canal(2, "INSERT", "a", {"id": "2", "y": "6", "z": "8"}, wide, second=2),
        canal(3, "INSERT", "b", row(1, "old"), second=3),
        statement(4, "DROP TABLE b", "ERASE", table="b"),
        statement(5, "CREATE TABLE b (id int PRIMARY KEY, name varchar(20))", "CREATE", table="b"),
        canal(6, "INSERT", "b", row(2, "new"), second=6),
        canal(7, "INSERT", "c", row(1, "x"), second=7),
        canal(8, "INSERT", "_c_gho", row(1, "x") | {"z": "9"}, TYPES | {"z": "int"}, second=8),
        statement(9, "RENAME TABLE c TO _c_del, _c_gho TO c", "RENAME", table="c"),
        canal(10, "INSERT", "d", row(1, "x"), second=10),
        statement(11, "ALTER TABLE d TRUNCATE PARTITION p1", table="d"),
    ]
    assert topic.rows("a") == [{"id": 1, "y": 5, "z": 7}, {"id": 2, "y": 6, "z": 8}]
    assert topic.names("b") == {2: "new"}
    assert topic.rows("c") == [{"id": 1, "name": "x", "z": 9}]
    # The copy of the ghost table is the table's target from now on.
    properties = topic.spark.sql(f"SHOW TBLPROPERTIES {topic.sql_name('shop/c')}").collect()
    assert {"towpath.source": f"{topic.database}.c"}.items() <= {one["key"]: one["value"] for one in properties}.items()
    states = topic.states()
    assert [name for name, status in states.items() if status["state"] == "stale"] == ["d"]
    assert "TRUNCATE PARTITION" in states["d"]["statement"]
    assert len(topic.read("ddl")) == 5
    # A table has one row of states, however many statements are between its changes.
    assert len(topic.read("status")) == len(states)
    assert (states["a"]["applied"], states["b"]["applied"], states["b"]["ignored_as_old"]) == (2, 1, 1)
    yield [
        canal(12, "INSERT", "d", row(2, "x"), second=12),
        statement(13, "ALTER TABLE d ADD COLUMN z int", table="d"),
        canal(14, "INSERT", "d", row(3, "x") | {"z": "1"}, TYPES | {"z": "int"}, second=14),
    ]
    after = topic.states()["d"]
    assert (after["applied"], after["state"], after["statement"]) == (3, "stale", states["d"]["statement"])


@together
def test_hostile_names_disable_no_folder_and_take_no_target(topic):
    yield [canal(0, "INSERT", "a", row(1, "x"))]
    hostile = [canal(at, "INSERT", name, row(1, "evil")) for at, name in enumerate(["_delta_log", "_Delta_Log"], 1)]
    yield [*hostile, canal(3, "INSERT", "a", row(2, "x"), second=1)]
    yield [canal(4, "INSERT", "a", row(3, "x"), second=2)]
    assert topic.names("a") == {1: "x", 2: "x", 3: "x"}
    assert topic.states()["a"]["state"] == "ok"
    # Another table of the same target, by a query that was started again.
    shared = topic.target.replace("{database}", topic.database).replace("{table}", "{database}_{table}")
    own = {name: topic.name(f"own_{name}") for name in topic.options}
    for at, database, table in ((5, "s_t", "u"), (6, "s", "t_u"), (7, "s_t", "u")):
        message = canal(at, "INSERT", table, row(at, database), second=at, database=database)
        towpath.spark.replicate(topic.frame(message), shared, "canal-json", **own)
    assert topic.names("s_t_u") == {5: "s_t", 7: "s_t"}
    states = {one["table"]: one["state"] for one in topic.read("own_status")}
    assert states == {"u": "ok", "t_u": "quarantined"}


@together.having(history=["shop.revived"])
def test_partial_rows_inherit_from_their_own_row_only(topic):
    types = {"id": "int", "a": "int", "b": "int"}
    whole, dated = {"id": "1", "a": "1", "b": "2"}, {"id": "int", "a": "int", "d": "date"}
    yield [
        canal(0, "INSERT", "again", whole, types),
        canal(1, "DELETE", "again", whole, types, second=1),
        canal(2, "INSERT", "again", {"id": "1", "a": "5"}, types, second=2),
        canal(3, "INSERT", "unknown", whole, types),
        canal(4, "UPDATE", "unknown", {"id": "2", "a": "5"}, types, old={"a": "4"}, second=1),
        canal(5, "INSERT", "bad_cell", {"id": "1", "d": None}, {"id": "int", "d": "date"}),
        canal(6, "DELETE", "bad_cell", {"id": "1", "d": "0000-00-00"}, {"id": "int", "d": "date"}, second=1),
        canal(7, "INSERT", "revived", {"id": "1", "a": "1", "d": None}, dated),
        canal(8, "DELETE", "revived", {"id": "1", "a": "1", "d": None}, dated, second=1),
        canal(9, "INSERT", "revived", {"id": "1", "a": "7", "d": "0000-00-00"}, dated, second=2),
        canal(10, "UPDATE", "revived", {"id": "1", "a": "8"}, dated, old={"a": "7"}, second=3),
    ]
    assert topic.rows("again") == [{"id": 1, "a": 5, "b": None}]
    assert topic.rows("unknown") == [{"id": 1, "a": 1, "b": 2}]
    assert topic.rows("bad_cell") == []
    assert topic.rows("revived") == []  # what it was before it was deleted says nothing about it
    assert [
        one["a"] for one in of_spark(towpath.spark.versions(topic.load("shop/revived__history"), ["id"]).collect())
    ] == [1]
    dead = topic.read("dead")
    assert [(one["table"], "only the changed columns" in one["reason"]) for one in dead] == [
        ("unknown", True),
        ("revived", False),
        ("revived", True),
    ]


def test_rows_that_a_worker_held_are_computed_again_when_it_ended(spark):
    attempts = []

    def count():
        attempts.append(1)
        with ExitStack() as held:
            frame = computed(spark.range(5), held, in_driver=False)
            frame.count()
            if len(attempts) < 3:
                held.close()  # frees what the workers hold, as their end does
            return frame.count()

    assert with_retries(count, is_lost) == 5
    assert len(attempts) == 3


@together
def test_a_statement_of_many_parts_is_no_burden(topic):
    names = [f"c{at}" for at in range(40)]
    added = ", ".join(f"ADD {name} int{' NOT NULL DEFAULT 5' if at % 3 == 0 else ''}" for at, name in enumerate(names))
    yield [canal(0, "INSERT", "a", row(1, "x")), canal(1, "INSERT", "t7", row(1, "x"))]
    version = topic.version("a")
    with patch.object(StatusTable, "tables", autospec=True, side_effect=StatusTable.tables) as read:
        yield [
            canal(2, "ALTER", "a", None, None, sql=f"ALTER TABLE a {added}", second=1),
            canal(3, "ERASE", "t7", None, None, sql=f"DROP TABLE {', '.join(f't{at}' for at in range(300))}", second=2),
            canal(4, "CREATE", "t7", None, None, sql="CREATE TABLE t7 (id int PRIMARY KEY)", second=3),
        ]
    assert read.call_count <= 5  # by all cases
    # The columns, their values, what is remembered, and the place of the statement.
    assert topic.version("a") - version <= 4
    values = {name: None if at % 3 else 5 for at, name in enumerate(names)}
    assert topic.rows("a") == [{"id": 1, "name": "x", **values}]
    assert topic.rows("t7") == []
    assert {status["state"] for status in topic.states().values()} == {"ok"}


def test_writers_that_create_a_table_at_the_same_time_lose_nothing(spark, tmp_path):
    """Tables that are quarantined in one batch do: the first of them create the quarantine."""
    writers = range(4)
    for attempt in range(2):
        path = str(tmp_path / f"aside{attempt}")

        def write(writer, path=path):
            append_once(spark.createDataFrame([(writer,)], "id int"), path, ("id",))

        with ThreadPoolExecutor(len(writers)) as pool:
            list(pool.map(write, writers))
        assert sorted(found["id"] for found in of_delta(path)) == list(writers)


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_table_that_another_writer_creates_is_waited_for(spark, tmp_path, with_rows):
    """A writer writes data files before the log, which nobody may take for a folder of other files."""
    complete, target = tmp_path / "complete", tmp_path / "target"
    rows = spark.range(1).toDF("id")
    assert create_with(spark, str(complete), rows, TableSettings())
    shutil.copytree(complete, target, ignore=shutil.ignore_patterns("_delta_log"))
    assert list(target.iterdir())
    commit = Timer(1.0, shutil.move, (complete / "_delta_log", target / "_delta_log"))
    commit.start()
    if with_rows:
        assert not create_with(spark, str(target), spark.range(5, 6).toDF("id"), TableSettings())
    else:
        create_or_evolve(spark, str(target), rows.schema)
    commit.join()
    assert [found["id"] for found in of_delta(str(target))] == [0]


def test_a_folder_with_other_files_is_no_table(spark, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(AnalysisException, match="DELTA_TABLE_NOT_FOUND"):
        append_once(spark.createDataFrame([(1,)], "id int"), str(tmp_path), ("id",))
    parquet = str(tmp_path / "parquet")
    rows = spark.range(1).toDF("id")
    rows.write.parquet(parquet)
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        create_with(spark, parquet, rows, TableSettings())
