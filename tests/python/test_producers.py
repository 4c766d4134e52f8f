"""Forms that other producers write, with the meaning that their own tests, encoders or documents state.

Each message is written for this test; its comment names where the form is from.
"""

import json
import random
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
    assert error["message"] == f'{dialect}: {member}: unknown operation "UPSURT" with rows'


def test_a_row_in_old_under_an_unknown_word_is_an_error():
    [row] = decode("maxwell-json", {"type": "erase", "old": {"id": 1}, "database": "s", "table": "t"})
    assert row["error"]["message"] == 'maxwell-json: type: unknown operation "erase" with rows'


def test_an_unknown_word_without_rows_is_other():
    [row] = decode("canal-json", canal(type="SOMETHING", data=None))
    assert (row["op"], row["error"]) == ("other", None)


@pytest.mark.parametrize("layout", towpath._towpath.LAYOUTS)
@pytest.mark.parametrize("dialect", [*WORDS, "ticdc-simple"])
def test_rows_in_a_member_that_is_not_known_do_not_vanish(dialect, layout):
    """Rows may be in any member of a message under a word that is not known."""
    words = WORDS | {"ticdc-simple": (lambda word: {"version": 1, "type": word, "database": "s"}, "", "type")}
    message, _, member = words[dialect]
    known = {"data", "after", "columns", "before"}
    without_rows = {name: value for name, value in message("UPSURT").items() if name not in known}
    for rows in ({"id": 1}, [{"id": 1}]):
        [row] = decode(dialect, without_rows | {"row": rows}, schema="id int", layout=layout)
        error = row["error" if layout == "change" else "_error"]
        assert (error["kind"], error["message"].startswith(f"{dialect}: {member}: ")) == ("envelope", True)
        assert '"UPSURT"' in error["message"]


# Debezium's operations are c, r, u, d, t and m.
@pytest.mark.parametrize("dialect", ["debezium-json", "auto"])
@pytest.mark.parametrize("word", ["+I", "insert", "x", "", "C ", "rt", "-D"])
@pytest.mark.parametrize("images", [{}, {"before": None, "after": None}, {"after": {}}, {"data": {"id": 1}}])
def test_a_word_that_debezium_does_not_have_is_an_error(images, word, dialect):
    for message in (
        {"op": word, **images},
        {"op": word, **images, "source": {"table": "t"}},
        {"payload": {"op": word, **images}},
    ):
        [row] = decode(dialect, message, schema="id int")
        assert (row["op"], row["error"]["kind"]) == ("error", "envelope")


def test_a_truncate_without_a_table_passes_no_filter():
    decoder = towpath.Decoder("debezium-json", table="orders")
    truncates = [json.dumps({"op": "t", "source": source}).encode() for source in ({}, {"table": "orders"})]
    assert decoder.decode(pa.array(truncates)).column("table").to_pylist() == ["orders"]
    assert decoder.metrics["filtered"] == 1


def test_words_of_debezium_without_rows_keep_their_meaning():
    for op, meant in (("t", "truncate"), ("m", "other"), ("M", "other")):
        [row] = decode("debezium-json", {"op": op, "source": {"table": "t"}, "message": {"content": "x"}})
        assert (row["op"], row["error"]) == (meant, None)


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
    message["schema"]["fields"].insert(0, {"type": "struct", "fields": columns, "field": "before"})
    if not has_source:
        message["schema"]["fields"].pop()
    [row] = decode("debezium-json", message, schema="a binary, b binary")
    assert (row["error"], row["after"]) == (None, {"a": b"\x01\x02", "b": b"\x03\x04\x05"})


@pytest.mark.parametrize("length", ["65", "99999999999999999999", "-1", "x", ""])
def test_bits_of_a_length_that_no_bit_has_are_bytes(length):
    bits = column("b", "bytes", name="io.debezium.data.Bits", parameters={"length": length})
    message = debezium([bits], {"b": "AQI="})
    assert towpath.infer_schema([json.dumps(message)], "debezium-json") == pa.schema([("b", pa.binary())])
    assert decode("debezium-json", message, schema="b binary")[0]["after"] == {"b": b"\x01\x02"}


def test_bits_of_a_connector_are_bits():
    columns = [column("a", "bytes", name="io.debezium.data.Bits", parameters={"length": "10"})]
    [row] = decode("debezium-json", debezium(columns, {"a": "/wM="}), schema="a int")
    assert row["after"] == {"a": 1023}
    [row] = decode("debezium-json", debezium(columns, {"a": "/wMB"}), schema="a int")
    assert row["error"]["message"] == 'debezium-json: after.a: "/wMB" does not fit into the column\'s bits'
    # A byte less is not made of other bits, and one bit more is none of the column.
    [row] = decode("debezium-json", debezium(columns, {"a": "Aw=="}), schema="a binary")
    assert row["after"] == {"a": b"\x00\x03"}
    [row] = decode("debezium-json", debezium(columns, {"a": "/wc="}), schema="a binary")
    assert row["error"]["message"] == 'debezium-json: after.a: "/wc=" does not fit into the column\'s bits'
    # No bit column is longer than 64.
    columns = [column("a", "bytes", name="io.debezium.data.Bits", parameters={"length": "65"})]
    [row] = decode("debezium-json", debezium(columns, {"a": "AQI="}), schema="a binary")
    assert row["after"] == {"a": b"\x01\x02"}


