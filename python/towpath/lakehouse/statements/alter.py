"""ALTER TABLE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from towpath.lakehouse.statements.actions import (
    Action,
    AddColumn,
    ChangePrimaryKey,
    DropColumn,
    ModifyColumn,
    NotFollowed,
    RenameColumn,
    RenameTable,
    TableName,
)
from towpath.lakehouse.statements.column_definitions import Column, column_name, read_column
from towpath.lakehouse.statements.table_names import Names
from towpath.lakehouse.statements.table_options import (
    INDEXES,
    is_index,
    read_constraint_name,
    read_options,
    read_primary_key,
    skip_partitioning,
)
from towpath.lakehouse.statements.tokens import Cursor, NotReadError, Token, phrases, split

_LOSES_ROWS = {
    "TRUNCATE PARTITION": "rows of a partition are removed",
    "DROP PARTITION": "rows of a partition are removed",
    "FIRST PARTITION": "rows of a partition are removed",
    "EXCHANGE PARTITION": "rows move between tables",
    "CONVERT PARTITION": "rows move between tables",
    "CONVERT TABLE": "rows move between tables",
    "DISCARD": "the rows' files are removed",
    "IMPORT": "the rows' files are replaced",
}
"""Clauses that are alone in their statement, with their effect that no row change in the log shows."""

_KEEPS_ROWS = phrases(
    """
    ADD PARTITION, COALESCE PARTITION, REORGANIZE PARTITION, ANALYZE PARTITION, CHECK PARTITION, OPTIMIZE PARTITION,
    REBUILD PARTITION, REPAIR PARTITION, SECONDARY_LOAD, SECONDARY_UNLOAD,
    LAST PARTITION, MERGE FIRST PARTITION, SPLIT, PARTITION, UPGRADE PARTITIONING, SET TIFLASH REPLICA,
    SET HYPO TIFLASH REPLICA, CACHE, NOCACHE, COMPACT, ATTRIBUTES, ADD STATS_EXTENDED, DROP STATS_EXTENDED
    """
)
"""Clauses that are alone in their statement and only move rows in the table. From LAST PARTITION on they are TiDB's."""

_NO_EFFECT = phrases(
    """
    ADD SYSTEM VERSIONING, DROP SYSTEM VERSIONING, ADD PERIOD FOR, DROP PERIOD FOR, ALTER, DROP FOREIGN KEY, DROP CHECK,
    RENAME INDEX, RENAME KEY
    """
)
_STORAGE = phrases("ENABLE KEYS, DISABLE KEYS, FORCE, REMOVE PARTITIONING, REMOVE TTL")
_UNICODE = ("UTF8MB4", "UTF16", "UTF16LE", "UTF32", "GB18030")
"""Character sets that contain the characters of all others."""

EXISTENCE = ("IF EXISTS", "IF NOT EXISTS")


def read_alter_table(cursor: Cursor, names: Names) -> list[Action]:
    """Return the actions of ALTER TABLE, after these words."""
    cursor.accept("IF EXISTS")
    table = names.read(cursor)
    wait(cursor)
    while _modifier(cursor):
        cursor.accept(",")
    if phrase := cursor.accept_one(*_LOSES_ROWS):
        _other_table(cursor.rest, names)
        return [NotFollowed(f"{phrase}: {_LOSES_ROWS[phrase]}", tuple(names.tables))]
    if cursor.peek() is None or cursor.accept_one(*_KEEPS_ROWS):
        return []
    clauses = _Clauses(table, names)
    return _in_order([action for part in split(cursor.rest, ",") for action in clauses.read(Cursor(part))])


def wait(cursor: Cursor) -> None:
    """Read MariaDB's time to wait for a lock."""
    if cursor.accept("WAIT"):
        cursor.next()
    cursor.accept("NOWAIT")


def _modifier(cursor: Cursor) -> bool:
    if not cursor.accept_one("ALGORITHM", "LOCK"):
        return bool(cursor.accept_one("WITH VALIDATION", "WITHOUT VALIDATION"))
    cursor.accept("=")
    cursor.name()
    return True


def _other_table(tokens: Sequence[Token], names: Names) -> None:
    """Read the other table of EXCHANGE PARTITION p WITH TABLE t, and of MariaDB's CONVERT."""
    cursor = Cursor(tokens)
    if cursor.word(1) == "TO" and cursor.word(2) == "PARTITION":
        names.read(cursor)
    while cursor.peek():
        if cursor.accept_one("WITH TABLE", "TO TABLE"):
            names.read(cursor)
            return
        cursor.next()


