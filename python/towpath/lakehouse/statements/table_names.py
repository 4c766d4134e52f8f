"""Names of tables in statements."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.lakehouse.statements.actions import TableName
from towpath.lakehouse.statements.tokens import Cursor, NotReadError, Token, split

_OF_RENAMES = ("TABLES", "TABLE", "IF", "EXISTS", "TO", "AS", "WAIT", "NOWAIT")
_NOT_TABLES = ("COLUMN", "INDEX", "KEY")


class Names:
    """Reader and collection of a statement's table names."""

    def __init__(self, database: str | None, table: str | None = None) -> None:
        """Begin with the default database, and with the table of a message in this database."""
        self.database = database
        self.tables: list[TableName] = []
        self._message_table = table
        self._is_session = False
        self._plain: set[str] = set()
        self._qualified: set[TableName] = set()

    def use(self, database: str) -> None:
        """Set the session's database. Names without a database belong to it."""
        self.database, self._is_session = database, True

    def next_statement(self) -> Names:
        """Return an empty collection with the same database."""
        names = Names(self.database, self._message_table)
        names._is_session = self._is_session
        return names

    def read(self, cursor: Cursor) -> TableName:
        """Read the name of a table, with or without its database."""
        cursor.accept(".")  # MySQL reads .`a` as `a`
        first = cursor.name()
        if cursor.accept("."):
            table = TableName(first, cursor.name())
            self._qualified.add(table)
        else:
            table = TableName(self.database, first)
            self._plain.add(first)
        self.tables.append(table)
        return table

    def read_renamed(self, tokens: Sequence[Token]) -> None:
        """Read all names that RENAME may assign, from a statement outside of the grammar."""
        is_alter = any(token.kind == "word" and token.text.upper() == "ALTER" for token in tokens)
        for part in split(tokens, ",") if is_alter else [list(tokens)]:
            cursor = Cursor(part)
            while cursor.peek() and not cursor.accept("RENAME"):
                cursor.next()
            while cursor.peek() and cursor.word() not in _NOT_TABLES:
                if cursor.accept_one(*_OF_RENAMES):
                    continue
                try:
                    self.read(cursor)
                except NotReadError:
                    if cursor.peek():
                        cursor.next()

    def others(self, tokens: Sequence[Token]) -> tuple[TableName, ...]:
        """Return every name in a statement outside of the grammar. Each may name a table."""
        cursor, plain = Cursor(tokens), dict[str, None]()
        pairs = dict.fromkeys(self._qualified)
        while cursor.peek():
            try:
                table = Names(None).read(cursor)
                pairs |= {table: None} if table.database else {}
                plain |= {table.database or table.table: None}
            except NotReadError:
                if cursor.peek():
                    cursor.next()
        words = {name.upper() for name in plain}
        all_of = [TableName(name, "") for name in plain] if words & {"DATABASE", "SCHEMA"} else []
        only_tables = words & {"DROP", "RENAME", "TRUNCATE"} and not words & {"ALTER", "INDEX"}
        database = None if self._qualified or (pairs and only_tables) else self.database
        return (*pairs, *(TableName(database, name) for name in plain), *all_of)

    @property
    def of_any_database(self) -> tuple[TableName, ...]:
        """Names without a database, if their database is ambiguous."""
        return tuple(TableName(None, name) for name in self._plain) if self.are_ambiguous else ()

    @property
    def are_ambiguous(self) -> bool:
        """Whether the database of a name is unknown.

        A name without a database belongs to the session's database. The message has the session's database if no name
        has a database. Otherwise the message may have the database of the first name (canal) or of each name (Maxwell),
        unless its table is named without a database.
        """
        if self._is_session or not self._plain or not self._qualified:
            return False
        of_message = TableName(self.database, self._message_table or "")
        return of_message.table not in self._plain or of_message in self._qualified
