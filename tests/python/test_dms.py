"""AWS DMS's messages mean what AWS' pages and other readers' tests say."""

import json
import random
from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

import towpath
from all_golden import GOLDEN
from fidelity import lines, objects
from towpath.lakehouse.merging.fold import Fold
from towpath.lakehouse.reading.changes import READ, ChangeDecoder

FOLDER = GOLDEN / "dms-json"
MESSAGES = lines(FOLDER / "messages.jsonl")
TRUTH = objects(FOLDER / "truth.jsonl")


def decode(values, **options):
    decoder = towpath.Decoder("dms-json", **options)
    return decoder.decode(pa.array(values, pa.binary())).to_pylist(maps_as_pydicts="strict")


def message(operation="insert", record_type="data", metadata=None, **members):
    known = {"record-type": record_type, "operation": operation, "schema-name": "shop", "table-name": "orders"}
    return json.dumps(members | {"metadata": known | (metadata or {})}).encode()


@pytest.mark.parametrize(("row", "event"), list(zip(decode(MESSAGES), TRUTH, strict=True)))
def test_messages(row, event):
    time = event.get("event_time")
    assert (row["op"], row["database"], row["table"]) == (event["op"], event["database"], event["table"])
    assert (row["before"], row["after"]) == (event.get("before"), event.get("after"))
    assert row["source"]["operation"] == event["operation"]
    assert row["event_time"] == (time and datetime.fromisoformat(time))
    assert row["source"]["transaction_id"] == event.get("transaction_id")
    assert (row["source"]["file"], row["source"]["position"]) == (event.get("file"), event.get("position"))
    assert row["primary_key"] == event.get("key")
    assert row["produced_time"].year == 2024
    assert row["error"] is None


def test_table_of_a_control_record():
    row = decode(MESSAGES[:1], fields=["column_types", "table_changes"])[0]
    types = {"id": "INT64", "name": "WSTRING(80)", "total": "NUMERIC(20,2)", "paid_at": "DATETIME", "born": "DATE"}
    assert row["column_types"] == types | {"hash": "BYTES(16)", "is_open": "BOOLEAN"}
    assert json.loads(row["table_changes"]) == json.loads(MESSAGES[0])["control"]


def test_values_by_the_types_of_a_control_record():
    schema = towpath.infer_schema(pa.array(MESSAGES, pa.binary()), "dms-json", table="orders")
    assert schema.names == ["id", "name", "total", "paid_at", "born", "hash", "is_open"]
    rows = decode(MESSAGES[:4], schema=schema, mode="FAILFAST")
    assert rows[1]["after"] == {
        "id": 7,
        "name": "scooter",
        "total": Decimal("12.50"),
        "paid_at": datetime(2024, 5, 6, 7, 8, 9),
        "born": datetime(2023, 3, 23).date(),
        "hash": bytes.fromhex("deadbeef00"),
        "is_open": True,
    }
    assert rows[2]["after"]["total"] == Decimal("9007199254740993.25")
    assert rows[2]["missing_columns"] == ["name", "paid_at", "born", "hash", "is_open"]


def test_times_are_in_utc():
    [row] = decode(MESSAGES[1:2], schema="paid_at timestamp", time_zone="Asia/Shanghai")
    assert row["after"]["paid_at"] == datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone.utc)


@pytest.mark.parametrize(("text", "expected"), [("0x00ff", b"\0\xff"), ("00FF", b"\0\xff"), ("0x", b""), ("", b"")])
def test_binary_is_hexadecimal(text, expected):
    [row] = decode([message(data={"b": text})], schema="b binary")
    assert (row["after"]["b"], row["error"]) == (expected, None)


@pytest.mark.parametrize("text", ["3q2+7w==", "0xF", "zz", "0x0x00"])
def test_other_text_is_no_binary(text):
    [row] = decode([message(data={"b": text})], schema="b binary")
    assert row["after"]["b"] is None
    assert row["error"]["message"] == f'dms-json: after.b: "{text}" is not hexadecimal text'


