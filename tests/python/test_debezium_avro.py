"""debezium-avro: the rows of the Debezium captures, written by Confluent's own serializer, and schemas of all kinds."""

import gzip
import io
import json
import os
import pickle
import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import avro_captures
import debezium_truth
import kafka_records
import registry_server
import server_truth
import towpath
import truth
from avro_captures import writer_schemas
from connect_avro import scrubbed
from debezium_truth import SETTINGS, Capture
from fidelity import beside, row_changes
from kafka_records import Record
from towpath import schema_registry

pytestmark = pytest.mark.slow

FLAVOURS = [(server, flavour) for server in ("mysql", "maria") for flavour in SETTINGS]


@pytest.fixture(scope="module")
def registry():
    """The registry that has the schemas of all captures of this module."""
    with registry_server.running() as found:
        yield found


@pytest.fixture(scope="module")
def written(registry):
    """The captures in Avro, each written once."""
    pytest.importorskip("fastavro")
    known = {}

    def records(folder, file, *, flat=False):
        name = folder, file, flat
        if name not in known:
            known[name] = avro_captures.records(registry, folder, file, flat=flat)
        return known[name]

    return records


def schemas_from(registry, source):
    """The two ways to get schemas."""
    return {"schema_registry": registry.url} if source == "registry" else {"writer_schemas": writer_schemas(registry)}


def names(columns):
    """The columns by their names in Avro."""
    return {scrubbed(column.name): column for column in columns}


def schema_of(columns):
    return pa.schema([field.with_name(scrubbed(field.name)) for field in server_truth.schema(columns)])


COMPARED = ["op", "database", "table", "primary_key", "before", "after", "missing_columns", "error"]


def decoder_of(capture, table, columns, **options):
    if capture.settings["binary_handling_mode"] == "hex":
        options["binary_handling_mode"] = "hex"  # the schema calls such a column a string
    database, name = map(re.escape, table)
    filters = {"database": database, "table": name, "fields": COMPARED}
    return towpath.Decoder("debezium-avro", schema_of(columns), key="key", **filters, **options)


def wanted(score, capture, columns, event, image):
    """The typed values of an image, or what the producer sends instead."""
    texts, exact = event[image], (event.get("float_exact") or {}).get(image) or {}
    return texts and {
        name: wanted_cell(score, capture, event["table"], column, texts[column.name], exact.get(column.name))
        for name, column in names(columns).items()
    }


def wanted_cell(score, capture, table, column, text, exact):
    if lost := debezium_truth.destroyed(capture, table, column, text):
        score.producer_destroyed(lost[0])
        return lost[1]
    return truth.value(column.declared, text, exact)


def compared_tables(capture, decoded):
    """For each table and definition: the columns, and pairs of event and row."""
    for table, version in debezium_truth.tables_and_versions(capture.server):
        columns = capture.server.versions[table][version]
        events = list(debezium_truth.split_key_changes(capture.server, capture.server.events[table]))
        yield columns, beside(events, decoded(table, columns), capture.server.written_under(table, version))


@pytest.mark.parametrize(("server", "flavour"), FLAVOURS)
@pytest.mark.parametrize("source", ["registry", "given"])
def test_cells_of_both_images(source, server, flavour, registry, written, score):
    capture = Capture(debezium_truth.load(server), SETTINGS[flavour])
    batch = kafka_records.batch(written(f"{server}-{flavour}", "mixed"))

    def decoded(table, columns):
        return decoder_of(capture, table, columns, **schemas_from(registry, source)).decode(batch)

    for columns, pairs in compared_tables(capture, decoded):
        key = [scrubbed(column.name) for column in columns if column.in_key] or None
        for event, row in pairs:
            place = f"seq {event['seq']} {event['db']}.{event['table']} {event['op']}"
            envelope = {"op": event["op"], "database": event["db"], "table": event["table"], "primary_key": key}
            for field, want in {**envelope, "missing_columns": None, "error": None}.items():
                score.cell(place, field, want, row[field])
            for image in ("before", "after"):
                score.image(f"{place} {image}", wanted(score, capture, columns, event, image), row[image])
    score.check_all()


@pytest.mark.parametrize(("server", "flavour"), FLAVOURS)
def test_cells_of_flat_rows(server, flavour, registry, written, score):
    """Database and table are in the name of the record, as no field was added for them."""
    capture = Capture(debezium_truth.load(server), SETTINGS[flavour])
    batch = kafka_records.batch(written(f"{server}-{flavour}", "mixed", flat=True))

    def decoded(table, columns):
        names_in_record = table[0], re.sub(r"[^A-Za-z0-9_]", "_", table[1])  # Debezium's names of topics and schemas
        decoder = decoder_of(capture, names_in_record, columns, schema_registry=registry.url)
        return decoder.decode(batch)

    for columns, pairs in compared_tables(capture, decoded):
        for event, row in pairs:
            image = "before" if event["op"] == "delete" else "after"
            place = f"seq {event['seq']} {event['db']}.{event['table']}"
            score.cell(place, "op", event["op"], row["op"])
            score.cell(place, "error", None, row["error"])
            score.image(f"{place} {image}", wanted(score, capture, columns, event, image), row[image])
    score.check_all()


@pytest.mark.parametrize(("server", "flavour"), FLAVOURS)
def test_cells_as_text(server, flavour, registry, written, score):
    """As maps, numbers, decimals and times are what MySQL would print. Instants are the connector's text."""
    capture = Capture(debezium_truth.load(server), SETTINGS[flavour])
    batch = kafka_records.batch(written(f"{server}-{flavour}", "mixed"))

    def decoded(table, _):
        database, name = map(re.escape, table)
        decoder = towpath.Decoder("debezium-avro", database=database, table=name, schema_registry=registry.url)
        return decoder.decode(batch)

    for columns, pairs in compared_tables(capture, decoded):
        printed = [column for column in columns if is_printed(column)]
        for event, row in pairs:
            place = f"seq {event['seq']} {event['db']}.{event['table']}"
            for image in ("before", "after"):
                got = row[image] and {
                    name: read_back(column, row[image][name]) for name, column in names(printed).items()
                }
                score.image(f"{place} {image}", wanted(score, capture, printed, event, image), got)
    score.check_all()


