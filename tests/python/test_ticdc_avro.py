"""ticdc-avro: rows come back that fastavro wrote, with the schemas of TiCDC's encoder."""

import json
import random
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

import registry_server
import ticdc_avro as ticdc
import towpath

pytest.importorskip("fastavro")

SCHEMA = pa.schema(
    {
        "id": pa.int64(), "tiny": pa.int8(), "many": pa.uint32(), "huge": pa.uint64(), "texty": pa.decimal128(20, 0),
        "single": pa.float32(), "twice": pa.float64(), "price": pa.decimal128(10, 2), "cost": pa.decimal128(38, 5),
        "flags": pa.int32(), "note": pa.string(), "raw": pa.binary(), "one": pa.string(), "several": pa.string(),
        "doc": pa.string(), "day": pa.date32(), "at": pa.timestamp("us"), "instant": pa.timestamp("us", "UTC"),
        "span": pa.duration("us"), "year": pa.int32(),
    }
)  # fmt: skip
COMMIT_TS = (1714979289512 << 18) + 3
TIME = datetime(2024, 5, 6, 7, 8, 9, 512000, tzinfo=timezone.utc)


def wanted(row):
    """A row as Arrow returns it."""
    found = dict(row)
    if row["day"]:
        found["day"] = datetime.fromisoformat(row["day"]).date()
    if row["at"]:
        found["at"] = datetime.fromisoformat(row["at"])
    if row["instant"]:
        found["instant"] = datetime.fromisoformat(row["instant"]).replace(tzinfo=timezone.utc)
    if row["span"]:
        hours, minutes, seconds = map(int, row["span"].lstrip("-").split(":"))
        found["span"] = -timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return found


def schemas(columns, extension):
    value = ticdc.record("orders", columns, extension)
    return {7: json.dumps(value), 8: json.dumps(ticdc.record("orders", [ticdc.KEY], []))}, value


def value_of(schema, row, op, *, extended):
    added = {"_tidb_op": op, "_tidb_commit_ts": COMMIT_TS, "_tidb_commit_physical_time": COMMIT_TS >> 18}
    checked = {"_tidb_row_level_checksum": "1", "_tidb_corrupted": False, "_tidb_checksum_version": 1}
    natives = {name: ticdc.native(name, value) for name, value in row.items()}
    return ticdc.framed(7, schema, natives | (added | checked if extended else {}))


def key_of(row):
    return ticdc.framed(8, ticdc.record("orders", [ticdc.KEY], []), {"id": row["id"]})


def batch(records):
    keys, values = zip(*records, strict=True)
    return pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


