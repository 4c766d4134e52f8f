"""Tables outside of the default schema: snapshots, rebuild, reprocess, and schema changes of SQL Server and Oracle."""

import logging
from functools import partial

import pytest

import towpath
from debezium_records import record, row_of, schema_change
from lake_cases import Together
from lake_topic import Topic, canal, row

COLUMNS = "id int, a string, b string"

together = Together(dialect="debezium-json")
in_soak = Together(marks=[pytest.mark.soak], dialect="debezium-json")


@pytest.fixture(params=[None, pytest.param("ice", marks=pytest.mark.soak)], ids=["delta", "iceberg"])
def topic(spark, tmp_path, request):
    return Topic(spark, tmp_path, request.param)


@pytest.fixture
def delta(spark, tmp_path):
    return Topic(spark, tmp_path)


def replicate(topic, *messages, **options):
    topic.replicate(*messages, dialect="debezium-json", **options)


def content(topic, table):
    return {one["id"]: one["a"] for one in topic.rows(table)}


def states(topic):
    return {name: one["state"] for name, one in topic.states().items()}


def rows_of(spark, text):
    return spark.createDataFrame([(1, text, "b"), (2, text, "b")], COLUMNS)


def test_snapshots_of_two_schemas(topic, spark):
    """What arguments say about the name without a schema holds for both, and a mask in any case."""
    given = {name: partial(rows_of, spark, name) for name in ("shop.t", "shop.sales.t")}
    options = {
        "snapshots": given,
        "schemas": {"shop.t": "id bigint, a string, b string"},
        "keys": {"shop.t": ["id"]},
        "columns": {"shop.t": {"mask": {"b": "'***'"}}, "shop.sales.t": {"mask": {"a": "upper(value)"}}},
    }
    changes = [record(0, "u", row_of(1, "new"), schema="sales"), record(1, "d", row_of(2, None))]
    replicate(topic, *changes, **options)
    assert topic.rows("t") == [{"id": 1, "a": "shop.t", "b": "***"}]
    assert topic.rows("sales.t") == [{"id": 1, "a": "NEW", "b": "***"}, {"id": 2, "a": "SHOP.SALES.T", "b": "***"}]
    assert topic.load("shop/sales.t").schema["id"].dataType.simpleString() == "bigint"
    assert states(topic) == {"t": "ok", "sales.t": "ok"}
    source = spark.sql(f"SHOW TBLPROPERTIES {topic.sql_name('shop/sales.t')}").filter("key = 'towpath.source'")
    assert source.collect()[0]["value"] == "shop.`sales.t`"


def test_a_database_with_a_dot_is_in_backticks(delta, spark):
    delta.replicate(snapshots={"`shop.eu`.t": rows_of(spark, "x"), "shop.eu.t": rows_of(spark, "y")})
    assert delta.tables("shop.eu") == ["t"]
    assert content(delta, "eu.t") == {1: "y", 2: "y"}


@pytest.mark.soak
def test_rebuild_of_one_of_two_tables(topic, spark):
    name = "shop.sales.t" if topic.catalog else ("shop", "sales.t")  # both forms, on one format each
    messages = [
        record(0, "c", row_of(1, "sales"), schema="sales"),
        record(1, "c", row_of(1, "public")),
        record(2, "c", row_of(2, "sales"), schema="sales"),
    ]
    replicate(topic, *messages)
    for table in ("t", "sales.t"):
        spark.sql(f"DELETE FROM {topic.sql_name(f'shop/{table}')}")
    rebuild = partial(towpath.spark.rebuild, source_table=name, target=topic.target, dialect="debezium-json")
    rebuild = partial(rebuild, status=topic.options["status"])
    rebuild(topic.frame(*messages))
    assert content(topic, "sales.t") == {1: "sales", 2: "sales"}
    assert content(topic, "t") == {}
    rebuild(topic.frame(messages[2]), snapshot=rows_of(spark, "snapshot"), columns={"mask": {"b": "'***'"}})
    assert topic.rows("sales.t") == [{"id": 1, "a": "snapshot", "b": "***"}, {"id": 2, "a": "sales", "b": "***"}]
    assert content(topic, "t") == {}
    assert states(topic) == {"t": "ok", "sales.t": "ok"}


