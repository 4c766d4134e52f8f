"""The envelopes of canal-protobuf, compared with canal-json and with a second reader of the wire format."""

from datetime import datetime, timezone
from typing import Any

import pytest

import towpath
from canal_captures import JSON, PROTOBUF

MARKS = ("begin", "commit", "other")


def decoded(capture):
    return towpath.Decoder(capture.dialect).decode(capture.messages()).to_pylist(maps_as_pydicts="strict")


@pytest.mark.parametrize("name", PROTOBUF)
def test_every_field_is_that_of_canal_json(name, score):
    """One canal read the binlog once and wrote both. JSON has no transaction boundaries and no binlog position."""
    ours = [row for row in decoded(PROTOBUF[name]) if row["op"] not in MARKS]
    theirs = decoded(next(capture for capture in JSON.values() if capture.folder == PROTOBUF[name].folder))
    assert score.same_length(name, theirs, ours)
    own = ("produced_time", "row", "source")
    for number, (want, got) in enumerate(zip(theirs, ours, strict=True)):
        score.image(f"row {number}", {field: want[field] for field in want if field not in own}, got)
        shared = {field: want["source"][field] for field in ("operation", "gtid")}
        score.image(f"row {number} source", shared, got["source"])
    score.check_all()


def fields(message: bytes) -> list[tuple[int, Any]]:
    """The fields of a message as numbers and values, without its schema."""
    found, at = [], 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = varint(message, at)
        if tag & 7:
            assert tag & 7 == 2
            value, at = message[at : at + value], at + value
        found.append((tag >> 3, value))
    return found


def varint(message: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while message[at] >= 0x80:
        value, shift, at = value | (message[at] & 0x7F) << shift, shift + 7, at + 1
    return value | message[at] << shift, at + 1


ENTRY_TYPES = {1: "begin", 3: "commit"}


@pytest.mark.parametrize("name", PROTOBUF)
def test_the_place_of_every_row(name, score):
    """File, offset, server and time of each entry's header, the batch's number, and the transaction of each end."""
    capture = PROTOBUF[name]
    rows = iter(decoded(capture))
    for number, value in enumerate(capture.values()):
        body = fields(dict(fields(value)).get(5, b""))
        batch = dict(body).get(1)
        entries = [dict(fields(entry)) for field, entry in body if field == 2]
        wanted = [want for entry in entries for want in of_entry(entry)] or [{"op": "other"}]
        for index, want in enumerate(wanted):
            row = next(rows)
            source = row["source"] | {"op": row["op"], "event_time": row["event_time"], "row": row["row"]}
            place = f"message {number} row {index}"
            score.image(place, want | {"row": index, "message_id": batch, "dialect": "canal-protobuf"}, source)
    assert next(rows, None) is None
    score.check_all()


def of_entry(entry: dict[int, Any]) -> list[dict[str, Any]]:
    """The expected rows of an entry."""
    header, content = dict(fields(entry[1])), fields(entry[3])
    want = {
        "file": header[2].decode(),
        "position": header[3],
        "server_id": header[4],
        "event_time": datetime.fromtimestamp(header[6] // 1000, timezone.utc),
        "connector": "mysql",
        "version": "1",
        "transaction_id": None,
    }
    if entry[2] in ENTRY_TYPES:
        transaction = dict(content).get(2)
        return [want | {"op": ENTRY_TYPES[entry[2]], "transaction_id": transaction and transaction.decode()}]
    return [want] * max(1, sum(field == 12 for field, _ in content))


def test_marks_of_transactions_are_there_and_can_be_left_out():
    """MariaDB's binlog has no statement for a BEGIN; without its marks, a batch of nothing else is an empty packet."""
    ops = {name: [row["op"] for row in decoded(capture)] for name, capture in PROTOBUF.items()}
    assert {name: ops[name].count("begin") for name in ops if ops[name].count("begin")} == {
        "protobuf-mysql": 119,
        "protobuf-mysql-raw": 119,
        "protobuf-gtid": 119,
    }
    assert [ops[name].count("commit") for name in PROTOBUF] == [119, 0, 119, 116, 0, 116, 119]
    assert [ops[name].count("other") for name in PROTOBUF] == [0, 0, 0, 0, 1, 0, 0]
