"""Maxwell reading a real server: every cell equals the result of SELECT; TiCDC's maxwell encoder: the events."""

import json
import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

import maxwell_truth
import server_truth
import ticdc_truth
import towpath
import truth
from fidelity import ROOT, Score, beside, lines, messages, row_changes, unique
from maxwell_truth import REFUSED, WITH_TYPES, WITHOUT_TYPES
from ticdc_truth import DECLARED, NUMBERS, Encoder

GOLDEN = ROOT / "tests" / "golden"
FOLDER = GOLDEN / "maxwell-json" / "maxwell-maria"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def server():
    return server_truth.load(FOLDER, is_maria=True)


@pytest.fixture(scope="module")
def values():
    return lines(FOLDER / "maxwell.jsonl.zst")


def types_of(pairs, knowledge):
    """The `column_types` of a table."""
    return {"column_types": dict(pairs)} if knowledge in (WITH_TYPES, DECLARED) else {}


def decoder_of(table, columns, knowledge):
    database, name = map(re.escape, table)
    schema = pa.schema([(column.name, maxwell_truth.asked(column, knowledge)) for column in columns])
    types = types_of([(column.name, column.declared) for column in columns], knowledge)
    return towpath.Decoder("maxwell-json", schema, database=database, table=name, **types)


@pytest.mark.parametrize("knowledge", [WITHOUT_TYPES, WITH_TYPES], ids=["without types", "with types"])
def test_cells_of_both_images(server, values, knowledge, score):
    array = messages(values)
    for table, events in sorted(server.events.items()):
        for version in unique(server.version(table, event["seq"]) for event in events):
            columns = server.versions[table][version]
            rows = decoder_of(table, columns, knowledge).decode(array)
            for event, row in beside(events, rows, server.written_under(table, version)):
                compare(score, knowledge, columns, event, row)
    score.check_all()


def compare(score: Score, knowledge, columns, event, row):
    """Counts one row change: its op, nothing missing, and both images; an error if a value has to be rejected."""
    place = f"seq {event['seq']} {event['db']}.{event['table']} {event['op']}"
    envelope = {
        "op": event["op"],
        "database": event["db"],
        "table": event["table"],
        "primary_key": None,
        "missing_columns": None,
    }
    for field, want in envelope.items():
        score.cell(place, field, want, row[field])
    images = {image: wanted(score, knowledge, columns, event, image) for image in ("before", "after")}
    refused = any(REFUSED in image.values() for image in images.values() if image)
    score.count((row["error"] is not None) == refused, place, "error", refused, row["error"])
    for image, want in images.items():
        score.image(f"{place} {image}", want and nulls(want), row[image] and plain(columns, row[image]))


def nulls(image):
    return {name: None if cell is REFUSED else cell for name, cell in image.items()}


def plain(columns, image):
    """A geometry's numbers are compared, not how they are printed."""
    geometries = [column.name for column in columns if truth.base(column.declared) in truth.GEOMETRIES]
    return image | {name: image[name] and maxwell_truth.same_numbers(image[name]) for name in geometries}


def wanted(score, knowledge, columns, event, image):
    """The typed values of an image, or what the producer sends instead."""
    texts, exact = event[image], (event.get("float_exact") or {}).get(image) or {}
    if texts is None:
        return None
    values = {}
    for column in columns:
        text = texts[column.name]
        if lost := maxwell_truth.destroyed(column, text, knowledge):
            reason, values[column.name] = lost
            score.producer_destroyed(reason)
        else:
            values[column.name] = maxwell_truth.value(column, text, exact.get(column.name), knowledge)
    return values


def test_envelopes(values, score):
    """Names, times and positions of every message, compared with Python's JSON reader."""
    rows = towpath.Decoder("maxwell-json").decode(messages(values)).to_pylist(maps_as_pydicts="strict")
    assert score.same_length("all", values, rows)
    for number, (value, row) in enumerate(zip(values, rows, strict=True)):
        compare_envelope(score, f"message {number}", json.loads(value), row)
    score.check_all()


