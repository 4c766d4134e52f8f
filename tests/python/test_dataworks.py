"""DataWorks' messages mean what Aliyun's page and another reader's tests say."""

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

import towpath
from all_golden import GOLDEN
from fidelity import lines, objects

FOLDER = GOLDEN / "dataworks-json"
MESSAGES = lines(FOLDER / "messages.jsonl")
TRUTH = objects(FOLDER / "truth.jsonl")


def decode(values, **options):
    decoder = towpath.Decoder("dataworks-json", **options)
    return decoder.decode(pa.array(values, pa.binary())).to_pylist(maps_as_pydicts="strict")


def message(op="INSERT", columns=None, **payload):
    columns = [{"name": name, "type": data_type} for name, data_type in (columns or {}).items()]
    schema = {"dataColumn": columns, "primaryKey": ["id"], "source": {"dbName": "shop", "tableName": "orders"}}
    rows = {side: payload[side] and {"dataColumn": payload[side]} for side in ("before", "after") if side in payload}
    return json.dumps({"schema": schema, "payload": payload | rows | {"op": op}, "version": "0.0.1"}).encode()


def instant(millis):
    return millis and datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=millis)


@pytest.mark.parametrize(("row", "event"), list(zip(decode(MESSAGES), TRUTH, strict=True)))
def test_messages(row, event):
    assert (row["op"], row["source"]["operation"]) == (event["op"], event["operation"])
    assert (row["before"], row["after"]) == (event.get("before"), event.get("after"))
    assert (row["event_time"], row["produced_time"]) == (instant(event["event"]), instant(event["system"]))
    assert (row["sql"], row["source"]["message_id"]) == (event.get("sql"), event["sequence"])
    is_change = "before" in event or "after" in event
    assert row["primary_key"] == (["id"] if is_change else None)
    names = (row["database"], row["table"], row["source"]["connector"])
    assert names == ((None,) * 3 if event["op"] == "heartbeat" else ("shop", "orders", "MySQL"))
    assert row["error"] is None


def test_values_by_the_declared_types():
    messages = pa.array(MESSAGES, pa.binary())
    schema = towpath.infer_schema(messages, "dataworks-json")
    types = [pa.int64(), pa.string(), pa.string(), pa.binary(), pa.bool_(), pa.timestamp("us", "UTC")]
    assert schema.types == types
    [row] = decode(MESSAGES[:1], schema=schema, mode="FAILFAST", fields=["after", "column_types"])
    assert row["after"] == {
        "id": 9007199254740993,
        "total": "1.100000",
        "name": "scooter",
        "hash": bytes.fromhex("deadbeef00"),
        "is_open": True,
        "paid_at": datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone.utc),
    }
    expected = {
        "id": "LONG",
        "total": "DOUBLE",
        "name": "STRING",
        "hash": "BYTES",
        "is_open": "BOOLEAN",
        "paid_at": "DATE",
    }
    assert row["column_types"] == expected
    [row] = decode(MESSAGES[:1], schema="total decimal(20,6), is_open int")
    assert row["after"] == {"total": Decimal("1.100000"), "is_open": 1}


MIDNIGHT = 1714924800000  # 2024-05-06 00:00:00 in Asia/Shanghai


@pytest.mark.parametrize(("asked", "zone", "expected"), [
    ("timestamp", "Asia/Shanghai", instant(MIDNIGHT)),
    ("timestamp_ntz", "Asia/Shanghai", datetime(2024, 5, 6)),
    ("timestamp_ntz", "UTC", datetime(2024, 5, 5, 16)),
    ("date", "Asia/Shanghai", date(2024, 5, 6)),
    ("string", "Asia/Shanghai", "2024-05-05 16:00:00"),
])  # fmt: skip
def test_dates_are_instants(asked, zone, expected):
    [row] = decode([message(columns={"d": "DATE"}, after={"d": MIDNIGHT})], schema=f"d {asked}", time_zone=zone)
    assert (row["after"]["d"], row["error"]) == (expected, None)


