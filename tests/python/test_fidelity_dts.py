"""Aliyun DTS: every cell equals the value that was passed to Avro's writer, with both published schemas."""

import io
import json
import re
from collections import Counter
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

import dts_truth
import towpath
from bulk_captures import SHARED, bulk
from dts_truth import ABSENT
from fidelity import chunks, messages, records, row_changes, unique
from golden_files import GOLDEN

FOLDER = GOLDEN.parent / "dts-avro"
CAPTURES = ["dts_v1_sdk.lenrec.zst", "dts_v2_born.lenrec.zst"]

# Operations with an op; all others are `other`, with their name in `source.operation`.
OPS = {
    **{
        word: word.lower() for word in ("INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT", "ROLLBACK", "HEARTBEAT", "DDL")
    },
    "ABORT": "rollback",
}


@pytest.fixture(scope="module")
def truth():
    return dts_truth.records(FOLDER / "truth.jsonl.zst")


@pytest.mark.parametrize("capture", CAPTURES)
def test_cells_of_both_images(capture, truth, score):
    compare_tables(score, records(FOLDER / capture), truth)
    score.check_all()


def compare_tables(score, values, truth):
    changes = [record for record in truth if dts_truth.is_row_change(record) and record["fields"]]
    for name in unique(record["objectName"] for record in changes):
        mine = [record for record in changes if record["objectName"] == name]
        fields = ["op", "before", "after", "missing_columns", "error"]
        decoder = towpath.Decoder("dts-avro", dts_truth.schema(mine), fields=fields, **filters(name))
        rows = [row for row in row_changes(decoder.decode(messages(values))) if row["after"] or row["before"]]
        if score.same_length(name, mine, rows):
            for record, row in zip(mine, rows, strict=True):
                compare_images(score, record, row)


def parts(name):
    """Names in an object's name are set apart by dots; a dot within one is escaped."""
    return [part.replace("\\u002E", ".") for part in name.split(".")]


def filters(name):
    database, *_, table = map(re.escape, parts(name))
    return {"database": database, "table": table}


def compare_images(score, record, row):
    place = f"record {record.get('i', record.get('id'))} {record['operation']} {record['objectName']}"
    score.cell(place, "error", None, row["error"])
    numbers = dict(record["fields"])
    for name, image in zip(("before", "after"), dts_truth.images(record), strict=True):
        want = image and {column: dts_truth.value_of(numbers[column], cell) for column, cell in image.items()}
        sent = want and {column: cell for column, cell in want.items() if cell is not ABSENT}
        score.image(
            f"{place} {name}", sent and {c: comparable(cell, row[name][c]) for c, cell in sent.items()}, row[name]
        )
        absent = {column for column, cell in (want or {}).items() if cell is ABSENT}
        score.count(
            absent <= set(row["missing_columns"] or []), place, "missing_columns", absent, row["missing_columns"]
        )


def comparable(want, got):
    """A float is the nearest one to the double that was sent; a wide decimal is read as string."""
    if isinstance(want, float) and isinstance(got, float):
        return pa.scalar(want, pa.float64()).cast(pa.float32(), safe=False).as_py() if is_single(want) else want
    if isinstance(want, Decimal) and isinstance(got, str):
        return got if Decimal(got) == want else want
    return want


def is_single(number):
    """Whether the double is a float's value."""
    return pa.scalar(number, pa.float64()).cast(pa.float32(), safe=False).cast(pa.float64()).as_py() == number


@pytest.mark.parametrize("capture", CAPTURES)
def test_envelopes(capture, truth, score):
    rows = towpath.Decoder("dts-avro").decode(messages(records(FOLDER / capture))).to_pylist()
    assert len(rows) == len(truth)
    for record, row in zip(truth, rows, strict=True):
        compare_envelope(score, record, row)
    score.check_all()


