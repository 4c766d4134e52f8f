"""Debezium reading real servers: every cell equals the result of SELECT before and after the statement."""

import json
import re
from collections import Counter
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

import debezium_truth
import kafka_records
import server_truth
import towpath
import truth
from debezium_truth import SETTINGS, Capture
from fidelity import ROOT, Score, beside, objects, row_changes, unique

pytestmark = pytest.mark.slow

GOLDEN = ROOT / "tests" / "golden"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

SERVERS = ["mysql", "maria"]
FILES = {"with schemas": "kv_schemas", "without schemas": "kv"}


def records_of(server, flavour, file):
    return kafka_records.load(GOLDEN / "debezium-json" / f"{server}-{flavour}" / f"{file}.jsonl.zst")


def decoder_of(capture, table, columns, **options):
    """A decoder with the options that messages without a schema part need."""
    database, name = map(re.escape, table)
    if not capture.has_schemas:
        options |= capture.settings | {"column_types": {column.name: column.declared for column in columns}}
    elif capture.settings["binary_handling_mode"] == "hex":
        options["binary_handling_mode"] = "hex"  # the schema part calls such a column a string
    schema = server_truth.schema(columns)
    return towpath.Decoder("debezium-json", schema, database=database, table=name, key="key", **options)


@pytest.mark.parametrize("flavour", SETTINGS)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("schemas", FILES)
def test_cells_of_both_images(schemas, server, flavour, score):
    capture = Capture(debezium_truth.load(server), SETTINGS[flavour], has_schemas=schemas == "with schemas")
    batch = kafka_records.batch(records_of(server, flavour, f"mixed.{FILES[schemas]}"))
    for table, version in debezium_truth.tables_and_versions(capture.server):
        columns = capture.server.versions[table][version]
        events = list(debezium_truth.split_key_changes(capture.server, capture.server.events[table]))
        rows = decoder_of(capture, table, columns).decode(batch)
        for event, row in beside(events, rows, capture.server.written_under(table, version)):
            compare(score, capture, columns, event, row)
    score.check_all()


def compare(score: Score, capture, columns, event, row):
    """Counts one row change: its op, its key, no error, nothing missing, and both images."""
    place = f"seq {event['seq']} {event['db']}.{event['table']} {event['op']}"
    images = {image: wanted(score, capture, columns, event, image) for image in ("before", "after")}
    envelope = {
        "op": event["op"],
        "database": event["db"],
        "table": event["table"],
        "primary_key": [column.name for column in columns if column.in_key] or None,
        "missing_columns": None,
    }
    for field, want in envelope.items():
        score.cell(place, field, want, row[field])
    refused = any(REFUSED in image.values() for image in images.values() if image)
    score.count((row["error"] is not None) == refused, place, "error", refused, row["error"])
    for image, want in images.items():
        score.image(f"{place} {image}", want and {name: plain(cell) for name, cell in want.items()}, row[image])


@pytest.mark.parametrize("flavour", SETTINGS)
@pytest.mark.parametrize("server", SERVERS)
def test_what_nobody_tells_is_right_or_an_error(server, flavour, score):
    """Without schema parts, settings and types: each cell is right, or null in a row that has an error."""
    capture = Capture(
        debezium_truth.load(server), SETTINGS[flavour]
    )  # the reasons of changed values are those of all messages
    batch = kafka_records.batch(records_of(server, flavour, "mixed.kv"))
    refused = 0
    for table, version in debezium_truth.tables_and_versions(capture.server):
        columns = capture.server.versions[table][version]
        schema = server_truth.schema(columns)
        database, name = map(re.escape, table)
        rows = towpath.Decoder("debezium-json", schema, database=database, table=name).decode(batch)
        events = list(debezium_truth.split_key_changes(capture.server, capture.server.events[table]))
        for event, row in beside(events, rows, capture.server.written_under(table, version)):
            refused += compare_or_refused(score, capture, columns, event, row)
    score.check_all()
    assert score.total / 20 < refused < score.total / 5


