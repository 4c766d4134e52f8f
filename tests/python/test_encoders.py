"""What encoders of producers write that no capture has.

Each message is written as the code of its encoder says, beside what the database holds.
"""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

import towpath


def decoded(dialect, message, schema=None, **options):
    decoder = towpath.Decoder(dialect, schema, **options)
    value = message if isinstance(message, bytes) else json.dumps(message).encode()
    return decoder.decode([value]).to_pylist()


def debezium(after, schema=None, before=None, **source):
    source = {"connector": "mysql", "db": "shop", "table": "t", "ts_ms": 1714979289000, **source}
    payload = {"before": before, "after": after, "source": source, "op": "u" if before else "c", "ts_ms": 1}
    if schema is None:
        return payload
    row = {"type": "struct", "fields": schema, "optional": True}
    fields = [{**row, "field": "before"}, {**row, "field": "after"}]
    return {"schema": {"type": "struct", "fields": fields}, "payload": payload}


@pytest.mark.parametrize(
    ("written", "bits"),
    [("/w==", 255), ("/wM=", 1023), ("AQA=", 1), ("AQAAAAAAAAA=", 1), ("BQ==", 5), ("/////w8=", 2**36 - 1)],
)
@pytest.mark.parametrize("kind", ["bigint", "decimal(20,0)"])
def test_bits_without_a_schema_part_are_no_decimal(written, bits, kind):
    """`convertBits` of Debezium's JDBC connectors: little-endian and unsigned, where a decimal is neither."""
    [row] = decoded("debezium-json", debezium({"b": written}), f"b {kind}")
    if bits == 5:  # the same number in both
        assert row["after"]["b"] == bits
    else:
        assert row["error"]["kind"] == "type"
        assert "bits of a number" in row["error"]["message"]
    [row] = decoded("debezium-json", debezium({"b": written}), f"b {kind}", column_types={"b": "bit(64)"})
    assert row["after"]["b"] == bits


def test_a_setting_says_that_text_is_a_decimal():
    options = {"decimal_handling_mode": "precise"}
    assert decoded("debezium-json", debezium({"b": "AQA="}), "b decimal(20,0)", **options)[0]["after"] == {"b": 256}
    [row] = decoded("debezium-json", debezium({"b": "AQA="}), "b bigint", **options)
    assert row["error"]["kind"] == "type"


UNAVAILABLE = {"id": 1, "note": "__debezium_unavailable_value", "data": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}


@pytest.mark.parametrize(
    ("connector", "version"),
    [("oracle", "2.7.3.Final"), ("sqlserver", "3.6.0.Final"), ("mysql", "3.7.0.Beta1"), ("mariadb", "4.0.0.Final")],
)
def test_placeholders_are_no_values(connector, version):
    """`alignRowToTable` of the binlog connectors (NOBLOB), `OracleValueConverters`, `SqlServerValueConverters`."""
    message = debezium(UNAVAILABLE, before=UNAVAILABLE, connector=connector, version=version)
    columns = {
        "schema": "id int, note string, data binary",
        "binary_handling_mode": "base64",
        "fields": ["after", "missing_columns"],
    }
    for count in (1, 20):
        rows = towpath.Decoder("debezium-json", **columns).decode([json.dumps(message).encode()] * count).to_pylist()
        for row in rows:
            assert row["after"] == {"id": 1, "note": None, "data": None}
            assert row["missing_columns"] == ["note", "data"]


def test_a_text_of_mysqls_older_connectors_is_a_value():
    message = debezium({"id": 1, "note": "__debezium_unavailable_value"}, version="3.6.1.Final")
    assert decoded("debezium-json", message, "note string")[0]["after"]["note"] == "__debezium_unavailable_value"


