"""CREATE TABLE."""

from __future__ import annotations

from towpath.lakehouse.statements.actions import Action, CreateTable, DropTable, TableName
from towpath.lakehouse.statements.column_definitions import Column, read_column
from towpath.lakehouse.statements.table_names import Names
from towpath.lakehouse.statements.table_options import (
    is_index,
    is_query,
    read_constraint_name,
    read_options,
    read_primary_key,
    skip_partitioning,
)
from towpath.lakehouse.statements.tokens import Cursor, split


def read_create_table(cursor: Cursor, names: Names, replaced: bool) -> list[Action]:
    """Return the actions of CREATE TABLE, or of MariaDB's CREATE OR REPLACE TABLE, after these words."""
    if_not_exists = cursor.accept("IF NOT EXISTS")
    table = names.read(cursor)
    like = _like(cursor, names)
    columns, key = ((), ()) if like else _elements(cursor)
    read_options(cursor)
    skip_partitioning(cursor)
    if not is_query(cursor):  # the log has the rows of a query as row changes
        cursor.end()
        if not columns and not like:
            raise cursor.unexpected("columns or a query")
    created = CreateTable(table, columns, key, if_not_exists, like)
    return [DropTable(table), created] if replaced else [created]


def _like(cursor: Cursor, names: Names) -> TableName | None:
    """Read LIKE and its table, perhaps in parentheses, if they are next."""
    phrase = cursor.accept_one("LIKE", "( LIKE")
    if not phrase:
        return None
    like = names.next_statement().read(cursor)  # the rows of this table do not change
    if phrase == "( LIKE":
        cursor.expect(")")
    return like


def _elements(cursor: Cursor) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Read the columns and the primary key, if they are spelled out. A query's columns are not."""
    if cursor.word() != "(" or is_query(cursor, 1):
        return (), ()
    columns: list[Column] = []
    key: tuple[str, ...] = ()
    for part in split(cursor.parenthesized(), ","):
        element = Cursor(part)
        if is_index(element):
            key = _primary_key(element) or key
        else:
            columns.append(read_column(element))
            element.end()
    return tuple(columns), key or tuple(column.name for column in columns if column.primary)


def _primary_key(element: Cursor) -> tuple[str, ...]:
    read_constraint_name(element)
    return read_primary_key(element) if element.accept("PRIMARY KEY") else ()
