"""Schema changes of databases that have schemas, such as SQL Server's. Their statements are not MySQL's: none is read.

Debezium says beside the statement which tables it creates, alters and drops. How a table is altered is not followed:
the message has its new columns, and not how the values of older rows became theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from towpath.foreign_json import parsed_json
from towpath.lakehouse.reading.schemas import table_name
from towpath.lakehouse.statements import Action, CreateTable, DropTable, NotFollowed, TableName

_PART = re.compile(r'"((?:[^"]|"")*)"')
_ALTERED = "the table was altered, and the message does not say what became of the values of older rows"
_UNREAD = "the statement is not one of MySQL, and the message does not list what it changes"


@dataclass(frozen=True)
class SchemaChange:
    """What a message of a schema, a database and a connector says about tables."""

    sql: str | None
    """The statement, if the message has it."""
    table_changes: str | None
    """JSON text: the list of changed tables."""
    schema: str | None
    database: str | None
    connector: str | None

    @property
    def text(self) -> str:
        """What `status` shows: the statement, or else the changed tables."""
        return self.sql or "; ".join(f"{one['type']} {one['id']}" for one in self._changes()) or _UNREAD

    def actions(self) -> tuple[Action, ...]:
        """The actions in their order. One that is not understood makes the table of the message stale."""
        return tuple(self._action(one) for one in self._changes()) or (NotFollowed(_UNREAD),)

    def _changes(self) -> list[dict[str, Any]]:
        """The changed tables; none if one of them is not as Debezium writes it."""
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
        """A table by its identifier, such as `"shop"."sales"."orders"`; the message has what that lacks."""
        *parents, table = (part.replace('""', '"') for part in _PART.findall(identifier))
        schema = parents[-1] if parents else self.schema
        database = parents[0] if len(parents) > 1 else self.database
        return TableName(database, table_name(table, schema, database, self.connector))