@pytest.mark.soak
def test_an_altered_table_makes_no_other_one_stale(delta):
    """Neither one that is rebuilt from the same messages, nor one that is not replicated."""
    change = schema_change(2, ("ALTER", '"shop"."dbo"."t"'), sql="x", partition=0)
    messages = [of_server(0, "c", row_of(1, "sales"), "sales"), of_server(1, "c", row_of(1, "dbo")), change]
    only = {"shop.sales.t": delta.name("shop/sales.t")}
    towpath.spark.replicate(delta.frame(*messages), only, "debezium-json", **delta.options)
    assert states(delta) == {"sales.t": "ok"}
    status = {"status": delta.options["status"]}
    towpath.spark.rebuild(delta.frame(*messages), "shop.sales.t", delta.target, "debezium-json", **status)
    assert states(delta) == {"sales.t": "ok"}
    assert content(delta, "sales.t") == {1: "sales"}
    # The same for statements of MySQL.
    statement = canal(0, "ALTER", "b", sql="ALTER TABLE b TRUNCATE PARTITION p1")
    rows = [canal(1, "INSERT", "a", row(1, "x"))]
    delta.replicate(*rows)
    towpath.spark.rebuild(delta.frame(statement, *rows), "shop.a", delta.target, "canal-json", **status)
    assert states(delta) == {"sales.t": "ok", "a": "ok"}


@pytest.mark.soak
def test_reprocess_of_one_of_two_tables(delta, spark):
    """From the quarantine, and dead letters of rows."""
    sent = [
        record(at, "c", row_of(at, "0000-00-00"), schema=schema, declared=False)
        for at, schema in enumerate(("sales", "public", "sales"))
    ]
    replicate(delta, *sent)
    assert states(delta) == {"t": "quarantined", "sales.t": "quarantined"}
    own = {name: delta.options[name] for name in ("dead_letters", "status")}
    reprocess = partial(towpath.spark.reprocess, spark, **own, schemas={"shop.t": "id int, a date, b string"})
    reprocess(tables=["shop.sales.t"], zero_date="error")
    assert states(delta) == {"t": "quarantined", "sales.t": "ok"}
    dead = delta.load("dead").filter("done_at IS NULL").select("database", "table").collect()
    assert [tuple(one) for one in dead] == [("shop", "sales.t")] * 2
    assert not (delta.lake / "shop" / "t").exists()
    reprocess(zero_date="null")
    assert content(delta, "sales.t") == {0: None, 2: None}
    assert content(delta, "t") == {1: None}
    assert states(delta) == {"t": "ok", "sales.t": "ok"}


def of_server(at, op, row, schema="dbo"):
    return record(at, op, row, schema=schema, connector="sqlserver")


def changes_of_sql_server(topic, partition):
    """They have no statement, and name tables of two schemas."""
    change = partial(schema_change, partition=partition)
    yield [of_server(0, "c", row_of(1, "x")), of_server(1, "c", row_of(1, "x"), "sales")]
    yield [change(2, ("ALTER", '"shop"."sales"."t"'), schema="sales")]
    found = topic.states()
    assert found["t"]["state"] == "ok"
    assert found["sales.t"]["state"] == "stale"
    assert found["sales.t"]["statement"] == f'ALTER "{topic.database}"."sales"."t"'
    assert "the table was altered" in found["sales.t"]["reason"]
    yield [change(3, ("DROP", '"shop"."dbo"."t"')), change(4, ("CREATE", '"shop"."dbo"."t"'))]
    assert content(topic, "t") == {}
    assert content(topic, "sales.t") == {1: "x"}
    yield [of_server(5, "c", row_of(2, "y")), change(6, ("DROP", '"shop"."dbo"."t"'))]
    assert content(topic, "t") == {2: "y"}
    assert states(topic) == {"t": "dropped", "sales.t": "stale"}