def is_printed(column):
    """Bytes and booleans have no text of MySQL's."""
    return truth.asked(column.declared) not in (pa.binary(), pa.bool_()) and column.name != "c_bool"


def read_back(column, text):
    """The value of a text, if it has one. Instants are text with a zone."""
    try:
        if truth.base(column.declared) == "timestamp" and text:
            text = text.replace("T", " ").removesuffix("Z")
        return text if truth.base(column.declared) == "json" else truth.value(column.declared, text)
    except ValueError:
        return text


SAME = ["op", "database", "schema", "table", "before", "after", "event_time", "produced_time", "sql", "row", "error"]


@pytest.mark.parametrize("file", ["mixed", "snapshot"])
@pytest.mark.parametrize(("server", "flavour"), FLAVOURS)
def test_envelopes_are_those_of_json(server, flavour, file, registry, written, score):
    """Every message, row change or not; the row images of both are compared with the truth elsewhere."""
    json_batch = kafka_records.batch(avro_captures.json_records(f"{server}-{flavour}", file))
    fields = [name for name in SAME if name not in ("before", "after")] + ["table_changes", "source", "column_types"]
    wants = towpath.Decoder("debezium-json", key="key", fields=fields).decode(json_batch)
    batch = kafka_records.batch(written(f"{server}-{flavour}", file))
    rows = towpath.Decoder("debezium-avro", key="key", fields=fields, schema_registry=registry.url).decode(batch)
    pairs = zip(*(table.to_pylist(maps_as_pydicts="strict") for table in (wants, rows)), strict=True)
    for number, (want, row) in enumerate(pairs):
        if want["op"] not in ("insert", "update", "delete", "snapshot", "truncate"):
            want["column_types"] = None  # the JSON dialect declares the envelope's own members
        if want["column_types"]:
            want["column_types"] = {scrubbed(name): word for name, word in want["column_types"].items()}
        want["source"] = want["source"] and want["source"] | {"dialect": "debezium-avro"}
        of_avro, of_json = (text and json.loads(text) for text in (row["table_changes"], want.pop("table_changes")))
        score.cell(f"message {number}", "table_changes", of_json, of_avro)
        for field, value in want.items():
            score.cell(f"message {number}", field, value, row[field])
    score.check_all()


@pytest.mark.parametrize(("server", "flavour"), FLAVOURS)
def test_inferred_types_hold_every_value(server, flavour, registry, written):
    """Each table with one of the two ways to get schemas: that both get the same is tested elsewhere."""
    batch = kafka_records.batch(written(f"{server}-{flavour}", "mixed"))
    for number, (database, table) in enumerate(sorted(debezium_truth.load(server).events)):
        options = {"database": re.escape(database), "table": re.escape(table)}
        options |= schemas_from(registry, "given" if number % 2 else "registry")
        schema = towpath.infer_schema(batch, "debezium-avro", **options)
        decoder = towpath.Decoder("debezium-avro", schema, mode="FAILFAST", fields=["op", "after"], **options)
        assert len(row_changes(decoder.decode(batch))) > 0


def test_decimals_dates_and_bits_are_inferred_by_their_attributes(registry, written):
    batch = kafka_records.batch(written("mysql-default", "mixed"))
    schema = towpath.infer_schema(batch, "auto", "types_a", "all_types", schema_registry=registry.url)
    types = {
        "c_dec_10_4": pa.decimal128(10, 4),
        "c_dec_65_30": pa.string(),
        "c_bit1": pa.bool_(),
        "c_bit10": pa.binary(),
        "c_date": pa.date32(),
        "c_datetime6": pa.timestamp("us"),
        "c_timestamp6": pa.timestamp("us", "UTC"),
        "c_time6": pa.duration("us"),
        "c_tinyint": pa.int16(),
        "c_blob": pa.binary(),
        "c_enum": pa.string(),
    }
    assert {name: schema.field(name).type for name in types} == types


def test_enums_and_sets_are_numbers_by_the_labels_in_the_schema(registry, written):
    batch = kafka_records.batch(written("mysql-default", "mixed"))
    columns = {"database": "types_a", "table": "all_types", "schema_registry": registry.url}
    labels = row_changes(towpath.Decoder("debezium-avro", "c_enum string, c_set string", **columns).decode(batch))
    numbers = row_changes(towpath.Decoder("debezium-avro", "c_enum int, c_set bigint", **columns).decode(batch))
    assert all(row["error"] is None for row in numbers)
    found = {
        row["after"]["c_enum"]: number["after"]["c_enum"]
        for row, number in zip(labels, numbers, strict=True)
        if row["after"]
    }
    assert found["small"] == 1
    assert len(set(found.values())) == len(found) > 2


# What is not a row, and what is not right.


@pytest.fixture(scope="module")
def orders(registry, written):
    """The first insert of a table, with its key."""
    records = written("mysql-default", "mixed")
    rows = towpath.Decoder("debezium-avro", fields=["op", "table"], schema_registry=registry.url).decode(
        kafka_records.batch(records)
    )
    found = [
        number for number, row in enumerate(rows.to_pylist()) if (row["op"], row["table"]) == ("insert", "order_line")
    ]
    return records[found[0]]


def one(decoder, value, key=None):
    batch = pa.record_batch({"key": pa.array([key], pa.binary()), "value": pa.array([value], pa.binary())})
    [row] = decoder.decode(batch).to_pylist(maps_as_pydicts="strict")
    return row


def test_a_null_value_is_a_tombstone(registry, orders):
    decoder = towpath.Decoder("debezium-avro", key="key", schema_registry=registry.url)
    assert one(decoder, None, orders.key)["op"] == "tombstone"


def test_bytes_behind_a_datum_are_an_error(registry, orders):
    decoder = towpath.Decoder("debezium-avro", writer_schemas=writer_schemas(registry))
    assert "1 bytes remain after the datum" in one(decoder, orders.value + b"\0")["error"]["message"]


