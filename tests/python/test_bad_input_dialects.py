"""Malformed input of the JSON dialects other than canal-json: an error with its reason and position, or no effect.

What all dialects share (encodings, compression, modes, nesting, sizes) is tested with canal-json, in `test_bad_input`.
Messages that are cut or damaged are in `tests/differential/damaged.rs`.
"""

import base64
import json
import random
from decimal import Decimal

import pyarrow as pa
import pytest

import all_golden
import towpath


def decode(dialect, *values, schema=None, **options):
    """Rows of messages, in PERMISSIVE mode."""
    batch = towpath.Decoder(dialect, schema, **options).decode(pa.array(values, pa.binary()))
    batch.validate(full=True)
    return batch.to_pylist(maps_as_pydicts="strict")


def only_error(dialect, value, **options):
    """The error of a message with one row; its neighbours must be decoded as without it."""
    good = GOOD[dialect]
    before, *rows, after = decode(dialect, good, value, good, **options)
    assert before == after == decode(dialect, good, **options)[0]
    [row] = rows
    assert row["_corrupt_record"] == value
    assert row["error"]["message"].startswith(f"{dialect}: ")
    return row["op"], row["error"]


def unreadable(dialect, value, **options):
    """The error of an unreadable message."""
    op, error = only_error(dialect, value, **options)
    assert op == "error"
    assert error["column"] is None
    return error


def dumps(message):
    return json.dumps(message, ensure_ascii=False).encode()


SOURCE = {"db": "shop", "table": "orders", "ts_ms": 1714979289000, "file": "binlog.000001", "pos": 4, "server_id": 1}
DEBEZIUM = {"before": None, "after": {"id": 1, "total": "12.50"}, "source": SOURCE, "op": "c", "ts_ms": 1714979289512}
CLOUDCANAL = {
    "action": "INSERT",
    "before": [],
    "bid": 3,
    "data": [{"id": "1", "total": "12.50"}],
    "db": "shop",
    "dbValType": {"id": "bigint"},
    "isDdl": False,
    "entryType": "ROWDATA",
    "execTs": 1714979289000,
    "jdbcType": {"id": -5},
    "pks": ["id"],
    "schema": "shop",
    "sendTs": 1714979289512,
    "sql": "",
    "table": "orders",
}
RIVER = {
    "binlog": "25521@mysql-bin.000070",
    "time": 1714979289000,
    "canalTime": 1714979289512,
    "db": "shop",
    "table": "orders",
    "event": "i",
    "columns": [{"n": "id", "t": "bigint(20)", "v": "1", "null": False}],
    "keys": ["id"],
}
MAXWELL = {
    "database": "shop",
    "table": "orders",
    "type": "insert",
    "ts": 1714979289,
    "xid": 3960,
    "commit": True,
    "position": "binlog.000001:46351",
    "server_id": 12,
    "primary_key_columns": ["id"],
    "data": {"id": 1, "total": 12.5},
}
MESSAGES = {
    "debezium-json": DEBEZIUM,
    "cloudcanal-json": CLOUDCANAL,
    "river-json": RIVER,
    "maxwell-json": MAXWELL,
}
GOOD = {dialect: dumps(message) for dialect, message in MESSAGES.items()}


def field(name, kind, logical=None, **parameters):
    """A column's schema, as Connect writes it."""
    schema = {"type": kind, "optional": True, "field": name}
    if logical:
        schema |= {"name": logical, "version": 1}
    return schema | ({"parameters": parameters} if parameters else {})


def with_schema(columns, after):
    """A message of Debezium with its schema part."""
    row = {"type": "struct", "fields": columns, "optional": True, "name": "shop.orders.Value", "field": "after"}
    source = {"type": "struct", "fields": [{"type": "string", "field": "connector"}], "field": "source"}
    return {"schema": {"type": "struct", "fields": [row, source]}, "payload": DEBEZIUM | {"after": after}}


DECIMAL = "org.apache.kafka.connect.data.Decimal"
TOTAL = field("total", "bytes", DECIMAL, scale="2")