def compare_envelope(score, place, message, row):
    is_ddl = "sql" in message
    file, position = message["position"].split(":")
    definition = message.get("def")
    envelope = {
        "op": "ddl" if is_ddl else message["type"],
        "database": message["database"],
        "schema": None,
        "table": message.get("table"),
        "primary_key": None,
        "event_time": EPOCH + timedelta(milliseconds=message["ts"] * (1 if is_ddl else 1000)),
        "produced_time": None,
        "sql": message.get("sql"),
        "column_types": None,
        "row": 0,
        "error": None,
        "_corrupt_record": None,
    }
    for field, want in envelope.items():
        score.cell(place, field, want, row[field])
    score.cell(place, "table_changes", definition and truth.Json(json.dumps(definition)), row["table_changes"])
    source = {
        "dialect": "maxwell-json",
        "operation": message["type"],
        "server_id": message.get("server_id"),
        "file": file,
        "position": int(position),
        "transaction_id": str(message["xid"]) if "xid" in message else None,
    }
    score.image(f"{place} source", dict.fromkeys(row["source"]) | source, row["source"])


# Maxwell has no message for these: it only sends statements that change a table's definition.
NO_MESSAGE = ("CREATE VIEW", "DROP VIEW", "ALTER DATABASE", "CREATE TEMPORARY", "DROP TEMPORARY", "TRUNCATE")
NO_MESSAGE += ("CREATE UNIQUE INDEX", "CREATE INDEX", "DROP INDEX")
# The server writes these to its binlog in another form.
REWRITTEN = ("DROP TABLE", "CREATE TABLE `shop_a`.ctas AS SELECT")


def test_statements(server, values, score):
    """Every DDL statement that was sent is there, verbatim, except those named above."""
    rows = towpath.Decoder("maxwell-json", fields=["op", "sql"]).decode(messages(values)).to_pylist()
    found = Counter(row["sql"] for row in rows if row["op"] == "ddl")
    for statement in server.statements:
        sql = statement["sql"]
        if not sql.startswith(NO_MESSAGE + REWRITTEN) and "bulk_a" not in sql:
            score.count(found[sql] > 0, f"seq {statement['seq']}", "sql", sql, "no such statement")
            found[sql] -= 1
    score.check_all()


@pytest.mark.parametrize("naming", [NUMBERS, DECLARED], ids=["without types", "with types"])
def test_ticdc_cells_of_both_images(naming, score):
    """Its encoder skips some events, so each message is matched by table, kind and second."""
    truth_file = Encoder(GOLDEN / "canal-json" / "ticdc" / "truth_dml.jsonl.zst")
    array = messages(lines(GOLDEN / "maxwell-json" / "ticdc" / "maxwell.jsonl.zst"))
    for table in truth_file.tables:
        columns = truth_file.columns(table)
        events = defaultdict(list)
        for event in truth_file.events:
            if (event["db"], event["table"]) == table:
                events[event["op"].lower()].append(event)
        for row in row_changes(ticdc_decoder(table, columns, naming).decode(array)):
            compare_ticdc(score, columns, naming, next_event(events[row["op"]], row), row)
    score.check_all()
    assert score.total > 8_000


def ticdc_decoder(table, columns, naming):
    database, name = map(re.escape, table)
    schema = pa.schema([(column["name"], ticdc_truth.asked(column, naming)) for column in columns])
    types = types_of([(column["name"], declared(column)) for column in columns], naming)
    return towpath.Decoder("maxwell-json", schema, database=database, table=name, **types)


def declared(column):
    """The truth has the members of enums and sets beside the type."""
    if not column["elems"]:
        return column["type"]
    members = ",".join("'" + member.replace("'", "''") + "'" for member in column["elems"])
    return f"{column['kind']}({members})"


def next_event(events, row):
    """The next event that was committed in the row's second; events before it are not in the capture."""
    while True:
        event = events.pop(0)
        if ticdc_truth.clock_of(int(event["commit_ts"])).replace(microsecond=0) == row["event_time"]:
            return event


def compare_ticdc(score, columns, naming, event, row):
    place = f"event {event['i']} {event['db']}.{event['table']} {event['op']}"
    carried = dict(event["row"] or event["old"])  # a virtual column is never sent
    absent = [column["name"] for column in columns if column["name"] not in carried]
    envelope = {
        "database": event["db"],
        "table": event["table"],
        "primary_key": None,
        "missing_columns": absent or None,
        "error": None,
    }
    for field, want in envelope.items():
        score.cell(place, field, want, row[field])
    # Of an update that changed nothing, the message has no `old`, and so no before image.
    old = event["old"] if event["changed"] or event["op"] == "DELETE" else None
    for image, cells in (("before", old), ("after", event["row"])):
        score.image(f"{place} {image}", cells and ticdc_image(columns, naming, dict(cells)), row[image])


def ticdc_image(columns, naming, cells):
    return {column["name"]: ticdc_truth.value(column, cells.get(column["name"]), naming) for column in columns}
