"""Deletes of which Kafka has only the key: Debezium's rows without an envelope."""

import json
from itertools import count

import towpath
from lake_cases import Together
from lake_topic import Topic

COLUMNS = [
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
]
GIVEN = {"schemas": {"shop.t": "id int, name string"}, "keys": {"shop.t": ["id"]}}

together = Together(dialect="debezium-json", unwrapped=True)


def connect(name, columns, row):
    """A text of Connect's JSON converter with its schema part."""
    return json.dumps({"schema": {"type": "struct", "fields": columns, "name": name}, "payload": row}).encode()


def plain(row):
    return json.dumps(row).encode()


def with_schema(key, name=None, **more):
    """A record as ExtractNewRecordState leaves it: a row, or the tombstone of a deleted one."""
    row = name and connect("srv.shop.t.Value", COLUMNS, {"id": key, "name": name, **more})
    return connect("srv.shop.t.Key", COLUMNS[:1], {"id": key}), row


def without_schema(key, name=None):
    return plain({"id": key}), name and plain({"id": key, "name": name, "__table": "t", "__db": "shop"})


def numbered(*batches):
    """Batches of records in one partition."""
    offsets = count()
    return [
        [{"key": key, "value": value, "partition": 0, "offset": next(offsets)} for key, value in one] for one in batches
    ]


@together
def test_a_tombstone_deletes_the_row_of_its_key(topic):
    first, second, third = numbered(
        [*(with_schema(key, name) for key, name in enumerate("abc")), with_schema(1)],
        [with_schema(0), with_schema(7)],
        # A compacted topic keeps the tombstone; the row that follows it is newer.
        [with_schema(0), with_schema(0, "again")],
    )
    yield first
    assert topic.names("t") == {0: "a", 2: "c"}
    yield second
    assert topic.names("t") == {2: "c"}
    yield third
    assert topic.names("t") == {0: "again", 2: "c"}
    status = topic.states()["t"]
    assert (status["state"], status["dead_letters"]) == ("ok", 0)
    assert status["deleted"] == 3  # keys, as the count has them


@together
def test_a_table_may_begin_with_a_tombstone(topic):
    yield from numbered([with_schema(1)], [with_schema(1, "a"), with_schema(2, "b")])
    assert topic.names("t") == {1: "a", 2: "b"}


@together
def test_a_tombstone_after_a_delete_is_harmless(topic):
    deleted = with_schema(1, "a", __deleted="true")
    first, second, third = numbered(
        [with_schema(1, "a"), with_schema(2, "b"), deleted, with_schema(1), with_schema(1, "new")],
        [deleted, with_schema(1)],
        [with_schema(1, "newer")],
    )
    yield first
    assert topic.names("t") == {1: "new", 2: "b"}
    yield second
    assert topic.names("t") == {2: "b"}
    yield third
    assert topic.names("t") == {1: "newer", 2: "b"}


@together.having(**GIVEN)
def test_no_row_is_deleted_by_a_guess(topic):
    """Nothing names the table; another column, and no column, is not its key."""
    other = connect("srv.shop.t.Key", COLUMNS[1:], {"name": "a"}), None
    records = [without_schema(1), other, (b"1", None), (b"{}", None)]
    yield from numbered([without_schema(1, "a"), without_schema(2, "b"), *records])
    assert topic.names("t") == {1: "a", 2: "b"}
    dead = {one["offset"]: (one["table"], one["reason"]) for one in topic.read("dead")}
    assert dead.keys() == {2, 3, 4, 5}
    assert dead[2] == (None, "the message has no table name")
    assert dead[3][0] == "t"
    assert "lacks columns of the target's key" in dead[3][1]
    assert all("the deleted row is unknown" in dead[at][1] for at in (4, 5))


@together.having(keys={"shop.t": ["id", "name"]})
def test_a_delete_without_a_column_of_the_key_is_a_dead_letter(topic):
    yield from numbered([with_schema(1, "a"), with_schema(1)])
    assert topic.names("t") == {1: "a"}
    [dead] = topic.read("dead")
    assert (dead["message"], dead["offset"]) == (None, 1)


def test_tombstones_of_envelopes_are_ignored(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    source = {"db": "shop", "table": "t", "server_id": 5, "file": "bin.000007", "pos": 100, "connector": "mysql"}
    row = plain({"before": None, "after": {"id": 1, "name": "a"}, "op": "c", "source": source})
    [sent] = numbered([(plain({"id": 1}), row), with_schema(1), without_schema(1)])
    topic.replicate(*sent, dialect="debezium-json", schemas=GIVEN["schemas"])
    assert topic.names("t") == {1: "a"}


def test_apply_changes_deletes_by_key(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    nameless = [(plain({"id": key}), plain({"id": key, "name": name})) for key, name in enumerate("ab")]
    wanted = {
        "layout": "upsert",
        "key": "key",
        "unwrapped": True,
        "keep": ["topic", "partition", "offset", "timestamp"],
    }
    [sent] = numbered([*nameless, without_schema(0), without_schema(1), nameless[0]])
    changes = towpath.spark.decode(topic.frame(*sent), "debezium-json", "id int, name string", **wanted)
    towpath.spark.apply_changes(changes, topic.name("shop/t"), keys=["id"])
    assert topic.names("t") == {0: "a"}


def test_a_tombstone_with_a_key_in_avro(spark, tmp_path):
    """Numbers below 64 are a byte with the double value, and so are the lengths of short texts."""
    columns = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    schemas = {
        number: json.dumps({"type": "record", "name": f"srv.shop.t.{name}", "fields": fields})
        for number, name, fields in ((1, "Value", columns), (2, "Key", columns[:1]))
    }

    def record(key, name=None):
        row = name and b"\0\0\0\0\x01" + bytes([2 * key, 2 * len(name)]) + name.encode()
        return b"\0\0\0\0\x02" + bytes([2 * key]), row

    topic = Topic(spark, tmp_path)
    options = {"dialect": "debezium-avro", "unwrapped": True, "writer_schemas": schemas, "keys": GIVEN["keys"]}
    records = [record(1, "a"), record(2, "b"), record(1), record(2), record(2, "again"), record(9)]
    topic.replicate(*numbered(records)[0], **options)
    assert topic.names("t") == {2: "again"}
    assert topic.states()["t"]["state"] == "ok"