def strict_json(value):
    try:
        return json.loads(value.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


TEXT = [1, 1.5, True, [], {}]
INTEGER = ["x", "1", "", 1.5, 2**63, True, [], {}]
NAMES = ["id", 1, True, {}, [1], [None], [[]]]
ROW = [1, "x", True, [], [{}]]
ROWS = [1, "x", True, [1], ["x"], [[]]]
WRONG_TYPES = {
    "debezium-json": {
        "before": ROW,
        "after": ROW,
        "op": TEXT,
        "ts_ms": INTEGER,
        "ts_us": INTEGER,
        "source": [1, "x", True, []],
        "source.db": TEXT,
        "source.table": TEXT,
        "source.ts_ms": INTEGER,
        "source.ts_us": INTEGER,
        "source.file": TEXT,
        "source.pos": INTEGER,
        "source.gtid": TEXT,
        "source.server_id": INTEGER,
        "transaction": [1, "x", True, []],
        "transaction.id": TEXT,
        "schema": [1, "x", True, []],
        "payload": [1, "x", True, []],
        "databaseName": TEXT,
        "ddl": TEXT,
        "tableChanges": [1, "x", True],
        "status": TEXT,
    },
    "cloudcanal-json": {
        "action": TEXT,
        "before": ROWS,
        "data": ROWS,
        "bid": INTEGER,
        "db": TEXT,
        "schema": TEXT,
        "table": TEXT,
        "sql": TEXT,
        "entryType": TEXT,
        "execTs": INTEGER,
        "sendTs": INTEGER,
        "isDdl": [0, 1, "no", "", [], {}],
        "ddl": [0, 1, "no", "", [], {}],
        "pks": NAMES,
        "dbValType": ["x", 1, True, [1], {"id": 1}, {"id": {}}],
        "jdbcType": ["x", 1, True, [1]],
        "tableChanges": ["x", 1, True],
    },
    "river-json": {
        "binlog": TEXT,
        "time": INTEGER,
        "canalTime": INTEGER,
        "db": TEXT,
        "table": TEXT,
        "event": TEXT,
        "keys": NAMES,
        "columns": [1, "x", True, {}, [1], ["x"], [None], [[]]],
    },
    "maxwell-json": {
        "database": TEXT,
        "table": TEXT,
        "type": TEXT,
        "ts": INTEGER,
        "xid": INTEGER,
        "gtid": TEXT,
        "position": TEXT,
        "server_id": INTEGER,
        "primary_key_columns": NAMES,
        "data": ROW,
        "old": ROW,
        "sql": TEXT,
        "def": ["x", 1, True],
    },
}
FIELDS = [(dialect, name) for dialect, names in WRONG_TYPES.items() for name in names]


@pytest.mark.parametrize(("dialect", "name"), FIELDS)
def test_a_wrong_json_type_in_an_envelope_field(dialect, name):
    outer, _, inner = name.partition(".")
    for wrong in WRONG_TYPES[dialect][name]:
        message = MESSAGES[dialect] | {outer: {inner: wrong} if inner else wrong}
        value = dumps(message)
        error = unreadable(dialect, value)
        assert error["kind"] == "envelope", (wrong, error)
        assert error["message"].startswith(f"{dialect}: {name}"), (wrong, error)
        assert value[error["byte"] :].startswith(dumps(innermost(wrong, (dialect, name)))), (wrong, error)


ARRAYS = [
    *(("cloudcanal-json", name) for name in ("data", "before", "pks")),
    *(("river-json", name) for name in ("keys", "columns")),
    ("maxwell-json", "primary_key_columns"),
]


def innermost(wrong, field):
    """The text at the error's byte: the wrong element or member, not the whole."""
    if isinstance(wrong, list) and wrong and field in ARRAYS:
        return wrong[-1]
    return next(iter(wrong.values())) if isinstance(wrong, dict) and wrong else wrong


# A message without a required field: the dialect that must not be detected, and the field that the error names.
LACKING = [
    ("debezium-json", {"op": "c"}, "after"),
    ("debezium-json", {"op": "u", "before": {"id": 1}, "after": None}, "after"),
    ("debezium-json", {"op": "d", "before": None, "after": {"id": 1}}, "before"),
    ("debezium-json", {"op": "c", "after": {}}, "after"),
    ("debezium-json", {"op": None, "after": {"id": 1}}, "op"),
    ("debezium-json", {"before": {"id": 1}, "after": None, "ts_ms": 1}, "op"),
    ("debezium-json", {"source": SOURCE, "ts_ms": 1}, "op"),
    ("debezium-json", {"source": {"table": "orders"}, "ts_ms": 1}, "op"),
    ("debezium-json", {"payload": {}}, "not a Debezium envelope"),
    ("debezium-json", {"schema": {}}, "not a Debezium envelope"),
    ("debezium-json", {}, "not a Debezium envelope"),
    # A row without an envelope that has none of the fields that identify it.
    ("debezium-json", {"id": "a1", "name": "x"}, "op"),
    ("debezium-json", {"status": "open", "id": "a1"}, "op"),
    ("debezium-json", {"name": "x"}, "not a Debezium envelope"),
    ("debezium-json", {"databaseName": "x", "ts_ms": 1}, "op"),
    ("debezium-json", {"payload": {"id": "a1", "name": "x"}}, "op"),
    ("cloudcanal-json", {}, "action"),
    ("cloudcanal-json", {"action": "INSERT"}, "data"),
    ("cloudcanal-json", {"action": "UPDATE", "data": [{}, {}], "before": [{}]}, "before"),
    ("cloudcanal-json", {"action": "UPDATE", "data": [], "before": [{"id": "1"}]}, "data"),
    ("river-json", {}, "event"),
    ("river-json", {"event": "i"}, "columns"),
    ("river-json", {"event": "u", "columns": []}, "columns"),
    ("river-json", {"event": "i", "columns": [{"v": "1"}]}, "columns.n"),
    ("maxwell-json", {}, "type"),
    ("maxwell-json", {"type": "insert"}, "data"),
    ("maxwell-json", {"type": "update", "old": {"id": 1}}, "data"),
    ("maxwell-json", {"type": "delete", "data": None}, "data"),
]


@pytest.mark.parametrize(("dialect", "message", "named"), LACKING, ids=str)
def test_a_message_that_lacks_something_is_no_change(dialect, message, named):
    error = unreadable(dialect, dumps(message))
    assert error["kind"] == "envelope"
    assert error["message"].startswith(f"{dialect}: {named}: ")


# --- Debezium's rows without an envelope, and its tombstones ---------------------------------------------------------


@pytest.mark.parametrize(
    ("added", "op"),
    [
        ({"__op": "c"}, "insert"),
        ({"__op": "u"}, "update"),
        ({"__op": "d"}, "delete"),
        ({"__op": "r"}, "snapshot"),
        ({"__deleted": "false"}, "update"),
        ({"__deleted": "true"}, "delete"),
        ({"__deleted": True, "__op": "d"}, "delete"),
        ({"__table": "orders"}, "update"),
        ({"__source_ts_ms": 1714979289000}, "update"),
    ],
    ids=str,
)
def test_flattened_rows(added, op):
    for message in (
        ROW_AS_IT_IS | added,
        {"payload": ROW_AS_IT_IS | added},
        {"schema": None, "payload": added | ROW_AS_IT_IS},
    ):
        [row] = decode("debezium-json", dumps(message), schema="id bigint, name string, __own string")
        assert (row["op"], row["error"]) == (op, None)
        assert row["before" if op == "delete" else "after"] == {"id": 1, "name": "x", "__own": "y"}


ROW_AS_IT_IS = {"id": 1, "name": "x", "__own": "y"}

# Names of columns that are also the envelope's.
AMBIGUOUS_NAMES = ["op", "source", "before", "after", "ts_ms", "status", "payload", "schema", "ddl", "transaction"]


@pytest.mark.parametrize("name", AMBIGUOUS_NAMES)
@pytest.mark.parametrize("value", ["text", 5])
def test_a_flattened_row_whose_column_is_called_like_the_envelopes(name, value):
    message = {name: value, "id": 1, "__op": "c"}
    [row] = decode("debezium-json", dumps(message), schema=f"`{name}` string, id int")
    assert row["op"] == "insert"
    assert row["after"] == {name: str(value), "id": 1}


@pytest.mark.parametrize(
    "message", [{"payload": None}, {"schema": None, "payload": None}, {"payload": None, "schema": {}}]
)
def test_a_wrapper_without_payload_is_a_tombstone(message):
    [row] = decode("debezium-json", dumps(message))
    assert {name for name, value in row.items() if value is not None} == {"op", "row"}
    assert row["op"] == "tombstone"


def test_the_schema_part_may_come_last():
    message = with_schema([TOTAL], {"total": "BOI="})
    turned = dict(reversed(message.items()))
    first, last = decode("debezium-json", dumps(message), dumps(turned), schema="total decimal(10,2)")
    assert list(turned) == ["payload", "schema"]
    assert first == last
    assert str(first["after"]["total"]) == "12.50"


# --- Debezium's values -----------------------------------------------------------------------------------------------

TIME = "io.debezium.time."
CONNECT = "org.apache.kafka.connect.data."
GEOMETRY = field("v", "struct", "io.debezium.data.geometry.Geometry")
VARIABLE = field("v", "struct", "io.debezium.data.VariableScaleDecimal")
NESTED = [[], {}]

# A column's schema, the asked type, and values that are neither.
BROKEN = [
    (field("v", "bytes", DECIMAL, scale="2"), "decimal(10,2)", ["12,50", "12.50", "BOI", "%%%%", "", True, *NESTED]),
    (field("v", "bytes", DECIMAL, scale="2"), "decimal(4,2)", ["AP//////////", base64.b64encode(bytes(40)).decode()]),
    (field("v", "bytes", DECIMAL, scale="2"), "string", ["12.50", "%%%%"]),
    (field("v", "bytes", DECIMAL, scale="1"), "decimal(10,0)", ["Aw=="]),
    (field("v", "bytes", DECIMAL, scale="400"), "decimal(38,2)", ["BOI="]),
    (field("v", "bytes", DECIMAL, scale="999999999"), "decimal(38,2)", ["BOI="]),
    (field("v", "bytes", DECIMAL, scale="x"), "decimal(38,2)", ["BOI="]),
    (field("v", "bytes", DECIMAL, scale="4294967295"), "decimal(38,2)", ["BOI="]),
    (field("v", "bytes", DECIMAL, scale=None), "decimal(38,2)", ["BOI="]),
    (field("v", "bytes", DECIMAL), "decimal(38,2)", ["BOI="]),
    (VARIABLE, "decimal(38,2)", ["BOI=", {"scale": 2}, {"value": "BOI="}, {"scale": "2", "value": "BOI="}, *NESTED]),
    (
        VARIABLE,
        "decimal(38,2)",
        [{"scale": 2, "value": 5}, {"scale": 2, "value": "%%%"}, {"scale": 99999, "value": "BOI="}],
    ),
    (VARIABLE, "decimal(38,2)", [{"scale": 3, "value": "BOM="}, {"scale": 2**40, "value": "BOI="}]),
    (field("v", "int32", TIME + "Date"), "date", ["x", "", 1.5, 2_932_897, 2**31, 10**12, True, *NESTED]),
    (
        field("v", "int64", TIME + "Timestamp"),
        "timestamp_ntz",
        ["x", 1.5, 2**63, 2**62, "1714979289000", True, *NESTED],
    ),
    (field("v", "int64", TIME + "MicroTimestamp"), "timestamp_ntz", ["x", 1e3, 2**63 - 1, -(2**63), *NESTED]),
    (field("v", "int64", TIME + "NanoTimestamp"), "timestamp_ntz", [1, 1001, 2**63]),
    (
        field("v", "string", TIME + "ZonedTimestamp"),
        "timestamp",
        [5, "x", "2021-02-29T00:00:00Z", "2021-01-01T00:00:00+99:00"],
    ),
    (field("v", "int64", TIME + "MicroTime"), "interval day to second", ["x", 1.5, 2**63, 3_020_400_000_000, *NESTED]),
    (field("v", "int32", TIME + "Year"), "int", ["x", 1.5, 2**31, *NESTED]),
    (field("v", "bytes"), "binary", ["%%%%", "AQI", "/w", " /w==", "/w==\n", 1234, True, *NESTED]),
    (field("v", "bytes"), "string", ["/w==", "%%%%"]),
    (
        field("v", "bytes", "io.debezium.data.Bits", length="10"),
        "binary",
        ["%%%%", base64.b64encode(bytes(12)).decode()],
    ),
    (
        field("v", "bytes", "io.debezium.data.Bits", length="64"),
        "decimal(20,0)",
        [base64.b64encode(b"\1" * 9).decode()],
    ),
    (GEOMETRY, "binary", ["AQEA", 5, {}, {"srid": 1}, {"wkb": 5}, {"wkb": "%%%%"}, {"wkb": None}, []]),
    (GEOMETRY, "struct<srid int, wkb binary>", [{"wkb": "AQEA", "srid": "x"}, {"wkb": "AQEA", "srid": 2**40}]),
]


def described(case):
    column, asked, *_ = case
    return f"{column.get('name', column['type']).rpartition('.')[2]} as {asked}"


@pytest.mark.parametrize(("column", "asked", "values"), BROKEN, ids=map(described, BROKEN))
def test_a_value_that_its_schema_part_contradicts_is_an_error(column, asked, values):
    for sent in values:
        value = dumps(with_schema([field("id", "int64"), column], {"id": 7, "v": sent}))
        op, error = only_error("debezium-json", value, schema=f"id bigint, v {asked}")
        assert (op, error["column"]) == ("insert", "v"), (sent, error)
        assert error["kind"] in ("type", "range", "encoding"), (sent, error)
        [row] = decode("debezium-json", value, schema=f"id bigint, v {asked}")
        assert row["after"] == {"id": 7, "v": None}


@pytest.mark.parametrize(
    ("column", "asked", "sent", "want"),
    [
        (field("v", "bytes", DECIMAL, scale="2"), "decimal(10,2)", r'"\u0042OI="', "12.50"),
        (field("v", "bytes"), "binary", r'"\/w=="', b"\xff"),
        (field("v", "bytes", "io.debezium.data.Bits", length="10"), "binary", r'"\/wM="', b"\x03\xff"),
        (VARIABLE, "decimal(10,2)", r'{"scale":2,"value":"\u0042OI="}', "12.50"),
        (GEOMETRY, "binary", r'{"wkb":"\/w=="}', b"\xff"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_an_escape_within_base64_says_the_same(column, asked, sent, want):
    value = dumps(with_schema([column], {"v": "here"})).replace(b'"here"', sent.encode())
    [row] = decode("debezium-json", value, schema=f"v {asked}")
    assert row["error"] is None
    assert row["after"]["v"] == (want if isinstance(want, bytes) else Decimal(want))


def test_an_enums_number_counts_empty_labels_and_commas_within_labels():
    column = field("v", "string", "io.debezium.data.Enum", allowed=r"a,,x\,y,b")
    for label, number in (("a", 1), (r"x\,y", 3), ("b", 4)):
        [row] = decode("debezium-json", dumps(with_schema([column], {"v": label})), schema="v int")
        assert (row["after"]["v"], row["error"]) == (number, None)


SCHEMA_PARTS = [None, 5, "x", True, [], {}, {"type": "struct"}, {"fields": None}, {"fields": 5}, {"fields": []}]
SCHEMA_PARTS += [{"fields": [5]}, {"fields": [None]}, {"fields": [[]]}, {"fields": [{}]}, {"fields": [{"field": 5}]}]
COLUMNS = [None, 5, "x", [], {}, {"field": None}, {"field": "v", "type": 5}, {"field": "v", "type": {"type": "int32"}}]
COLUMNS += [
    {"field": "v", "parameters": []},
    {"field": "v", "parameters": 5},
    {"field": "v", "parameters": {"scale": []}},
]
COLUMNS += [{"field": "v", "name": {}}, {"field": "v", "fields": [1]}, {"field": "v", "type": "array", "items": 5}]


@pytest.mark.parametrize("part", SCHEMA_PARTS + [with_schema([column], {})["schema"] for column in COLUMNS], ids=str)
def test_a_broken_schema_part_is_an_error_or_says_nothing(part):
    """The value is then the same as without a schema part."""
    for schema in (None, "v decimal(10,2)", "v int"):
        [bare] = decode("debezium-json", dumps({"payload": DEBEZIUM | {"after": {"v": 5}}}), schema=schema)
        value = dumps({"schema": part, "payload": DEBEZIUM | {"after": {"v": 5}}})
        [row] = decode("debezium-json", value, schema=schema)
        if row["error"]:
            assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
            assert row["error"]["message"].startswith("debezium-json: schema")
        else:
            assert row["after"] == bare["after"]


DEEP = 100_000
BOMBS = {
    "arrays": "[" * DEEP + "]" * DEEP,
    "objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "structs": '{"type":"struct","fields":[' * DEEP + "]}" * DEEP,
    "types": '{"type":' * DEEP + "1" + "}" * DEEP,
    "unclosed": '{"fields":[' * DEEP,
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_nesting_bombs_in_the_schema_part(bomb):
    for schema in (bomb, f'{{"fields":[{bomb}]}}', f'{{"fields":[{{"field":"after","fields":[{bomb}]}}]}}'):
        value = f'{{"schema":{schema},"payload":{{"op":"c","after":{{"id":1}}}}}}'.encode()
        for asked in (None, "id int"):
            error = unreadable("debezium-json", value, schema=asked)
            assert error["kind"] in ("depth", "envelope", "syntax")
            assert error["kind"] != "depth" or "128" in error["message"]


DEEPLY = [("debezium-json", name) for name in ("payload", "source", "after", "tableChanges", "unknown")]
DEEPLY += [("cloudcanal-json", name) for name in ("data", "before", "dbValType", "tableChanges", "unknown")]
DEEPLY += [("river-json", name) for name in ("columns", "keys", "unknown")]
DEEPLY += [("maxwell-json", name) for name in ("data", "old", "def", "unknown")]


@pytest.mark.parametrize(("dialect", "name"), DEEPLY)
@pytest.mark.parametrize("bomb", [BOMBS["arrays"], BOMBS["objects"], "[" * DEEP], ids=["arrays", "objects", "unclosed"])
def test_nesting_bombs_in_the_envelope(dialect, name, bomb):
    whole = MESSAGES[dialect] | {name: "here"}
    error = unreadable(dialect, dumps(whole).replace(b'"here"', bomb.encode()))
    assert error["kind"] in ("depth", "envelope", "syntax")
    assert error["kind"] != "depth" or "128" in error["message"]


def test_a_hundred_thousand_columns():
    columns = [field(f"c{number}", "int64") for number in range(100_000)]
    after = {f"c{number}": number for number in range(100_000)}
    [row] = decode("debezium-json", dumps(with_schema(columns, after)), schema="c0 bigint, c99999 bigint")
    assert row["after"] == {"c0": 0, "c99999": 99999}
    river = RIVER | {"columns": [{"n": name, "t": "bigint", "v": str(number)} for name, number in after.items()]}
    [row] = decode("river-json", dumps(river), schema="c0 bigint, c99999 bigint")
    assert row["after"] == {"c0": 0, "c99999": 99999}


def test_a_schema_part_that_is_another_in_every_message():
    """Parts are cached up to a limit, and none is confused with another."""
    scales = [number % 7 for number in range(5000)]
    values = [
        dumps(with_schema([field("v", "bytes", DECIMAL, scale=str(scale), number=str(number))], {"v": "BOI="}))
        for number, scale in enumerate(scales)
    ]
    rows = decode("debezium-json", *values, schema="v decimal(20,6)")
    assert [float(row["after"]["v"]) for row in rows] == [1250 / 10**scale for scale in scales]


# --- What only an option can decide -----------------------------------------------------------------------------------

# A type, an ambiguous value, the option that decides, and the result for each of its settings.
AMBIGUOUS = [
    ("decimal(10,2)", "1234", "decimal_handling_mode", {"string": "1234.00", "precise": "-26588.24"}),
    ("decimal(10,0)", "1234", "column_types", {}),
    ("bigint", "1234", "column_types", {}),
    (
        "timestamp_ntz",
        86_400_000,
        "time_precision_mode",
        {"connect": "1970-01-02 00:00:00", "microseconds": "1970-01-01 00:01:26.400000"},
    ),
    (
        "interval day to second",
        5000,
        "time_precision_mode",
        {"connect": "0:00:05", "adaptive_time_microseconds": "0:00:00.005000"},
    ),
    ("binary", "abcd", "binary_handling_mode", {"hex": "b'\\xab\\xcd'", "bytes": "b'i\\xb7\\x1d'"}),
    ("binary", "/wM=", "column_types", {}),
]


@pytest.mark.parametrize(("asked", "sent", "option", "settings"), AMBIGUOUS, ids=str)
def test_what_may_mean_two_things_is_an_error_that_names_the_option(asked, sent, option, settings):
    value = dumps(DEBEZIUM | {"after": {"id": 7, "v": sent}})
    op, error = only_error("debezium-json", value, schema=f"id bigint, v {asked}")
    assert (op, error["kind"], error["column"]) == ("insert", "type", "v")
    assert option in error["message"]
    assert "schema part" in error["message"] or option == "binary_handling_mode"
    for setting, want in settings.items():
        types = {"v": "varbinary(9)"} if asked == "binary" else {}
        [row] = decode("debezium-json", value, schema=f"v {asked}", column_types=types, **{option: setting})
        assert (str(row["after"]["v"]), row["error"]) == (want, None)


@pytest.mark.parametrize(
    ("named", "settings", "sent", "want"),
    [
        (
            "decimal(18,0)",
            {"decimal_handling_mode": "string", "bigint_unsigned_handling_mode": "precise"},
            "1541",
            "1541",
        ),
        (
            "bigint unsigned",
            {"decimal_handling_mode": "string", "bigint_unsigned_handling_mode": "precise"},
            "BOI=",
            "1250",
        ),
        ("bigint unsigned", {}, -1, "18446744073709551615"),
        ("bigint", {"bigint_unsigned_handling_mode": "long"}, -1, "-1"),
    ],
    ids=str,
)
def test_a_setting_is_about_its_own_types_only(named, settings, sent, want):
    value = dumps(DEBEZIUM | {"after": {"v": sent}})
    [row] = decode("debezium-json", value, schema="v decimal(20,0)", column_types={"v": named}, **settings)
    assert (str(row["after"]["v"]), row["error"]) == (want, None)


@pytest.mark.parametrize(
    ("option", "allowed"),
    [
        ("decimal_handling_mode", "precise, string, double"),
        ("time_precision_mode", "adaptive_time_microseconds, adaptive, connect, isostring, microseconds, nanoseconds"),
        ("binary_handling_mode", "bytes, base64, base64-url-safe, hex"),
        ("bigint_unsigned_handling_mode", "long, precise"),
    ],
)
def test_a_wrong_setting_is_a_value_error_that_names_what_is_allowed(option, allowed):
    with pytest.raises(ValueError, match=rf"{option}.*{allowed}"):
        towpath.Decoder("debezium-json", "id int", **{option: "wrong"})


def test_column_types_of_no_column_of_the_schema_are_a_value_error():
    with pytest.raises(ValueError, match=r"column_types.*total"):
        towpath.Decoder("debezium-json", "id int", column_types={"total": "decimal(10,2)"})


# --- Values of the other dialects ------------------------------------------------------------------------------------

WRONG_VALUES = [
    ("cloudcanal-json", "int", ["x", "", "1.5", "2147483648"]),
    ("cloudcanal-json", "timestamp_ntz", ["x", "", "2021-02-29 00:00:00"]),
    ("cloudcanal-json", "binary", ["中"]),
    ("river-json", "int", ["x", "", "1.5"]),
    ("river-json", "date", ["x", "", "2021-02-29"]),
    ("maxwell-json", "int", ["x", "", 1.5, 2**31, *NESTED]),
    ("maxwell-json", "decimal(4,2)", ["x", 123.45, 1e9, 0.001, True, *NESTED]),
    ("maxwell-json", "binary", ["%%%%", "/w", "POINT (1 2)", 5, True, *NESTED]),
    ("maxwell-json", "timestamp_ntz", ["x", 5, "2021-02-29 00:00:00"]),
    ("maxwell-json", "array<string>", ["a", 5, {}]),
]


def row_message(dialect, sent):
    """A message with the columns `id` and `v`."""
    row = {"id": 7, "v": sent}
    if dialect == "river-json":
        columns = [{"n": name, "v": value, "null": False} for name, value in row.items()]
        return dumps(RIVER | {"columns": columns})
    return dumps(MESSAGES[dialect] | {"data": [row] if dialect == "cloudcanal-json" else row})


@pytest.mark.parametrize(("dialect", "asked", "values"), WRONG_VALUES)
def test_a_wrong_value_of_each_type(dialect, asked, values):
    for sent in values:
        value = row_message(dialect, sent)
        op, error = only_error(dialect, value, schema=f"id bigint, v {asked}")
        assert (op, error["column"]) == ("insert", "v"), (sent, error)
        assert error["kind"] in ("type", "range", "encoding"), (sent, error)
        assert error["message"].startswith(f"{dialect}: after.v: ")
        [row] = decode(dialect, value, schema=f"id bigint, v {asked}")
        assert row["after"] == {"id": 7, "v": None}


@pytest.mark.parametrize(
    ("column", "before"),
    [
        ({"v": "2", "origin_val": "1", "updated": True}, 1),
        ({"v": "2", "origin_val": "1"}, 1),
        ({"v": "2", "origin_val": None}, 2),
        ({"v": "2", "origin_val": "", "updated": False}, 2),
        ({"v": "2", "origin_val": "", "updated": True}, None),
        ({"v": "2", "updated": True}, None),
        ({"v": "2"}, 2),
        ({"v": "", "null": True}, None),
    ],
    ids=str,
)
def test_what_river_says_of_a_column_before_an_update(column, before):
    """A value that is present counts, whether or not the column is marked as updated."""
    message = RIVER | {"event": "u", "columns": [{"n": "id", "t": "int"} | column]}
    [row] = decode("river-json", dumps(message), schema="id int")
    assert (row["before"], row["error"]) == ({"id": before}, None)


@pytest.mark.parametrize("dialect", ["canal-json", *MESSAGES])
def test_no_order_of_keys_changes_anything(dialect):
    rng = random.Random(1)
    values = [record.value for capture in all_golden.captures(dialect) for record in rng.sample(capture.records, 20)]
    for value in rng.sample(values, min(len(values), 100)):
        if value and value.startswith(b"{"):  # some are compressed
            want = [by_name(row) for row in decode(dialect, value)]
            assert [by_name(row) for row in decode(dialect, shuffled(value, rng))] == want


def shuffled(value, rng):
    """The same message with the members of each object in another order; numbers keep their digits."""
    numbers = {"parse_int": Digits, "parse_float": Digits}
    return dumps_digits(json.loads(value, **numbers), rng).encode()


class Digits(str):
    """A number's own text."""

    __slots__ = ()


def dumps_digits(value, rng):
    if isinstance(value, dict):
        # A geometry is one value: another order of its members would be a change.
        names = list(value) if "wkb" in value else rng.sample(sorted(value), len(value))
        return "{" + ",".join(f"{json.dumps(name)}:{dumps_digits(value[name], rng)}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(dumps_digits(inner, rng) for inner in value) + "]"
    return value if isinstance(value, Digits) else json.dumps(value)


def by_name(row):
    """Without the order of `changed`, which follows the message's, and of keys in JSON text."""
    texts = {"table_changes": row["table_changes"], "before": row["before"], "after": row["after"]}
    return row | {"changed": sorted(row["changed"] or [])} | {name: parsed(value) for name, value in texts.items()}


def parsed(value):
    """JSON text of an object or array, parsed."""
    if isinstance(value, dict):
        return {name: parsed(inner) for name, inner in value.items()}
    if isinstance(value, str) and value[:1] in ("{", "["):
        return strict_json(value.encode()) or value
    return value