@together
def test_schema_changes_of_sql_server(topic):
    yield from changes_of_sql_server(topic, partition=0)


@in_soak
def test_schema_changes_of_sql_server_in_a_topic_of_their_own(topic):
    yield from changes_of_sql_server(topic, partition=1)


@together
def test_the_schema_changes_of_a_first_snapshot(topic):
    """They create the tables whose rows follow."""
    created = [
        schema_change(at, ("CREATE", f'"shop"."{schema}"."t"'), schema=schema)
        for at, schema in enumerate(("dbo", "sales"))
    ]
    yield [*created, of_server(2, "r", row_of(1, "x")), of_server(3, "r", row_of(1, "x"), "sales")]
    assert states(topic) == {"t": "ok", "sales.t": "ok"}


def of_oracle(at, row, schema):
    return record(at, "c", row, schema=schema, connector="oracle")


@in_soak
def test_a_statement_of_oracle_is_not_read_as_one_of_mysql(topic):
    """Its schema would be taken for a database, and a name without one for a table of another schema."""
    of_shop = f"{topic.database}.t"  # of the schema with the name of the database
    yield [
        *(of_oracle(at, row_of(1, schema), schema) for at, schema in enumerate(["shop", "sales", "hr"])),
        {**record(3, "c", row_of(1, "default"), schema=None, connector="mysql")},
    ]
    sql = 'ALTER TABLE shop.t ADD c int DEFAULT 5; DROP TABLE "t"; TRUNCATE TABLE t'
    change = partial(schema_change, sql=sql, schema="sales", connector="oracle", partition=0)
    yield [change(4, ("ALTER", '"shop"."sales"."t"'))]
    assert states(topic) == {"t": "ok", of_shop: "ok", "sales.t": "stale", "hr.t": "ok"}
    assert topic.states()["sales.t"]["statement"] == sql.replace("shop", topic.database)
    assert content(topic, "t") == {1: "default"}
    assert "c" not in topic.load(f"shop/{of_shop}").columns
    # Nothing is listed: the table of the message.
    yield [change(5, schema="hr")]
    assert states(topic) == {"t": "ok", of_shop: "ok", "sales.t": "stale", "hr.t": "stale"}
    yield [change(6, sql="TRUNCATE TABLE shop.t", schema="sales")]
    assert [content(topic, name) for name in ("sales.t", "t", of_shop)] == [{}, {1: "default"}, {1: topic.database}]


@together
def test_both_names_of_a_renamed_table_are_stale(topic):
    yield [of_oracle(0, row_of(1, "x"), "sales")]
    change = schema_change(1, ("ALTER", '"shop"."sales"."new"'), schema="sales", connector="oracle", table="new")
    former = b'"type": "ALTER", "previousId": "\\"shop\\".\\"sales\\".\\"t\\""'
    yield [{**change, "value": change["value"].replace(b'"type": "ALTER"', former)}]
    assert states(topic) == {"sales.t": "stale", "sales.new": "stale"}


def test_a_statement_that_names_no_table_is_logged(delta, caplog):
    with caplog.at_level(logging.WARNING, logger="towpath.spark"):
        replicate(delta, schema_change(0, sql="ALTER TABLE t ADD c NUMBER", table=None, connector="oracle"))
    [said] = [one.getMessage() for one in caplog.records]
    assert said.startswith("a statement that names no table is not followed: the statement is not one of MySQL")
    assert said.endswith("ALTER TABLE t ADD c NUMBER")
    assert [one["sql"] for one in delta.load("ddl").collect()] == ["ALTER TABLE t ADD c NUMBER"]
