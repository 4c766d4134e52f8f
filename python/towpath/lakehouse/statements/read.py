"""Reads the statements in a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from towpath.lakehouse.statements.actions import (
    Action,
    ChangePrimaryKey,
    CreateTable,
    DropDatabase,
    DropTable,
    NotFollowed,
    RenameTable,
    TableName,
    TruncateTable,
    tables_of,
)
from towpath.lakehouse.statements.alter import EXISTENCE, read_alter_table, wait
from towpath.lakehouse.statements.create import read_create_table
from towpath.lakehouse.statements.table_names import Names
from towpath.lakehouse.statements.tokens import Cursor, NotReadError, Token, phrases, split, tokenize

MAX_LENGTH = 256 * 1024
"""Maximum characters of a text. A longer text is `NotFollowed`. The time to read a text is linear in its length."""

_BODIES = ("PROCEDURE", "FUNCTION", "AGGREGATE FUNCTION", "TRIGGER", "EVENT", "PACKAGE")
"""Objects whose definition may contain semicolons: it extends to the end of the text."""

_OBJECTS = _BODIES + phrases(
    """
    VIEW, USER, ROLE, SERVER, TABLESPACE, UNDO TABLESPACE, LOGFILE GROUP, RESOURCE, SEQUENCE, SPATIAL REFERENCE SYSTEM,
    INSTANCE, LIBRARY, MASKING POLICY, PLACEMENT POLICY, BINDING, GLOBAL BINDING, SESSION BINDING, PREPARE, STATISTICS,
    RANGE, TEMPORARY
    """
)
"""Objects of CREATE, ALTER and DROP besides tables, indexes and databases. TEMPORARY tables are not replicated."""

_HARMLESS = phrases(
    """
    GRANT, REVOKE, SET, FLUSH, RESET, ANALYZE TABLE, ANALYZE LOCAL TABLE, ANALYZE NO_WRITE_TO_BINLOG TABLE, OPTIMIZE,
    CHECK TABLE, CHECKSUM, REPAIR, BEGIN, START TRANSACTION, COMMIT, ROLLBACK, SAVEPOINT, RELEASE, XA, LOCK, UNLOCK,
    RENAME USER, INSTALL, UNINSTALL, KILL, SHOW, DESCRIBE, DESC, CACHE INDEX, SPLIT TABLE, SPLIT REGION,
    SPLIT PARTITION, ADMIN, REFRESH, DROP STATS, LOAD STATS, LOCK STATS
    """
)
_ROWS = ("INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "IMPORT", "CALL", "WITH", "EXECUTE", "DO", "SELECT")
_INDEX = ("ONLINE INDEX", "OFFLINE INDEX", "INDEX")


def read_statements(text: str, database: str | None = None, table: str | None = None) -> list[Action]:
    """Return the actions of the statements in a text, in execution order.

    Args:
        text: One statement, or several with semicolons between them.
        database: The default database, for tables that are named without a database.
        table: The table of the message in this database.

    Returns:
        Actions. Statements that change neither rows nor columns have none. A statement that cannot be read in full has
        `NotFollowed` as its only action.

    Raises:
        ImportError: sqlglot is not installed. The text never causes an error.
    """
    if len(text) > MAX_LENGTH:
        return [NotFollowed(f"the statement is longer than {MAX_LENGTH} characters", others=_words(text, database))]
    try:
        tokens = tokenize(text)
    except NotReadError as error:
        return [NotFollowed(f"the statement could not be read: {error}", others=_words(text, database))]
    found = _actions(tokens, Names(database, table))
    unconditional = [token for token in tokens if not token.conditional]
    if len(unconditional) == len(tokens):
        return found
    elsewhere = _actions(unconditional, Names(database, table))
    if _effects(elsewhere) == _effects(found):
        return found
    reason = "an executable comment changes the effect of the statement on some servers only"
    tables = dict.fromkeys(name for one in (*found, *elsewhere) for name in tables_of(one))
    others = dict.fromkeys(name for one in (*found, *elsewhere) if isinstance(one, NotFollowed) for name in one.others)
    return [NotFollowed(reason, tuple(tables), tuple(others))]


def _words(text: str, database: str | None) -> tuple[TableName, ...]:
    """Return the words of a text that cannot be split. Each may be the name of a table."""
    quoted = (name for pair in re.findall(r"`([^`]+)`|\"([^\"]+)\"", text) for name in pair if name)
    words = dict.fromkeys([*re.findall(r"[\w$]+", text), *quoted])
    return tuple(TableName(None if "." in text else database, word) for word in words)


def _effects(actions: Sequence[Action]) -> list[Action]:
    """Return the actions without initial values of columns if a table is created, since it has no rows."""
    return [_of_no_rows(one) if isinstance(one, CreateTable) else one for one in actions]


def _of_no_rows(created: CreateTable) -> CreateTable:
    return replace(created, columns=tuple(replace(one, initial=None, unknown=None) for one in created.columns))


def _actions(tokens: Sequence[Token], names: Names) -> list[Action]:
    actions: list[Action] = []
    for tokens_of_one in filter(None, split(tokens, ";")):
        cursor = Cursor(tokens_of_one)
        names = names.next_statement()
        try:
            if _is_body(cursor):
                break
            found = _statement(cursor, names)
            actions += _ambiguous(found, names) if found and names.are_ambiguous else found
        except NotReadError as error:
            names.read_renamed(tokens_of_one)
            reason = f"the statement could not be read: {error}"
            actions.append(NotFollowed(reason, tuple(names.tables), names.others(tokens_of_one)))
    return actions


def _ambiguous(actions: Sequence[Action], names: Names) -> list[Action]:
    reasons = [one.reason for one in actions if isinstance(one, NotFollowed)]
    reason = "; ".join(reasons) or "a table name has no database, and the session's database is unknown"
    return [NotFollowed(reason, tuple(names.tables), names.of_any_database)]


def _statement(cursor: Cursor, names: Names) -> list[Action]:
    if cursor.accept_one("SET STATEMENT", "BEGIN NOT"):
        raise NotReadError("MariaDB's SET STATEMENT and BEGIN NOT ATOMIC contain other statements")
    if cursor.accept_one(*_HARMLESS):
        return []
    verb = cursor.accept_one(*_READERS, *_ROWS)
    if verb in _READERS:
        return _READERS[verb](cursor, names)
    if verb:
        tables = _changed_tables(verb, cursor, names)
        return [NotFollowed(f"{verb} changes rows by statement", tables, () if tables else names.others(cursor.all))]
    raise cursor.unexpected("a MySQL statement")


def _alter(cursor: Cursor, names: Names) -> list[Action]:
    cursor.accept_one("ONLINE", "OFFLINE")
    if cursor.accept("IGNORE TABLE"):
        raise NotReadError("ALTER IGNORE TABLE may remove rows")
    if cursor.accept("TABLE"):
        return read_alter_table(cursor, names)
    _definer(cursor)
    cursor.expect("DATABASE", "SCHEMA", *_OBJECTS, called="an object to alter")
    return []


def _create(cursor: Cursor, names: Names) -> list[Action]:
    replaced = cursor.accept("OR REPLACE")
    if cursor.accept("TABLE"):
        return read_create_table(cursor, names, replaced)
    if cursor.accept_one("DATABASE", "SCHEMA"):
        exists = cursor.accept_one(*EXISTENCE)
        return [DropDatabase(cursor.name())] if replaced and not exists else []
    _definer(cursor)
    cursor.accept_one("ONLINE", "OFFLINE")
    cursor.accept_one("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR")
    cursor.expect("INDEX", *_OBJECTS, called="an object to create")
    return []


def _definer(cursor: Cursor) -> None:
    """Read the words that may stand between CREATE or ALTER and VIEW, PROCEDURE and others."""
    if cursor.accept("ALGORITHM ="):
        cursor.name()
    if cursor.accept("DEFINER ="):  # 'name'@'host', CURRENT_USER or MariaDB's role
        cursor.next()
        cursor.skip_parentheses()
        if cursor.accept("@"):
            cursor.next()
    if cursor.accept("SQL SECURITY"):
        cursor.name()


def _is_body(cursor: Cursor) -> bool:
    """Return whether the statement creates or alters an object with a body of statements."""
    ahead = Cursor(cursor.rest)
    if not ahead.accept_one("CREATE OR REPLACE", "CREATE", "ALTER"):
        return False
    _definer(ahead)
    return bool(ahead.accept_one(*_BODIES))


def _drop(cursor: Cursor, names: Names) -> list[Action]:
    kind = cursor.expect("TABLES", "TABLE", "DATABASE", "SCHEMA", *_INDEX, *_OBJECTS, called="an object to drop")
    cursor.accept("IF EXISTS")
    if kind in ("TABLES", "TABLE"):
        tables = _list(cursor, names)
        wait(cursor)
        cursor.accept_one("RESTRICT", "CASCADE")
        cursor.end()
        return [DropTable(table) for table in tables]
    if kind in ("DATABASE", "SCHEMA"):
        dropped = DropDatabase(cursor.name())
        cursor.end()
        return [dropped]
    if kind not in _INDEX:
        return []
    index = cursor.name()
    cursor.expect("ON")
    table = names.read(cursor)
    return [ChangePrimaryKey(table, ())] if index.upper() == "PRIMARY" else []


def _list(cursor: Cursor, names: Names) -> list[TableName]:
    tables = [names.read(cursor)]
    while cursor.accept(","):
        tables.append(names.read(cursor))
    return tables


def _truncate(cursor: Cursor, names: Names) -> list[Action]:
    cursor.accept("TABLE")
    table = names.read(cursor)
    wait(cursor)
    cursor.end()
    return [TruncateTable(table)]


def _rename(cursor: Cursor, names: Names) -> list[Action]:
    cursor.expect("TABLE", "TABLES")
    cursor.accept("IF EXISTS")
    pairs = [_pair(cursor, names)]
    while cursor.accept(","):
        pairs.append(_pair(cursor, names))
    cursor.end()
    return [RenameTable(tuple(pairs))]


def _pair(cursor: Cursor, names: Names) -> tuple[TableName, TableName]:
    old = names.read(cursor)
    wait(cursor)
    cursor.expect("TO")
    return old, names.read(cursor)


def _use(cursor: Cursor, names: Names) -> list[Action]:
    names.use(cursor.name())
    return []


def _restored(cursor: Cursor, names: Names) -> list[Action]:
    tables = _list(cursor, names) if cursor.word() != "BY" else []
    if cursor.accept("TO"):
        tables.append(names.read(cursor))
    return [NotFollowed("rows are restored", tuple(tables), names.others(cursor.rest))]


_READERS: dict[str, Callable[[Cursor, Names], list[Action]]] = {
    "ALTER": _alter,
    "CREATE": _create,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "RENAME": _rename,
    "USE": _use,
    "RECOVER TABLE": _restored,
    "FLASHBACK TABLE": _restored,
}


def _changed_tables(verb: str, cursor: Cursor, names: Names) -> tuple[TableName, ...]:
    """Return the table whose rows a statement changes, if the statement names only one table."""
    if verb not in ("INSERT", "REPLACE", "UPDATE", "DELETE"):
        return ()
    while cursor.accept_one("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "INTO", "FROM"):
        pass
    table = names.read(cursor)
    names_one = verb in ("INSERT", "REPLACE") or cursor.word() in ("SET", "WHERE", "ORDER", "LIMIT")
    return (table,) if names_one or cursor.peek() is None else ()
