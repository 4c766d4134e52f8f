"""Types in MySQL's DDL and their canonical names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from towpath.lakehouse.statements.tokens import Cursor, NotReadError, split


@dataclass(frozen=True)
class ColumnType:
    """A type."""

    name: str
    arguments: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    unsigned: bool = False
    zerofill: bool = False

    @property
    def text(self) -> str:
        """The type as MySQL spells it."""
        labels = (label.replace("\\", "\\\\").replace("'", "''") for label in self.labels)
        inner = ",".join(f"'{label}'" for label in labels) or ",".join(self.arguments)
        return f"{self.name}{f'({inner})' if inner else ''}{' unsigned' * self.unsigned}{' zerofill' * self.zerofill}"

    @property
    def number(self) -> int:
        """The first argument; 0 without one."""
        return int(self.arguments[0]) if self.arguments else 0


_INTEGERS = {
    "TINYINT": "tinyint",
    "INT1": "tinyint",
    "SMALLINT": "smallint",
    "INT2": "smallint",
    "MEDIUMINT": "mediumint",
    "MIDDLEINT": "mediumint",
    "INT3": "mediumint",
    "INT": "int",
    "INTEGER": "int",
    "INT4": "int",
    "BIGINT": "bigint",
    "INT8": "bigint",
}
_FLOATS = {"FLOAT": "float", "FLOAT4": "float", "DOUBLE": "double", "DOUBLE PRECISION": "double", "FLOAT8": "double"}
_DECIMALS = dict.fromkeys(("DECIMAL", "DEC", "NUMERIC", "FIXED"), "decimal")
_CHARS = dict.fromkeys(("CHAR", "CHARACTER", "NCHAR", "NATIONAL CHAR", "NATIONAL CHARACTER"), "char")
_VARCHARS = dict.fromkeys(
    (
        *("VARCHAR", "VARCHARACTER", "CHAR VARYING", "CHARACTER VARYING", "NVARCHAR", "NCHAR VARCHAR", "NCHAR VARYING"),
        *("NATIONAL VARCHAR", "NATIONAL VARCHARACTER", "NATIONAL CHAR VARYING", "NATIONAL CHARACTER VARYING"),
    ),
    "varchar",
)
_TEXTS = {
    **{name.upper(): name for name in ("tinytext", "text", "mediumtext", "longtext")},
    **dict.fromkeys(("LONG", "LONG VARCHAR", "LONG VARCHARACTER", "LONG CHAR VARYING"), "mediumtext"),
    "LONG CHARACTER VARYING": "mediumtext",
}
_BLOBS = {
    **{name.upper(): name for name in ("tinyblob", "blob", "mediumblob", "longblob")},
    "LONG VARBINARY": "mediumblob",
}
_FRACTIONS = {name.upper(): name for name in ("time", "datetime", "timestamp")}
_GEOMETRIES = {
    name.upper(): name
    for name in (
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    )
}
_OTHERS = {name.upper(): name for name in ("date", "json", "uuid", "inet4", "inet6")}

# Each group of types with the least and the greatest count of numbers in parentheses, and what they are without.
_GROUPS: tuple[tuple[dict[str, str], int, int, tuple[str, ...]], ...] = (
    (_INTEGERS, 0, 1, ()),
    (_FLOATS, 0, 2, ()),
    (_DECIMALS, 0, 2, ("10", "0")),
    (_CHARS | {"BINARY": "binary", "BIT": "bit"}, 0, 1, ("1",)),
    (_VARCHARS | {"VARBINARY": "varbinary"}, 1, 1, ()),
    (_TEXTS | _BLOBS, 0, 1, ()),
    (_FRACTIONS | {"YEAR": "year", "VECTOR": "vector"}, 0, 1, ()),
    (_GEOMETRIES | _OTHERS, 0, 0, ()),
)
_ARGUMENTS = {
    words: (name, least, most, default) for types, least, most, default in _GROUPS for words, name in types.items()
}
_WORDS = sorted(_ARGUMENTS, key=lambda words: -len(words.split()))

_BYTES = {"char": "binary", "varchar": "varbinary"} | {
    f"{size}text": f"{size}blob" for size in ("tiny", "", "medium", "long")
}
"""What a type of characters is in the character set `binary`."""

INTEGERS = frozenset(_INTEGERS.values())
FLOATS = frozenset(_FLOATS.values())
BINARIES = frozenset(_BYTES.values())
TEXTS = frozenset(_BYTES)
NUMBERS = INTEGERS | FLOATS | {"decimal", "bit"}


def read_type(cursor: Cursor) -> ColumnType:
    """Read a type with its character set and collation, UNSIGNED and ZEROFILL.

    Raises:
        NotReadError: No type of MySQL is next.
    """
    if kind := cursor.accept_one("ENUM", "SET"):
        return _collated(cursor, ColumnType(kind.lower(), labels=_labels(cursor)))
    if cursor.accept_one("BOOLEAN", "BOOL"):
        return ColumnType("tinyint", ("1",))
    if cursor.accept("REAL"):
        # With the SQL mode REAL_AS_FLOAT it is a float, whose values a double holds too.
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
    # TEXT(n) is the smallest type of its kind that holds n characters; that makes no difference to its values.
    drops_arguments = name in _TEXTS.values() or name in _BLOBS.values() or name == "year"
    found = ColumnType(name, () if drops_arguments else arguments)
    return _collated(cursor, found) if name in TEXTS else found


def _numbers(cursor: Cursor, least: int, most: int) -> tuple[str, ...]:
    parts = split(cursor.parenthesized(), ",") if cursor.word() == "(" else []
    numbers = tuple(part[0].text for part in parts if len(part) == 1 and re.fullmatch("[0-9]{1,9}", part[0].raw))
    if len(numbers) != len(parts) or not least <= len(numbers) <= most:
        raise NotReadError(f"a type with {len(parts)} arguments, of which {len(numbers)} are numbers")
    return tuple(str(int(number)) for number in numbers)


def _labels(cursor: Cursor) -> tuple[str, ...]:
    """The members of an enum or set. MySQL drops blanks at their ends."""
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
    """A type of characters, with its character set and collation: they matter only if the set is `binary`."""
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
    token = cursor.accept_kind("word", "name", "string")
    if token is None:
        raise cursor.unexpected("a character set or collation")
    return token.text.upper()
