"""Forms that other producers write, with the meaning that their own tests, encoders or documents state.

Each message is written for this test; its comment names where the form is from.
"""

import json
from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

import towpath


def decode(dialect, message, **arguments):
    value = message if isinstance(message, bytes) else json.dumps(message).encode()
    return towpath.Decoder(dialect, **arguments).decode(pa.array([value], pa.binary())).to_pylist()


def canal(**members):
    return {"data": [{"id": "1"}], "database": "shop", "table": "orders", "type": "INSERT", "isDdl": False, **members}


# Flink's CanalJsonSerDeSchemaTest (FLINK-32862); Aliyun DTS and Huawei DRS write INIT during full synchronization.
@pytest.mark.parametrize("dialect", ["canal-json", "auto"])
def test_init_is_a_snapshot_and_init_ddl_a_ddl(dialect):
    [row] = decode(dialect, canal(type="INIT", mysqlType={"id": "int"}), schema="id int")
    assert (row["op"], row["after"], row["before"]) == ("snapshot", {"id": 1}, None)
    [row] = decode(dialect, canal(type="INIT_DDL", data=None, sql="create table t (id int)", mysqlType=None))
    assert (row["op"], row["sql"]) == ("ddl", "create table t (id int)")


WORDS = {
    "canal-json": (lambda word: canal(type=word), "Insert", "type"),
    "cloudcanal-json": (
        lambda word: {"action": word, "data": [{"id": "1"}], "db": "s", "table": "t"},
        "insert",
        "action",
    ),
    "maxwell-json": (lambda word: {"type": word, "data": {"id": 1}, "database": "s", "table": "t"}, "INSERT", "type"),
    "river-json": (
        lambda word: {"event": word, "columns": [{"n": "id", "t": "int", "v": "1"}], "db": "s", "table": "t"},
        "I",
        "event",
    ),
    "debezium-json": (
        lambda word: {"op": word, "before": None, "after": {"id": 1}, "source": {"table": "t"}},
        "C",
        "op",
    ),
}


@pytest.mark.parametrize("dialect", WORDS)
def test_operation_words_match_without_case(dialect):
    message, word, _ = WORDS[dialect]
    [row] = decode(dialect, message(word), schema="id int")
    assert (row["op"], row["after"], row["source"]["operation"]) == ("insert", {"id": 1}, word)


@pytest.mark.parametrize("layout", towpath._towpath.LAYOUTS)
@pytest.mark.parametrize("dialect", WORDS)
def test_rows_under_an_unknown_word_are_an_error(dialect, layout):
    message, _, member = WORDS[dialect]
    [row] = decode(dialect, message("UPSURT"), schema="id int", layout=layout)
    error = row["error" if layout == "change" else "_error"]
    assert error["kind"] == "envelope"
    assert error["message"] == f'{dialect}: {member}: rows under the unknown operation "UPSURT"'


def test_a_row_in_old_under_an_unknown_word_is_an_error():
    [row] = decode("maxwell-json", {"type": "erase", "old": {"id": 1}, "database": "s", "table": "t"})
    assert row["error"]["message"] == 'maxwell-json: type: rows under the unknown operation "erase"'


def test_an_unknown_word_without_rows_is_other():
    [row] = decode("canal-json", canal(type="SOMETHING", data=None))
    assert (row["op"], row["error"]) == ("other", None)


def column(field, kind, **members):
    return {"type": kind, "optional": True, "field": field, **members}


def debezium(columns, after, source=("version", "connector"), **members):
    """A message with its schema part, whose `source` has these members."""
    sources = [{"type": "string", "field": name} for name in (*source, "db", "table")]
    fields = [
        {"type": "struct", "fields": columns, "field": "after"},
        {"type": "struct", "fields": sources, "field": "source"},
    ]
    where = {**dict.fromkeys(source, "x"), "db": "s", "table": "t"}
    return {
        "schema": {"type": "struct", "fields": fields},
        "payload": {"before": None, "after": after, "source": where, "op": "c", **members},
    }


