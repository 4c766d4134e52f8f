"""Debezium's messages of PostgreSQL, SQL Server and Oracle: values that are not logged, and tables of schemas."""

import logging
from functools import partial

import pytest

import towpath
from debezium_records import record, row_of, schema_change
from lake_cases import Together
from lake_topic import Topic, canal, row

COLUMNS = "id int, a string, b string"
TOAST = "__debezium_unavailable_value"

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


def rows_of(spark, text):
    return spark.createDataFrame([(1, text, "b"), (2, text, "b")], COLUMNS)


def values_that_are_not_logged(topic, declared):
    def sent(at, op, key, a, b):
        return record(at, op, {"id": key, "a": a, "b": b}, declared=declared)

    yield [sent(0, "c", 1, "large", "x"), sent(1, "c", 2, "other", "x")]
    yield [sent(2, "u", 1, TOAST, "y"), sent(3, "u", 2, TOAST, "y"), sent(4, "u", 2, "new", "z")]
    assert topic.rows("t") == [{"id": 1, "a": "large", "b": "y"}, {"id": 2, "a": "new", "b": "z"}]
    # Both in one batch: the second inherits from the first.
    yield [sent(5, "u", 1, "newer", "z"), sent(6, "u", 1, TOAST, None)]
    assert topic.rows("t") == [{"id": 1, "a": "newer", "b": None}, {"id": 2, "a": "new", "b": "z"}]
    assert topic.states()["t"]["state"] == "ok"


@together
def test_a_value_that_is_not_logged_stays(topic):
    yield from values_that_are_not_logged(topic, declared=True)


@together.having(schemas={"shop.t": COLUMNS})
def test_a_value_that_is_not_logged_stays_without_schema_parts(topic):
    yield from values_that_are_not_logged(topic, declared=False)


@together
def test_a_value_that_a_new_key_hides_is_a_dead_letter(topic):
    """Debezium writes an update of the key as a delete and an insert, which has a placeholder for the large value."""
    yield [record(0, "c", {"id": 1, "a": "large", "b": "x"}), record(1, "c", {"id": 2, "a": "large", "b": "x"})]
    for at, (old, new) in enumerate([(1, 11), (2, 12)]):
        moved = {"id": new, "a": TOAST if new == 11 else "known", "b": "x"}
        yield [record(2 + 2 * at, "d", {"id": old, "a": "", "b": ""}), record(3 + 2 * at, "c", moved)]
    assert topic.rows("t") == [{"id": 12, "a": "known", "b": "x"}]
    assert topic.states()["t"]["dead_letters"] == 1


@together
def test_tables_of_two_schemas_do_not_mix(topic):
    """In one batch, in batches of their own, and with the same keys."""
    yield [
        record(0, "c", row_of(1, "public")),
        record(1, "c", row_of(1, "sales"), schema="sales"),
        record(2, "c", row_of(2, "sales"), schema="sales"),
        record(3, "c", row_of(2, "public")),
        record(4, "d", row_of(2, None)),
    ]
    assert content(topic, "t") == {1: "public"}
    assert content(topic, "sales.t") == {1: "sales", 2: "sales"}
    yield [record(5, "u", row_of(1, "new"), schema="sales")]
    yield [record(6, "d", row_of(1, None))]
    assert content(topic, "t") == {}
    assert content(topic, "sales.t") == {1: "new", 2: "sales"}
    assert topic.state_of() == {"t": "ok", "sales.t": "ok"}


@together.having(keys={"shop.t": ["id"], "shop.sales.t": ["id"]})
def test_one_message_with_tables_of_two_schemas(topic):
    both = [record(0, "c", row_of(1, "public")), record(1, "c", row_of(1, "sales"), schema="sales")]
    yield [{**both[0], "value": b"[" + b",".join(one["value"] for one in both) + b"]"}]
    assert content(topic, "t") == {1: "public"}
    assert content(topic, "sales.t") == {1: "sales"}


@together.having(schemas={"shop.t": COLUMNS, "shop.public.t": COLUMNS})
def test_schemas_without_declared_types_and_the_default_one_of_sql_server(topic):
    yield [
        record(at, "c", row_of(1, schema), declared=False, schema=schema, connector="sqlserver")
        for at, schema in enumerate(["dbo", "public"])
    ]
    assert content(topic, "t") == {1: "dbo"}
    assert content(topic, "public.t") == {1: "public"}


@together.having(columns={"shop.t": {"mask": {"a": "'***'"}}, "shop.sales.t": {"exclude": ["b"]}})
def test_a_mask_holds_in_each_schema(topic):
    """Rules with the schema are added to those without it."""
    yield [record(at, "c", row_of(1, "secret"), schema=schema) for at, schema in enumerate(["public", "sales", "hr"])]
    assert topic.rows("t") == topic.rows("hr.t") == [{"id": 1, "a": "***", "b": None}]
    assert topic.rows("sales.t") == [{"id": 1, "a": "***"}]


