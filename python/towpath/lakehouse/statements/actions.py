"""What a table's replica has to do after a DDL statement."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.lakehouse.statements.column_definitions import Column


@dataclass(frozen=True)
class TableName:
    """A table of the source. Names keep their case; whether case matters is a setting of the server."""

    database: str | None
    table: str


@dataclass(frozen=True)
class AddColumn:
    """ADD COLUMN. Its position is ignored."""

    table: TableName
    column: Column
    if_not_exists: bool = False


@dataclass(frozen=True)
class ModifyColumn:
    """MODIFY COLUMN: another type, nullability or default. CHANGE COLUMN is this, then RENAME COLUMN."""

    table: TableName
    column: Column


@dataclass(frozen=True)
class RenameColumn:
    """RENAME COLUMN."""

    table: TableName
    old: str
    new: str


@dataclass(frozen=True)
class DropColumn:
    """DROP COLUMN."""

    table: TableName
    name: str


@dataclass(frozen=True)
class ChangePrimaryKey:
    """The primary key is added, dropped, or another one."""

    table: TableName
    columns: tuple[str, ...]
    """Its columns in order; empty if the table has none now."""


@dataclass(frozen=True)
class TruncateTable:
    """TRUNCATE TABLE."""

    table: TableName


@dataclass(frozen=True)
class DropTable:
    """DROP TABLE."""

    table: TableName


@dataclass(frozen=True)
class DropDatabase:
    """DROP DATABASE: all of its tables are gone."""

    database: str


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE. A table made from a query has the columns that are spelled out only."""

    table: TableName
    columns: tuple[Column, ...] = ()
    primary_key: tuple[str, ...] = ()
    if_not_exists: bool = False
    like: TableName | None = None
    """The table whose definition is copied, without its rows."""


@dataclass(frozen=True)
class RenameTable:
    """RENAME TABLE, or ALTER TABLE with RENAME: pairs of the old and the new name, to be done in this order."""

    pairs: tuple[tuple[TableName, TableName], ...]


@dataclass(frozen=True)
class NotFollowed:
    """Rows or columns changed in a way that no reader of the log can follow, or the statement could not be read."""

    reason: str
    tables: tuple[TableName, ...] = ()
    """The tables that are concerned, as far as they are known; if none is, it is the table of the message."""
    others: tuple[TableName, ...] = ()
    """Known tables that may be concerned too: of any database if it is None, all of a database if `table` is empty."""


Action = (
    AddColumn
    | ModifyColumn
    | RenameColumn
    | DropColumn
    | ChangePrimaryKey
    | TruncateTable
    | DropTable
    | DropDatabase
    | CreateTable
    | RenameTable
    | NotFollowed
)


def tables_of(action: Action) -> list[TableName]:
    """The tables that an action names."""
    if isinstance(action, RenameTable):
        return [name for pair in action.pairs for name in pair]
    if isinstance(action, NotFollowed):
        return list(action.tables)
    return [] if isinstance(action, DropDatabase) else [action.table]