# Flink CDC's DebeziumJsonSerializationSchema labels BINARY and VARBINARY as Bits, with a length in bytes.
@pytest.mark.parametrize("has_source", [False, True])
def test_flink_cdc_writes_binary_columns_as_bits(has_source):
    bits = {"name": "io.debezium.data.Bits", "version": 1}
    columns = [
        column(name, "bytes", parameters={"length": length}, **bits) for name, length in (("a", "2"), ("b", "17"))
    ]
    message = debezium(columns, {"a": "AQI=", "b": "AwQF"}, source=())
    if not has_source:
        del message["schema"]["fields"][1]
    [row] = decode("debezium-json", message, schema="a binary, b binary")
    assert (row["error"], row["after"]) == (None, {"a": b"\x01\x02", "b": b"\x03\x04\x05"})


def test_bits_of_a_connector_are_bits():
    columns = [column("a", "bytes", name="io.debezium.data.Bits", parameters={"length": "10"})]
    [row] = decode("debezium-json", debezium(columns, {"a": "/wM="}), schema="a int")
    assert row["after"] == {"a": 1023}
    [row] = decode("debezium-json", debezium(columns, {"a": "/wMB"}), schema="a int")
    assert row["error"]["message"] == 'debezium-json: after.a: "/wMB" does not fit into the column\'s bits'
    # No bit column is longer than 64.
    columns = [column("a", "bytes", name="io.debezium.data.Bits", parameters={"length": "65"})]
    [row] = decode("debezium-json", debezium(columns, {"a": "AQI="}), schema="a binary")
    assert row["after"] == {"a": b"\x01\x02"}


# Iceberg sinks and others keep the fields that ExtractNewRecordState adds: they are no columns.
def test_added_fields_of_flat_rows_are_no_columns():
    fields = [
        column("id", "int32"),
        column("__op", "string"),
        column("__source_ts_ms", "int64"),
        column("__deleted", "string"),
    ]
    row = {"id": 1, "__op": "c", "__source_ts_ms": 5, "__deleted": "false"}
    message = {"schema": {"type": "struct", "fields": fields, "name": "x.s.t.Value"}, "payload": row}
    values = pa.array([json.dumps(message).encode()])
    assert towpath.infer_schema(values, "debezium-json").names == ["id"]


# TiCDC's debezium codec writes `bigint unsigned` beyond 2^63 as a negative int64, and its schema part does not say so.
@pytest.mark.parametrize(
    "said", [{"bigint_unsigned_handling_mode": "long"}, {"column_types": {"n": "bigint unsigned"}}], ids=str
)
def test_the_user_says_that_an_int64_is_unsigned(said):
    message = debezium([column("n", "int64")], {"n": -1})
    [row] = decode("debezium-json", message, schema="n decimal(20,0)", **said)
    assert row["after"] == {"n": Decimal("18446744073709551615")}
    [row] = decode("debezium-json", message, schema="n decimal(20,0)")
    assert row["after"] == {"n": Decimal(-1)}


# TiCDC's debezium codec, EncodeCheckpointEvent: `op` is `m`, the names are empty, `commit_ts` is the watermark.
def test_ticdc_watermark_in_debezium():
    source = {"connector": "TiCDC", "db": "", "table": "", "ts_ms": 1, "commit_ts": 450384410667647795}
    [row] = decode("debezium-json", {"payload": {"source": source, "ts_ms": 2, "transaction": None, "op": "m"}})
    assert (row["op"], row["database"], row["table"]) == ("watermark", None, None)
    assert (row["source"]["watermark_ts"], row["source"]["commit_ts"]) == (450384410667647795, None)
    # Debezium's own `m` is a message that an application wrote into the log.
    [row] = decode("debezium-json", {"payload": {"source": {"connector": "postgresql"}, "ts_ms": 2, "op": "m"}})
    assert row["op"] == "other"


def test_ticdc_commit_time_in_debezium():
    source = {"connector": "TiCDC", "db": "s", "table": "t", "ts_ms": 1, "commit_ts": 450384410667647795}
    message = {"payload": {"source": source, "ts_ms": 2, "op": "c", "before": None, "after": {"id": 1}}}
    values = pa.array([json.dumps(message).replace("7795", f"779{n}").encode() for n in range(6)])
    rows = towpath.Decoder("debezium-json", "id int").decode(values).to_pylist()
    assert [row["source"]["commit_ts"] for row in rows] == [450384410667647790 + n for n in range(6)]


