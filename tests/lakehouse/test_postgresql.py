"""Debezium's messages of PostgreSQL in targets."""

import pytest

from debezium_records import record, row_of
from lake_topic import Topic

TOAST = "__debezium_unavailable_value"


@pytest.fixture
def topic(spark, tmp_path):
    return Topic(spark, tmp_path)


@pytest.mark.parametrize("declared", [True, False], ids=["schema part", "no schema part"])
def test_a_value_that_is_not_logged_stays(topic, declared):
    more = (
        {"dialect": "debezium-json"}
        if declared
        else {"dialect": "debezium-json", "schemas": {"shop.t": "id int, a string, b string"}}
    )

    def sent(at, op, key, a, b):
        return record(at, op, {"id": key, "a": a, "b": b}, declared=declared)

    topic.replicate(sent(0, "c", 1, "large", "x"), sent(1, "c", 2, "other", "x"), **more)
    topic.replicate(sent(2, "u", 1, TOAST, "y"), sent(3, "u", 2, TOAST, "y"), sent(4, "u", 2, "new", "z"), **more)
    assert topic.rows("t") == [{"id": 1, "a": "large", "b": "y"}, {"id": 2, "a": "new", "b": "z"}]
    # Both in one batch: the second inherits from the first.
    topic.replicate(sent(5, "u", 1, "newer", "z"), sent(6, "u", 1, TOAST, None), **more)
    assert topic.rows("t") == [{"id": 1, "a": "newer", "b": None}, {"id": 2, "a": "new", "b": "z"}]
    assert topic.states()["t"]["state"] == "ok"


def content(topic, table):
    return {one["id"]: one["a"] for one in topic.rows(table)}


@pytest.mark.parametrize("merge", ["auto", "spark"])
def test_tables_of_two_schemas_do_not_mix(topic, merge):
    """In one batch, in batches of their own, and with the same keys."""
    sent = [
        record(0, "c", row_of(1, "public")),
        record(1, "c", row_of(1, "sales"), schema="sales"),
        record(2, "c", row_of(2, "sales"), schema="sales"),
        record(3, "c", row_of(2, "public")),
        record(4, "d", row_of(2, None)),
    ]
    topic.replicate(*sent, dialect="debezium-json", merge=merge)
    assert content(topic, "t") == {1: "public"}
    assert content(topic, "sales.t") == {1: "sales", 2: "sales"}
    topic.replicate(record(5, "u", row_of(1, "new"), schema="sales"), dialect="debezium-json", merge=merge)
    topic.replicate(record(6, "d", row_of(1, None)), dialect="debezium-json", merge=merge)
    assert content(topic, "t") == {}
    assert content(topic, "sales.t") == {1: "new", 2: "sales"}
    states = topic.states()
    assert {name: one["state"] for name, one in states.items()} == {"t": "ok", "sales.t": "ok"}


def test_one_message_with_tables_of_two_schemas(topic):
    both = [record(0, "c", row_of(1, "public")), record(1, "c", row_of(1, "sales"), schema="sales")]
    joined = {**both[0], "value": b"[" + b",".join(one["value"] for one in both) + b"]"}
    topic.replicate(joined, dialect="debezium-json", keys={"shop.t": ["id"], "shop.sales.t": ["id"]})
    assert content(topic, "t") == {1: "public"}
    assert content(topic, "sales.t") == {1: "sales"}


def test_schemas_without_declared_types_and_the_default_one_of_sql_server(topic):
    given = {"shop.t": "id int, a string, b string", "shop.public.t": "id int, a string, b string"}
    sent = [
        record(at, "c", row_of(1, schema), declared=False, schema=schema, connector="sqlserver")
        for at, schema in enumerate(["dbo", "public"])
    ]
    topic.replicate(*sent, dialect="debezium-json", schemas=given)
    assert content(topic, "t") == {1: "dbo"}
    assert content(topic, "public.t") == {1: "public"}


def test_a_mask_holds_in_each_schema(topic):
    """Rules with the schema are added to those without it."""
    rules = {"shop.t": {"mask": {"a": "'***'"}}, "shop.sales.t": {"exclude": ["b"]}}
    sent = [record(at, "c", row_of(1, "secret"), schema=schema) for at, schema in enumerate(["public", "sales", "hr"])]
    topic.replicate(*sent, dialect="debezium-json", columns=rules)
    assert topic.rows("t") == topic.rows("hr.t") == [{"id": 1, "a": "***", "b": None}]
    assert topic.rows("sales.t") == [{"id": 1, "a": "***"}]