def test_without_schemas_the_message_says_what_to_set(orders):
    row = one(towpath.Decoder("debezium-avro"), orders.value)
    number = int.from_bytes(orders.value[1:5], "big")
    assert (row["op"], row["error"]["kind"], row["error"]["byte"]) == ("error", "envelope", 1)
    expected = f"debezium-avro: unknown schema id {number}; set schema_registry, or add it to writer_schemas"
    assert row["error"]["message"] == expected
    assert row["_corrupt_record"] == orders.value


def test_a_key_whose_schema_is_not_known_is_an_error_of_its_message(registry, orders):
    given = writer_schemas(registry)
    del given[int.from_bytes(orders.key[1:5], "big")]
    row = one(towpath.Decoder("debezium-avro", key="key", writer_schemas=given), orders.value, orders.key)
    assert row["error"]["message"].startswith("debezium-avro: key: unknown schema id ")
    assert one(towpath.Decoder("debezium-avro", writer_schemas=given), orders.value)["error"] is None


@pytest.mark.parametrize("key", [b'{"order_id":1,"line":2}', b'{"schema":{},"payload":{"order_id":1,"line":2}}'])
def test_a_key_may_be_of_another_converter(registry, orders, key):
    row = one(towpath.Decoder("debezium-avro", key="key", writer_schemas=writer_schemas(registry)), orders.value, key)
    assert row["primary_key"] == ["order_id", "line"]


# Debezium's ByLogicalTableRouter adds a field to the key, which is not a column.
def test_the_field_that_topic_routing_adds_to_the_key_is_no_key_column(registry, orders):
    names = ["__dbz__physicalTableIdentifier", "id"]
    text = json.dumps({"type": "record", "name": "Key", "fields": [{"name": name, "type": "string"} for name in names]})
    given = {**writer_schemas(registry), 9999: text}
    key = b"\0" + (9999).to_bytes(4, "big") + b"\x02a\x02b"
    row = one(towpath.Decoder("debezium-avro", key="key", writer_schemas=given), orders.value, key)
    assert row["primary_key"] == ["id"]


BAD_SCHEMAS = {
    "": "the schema registry's response is not a schema: it is not JSON",
    '{"type":"record"}': "name is missing",
    '"string"': "is not a record",
    '{"type":"record","name":"R","fields":[{"name":"a","type":"Nobody"}]}': 'unknown type "Nobody"',
    '{"type":"record","name":"R","fields":[{"name":"before","type":["null",{"type":"record","name":"A","fields":[]},'
    '{"type":"record","name":"B","fields":[]}]}]}': "a union of several records",
    "[" * 1000 + "]" * 1000: "recursion limit exceeded",
}


@pytest.mark.parametrize("schema", BAD_SCHEMAS)
def test_a_broken_schema_is_an_error_of_its_messages(schema, orders):
    with registry_server.running() as registry:
        number = registry.register("t", schema)
        value = b"\0" + number.to_bytes(4, "big") + b"\0"
        rows = (
            towpath.Decoder("debezium-avro", schema_registry=registry.url).decode(pa.array([value, None])).to_pylist()
        )
    assert rows[0]["error"]["kind"] == "envelope"
    assert BAD_SCHEMAS[schema] in rows[0]["error"]["message"]
    assert rows[1]["op"] == "tombstone"


def test_a_broken_schema_that_is_given_is_an_error_of_the_argument():
    with pytest.raises(ValueError, match="writer_schemas: 7: R: a: unknown type"):
        towpath.Decoder("debezium-avro", writer_schemas={7: list(BAD_SCHEMAS)[3]})
    with pytest.raises(ValueError, match="'x' is not a schema id"):
        towpath.Decoder("debezium-avro", writer_schemas={"x": "{}"})
    with pytest.raises(TypeError, match="7: expected JSON text"):
        towpath.Decoder("debezium-avro", writer_schemas={7: {"type": "record"}})


def record(name, fields, **more):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()], **more}


def long(number):
    """A number in Avro, as fastavro writes it."""
    fastavro, out = pytest.importorskip("fastavro"), io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


def decode_with(written_with, datum, **options):
    """One message with a schema of its own."""
    decoder = towpath.Decoder("debezium-avro", writer_schemas={7: json.dumps(written_with)}, **options)
    return one(decoder, b"\0\0\0\0\x07" + datum)


def test_hostile_schemas_are_bounded_in_time():
    """Records that contain themselves, records of records of nothing, and text that grows."""
    itself = record("s.d.t.Value", {"r": "s.d.t.Value"})
    assert decode_with(itself, b"")["error"]["kind"] == "depth"
    both = record("s.d.t.Value", {"a": "s.d.t.Value", "b": "s.d.t.Value"})
    assert decode_with(both, b"")["error"]["kind"] == "depth"
    nothing = record("N0", {"n": "null"})
    for level in range(1, 30):
        nothing = record(f"N{level}", {"a": nothing, "b": f"N{level - 1}"})
    started = time.monotonic()
    options = {"schema": "id int", "fields": ["after", "error"]}  # `changed` would need every column
    row = decode_with(record("s.d.t.Value", {"id": "int", "n": nothing}), b"\x0e", **options)
    assert (row["after"], row["error"]) == ({"id": 7}, None)
    row = decode_with(record("s.d.t.Value", {"id": "int", "n": nothing}), b"\x0e")
    assert row["error"]["kind"] == "size"
    wide = record("W", {f"field_{number}_{'x' * 100}": "null" for number in range(1000)})
    row = decode_with(record("s.d.t.Value", {"w": {"type": "array", "items": wide}}), b"\xd0\x0f" + b"\0" * 1001)
    assert row["error"]["kind"] == "size"
    huge = record("s.d.t.Value", {"f": {"type": "fixed", "name": "F", "size": 2**62}})
    assert decode_with(huge, b"xx")["error"]["kind"] == "syntax"
    many = record("s.d.t.Value", {f"c{number}": "int" for number in range(20_000)})
    assert len(decode_with(many, b"\x02" * 20_000)["after"]) == 20_000
    assert time.monotonic() - started < 20


