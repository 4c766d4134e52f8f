"""The DDL statements of a batch in their order, and that order as a value that can be stored and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from towpath.spark.lakehouse.envelopes import DDL
from towpath.spark.lakehouse.order import ORDER_FIELDS, is_newer, with_order
from towpath.spark.lakehouse.sql import Sql, comma_separated, expressions, sql, string
from towpath.spark.lakehouse.statements import (
    Action,
    DropDatabase,
    NotFollowed,
    RenameTable,
    TableName,
    read_statements,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIMES = ("event_time", "produced_time", "timestamp")


@dataclass(frozen=True)
class Place:
    """The order value of a statement. Timestamps are microseconds since 1970."""

    fields: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str | None) -> Place | None:
        """From the text of a table's property."""
        return cls(json.loads(text)) if text else None

    def __str__(self) -> str:
        return json.dumps(dict(self.fields))

    def is_newer(self, other: Place | None) -> bool:
        """As `towpath.spark.lakehouse.order.is_newer`."""
        if other is None:
            return True
        one, two = self.fields, other.fields
        if one["commit_ts"] is not None and two["commit_ts"] is not None:
            return bool((one["commit_ts"], one["is_row"]) > (two["commit_ts"], two["is_row"]))
        if one["log"] is not None and one["log"] == two["log"] and _in_log(one) != _in_log(two):
            return _is_after(one, two)
        is_failover = None not in (one["log"], two["log"]) and one["log"] != two["log"]
        is_one_partition = one["topic"] is not None and _partition(one) == _partition(two)
        if is_one_partition and not is_failover:
            later = _sortable(one, "offset", "step") > _sortable(two, "offset", "step")
            return _made_anew(one, two) or (later and not _made_anew(two, one))
        return _sortable(one, *ORDER_FIELDS) > _sortable(two, *ORDER_FIELDS)

    def literal(self) -> Sql:
        """The value as SQL."""
        fields = (sql("{name}, {value}", name=string(name), value=self._value(name)) for name in ORDER_FIELDS)
        return sql("named_struct({fields})", fields=comma_separated(fields))

    def _value(self, name: str) -> Sql:
        value, kind = self.fields[name], ORDER_FIELDS[name]
        if value is None:
            return Sql(f"CAST(NULL AS {kind})")
        if name in _TIMES:
            return Sql(f"timestamp_micros({int(value)})")
        return string(value) if isinstance(value, str) else Sql(f"CAST({str(value).lower()} AS {kind})")


def _sortable(fields: Mapping[str, Any], *names: str) -> tuple[tuple[bool, Any], ...]:
    """Nulls are the least, as in Spark."""
    return tuple((fields[name] is not None, fields[name] if fields[name] is not None else 0) for name in names)


def _in_log(fields: Mapping[str, Any]) -> tuple[int, int]:
    return fields["file"], fields["at"]


def _is_after(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a place in a log is newer than another one of it, as `towpath.spark.lakehouse.order` decides it."""
    after = _in_log(one) > _in_log(other)
    contradicts = _is_later(other, one) if after else _is_later(one, other)
    if not contradicts:
        return after
    if None in (one["timestamp"], other["timestamp"]):
        return not after
    return bool(one["timestamp"] >= other["timestamp"] if after else one["timestamp"] > other["timestamp"])


def _partition(fields: Mapping[str, Any]) -> tuple[str, int]:
    return fields["topic"], fields["partition"]


def _is_later(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both event times are known, and the first is later."""
    return None not in (one["event_time"], other["event_time"]) and one["event_time"] > other["event_time"]


def _made_anew(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the topic was made anew between the places, as `towpath.spark.lakehouse.order` decides it."""
    if one["offset"] > other["offset"]:
        return False
    if None in (one["timestamp"], other["timestamp"]):
        return _is_later(one, other)
    return one["timestamp"] > other["timestamp"] + 1_000_000 and not _is_later(other, one)


@dataclass(frozen=True)
class Statement:
    """A text of statements in a message."""

    place: Place
    text: str
    database: str | None
    table: str | None
    actions: tuple[Action, ...]

    @property
    def tables(self) -> set[tuple[str, str]]:
        """The tables that it changes."""
        return {name for action in self.actions for name in self.tables_of(action)}

    def tables_of(self, action: Action) -> list[tuple[str, str]]:
        """The tables that one of its actions changes, or that of the message."""
        named = [self.full_name(name) for name in _names_of(action)]
        of_message = [(self.database or "", self.table)] if self.table else []
        return named or of_message

    def full_name(self, name: TableName) -> tuple[str, str]:
        """The database and the name of a table in the statement."""
        return name.database or self.database or "", name.table


def _names_of(action: Action) -> list[TableName]:
    if isinstance(action, RenameTable):
        return [name for pair in action.pairs for name in pair]
    if isinstance(action, NotFollowed):
        return list(action.tables)
    return [] if isinstance(action, DropDatabase) else [action.table]


def with_event_order(events: DataFrame) -> DataFrame:
    """The events with the order value of their first change."""
    return with_order(events.withColumn("step", events["row"].cast("bigint") * 2))


def sliced(events: DataFrame, statements: Sequence[Statement]) -> DataFrame:
    """Add the column `slice`: how many of the statements about its table an event is newer than."""
    places = comma_separated(
        sql(
            "struct({database} AS d, {table} AS t, {place} AS p)",
            database=string(database),
            table=string(table),
            place=statement.place.literal(),
        )
        for statement in statements
        for database, table in statement.tables
    )
    older = sql(
        "size(filter(array({places}), s -> s.d = coalesce(database, '') AND s.t = `table` AND {newer}))",
        places=places,
        newer=is_newer(Sql("`order`"), Sql("s.p")),
    )
    return with_event_order(events).withColumn("slice", expressions(events.sparkSession)(older))


def read_ddl(events: DataFrame) -> list[Statement]:
    """The statements of a batch of events, oldest first."""
    from pyspark.sql import functions as f

    fields = [f.col(f"`order`.{name}") for name in ORDER_FIELDS]
    values = [
        f.unix_micros(field) if name in _TIMES else field for name, field in zip(ORDER_FIELDS, fields, strict=True)
    ]
    place = f.struct(*(value.alias(name) for value, name in zip(values, ORDER_FIELDS, strict=True)))
    found = with_event_order(events.filter(f"kind = '{DDL}' AND sql IS NOT NULL"))
    rows = found.select(place.alias("place"), "sql", "database", "table").collect()
    statements = [
        Statement(
            Place(row["place"].asDict()),
            row["sql"],
            row["database"],
            row["table"],
            tuple(read_statements(row["sql"], row["database"])),
        )
        for row in rows
    ]
    by_arrival = sorted(statements, key=lambda one: _sortable(one.place.fields, "timestamp", "offset", "step"))
    return sorted(by_arrival, key=cmp_to_key(_compared))


def _compared(one: Statement, other: Statement) -> int:
    return 1 if one.place.is_newer(other.place) else -1
