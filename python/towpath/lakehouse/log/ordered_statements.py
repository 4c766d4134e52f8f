"""DDL statements in their order, and the order as a value that can be stored and compared."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath._towpath import is_newer
from towpath.lakehouse.order.order import ORDER_FIELDS, order_value, with_order
from towpath.lakehouse.order.order_arrays import ORDER
from towpath.lakehouse.reading.events import DDL
from towpath.lakehouse.reading.schema_changes import SchemaChange
from towpath.lakehouse.reading.schemas import has_schemas
from towpath.lakehouse.statements import (
    Action,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    NotFollowed,
    TableName,
    read_statements,
    tables_of,
)
from towpath.lakehouse.tables.sql import Sql, string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SAID = ("sql", "table_changes", "schema", "database", "table")
"""Columns of an event that describe a statement."""

_TIMES = ("event_time", "produced_time", "timestamp")


@dataclass(frozen=True)
class Place:
    """Order value of a statement. Timestamps are microseconds since 1970."""

    fields: Mapping[str, Any]

    def __str__(self) -> str:
        return json.dumps(dict(self.fields))

    def is_newer(self, other: Place) -> bool:
        """Return whether this place is newer than another one, by the rules of `rust/order`."""
        one, two = (pa.array([dict(place.fields)], ORDER) for place in (self, other))
        return bool(is_newer(one, two)[0].as_py())

    def literal(self) -> Sql:
        """Return the value as SQL."""
        return order_value({name: self._value(name) for name in ORDER_FIELDS})

    def _value(self, name: str) -> Sql:
        value, kind = self.fields[name], ORDER_FIELDS[name]
        if value is None:
            return Sql(f"CAST(NULL AS {kind})")
        if name in _TIMES:
            return Sql(f"timestamp_micros({int(value)})")
        return string(value) if isinstance(value, str) else Sql(f"CAST({str(value).lower()} AS {kind})")


def _sortable(fields: Mapping[str, Any], *names: str) -> tuple[tuple[bool, Any], ...]:
    """Return sortable fields. Nulls come first, as in Spark."""
    return tuple((fields[name] is not None, fields[name] if fields[name] is not None else 0) for name in names)


@dataclass(frozen=True)
class Statement:
    """Text of one or more statements in a message."""

    place: Place
    text: str
    database: str | None
    table: str | None
    actions: tuple[Action, ...]
    said: Mapping[str, str | None] = field(default_factory=dict, compare=False)
    """Columns of the message's event that describe the statement."""

    @cached_property
    def identity(self) -> str:
        """Text that all copies of a statement share. TiCDC sends a copy to each partition."""
        fields = self.place.fields
        if fields["commit_ts"] is not None:
            place = [fields["commit_ts"]]
        elif fields["log"] is not None:
            place = [fields[name] for name in ("log", "file", "at")]
        else:
            place = [fields[name] for name in ("topic", "partition", "offset", "step", "timestamp")]
        return json.dumps([*place, self.database, self.table, self.text], ensure_ascii=False)

    @property
    def tables(self) -> set[tuple[str, str]]:
        """Tables that the statement changes."""
        return {name for action in self.actions for name in self.tables_of(action)}

    def tables_of(self, action: Action) -> list[tuple[str, str]]:
        """Return the tables that an action names, or else the table of the message."""
        named = [self.full_name(name) for name in tables_of(action)]
        of_message = [(self.database or "", self.table)] if self.table else []
        return named or of_message

    def full_name(self, name: TableName) -> tuple[str, str]:
        """Return the database and the name of a table in the statement."""
        return name.database or self.database or "", name.table


_OTHER_CASE = "the statement changes this table if the server ignores the case of table names"


def completed(
    statement: Statement,
    known: Callable[[], Collection[tuple[str, str]]],
    of_other_case: Callable[[str, str], Collection[tuple[str, str]]],
) -> Statement:
    """Return a statement with the known tables that it changes, or may change, without naming them.

    Args:
        statement: A statement.
        known: Returns the tables that are known.
        of_other_case: Returns the tables that a name may mean on a server with `lower_case_table_names`. Such a server
            logs rows with lower-case names, and statements as they were written.
    """
    actions = [one for action in statement.actions for one in _completed(statement, action, known)]
    changing = [one for one in actions if not isinstance(one, CreateTable | DropColumn | NotFollowed)]
    names = {name for action in changing for name in statement.tables_of(action)}
    others = {other for name in names for other in of_other_case(*name)} - names
    return replace(statement, actions=(*actions, *_of_other_case(others)))


