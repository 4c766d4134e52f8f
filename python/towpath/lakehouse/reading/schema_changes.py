"""Schema changes of databases with schemas, such as SQL Server. Their statements are not MySQL's, and are not read.

Debezium lists beside the statement the tables that it creates, alters and drops. Alterations are not followed: the
message has the new columns, but not how the values of older rows became their values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from towpath.foreign_json import parsed_json
from towpath.lakehouse.reading.schemas import table_name
from towpath.lakehouse.statements import Action, CreateTable, DropTable, NotFollowed, TableName

_PART = re.compile(r'"((?:[^"]|"")*)"')
_ALTERED = "the table was altered, and the message does not describe how older rows changed"
_UNREAD = "the statement is not MySQL, and the message does not list its changes"


@dataclass(frozen=True)
class SchemaChange:
    """Tables that a message of a database with schemas says it changes."""

    sql: str | None
    """Statement, if the message has it."""
    table_changes: str | None
    """JSON text with the list of changed tables."""
    schema: str | None
    database: str | None
    connector: str | None

    @property
    def text(self) -> str:
        """Text that `status` shows: the statement, or else the changed tables."""
        return self.sql or "; ".join(f"{one['type']} {one['id']}" for one in self._changes()) or _UNREAD

    def actions(self) -> tuple[Action, ...]:
        """Return the actions in their order. An unknown action makes the message's table stale."""
        return tuple(self._action(one) for one in self._changes()) or (NotFollowed(_UNREAD),)

    def _changes(self) -> list[dict[str, Any]]:
        """Return the changed tables, or none if one of them does not have Debezium's form."""
        try:
            found = parsed_json(self.table_changes or "[]")
        except ValueError:
            return []
        is_known = isinstance(found, list) and all(
            isinstance(one, dict) and isinstance(one.get("type"), str) and _PART.match(str(one.get("id")))
            for one in found
        )
        return found if is_known else []

    def _action(self, change: dict[str, Any]) -> Action:
        name = self._name(change["id"])
        if change["type"] == "CREATE":
            return CreateTable(name)
        if change["type"] == "DROP":
            return DropTable(name)
        names = (change["id"], change.get("previousId"))
        return NotFollowed(_ALTERED, tuple(self._name(one) for one in names if one and _PART.match(str(one))))

    def _name(self, identifier: str) -> TableName:
        """Return a table by its identifier, such as `"shop"."sales"."orders"`. The message completes a short one."""
        *parents, table = (part.replace('""', '"') for part in _PART.findall(identifier))
        schema = parents[-1] if parents else self.schema
        database = parents[0] if len(parents) > 1 else self.database
        return TableName(database, table_name(table, schema, database, self.connector))
