"""The value that ADD COLUMN gives to existing rows, in MySQL's format for the column's type.

A literal that MySQL would convert (rounding, another date format, characters of another set) has no value here: a wrong
guess would be a wrong cell that no user notices.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal

from towpath.lakehouse.statements.column_types import BINARIES, FLOATS, INTEGERS, NUMBERS, TEXTS, ColumnType
from towpath.lakehouse.statements.tokens import Token

Value = str | bytes

_ZEROS = {"date": "0000-00-00", "datetime": "0000-00-00 00:00:00", "time": "00:00:00", "year": "0000"}
_LAYOUTS = {
    "date": r"\d{4}-\d\d-\d\d",
    "datetime": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?",
    "time": r"-?\d{2,3}:\d\d:\d\d(\.\d{1,6})?",
    "year": r"\d{4}",
}
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?", re.ASCII)
_FLOAT = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_PLAIN = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?", re.ASCII)


def implicit_value(column_type: ColumnType) -> tuple[Value | None, str | None]:
    """Return the value of a NOT NULL column without DEFAULT, and the reason if it is unknown."""
    name = column_type.name
    if name in INTEGERS or name in FLOATS or name == "bit":
        return "0", None
    if name == "decimal":
        return _decimal(column_type, None, "0"), None
    if name == "enum":
        return column_type.labels[0], None
    if name in TEXTS or name == "set":
        return "", None
    if name in BINARIES:
        return _padded(column_type, b""), None
    if name in _ZEROS:
        return _with_fraction(column_type, _ZEROS[name]), None
    return None, f"a NOT NULL column of type {name} without DEFAULT"


def given_value(column_type: ColumnType, literal: Token, negative: bool) -> Value | None:
    """Return the value of a literal other than NULL. Return None if MySQL would convert it."""
    name, text = column_type.name, _text(literal)
    if name in NUMBERS and isinstance(text, bytes):
        # A hexadecimal or bit literal is a number of 64 bits in MySQL.
        text = str(int.from_bytes(text, "big")) if 0 < len(text) <= 8 else None
    elif name in NUMBERS - {"bit"} and literal.kind == "string" and isinstance(text, str):
        text = text.strip(" \t\n\v\f\r")
    if not text and text != "":
        return None
    if isinstance(text, bytes):
        of_text = text.decode() if name in TEXTS and text.isascii() else None
        return _padded(column_type, text) if name in BINARIES else of_text
    return _READERS[name](column_type, literal, "-" + text if negative else text) if name in _READERS else None


def _text(literal: Token) -> Value | None:
    """Return the text of a string or number, or the bytes of a hexadecimal or bit literal."""
    if literal.kind == "word":
        return {"TRUE": "1", "FALSE": "0"}.get(literal.text.upper())
    if literal.kind == "bytes":
        return bytes.fromhex(literal.text.zfill((len(literal.text) + 1) // 2 * 2))
    if literal.kind == "bits":
        return int(literal.text or "0", 2).to_bytes((len(literal.text) + 7) // 8, "big")
    return literal.text


def _integer(_: ColumnType, __: Token, text: str) -> str | None:
    return str(int(text)) if re.fullmatch(r"[+-]?\d{1,20}", text, re.ASCII) else None


def _bit(column_type: ColumnType, literal: Token, text: str) -> str | None:
    # A string stands for the bytes of its characters, like a hexadecimal literal.
    return None if literal.kind == "string" else _integer(column_type, literal, text)


def _decimal(column_type: ColumnType, _: Token | None, text: str) -> str | None:
    scale = int(column_type.arguments[1])
    if not _NUMBER.fullmatch(text) or len(text.partition(".")[2].rstrip("0")) > scale or len(text) > 100:
        return None
    return f"{Context(prec=200).create_decimal(text).quantize(Decimal(1).scaleb(-scale), context=Context(prec=200)):f}"


def _float(column_type: ColumnType, _: Token, text: str) -> str | None:
    rounded = len(column_type.arguments) == 2 and len(text.partition(".")[2]) > int(column_type.arguments[1])
    return text if _FLOAT.fullmatch(text) and not rounded else None


def _characters(column_type: ColumnType, literal: Token, text: str) -> str | None:
    if literal.kind == "number" and not _PLAIN.fullmatch(text):
        return None
    return text.rstrip(" ") if column_type.name == "char" else text


def _bytes(column_type: ColumnType, literal: Token, text: str) -> bytes | None:
    # The session's character set decides the bytes of non-ASCII characters.
    if not text.isascii() or (literal.kind == "number" and not _PLAIN.fullmatch(text)):
        return None
    return _padded(column_type, text.encode())


def _padded(column_type: ColumnType, value: bytes) -> bytes:
    return value.ljust(column_type.number, b"\0") if column_type.name == "binary" else value


def _enum(column_type: ColumnType, literal: Token, text: str) -> str | None:
    labels = column_type.labels
    if literal.kind == "number" and re.fullmatch("[0-9]{1,5}", text):
        return labels[int(text) - 1] if 0 < int(text) <= len(labels) else None
    return _label(labels, text)


def _set(column_type: ColumnType, literal: Token, text: str) -> str | None:
    if literal.kind != "string":
        return None
    members = text.split(",") if text else []
    found = [_label(column_type.labels, member) for member in members]
    if None in found:
        return None
    return ",".join(label for label in column_type.labels if label in found)


def _label(labels: tuple[str, ...], text: str) -> str | None:
    """Return the member that equals a text. Ignore case if needed, like most collations."""
    text = text.rstrip(" ")
    equal = [label for label in labels if label.casefold() == text.casefold()]
    return text if text in labels else equal[0] if len(equal) == 1 else None


def _temporal(column_type: ColumnType, literal: Token, text: str) -> str | None:
    name = column_type.name
    if literal.kind == "number" and text == "0":
        return _with_fraction(column_type, _ZEROS[name])
    if name == "datetime" and re.fullmatch(_LAYOUTS["date"], text, re.ASCII):
        text += " 00:00:00"
    return _with_fraction(column_type, text) if re.fullmatch(_LAYOUTS[name], text, re.ASCII) else None


def _timestamp(column_type: ColumnType, _: Token, text: str) -> str | None:
    # Any other TIMESTAMP is in the session's time zone. No message has this zone.
    zero = re.fullmatch(r"0|0000-00-00( 00:00:00(\.0{1,6})?)?", text)
    return _with_fraction(column_type, _ZEROS["datetime"]) if zero else None


def _with_fraction(column_type: ColumnType, text: str) -> str | None:
    """Return a text with as many fractional digits as the type has. Return None if MySQL would round."""
    if column_type.name in ("date", "year"):
        return text
    whole, _, digits = text.partition(".")
    if digits[column_type.number :].strip("0"):
        return None
    fraction = digits[: column_type.number].ljust(column_type.number, "0")
    return f"{whole}.{fraction}" if fraction else whole


_Reader = Callable[[ColumnType, Token, str], Value | None]
_READERS: dict[str, _Reader] = {
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(TEXTS, _characters),
    **dict.fromkeys(BINARIES, _bytes),
    **dict.fromkeys(_ZEROS, _temporal),
    "bit": _bit,
    "decimal": _decimal,
    "enum": _enum,
    "set": _set,
    "timestamp": _timestamp,
}
