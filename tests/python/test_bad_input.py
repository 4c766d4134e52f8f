"""Malformed input: each message or value is exactly one error with its reason and position; nothing else changes."""

import json

import pyarrow as pa
import pytest

import towpath
from canal_messages import SCHEMA, change, order

GOOD = change(data=[order(1, "12.50")], mysqlType={"id": "bigint"}, pkNames=["id"], es=1700000000000)
GOOD_AFTER = {"id": 1, "total": "12.50"}
MODES = ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]


def decode(*values, schema=SCHEMA, **options):
    """Rows of messages, in PERMISSIVE mode."""
    batch = towpath.Decoder("canal-json", schema, **options).decode(pa.array(values, pa.binary()))
    batch.validate(full=True)
    return batch.to_pylist(maps_as_pydicts="strict")


def only_error(value, **options):
    """The error of a message with one row; its neighbours must be decoded as without it."""
    before, *rows, after = decode(GOOD, value, GOOD, **options)
    assert before == after == decode(GOOD, **options)[0]
    [row] = rows
    assert row["_corrupt_record"] == value
    assert row["error"]["message"].startswith("canal-json: ")
    return row["op"], row["error"]


def unreadable(value, **options):
    """The error of an unreadable message."""
    op, error = only_error(value, **options)
    assert op == "error"
    assert error["column"] is None
    return error


TEXT = [1, 1.5, True, [], {}]
INTEGER = ["x", "1", "", 1.5, 2**63, True, [], {}]
WRONG_TYPES = {
    "data": [1, "x", True, [1], ["x"], [[]], [{}, True]],
    "old": [1, "x", True, [1], ["x"], [[]]],
    "database": TEXT,
    "table": TEXT,
    "type": TEXT,
    "gtid": TEXT,
    "sql": TEXT,
    "es": INTEGER,
    "ts": INTEGER,
    "id": INTEGER,
    "isDdl": [0, 1, "no", "", [], {}],
    "pkNames": ["id", 1, True, {}, [1], [None], [[]]],
    "mysqlType": ["x", 1, True, [1], {"id": 1}, {"id": {}}],
    "sqlType": ["x", 1, True, [1]],
    "tableChanges": ["x", 1, True],
    "_tidb": ["x", 1, True, []],
    "_tidb.commitTs": ["x", 1.5, True, [], {}],
    "_tidb.watermarkTs": ["x", 1.5, True, [], {}],
    "_tidb.onlyHandleKey": [1, "yes", [], {}],
    "_tidb.claimCheckLocation": [1, True, [], {}],
}


@pytest.mark.parametrize("field", WRONG_TYPES)
def test_a_wrong_json_type_in_an_envelope_field(field):
    outer, _, inner = field.partition(".")
    for wrong in WRONG_TYPES[field]:
        message = json.loads(GOOD) | {outer: {inner: wrong} if inner else wrong}
        value = json.dumps(message).encode()
        error = unreadable(value)
        assert error["kind"] == "envelope", (wrong, error)
        assert error["message"].startswith(f"canal-json: {outer}"), (wrong, error)
        assert value[error["byte"] :].startswith(json.dumps(innermost(wrong, field)).encode()), (wrong, error)


def innermost(wrong, field):
    """The text at the error's byte: the wrong element or member, not the whole."""
    if isinstance(wrong, list) and wrong and field in ("data", "old", "pkNames"):
        return wrong[-1]
    if isinstance(wrong, dict) and wrong:
        return next(iter(wrong.values()))
    return wrong


@pytest.mark.parametrize("missing", ["type", "data"])
def test_an_envelope_without_what_it_needs(missing):
    message = json.loads(GOOD)
    del message[missing]
    error = unreadable(json.dumps(message).encode())
    assert error["kind"] == "envelope"
    assert missing in error["message"]


# Numbers with the expected value, or kind of error, for each type of column.
NUMBERS = ["00", "+1", "1e3", " 1 ", "", "1.0", "-", "0x10", "1_000", "１", "NaN", "-0"]
WHOLE = [0, "type", "type", "type", "type", "type", "type", "type", "type", "type", "type", 0]
EXACT = [0, "type", 1000, "type", "type", 1, "type", "type", "type", "type", "type", 0]
NUMERIC = {
    **dict.fromkeys([pa.int8(), pa.int16(), pa.int32(), pa.int64()], WHOLE),
    **dict.fromkeys([pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], WHOLE),
    **dict.fromkeys([pa.decimal128(10, 2), pa.decimal128(38, 4), pa.decimal256(50, 3)], EXACT),
    **dict.fromkeys([pa.float32(), pa.float64()], EXACT),
    pa.bool_(): WHOLE,
}


