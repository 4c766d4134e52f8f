"""The same changes of a database, captured by two producers, give equal typed rows: op, names, keys and both images.

Each side is compared with the truth elsewhere; here they are compared with each other. What either producer destroyed
is left out by its class, which the run's report counts.
"""

import re

import pytest

import all_golden
import debezium_truth
import kafka_records
import server_truth
import towpath
import truth
from all_golden import GOLDEN
from debezium_truth import SETTINGS, Capture
from fidelity import lines, messages, objects, row_changes

SERVERS = ["mysql", "maria"]
DIALECTS = [dialect["name"] for dialect in towpath.dialects()]


def rows_of(dialect, values, table, columns, **options):
    """Typed row changes of one table."""
    database, name = map(re.escape, table)
    schema = server_truth.schema(columns)
    return row_changes(towpath.Decoder(dialect, schema, database=database, table=name, **options).decode(values))


def canal_json(server):
    return messages(lines(GOLDEN / "canal-json" / f"canal-{server}" / "mixed.flat.jsonl.zst"))


@pytest.mark.parametrize("server", SERVERS)
def test_canal_json_and_debezium_json(server, score):
    held = debezium_truth.load(server)
    canal = canal_json(server)
    path = GOLDEN / "debezium-json" / f"{server}-default" / "mixed.kv_schemas.jsonl.zst"
    debezium = kafka_records.batch(kafka_records.load(path))
    for table, version in debezium_truth.tables_and_versions(held):
        columns = held.versions[table][version]
        events = list(debezium_truth.split_key_changes(held, held.events[table]))
        ours = list(split(columns, rows_of("canal-json", canal, table, columns)))
        theirs = rows_of("debezium-json", debezium, table, columns, key="key")
        if score.same_length(".".join(table), ours, theirs) and score.same_length(".".join(table), events, ours):
            for event, one, other in zip(events, ours, theirs, strict=True):
                if held.version(table, event["seq"]) == version:
                    compare(score, held, columns, event, one, other)
    score.check_all()


def split(columns, rows):
    """An update of a key as Debezium sends it: a delete and an insert."""
    key = [column.name for column in columns if column.in_key]
    for row in rows:
        if row["op"] == "update" and any(row["before"][name] != row["after"][name] for name in key):
            yield row | {"op": "delete", "after": None}
            yield row | {"op": "insert", "before": None}
        else:
            yield row


# canal declares no key of a table that only has a unique key; Debezium does.
UNIQUE_KEY = ("uk_only", "uk_copy")


def compare(score, held, columns, event, one, other):
    place = f"seq {event['seq']} {event['db']}.{event['table']} {event['op']}"
    for field in ("op", "database", "table", "missing_columns", "error"):
        score.cell(place, field, one[field], other[field])
    if event["table"] not in UNIQUE_KEY:
        score.cell(place, "primary_key", one["primary_key"], other["primary_key"])
    for image in ("before", "after"):
        score.count((one[image] is None) == (other[image] is None), place, image, one[image], other[image])
        if one[image] is not None and other[image] is not None:
            compare_images(score, held, columns, event, image, one[image], other[image])


def compare_images(score, held, columns, event, image, one, other):
    capture = Capture(held, SETTINGS["default"])
    for column in columns:
        text = event[image][column.name]
        by_canal = server_truth.destroyed(held, column, text)
        by_debezium = debezium_truth.destroyed(capture, event["table"], column, text)
        for producer, lost in (("canal", by_canal), ("Debezium", by_debezium)):
            if lost:
                score.leave_out(f"by {producer}, {lost[0].replace(' by canal', '')}")
                break
        else:
            place = f"seq {event['seq']} {event['db']}.{event['table']} {image}"
            score.cell(place, column.name, json_or_value(column, one[column.name]), other[column.name])


def json_or_value(column, value):
    """JSON is printed by each producer in its own way."""
    return truth.Json(value) if value is not None and truth.base(column.declared) == "json" else value


def protobuf_of(server):
    """The capture of this server by canal with flatMessage off, if there is one."""
    captures = all_golden.captures("canal-protobuf") if "canal-protobuf" in DIALECTS else []
    [capture] = [capture for capture in captures if re.search(rf"{server}\W.*\bmixed\.pb\.bin", capture.name)] or [None]
    return capture and capture.batch()


@pytest.mark.parametrize("server", SERVERS)
def test_canal_json_and_canal_protobuf(server, score):
    """One producer, two formats: all values are compared, even those that canal changed."""
    protobuf = protobuf_of(server)
    if protobuf is None:
        pytest.skip("no golden messages of canal-protobuf")
    held, canal = debezium_truth.load(server), canal_json(server)
    for table, version in debezium_truth.tables_and_versions(held):
        columns = held.versions[table][version]
        ours = rows_of("canal-json", canal, table, columns)
        theirs = rows_of("canal-protobuf", protobuf, table, columns)
        if score.same_length(".".join(table), ours, theirs):
            for event, one, other in zip(held.events[table], ours, theirs, strict=True):
                if held.version(table, event["seq"]) == version:
                    compare_formats(score, f"seq {event['seq']} {'.'.join(table)}", one, other)
    score.check_all()


def compare_formats(score, place, one, other):
    for field in ("op", "database", "table", "primary_key", "missing_columns", "error", "event_time"):
        score.cell(place, field, one[field], other[field])
    for image in ("before", "after"):
        score.image(f"{place} {image}", one[image], other[image])


@pytest.mark.parametrize("server", SERVERS)
def test_debeziums_snapshot_and_its_last_changes(server, score):
    """A row of the snapshot equals the state after the last change of its key."""
    held = debezium_truth.load(server)
    folder = GOLDEN / "debezium-json" / f"{server}-default"
    changes, snapshot = (
        kafka_records.batch(kafka_records.load(folder / f"{file}.kv_schemas.jsonl.zst"))
        for file in ("mixed", "snapshot")
    )
    final = objects(GOLDEN / "canal-json" / f"canal-{server}" / "final_mixed.jsonl.zst")
    for table in KEYED:
        *_, columns = held.versions[table].values()
        columns = [column for column in columns if truth.base(column.declared) != "float"]  # MySQL prints six digits
        [key] = [column.name for column in columns if column.in_key]
        left = {}
        for row in rows_of("debezium-json", changes, table, columns):
            left.pop(row["before"] and row["before"][key], None)
            if row["after"]:
                left[row["after"][key]] = row["after"]
        database, name = map(re.escape, table)
        decoder = towpath.Decoder("debezium-json", server_truth.schema(columns), database=database, table=name)
        read = [row["after"] for row in decoder.decode(snapshot).to_pylist() if row["op"] == "snapshot"]
        wanted = [entry for entry in final if (entry["db"], entry["table"]) == table]
        assert score.same_length(str(table), wanted, read)
        for row in read:
            score.image(f"{table} {row[key]}", left.pop(row[key]), row)
        assert not left
    score.check_all()


KEYED = [("shop_a", "pkmove"), ("wide_a", "wide")]
