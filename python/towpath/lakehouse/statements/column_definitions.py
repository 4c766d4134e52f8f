"""Column definitions in MySQL's DDL: the type, and the value that ADD COLUMN gives to existing rows."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.lakehouse.statements.column_types import ColumnType, read_charset, read_type
from towpath.lakehouse.statements.table_options import read_constraint_name
from towpath.lakehouse.statements.tokens import Cursor, Token, phrases
from towpath.lakehouse.statements.values import given_value, implicit_value

GENERATED = "the column is generated"
NUMBERED = "AUTO_INCREMENT assigns the values"
"""Why the value of a generated column is unknown."""


@dataclass(frozen=True)
class Column:
    """Column as a statement defines it."""

    name: str
    type: str
    """MySQL's type with its canonical name: `int(10) unsigned`, `decimal(10,2)`, `enum('a','b')`."""
    nullable: bool = True
    initial: str | bytes | None = None
    """Value of existing rows after ADD COLUMN. None is NULL.

    A text is as MySQL prints it (digits for `bit`); a binary type has bytes. Zero dates are text too: `zero_date`
    applies to them as it does in rows.
    """
    unknown: str | None = None
    """Why `initial` is unknown, for example DEFAULT CURRENT_TIMESTAMP; None if it is known."""
    primary: bool = False
    """Whether the column is declared as the primary key."""


def read_column(cursor: Cursor) -> Column:
    """Read a column's name, type, attributes and position. Leave the following tokens."""
    name = column_name(cursor)
    if cursor.accept("SERIAL"):
        found = _Definition(name, ColumnType("bigint", unsigned=True), nullable=False, unknown=NUMBERED)
    else:
        found = _Definition(name, read_type(cursor))
    return found.read(cursor)


def column_name(cursor: Cursor) -> str:
    """Read the name of a column, which may be qualified by table and database."""
    cursor.accept(".")
    name = cursor.name()
    while cursor.accept("."):
        name = cursor.name()
    return name


@dataclass
class _Definition:
    """Reader of the attributes after a type."""

    name: str
    type: ColumnType
    nullable: bool | None = None
    unknown: str | None = None
    primary: bool = False
    default: Token | None = None
    negative: bool = False

    def read(self, cursor: Cursor) -> Column:
        while cursor.peek() is not None and self._attribute(cursor):
            pass
        nullable = self.nullable is not False and not self.primary
        initial, unknown = self._initial(nullable)
        return Column(self.name, self.type.text, nullable, initial, unknown, self.primary)

    def _attribute(self, cursor: Cursor) -> bool:
        """Read one attribute. Return False if no attribute is next."""
        if cursor.accept("NOT NULL"):
            self.nullable = False
        elif cursor.accept("NULL"):
            self.nullable = True
        elif cursor.accept("DEFAULT"):
            self._default(cursor)
        elif cursor.accept("AUTO_INCREMENT"):
            self.unknown, self.nullable = NUMBERED, False
        elif cursor.accept("AUTO_RANDOM"):
            self.unknown = "AUTO_RANDOM assigns the values"
            cursor.skip_parentheses()
        elif cursor.accept_one("GENERATED ALWAYS AS", "AS"):
            self.unknown = GENERATED
            cursor.parenthesized()
            cursor.accept_one("VIRTUAL", "STORED", "PERSISTENT")
        elif cursor.accept_one("PRIMARY KEY", "PRIMARY", "KEY"):
            self.primary = True
            cursor.accept_one("CLUSTERED", "NONCLUSTERED")
        else:
            return _other_attribute(cursor)
        return True

    def _default(self, cursor: Cursor) -> None:
        inner = Cursor(cursor.parenthesized()) if cursor.word() == "(" else cursor
        self.negative = _sign(inner)
        self.default = _literal(inner)
        if inner is cursor and self.default is None:
            _function(cursor)
        if self.default is None or (inner is not cursor and inner.peek() is not None):
            self.unknown, self.default = "DEFAULT is an expression", None

    def _initial(self, nullable: bool) -> tuple[str | bytes | None, str | None]:
        if self.unknown:
            return None, self.unknown
        if self.default is None and self.type.name == "timestamp" and self.nullable is not True:
            return None, "the value of a TIMESTAMP without NULL and DEFAULT depends on explicit_defaults_for_timestamp"
        if self.default is None or self.default.raw.upper() == "NULL":
            return (None, None) if nullable else implicit_value(self.type)
        value = given_value(self.type, self.default, self.negative)
        return (value, None) if value is not None else (None, f"DEFAULT {self.default.raw[:40]} is converted by MySQL")