@pytest.mark.parametrize("kind", NUMERIC, ids=str)
def test_odd_numbers_are_exact_or_refused(kind):
    for text, want in zip(NUMBERS, NUMERIC[kind], strict=True):
        check_value(kind, text, want)


def check_value(kind, sent, want):
    """A column of this type accepts the value, or rejects it with an error of this kind; other columns are right."""
    schema = pa.schema([("id", pa.int64()), ("v", kind), ("t", pa.string())])
    value = change(data=[{"id": "7", "v": sent, "t": "x"}])
    [row] = decode(value, schema=schema)
    if not (isinstance(want, str) and want in ("type", "range", "encoding", "depth")):
        assert row["error"] is None, (sent, row["error"])
        assert row["after"]["v"] == want
        return
    assert row["op"] == "insert"
    assert row["after"] == {"id": 7, "v": None, "t": "x"}
    assert row["_corrupt_record"] == value
    check_error(row["error"], value, sent, want)
    check_other_modes(schema, value, row["error"])


def check_error(error, value, sent, kind):
    assert (error["kind"], error["column"]) == (kind, "v"), (sent, error)
    assert error["message"].startswith("canal-json: after.v: "), error
    there = value[error["byte"] :]
    assert there.startswith((json.dumps(sent, ensure_ascii=False).encode(), str(sent).encode())), (sent, error, there)


def check_other_modes(schema, value, error):
    dropping = towpath.Decoder("canal-json", schema, mode="DROPMALFORMED")
    assert len(dropping.decode(pa.array([value]))) == 0
    assert dropping.metrics == {
        "messages": 1,
        "rows": 0,
        "filtered": 0,
        "dropped": 1,
        "errors": {error["kind"]: 1},
        "missing_columns": {},
        "zero_dates": {},
        "absent_columns": {},
    }
    with pytest.raises(towpath.DecodeError) as caught:
        towpath.Decoder("canal-json", schema, mode="FAILFAST").decode(pa.array([None, value]))
    raised = caught.value
    assert {name: getattr(raised, name) for name in error} == error
    assert (raised.row, raised.dialect) == (1, "canal-json")


# JSON values that are an error in every scalar column.
NESTED = [[], {}, [1]]
WRONG_VALUES = {
    pa.bool_(): [("2", "range"), ("yes", "type"), ("-1", "range"), *((value, "type") for value in NESTED)],
    pa.int8(): [("128", "range"), ("-129", "range"), ("x", "type"), *((value, "type") for value in NESTED)],
    pa.int16(): [("32768", "range"), (-32769, "range"), ("1.5", "type"), (1.5, "type")],
    pa.int32(): [("2147483648", "range"), (2147483648, "range")],
    pa.int64(): [("9223372036854775808", "range"), ("9" * 60, "range"), (10**30, "range")],
    pa.uint8(): [("256", "range"), ("-1", "range")],
    pa.uint16(): [("65536", "range"), ("-1", "range")],
    pa.uint32(): [("4294967296", "range"), ("-1", "range")],
    pa.uint64(): [("18446744073709551616", "range"), ("-1", "range")],
    pa.float32(): [("1e39", "range"), ("1,5", "type"), ("inf", "type"), (True, "type"), *((v, "type") for v in NESTED)],
    pa.float64(): [("1e309", "range"), ("x", "type"), ("Infinity", "type"), (False, "type")],
    pa.decimal128(10, 2): [
        *(("12,50", "type"), ("123456789.00", "range"), ("1.005", "range"), ("1e9", "range"), ("1e-3", "range")),
        *(("0x1", "type"), (True, "type"), *((value, "type") for value in NESTED)),
    ],
    pa.decimal256(76, 0): [("1" + "0" * 76, "range"), ("1e99999999999", "range"), ("x", "type")],
    pa.date32(): [
        *(("2021-02-30", "range"), ("2021-13-01", "range"), ("2021-1-1", "type"), ("20210101", "type"), ("", "type")),
        *(("2021-01-01 00:00:01", "range"), ("2021", "type"), (2021, "type"), (True, "type")),
    ],
    pa.timestamp("us"): [
        *(("2021-02-29 00:00:00", "range"), ("2021-01-01 24:00:00", "range"), ("2021-01-01 00:60:00", "range")),
        *(("2021-01-01 00:00", "type"), ("x", "type"), ("", "type"), ("2021-01-01 00:00:00.", "type")),
        *(("2021-01-01 00:00:00.1234567", "range"), (1609459200, "type"), *((value, "type") for value in NESTED)),
    ],
    pa.timestamp("s"): [("2021-01-01 00:00:00.5", "range")],
    pa.timestamp("ms"): [("2021-01-01 00:00:00.0005", "range")],
    pa.timestamp("ns"): [("9999-12-31 23:59:59", "range")],
    pa.timestamp("us", "UTC"): [("2021-02-29 00:00:00", "range"), ("x", "type"), (1, "type")],
    pa.duration("us"): [("839:00:00", "range"), ("00:60:00", "range"), ("1:00:00", "type"), ("", "type"), (1, "type")],
    pa.duration("s"): [("00:00:00.5", "range")],
    pa.time64("us"): [("24:00:00", "range"), ("-00:00:01", "range"), ("x", "type")],
    pa.binary(): [("中", "encoding"), (True, "type"), (5, "type"), *((value, "type") for value in NESTED)],
    pa.list_(pa.int32()): [("{}", "type"), ("[1", "type"), ("x", "type"), ("", "type"), ("[1]x", "type"), (1, "type")],
    pa.struct([("a", pa.int32())]): [("[]", "type"), ("{", "type"), ("1", "type"), ("{}{}", "type"), (True, "type")],
    pa.map_(pa.string(), pa.int32()): [("[]", "type"), ("{1:2}", "type"), ("{}1", "type")],
}