# LakeSoul's tutorial has a number as `transaction`.
def test_an_odd_member_is_an_error_only_where_it_is_requested():
    message = {"op": "c", "before": None, "after": {"id": 1}, "source": {"table": "t"}, "transaction": 1}
    [row] = decode("debezium-json", message, schema="id int", fields=["op", "after", "error"])
    assert row == {"op": "insert", "after": {"id": 1}, "error": None}
    [row] = decode("debezium-json", message, schema="id int")
    assert row["error"]["message"] == "debezium-json: transaction: expected an object or null, found a number"


# Tencent DTS's document 571/102285.
def test_a_blank_before_the_offset():
    message = canal(data=[{"t": "2021-05-17 07:22:42 +08:00"}], mysqlType={"t": "timestamp"})
    [row] = decode("canal-json", message, schema="t timestamp")
    assert row["after"] == {"t": datetime(2021, 5, 16, 23, 22, 42, tzinfo=timezone.utc)}


@pytest.mark.parametrize("flag", ["false", False, None])
def test_is_ddl_as_text(flag):
    [row] = decode("canal-json", canal(isDdl=flag), schema="id int")
    assert (row["op"], row["after"]) == ("insert", {"id": 1})
    [row] = decode("canal-json", canal(isDdl="true", data=None, type="ALTER"), schema="id int")
    assert row["op"] == "ddl"


@pytest.mark.parametrize("dialect", ["canal-json", "auto"])
def test_a_byte_order_mark_is_skipped(dialect):
    message = b"\xef\xbb\xbf" + json.dumps(canal(mysqlType={"id": "int"})).encode()
    [row] = decode(dialect, message, schema="id int")
    assert (row["op"], row["after"]) == ("insert", {"id": 1})


@pytest.mark.parametrize(
    "dialect", [*(dialect["name"] for dialect in towpath.dialects() if dialect["name"] != "ticdc-open"), "auto"]
)
def test_a_message_without_bytes_is_a_tombstone(dialect):
    [row] = decode(dialect, b"")
    assert (row["op"], row["error"]) == ("tombstone", None)


@pytest.mark.parametrize("text", ["2021-00-99", "2021-13-00", "0000-00-32"])
def test_a_date_that_no_calendar_has_is_no_zero_date(text):
    [row] = decode("canal-json", canal(data=[{"d": text}], mysqlType={"d": "date"}), schema="d date")
    assert (row["after"], row["error"]["column"]) == ({"d": None}, "d")
    [row] = decode("canal-json", canal(data=[{"d": "2021-00-31"}], mysqlType={"d": "date"}), schema="d date")
    assert (row["after"], row["error"]) == ({"d": None}, None)


def open_protocol(key, value):
    """A record of TiCDC's open protocol with one change."""
    head, body = json.dumps(key).encode(), json.dumps(value).encode()
    key = (1).to_bytes(8, "big") + len(head).to_bytes(8, "big") + head
    return {"key": [key], "value": [len(body).to_bytes(8, "big") + body]}


# TiCDC's open protocol codec with `only-output-updated-columns`: `p` has the columns that changed.
@pytest.mark.parametrize(("previous", "before", "changed"), [
    ({"total": {"t": 246, "f": 64, "v": "9.00"}}, {"id": 1, "total": Decimal("9.00")}, ["total"]),
    ({}, {"id": 1, "total": Decimal("12.50")}, []),
], ids=["one", "none"])  # fmt: skip
def test_only_the_updated_columns_of_the_open_protocol(previous, before, changed):
    update = {"id": {"t": 3, "h": True, "f": 11, "v": 1}, "total": {"t": 246, "f": 64, "v": "12.50"}}
    record = open_protocol({"ts": 1, "scm": "shop", "tbl": "orders", "t": 1}, {"u": update, "p": previous})
    decoder = towpath.Decoder("ticdc-open", "id int, total decimal(10,2)", key="key")
    [row] = decoder.decode(pa.record_batch(record)).to_pylist()
    assert (row["op"], row["before"], row["changed"]) == ("update", before, changed)
    assert row["after"] == {"id": 1, "total": Decimal("12.50")}
    assert (row["primary_key"], set(dict(row["column_types"]))) == (["id"], {"id", "total"})