def compare_or_refused(score, capture, columns, event, row):
    """Counts the cells of a row, and returns how many were rejected."""
    refused = 0
    for image in ("before", "after"):
        want, got = wanted(score, capture, columns, event, image), row[image]
        score.count((want is None) == (got is None), f"seq {event['seq']}", image, want, got)
        for name, value in (want or {}).items():
            is_refused = got[name] is None and row["error"] is not None and value is not None
            refused += is_refused
            is_right = is_refused or truth.same(value, got[name])
            score.count(is_right, f"seq {event['seq']} {event['table']} {image}", name, value, got[name])
    return refused


@pytest.mark.parametrize("flavour", SETTINGS)
@pytest.mark.parametrize("server", SERVERS)
def test_cells_as_text(server, flavour, score):
    """Asked as string, numbers of days and seconds and base64 of decimals are what MySQL would print."""
    capture = Capture(debezium_truth.load(server), SETTINGS[flavour])
    batch = kafka_records.batch(records_of(server, flavour, "mixed.kv_schemas"))
    for table, version in debezium_truth.tables_and_versions(capture.server):
        columns = [column for column in capture.server.versions[table][version] if is_printed(column)]
        schema = pa.schema([(column.name, pa.string()) for column in columns])
        database, name = map(re.escape, table)
        rows = towpath.Decoder("debezium-json", schema, database=database, table=name).decode(batch)
        events = list(debezium_truth.split_key_changes(capture.server, capture.server.events[table]))
        for event, row in beside(events, rows, capture.server.written_under(table, version)):
            compare_texts(score, capture, columns, event, row)
    score.check_all()


def is_printed(column):
    """Bytes and booleans have no text of MySQL's."""
    return truth.asked(column.declared) not in (pa.binary(), pa.bool_()) and column.name != "c_bool"


def compare_texts(score, capture, columns, event, row):
    place = f"seq {event['seq']} {event['db']}.{event['table']}"
    score.cell(place, "error", None, row["error"])
    for image in ("before", "after"):
        want, got = wanted(score, capture, columns, event, image), row[image]
        read = got and {column.name: read_back(column, got[column.name]) for column in columns}
        score.image(f"{place} {image}", want, read)


def read_back(column, text):
    """The value of a text, if it has one; JSON is compared as text."""
    try:
        return text if truth.base(column.declared) == "json" else truth.value(column.declared, text)
    except ValueError:
        return text