@pytest.mark.parametrize("kind", WRONG_VALUES, ids=str)
def test_a_wrong_value_of_each_type(kind):
    for sent, want in WRONG_VALUES[kind]:
        check_value(kind, sent, want)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.list_(pa.int8()), "[1,300]"),
        (pa.struct([("a", pa.int8())]), '{"a":300}'),
        (pa.map_(pa.string(), pa.int8()), '{"a":300}'),
    ],
    ids=str,
)
def test_a_wrong_value_within_json_makes_the_whole_column_null(kind, text):
    schema = pa.schema([("v", kind)])
    [row] = decode(change(data=[{"v": text}]), schema=schema)
    assert row["after"] == {"v": None}
    assert (row["error"]["kind"], row["error"]["column"]) == ("range", "v")


def test_the_first_of_several_bad_values_is_the_error_and_all_of_them_are_null():
    [row] = decode(change("UPDATE", data=[order(1, "a", "b")], old=[{"total": "c"}]))
    assert row["after"] == {"id": 1, "total": None, "placed_at": None}
    assert row["before"] == {"id": 1, "total": None, "placed_at": None}
    assert row["error"]["message"].startswith("canal-json: before.total: ")


def test_one_bad_row_of_several_in_a_message():
    rows = decode(change(data=[order(1, "1.00"), order(2, "x"), order(3, "3.00")]))
    assert [row["error"] is None for row in rows] == [True, False, True]
    assert [row["after"]["id"] for row in rows] == [1, 2, 3]
    assert [row["row"] for row in rows] == [0, 1, 2]


@pytest.mark.parametrize("layout", ["changelog", "upsert"])
def test_flat_layouts_keep_bad_rows_with_an_error(layout):
    rows = decode(change(data=[order(2, "x")]), b"{", layout=layout)
    assert [row["_error"]["kind"] for row in rows] == ["type", "syntax"]
    assert (rows[0]["id"], rows[0]["total"]) == (2, None)
    assert rows[0]["_corrupt_record"] == change(data=[order(2, "x")])


def test_a_missing_column_is_an_error_if_that_is_asked():
    value = change(data=[{"id": "1", "total": "1.00"}])
    [row] = decode(value)
    assert (row["missing_columns"], row["error"]) == (["placed_at"], None)
    [row] = decode(value, missing="error")
    assert (row["error"]["kind"], row["error"]["column"]) == ("missing", "placed_at")


