"""The truth of DTS's captures: the typed values of each record, as passed to Avro's writer."""

import json
import struct
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from fidelity import objects
from truth import Json

UTC = timezone.utc
ABSENT = object()
"""The placeholder for a column that the image does not have."""

INTEGERS = (1, 2, 3, 9)
"""Numbers of the types whose values are integers of 32 or 64 bits; others of that kind are asked as decimals."""

# By MySQL's number of the type.
ASKED = {
    **dict.fromkeys((1, 2, 9, 13), pa.int32()),
    3: pa.int64(),
    **dict.fromkeys((8, 16), pa.decimal128(20, 0)),
    4: pa.float32(),
    5: pa.float64(),
    **dict.fromkeys((7, 17), pa.timestamp("us", "UTC")),
    10: pa.date32(),
    11: pa.duration("us"),
    12: pa.timestamp("us"),
}


def records(path: Path) -> list[dict[str, Any]]:
    return objects(path)


def bulk(path: Path) -> list[dict[str, Any]]:
    """The abbreviated lines of the bulk capture's one table, in the form of the others."""
    head, *lines = objects(path)
    names = ("operation", "id", "sourceTimestamp", "sourcePosition", "afterImages", "beforeImages")
    return [head | {"tags": None} | dict(zip(names, line, strict=True)) for line in lines]


def is_row_change(record: dict[str, Any]) -> bool:
    return record["operation"] in ("INSERT", "UPDATE", "DELETE") and isinstance(record["fields"], list)


def images(record: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Both images by name."""
    names = [name for name, _ in record["fields"]]
    before, after = record["beforeImages"], record["afterImages"]
    return (before and dict(zip(names, before, strict=True))), (after and dict(zip(names, after, strict=True)))


def schema(changes: list[dict[str, Any]]) -> pa.Schema:
    """The columns of a table: text and bytes have the same type numbers, so the values decide."""
    [fields] = {json.dumps(change["fields"]) for change in changes}
    rows = [row for change in changes for row in (change["beforeImages"], change["afterImages"]) if row]
    columns = zip(json.loads(fields), zip(*rows, strict=True), strict=True)
    return pa.schema([(name, _asked(number, values)) for (name, number), values in columns])


def _asked(number: int, values: tuple[Any, ...]) -> pa.DataType:
    if number == 246:
        wide = any(isinstance(value, dict) and value.get("precision", 0) > 38 for value in values)
        return pa.string() if wide else pa.decimal128(38, 4)
    if number in ASKED:
        return ASKED[number]
    return pa.binary() if any(isinstance(value_of(number, value), bytes) for value in values) else pa.string()


def value_of(number: int, cell: Any) -> Any:
    """The value of a truth file's cell."""
    if cell is None:
        return None
    value = _of_bulk(number, cell) if isinstance(cell, str) else TYPED[cell["t"]](cell)
    return int(value) if isinstance(value, Decimal) and number in INTEGERS else value


def _of_bulk(number: int, text: str) -> Any:
    """Plain text: a DATETIME with its fraction, a TIMESTAMP as seconds since 1970."""
    match number:
        case 12:
            return datetime.fromisoformat(text)
        case 7:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(Decimal(text) * 10**6))
        case 245:
            return Json(text)
        case 1 | 3 | 8 | 246:
            return Decimal(text)
    return text


def _object(cell: dict[str, Any]) -> Any:
    if cell["type"] == "JSON":
        return Json(cell["value"])
    return cell["value"] if "value" in cell else _bytes(cell)


def _bytes(cell: dict[str, Any]) -> Any:
    """A binary object of type TEXT is text."""
    stored = bytes.fromhex(cell["hex"])
    return stored.decode() if cell["type"] == "TEXT" else stored


def _character(cell: dict[str, Any]) -> Any:
    return bytes.fromhex(cell["hex"]) if cell["text"] is None else cell["text"]


def _clock(cell: dict[str, Any]) -> Any:
    """A DATETIME, and a value with fewer parts: a TIME, a YEAR, a DATE. A zero part makes a zero date."""
    clock = [cell[part] or 0 for part in ("hour", "minute", "second", "millis")]
    if cell["year"] is None:
        hours, minutes, seconds, micros = clock
        return timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)
    if cell["month"] is None:
        return cell["year"]
    day = [cell[part] for part in ("year", "month", "day")]
    if not all(day):
        return None
    return date(*day) if cell["hour"] is None else datetime(*day, *clock)


def _instant(cell: dict[str, Any]) -> Any:
    """DTS writes the start of 1970 for MySQL's zero TIMESTAMP; a TIMESTAMP cannot have that value."""
    if not cell["timestamp"]:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=cell["timestamp"], microseconds=cell["millis"])


TYPED = {
    "Integer": lambda cell: Decimal(cell["value"]),
    "Decimal": lambda cell: Decimal(cell["value"]),
    "Float": lambda cell: struct.unpack(">d", bytes.fromhex(cell["bits"]))[0],
    "Character": _character,
    "TextObject": _object,
    "BinaryObject": _bytes,
    "TextGeometry": lambda cell: cell["value"],
    "BinaryGeometry": _bytes,
    "DateTime": _clock,
    "Timestamp": _instant,
    "TimestampWithTimeZone": lambda cell: (
        _clock(cell["value"]).replace(tzinfo=ZoneInfo(cell["timezone"])).astimezone(UTC)
    ),
    "EmptyObject": lambda cell: ABSENT if cell["value"] == "NONE" else None,
}
