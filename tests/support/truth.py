"""How to read truth files: the schema's type for a declared type, and the value of the database's text.

Written from MySQL's manual and the captures' notes, independently of towpath: it is the other side of the comparison.
"""

import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

GEOMETRIES = {
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
    *("geomcollection", "geometrycollection"),
}
BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64, "boolean": 8, "bool": 8}
SRID_DIGITS = 8  # hex digits of the four bytes that MySQL stores before a geometry's WKB
EXACT = Context(prec=100)  # wider than any decimal of MySQL


@dataclass(frozen=True)
class Json:
    """A JSON column's value: texts with the same parsed value are equal."""

    text: str


def base(declared: str) -> str:
    """The first word of a declared type."""
    return re.match(r"\w+", declared).group()


def arguments(declared: str) -> list[int]:
    """The numbers in a declared type's parentheses."""
    found = re.match(r"\w+\s*\(([\d\s,]+)\)", declared)
    return [int(number) for number in found.group(1).split(",")] if found else []


def asked(declared: str) -> pa.DataType:
    """The narrowest type that holds every value of a column of this declared type."""
    word = base(declared)
    if word in INTEGERS:
        return _integer(INTEGERS[word], "unsigned" in declared or "zerofill" in declared)
    if word == "decimal":
        return _decimal(*[*arguments(declared), 0][:2])
    if word == "bit":
        return pa.bool_() if arguments(declared) == [1] else pa.binary()
    if word in BYTES or word in GEOMETRIES:
        return pa.binary()
    return _PLAIN_TYPES.get(word, pa.string())


_PLAIN_TYPES = {
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "time": pa.duration("us"),
    "year": pa.int32(),
}


def _integer(bits: int, unsigned: bool) -> pa.DataType:
    if unsigned and bits == 64:
        return pa.decimal128(20, 0)
    wanted = bits + unsigned
    return next(kind for limit, kind in _INTEGER_TYPES if wanted <= limit)


_INTEGER_TYPES = [(8, pa.int8()), (16, pa.int16()), (32, pa.int32()), (64, pa.int64())]


def _decimal(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def value(declared: str, text: str | None, exact: str | None = None) -> Any:
    """The value of the server's text; `exact` is a float's text with all its digits."""
    return None if text is None else converter(declared)(text if exact is None else exact)


def converter(declared: str) -> Callable[[str], Any]:
    """The function from a column's text to its value."""
    word = base(declared)
    if word == "bigint" and ("unsigned" in declared or "zerofill" in declared):
        return Decimal
    if word == "bit":
        return _flag if arguments(declared) == [1] else bytes.fromhex
    if word in GEOMETRIES:
        return lambda text: bytes.fromhex(text[SRID_DIGITS:])
    if word in BYTES:
        return bytes.fromhex
    return _CONVERTERS.get(word, str)


def _flag(text: str) -> bool:
    return {"00": False, "01": True}[text]


def single(text: str) -> float:
    """The nearest float of 32 bits."""
    return struct.unpack("f", struct.pack("f", float(text)))[0]


def day(text: str) -> date | None:
    return None if is_zero(text) else date.fromisoformat(text)


def clock(text: str) -> datetime | None:
    return None if is_zero(text) else datetime.fromisoformat(text)


def instant(text: str) -> datetime | None:
    at = clock(text)
    return at and at.replace(tzinfo=timezone.utc)


def is_zero(text: str) -> bool:
    """Whether MySQL calls the date a zero date, in whole or in part."""
    return "00" in (text[5:7], text[8:10]) or text.startswith("0000")


def span(text: str) -> timedelta:
    """A TIME, which may be negative and longer than a day."""
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    length = timedelta(
        hours=int(hours), minutes=int(minutes), seconds=int(whole), microseconds=int(fraction.ljust(6, "0"))
    )
    return -length if text.startswith("-") else length


_CONVERTERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(INTEGERS, int),
    "year": int,
    "decimal": EXACT.create_decimal,
    "float": single,
    "double": float,
    "date": day,
    "datetime": clock,
    "timestamp": instant,
    "time": span,
    "json": Json,
}


def same(want: Any, got: Any) -> bool:
    """Whether a cell is right. Python's `1 == True == 1.0` is not good enough."""
    if isinstance(want, Json):
        return isinstance(got, str) and same_json(want.text, got)
    if isinstance(want, float) and isinstance(got, float):
        return struct.pack("d", want) == struct.pack("d", got)  # -0.0 is not 0.0
    return type(got) is type(want) and got == want


def same_json(want: str, got: str) -> bool:
    """Whether two JSON texts have the same value; numbers are compared by value."""
    try:
        return want == got or json.loads(want, **_NUMBERS) == json.loads(got, **_NUMBERS)
    except ValueError:
        return False


class _Number(Decimal):
    """A JSON number, which is equal to no boolean."""

    __hash__ = Decimal.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Number) and Decimal.__eq__(self, other)


_NUMBERS: dict[str, Any] = {"parse_int": _Number, "parse_float": _Number}