# Invalid UTF-8 sequences: lone bytes, overlong forms, surrogates, beyond U+10FFFF.
NO_UTF8 = [b"\xff", b"\x80", b"\xc3", b"\xc0\x80", b"\xe4\xb8", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80"]


@pytest.mark.parametrize("bad", NO_UTF8, ids=bytes.hex)
def test_bytes_that_are_not_utf8_at_any_place(bad):
    values = [GOOD[:at] + bad + GOOD[at:] for at in range(1, len(GOOD))]
    for value, row in zip(values, decode(*values), strict=True):
        with pytest.raises(UnicodeDecodeError) as caught:
            value.decode()
        assert (row["op"], row["_corrupt_record"]) == ("error", value)
        assert (row["error"]["kind"], row["error"]["byte"]) == ("encoding", caught.value.start), value


@pytest.mark.parametrize("bad", NO_UTF8, ids=bytes.hex)
def test_bytes_that_are_not_utf8_in_place_of_a_message(bad):
    assert unreadable(bad)["kind"] in ("encoding", "compression")


@pytest.mark.parametrize("escape", [r"\ud800", r"\udc00", r"\ud800\u0041", r"\udc00\ud800"])
def test_a_lone_surrogate_escape_is_no_text(escape):
    value = rb'{"type":"INSERT","data":[{"t":"%s","n":"1"}]}' % escape.encode()
    [row] = decode(value, schema="t string, n int")
    assert row["after"] == {"t": None, "n": 1}
    assert (row["error"]["kind"], row["error"]["column"]) == ("encoding", "t")


DEEP = 100_000
MYSQL_DEPTH = 100  # MySQL's limit for nested JSON


def arrays(depth):
    return "[" * depth + "]" * depth


def nested_objects(depth):
    return '{"a":' * depth + "1" + "}" * depth


NESTED_FIELDS = ["unknown", "data", "old", "tableChanges", "mysqlType", "sqlType", "_tidb", "database"]
BOMBS = {"[]": arrays(DEEP), "{}": nested_objects(DEEP), "[": "[" * DEEP, "{": '{"a":' * DEEP}


@pytest.mark.parametrize("field", NESTED_FIELDS)
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_nesting_bombs_in_the_envelope(field, bomb):
    value = f'{{"type":"INSERT","{field}":{bomb},"data":[{{"id":"1"}}]}}'.encode()
    error = unreadable(value)
    assert error["kind"] in ("depth", "envelope", "syntax")
    if error["kind"] == "depth":
        assert "128" in error["message"]


@pytest.mark.parametrize("bomb", [arrays(DEEP), nested_objects(DEEP)], ids=["[]", "{}"])
def test_nesting_bombs_name_the_bound(bomb):
    for value in (f'{{"type":"INSERT","x":{bomb}}}', f'{{"type":"INSERT","data":[{{"id":{bomb}}}]}}'):
        error = unreadable(value.encode())
        assert error["kind"] == "depth"
        assert "128" in error["message"]


def test_nesting_bombs_at_the_top():
    for value in (arrays(DEEP), "[" * DEEP, nested_objects(DEEP), '{"a":' * DEEP, "[" * 20 + GOOD.decode() + "]" * 20):
        assert unreadable(value.encode())["kind"] in ("depth", "envelope", "syntax")


NESTING_TYPES = [pa.list_(pa.string()), pa.struct([("a", pa.string())]), pa.map_(pa.string(), pa.string())]


@pytest.mark.parametrize("kind", NESTING_TYPES, ids=str)
def test_nesting_bombs_in_a_json_column(kind):
    bomb = arrays(DEEP) if pa.types.is_list(kind) else nested_objects(DEEP)
    schema = pa.schema([("id", pa.int64()), ("v", kind)])
    [row] = decode(change(data=[{"id": "1", "v": bomb}]), schema=schema)
    assert row["after"] == {"id": 1, "v": None}
    assert row["error"]["kind"] == "depth"
    assert "128" in row["error"]["message"]


@pytest.mark.parametrize("kind", NESTING_TYPES, ids=str)
def test_json_as_deep_as_mysql_allows_is_no_bomb(kind):
    text = arrays(MYSQL_DEPTH) if pa.types.is_list(kind) else nested_objects(MYSQL_DEPTH)
    [row] = decode(change(data=[{"v": text}]), schema=pa.schema([("v", kind)]))
    assert row["error"] is None
    assert row["after"]["v"]


def test_a_value_of_100_mb():
    text = "x" * (100 << 20)
    value = change(data=[{"id": "1", "t": text, "n": text}])
    small = change(data=[{"id": "2", "t": "y", "n": "3"}])
    first, big, last = decode(small, value, small, schema="id int, t string, n int")
    assert first == last
    assert big["after"]["id"] == 1
    assert big["after"]["t"] == text
    assert (big["after"]["n"], big["error"]["kind"], big["error"]["column"]) == (None, "type", "n")
    assert len(big["error"]["message"]) < 1000
    assert big["_corrupt_record"] == value


def test_a_hundred_thousand_rows_and_columns():
    rows = decode(change(data=[{"id": str(number)} for number in range(100_000)]), schema="id int")
    assert [row["after"]["id"] for row in rows] == list(range(100_000))
    wide = {f"c{number}": str(number) for number in range(100_000)}
    [row] = decode(change(data=[wide]), schema=None)
    assert row["after"] == wide


CODECS = ["lz4", "snappy", "gzip", "zstd"]


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\xff\xff"])
def test_a_snappy_block_that_claims_a_great_length(claim):
    assert unreadable(claim + b"\x00x", compression="auto")["kind"] in ("encoding", "compression", "syntax")
    [row] = decode(claim + b"\x00x", compression="snappy")
    assert row["error"]["kind"] == "compression"


@pytest.mark.parametrize("codec", CODECS)
def test_plain_messages_are_not_what_a_named_compression_expects(codec):
    [row] = decode(GOOD, compression=codec)
    assert row["error"]["kind"] == "compression"


@pytest.mark.parametrize("value", [b" ", b"\n", b"\r\n\r\n"])
def test_an_empty_message_is_a_syntax_error(value):
    error = unreadable(value)
    assert (error["kind"], "empty" in error["message"]) == ("syntax", True)


@pytest.mark.parametrize("mode", MODES)
def test_null_values_are_tombstones_in_each_mode(mode):
    batch = towpath.Decoder("canal-json", SCHEMA, mode=mode).decode(pa.array([None, GOOD, None], pa.binary()))
    assert batch.column("op").to_pylist() == ["tombstone", "insert", "tombstone"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", ["change", "changelog", "upsert"])
def test_an_empty_batch_in_each_mode_and_layout(mode, layout):
    decoder = towpath.Decoder("canal-json", SCHEMA, mode=mode, layout=layout)
    batch = decoder.decode(pa.array([], pa.binary()))
    batch.validate(full=True)
    assert (len(batch), batch.schema) == (0, decoder.schema)


@pytest.mark.parametrize("layout", ["change", "changelog", "upsert"])
def test_a_batch_of_only_errors_in_each_mode(layout):
    bad = pa.array([b" ", b"{", b"\xff", b"[]", change(data=[order(1, "x")], old=5)])
    options = {"layout": layout, "compression": "none"}
    assert len(towpath.Decoder("canal-json", SCHEMA, **options).decode(bad)) == 5
    dropping = towpath.Decoder("canal-json", SCHEMA, mode="DROPMALFORMED", **options)
    batch = dropping.decode(bad)
    batch.validate(full=True)
    assert (len(batch), batch.schema) == (0, dropping.schema)
    assert (dropping.metrics["dropped"], sum(dropping.metrics["errors"].values())) == (5, 5)
    with pytest.raises(towpath.DecodeError) as caught:
        towpath.Decoder("canal-json", SCHEMA, mode="FAILFAST", **options).decode(bad)
    assert caught.value.row == 0


def test_error_rows_keep_the_inputs_columns_and_nothing_else():
    batch = pa.record_batch({"value": [GOOD, b"{"], "offset": [10, 11], "topic": ["t", "u"]})
    decoder = towpath.Decoder("canal-json", SCHEMA, keep=["topic", "offset"])
    row = decoder.decode(batch).to_pylist()[1]
    left = {name: value for name, value in row.items() if value is not None}
    assert set(left) == {"op", "error", "_corrupt_record", "topic", "offset"}
    assert (left["topic"], left["offset"]) == ("u", 11)


def test_filters_come_before_conversion():
    other = change(data=[{"id": "x", "total": [], "placed_at": "中"}], table="customers")
    decoder = towpath.Decoder("canal-json", SCHEMA, table="orders", mode="FAILFAST")
    assert decoder.decode(pa.array([other, GOOD])).column("op").to_pylist() == ["insert"]
    assert decoder.metrics == {
        "messages": 2,
        "rows": 1,
        "filtered": 1,
        "dropped": 0,
        "errors": {},
        "missing_columns": {},
        "zero_dates": {},
        "absent_columns": {},
    }


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (".*", ["orders", "a\nb", "\n", "中"]),
        ("a.b", ["a\nb", "a.b"]),
        ("(?x) orders # mine", ["orders"]),
        ("(?x) a  # either\n | b  # or )", ["a", "b"]),
        ("a|b", ["a", "b"]),
    ],
)
def test_expressions_are_over_the_whole_name(pattern, names):
    other = ["ab", "xorders", "orders2", "a\nb\n", "orders\n"]
    messages = [change(data=[{"id": "1"}], table=name) for name in [*names, *other]]
    batch = towpath.Decoder("canal-json", table=pattern, fields=["table"]).decode(pa.array(messages))
    passed = batch.column("table").to_pylist()
    assert passed == (names + other if pattern == ".*" else names)


