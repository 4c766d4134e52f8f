"""What `docs/dialects/postgresql.md` says, by messages in Debezium's format."""

import base64
import json
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

import towpath

TOAST = "__debezium_unavailable_value"
DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
VARIABLE = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
}
NUMBER = {"scale": 2, "value": "MDk="}  # 12345, big-endian
POINT = {
    "type": "struct",
    "name": "io.debezium.data.geometry.Point",
    "fields": [{"type": t, "field": f} for f, t in [("x", "double"), ("y", "double"), ("wkb", "bytes")]],
}
WKB = "AQEAAAAAAAAAAADwPwAAAAAAAABA"
MICRO = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
ZONED = {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}
UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
TEXTS = {"type": "array", "items": {"type": "string", "optional": True}}
SOURCES: dict[str, dict[str, Any]] = {
    "mysql": {},
    "postgresql": {"lsn": 24023128, "txId": 555, "sequence": '["24023119","24023128"]'},
    "sqlserver": {"change_lsn": "00000027:00000758:0003", "commit_lsn": "00000027:00000758:0005"},
    "oracle": {"scn": "2122185", "commit_scn": "2122188"},
}


def message(after: dict[str, Any], connector: str = "postgresql", before: Any = None) -> dict[str, Any]:
    """An update without the schema part."""
    source = {"connector": connector, "ts_ms": 1, "db": "shop", "schema": "sales", "table": "t", **SOURCES[connector]}
    return {"before": before, "after": after, "source": source, "op": "u", "ts_ms": 2}


def decoded(
    type_: str, value: Any, declared: dict[str, Any] | None, connector: str = "postgresql", before: Any = None
) -> dict[str, Any]:
    """The row of an update, whose message has the schema part if the column `v` is declared."""
    sent = message({"v": value}, connector, before)
    if declared:
        images = [
            {
                "type": "struct",
                "optional": True,
                "field": image,
                "fields": [{"optional": True, "field": "v", **declared}],
            }
            for image in ("before", "after")
        ]
        sent = {"schema": {"type": "struct", "fields": images}, "payload": sent}
    decoder = towpath.Decoder("debezium-json", f"v {type_}")
    return decoder.decode([json.dumps(sent, separators=(",", ":")).encode()]).to_pylist()[0]


@pytest.mark.parametrize(
    ("type_", "value", "declared", "truth"),
    [
        ("decimal(10,2)", "MDk=", DECIMAL, Decimal("123.45")),
        ("decimal(20,4)", NUMBER, VARIABLE, Decimal("123.45")),
        ("string", NUMBER, VARIABLE, "123.45"),
        ("timestamp", "2024-01-02T03:04:05.123456Z", ZONED, datetime(2024, 1, 2, 3, 4, 5, 123456, timezone.utc)),
        ("timestamp_ntz", 1704164645123456, MICRO, datetime(2024, 1, 2, 3, 4, 5, 123456)),
        ("boolean", True, {"type": "boolean"}, True),
        ("string", UUID, {"type": "string", "name": "io.debezium.data.Uuid"}, UUID),
        ("string", '{"a": 1}', {"type": "string", "name": "io.debezium.data.Json"}, '{"a": 1}'),
        ("binary", "AQI=", {"type": "bytes"}, b"\1\2"),
        ("array<string>", ["x", None], TEXTS, ["x", None]),
        ("string", ["x", None], TEXTS, '["x",null]'),
        (
            "binary",
            {"x": 1.0, "y": 2.0, "wkb": WKB},
            POINT,
            bytes.fromhex("0101000000000000000000f03f0000000000000040"),
        ),
    ],
)
def test_exact_with_the_schema_part(type_, value, declared, truth):
    row = decoded(type_, value, declared)
    assert (row["error"], row["after"]["v"]) == (None, truth)


@pytest.mark.parametrize(
    ("type_", "value"), [("timestamp_ntz", 1704164645123456), ("binary", "AQI="), ("decimal(20,4)", NUMBER)]
)
def test_an_error_without_the_schema_part(type_, value):
    assert decoded(type_, value, None)["error"]["kind"] == "type"