# Iceberg sinks and others keep the fields that ExtractNewRecordState adds: they are not columns.
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


KEYED = ("ticdc-open", "ticdc-avro")  # of which a record without a value says something in its key


@pytest.mark.parametrize(
    "dialect", [*(dialect["name"] for dialect in towpath.dialects() if dialect["name"] not in KEYED), "auto"]
)
def test_a_message_without_bytes_is_a_tombstone(dialect):
    [row] = decode(dialect, b"")
    assert (row["op"], row["error"]) == ("tombstone", None)


def test_a_zero_date_has_a_time_of_day():
    message = canal(data=[{"at": "0000-00-00 24:00:00"}], mysqlType={"at": "datetime"})
    [row] = decode("canal-json", message, schema="at timestamp_ntz")
    assert (row["after"], row["error"]["column"]) == ({"at": None}, "at")


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


BINARY = {
    "canal-json": lambda text: canal(data=[{"b": text}]),
    "cloudcanal-json": lambda text: {"action": "INSERT", "data": [{"b": text}], "db": "s", "table": "t"},
    "maxwell-json": lambda text: {"type": "insert", "data": {"b": text}, "database": "s", "table": "t"},
    "river-json": lambda text: {
        "event": "i",
        "columns": [{"n": "b", "t": "varbinary(8)", "v": text}],
        "db": "s",
        "table": "t",
    },
    "debezium-json": lambda text: {"op": "c", "after": {"b": text}, "source": {"db": "s", "table": "t"}},
}


# Flink's and SeaTunnel's canal-json serializers write bytes in base64, Tencent DTS in hexadecimal digits.
@pytest.mark.parametrize(("mode", "text"), [
    ("base64", "AP+A/gECAwQF"), ("bytes", "AP+A/gECAwQF"), ("base64-url-safe", "AP-A_gECAwQF"),
    ("hex", "00ff80FE0102030405"),
])  # fmt: skip
@pytest.mark.parametrize("dialect", BINARY)
def test_binary_text_is_what_the_user_says(dialect, mode, text):
    for name in (dialect, "auto"):
        [row] = decode(name, BINARY[dialect](text), schema="b binary", binary_handling_mode=mode)
        assert (row["after"], row["error"]) == ({"b": b"\x00\xff\x80\xfe\1\2\3\4\5"}, None)
    [row] = decode(dialect, BINARY[dialect]("?"), schema="b binary", binary_handling_mode=mode)
    assert (row["error"]["kind"], row["error"]["column"]) == ("type", "b")


def test_binary_text_concerns_bytes_only():
    message = canal(
        data=[{"b": "00ff", "s": "00ff", "u": "61", "n": "12"}],
        mysqlType={"b": "varbinary(4)", "s": "varchar(4)", "u": "blob", "n": "bit(8)"},
    )
    schema = "b binary, s binary, u string, n binary"
    [row] = decode("canal-json", message, schema=schema, binary_handling_mode="hex")
    assert row["after"] == {"b": b"\x00\xff", "s": b"00ff", "u": "a", "n": b"\x0c"}


# Of `t`, 15 is a string and 252 a blob; flag 1 says that it is binary.
def test_binary_text_of_the_open_protocol():
    update = {"v": {"t": 15, "f": 1, "v": "00ff"}, "b": {"t": 252, "f": 1, "v": "00ff"}}
    record = open_protocol({"ts": 1, "scm": "s", "tbl": "t", "t": 1}, {"u": update})
    decoder = towpath.Decoder("ticdc-open", "v binary, b binary", key="key", binary_handling_mode="hex")
    [row] = decoder.decode(pa.record_batch(record)).to_pylist()
    assert row["after"] == {"v": b"\x00\xff", "b": b"\x00\xff"}


def test_the_users_types_outrank_those_of_messages():
    # A bit column whose message says that it is text.
    message = canal(data=[{"b": "1"}], mysqlType={"b": "varchar(1)"})
    [row] = decode("canal-json", message, schema="b binary", column_types={"b": "bit(8)"})
    assert row["after"] == {"b": b"\x01"}
    # Labels in another order than the message declares.
    message = canal(data=[{"e": "1"}], mysqlType={"e": "enum('a','b')"})
    [row] = decode("canal-json", message, schema="e string", labels={"e": ["x", "y"]})
    assert row["after"] == {"e": "x"}
    # A label that the schema part calls Bits.
    bits = column("b", "bytes", name="io.debezium.data.Bits", parameters={"length": "16"})
    message = debezium([bits], {"b": "AQI="})
    [row] = decode("debezium-json", message, schema="b binary")
    assert row["after"] == {"b": b"\x02\x01"}
    [row] = decode("debezium-json", message, schema="b binary", column_types={"b": "binary(2)"})
    assert row["after"] == {"b": b"\x01\x02"}