LOGICAL = [
    ({"type": "int", "logicalType": "date"}, b"\x02", "date", "1970-01-02"),
    ({"type": "int", "logicalType": "time-millis"}, b"\x02", "interval day to second", timedelta(milliseconds=1)),
    ({"type": "long", "logicalType": "time-micros"}, b"\x02", "interval day to second", timedelta(microseconds=1)),
    ({"type": "long", "logicalType": "timestamp-millis"}, b"\x02", "timestamp", "1970-01-01 00:00:00.001000+00:00"),
    ({"type": "long", "logicalType": "timestamp-micros"}, b"\x02", "timestamp", "1970-01-01 00:00:00.000001+00:00"),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, b"\x02", "timestamp_ntz", "1970-01-01 00:00:00.000001"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x04\xff\x85", "decimal(4,2)", "-1.23"),
    (
        {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2},
        b"\xff\x85",
        "decimal(4,2)",
        "-1.23",
    ),
    (
        {"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"},
        b"\xd0\x0f",
        "timestamp_ntz",
        "1970-01-01 00:00:00.000001",
    ),
    ({"type": "string", "connect.name": "io.debezium.time.IsoTime"}, b"\x12" + b"07:08:09Z", "string", "07:08:09"),
    ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, b"\x02", "string", "b"),
    ({"type": "map", "values": "int"}, b"\x02\x02a\x02\x00", "map<string,int>", {"a": 1}),
    ({"type": "array", "items": "string"}, b"\x02\x02a\x00", "array<string>", ["a"]),
    (
        record("J", {"a": "int", "b": ["null", "string"]}),
        b"\x02\x02\x02x",
        "struct<a:int,b:string>",
        {"a": 1, "b": "x"},
    ),
    (["null", "int", "string"], b"\x04\x02x", "string", "x"),
    ("boolean", b"\x01", "decimal(1,0)", "1"),
    ("boolean", b"\x01", "binary", b"\x01"),
    ("float", b"\0\0\0\x3f", "double", 0.5),
    ("long", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "bigint", -(2**63)),
]


@pytest.mark.parametrize(("schema", "datum", "asked", "value"), LOGICAL)
def test_avros_own_types(schema, datum, asked, value):
    row = decode_with(record("s.d.t.Value", {"c": schema}), datum, schema=f"c {asked}")
    assert row["error"] is None
    got = dict(row["after"]["c"]) if asked.startswith("map") else row["after"]["c"]
    assert (str(got) if isinstance(value, str) else got) == value


REFUSED = [
    ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f", "date", "2147483647 does not fit into a date"),
    ({"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"}, b"\x02", "timestamp_ntz", "1 does not fit"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x00", "decimal(4,2)", "no bytes"),
    ({"type": "bytes", "connect.name": "org.apache.kafka.connect.data.Decimal"}, b"\x02\x01", "int", "no scale"),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        b"\x42" + b"\x01" * 33,
        "string",
        "33 bytes",
    ),
    ("long", b"\x80\x80\x04", "smallint", "does not fit into a smallint"),
    ("int", b"\x04", "boolean", "2 does not fit into a boolean"),
]


@pytest.mark.parametrize(("schema", "datum", "asked", "why"), REFUSED)
def test_a_value_that_cannot_be_converted_is_an_error_of_its_cell(schema, datum, asked, why):
    row = decode_with(record("s.d.t.Value", {"c": schema, "d": "int"}), datum + b"\x02", schema=f"c {asked}, d int")
    assert (row["after"]["c"], row["after"]["d"]) == (None, 1)
    assert row["error"]["column"] == "c"
    assert why in row["error"]["message"]


def test_variable_decimals_and_geometries():
    decimal = record(
        "VariableScaleDecimal",
        {"scale": "int", "value": "bytes"},
        **{"connect.name": "io.debezium.data.VariableScaleDecimal"},
    )
    geometry = record(
        "Geometry", {"wkb": "bytes", "srid": ["null", "int"]}, **{"connect.name": "io.debezium.data.geometry.Geometry"}
    )
    schema = record("s.d.t.Value", {"v": decimal, "g": ["null", geometry]})
    datum = b"\x04\x04\xff\x85" + b"\x02\x04\x01\x02\x02\xcc\x42"
    row = decode_with(schema, datum, schema="v decimal(10,3), g struct<srid: int, wkb: binary>")
    assert (str(row["after"]["v"]), row["after"]["g"]) == ("-1.230", {"srid": 4262, "wkb": b"\x01\x02"})
    assert decode_with(schema, datum, schema="g binary")["after"] == {"g": b"\x01\x02"}
    assert decode_with(schema, datum)["after"] == {"v": "-1.23", "g": '{"wkb":"AQI=","srid":4262}'}