@pytest.mark.parametrize("pattern", ["(", "a)|(b", "(?x) a ( # b"])
def test_an_expression_must_be_valid_by_itself(pattern):
    with pytest.raises(ValueError, match="table: "):
        towpath.Decoder("canal-json", table=pattern)


def test_filtered_messages_must_still_be_json():
    decoder = towpath.Decoder("canal-json", SCHEMA, table="orders")
    assert decoder.decode(pa.array([b'{"table":"customers","type":"INSERT"'])).column("op").to_pylist() == ["error"]


def test_metrics_count_rows_and_errors_by_kind():
    decoder = towpath.Decoder("canal-json", SCHEMA, table="orders")
    bad_rows = change(data=[order(1, "x"), order(2, "2.00"), order(3, "1e9")])
    decoder.decode(pa.array([GOOD, bad_rows, b"{", None, change(data=[order(4, "x")], table="t")]))
    assert decoder.metrics == {
        "messages": 5,
        "rows": 6,
        "filtered": 1,
        "dropped": 0,
        "errors": {"type": 1, "range": 1, "syntax": 1},
        "missing_columns": {},
        "zero_dates": {},
        "absent_columns": {},
    }


@pytest.mark.parametrize("control", [chr(code) for code in range(0x20)], ids=lambda c: f"U+{ord(c):04X}")
def test_raw_control_characters_need_lenient(control):
    value = f'{{"type":"INSERT","data":[{{"t":"a{control}b"}}],"sql":"x{control}"}}'.encode()
    error = unreadable(value)
    assert error["kind"] == "syntax"
    assert "lenient" in error["message"]
    assert value[error["byte"]] == ord(control)
    [row] = decode(value, schema="t string", lenient=True)
    assert (row["error"], row["after"]) == (None, {"t": f"a{control}b"})