class _Clauses:
    """Reader of the clauses of one statement."""

    def __init__(self, table: TableName, names: Names) -> None:
        self.table = table
        self.names = names
        self._is_sorting = False

    def read(self, cursor: Cursor) -> list[Action]:
        """Return the actions of one clause."""
        if cursor.peek() is None:
            raise cursor.unexpected("a clause of ALTER TABLE")
        actions = list(self._clause(cursor))
        cursor.end()
        return actions

    def _clause(self, cursor: Cursor) -> Iterator[Action]:
        if cursor.accept_one(*_NO_EFFECT):
            cursor.skip()
            return iter(())
        if cursor.accept("ADD"):
            return self._add(cursor)
        if cursor.accept("DROP"):
            return self._drop(cursor)
        if cursor.accept("RENAME"):
            return self._rename(cursor)
        if verb := cursor.accept_one("MODIFY COLUMN", "MODIFY", "CHANGE COLUMN", "CHANGE"):
            return self._change(cursor, is_renamed=verb.startswith("CHANGE"))
        return self._other(cursor)

    def _other(self, cursor: Cursor) -> Iterator[Action]:
        if cursor.accept("CONVERT TO"):
            is_set = cursor.accept_one("CHARACTER SET", "CHARSET", "CHAR SET")
            if not is_set or cursor.word() not in _UNICODE:  # characters outside of the new set are lost
                yield NotFollowed("CONVERT TO CHARACTER SET converts the rows", (self.table,))
            cursor.skip()
        elif cursor.accept("ORDER BY"):
            column_name(cursor)
            cursor.accept_one("ASC", "DESC")
            self._is_sorting = True
        elif self._is_sorting and _is_sort_column(cursor):
            cursor.skip()
        elif not cursor.accept_one(*_STORAGE) and not _modifier(cursor):
            if "ENGINE BLACKHOLE" in read_options(cursor):
                yield NotFollowed("the engine BLACKHOLE keeps no rows", (self.table,))
            skip_partitioning(cursor)

    def _add(self, cursor: Cursor) -> Iterator[Action]:
        read_constraint_name(cursor)
        if cursor.accept("PRIMARY KEY"):
            yield ChangePrimaryKey(self.table, read_primary_key(cursor))
            cursor.skip()
        elif cursor.accept_one(*INDEXES):
            cursor.skip()
        else:
            cursor.accept("COLUMN")
            yield from self._add_columns(cursor)

    def _add_columns(self, cursor: Cursor) -> Iterator[Action]:
        if_not_exists = cursor.accept("IF NOT EXISTS")
        if cursor.word() != "(":
            yield from self._add_column(cursor, if_not_exists)
            return
        for part in split(cursor.parenthesized(), ","):
            one = Cursor(part)
            if is_index(one):
                yield from self._add(one)
            else:
                yield from self._add_column(one, if_not_exists)
            one.end()

    def _add_column(self, cursor: Cursor, if_not_exists: bool) -> Iterator[Action]:
        column = read_column(cursor)
        yield AddColumn(self.table, column, if_not_exists)
        yield from self._primary(column)

    def _primary(self, column: Column) -> Iterator[Action]:
        if column.primary:
            yield ChangePrimaryKey(self.table, (column.name,))

    def _change(self, cursor: Cursor, *, is_renamed: bool) -> Iterator[Action]:
        """Yield the actions of MODIFY, or of CHANGE, which modifies a column and then renames it."""
        cursor.accept_one(*EXISTENCE)
        old = column_name(cursor) if is_renamed else ""
        column = read_column(cursor)
        yield ModifyColumn(self.table, replace(column, name=old or column.name))
        if is_renamed and old.lower() != column.name.lower():
            yield RenameColumn(self.table, old, column.name)
        yield from self._primary(column)

    def _drop(self, cursor: Cursor) -> Iterator[Action]:
        if cursor.accept("PRIMARY KEY"):
            yield ChangePrimaryKey(self.table, ())
            return
        is_key = cursor.accept_one("INDEX", "KEY", "CONSTRAINT")
        if not is_key:
            cursor.accept("COLUMN")
        cursor.accept_one(*EXISTENCE)
        name = column_name(cursor)
        cursor.accept_one("RESTRICT", "CASCADE")
        if not is_key:
            yield DropColumn(self.table, name)
        elif name.upper() == "PRIMARY":
            yield ChangePrimaryKey(self.table, ())

    def _rename(self, cursor: Cursor) -> Iterator[Action]:
        if cursor.accept("COLUMN"):
            cursor.accept_one(*EXISTENCE)
            old = column_name(cursor)
            cursor.expect("TO")
            yield RenameColumn(self.table, old, column_name(cursor))
        else:
            cursor.accept_one("TO", "AS", "=")
            yield RenameTable(((self.table, self.names.read(cursor)),))


def _is_sort_column(cursor: Cursor) -> bool:
    """Return whether a part of the statement is a further column of ORDER BY."""
    ahead = Cursor(cursor.rest)
    try:
        column_name(ahead)
    except NotReadError:
        return False
    ahead.accept_one("ASC", "DESC")
    return ahead.peek() is None


_ORDER = (DropColumn, ModifyColumn, RenameColumn, AddColumn, ChangePrimaryKey, NotFollowed, RenameTable)


def _in_order(actions: list[Action]) -> list[Action]:
    """Order the actions. MySQL runs all clauses at once on the old names, so free a name before its reuse."""
    renaming = _freed_first([action for action in actions if isinstance(action, RenameColumn)])
    others = [action for action in actions if not isinstance(action, RenameColumn)]
    if any(isinstance(action, ChangePrimaryKey) and action.columns for action in others):
        # A key is dropped before another one is added.
        others = [action for action in others if not isinstance(action, ChangePrimaryKey) or action.columns]
    return sorted([*renaming, *others], key=lambda action: _ORDER.index(type(action)))


def _freed_first(actions: list[RenameColumn]) -> list[RenameColumn]:
    """Order renames so that no new name is the old name of a later one. Columns that exchange names use a spare one."""
    left = {action.old.lower(): action for action in actions}
    if len(left) < len(actions):
        raise NotReadError("a column is renamed twice")
    ordered: list[RenameColumn] = []
    while left:
        first = name = next(iter(left))
        chain = []
        while name in left:
            chain.append(left.pop(name))
            name = chain[-1].new.lower()
        if name == first and len(chain) > 1:
            spare = f"{chain[0].old} "  # MySQL allows no name that ends with a space
            ordered.append(replace(chain[0], new=spare))
            chain[0] = replace(chain[0], old=spare)
        ordered.extend(reversed(chain))
    return ordered