def test_the_users_modes_outrank_the_schema_part():
    columns = [
        column("at", "int64", name="io.debezium.time.MicroTimestamp"),
        column("b", "bytes"),
        column("d", "bytes", name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"}),
        column("n", "bytes", name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "0"}),
    ]
    modes = {
        "time_precision_mode": "connect",
        "binary_handling_mode": "hex",
        "decimal_handling_mode": "string",
        "bigint_unsigned_handling_mode": "precise",
    }
    message = debezium(columns, {"at": 1000, "b": "abcd", "d": "12.50", "n": "BQ=="})
    schema = "at timestamp_ntz, b binary, d decimal(10,2), n decimal(20,0)"
    [row] = decode("debezium-json", message, schema=schema, **modes)
    assert row["after"] == {
        "at": datetime(1970, 1, 1, 0, 0, 1),
        "b": b"\xab\xcd",
        "d": Decimal("12.50"),
        "n": Decimal(5),
    }


# What the user says of the type keeps the unit that only the schema part knows.
def test_a_type_of_the_user_keeps_the_unit_of_the_schema_part():
    message = debezium([column("at", "int64", name="io.debezium.time.NanoTimestamp")], {"at": 1_000_000_000})
    [row] = decode("debezium-json", message, schema="at timestamp_ntz", column_types={"at": "datetime(6)"})
    assert row["after"] == {"at": datetime(1970, 1, 1, 0, 0, 1)}


JSON = {one["name"] for one in towpath.dialects() if one["wire"] == "JSON"}
DEBEZIUM = {"debezium-json", "debezium-avro"}
EFFECTS = {
    "bigint_unsigned_handling_mode": ("long", DEBEZIUM),
    "binary_handling_mode": ("hex", JSON | {"debezium-avro"}),
    "decimal_handling_mode": ("string", {"debezium-json"}),
    "lenient": (True, JSON),
    "op_column": ("_cdc.op", {"debezium-json", "debezium-avro"}),
    "schema_registry": ("http://localhost:1", {"debezium-avro", "ticdc-avro"}),
    "time_precision_mode": ("connect", DEBEZIUM),
    "unwrapped": (True, {"debezium-json", "debezium-avro"}),
    "writer_schemas": ({1: '"string"'}, {"debezium-avro", "ticdc-avro"}),
}


@pytest.mark.parametrize("dialect", [one["name"] for one in towpath.dialects()])
@pytest.mark.parametrize("option", EFFECTS)
def test_an_option_without_effect_is_refused(option, dialect):
    value, dialects = EFFECTS[option]
    towpath.Decoder("auto", **{option: value})
    if dialect in dialects:
        towpath.Decoder(dialect, **{option: value})
    else:
        with pytest.raises(ValueError, match=f"^{option}: has no effect on {dialect}; it is an option of "):
            towpath.Decoder(dialect, **{option: value})


def test_the_writer_schema_is_for_dts():
    with pytest.raises(ValueError, match=r"^writer_schema: has no effect on canal-json; it is an option of dts-avro$"):
        towpath.Decoder("canal-json", writer_schema="{}")


ROW = {"id": 1, "payload": "p", "ts_ms": 5, "op": "x"}


# ExtractNewRecordState's documentation: without `add.fields` the value is the row, and a delete is a tombstone.
@pytest.mark.parametrize("dialect", ["debezium-json", "auto"])
@pytest.mark.parametrize("wrap", [
    lambda row: row,
    lambda row: {"payload": row},
    lambda row: {"schema": None, "payload": row},
    lambda row: {"schema": {"type": "struct", "fields": [column("id", "int32")], "name": "Row"}, "payload": row},
], ids=["row", "payload", "no schema", "schema"])  # fmt: skip
def test_rows_without_an_envelope(wrap, dialect):
    schema = "id int, payload string, ts_ms bigint, op string"
    [row] = decode(dialect, wrap(ROW), schema=schema, unwrapped=True)
    assert (row["op"], row["after"], row["before"], row["error"]) == ("update", ROW, None, None)


def test_envelopes_among_rows_are_envelopes():
    message = debezium([column("id", "int32")], {"id": 7})
    for value in (message, message["payload"]):
        [row] = decode("debezium-json", value, schema="id int", unwrapped=True)
        assert (row["op"], row["table"], row["after"]) == ("insert", "t", {"id": 7})
    [row] = decode("debezium-json", {"schema": None, "payload": None}, unwrapped=True)
    assert row["op"] == "tombstone"


ROUTED_FROM = "__dbz__physicalTableIdentifier"
SCHEMA_OF_KEY = {
    "type": "struct",
    "fields": [column("id", "int32"), column(ROUTED_FROM, "string")],
    "name": "s.shop.t.Key",
}


def deleted(of_record, value=None, dialect="debezium-json", **options):
    """What a record without a value is read as."""
    columns = {"key": pa.array([of_record], pa.binary()), "value": pa.array([value], pa.binary())}
    settings = {"schema": "id int, name string", "key": "key", "unwrapped": True, **options}
    [row] = towpath.Decoder(dialect, **settings).decode(pa.record_batch(columns)).to_pylist()
    return row