# Other types for a column, with its value in them.
OTHERWISE = {
    "bigint": (pa.decimal128(38, 0), Decimal),
    "int": (pa.decimal256(76, 3), Decimal),
    "decimal": (pa.decimal256(76, 30), lambda value: value),
    "bit": (pa.decimal128(20, 0), lambda value: Decimal(int.from_bytes(value, "big"))),
    "datetime": (pa.timestamp("us", "UTC"), lambda value: value.replace(tzinfo=timezone.utc)),
    "timestamp": (pa.timestamp("us"), lambda value: value.replace(tzinfo=None)),
    "time": (pa.int64(), lambda value: value // timedelta(microseconds=1)),
    "year": (pa.string(), str),
    "enum": (pa.int32(), None),
    "set": (pa.int64(), None),
}


@pytest.mark.parametrize("flavour", SETTINGS)
@pytest.mark.parametrize("server", SERVERS)
def test_cells_asked_otherwise(server, flavour, score):
    """Every other type that a column can become holds the same value."""
    capture = Capture(debezium_truth.load(server), SETTINGS[flavour])
    batch = kafka_records.batch(records_of(server, flavour, "mixed.kv_schemas"))
    for table, version in debezium_truth.tables_and_versions(capture.server):
        columns = [
            column for column in capture.server.versions[table][version] if truth.base(column.declared) in OTHERWISE
        ]
        schema = pa.schema([(column.name, OTHERWISE[truth.base(column.declared)][0]) for column in columns])
        database, name = map(re.escape, table)
        rows = towpath.Decoder("debezium-json", schema, database=database, table=name).decode(batch)
        events = list(debezium_truth.split_key_changes(capture.server, capture.server.events[table]))
        for event, row in beside(events, rows, capture.server.written_under(table, version)):
            for image in ("before", "after"):
                want = wanted(score, capture, columns, event, image)
                want = want and {column.name: otherwise(column, want[column.name]) for column in columns}
                score.image(f"seq {event['seq']} {event['table']} {image}", want, row[image])
    score.check_all()


def otherwise(column, value):
    word = truth.base(column.declared)
    if value is None:
        return None
    if word in ("enum", "set"):
        return number_of(word, members(column.declared), value)
    if isinstance(value, bool):
        return Decimal(value)
    return OTHERWISE[word][1](value)


def members(declared):
    return [member.replace("''", "'") for member in re.findall(r"'((?:[^']|'')*)'", declared)]


def number_of(word, labels, value):
    """The index of an enum's label, or the mask of a set's."""
    if word == "enum":
        return labels.index(value.replace(r"\,", ",")) + 1 if value else 0
    return sum(1 << labels.index(label) for label in value.split(",") if label)


class Refused:
    """Placeholder for a value that is null in a row with an error."""


REFUSED = Refused()


def plain(cell):
    return None if cell is REFUSED else cell


def wanted(score, capture, columns, event, image):
    """The typed values of an image, or what the producer sends instead."""
    texts, exact = event[image], (event.get("float_exact") or {}).get(image) or {}
    return texts and {
        column.name: cell(score, capture, event["table"], column, texts[column.name], exact.get(column.name))
        for column in columns
    }


def cell(score, capture, table, column, text, exact):
    if column.name == "bn" and text and not capture.has_schemas and not capture.is_snapshot:
        # Debezium takes `varchar CHARACTER SET binary`, which the server calls varbinary, for text.
        score.producer_destroyed("varchar of charset binary, text: without schema part an error")
        return REFUSED
    if lost := debezium_truth.destroyed(capture, table, column, text):
        reason, value = lost
        score.producer_destroyed(reason)
        return value
    return truth.value(column.declared, text, exact)


@pytest.mark.parametrize("flavour", SETTINGS)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("schemas", FILES)
def test_a_snapshot_is_the_final_table(schemas, server, flavour, score):
    capture = Capture(debezium_truth.load(server), SETTINGS[flavour], schemas == "with schemas", is_snapshot=True)
    batch = kafka_records.batch(records_of(server, flavour, f"snapshot.{FILES[schemas]}"))
    final = objects(GOLDEN / "canal-json" / f"canal-{server}" / "final_mixed.jsonl.zst")
    for table in unique((entry["db"], entry["table"]) for entry in final):
        columns = last_definition(capture.server, table, final)
        wants = [snapshot_row(score, capture, columns, entry) for entry in final if of_table(entry, table)]
        rows = decoder_of(capture, table, columns).decode(batch).to_pylist()
        rows = [row for row in rows if row["op"] == "snapshot"]
        if score.same_length(".".join(table), wants, rows):
            for want, row in zip(in_order(wants), in_order([row["after"] for row in rows]), strict=True):
                score.image(".".join(table), want, row)
            for row in rows:
                score.cell(".".join(table), "before", None, row["before"])
    score.check_all()


def last_definition(server, table, final):
    """Columns of the rows; FLOAT is left out, of which the final rows have six digits."""
    [names, *_] = [entry["row"] for entry in final if of_table(entry, table)]
    *_, columns = server.versions[table].values()
    assert [column.name for column in columns] == list(names)
    return [column for column in columns if truth.base(column.declared) != "float"]


def of_table(entry, table):
    return (entry["db"], entry["table"]) == table


def snapshot_row(score, capture, columns, entry):
    return {
        column.name: cell(score, capture, entry["table"], column, entry["row"][column.name], None) for column in columns
    }


def in_order(rows):
    """A snapshot is not ordered; the values of the first columns identify the rows."""
    return sorted(rows, key=lambda row: [str(value) for value in row.values() if not isinstance(value, truth.Json)])


@pytest.mark.parametrize("file", ["mixed", "snapshot"])
@pytest.mark.parametrize("flavour", SETTINGS)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("schemas", FILES)
def test_envelopes(schemas, server, flavour, file, score):
    """Names, times and positions of every message, compared with Python's JSON reader."""
    records = records_of(server, flavour, f"{file}.{FILES[schemas]}")
    decoder = towpath.Decoder("debezium-json", key="key", keep=["topic"])
    rows = decoder.decode(kafka_records.batch(records)).to_pylist(maps_as_pydicts="strict")
    assert score.same_length("all", records, rows)
    for number, (record, row) in enumerate(zip(records, rows, strict=True)):
        message = record.value and json.loads(record.value)
        if message and schemas == "with schemas":
            score.cell(f"message {number}", "column_types", declared_types(message["schema"]), row["column_types"])
            message = message["payload"]
        compare_envelope(score, f"message {number}", record, message, row)
    score.check_all()


OPS = {"c": "insert", "u": "update", "d": "delete", "r": "snapshot", "t": "truncate"}


def compare_envelope(score, place, record, message, row):
    if message is None:
        left = {name for name, value in row.items() if value is not None}
        score.cell(place, "all", {"op", "row", "topic"}, left)
        score.cell(place, "op", "tombstone", row["op"])
        return
    source, transaction = message.get("source") or {}, message.get("transaction") or {}
    op = op_of(message)
    is_row = "op" in message and op != "truncate"
    envelope = {
        "op": op,
        "database": source.get("db"),
        "schema": None,
        "table": source.get("table"),
        "primary_key": key_names(record.key) if is_row else None,
        "event_time": of_micros(source.get("ts_us")),
        "produced_time": of_micros(message.get("ts_us") or message["ts_ms"] * 1000),
        "sql": message.get("ddl"),
        "jdbc_types": None,
        "row": 0,
        "error": None,
        "_corrupt_record": None,
    }
    for field, want in envelope.items():
        score.cell(place, field, want, row[field])
    changes = message.get("tableChanges")
    text = None if changes is None else truth.Json(json.dumps(changes))
    score.count(truth.same(text, row["table_changes"]), place, "table_changes", changes, row["table_changes"])
    known = {
        "dialect": "debezium-json",
        "operation": message.get("op") or message.get("status"),
        "connector": source.get("connector"),
        "version": source.get("version"),
        "server_id": source.get("server_id"),
        "file": source.get("file"),
        "position": source.get("pos"),
        "gtid": source.get("gtid"),
        "transaction_id": transaction.get("id") or message.get("id"),
    }
    score.image(f"{place} source", dict.fromkeys(row["source"]) | known, row["source"])


def op_of(message):
    if "op" in message:
        return OPS[message["op"]]
    if "ddl" in message:
        return op_of_statement(message["ddl"])
    return {"BEGIN": "begin", "END": "commit", None: "heartbeat"}[message.get("status")]


def op_of_statement(sql):
    """A snapshot's statements begin with the session's: `USE` and `SET` are not DDL."""
    word = sql.split()[0].upper()
    return "truncate" if word == "TRUNCATE" else "query" if word in ("USE", "SET") else "ddl"


def key_names(key):
    if key is None:
        return None
    names = json.loads(key)
    return list(names["payload"] if set(names) == {"schema", "payload"} else names)


def of_micros(micros):
    return micros and EPOCH + timedelta(microseconds=micros)


def declared_types(schema):
    """Names of the columns, with Connect's logical type, or else its plain one."""
    fields = {field["field"]: field for field in schema["fields"]}
    row = fields.get("after") or fields.get("before")
    columns = row["fields"] if row else schema["fields"]
    return {column["field"]: column.get("name") or column["type"] for column in columns}


# Statements that the connector skips: TRUNCATE is sent as a change of the table, with op `t`.
NO_MESSAGE = ("CREATE TEMPORARY", "DROP TEMPORARY", "CREATE VIEW", "DROP VIEW", "TRUNCATE")
# The server writes these to its binlog in another form.
REWRITTEN = ("DROP TABLE", "CREATE TABLE `shop_a`.ctas AS SELECT")


@pytest.mark.parametrize("flavour", SETTINGS)
@pytest.mark.parametrize("server", SERVERS)
def test_statements(server, flavour, score):
    """Every DDL statement that was sent is there, verbatim, except those named above."""
    decoder = towpath.Decoder("debezium-json", fields=["op", "sql"])
    rows = decoder.decode(kafka_records.batch(records_of(server, flavour, "mixed.kv"))).to_pylist()
    found = Counter(row["sql"] for row in rows if row["sql"])
    for statement in debezium_truth.load(server).statements:
        if statement["sql"].startswith(NO_MESSAGE + REWRITTEN) or "bulk_a" in statement["sql"]:
            continue
        for sql in as_sent(statement["sql"]):
            score.count(found[sql] > 0, f"seq {statement['seq']}", "sql", sql, "no such statement")
            found[sql] -= 1
    score.check_all()


def as_sent(sql):
    """The connector splits a RENAME of several tables, and removes a comment before a statement."""
    if sql.startswith("RENAME TABLE"):
        return [f"RENAME TABLE {part}" for part in sql.removeprefix("RENAME TABLE ").split(", ")]
    return [sql.removeprefix("/* leading comment */ ")]


@pytest.mark.parametrize("server", SERVERS)
def test_a_geometrys_other_half(server, score):
    """As a struct a geometry keeps its SRID; the WKB is the server's own, with its axis order.

    The struct's `x` and `y`, which towpath does not read, are swapped by MySQL's connector for SRID 4326.
    """
    capture = Capture(debezium_truth.load(server), SETTINGS["default"])
    batch = kafka_records.batch(records_of(server, "default", "mixed.kv_schemas"))
    kind = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
    schema = pa.schema([("c_point", kind), ("c_geometry", kind)])
    table = ("types_a", "all_types")
    decoder = towpath.Decoder("debezium-json", schema, database=table[0], table=table[1], mode="FAILFAST")
    events = debezium_truth.split_key_changes(capture.server, capture.server.events[table])
    for event, row in zip(events, row_changes(decoder.decode(batch)), strict=True):
        for image in ("before", "after"):
            want = event[image] and {name: halves(event[image][name]) for name in schema.names}
            score.image(f"seq {event['seq']} {image}", want, row[image])
    score.check_all()


def halves(text):
    """MySQL stores the SRID in four bytes, the least significant first, before the WKB."""
    stored = text and bytes.fromhex(text)
    return stored and {"srid": int.from_bytes(stored[:4], "little"), "wkb": stored[4:]}


@pytest.mark.parametrize("server", SERVERS)
def test_inferred_types_hold_every_value(server):
    """With a schema part the messages declare the types; in mode `hex` binary columns are strings."""
    truth_file = debezium_truth.load(server)
    batch = kafka_records.batch(records_of(server, "default", "mixed.kv_schemas"))
    for database, table in truth_file.events:
        of_table = {"database": re.escape(database), "table": re.escape(table)}
        schema = towpath.infer_schema(batch.column("value"), "debezium-json", **of_table)
        decoder = towpath.Decoder("debezium-json", schema, mode="FAILFAST", **of_table)
        assert len(row_changes(decoder.decode(batch))) > 0