def _sign(cursor: Cursor) -> bool:
    if cursor.word() not in ("+", "-"):
        return False
    after = cursor.peek(1)
    if after is None or after.kind != "number":
        raise cursor.unexpected("a literal")
    return cursor.next().text == "-"


_INTRODUCERS = ("DATE", "TIME", "TIMESTAMP", "_UTF8MB4", "_UTF8", "_UTF8MB3")


def _literal(cursor: Cursor) -> Token | None:
    """Read a literal. Return None if another expression is next."""
    after = cursor.peek(1)
    if cursor.word() in ("NULL", "TRUE", "FALSE"):
        return cursor.next()
    if after and after.kind == "string" and cursor.accept_one(*_INTRODUCERS):
        return cursor.next()
    return cursor.accept_kind("string", "number", "bits", "bytes")


_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIMESTAMP", "LOCALTIME")


def _function(cursor: Cursor) -> None:
    """Read a function call without parentheses around it, which MariaDB accepts in DEFAULT."""
    if cursor.accept_one(*_NOW, "CURRENT_DATE", "CURRENT_TIME", "CURRENT_USER", "CURDATE", "CURTIME"):
        cursor.skip_parentheses()
        return
    cursor.name()
    cursor.parenthesized()


_SETTINGS = ("COLUMN_FORMAT", "STORAGE", "SRID", "REF_SYSTEM_ID", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE")


_MARKS = phrases(
    "FIRST, UNIQUE KEY, UNIQUE, VISIBLE, INVISIBLE, WITH SYSTEM VERSIONING, WITHOUT SYSTEM VERSIONING, NOT SECONDARY"
)


def _other_attribute(cursor: Cursor) -> bool:
    """Read an attribute that changes no values, or a position. Return False if neither is next."""
    if cursor.accept_one(*_MARKS):
        return True
    if cursor.accept("COMMENT"):
        cursor.expect_kind("string")
    elif cursor.accept_one("COLLATE", "CHARACTER SET", "CHARSET"):
        read_charset(cursor)
    elif cursor.accept_one(*_SETTINGS):
        cursor.accept("=")
        cursor.expect_kind("word", "string", "number")
    elif cursor.word() in ("CONSTRAINT", "CHECK"):
        read_constraint_name(cursor)
        cursor.expect("CHECK")
        cursor.parenthesized()
        cursor.accept_one("NOT ENFORCED", "ENFORCED")
    elif cursor.accept("REFERENCES"):
        _references(cursor)
    elif cursor.accept("ON UPDATE"):
        cursor.expect(*_NOW)
        cursor.skip_parentheses()
    elif cursor.accept("AFTER"):
        column_name(cursor)
    elif cursor.accept("COMPRESSED"):
        _ = cursor.accept("=") and cursor.next()
    else:
        return False
    return True


def _references(cursor: Cursor) -> None:
    cursor.name()
    if cursor.accept("."):
        cursor.name()
    cursor.skip_parentheses()
    cursor.accept_one("MATCH FULL", "MATCH PARTIAL", "MATCH SIMPLE")
    while cursor.accept_one("ON DELETE", "ON UPDATE"):
        cursor.expect("RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION", called="a foreign key action")
