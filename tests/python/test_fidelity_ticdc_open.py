"""TiCDC's open protocol, by its own encoder: every cell equals the event that was encoded."""

import re
from struct import unpack_from

import pyarrow as pa
import pytest

import ticdc_truth
import towpath
from fidelity import read, row_changes
from golden_files import GOLDEN
from ticdc_truth import LABELS, NUMBERS, Encoder

GOLDEN_OPEN = GOLDEN.parent / "ticdc-open"


def part(data, at):
    """The bytes after a length, and their end."""
    [length] = unpack_from(">I", data, at)
    return data[at + 4 : at + 4 + length], at + 4 + length


def key_value_records(data):
    at = 0
    while at < len(data):
        key, at = part(data, at)
        value, at = part(data, at)
        yield {"key": key, "value": value}


@pytest.fixture(scope="module")
def batch():
    rows = key_value_records(read(GOLDEN_OPEN / "open_protocol.kvrec.zst"))
    return pa.RecordBatch.from_pylist(list(rows), pa.schema({"key": pa.binary(), "value": pa.binary()}))


@pytest.fixture(scope="module")
def encoder():
    """The events of the other protocols, without those that were not passed to this encoder."""
    encoder = Encoder(GOLDEN / "ticdc/truth_dml.jsonl.zst")
    encoder.events = [event for event in encoder.events if "vector" not in event.get("tag", "")]
    return encoder


@pytest.mark.parametrize("naming", [NUMBERS, LABELS], ids=["numbers", "labels given"])
def test_cells_of_both_images(naming, batch, encoder, score):
    for table in encoder.tables:
        columns = encoder.columns(table)
        wanted = [event for event in encoder.events if (event["db"], event["table"]) == table]
        rows = row_changes(decoder(table, columns, naming).decode(batch))
        if score.same_length(".".join(table), wanted, rows):
            for event, row in zip(wanted, rows, strict=True):
                compare(score, columns, naming, event, row)
    score.check_all()


def decoder(table, columns, naming):
    schema = pa.schema([(column["name"], ticdc_truth.asked(column, naming)) for column in columns])
    labels = {column["name"]: column["elems"] for column in columns if column["elems"]} if naming == LABELS else None
    database, name = map(re.escape, table)
    return towpath.Decoder("ticdc-open", schema, database=database, table=name, key="key", labels=labels)


def compare(score, columns, naming, event, row):
    place = f"event {event['i']} {event['db']}.{event['table']} {event['op']}"
    commit_ts = int(event["commit_ts"])
    envelope = {
        "op": event["op"].lower(),
        "database": event["db"],
        "table": event["table"],
        "event_time": ticdc_truth.clock_of(commit_ts),
        "error": None,
    }
    for field, want in envelope.items():
        score.cell(place, field, want, row[field])
    # The protocol writes columns as a JSON object, sorted by name: the order of the key's columns is unknown.
    score.cell(place, "primary_key", sorted(event["pk"] or []), sorted(row["primary_key"] or []))
    score.cell(place, "commit_ts", commit_ts, row["source"]["commit_ts"])
    for image, key in (("before", "old"), ("after", "row")):
        cells = event[key] and dict(event[key])
        sent = [column for column in columns if cells and column["name"] in cells]
        want = cells and {c["name"]: ticdc_truth.value(c, cells[c["name"]], naming) for c in sent}
        score.image(f"{place} {image}", want, row[image])


def test_watermark_and_statement(batch):
    *_, watermark, statement = towpath.Decoder("ticdc-open", key="key").decode(batch).to_pylist()
    assert watermark["op"] == "watermark"
    assert watermark["source"]["watermark_ts"] == 450384813153583241
    assert (statement["op"], statement["database"], statement["table"]) == ("ddl", "test", "users")
    assert statement["sql"].startswith("CREATE TABLE `test`.`users` (\n")


def test_without_its_key_a_record_is_an_error_that_names_the_argument(batch):
    rows = towpath.Decoder("ticdc-open").decode(batch).to_pylist()
    assert {row["op"] for row in rows} == {"error"}
    assert rows[0]["error"]["message"] == "ticdc-open: key: is missing; set the argument key to its column"


def test_auto_needs_the_key_too_and_decodes_the_same(batch):
    assert {towpath.detect(value) for value in batch["value"].to_pylist()} == {"ticdc-open"}
    named = towpath.Decoder("ticdc-open", key="key").decode(batch)
    assert towpath.Decoder(key="key").decode(batch).equals(named)


def test_infer_schema_reads_the_key_column(batch):
    schema = towpath.infer_schema(batch, "ticdc-open", table="订单表")
    assert schema.field("编号").type == pa.int32()
