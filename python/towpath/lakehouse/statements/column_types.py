"""Types in MySQL's DDL and their canonical names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from towpath.lakehouse.statements.tokens import Cursor, NotReadError, phrases, split


@dataclass(frozen=True)
class ColumnType:
    """Column type."""

    name: str
    arguments: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    unsigned: bool = False
    zerofill: bool = False

    @property
    def text(self) -> str:
        """Type in MySQL's spelling."""
        labels = (label.replace("\\", "\\\\").replace("'", "''") for label in self.labels)
        inner = ",".join(f"'{label}'" for label in labels) or ",".join(self.arguments)
        return f"{self.name}{f'({inner})' if inner else ''}{' unsigned' * self.unsigned}{' zerofill' * self.zerofill}"

    @property
    def number(self) -> int:
        """First argument, or 0."""
        return int(self.arguments[0]) if self.arguments else 0


_CHARACTERS = ("CHAR", "CHARACTER", "NCHAR", "NATIONAL CHAR", "NATIONAL CHARACTER")
_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")

# Types with the minimum and maximum count of numbers in parentheses, and their defaults. Each name is also one of its
# spellings.
_GROUPS: tuple[tuple[int, int, tuple[str, ...], dict[str, str]], ...] = (
    (0, 1, (), {"tinyint": "INT1", "smallint": "INT2", "mediumint": "MIDDLEINT, INT3"}),
    (0, 1, (), {"int": "INTEGER, INT4", "bigint": "INT8"}),
    (0, 2, (), {"float": "FLOAT4", "double": "DOUBLE PRECISION, FLOAT8"}),
    (0, 2, ("10", "0"), {"decimal": "DEC, NUMERIC, FIXED"}),
    (0, 1, ("1",), {"char": ",".join(_CHARACTERS), "binary": "", "bit": ""}),
    (1, 1, (), {"varchar": "VARCHARACTER, NVARCHAR, NCHAR VARCHAR, NATIONAL VARCHAR, NATIONAL VARCHARACTER"}),
    (1, 1, (), {"varchar": ",".join(f"{one} VARYING" for one in _CHARACTERS), "varbinary": ""}),
    (0, 1, (), dict.fromkeys((*_TEXTS, *_BLOBS), "")),
    (0, 1, (), {"mediumtext": "LONG, LONG VARCHAR, LONG VARCHARACTER, LONG CHAR VARYING, LONG CHARACTER VARYING"}),
    (0, 1, (), {"mediumblob": "LONG VARBINARY"}),
    (0, 1, (), dict.fromkeys(("time", "datetime", "timestamp", "year", "vector"), "")),
    (0, 0, (), dict.fromkeys(("date", "json", "uuid", "inet4", "inet6", "geometry", "point", "linestring"), "")),
    (0, 0, (), dict.fromkeys(("polygon", "multipoint", "multilinestring", "multipolygon"), "")),
    (0, 0, (), dict.fromkeys(("geometrycollection", "geomcollection"), "")),
)
_ARGUMENTS = {
    words: (name, least, most, default)
    for least, most, default, types in _GROUPS
    for name, spellings in types.items()
    for words in (name.upper(), *phrases(spellings))
}
_WORDS = sorted(_ARGUMENTS, key=lambda words: -len(words.split()))

_BYTES = {"char": "binary", "varchar": "varbinary"} | {
    f"{size}text": f"{size}blob" for size in ("tiny", "", "medium", "long")
}
"""Binary types of character types with the character set `binary`."""

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
FLOATS = frozenset({"float", "double"})
BINARIES = frozenset(_BYTES.values())
TEXTS = frozenset(_BYTES)
NUMBERS = INTEGERS | FLOATS | {"decimal", "bit"}


def read_type(cursor: Cursor) -> ColumnType:
    """Read a type with its character set and collation, UNSIGNED and ZEROFILL."""
    if kind := cursor.accept_one("ENUM", "SET"):
        return _collated(cursor, ColumnType(kind.lower(), labels=_labels(cursor)))
    if cursor.accept_one("BOOLEAN", "BOOL"):
        return ColumnType("tinyint", ("1",))
    if cursor.accept("REAL"):
        # In the SQL mode REAL_AS_FLOAT the type is a float. A double holds its values too.
        return _numeric(cursor, ColumnType("double", _numbers(cursor, 0, 2)))
    words = cursor.accept_one(*_WORDS)
    if not words:
        raise cursor.unexpected("a type")
    name, least, most, default = _ARGUMENTS[words]
    arguments = _numbers(cursor, least, most) or default
    return _completed(cursor, name, arguments)


def _completed(cursor: Cursor, name: str, arguments: tuple[str, ...]) -> ColumnType:
    if name == "float" and len(arguments) == 1:
        return _numeric(cursor, ColumnType("double" if int(arguments[0]) > 24 else "float"))
    if name == "decimal" and len(arguments) == 1:
        arguments = (*arguments, "0")
    if name in NUMBERS and name != "bit":
        return _numeric(cursor, ColumnType(name, arguments))
    # TEXT(n) is the smallest type of its kind that holds n characters. Its values stay the same.
    found = ColumnType(name, () if name in (*_TEXTS, *_BLOBS, "year") else arguments)
    return _collated(cursor, found) if name in TEXTS else found


def _numbers(cursor: Cursor, least: int, most: int) -> tuple[str, ...]:
    parts = split(cursor.parenthesized(), ",") if cursor.word() == "(" else []
    numbers = tuple(part[0].text for part in parts if len(part) == 1 and re.fullmatch("[0-9]{1,9}", part[0].raw))
    if len(numbers) != len(parts) or not least <= len(numbers) <= most:
        raise NotReadError(f"a type with {len(parts)} arguments, of which {len(numbers)} are numbers")
    return tuple(str(int(number)) for number in numbers)


def _labels(cursor: Cursor) -> tuple[str, ...]:
    """Read the members of an enum or set. MySQL drops trailing blanks."""
    parts = split(cursor.parenthesized(), ",")
    if any(len(part) != 1 or part[0].kind != "string" for part in parts):
        raise NotReadError("an enum or set with a member that is not a string")
    return tuple(part[0].text.rstrip(" ") for part in parts)


def _numeric(cursor: Cursor, found: ColumnType) -> ColumnType:
    words = set()
    while word := cursor.accept_one("UNSIGNED", "SIGNED", "ZEROFILL"):
        words.add(word)
    zerofill = "ZEROFILL" in words
    return ColumnType(found.name, found.arguments, unsigned=zerofill or "UNSIGNED" in words, zerofill=zerofill)


def _collated(cursor: Cursor, found: ColumnType) -> ColumnType:
    """Read the character set and collation of a character type. They only matter if the set is `binary`."""
    name = found.name
    while True:
        if cursor.accept("BYTE"):
            name = _BYTES.get(name, name)
        elif cursor.accept_one("CHARACTER SET", "CHARSET", "CHAR SET"):
            if read_charset(cursor) == "BINARY":
                name = _BYTES.get(name, name)
        elif cursor.accept("COLLATE"):
            read_charset(cursor)
        elif not cursor.accept_one("BINARY", "ASCII", "UNICODE"):
            return ColumnType(name, found.arguments, found.labels)


def read_charset(cursor: Cursor) -> str:
    """Read the name of a character set or collation, and return it in upper case."""
    return cursor.expect_kind("word", "name", "string").text.upper()