@pytest.mark.parametrize("how", ["option", "source type"])
def test_bigint_unsigned_in_mode_long(how):
    attributes = (
        {"connect.parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}} if how == "source type" else {}
    )
    options = {} if attributes else {"bigint_unsigned_handling_mode": "long"}
    schema = record("s.d.t.Value", {"c": {"type": "long", **attributes}})
    assert str(decode_with(schema, b"\x01", schema="c decimal(20,0)", **options)["after"]["c"]) == str(2**64 - 1)


def test_the_names_of_flat_rows_and_what_was_added_to_them():
    added = {"id": "int", "__op": "string", "__db": ["null", "string"], "__source_ts_ms": "long", "__deleted": "string"}
    schema = record("Value", added, namespace="server.more.shop.orders")
    row = decode_with(schema, b"\x02" + b"\x02u" + b"\x00" + long(1_714_979_289_000) + b"\x08true")
    assert (row["op"], row["database"], row["table"], row["before"]) == ("delete", "shop", "orders", {"id": "1"})
    assert row["event_time"].timestamp() == 1_714_979_289
    row = decode_with(schema, b"\x02" + b"\x02c" + b"\x02\x04db" + b"\x00" + b"\x0afalse")
    assert (row["op"], row["database"], row["table"], row["after"]) == ("insert", "db", "orders", {"id": "1"})
    named = record("Value", {"id": "int"}, namespace="s.d.t_", **{"connect.name": "s.d.t-1.Value"})
    assert decode_with(named, b"\x02")["table"] == "t-1"
    row = decode_with(record("a.b.Other", {"other": "int"}), b"\x02")
    assert row["error"]["message"] == 'debezium-avro: not a Debezium envelope: no member "op"'


# References.

COLUMN = {
    "type": "record",
    "name": "s.d.t.Value",
    "fields": [{"name": "c", "type": {"type": "int", "logicalType": "date"}}],
}
INNER = {"type": "record", "name": "x.Inner", "fields": [{"name": "row", "type": ["null", "s.d.t.Value"]}]}
OUTER = record(
    "s.d.t.Envelope",
    {"before": ["null", "s.d.t.Value"], "after": ["null", "s.d.t.Value"], "inner": ["null", "x.Inner"], "op": "string"},
)
REFERRING = b"\0\0\0\0\x07" + b"\x00\x02\x02\x00\x02c"


def test_references_that_are_given():
    texts = [json.dumps(COLUMN), json.dumps(INNER)]
    decoder = towpath.Decoder("debezium-avro", "c date", writer_schemas={7: [json.dumps(OUTER), texts]})
    assert str(one(decoder, REFERRING)["after"]["c"]) == "1970-01-02"
    with pytest.raises(ValueError, match=r"writer_schemas: 7: reference 1: Inner: row: unknown type"):
        towpath.Decoder("debezium-avro", writer_schemas={7: [json.dumps(OUTER), texts[::-1]]})


def test_references_that_are_fetched_with_their_own():
    with registry_server.running() as registry:
        registry.register("row/1", json.dumps(COLUMN))
        to_row = {"name": "s.d.t.Value", "subject": "row/1", "version": 1}
        registry.register("inner", json.dumps(INNER), [to_row])
        to_inner = {"name": "x.Inner", "subject": "inner", "version": 1}
        number = registry.register("outer", json.dumps(OUTER), [to_inner, to_row])
        decoder = towpath.Decoder("debezium-avro", "c date", schema_registry=registry.url)
        value = b"\0" + number.to_bytes(4, "big") + REFERRING[5:]
        assert str(one(decoder, value)["after"]["c"]) == "1970-01-02"
        assert len(registry.requests) == 3
        lost = registry.register("lost", json.dumps(OUTER) + " ", [to_inner | {"version": 9}])
        row = one(decoder, b"\0" + lost.to_bytes(4, "big") + REFERRING[5:])
        assert "returned 404: Version 9 not found" in row["error"]["message"]


def test_references_in_a_circle_end():
    with registry_server.running() as registry:
        registry.register("a", json.dumps(COLUMN), [{"name": "b", "subject": "b", "version": 1}])
        registry.register("b", json.dumps(INNER), [{"name": "a", "subject": "a", "version": 1}])
        decoder = towpath.Decoder("debezium-avro", "c date", schema_registry=registry.url)
        assert one(decoder, b"\0\0\0\0\x01\x02")["op"] == "update"
        assert len(registry.requests) == 3


# The registry.


def envelope(number):
    """A heartbeat whose schema has this id."""
    return b"\0" + number.to_bytes(4, "big") + b"\x02"


HEARTBEAT = json.dumps(record("io.debezium.connector.common.Heartbeat", {"ts_ms": "long"}))


def ops(decoder, values):
    return [row["op"] for row in decoder.decode(pa.array(values)).to_pylist()]


def test_an_id_is_fetched_once_by_all_decoders_of_a_process():
    with registry_server.running() as registry:
        number = registry.register("h", HEARTBEAT)
        decoder = towpath.Decoder("debezium-avro", schema_registry=registry.url)
        copies = [pickle.loads(pickle.dumps(decoder)) for _ in range(4)]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda one: ops(one, [envelope(number)] * 10), [decoder, *copies] * 4))
        assert found == [["heartbeat"] * 10] * 20
        assert registry.asked_for() == [number]


def test_an_id_that_the_registry_does_not_know_is_an_error_of_its_messages(monkeypatch):
    with registry_server.running() as registry:
        known = registry.register("h", HEARTBEAT)
        decoder = towpath.Decoder("debezium-avro", schema_registry=registry.url)
        values = pa.array([envelope(known), envelope(40), envelope(40), envelope(known)])
        rows = decoder.decode(values).to_pylist()
        assert [row["op"] for row in rows] == ["heartbeat", "error", "error", "heartbeat"]
        expected = "debezium-avro: unknown schema id 40: the schema registry returned 404: Schema not found"
        assert rows[1]["error"]["message"] == expected
        decoder.decode(values)
        assert registry.asked_for() == [known, 40]
        monkeypatch.setattr(schema_registry, "REFUSED_SECONDS", 0.0)
        known_later = towpath.Decoder("debezium-avro", schema_registry={"url": registry.url, "timeout": 9})
        known_later.decode(pa.array([envelope(2)]))
        registry.register("h2", HEARTBEAT + " ")
        assert ops(known_later, [envelope(2)]) == ["heartbeat"]


def test_many_ids_that_are_none_are_not_all_asked_for(monkeypatch):
    monkeypatch.setattr(schema_registry, "_MAX_UNKNOWN", 20)
    with registry_server.running() as registry:
        decoder = towpath.Decoder("debezium-avro", schema_registry=registry.url)
        rows = decoder.decode(pa.array([envelope(number) for number in range(1, 100)])).to_pylist()
        assert {row["op"] for row in rows} == {"error"}
        assert len(registry.requests) == 20
        assert "no more are requested" in rows[-1]["error"]["message"]


@pytest.mark.parametrize("seed", range(3))
def test_ids_of_other_messages_do_not_take_the_turn_of_a_good_one(monkeypatch, seed):
    """Bytes that are not ids are large numbers mostly; ids are counted."""
    monkeypatch.setattr(schema_registry, "_MAX_UNKNOWN", 20)
    random_ = random.Random(seed)
    with registry_server.running() as registry:
        good = [registry.register("h", HEARTBEAT + " " * count) for count in range(3)]
        ids = [*(random_.randrange(100, 2**32) for _ in range(60)), *good]
        random_.shuffle(ids)
        decoder = towpath.Decoder("debezium-avro", schema_registry=registry.url)
        rows = decoder.decode(pa.array([envelope(number) for number in ids])).to_pylist()
    assert [row["op"] == "heartbeat" for row in rows] == [number in good for number in ids]


