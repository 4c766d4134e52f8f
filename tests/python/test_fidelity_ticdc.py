"""TiCDC's own encoder with each of its options: every cell equals the event that was encoded."""

import base64
import io
import json
import re
import tarfile
from dataclasses import dataclass
from pathlib import PurePath

import pyarrow as pa
import pytest

import ticdc_truth
import towpath
from fidelity import lines, messages, objects, read, records, row_changes, unique
from golden_files import GOLDEN
from ticdc_truth import DECLARED, LABELS, NUMBERS, Encoder

FOLDER = GOLDEN / "ticdc"


def one_message(path):
    """The whole file is one message: many changes, each ended by CR LF."""
    return [read(path)]


def crlf_lines(path):
    return [line + b"\r\n" for line in lines(path)]


def claimed(path):
    """The messages, with those that only point to a file replaced by what the file has."""
    with tarfile.open(fileobj=io.BytesIO(read(FOLDER / "claim_check_files.tar.zst"))) as tar:
        files = {PurePath(member.name).name: tar.extractfile(member).read() for member in tar if member.isfile()}
    return [_claim(message, files) for message in lines(path)]


def _claim(message, files):
    location = json.loads(message)["_tidb"].get("claimCheckLocation")
    return base64.b64decode(json.loads(files[PurePath(location).name])["value"]) if location else message


@dataclass(frozen=True)
class Capture:
    """A file, its framing, and what its messages declare."""

    file: str
    framing: object = lines
    naming: ticdc_truth.Naming = NUMBERS
    with_extension: bool = False
    flagged: bool = False  # whether some messages have the handle key only, and declare that
    keyed_deletes: bool = False  # whether every DELETE is
    dialect: str = "canal-json"

    def values(self):
        return self.framing(GOLDEN.parent / self.dialect / "ticdc" / self.file)


CAPTURES = {
    "default": Capture("canal_json_default.jsonl.zst"),
    "default, labels given": Capture("canal_json_default.jsonl.zst", naming=LABELS),
    "ext": Capture("canal_json_ext.jsonl.zst", with_extension=True),
    "only_updated": Capture("canal_json_only_updated.jsonl.zst"),
    "content_compatible": Capture("canal_json_content_compatible.jsonl.zst", naming=DECLARED),
    "ext_content_compatible": Capture(
        "canal_json_ext_content_compatible.jsonl.zst", naming=DECLARED, with_extension=True
    ),
    "delete_only_handle_key": Capture("canal_json_delete_only_handle_key.jsonl.zst", keyed_deletes=True),
    "ext_handle_key_only": Capture("canal_json_ext_handle_key_only.jsonl.zst", with_extension=True, flagged=True),
    "ext_claim_check": Capture("canal_json_ext_claim_check.jsonl.zst", with_extension=True, flagged=True),
    "ext_claim_check, files fetched": Capture("canal_json_ext_claim_check.jsonl.zst", claimed, with_extension=True),
    "ext_lz4": Capture("canal_json_ext_lz4.lenrec.zst", records, with_extension=True),
    "ext_snappy": Capture("canal_json_ext_snappy.lenrec.zst", records, with_extension=True),
    "crlf lines": Capture("cloudstorage_crlf.json.zst", crlf_lines),
    "crlf, whole file": Capture("cloudstorage_crlf.json.zst", one_message),
    "crlf_ext lines": Capture("cloudstorage_crlf_ext.json.zst", crlf_lines, with_extension=True),
    "crlf_ext, whole file": Capture("cloudstorage_crlf_ext.json.zst", one_message, with_extension=True),
    "v5.3, deletes with old": Capture("emulated_v53_delete_old_eq_data.jsonl.zst"),
    "v5.4, order of fields": Capture("emulated_v54_field_order_ext.jsonl.zst", with_extension=True),
    "protobuf": Capture("canal_protobuf.lenrec.zst", records, dialect="canal-protobuf"),
    "protobuf, labels given": Capture("canal_protobuf.lenrec.zst", records, naming=LABELS, dialect="canal-protobuf"),
}