def test_the_before_image_is_not_merged_onto_the_row():
    [row] = decode(MESSAGES[3:4], schema="id bigint, name string, total decimal(10,2)")
    assert row["before"] == {"id": 8, "name": None, "total": None}
    assert row["after"] == {"id": 9, "name": "hammer", "total": Decimal("1.00")}
    assert row["missing_columns"] == ["name", "total"]


def test_upsert():
    rows = decode(MESSAGES[:7], schema="id bigint, total decimal(20,2)", layout="upsert")
    assert [(row["_op"], row["id"]) for row in rows] == [
        ("insert", 7), ("insert", 8), ("update", 9), ("update", 9), ("delete", 9),
    ]  # fmt: skip


@pytest.mark.parametrize(("operation", "op"), [
    ("create-table", "ddl"), ("rename-table", "ddl"), ("drop-table", "ddl"), ("change-columns", "ddl"),
    ("add-column", "ddl"), ("drop-column", "ddl"), ("rename-column", "ddl"), ("column-type-change", "ddl"),
    ("truncate-table", "truncate"),
    ("task-restart", "other"),
])  # fmt: skip
def test_control_records(operation, op):
    [row] = decode([message(operation, "control")])
    assert (row["op"], row["source"]["operation"], row["error"]) == (op, operation, None)


def test_words_without_case_and_of_older_versions():
    operations = ["INSERT", "create", "read", "Load"]
    rows = decode([message(operation, data={"id": 1}) for operation in operations])
    assert [row["op"] for row in rows] == ["insert", "insert", "snapshot", "snapshot"]


@pytest.mark.parametrize(("value", "what"), [
    (b"{}", "metadata: is missing"),
    (b'{"data":{},"metadata":{}}', "metadata.operation: is missing"),
    (message("upsert", data={"id": 1}), 'metadata.operation: unknown operation "upsert" with rows'),
    (message("insert"), "data: insert without a row"),
    (message("delete", data=None), "data: delete without a row"),
    (message(metadata={"commit-timestamp": "yesterday"}, data={}),
     'metadata.commit-timestamp: "yesterday" is not a time'),
    (message("create-table", "control", control={"table-def": {"columns": []}}),
     "control: is not a table definition: "
     "invalid type: sequence, expected an object of columns at line 1 column 26"),
])  # fmt: skip
def test_messages_that_are_errors(value, what):
    [row] = decode([value])
    assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
    assert row["error"]["message"] == f"dms-json: {what}"


def test_formatted_messages():
    """`MessageFormat` `json` writes lines."""
    formatted = [json.dumps(json.loads(value), indent=2).encode() for value in (MESSAGES[0], MESSAGES[3])]
    assert decode([b"\n".join(formatted)], fields=["op", "before"]) == decode(
        [MESSAGES[0], MESSAGES[3]], fields=["op", "before"]
    )


def test_detection():
    assert {towpath.detect(value) for value in MESSAGES} == {"dms-json"}
    # A column of a row without an envelope.
    assert towpath.detect(b'{"id":1,"metadata":"{}","__op":"c"}') == "debezium-json"


def test_an_update_makes_null_of_what_it_omits():
    """As DMS does by default. Its rows are whole, so `replicate` must not keep the values that the target has."""
    random_ = random.Random(53)
    now, sent = {"id": 7, "a": 1, "b": "x"}, []
    for at in range(40):
        now = {"id": 7, "a": random_.choice([None, at]), "b": random_.choice([None, f"b{at}"])}
        before = {"before-image": {"id": 7, "a": 1}} if at % 2 else {}
        sent.append(message("update", data={name: one for name, one in now.items() if one is not None}, **before))
        decoder = ChangeDecoder("dms-json", "id int, a int, b string", {}, keys=["id"])
        places = {"partition": 0, "topic": "t", "timestamp": datetime.now(timezone.utc), "key": None}
        rows = [{**places, "value": one, "offset": offset} for offset, one in enumerate(sent)]
        [changes] = Fold(("id",), decoder=decoder).newest([pa.RecordBatch.from_pylist(rows, pa.schema(READ))])
        [newest] = changes.to_pylist()
        assert newest["columns"] == now
        assert (newest["missing"], newest["partial"], newest["rejected"]) == (None, False, False)