def _completed(statement: Statement, action: Action, known: Callable[[], Collection[tuple[str, str]]]) -> list[Action]:
    if isinstance(action, DropDatabase):  # names no table
        dropped = [name for name in known() if name[0].lower() == action.database.lower()]
        exactly = sorted(name for name in dropped if name[0] == action.database)
        return [DropTable(TableName(*name)) for name in exactly] or _of_other_case(dropped)
    if not isinstance(action, NotFollowed) or not action.others:
        return [action]
    wanted = {((one.database or "").casefold(), one.table.casefold()) for one in action.others}
    found = set(statement.tables_of(action))
    for name in known():
        database, table = map(str.casefold, name)
        if wanted & {("", table), (database, table), (database, "")}:
            found.add(name)
    return [replace(action, tables=tuple(TableName(*name) for name in sorted(found)))]


def _of_other_case(names: Collection[tuple[str, str]]) -> list[Action]:
    return [NotFollowed(_OTHER_CASE, tuple(TableName(*name) for name in sorted(names)))] if names else []


def read_ddl(events: DataFrame) -> list[Statement]:
    """Return the statements of a batch of events, oldest first."""
    rows = _with_place(events.filter(f"kind = '{DDL}'")).select("place", *_SAID, "op", "source.connector").collect()
    found = (read_statement(Place(row["place"].asDict()), _with_text(row.asDict())) for row in rows)
    return in_order(one for one in found if one is not None)


def _with_text(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the text of a truncate that the message has as a change. The table's name contains its schema."""
    if row["op"] != "truncate" or row["sql"] is not None:
        return row
    text = f"TRUNCATE TABLE `{row['table'].replace('`', '``')}`"
    return {**row, "sql": text, **dict.fromkeys(("table_changes", "schema", "connector"))}


def read_statement(place: Place, row: Mapping[str, Any]) -> Statement | None:
    """Read the statement of an event. Return None for a statement of MySQL without text, which only repeats a schema.

    Args:
        place: The place of the event.
        row: Columns of the event that describe the statement.
    """
    said = {name: row[name] for name in ("sql", "table_changes", "schema", "database", "connector")}
    if has_schemas(row["schema"], row["database"], row["connector"]):
        change = SchemaChange(*said.values())
        return Statement(place, change.text, row["database"], row["table"], change.actions(), said)
    if row["sql"] is None:
        return None
    actions = tuple(read_statements(row["sql"], row["database"], row["table"]))
    return Statement(place, row["sql"], row["database"], row["table"], actions, said)


def _with_place(events: DataFrame) -> DataFrame:
    """Add the order value of the first change to the events, in the form of `Place`."""
    from pyspark.sql import functions as f

    first = {"step": events["row"].cast("bigint") * 2, "label": f.lit(None).cast("string")}
    fields = {name: f.col(f"`order`.{name}") for name in ORDER_FIELDS}
    values = {name: f.unix_micros(field) if name in _TIMES else field for name, field in fields.items()}
    place = f.struct(*(value.alias(name) for name, value in values.items()))
    return with_order(events.withColumns(first)).withColumn("place", place)


def in_order(statements: Iterable[Statement]) -> list[Statement]:
    """Return statements in an order that depends only on their places.

    Statements of a partition stay in the order of their offsets. Across partitions the least commit time comes first,
    or the least place in the binlog, or the least time: the first of these that all statements have.
    """
    partitions: dict[Any, list[Statement]] = {}
    for one in sorted(statements, key=lambda one: _sortable(one.place.fields, "offset", "step")):
        partitions.setdefault((one.place.fields["topic"], one.place.fields["partition"]), []).append(one)
    rank = _ranked([one.place for of_partition in partitions.values() for one in of_partition])
    waiting = [deque(of_partition) for of_partition in partitions.values()]
    ordered = []
    while waiting := [queue for queue in waiting if queue]:
        ordered.append(min(waiting, key=lambda queue: rank(queue[0].place)).popleft())
    return ordered


def _ranked(places: Sequence[Place]) -> Callable[[Place], Any]:
    """Return the sort key of a total order of places. The most reliable field that all places have comes first."""
    first: tuple[str, ...] = ()
    if all(place.fields["commit_ts"] is not None for place in places):
        first = ("commit_ts",)
    elif len({place.fields["log"] for place in places} | {None}) == 2 and all(place.fields["log"] for place in places):
        first = ("file", "at")
    return lambda place: _sortable(place.fields, *first, *ORDER_FIELDS)