# ExtractNewRecordState's documentation: by default a delete is a record without a value, and its key is the row's.
@pytest.mark.parametrize("dialect", ["debezium-json", "auto"])
@pytest.mark.parametrize("value", [None, b"", b"null_payload"])
@pytest.mark.parametrize(("key", "table"), [
    ({"id": 1}, None),
    ({"schema": None, "payload": {"id": 1}}, None),
    ({"schema": SCHEMA_OF_KEY, "payload": {"id": 1, ROUTED_FROM: "s.shop.t_1"}}, "t"),
    ({"schema": SCHEMA_OF_KEY | {"name": "a.b.c.t.Key"}, "payload": {"id": 1}}, None),
], ids=["plain", "no schema", "schema", "longer name"])  # fmt: skip
def test_a_record_without_a_value_is_a_delete_where_messages_are_rows(key, table, value, dialect):
    key = json.dumps(key).encode()
    value = b'{"schema":null,"payload":null}' if value == b"null_payload" else value
    row = deleted(
        key, value, dialect, fields=["op", "table", "before", "after", "primary_key", "missing_columns", "error"]
    )
    before = {"id": 1, "name": None}
    said = {"table": table, "before": before, "after": None, "primary_key": ["id"], "missing_columns": ["name"]}
    assert row == {"op": "delete", **said, "error": None}
    for options in ({"unwrapped": False}, {"key": None}):
        assert deleted(key, value, dialect, **options)["op"] == "tombstone"
    assert deleted(None, value, dialect)["op"] == "tombstone"


@pytest.mark.parametrize(
    "key", [b"1", b'"1"', b"{}", b'{"other":1}', b'{"id":1} 2', b"\xff", b'{"id":{"long":1}}', b'{"id":']
)
def test_a_key_that_names_no_row_is_an_error(key):
    row = deleted(key)
    assert (row["op"], row["before"]) == ("error", None)
    assert "key" in row["error"]["message"]


def test_the_columns_of_a_key_are_inferred():
    key = json.dumps({"schema": SCHEMA_OF_KEY, "payload": {"id": 1, ROUTED_FROM: "x"}}).encode()
    batch = pa.record_batch({"key": pa.array([key], pa.binary()), "value": pa.array([None], pa.binary())})
    assert towpath.infer_schema(batch, "debezium-json", unwrapped=True) == pa.schema([("id", pa.int32())])


# EventRouter's documentation, "Outbox event router": the value is the payload column, by the JSON converter a text.
@pytest.mark.parametrize("dialect", ["debezium-json", "auto"])
@pytest.mark.parametrize("unwrapped", [False, True])
@pytest.mark.parametrize("schema", [None, "id int", "payload string"])
@pytest.mark.parametrize("seed", range(5))
def test_an_event_of_an_outbox_is_no_row_of_nulls(seed, schema, unwrapped, dialect):
    randoms = random.Random(seed)
    part = {"type": "string", "optional": True}
    part |= randoms.choice([{}, {"name": "io.debezium.data.Json", "version": 1}])
    members = [("schema", randoms.choice([part, None])), ("payload", json.dumps({"id": randoms.randrange(9)}))]
    randoms.shuffle(members)
    [row] = decode(dialect, dict(members), schema=schema, unwrapped=unwrapped)
    assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
    assert "table.expand.json.payload" in row["error"]["message"]
    assert row["error"]["byte"] == json.dumps(dict(members)).index('"payload"') + len('"payload": ')


@pytest.mark.parametrize("wrap", [lambda row: row, lambda row: {"schema": {"type": "struct"}, "payload": row}])
def test_an_expanded_event_of_an_outbox_is_a_row(wrap):
    [row] = decode("debezium-json", wrap({"id": 1, "total": "x"}), schema="id int, total string", unwrapped=True)
    assert (row["op"], row["after"]) == ("update", {"id": 1, "total": "x"})
    event = {"payload": '{"id": 1}', "eventType": "OrderCreated"}
    [row] = decode("debezium-json", wrap(event), schema="payload string, eventType string", unwrapped=True)
    assert (row["op"], row["after"]) == ("update", event)


@pytest.mark.parametrize("dialect", ["debezium-json", "auto"])
@pytest.mark.parametrize("message", [{}, {"other": 1}, {"ID": 1}, {"total": None, "x": {"id": 1}}])
def test_an_object_without_any_column_is_no_row(message, dialect):
    [row] = decode(dialect, message, schema="id int, name string", unwrapped=True)
    assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
    assert "none of the schema's columns" in row["error"]["message"]
    [row] = decode(dialect, message | {"name": None}, schema="id int, name string", unwrapped=True)
    assert (row["op"], row["missing_columns"]) == ("update", ["id"])


