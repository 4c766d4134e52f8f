"""TiCDC's simple protocol in both encodings: every cell equals what TiCDC's own encoder was given."""

import base64
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from struct import pack, unpack
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import towpath
from all_golden import GOLDEN
from fidelity import lines, objects, records

FOLDER = GOLDEN / "ticdc-simple"
MESSAGES = {"json": lines(FOLDER / "json.jsonl"), "avro": records(FOLDER / "avro.lenrec")}
TRUTH = objects(FOLDER / "truth.jsonl")
ENCODINGS = pytest.mark.parametrize("encoding", MESSAGES)
LABELS = {
    "c_enum": ["small", "x,y", "it's", "中"],
    "c_set": ["a", "b", "c d", "中"],
    "tags": [f"t{number}" for number in range(1, 65)],
}


def decode(values, **options):
    decoder = towpath.Decoder("ticdc-simple", **options)
    return decoder.decode(pa.array(values, pa.binary())).to_pylist(maps_as_pydicts="strict")


def table_schemas(encoding):
    return [row["table_changes"] for row in decode(MESSAGES[encoding]) if row["source"]["operation"] == "BOOTSTRAP"]


def inferred(encoding, table):
    """The table's schema by its BOOTSTRAP message alone."""
    return towpath.infer_schema(pa.array(MESSAGES[encoding][:2], pa.binary()), "ticdc-simple", table=table)


def bits(name, number):
    width = int(name.removeprefix("c_bit"))
    return bool(number) if width == 1 else number.to_bytes((width + 7) // 8, "big")


def micros(text):
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text)
    hours, minutes, seconds = text.split(":")
    return sign * timedelta(hours=int(hours), minutes=int(minutes), microseconds=round(Decimal(seconds) * 1_000_000))


def wanted(name, value):
    """The value of a column as Python, from the one that the encoder was given."""
    if value is None:
        return None
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    if name.startswith("c_bit"):
        return bits(name, value)
    if name == "c_enum":
        return "" if value == 0 else LABELS[name][value - 1]
    if name in LABELS:
        return ",".join(label for at, label in enumerate(LABELS[name]) if value >> at & 1)
    if name == "c_big_u" or name == "c_decimal":
        return Decimal(value)
    if name == "c_float":
        return unpack("f", pack("f", value))[0]
    if name == "c_date":
        return date.fromisoformat(value)
    if name.startswith("c_datetime"):
        return datetime.fromisoformat(value)
    if name.startswith("c_timestamp"):
        return None if value.startswith("0000") else instant(value)
    return micros(value) if name in ("c_time", "c_time6") else value


def instant(text):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Asia/Shanghai")).astimezone(timezone.utc)


def wanted_row(row):
    return row and {name: wanted(name, value) for name, value in row.items()}


WHOLE = [event for event in TRUTH if event["name"] in ("insert", "update", "delete")]


@ENCODINGS
@pytest.mark.parametrize("table", ["all_types", "order_line"])
def test_cells_of_both_images(encoding, table):
    rows = decode(
        MESSAGES[encoding][:10],
        schema=inferred(encoding, table),
        table=table,
        table_schemas=table_schemas(encoding),
        mode="FAILFAST",
    )
    rows = [row for row in rows if row["op"] in ("insert", "update", "delete")]
    events = [event for event in WHOLE if event["table"] == table]
    assert [row["op"] for row in rows] == [event["name"] for event in events]
    for row, event in zip(rows, events, strict=True):
        assert (row["before"], row["after"]) == (wanted_row(event["before"]), wanted_row(event["after"]))
        assert row["source"]["commit_ts"] == event["commit_ts"]
        assert row["missing_columns"] in (None, [])


@ENCODINGS
def test_types_of_a_bootstrap(encoding):
    schema = inferred(encoding, "all_types")
    types = {"c_bit1": pa.bool_(), "c_bit10": pa.binary(), "c_big_u": pa.decimal128(20, 0), "c_blob": pa.binary()}
    types |= {"c_time": pa.duration("us"), "c_timestamp": pa.timestamp("us", "UTC"), "c_decimal": pa.decimal128(20, 4)}
    types |= {
        "c_decimal_u": pa.string(),
        "c_enum": pa.string(),
        "c_int_z": pa.int64(),
        "c_year": pa.int32(),
        "c_json": pa.string(),
    }
    assert {name: schema.field(name).type for name in types} == types
    assert len(schema) == len(TRUTH[2]["after"])


