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
    """The actions of CREATE TABLE, or of MariaDB's CREATE OR REPLACE TABLE, after these words."""
    if_not_exists = cursor.accept("IF NOT EXISTS")
    table = names.read(cursor)
    like = _like(cursor, names)
    columns, key = ((), ()) if like else _elements(cursor)
    created = CreateTable(table, columns, key, if_not_exists, like)
    _rest(cursor, bool(columns or like))
    return [DropTable(table), created] if replaced else [created]


def _like(cursor: Cursor, names: Names) -> TableName | None:
    """Read LIKE and the table, which may be in parentheses, if they are next."""
    original = names.next_statement()  # its rows do not change
    if cursor.accept("LIKE"):
        return original.read(cursor)
    if cursor.accept("( LIKE"):
        like = original.read(cursor)
        cursor.expect(")")
        return like
    return None


def _elements(cursor: Cursor) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Read the columns and the primary key, if they are spelled out: a query's columns are not."""
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


def _rest(cursor: Cursor, is_spelled_out: bool) -> None:
    """Read the options, the partitions, and a query to the end: its rows are changes of rows in the log."""
    read_options(cursor)
    skip_partitioning(cursor)
    if not is_query(cursor):
        cursor.end()
        if not is_spelled_out:
            raise cursor.unexpected("columns or a query")