def test_an_instant_that_is_no_date():
    [row] = decode([message(columns={"d": "DATE"}, after={"d": MIDNIGHT})], schema="d date")
    assert (row["after"]["d"], row["error"]["kind"]) == (None, "range")


@pytest.mark.parametrize(
    ("millis", "expected"), [(-1, datetime(1969, 12, 31, 23, 59, 59, 999000)), (0, datetime(1970, 1, 1))]
)
def test_dates_before_1970(millis, expected):
    [row] = decode([message(columns={"d": "DATE"}, after={"d": millis})], schema="d timestamp_ntz")
    assert row["after"]["d"] == expected


def test_text_as_binary_is_not_base64():
    [row] = decode([message(columns={"s": "STRING"}, after={"s": "abcd"})], schema="s binary")
    assert (row["after"]["s"], row["error"]) == (b"abcd", None)


def test_images_of_an_update_in_two_messages():
    options = {"schema": "id bigint, total decimal(10,6)"}
    rows = decode(MESSAGES[3:5], **options, layout="upsert")
    assert [(row["_op"], row["id"]) for row in rows] == [("delete", 2), ("update", 3)]
    rows = decode(MESSAGES[3:5], **options, layout="changelog")
    assert [(row["_change_type"], row["id"]) for row in rows] == [("update_preimage", 2), ("update_postimage", 3)]
    assert [row["changed"] for row in decode(MESSAGES[2:5])] == [["total"], None, None]


def test_the_words_of_the_page():
    words = {"TRANSACTION_BEGIN": "begin", "TRANSACTION_END": "commit", "XACOMMIT": "commit", "XAROLLBACK": "rollback"}
    words |= {"GTID": "gtid", "QUERY": "query", "RENAME": "ddl", "ERASE": "ddl", "CREATE": "ddl", "CINDEX": "ddl"}
    words |= {"DINDEX": "ddl", "mheartbeat": "heartbeat", "SOMETHING": "other"}
    assert [row["op"] for row in decode([message(word) for word in words])] == list(words.values())


@pytest.mark.parametrize(("value", "what"), [
    (b"{}", "payload: is missing"),
    (message(None), "payload.op: is missing"),
    (message("UPSERT", after={"id": 1}), 'payload.op: unknown operation "UPSERT" with rows'),
    (message("INSERT", before={"id": 1}), "payload.after: insert without a row"),
    (message("DELETE", after={"id": 1}), "payload.before: delete without a row"),
    (message("UPDATE_AFTER", before=None), "payload.after: update without a row"),
    (b'{"payload":{"op":"DELETE","before":{"dataColumn":{ }}}}', "payload.before: delete without a row"),
    (b'{"payload":{"op":"INSERT","after":{"dataColumn":{}}}}', "payload.after: insert without a row"),
])  # fmt: skip
def test_messages_that_are_errors(value, what):
    [row] = decode([value])
    assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
    assert row["error"]["message"] == f"dataworks-json: {what}"


@pytest.mark.parametrize("schema", [None, "id int, total int", "gone int"])
@pytest.mark.parametrize("before", ["{}", " { } ", "null"])
def test_an_image_without_columns_is_none(before, schema):
    after = '"after":{"dataColumn":{"id":1}}'
    value = f'{{"payload":{{"op":"UPDATE_AFTER","before":{{"dataColumn":{before}}},{after}}}}}'.encode()
    [row] = decode([value], schema=schema)
    assert (row["op"], row["before"], row["after"] is None) == ("update", None, False)
    [row] = decode([value.replace(before.encode(), b'{"id":2}', 1)], schema=schema)
    assert (row["op"], row["before"] is None) == ("update", False)


def test_detection():
    assert {towpath.detect(value) for value in MESSAGES} == {"dataworks-json"}
    debezium = {"schema": {"type": "struct", "fields": []}, "payload": {"sequenceId": 1, "timestamp": 2, "op": 3}}
    assert towpath.detect(json.dumps(debezium).encode()) == "debezium-json"
    assert towpath.detect(b'{"payload":{"before":null,"after":{"id":1},"op":"c","ts_ms":1}}') == "debezium-json"