@pytest.mark.parametrize("dialect", ["ticdc-avro", "auto"])
@pytest.mark.parametrize("extended", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_rows_come_back(seed, extended, dialect):
    randoms = random.Random(seed)
    columns = randoms.sample(ticdc.COLUMNS, len(ticdc.COLUMNS))
    extension = ticdc.EXTENSION + (ticdc.CHECKSUM if extended else [])
    known, schema = schemas(columns, extension if extended else [])
    rows = [ticdc.values(randoms) for _ in range(20)]
    words = [randoms.choice("cu") for _ in rows]
    records = [(key_of(row), value_of(schema, row, op, extended=extended)) for row, op in zip(rows, words, strict=True)]
    decoder = towpath.Decoder(dialect, SCHEMA, key="key", writer_schemas=known)
    for row, op, found in zip(rows, words, decoder.decode(batch(records)).to_pylist(), strict=True):
        assert found["error"] is None
        assert found["op"] == ("insert" if extended and op == "c" else "update")
        assert (found["database"], found["table"], found["primary_key"]) == ("shop", "orders", ["id"])
        assert (found["before"], found["after"]) == (None, wanted(row))
        assert found["source"]["dialect"] == "ticdc-avro"
        assert found["source"]["commit_ts"] is None, "a delete has none, and the offset orders both"
        assert found["event_time"] == (TIME if extended else None)


@pytest.mark.parametrize("dialect", ["ticdc-avro", "auto"])
@pytest.mark.parametrize("nothing", [None, b""])
def test_a_delete_is_in_its_key(dialect, nothing):
    known, _ = schemas(ticdc.COLUMNS, ticdc.EXTENSION)
    decoder = towpath.Decoder(dialect, "id bigint, note string", key="key", writer_schemas=known)
    [row] = decoder.decode(batch([(key_of({"id": 42}), nothing)])).to_pylist()
    assert (row["op"], row["before"], row["after"]) == ("delete", {"id": 42, "note": None}, None)
    assert (row["table"], row["primary_key"], row["missing_columns"]) == ("orders", ["id"], ["note"])
    upsert = towpath.Decoder(dialect, "id bigint", layout="upsert", key="key", writer_schemas=known, fields=["_op"])
    assert upsert.decode(batch([(key_of({"id": 42}), nothing)])).to_pylist() == [{"_op": "delete", "id": 42}]


def test_a_delete_that_cannot_be_read_is_an_error():
    """By the name of the dialect; with `auto` it may be the tombstone of another."""
    values = pa.array([None], pa.binary())
    [row] = towpath.Decoder("ticdc-avro").decode(values).to_pylist()
    assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
    assert "set the argument key to its column" in row["error"]["message"]
    unknown = batch([(key_of({"id": 1}), None)])
    [row] = towpath.Decoder("ticdc-avro", key="key").decode(unknown).to_pylist()
    assert "unknown schema id 8" in row["error"]["message"]
    [row] = towpath.Decoder("auto", key="key").decode(unknown).to_pylist()
    assert row["op"] == "tombstone"


@pytest.mark.parametrize("dialect", ["ticdc-avro", "auto"])
def test_statements_and_watermarks(dialect):
    create = ticdc.ddl("CREATE TABLE orders (id INT)", "orders", COMMIT_TS)
    values = pa.array([create, ticdc.checkpoint(COMMIT_TS)])
    statement, watermark = towpath.Decoder(dialect).decode(values).to_pylist()
    assert (statement["op"], statement["sql"]) == ("ddl", "CREATE TABLE orders (id INT)")
    assert (statement["database"], statement["table"]) == ("shop", "orders")
    assert (statement["source"]["commit_ts"], statement["event_time"]) == (COMMIT_TS, TIME)
    assert (watermark["op"], watermark["source"]["watermark_ts"]) == ("watermark", COMMIT_TS)
    assert watermark["source"]["dialect"] == "ticdc-avro"


@pytest.mark.parametrize(
    "value", [b"\x01{}", b"\x01{", b"\x02\x00", b"\x02" + b"\x00" * 9, b"\x01[]", b"\x03", b"\x00"]
)
def test_broken_events_are_errors(value):
    [row] = towpath.Decoder("ticdc-avro").decode(pa.array([value])).to_pylist()
    assert (row["op"], row["error"]["kind"]) == ("error", "envelope")


def test_a_schema_of_debezium_is_refused_by_name():
    schema = {"type": "record", "name": "s.shop.orders.Value", "fields": [{"name": "id", "type": "long"}]}
    value = ticdc.framed(7, schema, {"id": 1})
    [row] = towpath.Decoder("ticdc-avro", writer_schemas={7: json.dumps(schema)}).decode(pa.array([value])).to_pylist()
    assert "is not a TiCDC schema" in row["error"]["message"]


def test_types_are_inferred():
    known, schema = schemas(ticdc.COLUMNS, ticdc.EXTENSION)
    value = value_of(schema, ticdc.values(random.Random(1)), "c", extended=True)
    found = towpath.infer_schema(pa.array([value]), "ticdc-avro", writer_schemas=known)
    assert found.names == [column.name for column in ticdc.COLUMNS]
    assert found.field("price").type == pa.decimal128(10, 2)
    assert found.field("huge").type == pa.decimal128(20, 0)
    assert found.field("raw").type == pa.binary()
    assert found.field("at").type == pa.timestamp("us")
    assert found.field("instant").type.tz


def test_labels_have_numbers():
    known, schema = schemas(ticdc.COLUMNS, ticdc.EXTENSION)
    rows = [ticdc.values(random.Random(1)) | {"one": label} for label in ticdc.LABELS]
    values = pa.array([value_of(schema, row, "c", extended=True) for row in rows])
    decoder = towpath.Decoder("ticdc-avro", "one int", writer_schemas=known)
    assert [row["after"]["one"] for row in decoder.decode(values).to_pylist()] == [1, 2, 3, 4]


def test_schemas_come_from_a_registry():
    """Those of values, and of the keys of deletes."""
    known, schema = schemas(ticdc.COLUMNS, ticdc.EXTENSION)
    with registry_server.running() as registry:
        for number, text in known.items():
            registry.schemas[number] = {"schema": text}
        for dialect in ("ticdc-avro", "auto"):
            decoder = towpath.Decoder(dialect, "id bigint", key="key", schema_registry=registry.url)
            records = [(key_of({"id": 1}), None)]
            [row] = decoder.decode(batch(records)).to_pylist()
            assert (row["op"], row["before"]) == ("delete", {"id": 1})
            row = ticdc.values(random.Random(2))
            [found] = decoder.decode(batch([(key_of(row), value_of(schema, row, "u", extended=True))])).to_pylist()
            assert (found["op"], found["after"]) == ("update", {"id": row["id"]})