def test_ticdcs_field_says_the_type():
    """`writeDebeziumFieldSchema` of TiCDC: `tidb_type` is beside `parameters`, with `enable-tidb-extension`."""
    fields = [
        {"tidb_type": "bigint unsigned", "type": "int64", "optional": True, "field": "u"},
        {"tidb_type": "binary", "type": "string", "optional": True, "field": "b"},
        {"tidb_type": "int unsigned", "type": "int64", "optional": True, "field": "i"},
    ]
    message = debezium({"u": -1, "b": "aGVsbG8=", "i": 4294967295}, fields, connector="TiCDC")
    found = decoded("debezium-json", message, "u decimal(20,0), b binary, i bigint")[0]["after"]
    assert found == {"u": Decimal(2**64 - 1), "b": b"hello", "i": 2**32 - 1}
    inferred = towpath.infer_schema([json.dumps(message).encode()], "debezium-json")
    assert [str(field.type) for field in inferred] == ["decimal128(20, 0)", "binary", "int64"]


@pytest.mark.parametrize(
    ("allowed", "value", "index"),
    [
        ("a\\\\,b,c", "c", 3),  # since 3.7 a backslash is escaped, and values are not
        ("x\\,y,c", "x,y", 1),
        ("x\\,y,c", "x\\,y", 1),  # before, values were
        ("x\\,y,c", "c", 2),
    ],
)
def test_labels_with_commas_and_backslashes(allowed, value, index):
    """`EnumeratedValues` of Debezium."""
    field = {"type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": allowed}, "field": "e"}
    assert decoded("debezium-json", debezium({"e": value}, [field]), "e int")[0]["after"] == {"e": index}


def maxwell(**members):
    return {"database": "s", "table": "t", "type": "update", "ts": 1714979289, **members}


@pytest.mark.parametrize(
    ("key", "column"), [("order_id", "orderId"), ("_order__id_", "order_id"), ("orderId", "orderId"), ("__", "__")]
)
def test_maxwells_naming_strategy_renames_the_columns_but_not_the_key(key, column):
    """`FieldNameStrategy` and `RowMap` of Maxwell."""
    message = maxwell(xid=1, primaryKeyColumns=[key], data={column: 8, "note": "a"}, old={column: 7})
    rows = decoded(
        "maxwell-json", message, f"`{column}` int, note string", layout="upsert", fields=["_op", "_primary_key"]
    )
    assert [(row["_op"], row[column], row["_primary_key"]) for row in rows] == [
        ("delete", 7, [column]),
        ("insert", 8, [column]),
    ]


def test_a_json_text_of_maxwell_without_commit_info_has_its_quotes():
    message = maxwell(primary_key_columns=["id"], data={"id": 1, "j": "true"}, old={"j": "x"})
    [row] = decoded("maxwell-json", message, "id int, j string", column_types={"j": "json"})
    assert (row["before"]["j"], row["after"]["j"]) == ('"x"', '"true"')


def test_the_time_of_ticdcs_maxwell_statement_is_a_commit_timestamp():
    message = maxwell(type="table-alter", old={}, ts=449569471234567890) | {"def": {}, "sql": "ALTER TABLE t ADD c INT"}
    [row] = decoded("maxwell-json", message, fields=["event_time"])
    assert row["event_time"] == datetime.fromtimestamp((449569471234567890 >> 18) // 1000, UTC).replace(
        microsecond=626000
    )


@pytest.mark.parametrize(
    ("written", "held"), [("0E-30", "0." + "0" * 30), ("1.00E-8", "0.0000000100"), ("-1.5", "-1.5"), ("1E+3", "1000")]
)
def test_decimals_as_text_have_no_exponent(written, held):
    """Java's `BigDecimal.toString`, which Maxwell and Flink write."""
    message = json.dumps(maxwell(xid=5, data={"d": 0})).replace('"d": 0', f'"d": {written}').encode()
    [row] = decoded("maxwell-json", message, "d string", column_types={"d": "decimal(65,30)"})
    assert row["after"]["d"] == held


def test_canals_binary_without_a_length_has_one_byte():
    """`MemoryTableMeta` of canal keeps the spelling of the statement."""
    message = {
        "data": [{"b": "", "n": ""}],
        "database": "shop",
        "isDdl": False,
        "mysqlType": {"b": "binary", "n": "varchar(10)"},
        "table": "t",
        "type": "INSERT",
    }
    assert decoded("canal-json", message, "b binary")[0]["after"] == {"b": b"\0"}