@ENCODINGS
def test_messages_that_are_no_row_change(encoding):
    rows = decode(
        MESSAGES[encoding],
        fields=["op", "database", "table", "primary_key", "sql", "table_changes", "column_types", "source"],
    )
    events = [(row, event) for row, event in zip(rows, TRUTH, strict=True) if "after" not in event]
    ops = {"bootstrap": ["other"] * 2, "watermark": ["watermark"], "ddl": ["ddl", "truncate", *["ddl"] * 7]}
    for name, expected in ops.items():
        assert [row["op"] for row, event in events if event["name"] == name] == expected
    words = [row["source"]["operation"] for row, event in events if event["name"] == "ddl"]
    assert words == ["ALTER", "TRUNCATE", "RENAME", "CINDEX", "DINDEX", "ALTER", "ERASE", "CREATE", "QUERY"]
    for row, event in events:
        assert row["sql"] == (event.get("sql") or None)
        times = (row["source"]["commit_ts"], row["source"]["watermark_ts"])
        assert times == (
            (None, event["commit_ts"]) if event["name"] == "watermark" else (event["commit_ts"] or None, None)
        )
    bootstrap, _, dropped = rows[0], rows[1], rows[-1]
    assert (bootstrap["database"], bootstrap["table"], bootstrap["primary_key"]) == ("shop", "all_types", ["id"])
    assert rows[1]["primary_key"] == ["line_no", "shop_id"]
    assert bootstrap["column_types"]["c_enum"] == "enum('small','x,y','it''s','中')"
    assert bootstrap["column_types"]["c_int_z"] == "int unsigned zerofill"
    assert (dropped["database"], dropped["table"], dropped["table_changes"]) == (None, None, None)


def test_the_table_schema_of_avro_is_that_of_json():
    json_rows, avro_rows = (decode(MESSAGES[encoding]) for encoding in ("json", "avro"))
    for one, other in zip(json_rows, avro_rows, strict=True):
        one, other = (row["table_changes"] and json.loads(row["table_changes"]) for row in (one, other))
        if one:
            # Avro has scales of decimals only, not the fraction digits of times.
            for column in (*one["columns"], *other["columns"]):
                if column["dataType"]["mysqlType"] != "decimal":
                    column["dataType"].pop("decimal", None)
        assert one == other


@ENCODINGS
def test_times(encoding):
    row = decode(MESSAGES[encoding])[2]
    assert row["event_time"] == datetime(2024, 2, 26, 5, 1, 1, 858000, timezone.utc)
    built = json.loads(MESSAGES["json"][2])["buildTs"]
    assert abs(row["produced_time"].timestamp() - built / 1000) < 1


@ENCODINGS
def test_a_timestamp_is_in_the_zone_that_the_message_names(encoding):
    [insert] = MESSAGES[encoding][2:3]
    for zone in ("UTC", "America/New_York"):
        for asked, value in {
            "timestamp": instant("2024-02-26 13:01:59.000001"),
            "timestamp_ntz": datetime(2024, 2, 26, 13, 1, 59, 1),
            "string": "2024-02-26 13:01:59.000001",
        }.items():
            [row] = decode([insert], schema=f"c_timestamp6 {asked}", time_zone=zone)
            assert (row["after"]["c_timestamp6"], row["error"]) == (value, None)


def dml(**members):
    base = {
        "version": 1,
        "database": "shop",
        "table": "t",
        "tableID": 1,
        "type": "INSERT",
        "commitTs": 447984084414103554,
    }
    base |= {"buildTs": 1708923662983, "schemaVersion": 7, "data": {"id": "1"}}
    return json.dumps(base | members).encode()


def test_a_zone_that_is_not_known():
    def after(location):
        [row] = decode(
            [dml(data={"at": {"location": location, "value": "2024-02-26 13:01:59"}})],
            schema="at timestamp",
            time_zone="+08:00",
        )
        return row["after"]["at"], row["error"]

    # Go's name of a server's own zone.
    assert after("Local") == (instant("2024-02-26 13:01:59"), None)
    value, error = after("Mars/Olympus")
    assert value is None
    assert error["message"] == 'ticdc-simple: after.at: "Mars/Olympus" is not a known time zone'


@ENCODINGS
def test_without_table_schemas(encoding):
    names = ["c_enum", "c_set", "c_bit10", "c_blob", "c_binary", "c_big_u"]
    types = ["string", "string", "bigint", "binary", "binary", "decimal(20,0)"]
    schema = ", ".join(f"{name} {asked}" for name, asked in zip(names, types, strict=True))
    [row] = decode(MESSAGES[encoding][2:3], schema=schema)
    expected = {"c_enum": "3", "c_set": "5", "c_bit10": 1023, "c_blob": b"1234", "c_binary": b"\0\1\xff\xfe\x80"}
    assert (row["error"], row["after"]) == (None, expected | {"c_big_u": Decimal(2**64 - 1)})
    [row] = decode(
        MESSAGES[encoding][2:3], schema="c_enum string, c_set string", column_types={"c_enum": "enum('a','b','c')"}
    )
    assert row["after"] == {"c_enum": "c", "c_set": "5"}


@ENCODINGS
def test_bits_as_binary_need_their_type(encoding):
    """Digits may be base64: `1023` is three bytes in it."""
    [row] = decode(MESSAGES[encoding][2:3], schema="c_bit10 binary")
    assert (row["after"]["c_bit10"], row["error"]["column"], row["error"]["kind"]) == (None, "c_bit10", "type")
    [row] = decode(MESSAGES[encoding][2:3], schema="c_bit10 binary", column_types={"c_bit10": "bit(10)"})
    assert (row["after"]["c_bit10"], row["error"]) == (b"\x03\xff", None)


