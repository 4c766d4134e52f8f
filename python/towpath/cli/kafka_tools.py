"""Output of Kafka's command line tools: one record per line, with its key and its place in the topic."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from towpath.foreign_json import parsed_json
from towpath.places import KAFKA, MESSAGE

KCAT_JSON = "kcat-json"
FRAMINGS = (KCAT_JSON, "print-key")
"""Framings of `kcat -J`, and of kafka-console-consumer with print.key=true."""

_COLUMNS = {**MESSAGE, "timestamp": pa.timestamp("ms", "UTC")}
Record = dict[str, Any]


def cut_as(framing: str) -> str:
    """Return the framing of `towpath.files` that splits a tool's output."""
    return "lines" if framing in FRAMINGS else framing


def records(framing: str, lines: pa.RecordBatch, place: Callable[[int], str]) -> pa.RecordBatch:
    """Return the records of the lines that a tool printed.

    Args:
        framing: One of `FRAMINGS`.
        lines: Lines in a column `value`.
        place: Function that names the place of a line, for errors.

    Returns:
        The lines' other columns, `key`, `value`, and Kafka's columns that the tool printed.

    Raises:
        ValueError: A line does not have the tool's format.
    """
    read = {"kcat-json": _kcat_record, "print-key": _console_record}[framing]
    found: list[Record] = []
    for row, line in enumerate(lines["value"].to_pylist()):
        try:
            found.append(read(line))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{place(row)}: --framing {framing}: {error}") from None
    printed = [name for name in _COLUMNS if name in ("key", "value") or any(name in record for record in found)]
    columns = {name: pa.array([record.get(name) for record in found], _COLUMNS[name]) for name in printed}
    if "_offset" in lines.schema.names:
        columns["_offset"] = lines["_offset"]
    return pa.record_batch(columns)


_OF_KCAT = frozenset([*KAFKA, "payload"])
_OF_DEBEZIUM = frozenset(["schema", "op", "source"])
"""Members that Debezium writes next to a payload."""


def is_kcat_json(line: bytes) -> bool:
    """Return whether a line is a record of `kcat -J`. No message has these members together."""
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        record = parsed_json(line)
    except ValueError:
        return False
    members = frozenset(record)
    return members >= _OF_KCAT and members.isdisjoint(_OF_DEBEZIUM)


def _kcat_record(line: bytes) -> Record:
    """Parse a record of `kcat -J`: {"topic":..,"partition":..,"offset":..,"ts":..,"key":..,"payload":..}."""
    record = parsed_json(line)
    if not isinstance(record, dict) or "payload" not in record:
        raise ValueError('expected a record of kcat -J, a JSON object with a "payload"')
    known = {"topic": "topic", "partition": "partition", "offset": "offset", "timestamp": "ts"}
    place = {name: record[member] for name, member in known.items() if member in record}
    return {"key": _bytes(record.get("key"), "key"), "value": _bytes(record["payload"], "payload"), **place}


def _bytes(text: object, member: str) -> bytes | None:
    if text is None or isinstance(text, str):
        return None if text is None else text.encode()
    raise ValueError(f'"{member}" is not text: run kcat without -s, so that it prints what the topic has')


_PRINTED = re.compile(
    rb"(?:(?:(?:CreateTime|LogAppendTime):(\d+)|NO_TIMESTAMP)\t)?(?:Partition:(\d+)\t)?(?:Offset:(\d+)\t)?", re.DOTALL
)


def _console_record(line: bytes) -> Record:
    """Parse a record of the console consumer. It prints the word null for a null key and for a null value."""
    printed = _PRINTED.match(line)
    assert printed  # every part of the pattern is optional
    key, tab, value = line[printed.end() :].partition(b"\t")
    if not tab:
        raise ValueError("expected a key, a tab and a value: run the consumer with --property print.key=true")
    numbers = zip(("timestamp", "partition", "offset"), printed.groups(), strict=True)
    place = {name: int(number) for name, number in numbers if number is not None}
    return {"key": None if key == b"null" else key, "value": None if value == b"null" else value, **place}