def test_a_registry_that_is_away_costs_one_attempt_for_each_call(monkeypatch):
    with registry_server.running() as registry:
        url = registry.url
    asked = []
    ask = schema_registry.SchemaRegistry._ask
    monkeypatch.setattr(
        schema_registry.SchemaRegistry,
        "_ask",
        lambda self, number, *more: asked.append(number) or ask(self, number, *more),
    )
    decoder = towpath.Decoder("debezium-avro", schema_registry=url)
    given = towpath.Decoder("debezium-avro", schema_registry=url, writer_schemas={5: HEARTBEAT})
    rows = given.decode(pa.array([envelope(1), envelope(2), envelope(5)])).to_pylist()
    assert [row["op"] for row in rows] == ["error", "error", "heartbeat"]
    assert "unknown schema id 1: the schema registry cannot be reached: ConnectError" in rows[0]["error"]["message"]
    assert decoder.decode(pa.array([envelope(3)])).to_pylist()[0]["op"] == "error"
    assert asked == [1]
    with pytest.raises(towpath.DecodeError, match="cannot be reached"):
        towpath.Decoder("debezium-avro", schema_registry=url, mode="FAILFAST").decode(pa.array([envelope(1)]))


def test_a_registry_that_comes_back_is_asked_again(monkeypatch):
    monkeypatch.setattr(schema_registry, "AWAY_SECONDS", 0.0)
    with registry_server.running() as registry:
        number = registry.register("h", HEARTBEAT)
        registry.status = 503
        decoder = towpath.Decoder("debezium-avro", schema_registry={"url": registry.url, "max.retries": 0})
        [row] = decoder.decode(pa.array([envelope(number)])).to_pylist()
        assert "returned 503" in row["error"]["message"]
        registry.status = None
        assert ops(decoder, [envelope(number)]) == ["heartbeat"]


def test_basic_authentication_and_secrets():
    with registry_server.running(credentials="user:s3cret") as registry:
        number = registry.register("h", HEARTBEAT)
        in_url = registry.url.replace("//", "//user:s3cret@")
        configured = {"url": registry.url, "basic.auth.user.info": "user:s3cret"}
        for right in (in_url, configured, json.dumps(configured)):
            decoder = pickle.loads(pickle.dumps(towpath.Decoder("debezium-avro", schema_registry=right)))
            assert ops(decoder, [envelope(number)]) == ["heartbeat"]
            assert "s3cret" not in repr(decoder)
        wrong = towpath.Decoder("debezium-avro", schema_registry=registry.url.replace("//", "//user:wr0ng@"))
        [row] = wrong.decode(pa.array([envelope(number)])).to_pylist()
        assert "returned 401: Unauthorized" in row["error"]["message"]
        assert "wr0ng" not in row["error"]["message"]


def certificate(folder):
    """Files of a certificate for this machine, which signs itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(timezone.utc)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    )
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    files = folder / "registry.crt", folder / "registry.key"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    )
    return files


def test_tls(tmp_path):
    files = certificate(tmp_path)
    with registry_server.running(certificate=files) as registry:
        number = registry.register("h", HEARTBEAT)
        trusting = {"url": registry.url, "ssl.ca.location": str(files[0])}
        assert ops(towpath.Decoder("debezium-avro", schema_registry=trusting), [envelope(number)]) == ["heartbeat"]
        [row] = (
            towpath.Decoder("debezium-avro", schema_registry=registry.url)
            .decode(pa.array([envelope(number)]))
            .to_pylist()
        )
        assert (row["op"], row["error"]["kind"]) == ("error", "envelope")
        assert "CERTIFICATE_VERIFY_FAILED" in row["error"]["message"]


def test_the_configuration_is_checked():
    for wrong in ("registry:8081", {"basic.auth.user.info": "a:b"}, "{"):
        with pytest.raises(ValueError, match="schema_registry: "):
            towpath.Decoder("debezium-avro", schema_registry=wrong)
    decoder = towpath.Decoder("debezium-avro", schema_registry={"url": "http://127.0.0.1:1", "no.such": 1})
    with pytest.raises(ValueError, match=r"schema_registry: Unrecognized properties: no\.such"):
        decoder.decode(pa.array([envelope(1)]))


def test_the_clients_package_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka.schema_registry", None)
    decoder = towpath.Decoder("debezium-avro", schema_registry="http://127.0.0.1:2")
    assert ops(decoder, [None]) == ["tombstone"]
    with pytest.raises(ImportError, match=r"pip install 'confluent-kafka\[schemaregistry\]'"):
        decoder.decode(pa.array([envelope(1)]))


class Hostile:
    """What a registry answers that is broken, by the id that is asked for; schemas to all others."""

    def __init__(self, answers):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                number = int(self.path.split("?")[0].rpartition("/")[2])
                answers[number](self) if number in answers else answer(self, 200, {"schema": HEARTBEAT})

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()


def answer(handler, status, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"Content-Length": len(content), **headers}.items():
        handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()
    with suppress(OSError):
        handler.wfile.write(content)


def drip(handler):
    """One byte after the other, each in time for a timeout of each read."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    with suppress(OSError):
        for _ in range(1000):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)


BROKEN = {
    "500": lambda one: answer(one, 500, {"error_code": 50001, "message": "m" * 100_000}),
    "control characters": lambda one: answer(one, 418, {"error_code": 1, "message": "\x1b[2J\n"}),
    "not JSON": lambda one: answer(one, 200, b"<html>"),
    "a list": lambda one: answer(one, 200, []),
    "no schema": lambda one: answer(one, 200, {}),
    "null": lambda one: answer(one, 200, {"schema": None}),
    "a number": lambda one: answer(one, 200, {"schema": 5}),
    "no JSON inside": lambda one: answer(one, 200, {"schema": "x" * 100_000}),
    "nested": lambda one: answer(one, 200, {"schema": "[" * 100_000}),
    "large": lambda one: answer(one, 200, b" " * (schema_registry._MAX_ANSWER + 1)),
    "gzip": lambda one: answer(one, 200, gzip.compress(b" " * (1 << 24)), Content_Encoding="gzip"),
    "redirect": lambda one: answer(one, 302, b"", Location="http://127.0.0.1:1/"),
    "not found": lambda one: answer(one, 404, {"error_code": 40403, "message": "Schema not found"}),
    "hung up": lambda one: one.connection.close(),
    "dripped": drip,
}


