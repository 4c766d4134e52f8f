"""Options of tables, indexes and partitions. They change neither rows nor columns, so they are read and discarded."""

from __future__ import annotations

from towpath.lakehouse.statements.tokens import Cursor, phrases, split

_WITH_VALUE = phrases(
    """
    AUTOEXTEND_SIZE, AUTO_INCREMENT, AVG_ROW_LENGTH, CHARACTER SET, CHARSET, CHECKSUM, COLLATE, COMMENT, COMPRESSION,
    CONNECTION, DATA DIRECTORY, DEFAULT CHARACTER SET, DEFAULT CHARSET, DEFAULT COLLATE, DELAY_KEY_WRITE, ENCRYPTION,
    ENGINE, ENGINE_ATTRIBUTE, INDEX DIRECTORY, INSERT_METHOD, KEY_BLOCK_SIZE, MAX_ROWS, MIN_ROWS, PACK_KEYS, PASSWORD,
    ROW_FORMAT, SECONDARY_ENGINE, SECONDARY_ENGINE_ATTRIBUTE, STATS_AUTO_RECALC, STATS_PERSISTENT, STATS_SAMPLE_PAGES,
    STORAGE, TABLESPACE, TABLE_CHECKSUM,
    ENCRYPTED, ENCRYPTION_KEY_ID, IETF_QUOTES, PAGE_CHECKSUM, PAGE_COMPRESSED, PAGE_COMPRESSION_LEVEL, TRANSACTIONAL,
    AUTO_ID_CACHE, AUTO_RANDOM_BASE, FORCE AUTO_INCREMENT, FORCE AUTO_RANDOM_BASE, PLACEMENT POLICY, PRE_SPLIT_REGIONS,
    SHARD_ROW_ID_BITS, TTL_ENABLE, TTL_JOB_INTERVAL
    """
)
"""Options of MySQL. From ENCRYPTED on they are MariaDB's, from AUTO_ID_CACHE on TiDB's."""

_VECTORS = ("VECTOR INDEX", "VECTOR KEY", "COLUMNAR INDEX")
INDEXES = ("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN KEY", "CHECK", *_VECTORS)
"""First words of an index or constraint among columns, except the primary key."""

_QUERY = ("AS", "SELECT", "IGNORE", "REPLACE", "WITH", "TABLE", "VALUES")


def read_options(cursor: Cursor) -> list[str]:
    """Read options of a table, with or without commas. Return options with their values: `ENGINE INNODB`."""
    found: list[str] = []
    while True:
        if cursor.accept("TTL ="):
            cursor.name()
            cursor.expect("+ INTERVAL")
            _value(cursor)
            cursor.name()
        elif option := cursor.accept_one(*_WITH_VALUE):
            found.append(f"{option} {_value(cursor)}")
        elif not cursor.accept_one("WITH SYSTEM VERSIONING", "START TRANSACTION"):
            return found
        cursor.accept(",")


def _value(cursor: Cursor) -> str:
    cursor.accept("=")
    return cursor.expect_kind("word", "name", "string", "number").text.upper()


def skip_partitioning(cursor: Cursor) -> None:
    """Read PARTITION BY and its definitions, if they are next. A query may follow."""
    if not cursor.accept("PARTITION BY"):
        return
    while cursor.peek() and cursor.word() not in _QUERY:
        if not cursor.skip_parentheses():
            cursor.next()


def is_query(cursor: Cursor, ahead: int = 0) -> bool:
    """Return whether a query is next."""
    return cursor.word(ahead) in (*_QUERY, "(")


def is_index(cursor: Cursor) -> bool:
    """Return whether an index or constraint is next instead of a column."""
    if f"{cursor.word()} {cursor.word(1)}" in _VECTORS:
        return True
    return cursor.word() in ("PRIMARY", "CONSTRAINT", "FOREIGN", *INDEXES)


def read_constraint_name(cursor: Cursor) -> None:
    """Read CONSTRAINT and the name, if they are next."""
    if not cursor.accept("CONSTRAINT"):
        return
    cursor.accept("IF NOT EXISTS")
    constraints = ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK")
    if cursor.word() not in constraints:
        cursor.name()
    if cursor.word() not in constraints:
        raise cursor.unexpected("a constraint")


def read_primary_key(cursor: Cursor) -> tuple[str, ...]:
    """Read the columns of a primary key after its words, and the key's options."""
    while cursor.word() != "(":
        if not cursor.accept_one("USING BTREE", "USING HASH", "TYPE BTREE", "TYPE HASH"):
            cursor.name()
    return tuple(Cursor(part).name() for part in split(cursor.parenthesized(), ","))
