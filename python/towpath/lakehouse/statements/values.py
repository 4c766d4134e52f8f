"""The value that ADD COLUMN gives to existing rows, as MySQL prints it for the column's type.

A literal of which MySQL would make another value (rounding, another format of a date, characters of another set) has no
value here: to guess it would be a wrong cell that nobody notices.
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
    """The value of a NOT NULL column without DEFAULT, and why it is not known."""
    name = column_type.name
    if name in INTEGERS or name in FLOATS or name == "bit":
        return "0", None
    if name == "decimal":
        return _decimal(column_type, "0"), None
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
    """The value of a literal other than NULL; None if MySQL would convert it."""
    read = _READERS.get(column_type.name)
    text = _text(literal)
    if literal.kind == "string" and isinstance(text, str) and column_type.name in NUMBERS - {"bit"}:
        text = text.strip(" \t\n\v\f\r")
    if read is None or text is None or (isinstance(text, bytes) and not text):
        return None
    return read(column_type, literal, "-" + text if negative and isinstance(text, str) else text)


def _text(literal: Token) -> Value | None:
    """The text of a string or number, the bytes of a hexadecimal or bit literal."""
    if literal.kind == "word":
        return {"TRUE": "1", "FALSE": "0"}.get(literal.text.upper())
    if literal.kind == "bytes":
        return _unhexed(literal.text)
    if literal.kind == "bits":
        return _unhexed(f"{int(literal.text, 2):x}".zfill((len(literal.text) + 7) // 8 * 2)) if literal.text else b""
    return literal.text


def _unhexed(digits: str) -> bytes:
    return bytes.fromhex(digits.zfill((len(digits) + 1) // 2 * 2))


def _integer(_: ColumnType, __: Token, text: Value) -> Value | None:
    if isinstance(text, bytes):
        return _digits(text)
    return str(int(text)) if re.fullmatch(r"[+-]?\d{1,20}", text, re.ASCII) else None


def _digits(value: bytes) -> str | None:
    """A hexadecimal or bit literal as a number, which has 64 bits in MySQL."""
    return str(int.from_bytes(value, "big")) if len(value) <= 8 else None


def _bit(column_type: ColumnType, literal: Token, text: Value) -> Value | None:
    # A string is the bytes of its characters, as a hexadecimal literal is.
    return None if literal.kind == "string" else _integer(column_type, literal, text)


def _decimal(column_type: ColumnType, text: Value) -> str | None:
    if isinstance(text, bytes):
        text = _digits(text) or ""
    scale = int(column_type.arguments[1])
    if not _NUMBER.fullmatch(text) or len(text.partition(".")[2].rstrip("0")) > scale or len(text) > 100:
        return None
    return f"{Context(prec=200).create_decimal(text).quantize(Decimal(1).scaleb(-scale), context=Context(prec=200)):f}"


def _float(column_type: ColumnType, _: Token, text: Value) -> Value | None:
    if isinstance(text, bytes):
        return _digits(text)
    rounded = len(column_type.arguments) == 2 and len(text.partition(".")[2]) > int(column_type.arguments[1])
    return text if _FLOAT.fullmatch(text) and not rounded else None


def _characters(column_type: ColumnType, literal: Token, text: Value) -> Value | None:
    if isinstance(text, bytes):
        return text.decode() if text.isascii() else None
    if literal.kind == "number" and not _PLAIN.fullmatch(text):
        return None
    return text.rstrip(" ") if column_type.name == "char" else text


def _bytes(column_type: ColumnType, literal: Token, text: Value) -> Value | None:
    if isinstance(text, str):
        # The session's character set decides the bytes of other characters.
        if not text.isascii() or (literal.kind == "number" and not _PLAIN.fullmatch(text)):
            return None
        text = text.encode()
    return _padded(column_type, text)


def _padded(column_type: ColumnType, value: bytes) -> bytes:
    return value.ljust(column_type.number, b"\0") if column_type.name == "binary" else value


def _enum(column_type: ColumnType, literal: Token, text: Value) -> Value | None:
    labels = column_type.labels
    if literal.kind == "number" and isinstance(text, str) and re.fullmatch("[0-9]{1,5}", text):
        return labels[int(text) - 1] if 0 < int(text) <= len(labels) else None
    return _label(labels, text)


def _set(column_type: ColumnType, literal: Token, text: Value) -> Value | None:
    if literal.kind != "string" or not isinstance(text, str):
        return None
    members = text.split(",") if text else []
    found = [_label(column_type.labels, member) for member in members]
    if None in found:
        return None
    return ",".join(label for label in column_type.labels if label in found)


def _label(labels: tuple[str, ...], text: Value) -> str | None:
    """The member that is equal, if need be without case, as in most collations."""
    if not isinstance(text, str):
        return None
    text = text.rstrip(" ")
    equal = [label for label in labels if label.casefold() == text.casefold()]
    return text if text in labels else equal[0] if len(equal) == 1 else None


def _temporal(column_type: ColumnType, literal: Token, text: Value) -> Value | None:
    name = column_type.name
    if not isinstance(text, str):
        return None
    if literal.kind == "number" and text == "0":
        return _with_fraction(column_type, _ZEROS[name])
    if name == "datetime" and re.fullmatch(_LAYOUTS["date"], text, re.ASCII):
        text += " 00:00:00"
    return _with_fraction(column_type, text) if re.fullmatch(_LAYOUTS[name], text, re.ASCII) else None


def _timestamp(column_type: ColumnType, _: Token, text: Value) -> Value | None:
    # Any other TIMESTAMP is in the time zone of the session, which no message has.
    zero = isinstance(text, str) and re.fullmatch(r"0|0000-00-00( 00:00:00(\.0{1,6})?)?", text)
    return _with_fraction(column_type, _ZEROS["datetime"]) if zero else None


def _with_fraction(column_type: ColumnType, text: str) -> str | None:
    """With as many digits of the second as the type has; None if MySQL would round."""
    if column_type.name in ("date", "year"):
        return text
    whole, _, digits = text.partition(".")
    if digits[column_type.number :].strip("0"):
        return None
    fraction = digits[: column_type.number].ljust(column_type.number, "0")
    return f"{whole}.{fraction}" if fraction else whole


_Reader = Callable[[ColumnType, Token, Value], Value | None]
_READERS: dict[str, _Reader] = {
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(TEXTS, _characters),
    **dict.fromkeys(BINARIES, _bytes),
    **dict.fromkeys(_ZEROS, _temporal),
    "bit": _bit,
    "decimal": lambda column_type, _, text: _decimal(column_type, text),
    "enum": _enum,
    "set": _set,
    "timestamp": _timestamp,
}
