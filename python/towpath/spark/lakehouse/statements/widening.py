"""Whether another type of a column keeps all of its values."""

from __future__ import annotations

from towpath.spark.lakehouse.statements.tokens import Cursor, NotReadError, tokenize
from towpath.spark.lakehouse.statements.types import BINARIES, FLOATS, INTEGERS, TEXTS, ColumnType, read_type

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_DIGITS = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}
_SIZES = (("tiny", 8), ("", 16), ("medium", 24), ("long", 32))
_BYTES = {f"{size}{kind}": (1 << bits) - 1 for kind in ("text", "blob") for size, bits in _SIZES}
_LONGEST_CHARACTER = 4


def keeps_values(old: str, new: str) -> bool:
    """Whether every value of one type of MySQL is the same value in another, so that rows in the lake stay right.

    It is False where MySQL rounds, truncates, pads or otherwise converts values, or refuses to, and for types that are
    not known. Character sets are not compared: in strict mode the server refuses to lose characters.

    Args:
        old: The column's type before, as in messages or `Column.type`.
        new: Its type afterwards.
    """
    try:
        before, after = _read(old), _read(new)
    except NotReadError:
        return False
    same = (before.name, before.arguments, before.labels, before.unsigned)
    return same == (after.name, after.arguments, after.labels, after.unsigned) or _is_wider(before, after)


def _read(text: str) -> ColumnType:
    cursor = Cursor(tokenize(text))
    found = read_type(cursor)
    cursor.end()
    return found


def _is_wider(old: ColumnType, new: ColumnType) -> bool:
    if new.unsigned and not old.unsigned:
        return False
    if old.name in INTEGERS:
        return _keeps_integers(old, new)
    if old.name == "decimal":
        return new.name == "decimal" and _whole_digits(new) >= _whole_digits(old) and _scale(new) >= _scale(old)
    if old.name == "float":
        return new.name in FLOATS and not new.arguments
    if old.name in ("enum", "set"):
        return new.name == old.name and _keeps_order(old.labels, new.labels)
    if old.name in ("datetime", "timestamp", "time", "bit"):
        return new.name == old.name and new.number >= old.number
    if old.name == "date":
        return new.name == "datetime"
    return _keeps_texts(old, new)


def _keeps_integers(old: ColumnType, new: ColumnType) -> bool:
    if new.name in INTEGERS:
        needed = _BITS[old.name] + (old.unsigned and not new.unsigned)
        return _BITS[new.name] >= needed
    if new.name == "decimal":
        return _whole_digits(new) >= _DIGITS[old.name]
    # A double has 53 bits for the digits, a float 24.
    return new.name in FLOATS and not new.arguments and _BITS[old.name] <= (32 if new.name == "double" else 24)


def _whole_digits(decimal: ColumnType) -> int:
    return decimal.number - _scale(decimal)


def _scale(decimal: ColumnType) -> int:
    return int(decimal.arguments[1])


def _keeps_order(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """Whether the old members are among the new ones in the same order, in which a set's value has them."""
    left = iter(new)
    return all(label in left for label in old)


def _keeps_texts(old: ColumnType, new: ColumnType) -> bool:
    """CHAR has no blanks at its end and BINARY is padded, so values may become these only from the same type."""
    if old.name not in TEXTS | BINARIES or (old.name in BINARIES) != (new.name in BINARIES):
        return False
    if new.name == "char":
        return old.name == "char" and new.number >= old.number
    if new.name in ("varchar", "varbinary"):
        return old.name in ("char", "varchar", "binary", "varbinary") and new.number >= old.number
    if new.name not in _BYTES:
        return False
    longest = _BYTES.get(old.name) or old.number * (1 if old.name in BINARIES else _LONGEST_CHARACTER)
    return 0 < longest <= _BYTES[new.name]