@pytest.mark.parametrize("seed", range(4))
def test_a_broken_answer_fails_only_messages_of_its_id(seed):
    """In random order, with at most so many broken ids that the registry is not away."""
    random_ = random.Random(seed)
    ids = random_.sample(range(1, 2**32), 8)
    broken = dict(zip(ids[:4], random_.sample(sorted(BROKEN), 4), strict=True))
    with Hostile({number: BROKEN[kind] for number, kind in broken.items()}) as registry:
        config = {"url": registry.url, "timeout": 0.5, "max.retries": 0, "retries.wait.ms": 1}
        decoder = towpath.Decoder("debezium-avro", schema_registry=config)
        random_.shuffle(ids)
        rows = decoder.decode(pa.array([envelope(number) for number in ids])).to_pylist()
    assert [row["op"] for row in rows] == ["error" if number in broken else "heartbeat" for number in ids]
    for number, row in zip(ids, rows, strict=True):
        text = row["error"]["message"] if number in broken else ""
        assert len(text) < 1000, broken[number]
        assert text.isprintable(), broken[number]


def test_what_is_kept_of_answers_is_bounded(monkeypatch):
    monkeypatch.setattr(schema_registry, "_MAX_KNOWN", 1000)
    monkeypatch.setattr(schema_registry, "_MAX_REFUSED", 5)
    known = schema_registry.SchemaRegistry("http://127.0.0.1:1")
    for number in range(50):
        known._keep(number, (HEARTBEAT, []))
        known._refuse(number, "unknown", 60)
        assert sum(len(text) for text, _ in known._known.values()) <= 1000
        assert number in known._known
        assert len(known._refused) <= 5
        assert number in known._refused


