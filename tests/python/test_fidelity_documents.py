"""Producers that are not available, from the messages in their documents: every cell equals what was written."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import towpath
import truth
from fidelity import ROOT, lines, messages, objects, row_changes

GOLDEN = ROOT / "tests" / "golden"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

Message = dict[str, Any]
Wanted = dict[str, Any]


@dataclass(frozen=True)
class Producer:
    """The producer of messages, and what a message declares."""

    dialect: str
    file: str
    envelope: Callable[[Wanted, Message], Wanted]
    aliases: tuple[str, ...] = ()
    truth: str = "canal-json/cloudcanal/small.truth.jsonl"
    declares: bool = True  # whether a message tells a column's type
    omits_nulls: bool = False
    has_ddl: bool = True

    def values(self) -> list[bytes]:
        return lines(GOLDEN / self.file)

    def wanted(self) -> list[Wanted]:
        """The events, one for each message."""
        return [want for want in objects(GOLDEN / self.truth) if self.has_ddl or want["op"] != "DDL"]


def canal_json(want, message):
    return {
        "primary_key": want["pk"] if message["pkNames"] else None,
        "event_time": time_of(message["es"]),
        "produced_time": time_of(message["ts"]),
        "column_types": message["mysqlType"] or None,
        "jdbc_types": message["sqlType"] or None,
        "table_changes": json_text(message.get("tableChanges")),
        "source": {"operation": message["type"], "message_id": message["id"]},
    }


def cloudcanal_json(want, message):
    return {
        "schema": message["schema"],
        "primary_key": want["pk"] if message["pks"] else None,
        "event_time": time_of(message["execTs"]),
        "produced_time": time_of(message["sendTs"]),
        "column_types": message["dbValType"] or None,
        "jdbc_types": message["jdbcType"] or None,
        "table_changes": json_text(message.get("tableChanges")),
        "source": {"operation": message["action"], "message_id": message["bid"]},
    }


def debezium_json(want, message):
    payload = message["payload"]
    source = payload["source"]
    return {
        "event_time": time_of(source["ts_ms"]),
        "produced_time": time_of(payload["ts_ms"]),
        "column_types": dict.fromkeys(want["cols"], "string"),
        "table_changes": json_text(payload.get("tableChanges")),
        "source": {
            "operation": payload.get("op"),
            "connector": source["connector"],
            "server_id": source["server_id"],
            "file": source["file"],
            "position": source["pos"],
            "gtid": source["gtid"],
        },
    }


def river_json(want, message):
    position, file = message["binlog"].split("@")
    return {
        "primary_key": message["keys"],
        "event_time": time_of(message["time"]),
        "produced_time": time_of(message["canalTime"]),
        "column_types": {column["n"]: column["t"] for column in message["columns"]},
        "source": {"operation": message["event"], "file": file, "position": int(position)},
    }


def json_text(value):
    return value and truth.Json(json.dumps(value))


def time_of(number):
    """13 digits are milliseconds; 10 are seconds, which the Tencent platform's DDL has; 0 is not a time."""
    millis = number * 1000 if number < 10**10 else number
    return EPOCH + timedelta(milliseconds=millis) if number else None


def cloudcanal(file, **more):
    return Producer("cloudcanal-json", f"cloudcanal-json/{file}.jsonl", cloudcanal_json, **more)


def cloudcanal_debezium(file):
    aliases = ("cloudcanal-debezium-json",)
    return Producer(
        "debezium-json", f"debezium-json/cloudcanal/{file}.jsonl.zst", debezium_json, aliases, declares=False
    )


def river(file):
    return Producer("river-json", f"river-json/{file}.jsonl", river_json, has_ddl=False)


PRODUCERS = {
    "cloudcanal": Producer("canal-json", "canal-json/cloudcanal/small.jsonl", canal_json, ("cloudcanal-canal-json",)),
    "tencent": Producer(
        "canal-json",
        "canal-json/tencent/small.jsonl",
        canal_json,
        ("tencent-canal-json",),
        "canal-json/tencent/small.truth.jsonl",
        declares=False,
    ),
    "cloudcanal own": cloudcanal("small_isDdl"),
    "cloudcanal own, older": cloudcanal("small_ddl_key"),
    "cloudcanal own, nulls omitted": cloudcanal("small_nulls_omitted", omits_nulls=True),
    "cloudcanal debezium, op c": cloudcanal_debezium("small_op_c"),
    "cloudcanal debezium, op i": cloudcanal_debezium("small_op_i"),
    "river, null as empty text": river("small_null_as_empty_v"),
    "river, null omitted": river("small_null_v_omitted"),
    "river, null as null": river("small_null_v_null_serializenulls"),
}


