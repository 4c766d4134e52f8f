"""CloudCanal and the Tencent platform, as their documents print them: every cell equals what was written."""

import json
import re
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

import towpath
import truth
from fidelity import lines, messages, objects, row_changes
from golden_files import GOLDEN

# The Tencent platform declares no types, so a bit column is a number there.
PRODUCERS = {"cloudcanal": True, "tencent": False}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize("producer", PRODUCERS)
def test_cells_of_both_images(producer, score):
    declares = PRODUCERS[producer]
    array = messages(lines(GOLDEN / producer / "small.jsonl"))
    changes = [want for want in objects(GOLDEN / producer / "small.truth.jsonl") if want["op"] != "DDL"]
    for database, table in dict.fromkeys((want["db"], want["table"]) for want in changes):
        wanted = [want for want in changes if (want["db"], want["table"]) == (database, table)]
        decoder = towpath.Decoder(
            "canal-json", schema(wanted[0], declares), database=re.escape(database), table=re.escape(table)
        )
        rows = row_changes(decoder.decode(array))
        if score.same_length(f"{database}.{table}", wanted, rows):
            for want, row in zip(wanted, rows, strict=True):
                compare_change(score, want, row, declares)
    score.demand_all()


def schema(want, declares):
    columns = zip(want["cols"], want["types"], strict=True)
    return pa.schema([(name, pa.int64() if is_number(kind, declares) else truth.asked(kind)) for name, kind in columns])


def is_number(declared, declares):
    return declared.startswith("bit") and not declares


def compare_change(score, want, row, declares):
    place = f"line {want['i']} {want['db']}.{want['table']} {want['op']}"
    envelope = {"op": want["op"].lower(), "missing_columns": None, "error": None}
    for field, value in envelope.items():
        score.cell(place, field, value, row[field])
    score.image(f"{place} before", image(want, "old", declares), row["before"])
    score.image(f"{place} after", image(want, "row", declares), row["after"])


def image(want, name, declares):
    texts = want[name]
    return texts and {
        column: typed(declared, text, declares)
        for column, declared, text in zip(want["cols"], want["types"], texts, strict=True)
    }


def typed(declared, text, declares):
    """Here the truth has a bit as a number; elsewhere, as hex."""
    if text is None or not declared.startswith("bit"):
        return truth.value(declared, text)
    return bool(int(text)) if declares else int(text)


@pytest.mark.parametrize("producer", PRODUCERS)
def test_envelopes(producer, score):
    values = lines(GOLDEN / producer / "small.jsonl")
    wanted = objects(GOLDEN / producer / "small.truth.jsonl")
    rows = towpath.Decoder("canal-json").decode(messages(values)).to_pylist(maps_as_pydicts="strict")
    assert score.same_length(producer, wanted, rows)
    for want, value, row in zip(wanted, values, rows, strict=True):
        compare_envelope(score, f"line {want['i']}", want, json.loads(value), row)
    score.demand_all()


def compare_envelope(score, place, want, message, row):
    is_ddl = want["op"] == "DDL"
    envelope = {
        "op": {"TRUNCATE": "truncate"}.get(want["ddlType"], "ddl") if is_ddl else want["op"].lower(),
        "database": want["db"],
        "table": want["table"],
        "primary_key": want["pk"] if message["pkNames"] else None,
        "event_time": time_of(message["es"]),
        "produced_time": time_of(message["ts"]),
        "sql": want["ddl"],
        "error": None,
    }
    for field, value in envelope.items():
        score.cell(place, field, value, row[field])
    for field, types in (("column_types", message["mysqlType"]), ("jdbc_types", message["sqlType"])):
        score.cell(place, field, types or None, row[field])
    changes = message.get("tableChanges")
    score.cell(place, "table_changes", changes and truth.Json(json.dumps(changes)), row["table_changes"])
    score.cell(place, "operation", message["type"], row["source"]["operation"])


def time_of(number):
    """13 digits are milliseconds; 10 are seconds, which the Tencent platform's DDL has; 0 is no time."""
    millis = number * 1000 if number < 10**10 else number
    return EPOCH + timedelta(milliseconds=millis) if number else None


@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_producers_own_name_and_auto_decode_the_same(producer):
    array = messages(lines(GOLDEN / producer / "small.jsonl"))
    names = {"cloudcanal": "cloudcanal-canal-json", "tencent": "tencent-canal-json"}
    decoded = [towpath.Decoder(name).decode(array) for name in ("canal-json", names[producer], "auto")]
    assert decoded[0].equals(decoded[1])
    assert decoded[0].equals(decoded[2])
