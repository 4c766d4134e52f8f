"""The DDL statements of a batch in their order, and that order as a value that can be stored and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath.spark.lakehouse.envelopes import DDL
from towpath.spark.lakehouse.order import ORDER_FIELDS, with_order
from towpath.spark.lakehouse.sql import Sql, comma_separated, sql, string
from towpath.spark.lakehouse.statements import Action, read_statements

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
            return bool(one["commit_ts"] > two["commit_ts"])
        if one["log"] is not None and one["log"] == two["log"]:
            ours, theirs = _sortable(one, "file", "at"), _sortable(two, "file", "at")
            if ours != theirs:
                return ours > theirs or _sortable(one, "event_time") > _sortable(two, "event_time")
        return self.sort_key() > other.sort_key()

    def sort_key(self) -> tuple[tuple[bool, Any], ...]:
        """What orders statements that have no commit time, and are in no common log."""
        return _sortable(self.fields, *ORDER_FIELDS)

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


@dataclass(frozen=True)
class Statement:
    """A text of statements in a message."""

    place: Place
    text: str
    database: str | None
    table: str | None
    actions: tuple[Action, ...]


def with_event_order(events: DataFrame) -> DataFrame:
    """The events with the order value of their first change."""
    return with_order(events.withColumn("step", events["row"].cast("bigint") * 2))


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
    return sorted(statements, key=_age)


def _age(statement: Statement) -> tuple[Any, ...]:
    fields = statement.place.fields
    return (
        _sortable(fields, "commit_ts"),
        _sortable(fields, "event_time"),
        _sortable(fields, "file", "at"),
        statement.place.sort_key(),
    )