@pytest.fixture(params=PRODUCERS)
def producer(request):
    return PRODUCERS[request.param]


def test_cells_of_both_images(producer, score):
    array, wanted = messages(producer.values()), producer.wanted()
    said = {want["i"]: json.loads(value) for want, value in zip(wanted, producer.values(), strict=True)}
    changes = [want for want in wanted if want["op"] != "DDL"]
    for database, table in dict.fromkeys((want["db"], want["table"]) for want in changes):
        of_table = [want for want in changes if (want["db"], want["table"]) == (database, table)]
        decoder = towpath.Decoder(
            producer.dialect,
            schema(of_table[0], producer.declares),
            database=re.escape(database),
            table=re.escape(table),
        )
        rows = row_changes(decoder.decode(array))
        if score.same_length(f"{database}.{table}", of_table, rows):
            for want, row in zip(of_table, rows, strict=True):
                compare_change(score, producer, want, said[want["i"]], row)
    score.check_all()


def schema(want, declares):
    columns = zip(want["cols"], want["types"], strict=True)
    return pa.schema([(name, pa.int64() if is_number(kind, declares) else truth.asked(kind)) for name, kind in columns])


def is_number(declared, declares):
    """Where nothing declares a type, a bit column is a number."""
    return declared.startswith("bit") and not declares


def compare_change(score, producer, want, message, row):
    place = f"line {want['i']} {want['db']}.{want['table']} {want['op']}"
    before, after = image(want, "old", producer.declares), image(want, "row", producer.declares)
    for name in destroyed(producer, message):
        if before[name] is None:
            score.producer_destroyed("NULL before an update, written as empty text by KafkaRiverCanal")
            before[name] = ""
    envelope = {"op": want["op"].lower(), "missing_columns": missing(producer, before, after), "error": None}
    for field, value in envelope.items():
        score.cell(place, field, value, row[field])
    score.image(f"{place} before", before, row["before"])
    score.image(f"{place} after", after, row["after"])


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


def destroyed(producer, message):
    """Text columns that an update changed from "" or from NULL: if `v` is empty for null, both are the same."""
    if not producer.file.endswith("null_as_empty_v.jsonl"):
        return []
    changed = [column for column in message["columns"] if column.get("updated") and column["origin_val"] == ""]
    return [column["n"] for column in changed if column["t"].startswith(("varchar", "enum"))]


def missing(producer, before, after):
    """A null column looks missing if nulls are omitted."""
    if not producer.omits_nulls:
        return None
    images = [image for image in (before, after) if image]
    return [name for name in images[0] if any(image[name] is None for image in images)] or None


def test_envelopes(producer, score):
    values, wanted = producer.values(), producer.wanted()
    rows = towpath.Decoder(producer.dialect).decode(messages(values)).to_pylist(maps_as_pydicts="strict")
    assert score.same_length(producer.file, wanted, rows)
    for want, value, row in zip(wanted, values, rows, strict=True):
        compare_envelope(score, f"line {want['i']}", want, told_by(producer, want, value), row)
    score.check_all()


def told_by(producer, want, value):
    said = producer.envelope(want, json.loads(value))
    return said | {"source": said["source"] | {"dialect": producer.dialect}}


def compare_envelope(score, place, want, said, row):
    is_ddl = want["op"] == "DDL"
    envelope = {
        "op": {"TRUNCATE": "truncate"}.get(want["ddlType"], "ddl") if is_ddl else want["op"].lower(),
        "database": want["db"],
        "schema": None,
        "table": want["table"],
        "primary_key": None,
        "sql": want["ddl"],
        "jdbc_types": None,
        "table_changes": None,
        "row": 0,
        "error": None,
    } | said
    source = dict.fromkeys(row["source"]) | envelope.pop("source")
    for field, value in envelope.items():
        score.cell(place, field, value, row[field])
    score.image(f"{place} source", source, row["source"])


def test_every_name_decodes_the_same(producer):
    """The dialect's name, the producer's own, and `auto`."""
    array = messages(producer.values())
    names = (producer.dialect, *producer.aliases, "auto")
    first, *others = [towpath.Decoder(name).decode(array) for name in names]
    assert all(first.equals(other) for other in others)
