"""Values that Maxwell 1.22 changes, and what it sends instead.

Evidence is the capture itself: each rule computes from the truth what is in the message.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

import truth
from server_truth import Column

Destroyed = tuple[str, Any]


@dataclass(frozen=True)
class Knowledge:
    """What the decoder knows of column types: Maxwell's messages declare none, the user may."""

    declared: bool


WITHOUT_TYPES = Knowledge(declared=False)
WITH_TYPES = Knowledge(declared=True)


def asked(column: Column, knowledge: Knowledge) -> pa.DataType:
    """The type for the schema; if the column's type is not known, one for the JSON value in the message."""
    word = truth.base(column.declared)
    if word in truth.GEOMETRIES:
        return pa.string()  # as WKT
    if knowledge.declared:
        return truth.asked(column.declared)
    if word == "bit" and truth.arguments(column.declared) != [1]:
        return pa.decimal128(20, 0)
    return pa.list_(pa.string()) if word == "set" else truth.asked(column.declared)


def value(column: Column, text: str | None, exact: str | None, knowledge: Knowledge) -> Any:
    """The value of the server's text."""
    word = truth.base(column.declared)
    if text is None:
        return None
    if word in truth.GEOMETRIES:
        return wkt(bytes.fromhex(text[truth.SRID_DIGITS :]))
    if not knowledge.declared:
        if word == "bit" and truth.arguments(column.declared) != [1]:
            return Decimal(int(text, 16))
        if word == "set":
            return text.split(",") if text else []
    return truth.value(column.declared, text, exact)


def destroyed(column: Column, text: str | None, knowledge: Knowledge) -> Destroyed | None:
    """For a value that Maxwell changes: why, and what it sends instead."""
    rule = RULES.get(truth.base(column.declared))
    return rule(column, text, knowledge) if rule and text is not None else None


def _time(column: Column, text: str, knowledge: Knowledge) -> Destroyed | None:
    """Read as Java's time of day, with the fields of a negative TIME taken from its two's complement."""
    span = truth.span(text)
    [digits, *_] = [*truth.arguments(column.declared), 0]
    sent = _fields(span, digits) % timedelta(days=1)
    return None if sent == span else ("TIME outside of a day, wrapped", sent)


