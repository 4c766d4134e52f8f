"""Debezium's messages of PostgreSQL in targets."""

import json

import pytest

from lake_topic import Topic

TOAST = "__debezium_unavailable_value"
FIELDS = [{"field": "id", "type": "int32"}, *({"field": name, "type": "string", "optional": True} for name in "ab")]
IMAGES = [{"field": image, "type": "struct", "optional": True, "fields": FIELDS} for image in ("before", "after")]


@pytest.fixture
def topic(spark, tmp_path):
    return Topic(spark, tmp_path)


def record(at, op, row, *, declared=True):
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "t", "lsn": at}
    image = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    message = {**image, "source": source, "op": op, "ts_ms": 1_700_000_000_000 + at}
    if declared:
        message = {"schema": {"type": "struct", "fields": IMAGES}, "payload": message}
    return {
        "key": json.dumps({"id": row["id"]}).encode(),
        "value": json.dumps(message, separators=(",", ":")).encode(),
        "partition": 0,
        "offset": at,
    }


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
