"""Actions for a table's replica after a DDL statement."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.lakehouse.statements.column_definitions import Column


@dataclass(frozen=True)
class TableName:
    """Table of the source. Names keep their case; a setting of the server decides whether case matters."""

    database: str | None
    table: str


@dataclass(frozen=True)
class AddColumn:
    """ADD COLUMN. The position of the column is ignored."""

    table: TableName
    column: Column
    if_not_exists: bool = False


@dataclass(frozen=True)
class ModifyColumn:
    """MODIFY COLUMN: a new type, nullability or default. CHANGE COLUMN is this action, then RENAME COLUMN."""

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
    """A primary key that is added, dropped or changed."""

    table: TableName
    columns: tuple[str, ...]
    """Columns of the new key in order; empty if the table has no key."""


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
    """DROP DATABASE, which drops all of its tables."""

    database: str


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE. A table from a query lists only the columns that are spelled out."""

    table: TableName
    columns: tuple[Column, ...] = ()
    primary_key: tuple[str, ...] = ()
    if_not_exists: bool = False
    like: TableName | None = None
    """Table whose definition is copied without its rows."""


@dataclass(frozen=True)
class RenameTable:
    """RENAME TABLE, or ALTER TABLE with RENAME: pairs of the old and the new name, to be applied in this order."""

    pairs: tuple[tuple[TableName, TableName], ...]


@dataclass(frozen=True)
class NotFollowed:
    """Change of rows or columns that no reader of the log can follow, or a statement that could not be read."""

    reason: str
    tables: tuple[TableName, ...] = ()
    """Affected tables, as far as known. If empty, the message's table is affected."""
    others: tuple[TableName, ...] = ()
    """Known tables that may be affected too: in any database if it is None, all of a database if `table` is empty."""


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
    """Return the tables that an action names."""
    if isinstance(action, RenameTable):
        return [name for pair in action.pairs for name in pair]
    if isinstance(action, NotFollowed):
        return list(action.tables)
    return [] if isinstance(action, DropDatabase) else [action.table]