@pytest.fixture(scope="module")
def encoder():
    return Encoder(FOLDER / "truth_dml.jsonl.zst")


@pytest.mark.parametrize("name", CAPTURES)
def test_cells_of_both_images(name, encoder, score):
    capture = CAPTURES[name]
    values = capture.values()
    extensions = sent_extensions(capture, values, encoder)
    for table in encoder.tables:
        wanted = [
            (event, extension)
            for event, extension in zip(encoder.events, extensions, strict=True)
            if (event["db"], event["table"]) == table
        ]
        rows = row_changes(table_decoder(encoder, table, capture).decode(messages(values)))
        if score.same_length(".".join(table), wanted, rows):
            for (event, extension), row in zip(wanted, rows, strict=True):
                compare_change(score, encoder, capture, event, extension, row)
    score.check_all()


def sent_extensions(capture, values, encoder):
    """What each message declares, if some are key-only and the truth does not say which."""
    if not capture.flagged:
        return [{}] * len(encoder.events)
    return [json.loads(value)["_tidb"] for value in values]


def table_decoder(encoder, table, capture):
    columns, naming = encoder.columns(table), capture.naming
    schema = pa.schema([(column["name"], ticdc_truth.asked(column, naming)) for column in columns])
    labels = {column["name"]: column["elems"] for column in columns if column["elems"]} if naming == LABELS else None
    database, name = map(re.escape, table)
    return towpath.Decoder(capture.dialect, schema, database=database, table=name, labels=labels)


def compare_change(score, encoder, capture, event, extension, row):
    place = f"event {event['i']} {event['db']}.{event['table']} {event['op']}"
    columns = encoder.columns((event["db"], event["table"]))
    carried = carried_columns(encoder, capture, event, extension)
    missing = [column["name"] for column in columns if column["name"] not in carried]
    compare_envelope(score, place, event, capture.with_extension, extension, row)
    score.cell(place, "missing_columns", sorted(missing), sorted(row["missing_columns"] or []))
    for image, key in (("before", "old"), ("after", "row")):
        cells = event[key] and dict(event[key])
        want = cells and {
            column["name"]: ticdc_truth.value(column, cells[column["name"]], capture.naming)
            if column["name"] in carried
            else None
            for column in columns
        }
        score.image(f"{place} {image}", want, row[image])


def carried_columns(encoder, capture, event, extension):
    """A virtual column is never sent; a key-only message has the handle key."""
    reduced = "onlyHandleKey" in extension or "claimCheckLocation" in extension
    if reduced or (capture.keyed_deletes and event["op"] == "DELETE"):
        return set(encoder.handle_key((event["db"], event["table"])))
    return {name for name, _ in event["row"] or event["old"]}


def compare_envelope(score, place, event, with_extension, extension, row):
    commit_ts = int(event["commit_ts"])
    envelope = {
        "op": event["op"].lower(),
        "database": event["db"],
        "table": event["table"],
        "primary_key": event["pk"] or None,
        "event_time": ticdc_truth.clock_of(commit_ts),
        "sql": None,
        "error": None,
    }
    for field, want in envelope.items():
        score.cell(place, field, want, row[field])
    source = {
        "commit_ts": commit_ts if with_extension else None,
        "watermark_ts": None,
        "handle_key_only": extension.get("onlyHandleKey"),
        "claim_check": extension.get("claimCheckLocation"),
    }
    score.image(f"{place} source", source, row["source"])