@pytest.mark.parametrize(
    ("type_", "value", "declared"),
    [
        ("string", TOAST, {"type": "string"}),
        ("string", TOAST, None),
        ("decimal(10,2)", TOAST, {"type": "string"}),
        ("string", TOAST, {"type": "string", "name": "io.debezium.data.Json"}),
        ("binary", base64.b64encode(TOAST.encode()).decode(), {"type": "bytes"}),
        ("binary", base64.urlsafe_b64encode(TOAST.encode()).decode(), None),
        ("binary", TOAST.encode().hex(), {"type": "string"}),
        ("array<string>", [TOAST], TEXTS),
        ("string", {TOAST: TOAST}, {"type": "map"}),
    ],
)
def test_a_toasted_value_is_a_missing_column(type_, value, declared):
    for before in (None, {"v": value}):
        row = decoded(type_, value, declared, before=before)
        assert (row["error"], row["after"], row["missing_columns"]) == (None, {"v": None}, ["v"])
        assert row["before"] == (before and {"v": None})


@pytest.mark.parametrize("value", [f" {TOAST}", TOAST.upper(), [TOAST, TOAST], f"{TOAST}{TOAST}"])
def test_other_texts_are_values(value):
    row = decoded("string", value, None)
    assert row["missing_columns"] is None
    assert row["after"]["v"] == (value if isinstance(value, str) else json.dumps(value, separators=(",", ":")))


def test_mysqls_connector_has_no_placeholder():
    row = decoded("string", TOAST, None, "mysql")
    assert (row["after"], row["missing_columns"]) == ({"v": TOAST}, None)


def test_messages_with_and_without_placeholders_follow_each_other():
    """Only the places and the values differ, so that most of them are read by comparison with an earlier one."""
    values = [TOAST if number % 7 == 5 else f"v{number}" for number in range(500)]
    sent = [message({"id": number, "v": value, "w": "w"}) for number, value in enumerate(values)]
    array = [json.dumps(one, separators=(",", ":")).encode() for one in sent]
    for layout, column in (("change", "missing_columns"), ("upsert", "_missing_columns")):
        decoder = towpath.Decoder("debezium-json", "id int, v string, w string", layout=layout)
        rows = decoder.decode(array).to_pylist()
        images = [
            row["after"] if layout == "change" else {name: row[name] for name in ["id", "v", "w"]} for row in rows
        ]
        wanted = [None if value == TOAST else value for value in values]
        assert images == [{"id": number, "v": value, "w": "w"} for number, value in enumerate(wanted)]
        assert [row[column] for row in rows] == [["v"] if value is None else None for value in wanted]
    maps = towpath.Decoder("debezium-json", fields=["after"]).decode(array)
    assert [set(dict(row["after"])) for row in maps.to_pylist()] == [
        {"id", "w"} if value is None else {"id", "v", "w"} for value in wanted
    ]


def test_rows_without_an_envelope_say_their_connector():
    row = {"v": TOAST, "__op": "u", "__table": "t", "__source_connector": "postgresql"}
    [found] = towpath.Decoder("debezium-json", "v string").decode([json.dumps(row).encode()]).to_pylist()
    assert (found["after"], found["missing_columns"]) == ({"v": None}, ["v"])
    del row["__source_connector"]
    [found] = towpath.Decoder("debezium-json", "v string").decode([json.dumps(row).encode()]).to_pylist()
    assert found["after"] == {"v": TOAST}


@pytest.mark.parametrize("connector", ["postgresql", "sqlserver", "oracle"])
def test_names_and_images_but_no_place(connector):
    row = decoded("string", "y", None, connector, {"v": "x"})
    assert (row["op"], row["database"], row["schema"], row["table"]) == ("update", "shop", "sales", "t")
    assert (row["before"], row["after"], row["changed"]) == ({"v": "x"}, {"v": "y"}, ["v"])
    assert (row["source"]["position"], row["source"]["transaction_id"]) == (None, None)


def test_a_target_has_no_schema():
    targets = pytest.importorskip("towpath.lakehouse.tables.targets")
    with pytest.raises(ValueError, match=r"unknown \{schema\}"):
        targets.Targets("/lake/{schema}/{table}")
