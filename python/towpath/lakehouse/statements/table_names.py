"""Names of tables in statements."""

from __future__ import annotations

from towpath.lakehouse.statements.actions import TableName
from towpath.lakehouse.statements.tokens import Cursor, NotReadError


class Names:
    """Reads the names of a statement's tables and knows those that it has read."""

    def __init__(self, database: str | None) -> None:
        self.database = database
        self.tables: list[TableName] = []
        self._qualified: set[bool] = set()

    def read(self, cursor: Cursor) -> TableName:
        """Read the name of a table, with its database or without.

        Raises:
            NotReadError: No name is next, or this name has a database and another one has none. The database of a
                message may be that of its table, so the session's default database is not known then.
        """
        first = cursor.name()
        qualified = cursor.accept(".")
        table = TableName(first, cursor.name()) if qualified else TableName(self.database, first)
        self.tables.append(table)
        self._qualified.add(qualified)
        if len(self._qualified) > 1:
            raise NotReadError("some tables have a database and others have not")
        return table
