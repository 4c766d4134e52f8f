"""Debezium's messages of PostgreSQL in targets."""

from debezium_records import record, row_of
from lake_cases import Together

TOAST = "__debezium_unavailable_value"
COLUMNS = "id int, a string, b string"

together = Together(dialect="debezium-json")


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


def content(topic, table):
    return {one["id"]: one["a"] for one in topic.rows(table)}


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
    assert {name: one["state"] for name, one in topic.states().items()} == {"t": "ok", "sales.t": "ok"}


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