def compare_envelope(score, record, row):
    place = f"record {record['i']} {record['operation']}"
    if record["operation"] in ("INSERT", "UPDATE", "DELETE") and not isinstance(record["fields"], list):
        score.cell(place, "op", "error", row["op"])
        return
    names = parts(record["objectName"]) if record["objectName"] else [None]
    truncates = record["operation"] == "DDL" and record["afterImages"].startswith("truncate")
    keys = json.loads((record["tags"] or {}).get("pk_uk_info", "{}")).get("PRIMARY")
    seconds = int(record["sourceTimestamp"])
    want = {
        "op": "truncate" if truncates else OPS.get(record["operation"], "other"),
        "database": names[0],
        "schema": names[1] if len(names) > 2 else None,
        "table": names[-1] if len(names) > 1 else None,
        "sql": record["afterImages"] if record["operation"] == "DDL" else None,
        "primary_key": keys,
    }
    for field, value in want.items():
        score.cell(place, field, value, row[field])
    if 0 < seconds < 10**10:
        at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)
        score.cell(place, "event_time", at, row["event_time"])
    source = {
        "operation": record["operation"],
        "connector": record["source"]["sourceType"],
        "version": record["source"]["version"],
        "message_id": int(record["id"]),
        "transaction_id": record["sourceTxid"],
    }
    score.image(f"{place} source", source, row["source"])


def test_every_operation_and_kind_of_value_is_in_the_truth(truth):
    assert len({record["operation"] for record in truth}) == 17
    cells = [
        cell
        for record in truth
        if dts_truth.is_row_change(record)
        for image in dts_truth.images(record)
        for cell in (image or {}).values()
    ]
    kinds = Counter(cell["t"] for cell in cells if isinstance(cell, dict))
    assert set(kinds) == set(dts_truth.TYPED)


@bulk
@pytest.mark.soak
def test_the_bulk_capture(score):
    folder = SHARED / "encoder" / "dts_avro"
    truth = dts_truth.bulk(folder / "bulk_orders_truth.jsonl.zst")
    values = records(folder / "bulk_orders_v2.lenrec.zst")
    for some_values, some in zip(chunks(values, 10_000), chunks(truth, 10_000), strict=True):
        compare_tables(score, some_values, some)
    score.check_all()


# Another writer's schema


def writer(change):
    """The published schema after a change, for fastavro's writer and for the decoder."""
    schema = json.loads((FOLDER / "Record.v2_born.avsc").read_text())
    return change(schema) or schema


def reordered(schema):
    """Plain fields elsewhere; the others stay, as the first of them to name a type describes it."""
    version, ident, *rest = schema["fields"]
    schema["fields"] = [*rest, ident, version]


def extended(schema):
    extra = {"name": "shard", "type": {"type": "map", "values": ["null", "long", {"type": "array", "items": "bytes"}]}}
    schema["fields"].insert(3, extra)


@pytest.mark.parametrize("change", [reordered, extended])
def test_another_writers_schema_gives_the_same_rows(change):
    fastavro = pytest.importorskip("fastavro")
    published = fastavro.parse_schema(writer(lambda schema: None))
    other = writer(change)
    plain = [fastavro.schemaless_reader(io.BytesIO(value), published) for value in records(FOLDER / CAPTURES[1])]
    rewritten = [
        encoded(fastavro, fastavro.parse_schema(other), record | {"shard": {"a": 7, "b": [b"x"]}}) for record in plain
    ]
    want = towpath.Decoder("dts-avro", fields=FIELDS).decode(
        messages([encoded(fastavro, published, record) for record in plain])
    )
    got = towpath.Decoder("dts-avro", fields=FIELDS, writer_schema=json.dumps(other)).decode(messages(rewritten))
    assert got.num_rows == len(plain)
    assert got.equals(want)


FIELDS = ["op", "database", "table", "primary_key", "before", "after", "event_time", "sql", "column_types", "source"]


def encoded(fastavro, schema, record):
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, record)
    return file.getvalue()


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ('{"type":"record","name":"Record","fields":[]}', "operation"),
        ('{"type":"rec', "writer_schema"),
        ('"string"', "writer_schema"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_once(schema, says):
    with pytest.raises(ValueError, match=says):
        towpath.Decoder("dts-avro", writer_schema=schema)
