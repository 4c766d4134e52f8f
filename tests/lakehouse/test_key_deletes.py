"""Deletes of which Kafka has only the key: Debezium's rows without an envelope."""

import json
from itertools import count

import pytest

import towpath
from lake_cases import WAYS
from spark_rows import of_spark

COLUMNS = [
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
]
KAFKA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"


def connect(name, columns, row):
    """A text of Connect's JSON converter with its schema part."""
    return json.dumps({"schema": {"type": "struct", "fields": columns, "name": name}, "payload": row}).encode()


def plain(row):
    return json.dumps(row).encode()


def with_schema(key, name=None, *, table="t", **more):
    """A record as ExtractNewRecordState leaves it: a row, or the tombstone of a deleted one."""
    row = name and connect(f"srv.shop.{table}.Value", COLUMNS, {"id": key, "name": name, **more})
    return connect(f"srv.shop.{table}.Key", COLUMNS[:1], {"id": key}), row


def without_schema(key, name=None, **more):
    return plain({"id": key}), name and plain({"id": key, "name": name, "__table": "t", "__db": "shop", **more})


class Topic:
    """A topic of one partition, and what replicate makes of it."""

    def __init__(self, spark, folder, **options):
        self.spark, self.folder, self.options, self.offsets = spark, folder, options, count()

    def frame(self, records):
        rows = [(key, value, "srv.shop.t", 0, next(self.offsets), None) for key, value in records]
        return self.spark.createDataFrame(rows, KAFKA)

    def replicate(self, *records, **options):
        towpath.spark.replicate(
            self.frame(records),
            f"{self.folder}/{{table}}",
            dead_letters=self.path("dead"),
            status=self.path("status"),
            **{"dialect": "debezium-json", "unwrapped": True, **self.options, **options},
        )
        return self.rows("t")

    def path(self, name):
        return str(self.folder / name)

    def read(self, name):
        return of_spark(self.spark.read.format("delta").load(self.path(name)).collect())

    def rows(self, name):
        return {row["id"]: row["name"] for row in self.read(name)}


@pytest.mark.parametrize("merge", WAYS)
def test_a_tombstone_deletes_the_row_of_its_key(spark, tmp_path, merge):
    topic = Topic(spark, tmp_path, merge=merge)
    a, b, c = (with_schema(key, name) for key, name in enumerate("abc"))
    assert topic.replicate(a, b, c, with_schema(1)) == {0: "a", 2: "c"}
    assert topic.replicate(with_schema(0), with_schema(7)) == {2: "c"}
    # A compacted topic keeps the tombstone; the row that follows it is newer.
    assert topic.replicate(with_schema(0), with_schema(0, "again")) == {0: "again", 2: "c"}
    [status] = topic.read("status")
    assert (status["table"], status["state"], status["dead_letters"]) == ("t", "ok", 0)
    assert status["deleted"] == 3  # keys, as the count has them


def test_a_table_may_begin_with_a_tombstone(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    towpath.spark.replicate(topic.frame([with_schema(1)]), f"{tmp_path}/{{table}}", "debezium-json", unwrapped=True)
    assert topic.replicate(with_schema(1, "a"), with_schema(2, "b")) == {1: "a", 2: "b"}


def test_a_tombstone_after_a_delete_is_harmless(spark, tmp_path):
    topic = Topic(spark, tmp_path)
    deleted = with_schema(1, "a", __deleted="true")
    records = [with_schema(1, "a"), with_schema(2, "b"), deleted, with_schema(1), with_schema(1, "new")]
    assert topic.replicate(*records) == {1: "new", 2: "b"}
    assert topic.replicate(deleted, with_schema(1)) == {2: "b"}
    assert topic.replicate(with_schema(1, "newer")) == {1: "newer", 2: "b"}


def test_tombstones_of_envelopes_are_ignored(spark, tmp_path):
    topic = Topic(spark, tmp_path, unwrapped=False, schemas={"shop.t": "id int, name string"})
    source = {"db": "shop", "table": "t", "server_id": 5, "file": "bin.000007", "pos": 100, "connector": "mysql"}
    row = plain({"before": None, "after": {"id": 1, "name": "a"}, "op": "c", "source": source})
    assert topic.replicate((plain({"id": 1}), row), with_schema(1), without_schema(1)) == {1: "a"}


def test_no_row_is_deleted_by_a_guess(spark, tmp_path):
    topic = Topic(spark, tmp_path, schemas={"shop.t": "id int, name string"}, keys={"shop.t": ["id"]})
    rows = [without_schema(1, "a"), without_schema(2, "b")]
    # Nothing names the table; another column, and no column, is not its key.
    other = connect("srv.shop.t.Key", COLUMNS[1:], {"name": "a"}), None
    records = [without_schema(1), other, (b"1", None), (b"{}", None)]
    assert topic.replicate(*rows, *records) == {1: "a", 2: "b"}
    dead = {bytes(row["key"]): (row["table"], row["reason"]) for row in topic.read("dead")}
    assert dead.keys() == {key for key, _ in records}
    assert dead[records[0][0]] == (None, "the message names no table")
    assert dead[other[0]][0] == "t"
    assert "the message has not all columns of the target's key" in dead[other[0]][1]
    assert all("which row is deleted is not known" in dead[key][1] for key in (b"1", b"{}"))


@pytest.mark.parametrize("merge", WAYS)
def test_a_delete_without_a_column_of_the_key_is_a_dead_letter(spark, tmp_path, merge):
    topic = Topic(spark, tmp_path, merge=merge, keys={"shop.t": ["id", "name"]})
    assert topic.replicate(with_schema(1, "a"), with_schema(1)) == {1: "a"}
    [dead] = topic.read("dead")
    assert (dead["message"], bytes(dead["key"])) == (None, with_schema(1)[0])


def test_apply_changes_deletes_by_key(spark, tmp_path):
    topic, target = Topic(spark, tmp_path), tmp_path / "t"

    def apply(*records):
        changes = towpath.spark.decode(
            topic.frame(records),
            "debezium-json",
            "id int, name string",
            layout="upsert",
            key="key",
            unwrapped=True,
            keep=["topic", "partition", "offset", "timestamp"],
        )
        towpath.spark.apply_changes(changes, str(target), keys=["id"])
        return topic.rows("t")

    nameless = [(plain({"id": key}), plain({"id": key, "name": name})) for key, name in enumerate("ab")]
    assert apply(*nameless, without_schema(0)) == {1: "b"}
    assert apply(without_schema(1), nameless[0]) == {0: "a"}


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

    topic = Topic(spark, tmp_path, writer_schemas=schemas, dialect="debezium-avro")
    keys = {"keys": {"shop.t": ["id"]}}
    assert topic.replicate(record(1, "a"), record(2, "b"), record(1), **keys) == {2: "b"}
    assert topic.replicate(record(2), record(2, "again"), record(9), **keys) == {2: "again"}
    assert topic.read("status")[0]["state"] == "ok"
