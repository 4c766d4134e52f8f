"""What `docs/postgresql.md` says, by messages in Debezium's format."""

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
SOURCES = {
    "postgresql": {"lsn": 24023128, "txId": 555, "sequence": '["24023119","24023128"]'},
    "sqlserver": {"change_lsn": "00000027:00000758:0003", "commit_lsn": "00000027:00000758:0005"},
    "oracle": {"scn": "2122185", "commit_scn": "2122188"},
}


def decoded(
    type_: str, value: Any, declared: dict[str, Any] | None, connector: str = "postgresql", before: Any = None
) -> dict[str, Any]:
    """The row of an update, whose message has the schema part if the column `v` is declared."""
    source = {"connector": connector, "ts_ms": 1, "db": "shop", "schema": "sales", "table": "t", **SOURCES[connector]}
    message: dict[str, Any] = {"before": before, "after": {"v": value}, "source": source, "op": "u", "ts_ms": 2}
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
        message = {"schema": {"type": "struct", "fields": images}, "payload": message}
    decoder = towpath.Decoder("debezium-json", f"v {type_}")
    return decoder.decode([json.dumps(message).encode()]).to_pylist()[0]


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
        ("string", ["x", None], TEXTS, '["x", null]'),
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


def test_toasted_values_are_not_recognised():
    """A known gap: the page says so. They should be missing columns."""
    row = decoded("string", TOAST, {"type": "string"})
    assert (row["after"]["v"], row["missing_columns"]) == (TOAST, None)
    assert decoded("decimal(10,2)", TOAST, {"type": "string"})["error"]["kind"] == "type"


@pytest.mark.parametrize("connector", SOURCES)
def test_names_and_images_but_no_place(connector):
    row = decoded("string", "y", None, connector, {"v": "x"})
    assert (row["op"], row["database"], row["schema"], row["table"]) == ("update", "shop", "sales", "t")
    assert (row["before"], row["after"], row["changed"]) == ({"v": "x"}, {"v": "y"}, ["v"])
    assert (row["source"]["position"], row["source"]["transaction_id"]) == (None, None)


def test_a_target_has_no_schema():
    targets = pytest.importorskip("towpath.spark.lakehouse.targets")
    with pytest.raises(ValueError, match=r"has \{schema\}"):
        targets.Targets("/lake/{schema}/{table}")