@pytest.mark.parametrize("seed", range(3))
def test_credentials_are_never_shown(seed):
    random_ = random.Random(seed)
    for _ in range(30):
        password = "SEC" + "".join(random_.choices("@/:?#% &=,'", k=3)) + "RET" + random_.choice("@/:x")
        config = {"url": f"http://me:{password}@127.0.0.1:1", "timeout": 1, "max.retries": 0}
        decoder = towpath.Decoder("debezium-avro", schema_registry=config)
        shown = repr(decoder)
        try:
            shown += str(decoder.decode(pa.array([envelope(1)])).to_pylist())
        except ValueError as error:
            shown += str(error)
        assert "SEC" not in shown, password
        assert "RET" not in shown, password


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_that_is_forked_during_a_request_has_a_lock_of_its_own():
    known = schema_registry.SchemaRegistry("http://127.0.0.1:1")
    known._known[1] = HEARTBEAT, []
    with known._lock:
        child = os.fork()
        if not child:
            os._exit(0 if known._lock.acquire(timeout=100) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert known._lock.locked()


def test_a_schema_of_another_type():
    with registry_server.running() as registry:
        number = registry.register("j", "{}", schemaType="JSON")
        decoder = towpath.Decoder("debezium-avro", schema_registry=registry.url)
        [row] = decoder.decode(pa.array([envelope(number)])).to_pylist()
        assert "the schema has type JSON in the registry, not AVRO" in row["error"]["message"]


# Among other dialects.


def test_auto_reads_avro_and_json_of_one_topic(registry, written):
    avro = written("mysql-default", "mixed")
    plain = avro_captures.json_records("mysql-default", "mixed")
    mixed = [record for pair in zip(avro, plain, strict=True) for record in pair]
    rows = towpath.Decoder(key="key", keep=["topic"], schema_registry=registry.url).decode(kafka_records.batch(mixed))
    own = towpath.Decoder("debezium-avro", key="key", keep=["topic"], schema_registry=registry.url)
    assert rows.take(list(range(0, len(rows), 2))).equals(own.decode(kafka_records.batch(avro)))
    own = towpath.Decoder("debezium-json", key="key", keep=["topic"])
    assert rows.take(list(range(1, len(rows), 2))).equals(own.decode(kafka_records.batch(plain)))


@pytest.mark.parametrize(
    ("value", "dialect"),
    [
        (b"\0\0\0\0\x07\x02", "debezium-avro"),
        (b"\0\0\0\0\x07{\x02", "debezium-avro"),
        (b"\0\0\0\0\0\x02", None),
        (b"\0\xff\xff\xff\xff\x02", None),
        (b"\0\0\0\0\x07", None),
        (b"\x01\0\0\0\x07\x02", None),
    ],
)
def test_detection(value, dialect):
    assert towpath.detect(value) == dialect


def test_json_behind_the_five_bytes_is_not_avro():
    message = b'\0\0\0\0\x07{"op":"c","source":{"db":"shop","table":"orders"},"after":{"id":7},"ts_ms":1}'
    assert towpath.detect(message) != "debezium-avro"
    with registry_server.running() as registry:
        towpath.Decoder(schema_registry=registry.url).decode(pa.array([message]))
        assert registry.requests == []


# Where schemas are given to: files, the command, a stream of batches.


def test_a_stream_of_batches(registry, written):
    batch = kafka_records.batch(written("mysql-default", "snapshot"))
    decoder = towpath.Decoder("debezium-avro", key="key", schema_registry=registry.url)
    reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    assert decoder.decode(reader).equals(decoder.decode(batch))


@pytest.fixture(scope="module")
def capture_file(written, tmp_path_factory):
    """A capture as a file of `[u32 length][bytes]`."""
    path = tmp_path_factory.mktemp("captures") / "snapshot.lenrec"
    values = [record.value for record in written("mysql-default", "snapshot") if record.value]
    path.write_bytes(b"".join(len(value).to_bytes(4, "big") + value for value in values))
    return path


def test_the_command(registry, capture_file, tmp_path, capsys):
    from towpath.cli import main

    out = tmp_path / "rows.jsonl"
    registry_setting = f"schema_registry={registry.url}"
    common = [str(capture_file), "--dialect", "debezium-avro", "--set", registry_setting]
    assert main(["decode", *common, "-o", str(out)]) == 0
    assert {json.loads(line)["op"] for line in out.read_text().strip("\n").split("\n")} >= {"snapshot", "ddl"}
    capsys.readouterr()
    assert main(["infer", *common, "--table", "all_types"]) == 0
    assert "c_dec_10_4 decimal(10,4)" in capsys.readouterr().out
    assert main(["infer", str(capture_file), "--set", "time_zone=UTC"]) == 2
    assert "expected one of schema_registry, writer_schemas" in capsys.readouterr().err


def test_options_of_the_data_source(registry):
    from towpath.spark.source_options import parse_options

    given = {7: HEARTBEAT}
    arguments = parse_options({"writer_schemas": json.dumps(given), "schema_registry": registry.url}).arguments
    decoder = towpath.Decoder("debezium-avro", **arguments)
    assert ops(decoder, [envelope(7)]) == ["heartbeat"]


def test_only_instants_have_a_zone(registry, written):
    """A TIMESTAMP asked as a local time is that of the option `time_zone`."""
    batch = kafka_records.batch(written("mysql-default", "mixed"))
    options = {"database": "types_a", "table": "all_types", "schema_registry": registry.url}
    local = towpath.Decoder("debezium-avro", "c_timestamp0 timestamp_ntz", time_zone="+08:00", **options).decode(batch)
    instant = towpath.Decoder("debezium-avro", "c_timestamp0 timestamp", **options).decode(batch)
    for a, b in zip(local["after"].to_pylist(), instant["after"].to_pylist(), strict=True):
        if a and a["c_timestamp0"]:
            assert a["c_timestamp0"].replace(tzinfo=timezone(timedelta(hours=8))) == b["c_timestamp0"]


def test_what_is_not_asked_for_is_not_converted(registry, orders):
    """A damaged value of a column that nobody wants costs nothing."""
    record_ = Record("", orders.key, orders.value)
    rows = towpath.Decoder("debezium-avro", "line int", fields=["op", "after"], schema_registry=registry.url)
    assert one(rows, record_.value) == {
        "op": "insert",
        "after": {"line": rows.decode(pa.array([record_.value]))["after"][0].as_py()["line"]},
    }


def _plain(message):
    """The columns of a key, if Connect sends all of them as they are."""
    fields = message["schema"]["fields"]
    is_plain = all(field["type"] in ("int16", "int32", "int64", "string") and "name" not in field for field in fields)
    return {scrubbed(name): str(value) for name, value in message["payload"].items()} if is_plain else None


@pytest.mark.parametrize("dialect", ["debezium-avro", "auto"])
@pytest.mark.parametrize("server", ["mysql", "maria"])
def test_a_record_without_a_value_deletes_the_row_of_its_key(server, registry, written, dialect):
    """What the flattening leaves of a delete. The truth is the key in JSON, which Debezium wrote."""
    flavour = next(iter(SETTINGS))
    avro = written(f"{server}-{flavour}", "mixed", flat=True)
    json_keys = avro_captures.json_records(f"{server}-{flavour}", "mixed")
    pairs = [(record, json.loads(one.key)) for record, one in zip(avro, json_keys, strict=True) if one.key]
    pairs = [(record, key) for record, key in pairs if key["schema"]["name"].endswith(".Key") and _plain(key)]
    assert len(pairs) > 100
    batch = kafka_records.batch([Record(record.topic, record.key, None) for record, _ in pairs])
    settings = {"schema_registry": registry.url, "key": "key"}
    rows = towpath.Decoder(dialect, unwrapped=True, **settings).decode(batch).to_pylist(maps_as_pydicts="strict")
    assert len(rows) == len(pairs)
    for row, (_, key) in zip(rows, pairs, strict=True):
        assert row["error"] is None
        _, database, table, _ = key["schema"]["name"].rsplit(".", 3)
        assert (row["op"], row["database"], row["table"]) == ("delete", database, table)
        assert row["before"] == _plain(key)
        assert row["primary_key"] == list(_plain(key))
    ordinary = towpath.Decoder(dialect, **settings).decode(batch)
    assert set(ordinary["op"].to_pylist()) == {"tombstone"}


def test_a_delete_by_key_of_selected_columns(registry):
    key = {
        "type": "record",
        "name": "srv.shop.t.Key",
        "fields": [{"name": "id", "type": "long"}, {"name": "k", "type": "string"}],
    }
    datum = b"\0\0\0\0\x07" + b"\x0e" + b"\x02x"
    batch = pa.record_batch({"key": pa.array([datum]), "value": pa.array([None], pa.binary())})
    options = {"writer_schemas": {7: json.dumps(key)}, "key": "key", "unwrapped": True, "layout": "upsert"}
    decoder = towpath.Decoder(
        "debezium-avro", "k string, more int", fields=["_op", "_table", "_missing_columns"], **options
    )
    assert decoder.decode(batch).to_pylist() == [
        {"_op": "delete", "k": "x", "more": None, "_table": "t", "_missing_columns": ["more"]}
    ]


@pytest.mark.parametrize(
    ("name", "key", "said"),
    [
        ("srv.shop.t.Key", b"\0\0\0\0\x08\x0e", "key: unknown schema id 8"),
        ("srv.shop.t.Key", b"\0\0\0\0\x07", "key"),
        ("srv.shop.t.Key", b"\0\0\0\0\x07\x0e\x0e", "key: 1 bytes remain after the datum"),
        (
            "other",
            b"\0\0\0\0\x07\x0e",
            "key: schema id 7 does not have the name of a Debezium key, so the deleted row is unknown",
        ),
        ("srv.shop.t.Key", b"x", "key"),
    ],
)
def test_a_key_that_cannot_be_read_is_an_error(name, key, said):
    schema = {"type": "record", "name": name, "fields": [{"name": "id", "type": "long"}]}
    batch = pa.record_batch({"key": pa.array([key]), "value": pa.array([None], pa.binary())})
    options = {"writer_schemas": {7: json.dumps(schema)}, "key": "key", "unwrapped": True}
    [row] = towpath.Decoder("debezium-avro", **options).decode(batch).to_pylist()
    assert row["op"] == "error"
    assert said in row["error"]["message"]