def test_lenient_forgives_nothing_else():
    for value in (b"{", b'{"a":1,}', b"{'a':1}", b'{"type":"INSERT","data":[{"t":"\xff"}]}', b'{"a":"\\x"}'):
        assert unreadable(value, lenient=True)["kind"] in ("syntax", "encoding")


OTHER = change(data=[order(2, "1.00")])


@pytest.mark.parametrize("join", ["[%s,%s]", "%s\n%s", "%s\r\n%s\r\n", "[%s]\n[%s]", " %s \n\n %s "])
def test_several_messages_in_one_value(join):
    value = (join % (GOOD.decode(), OTHER.decode())).encode()
    assert [(row["after"]["id"], row["row"]) for row in decode(value)] == [(1, 0), (2, 1)]


@pytest.mark.parametrize("join", ["[%s,%s,%s]", "%s\n%s\n%s", "%s\r\n%s\r\n%s\r\n"])
@pytest.mark.parametrize("bad", ['{"type":', '{"type":5}', "{}", "nonsense", '{"type":"INSERT","data":[5]}'])
def test_one_bad_among_several_messages_makes_one_error_for_the_value(join, bad):
    for parts in ((bad, GOOD, OTHER), (GOOD, bad, OTHER), (GOOD, OTHER, bad)):
        texts = [part if isinstance(part, str) else part.decode() for part in parts]
        unreadable((join % tuple(texts)).encode())


def test_messages_must_be_apart():
    assert unreadable(GOOD + OTHER)["kind"] == "syntax"
    assert unreadable(GOOD + b"," + OTHER)["kind"] == "syntax"
    assert unreadable(b"[" + GOOD + b" " + OTHER + b"]")["kind"] == "syntax"