STREAMS = {
    "ddl_default": ("canal_json_ddl_default.jsonl", "truth_ddl_default.jsonl"),
    "ddl_ext": ("canal_json_ddl_ext.jsonl", "truth_ddl_ext.jsonl"),
    "stream_ext": ("canal_json_stream_ext.jsonl.zst", "truth_stream_ext.jsonl"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_statements_and_watermarks(name, encoder, score):
    file, truth_file = STREAMS[name]
    values, wanted = lines(FOLDER / file), objects(FOLDER / truth_file)
    rows = towpath.Decoder("canal-json").decode(messages(values)).to_pylist(maps_as_pydicts="strict")
    assert score.same_length(name, wanted, rows)
    for number, (want, value, row) in enumerate(zip(wanted, values, rows, strict=True)):
        place = f"message {number}"
        if want["msg"] == "DML":
            compare_envelope(score, place, encoder.events[want["event"]], "ext" in name, {}, row)
        elif want["msg"] == "DDL":
            compare_statement(score, place, want, "ext" in name, row)
        else:
            compare_watermark(score, place, int(want["watermark_ts"]), json.loads(value), row)
    score.check_all()


def test_statements_in_protobuf(score):
    """The same statements as in JSON, behind the rows, but encoded at another time."""
    wanted = objects(FOLDER / "truth_ddl_default.jsonl")
    array = messages(CAPTURES["protobuf"].values())
    rows = towpath.Decoder("canal-protobuf").decode(array).to_pylist(maps_as_pydicts="strict")[-len(wanted) :]
    assert score.same_length("statements", wanted, rows)
    for want, row in zip(wanted, rows, strict=True):
        compare_statement(score, f"statement {want['sql']}", want, False, row, at=row["event_time"])
    score.check_all()


def compare_statement(score, place, want, with_extension, row, at=None):
    commit_ts = int(want["commit_ts"])
    envelope = {
        "op": "truncate" if want["action"] == "truncate table" else "ddl",
        "database": want["db"],
        "table": want["table"],
        "sql": want["sql"],
        "event_time": at or ticdc_truth.clock_of(commit_ts),
        "before": None,
        "after": None,
        "error": None,
    }
    for field, value in envelope.items():
        score.cell(place, field, value, row[field])
    score.cell(place, "commit_ts", commit_ts if with_extension else None, row["source"]["commit_ts"])


def compare_watermark(score, place, watermark_ts, message, row):
    score.cell(place, "op", "watermark", row["op"])
    score.cell(place, "event_time", ticdc_truth.clock_of(message["es"] << 18), row["event_time"])
    score.cell(place, "watermark_ts", watermark_ts, row["source"]["watermark_ts"])
    score.cell(place, "commit_ts", None, row["source"]["commit_ts"])
    score.cell(place, "error", None, row["error"])


@pytest.mark.parametrize("name", ["default", "ext", "ext_lz4", "v5.4, order of fields"])
def test_the_producers_own_name_and_auto_decode_the_same(name):
    array = messages(CAPTURES[name].values())
    decoded = [towpath.Decoder(dialect).decode(array) for dialect in ("canal-json", "ticdc-canal-json", "auto")]
    assert decoded[0].equals(decoded[1])
    assert decoded[0].equals(decoded[2])


def test_enums_and_sets_without_known_members_are_digits_in_a_string_column(encoder):
    """The types without declared members."""
    schema = pa.schema([("c_enum", pa.string()), ("c_set", pa.string())])
    decoder = towpath.Decoder("canal-json", schema, table="t_all_types")
    rows = row_changes(decoder.decode(messages(lines(FOLDER / "canal_json_default.jsonl.zst"))))
    events = [event for event in encoder.events if event["table"] == "t_all_types"]
    for event, row in zip(events, rows, strict=True):
        image = dict(event["row"] or event["old"])
        assert (row["after"] or row["before"]) == {name: image[name] for name in schema.names}


def test_every_operation_and_table_is_in_the_truth(encoder):
    """Makes the counts above complete."""
    assert {event["op"] for event in encoder.events} == {"INSERT", "UPDATE", "DELETE"}
    assert set(unique((event["db"], event["table"]) for event in encoder.events)) == set(encoder.tables)