# Debezium's ZonedTime formats with ISO_OFFSET_TIME.
@pytest.mark.parametrize("seed", range(30))
def test_a_zoned_time_keeps_its_zone_as_text(seed):
    randoms = random.Random(seed)
    clock = f"{randoms.randrange(24):02}:{randoms.randrange(60):02}:{randoms.randrange(60):02}"
    fraction = randoms.choice(["", ".5", ".123456"])
    zone = randoms.choice(["Z", "+02:00", "-11:30", "Z"])
    text = clock + fraction + zone
    kind = column("at", "string", name="io.debezium.time.ZonedTime")
    values = pa.array([json.dumps(debezium([column("id", "int32"), kind], {"id": 1, "at": text}))] * 3)
    for schema in ("id int, at string", None):
        for row in towpath.Decoder("debezium-json", schema).decode(values).to_pylist():
            assert (dict(row["after"])["at"], row["error"]) == (text, None)
    for row in towpath.Decoder("debezium-json", "id int, at interval day to second").decode(values).to_pylist():
        if zone == "Z":
            assert str(row["after"]["at"]).lstrip("0").rstrip("0") == (clock.lstrip("0") + fraction).rstrip("0")
        else:
            assert (row["after"]["at"], row["error"]["kind"]) == (None, "type")