DUPLICATE_COLUMNS = [
    '{"type":"INSERT","data":[{"id":"1","id":"2","t":"a","id":"3"}]}',
    r'{"type":"INSERT","data":[{"id":"1","\u0069d":"2"}]}',
    r'{"type":"UPDATE","data":[{"id":"1"}],"old":[{"\u0069d":"2"}],"pkNames":["i\u0064"]}',
    '{"type":"UPDATE","data":[{"id":"1","t":"x"}],"old":[{"id":"2","id":"3"}]}',
    '{"type":"INSERT","data":[{"id":"1"}],"mysqlType":{"id":"int","id":"bigint"},"sqlType":{"id":4,"id":-5}}',
    r'{"\u0074ype":"INSERT","dat\u0061":[{"id":"1"}]}',
]


@pytest.mark.parametrize("text", DUPLICATE_COLUMNS)
@pytest.mark.parametrize("schema", [None, "id int, t string"])
def test_of_duplicate_columns_the_last_one_counts(text, schema):
    """As in Python's reader, and nearly every other."""
    plain = json.dumps(json.loads(text))
    assert decode(text.encode(), schema=schema) == decode(plain.encode(), schema=schema)


DUPLICATE_MEMBERS = {
    '{"type":"DELETE","type":"INSERT","data":[{"id":"1"}]}': "type",
    r'{"type":"DELETE","\u0074ype":"INSERT","data":[{"id":"1"}]}': "type",
    '{"type":"INSERT","data":[{"id":"1"},{"id":"2"}],"data":[{"id":"3"}]}': "data",
    '{"type":"UPDATE","data":[{"id":"1"}],"old":[{"id":"2"}],"old":null}': "old",
    '{"type":"INSERT","data":[{"id":"1"}],"database":null,"database":"b"}': "database",
    '{"type":"INSERT","data":[{"id":"1"}],"pkNames":["a"],"pkNames":["id"]}': "pkNames",
    '{"type":"INSERT","data":[{"id":"1"}],"_tidb":{"commitTs":1,"commitTs":2}}': "_tidb.commitTs",
    '{"type":"INSERT","data":[{"id":"1"}],"_tidb":{"commitTs":1},"_tidb":null}': "_tidb",
}


@pytest.mark.parametrize("text", DUPLICATE_MEMBERS)
def test_a_duplicate_member_of_the_envelope_is_an_error(text):
    error = unreadable(text.encode())
    assert (error["kind"], error["message"]) == ("envelope", f"canal-json: {DUPLICATE_MEMBERS[text]}: duplicate member")


def test_wrong_input_types_are_refused_before_anything_is_decoded():
    decoder = towpath.Decoder("canal-json")
    for wrong in (pa.array([1]), pa.array([[b"x"]]), pa.array([1.5]), pa.record_batch({"value": [1]})):
        with pytest.raises((TypeError, ValueError)):
            decoder.decode(wrong)
    assert decoder.metrics["messages"] == 0


def test_texts_of_errors_are_bounded():
    """Names and values may be as long as the message."""
    name = "n" * 1_000_000
    values = [
        b'{"type":"INSERT","data":[{"' + name.encode() + b'":"\\ud800"}]}',
        change(data=[{name: {"a": "\0"}}], **{name: 1})[:-1],
        change(kind=name, data=[order(1, "1.00")]),
        change(data=[order(1, name)]),
        change(data=[order(1, "1.00")], mysqlType={"id": name}, pkNames=name),
    ]
    for value in values:
        for row in decode(value, schema=None) + decode(value):
            assert row["error"] is None or len(row["error"]["message"]) < 1500
    conflict = [change(data=[{name: "1"}], mysqlType={name: kind}) for kind in ("int", "binary(1)")]
    with pytest.raises(ValueError, match="is both") as refused:
        towpath.infer_schema(pa.array(conflict), "canal-json")
    assert len(str(refused.value)) < 1500


def test_names_that_no_schema_can_have():
    message = change(data=[{"id": "1"}], mysqlType={"a\0b": "int"})
    with pytest.raises(ValueError, match=r"U\+0000"):
        towpath.infer_schema(pa.array([GOOD, message]), "canal-json")
    for schema in ("`a\0b` int", "a struct<`b\0`: int>"):
        with pytest.raises(ValueError, match=r"^schema: .* U\+0000"):
            towpath.Decoder("canal-json", schema)
    [row] = decode(message, schema=None)
    assert (row["op"], row["error"]) == ("insert", None)