def _fields(span: timedelta, digits: int) -> timedelta:
    """MySQL stores 10, 6 and 6 bits, and the fraction in bytes of two digits each; a negative TIME is subtracted."""
    fraction_bytes = (digits + 1) // 2
    unit = 10 ** (6 - 2 * fraction_bytes)  # microseconds of the stored fraction
    micros = abs(span) // timedelta(microseconds=1)
    seconds, fraction = divmod(micros, 1_000_000)
    hours, minutes = divmod(seconds // 60, 60)
    stored = (hours << 12 | minutes << 6 | seconds % 60) << 8 * fraction_bytes | fraction // unit
    if span < timedelta(0):
        stored = (1 << 23 + 8 * fraction_bytes) - stored
    whole, fraction = divmod(stored, 1 << 8 * fraction_bytes)
    micros = fraction * unit
    printed = micros - micros % 10 ** (6 - digits)
    return timedelta(hours=whole >> 12 & 0x3FF, minutes=whole >> 6 & 0x3F, seconds=whole & 0x3F, microseconds=printed)


def _year(column: Column, text: str, knowledge: Knowledge) -> Destroyed | None:
    """The binlog has years since 1900, and 0 for year 0."""
    return ("YEAR 0, sent as 1900", 1900) if int(text) == 0 else None


def _int(column: Column, text: str, knowledge: Knowledge) -> Destroyed | None:
    """ZEROFILL implies UNSIGNED, but Maxwell ignores that."""
    if "zerofill" not in column.declared or int(text) < 1 << 31:
        return None
    return "INT ZEROFILL from 2^31 on, negative", int(text) - (1 << 32)


def _enum(column: Column, text: str, knowledge: Knowledge) -> Destroyed | None:
    if text == "":
        return "ENUM of the value '', sent as null", None
    return ("ENUM with a quote, sent with two", text.replace("'", "''")) if "'" in text else None


def _bit(column: Column, text: str, knowledge: Knowledge) -> Destroyed | None:
    """Each byte is shifted as a 32-bit integer, which wraps, unless the highest bit is set."""
    number = int(text, 16)
    shifted = sum(_signed(byte << 8 * (place % 4)) for place, byte in enumerate(number.to_bytes(8, "little")))
    if number >= 1 << 63 or shifted == number:
        return None
    if not knowledge.declared:
        return "BIT beyond 32 bits, wrapped", Decimal(shifted)
    return "BIT beyond 32 bits, wrapped", shifted.to_bytes(8, "big") if shifted >= 0 else REFUSED


def _signed(number: int) -> int:
    return struct.unpack("i", struct.pack("I", number & 0xFFFF_FFFF))[0]


class Refused:
    """Placeholder for a value that is null in a row with an error."""


REFUSED = Refused()


def _binary(column: Column, text: str, knowledge: Knowledge) -> Destroyed | None:
    """MySQL's binlog omits trailing zeros; the declared length restores them."""
    stored = bytes.fromhex(text)
    if knowledge.declared or not stored.endswith(b"\0"):
        return None
    return "BINARY(n) without its trailing zeros: nobody tells n", stored.rstrip(b"\0")


def _geometry_text(column: Column, text: str, knowledge: Knowledge) -> Destroyed | None:
    """Coordinates are printed with 16 decimal places."""
    wkb = bytes.fromhex(text[truth.SRID_DIGITS :])
    sent = wkt(wkb, digits=16)
    return None if sent == wkt(wkb) else ("geometry with more than 16 digits behind a point, rounded", sent)


Rule = Callable[[Column, str, Knowledge], Destroyed | None]
RULES: dict[str, Rule] = {
    **dict.fromkeys(truth.GEOMETRIES, _geometry_text),
    "time": _time,
    "year": _year,
    "int": _int,
    "enum": _enum,
    "bit": _bit,
    "binary": _binary,
}

KINDS = ["", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION"]


def wkt(wkb: bytes, digits: int | None = None) -> str:
    """A geometry as text, its numbers as Python prints them; rounded, if digits are given."""
    text, end = _geometry(wkb, 0)
    assert end == len(wkb)
    return text if digits is None else same_numbers(text, digits)


def same_numbers(text: str, digits: int = 324) -> str:
    """WKT with its numbers as Python prints them."""
    return re.sub(r"-?\d[\d.]*(E-?\d+)?", lambda number: repr(round(float(number[0]), digits)), text)


def _geometry(wkb: bytes, at: int) -> tuple[str, int]:
    kind = KINDS[_count(wkb, at + 1)]
    body, end = _body(kind, wkb, at + 5)
    return f"{kind} {body}", end


def _body(kind: str, wkb: bytes, at: int) -> tuple[str, int]:
    if kind == "POINT":
        point, end = _point(wkb, at)
        return f"({point})", end
    if kind == "LINESTRING":
        return _many(_point, wkb, at)
    if kind == "POLYGON":
        return _many(lambda wkb, at: _many(_point, wkb, at), wkb, at)
    if kind == "GEOMETRYCOLLECTION":
        return _many(_geometry, wkb, at)
    return _many(lambda wkb, at: _body(kind.removeprefix("MULTI"), wkb, at + 5), wkb, at)


def _many(read: Callable[[bytes, int], tuple[str, int]], wkb: bytes, at: int) -> tuple[str, int]:
    parts, end = [], at + 4
    for _ in range(_count(wkb, at)):
        part, end = read(wkb, end)
        parts.append(part)
    return "(" + ", ".join(parts) + ")", end


def _point(wkb: bytes, at: int) -> tuple[str, int]:
    x, y = struct.unpack_from("<dd", wkb, at)
    return f"{x!r} {y!r}", at + 16


def _count(wkb: bytes, at: int) -> int:
    return struct.unpack_from("<I", wkb, at)[0]