PLACES = {
    "maxwell-json": (
        lambda place: {
            "database": "s", "table": "t", "type": "insert", "ts": 1, "position": place, "data": {"id": 1}, "xid": 1,
        },
        "{file}:{offset}",
    ),
    "river-json": (
        lambda place: {
            "binlog": place, "db": "s", "table": "t", "event": "i", "keys": ["id"],
            "columns": [{"n": "id", "t": "int", "v": "1"}],
        },
        "{offset}@{file}",
    ),
    "dms-json": (
        lambda place: {
            "data": {"id": 1}, "metadata": {
                "record-type": "data", "operation": "insert", "schema-name": "s", "table-name": "t",
                "stream-position": place,
            },
        },
        "{file}:{offset}:1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", PLACES)
@pytest.mark.parametrize("seed", range(10))
def test_a_place_may_have_escapes(seed, dialect):
    """JSON allows an escape for any character."""
    randoms = random.Random(seed)
    wrap, form = PLACES[dialect]
    file, offset = f"mysql-bin.{randoms.randrange(10**6):06}", randoms.randrange(10**9)
    place = form.format(file=file, offset=offset)
    escaped = "".join(randoms.choice([char, f"\\u{ord(char):04x}"]) for char in place)
    values = [
        json.dumps(wrap(text)).replace(place, written) for text, written in [(place, place), (place, escaped)] * 2
    ]
    for row in towpath.Decoder(dialect).decode(pa.array(values)).to_pylist():
        assert (row["source"]["file"], row["source"]["position"]) == (file, offset)


# Debezium names the schema of a row `topic.prefix.database.table.Value`.
@pytest.mark.parametrize(("name", "database", "table"), [
    ("srv.shop.orders.Value", "shop", "orders"), ("srv.a.b.c.Value", None, None), ("orders.Value", None, None),
])  # fmt: skip
@pytest.mark.parametrize("dialect", ["debezium-json", "auto"])
def test_the_schema_part_tells_a_row(dialect, name, database, table):
    fields = [column("id", "int32"), column("at", "int64", name="io.debezium.time.Timestamp")]
    message = {"schema": {"type": "struct", "fields": fields, "name": name}, "payload": {"id": 1, "at": 1000}}
    values = pa.array([json.dumps(message)] * 3)
    rows = towpath.Decoder(dialect, "id int, at timestamp_ntz").decode(values).to_pylist()
    for row in rows:
        assert (row["op"], row["database"], row["table"], row["error"]) == ("update", database, table, None)
        assert row["after"] == {"id": 1, "at": datetime(1970, 1, 1, 0, 0, 1)}
    assert towpath.infer_schema(values, dialect).names == ["id", "at"]


def test_a_row_without_an_envelope_says_what_to_set():
    [row] = decode("debezium-json", {"id": 1, "name": "x"})
    assert row["error"]["message"].endswith("op_column to the member with the operation, if the row has one")
    [row] = decode("debezium-json", {"id": 1, "ts_ms": 5})
    assert row["error"]["message"].endswith("op_column to the member with the operation, if the row has one")


def cloud_event(data, **attributes):
    """A CloudEvent, as the page "Exporting CloudEvents" of Debezium's documentation describes it."""
    return {
        "id": "name:srv;file:binlog.000007;pos:1", "source": "/debezium/mysql/srv", "specversion": "1.0",
        "type": "io.debezium.connector.mysql.DataChangeEvent", "time": "2024-03-01T10:00:00.123Z",
        "datacontenttype": "application/json", "iodebeziumop": "u", "iodebeziumversion": "2.7.3.Final",
        "iodebeziumconnector": "mysql", "iodebeziumname": "srv", "iodebeziumtsms": "1709287200123",
        "iodebeziumsnapshot": "false", "iodebeziumdb": "shop", "iodebeziumtable": "orders",
        "iodebeziumserverid": "223344", "iodebeziumgtid": None, "iodebeziumfile": "binlog.000007",
        "iodebeziumpos": "1", "iodebeziumrow": "0", "iodebeziumtxid": "file=binlog.000007,pos=1", **attributes,
        "data": data,
    }  # fmt: skip


@pytest.mark.parametrize("dialect", ["debezium-json", "auto"])
def test_cloud_events(dialect):
    images = {"before": {"id": 1, "n": 1}, "after": {"id": 1, "n": 2}}
    fields = [{"type": "struct", "fields": [column("id", "int32"), column("n", "int32")], "field": "after"}]
    data = {"schema": {"type": "struct", "fields": fields}, "payload": images}
    for value in (cloud_event(images), cloud_event(data), {"schema": None, "payload": cloud_event(images)}):
        [row] = decode(dialect, value, schema="id int, n int")
        assert (row["op"], row["before"], row["after"]) == ("update", images["before"], images["after"])
        assert (row["database"], row["table"], row["changed"]) == ("shop", "orders", ["n"])
        assert row["event_time"] == datetime(2024, 3, 1, 10, 0, 0, 123000, tzinfo=timezone.utc)
        source = {name: value for name, value in row["source"].items() if value is not None}
        assert source == {
            "dialect": "debezium-json", "operation": "u", "connector": "mysql", "version": "2.7.3.Final",
            "server_id": 223344, "file": "binlog.000007", "position": 1, "transaction_id": "file=binlog.000007,pos=1",
        }  # fmt: skip
    [row] = decode(dialect, cloud_event("AAAA"))
    assert row["error"]["message"] == "debezium-json: data: expected an object or null, found text"


# Confluent's JSON Schema converter writes a zero byte and the id of the schema before the JSON.
@pytest.mark.parametrize("dialect", ["debezium-json", "auto"])
def test_confluents_five_bytes_before_json(dialect):
    head = b"\x00\x00\x00\x00\x2a"
    messages = [debezium([column("id", "int32")], {"id": n})["payload"] for n in range(5)]
    batch = pa.record_batch({
        "key": [head + json.dumps({"id": n}).encode() for n in range(5)],
        "value": [head + json.dumps(message).encode() for message in messages],
    })  # fmt: skip
    rows = towpath.Decoder(dialect, "id int", key="key").decode(batch).to_pylist()
    assert [(row["op"], row["after"], row["primary_key"]) for row in rows] == [
        ("insert", {"id": n}, ["id"]) for n in range(5)
    ]
    assert towpath.detect(batch["value"][0].as_py()) == "debezium-json"
    [row] = decode(dialect, head + json.dumps({**messages[0], "after": {"id": "x"}}).encode(), schema="id int")
    assert row["error"]["byte"] == 5 + json.dumps({**messages[0], "after": {"id": "x"}}).index('"x"') + 1
    [row] = decode("debezium-json", head + b'{"op":"c",}')
    assert row["error"]["byte"] == 15


NAMES = ["id", "`id`", "``", "`a``b`", "a``b", "`", "`x", "x`", "a b", "\u00e9`"]


# Only canal quotes names; the others' backticks belong to the name.
@pytest.mark.parametrize("name", NAMES)
def test_auto_reads_names_as_the_named_dialect_does(name):
    messages = {
        "canal-json": canal(
            data=[{name: "1"}], mysqlType={name: "int"}, sqlType={name: 4}, pkNames=[name], database=name, table=name
        ),
        "debezium-json": {"op": "c", "after": {name: 1}, "source": {"db": name, "table": name}},
        "maxwell-json": {
            "type": "insert",
            "data": {name: 1},
            "database": name,
            "table": name,
            "primary_key_columns": [name],
        },
        "cloudcanal-json": {
            "action": "INSERT",
            "data": [{name: "1"}],
            "pks": [name],
            "dbValType": {name: "int"},
            "db": name,
            "table": name,
        },
        "river-json": {"event": "i", "columns": [{"n": name, "t": "int", "v": "1"}], "db": name, "table": name},
    }
    values = [json.dumps(message).encode() for message in messages.values()]
    # In every order, and several times, as names are cached.
    mixed = (values + values[::-1]) * 3
    named = {value: decode(dialect, value)[0] for dialect, value in zip(messages, values, strict=True)}
    rows = towpath.Decoder("auto").decode(pa.array(mixed)).to_pylist()
    assert rows == [named[value] for value in mixed]
    for dialect, value in zip(messages, values, strict=True):
        expected = name if dialect != "canal-json" else unquoted(name)
        assert (named[value]["table"], dict(named[value]["after"])) == (expected, {expected: "1"})


# TiCDC marks its canal-json by a last member, and does not quote names.
@pytest.mark.parametrize("name", NAMES)
def test_names_of_ticdc_in_canal_json_are_not_unquoted(name):
    message = canal(data=[{name: "1"}], mysqlType={name: "int"}, table=name, pkNames=[name], _tidb={"commitTs": 1})
    values = pa.array([json.dumps(message)] * 4)
    for dialect in ("canal-json", "ticdc-canal-json", "auto"):
        rows = towpath.Decoder(dialect).decode(values).to_pylist()
        assert {
            (row["table"], *row["primary_key"], *dict(row["after"]), *dict(row["column_types"])) for row in rows
        } == {(name, name, name, name)}
        typed = towpath.Decoder(dialect, pa.schema([(name, pa.int32())])).decode(values).to_pylist()
        assert [row["after"] for row in typed] == [{name: 1}] * 4


def unquoted(name):
    """The name without MySQL's quoting, if it is quoted."""
    inner = name[1:-1] if len(name) > 1 and name[0] == name[-1] == "`" else name
    return inner.replace("``", "`")


def test_missing_columns_are_counted_and_named_in_every_layout():
    messages = [canal(data=[{"id": "1"}, {"id": "2", "a": "x"}]), canal(data=[{"a": "y"}], type="DELETE")]
    values = pa.array([json.dumps(message) for message in messages])
    for layout, name in (
        ("change", "missing_columns"),
        ("changelog", "_missing_columns"),
        ("upsert", "_missing_columns"),
    ):
        decoder = towpath.Decoder("canal-json", "id int, a string, b string", layout=layout)
        assert [row[name] for row in decoder.decode(values).to_pylist()] == [["a", "b"], ["b"], ["id", "b"]]
        assert decoder.metrics["missing_columns"] == {"id": 1, "a": 1, "b": 3}
        assert decoder.columns == ["id", "a", "b"]
        assert decoder.schema.names[-3:] == [
            name if layout != "change" else "row",
            "error" if layout == "change" else "_error",
            "_corrupt_record",
        ]
    lean = towpath.Decoder("canal-json", "id int, b string", fields=["after"])
    lean.decode(values)
    assert lean.metrics["missing_columns"] == {"id": 1, "b": 3}
    assert towpath.Decoder("canal-json").columns == []


SINKS = [
    # Iceberg's and Doris' Kafka connectors; Fivetran; Airbyte; Paimon's `rowkind.field`; Estuary Flow; Hudi; Delta.
    ("_cdc.op", ["I", "U"], ["D", "d"]),
    ("__DORIS_DELETE_SIGN__", ["false", False, 0, "0"], ["true", True, 1, "1"]),
    ("_fivetran_deleted", [False, None], [True]),
    ("_ab_cdc_deleted_at", [None, ""], ["2024-05-06T07:08:09.000000Z", 1714979289123]),
    ("is_deleted", [0, False], [1, True, "true"]),
    ("row_kind", ["+I", "+U"], ["-D"]),
    ("_meta.op", ["c", "u"], ["d"]),
    ("_hoodie_operation", ["I", "U"], ["D"]),
    ("_change_type", ["insert", "update_postimage"], ["delete"]),
    # ExtractNewRecordState with another `add.fields.prefix`.
    ("cdc_op", ["c", "u", "r"], ["d"]),
    ("_deleted", ["false"], ["true"]),
]
INSERTS = {"I": "insert", "c": "insert", "+I": "insert", "insert": "insert", "r": "snapshot"}


def marked(path, value, **columns):
    outer, _, inner = path.partition(".")
    return {"id": 1, **columns, outer: {"ts": 1, inner: value} if inner else value, "name": "a"}


@pytest.mark.parametrize(("path", "kept", "deleted"), SINKS, ids=[path for path, *_ in SINKS])
@pytest.mark.parametrize("schema", ["id int, name string", None])
@pytest.mark.parametrize("dialect", ["debezium-json", "auto"])
def test_a_mark_of_a_delete_is_read_or_an_error(dialect, schema, path, kept, deleted):
    """A row that another sink marks as deleted is never an update."""
    row = {"id": 1, "name": "a"} if schema else [("id", "1"), ("name", "a")]
    for of_table in ({}, {"__table": "t"}):  # rows with an added field are read by templates
        values = [json.dumps(marked(path, value, **of_table)) for value in kept * 3 + deleted + kept]
        ops = [INSERTS.get(value, "update") for value in kept * 3] + ["delete"] * len(deleted)
        rows = towpath.Decoder(dialect, schema, op_column=path).decode(values).to_pylist()
        assert [row["op"] for row in rows][: len(ops)] == ops
        assert [(one["before"] or one["after"]) == row for one in rows] == [True] * len(values)
        rows = towpath.Decoder(dialect, schema, unwrapped=True).decode(values).to_pylist()
        for one, op in zip(rows, ops, strict=False):
            assert one["op"] == ("error" if op == "delete" else "update")
            if op == "delete":
                assert one["error"]["kind"] == "envelope"
                assert one["error"]["message"].startswith(f"debezium-json: {path}: marks a deleted row")
                assert f'op_column="{path}"' in one["error"]["message"]
    [row] = decode(dialect, marked(path, deleted[0]), schema=schema)
    assert (row["op"], "unwrapped=True" in row["error"]["message"]) == ("error", True)
    assert "op_column" in row["error"]["message"]


def test_marks_that_are_columns_or_said_otherwise():
    [row] = decode("debezium-json", marked("is_deleted", 1), schema="id int, is_deleted int", unwrapped=True)
    assert (row["op"], row["after"]) == ("update", {"id": 1, "is_deleted": 1})
    for said, op in (({"__deleted": "false"}, "update"), ({"__op": "c"}, "insert")):
        for dialect in ("debezium-json", "auto"):
            [row] = decode(dialect, marked("is_deleted", 1, **said), schema="id int")
            assert (row["op"], row["after"]) == (op, {"id": 1})
    # The schema part says that the row is Debezium's: only its fields with another prefix are marks.
    fields = [column("id", "int32"), column("is_deleted", "boolean"), column("cdc_deleted", "string")]
    part = {"type": "struct", "fields": fields, "name": "s.d.t.Value"}
    for value, op in (("false", "update"), ("true", "error")):
        message = {"schema": part, "payload": {"id": 1, "is_deleted": True, "cdc_deleted": value}}
        assert decode("debezium-json", message, schema="id int")[0]["op"] == op


@pytest.mark.parametrize("value", ["x", 2, [1], {"a": 1}, "DELETED?"])
def test_a_word_that_op_column_does_not_know_is_an_error(value):
    [row] = decode("debezium-json", marked("kind", value), schema="id int", op_column="kind")
    assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
    assert row["error"]["message"].startswith("debezium-json: kind: ")


@pytest.mark.parametrize("path", ["king", "kind.op", "name.op", "kind.a.b"])
def test_a_row_without_the_member_of_op_column_is_an_error(path):
    [row] = decode("debezium-json", marked("kind.a", "d"), schema="id int", op_column=path)
    assert row["error"]["message"].startswith(f"debezium-json: {path}: is missing")


def test_both_rows_of_an_update_by_op_column():
    values = [json.dumps(marked("row_kind", kind)) for kind in ("-U", "+U", "-D")]
    rows = towpath.Decoder("debezium-json", "id int", op_column="row_kind").decode(values).to_pylist()
    found = [(row["op"], row["before"], row["after"], row["source"]["operation"]) for row in rows]
    one = {"id": 1}
    assert found == [("update", one, None, "-U"), ("update", None, one, "+U"), ("delete", one, None, "-D")]
    rows = towpath.Decoder("debezium-json", "id int", unwrapped=True).decode(values).to_pylist()
    assert [row["op"] for row in rows] == ["error", "update", "error"]


def test_the_column_of_op_column_is_not_inferred():
    fields = [column("id", "int32"), column("kind", "string")]
    part = {"type": "struct", "fields": fields, "name": "s.d.t.Value"}
    message = json.dumps({"schema": part, "payload": {"id": 1, "kind": "D"}})
    assert towpath.infer_schema([message], "debezium-json", op_column="kind") == pa.schema([("id", pa.int32())])
    [row] = decode("debezium-json", json.loads(message), op_column="kind")
    assert (row["op"], row["table"], row["before"]) == ("delete", "t", [("id", "1")])


@pytest.mark.parametrize("of_record", [{"type": "string"}, {"type": "record", "name": "Cdc"}], ids=["name", "path"])
def test_marks_in_avro(of_record):
    """Avro's rows have the same marks: a text, or a record."""
    is_text = of_record["type"] == "string"
    name, path = ("cdc_op", "cdc_op") if is_text else ("_cdc", "_cdc.op")
    if not is_text:
        of_record = of_record | {"fields": [{"name": "op", "type": "string"}]}
    fields = [{"name": "id", "type": "long"}, {"name": name, "type": of_record}]
    schemas = {7: json.dumps({"type": "record", "name": "s.d.t.Value", "fields": fields})}
    values = [b"\0\0\0\0\x07\x02\x02" + word for word in (b"c", b"u", b"d")]

    def ops(**options):
        decoder = towpath.Decoder("debezium-avro", writer_schemas=schemas, **options)
        return decoder.decode(values)["op"].to_pylist()

    for schema in (None, "id bigint"):
        assert ops(schema=schema, op_column=path) == ["insert", "update", "delete"]
        assert ops(schema=schema, unwrapped=True) == ["update", "update", "error"]
    assert ops(schema=f"id bigint, {name} string", unwrapped=True) == ["update"] * 3


WKT = ["POINT (0 0)", "linestring(0 0,1 1)", "SRID=4326;POINT(1 2)", "MULTIPOLYGON (((0 0, 1 1, 1 0, 0 0)))"]


@pytest.mark.parametrize("text", [*WKT, "GEOMETRYCOLLECTION EMPTY"])
@pytest.mark.parametrize("dialect", ["maxwell-json", "debezium-json", "dms-json", "ticdc-simple"])
def test_a_geometry_in_words_that_is_requested_as_binary_says_so(dialect, text):
    message = {
        "maxwell-json": {"type": "bootstrap-insert", "data": {"b": text}, "database": "s", "table": "t"},
        "debezium-json": {"op": "c", "after": {"b": text}},
        "dms-json": {"data": {"b": text}, "metadata": {"operation": "insert", "record-type": "data"}},
        "ticdc-simple": {"version": 1, "type": "INSERT", "data": {"b": text}},
    }[dialect]
    [row] = decode(dialect, message, schema="b binary")
    assert row["error"]["kind"] == "type"
    assert row["error"]["message"].endswith(" text; it is a geometry in WKT: request string")
    assert decode(dialect, message, schema="b string")[0]["after"] == {"b": text}
    [row] = decode("maxwell-json", {"type": "insert", "data": {"b": "POINTS?"}}, schema="b binary")
    assert row["error"]["message"].endswith("is not base64 text")