def test_snapshots_of_two_schemas(topic, spark):
    """What arguments say about the name without a schema holds for all, and a mask in any case.

    A database with a dot is in backticks.
    """
    given = {name: partial(rows_of, spark, name) for name in ("shop.t", "shop.sales.t", "shop.eu.t", "`shop.eu`.t")}
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
    assert topic.state_of() == {"t": "ok", "sales.t": "ok", "eu.t": "ok"}
    assert topic.tables("shop.eu") == ["t"]
    assert content(topic, "eu.t") == {1: "shop.eu.t", 2: "shop.eu.t"}
    source = spark.sql(f"SHOW TBLPROPERTIES {topic.sql_name('shop/sales.t')}").filter("key = 'towpath.source'")
    assert source.collect()[0]["value"] == "shop.`sales.t`"


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
    assert topic.state_of() == {"t": "ok", "sales.t": "ok"}


@pytest.mark.soak
def test_an_altered_table_makes_no_other_one_stale(delta):
    """Neither one that is rebuilt from the same messages, nor one that is not replicated."""
    change = schema_change(2, ("ALTER", '"shop"."dbo"."t"'), sql="x", partition=0)
    messages = [of_server(0, "c", row_of(1, "sales"), "sales"), of_server(1, "c", row_of(1, "dbo")), change]
    only = {"shop.sales.t": delta.name("shop/sales.t")}
    towpath.spark.replicate(delta.frame(*messages), only, "debezium-json", **delta.options)
    assert delta.state_of() == {"sales.t": "ok"}
    status = {"status": delta.options["status"]}
    towpath.spark.rebuild(delta.frame(*messages), "shop.sales.t", delta.target, "debezium-json", **status)
    assert delta.state_of() == {"sales.t": "ok"}
    assert content(delta, "sales.t") == {1: "sales"}
    # The same for statements of MySQL.
    statement = canal(0, "ALTER", "b", sql="ALTER TABLE b TRUNCATE PARTITION p1")
    rows = [canal(1, "INSERT", "a", row(1, "x"))]
    delta.replicate(*rows)
    towpath.spark.rebuild(delta.frame(statement, *rows), "shop.a", delta.target, "canal-json", **status)
    assert delta.state_of() == {"sales.t": "ok", "a": "ok"}


@pytest.mark.soak
def test_reprocess_of_one_of_two_tables(delta, spark):
    """From the quarantine, and dead letters of rows."""
    sent = [
        record(at, "c", row_of(at, "0000-00-00"), schema=schema, declared=False)
        for at, schema in enumerate(("sales", "public", "sales"))
    ]
    replicate(delta, *sent)
    assert delta.state_of() == {"t": "quarantined", "sales.t": "quarantined"}
    reprocess = partial(delta.reprocess, schemas={"shop.t": "id int, a date, b string"})
    reprocess(tables=["shop.sales.t"], zero_date="error")
    assert delta.state_of() == {"t": "quarantined", "sales.t": "ok"}
    dead = delta.load("dead").filter("done_at IS NULL").select("database", "table").collect()
    assert [tuple(one) for one in dead] == [("shop", "sales.t")] * 2
    assert not (delta.lake / "shop" / "t").exists()
    reprocess(zero_date="null")
    assert content(delta, "sales.t") == {0: None, 2: None}
    assert content(delta, "t") == {1: None}
    assert delta.state_of() == {"t": "ok", "sales.t": "ok"}


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
    assert topic.state_of() == {"t": "dropped", "sales.t": "stale"}


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
    assert topic.state_of() == {"t": "ok", "sales.t": "ok"}


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
    assert topic.state_of() == {"t": "ok", of_shop: "ok", "sales.t": "stale", "hr.t": "ok"}
    assert topic.states()["sales.t"]["statement"] == sql.replace("shop", topic.database)
    assert content(topic, "t") == {1: "default"}
    assert "c" not in topic.load(f"shop/{of_shop}").columns
    # Nothing is listed: the table of the message.
    yield [change(5, schema="hr")]
    assert topic.state_of() == {"t": "ok", of_shop: "ok", "sales.t": "stale", "hr.t": "stale"}
    yield [change(6, sql="TRUNCATE TABLE shop.t", schema="sales")]
    assert [content(topic, name) for name in ("sales.t", "t", of_shop)] == [{}, {1: "default"}, {1: topic.database}]


@together
def test_both_names_of_a_renamed_table_are_stale(topic):
    yield [of_oracle(0, row_of(1, "x"), "sales")]
    change = schema_change(1, ("ALTER", '"shop"."sales"."new"'), schema="sales", connector="oracle", table="new")
    former = b'"type": "ALTER", "previousId": "\\"shop\\".\\"sales\\".\\"t\\""'
    yield [{**change, "value": change["value"].replace(b'"type": "ALTER"', former)}]
    assert topic.state_of() == {"sales.t": "stale", "sales.new": "stale"}


def test_a_statement_that_names_no_table_is_logged(delta, caplog):
    with caplog.at_level(logging.WARNING, logger="towpath.spark"):
        replicate(delta, schema_change(0, sql="ALTER TABLE t ADD c NUMBER", table=None, connector="oracle"))
    [said] = [one.getMessage() for one in caplog.records]
    assert said.startswith("a statement without a table name is not followed: the statement is not MySQL")
    assert said.endswith("ALTER TABLE t ADD c NUMBER")
    assert [one["sql"] for one in delta.read("ddl")] == ["ALTER TABLE t ADD c NUMBER"]