def test_text_as_binary():
    [row] = decode([MESSAGES["avro"][2]], schema="c_char binary")
    assert (row["after"]["c_char"], row["error"]["kind"]) == (None, "type")
    for encoding in MESSAGES:
        [row] = decode(MESSAGES[encoding][2:3], schema="c_char binary", table_schemas=table_schemas(encoding))
        assert (row["after"]["c_char"], row["error"]) == (b"char", None)


@ENCODINGS
def test_upsert_splits_an_update_that_moves_the_key(encoding):
    options = {"schema": "shop_id int, line_no int", "layout": "upsert", "table": "order_line"}
    update = MESSAGES[encoding][8:9]
    rows = decode(update, **options, table_schemas=table_schemas(encoding))
    assert [(row["_op"], row["line_no"]) for row in rows] == [("delete", 7), ("insert", 8)]
    assert [row["_op"] for row in decode(update, **options)] == ["update"]


@ENCODINGS
def test_messages_of_the_key_only(encoding):
    update, delete = decode(MESSAGES[encoding][10:12], schema="shop_id int, line_no int, note string")
    assert update["after"] == {"shop_id": 1, "line_no": 8, "note": None}
    assert update["missing_columns"] == ["note"]
    assert update["source"]["handle_key_only"] is True
    assert delete["before"] == {"shop_id": 1, "line_no": 7, "note": None}
    assert delete["source"]["claim_check"] == "s3://claim/checks/0b2f.json"


@ENCODINGS
def test_a_claim_check_is_read(tmp_path, encoding):
    whole, key_only = MESSAGES[encoding][8], MESSAGES[encoding][11]
    stored = {"key": None, "value": base64.b64encode(whole).decode()}
    (tmp_path / "0b2f.json").write_text(json.dumps(stored, separators=(",", ":")))
    [row] = decode([key_only], schema="line_no int, note string", claim_check=str(tmp_path))
    assert (row["op"], row["after"]) == ("update", {"line_no": 8, "note": "first"})


def test_a_row_of_a_version_that_is_not_given():
    [given] = table_schemas("json")[:1]
    [row] = decode([dml(table="all_types", schemaVersion=5)], table_schemas=[given])
    assert row["op"] == "error"
    assert row["error"]["message"] == "ticdc-simple: schemaVersion: table_schemas has no version 5 of this table"
    [row] = decode([dml(table="other", schemaVersion=5)], table_schemas=[given])
    assert (row["op"], row["primary_key"]) == ("insert", None)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"columns":[{}]}'])
def test_table_schemas_are_checked(text):
    with pytest.raises(ValueError, match=r"^table_schemas\[0\] is not a TiCDC table schema: "):
        towpath.Decoder("ticdc-simple", table_schemas=[text])


@pytest.mark.parametrize(("members", "message"), [
    ({"version": 2}, "version: is 2, not 1"),
    ({"type": None}, "type: is missing"),
    ({"type": "UPSERT"}, 'type: unknown operation "UPSERT" with rows'),
    ({"data": None}, "data: insert without a row"),
    ({"type": "DELETE"}, "old: delete without a row"),
    ({"checksum": {"version": 1, "corrupted": True}}, "checksum: mismatch: TiCDC's row differs from TiDB's"),
    ({"tableSchema": {"columns": [{}]}},
     "tableSchema: is not a TiCDC table schema: missing field `name` at line 1 column 15"),
])  # fmt: skip
def test_messages_that_are_errors(members, message):
    [row] = decode([dml(**members)])
    assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
    assert row["error"]["message"] == f"ticdc-simple: {message}"


def test_a_type_of_a_later_version():
    [row] = decode(
        [b'{"version":1,"type":"FLASHBACK","sql":"FLASHBACK TABLE t","commitTs":447984084414103554,"buildTs":1}']
    )
    assert (row["op"], row["source"]["operation"]) == ("ddl", "FLASHBACK")


def test_bytes_behind_an_avro_message():
    [row] = decode([MESSAGES["avro"][9] + b"\0"])
    assert row["error"]["message"] == "ticdc-simple: unexpected bytes after the message"


@ENCODINGS
def test_detection(encoding):
    assert {towpath.detect(message) for message in MESSAGES[encoding]} == {"ticdc-simple"}
    # A table of Debezium's rows without an envelope may begin with the same columns.
    assert towpath.detect(b'{"version":1,"type":"round","__op":"c"}') == "debezium-json"


@ENCODINGS
@pytest.mark.parametrize("codec", ["lz4", "snappy"])
def test_compressed_messages(encoding, codec):
    compressed = [bytes(pa.Codec(codec).compress(message)) for message in MESSAGES[encoding]]
    for dialect in ("ticdc-simple", "auto"):
        decoder = towpath.Decoder(dialect)
        expected = decoder.decode(pa.array(MESSAGES[encoding], pa.binary()))
        assert decoder.decode(pa.array(compressed, pa.binary())).equals(expected)
