"""Columns that were added with a value: rows that are older, and come later, get the value too.

A row of another partition may be read after the statement that added a column, although it is older. Its message lacks
the column, in contrast to those of newer rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from towpath.lakehouse.changes import COLUMNS
from towpath.lakehouse.order import is_certain, is_newer, with_order
from towpath.lakehouse.ordered_statements import Place
from towpath.lakehouse.sql import Sql, column, expressions, sql, string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ADDED = "towpath.added"
"""The property of a target with its additions."""

_MOST = 200
"""How many columns of a target are remembered, the last ones."""


@dataclass(frozen=True)
class Addition:
    """A column that a statement added, with the value of the rows of that time."""

    name: str
    value: Sql
    """The value with its type."""
    place: Place

    def renamed(self, old: str, new: str) -> Addition:
        """It after a column got another name."""
        return replace(self, name=new) if self.name.lower() == old.lower() else self

    def lacks_it(self, order: Sql, place: Sql) -> Sql:
        """True if a row without the column gets the value: unless it is known to be newer, and so lacks it again.

        Args:
            order: The row's order value.
            place: The statement's.
        """
        newer = is_newer(order, place)
        return sql("NOT ({certain} AND {newer})", certain=is_certain(order, place), newer=newer)


def literal(value: Any, kind: Sql) -> Sql:
    """A value of Python as SQL of a type of Spark."""
    if value is None:
        return sql("CAST(NULL AS {kind})", kind=kind)
    if isinstance(value, bytes):
        return Sql(f"X'{value.hex()}'")
    text = value.isoformat() if isinstance(value, date | datetime) else str(value)
    return sql("CAST({text} AS {kind})", text=string(text), kind=kind)


def read_additions(properties: Mapping[str, str]) -> list[Addition]:
    """Those in the properties of a target."""
    found = json.loads(properties.get(ADDED, "[]"))
    return [Addition(name, Sql(value), Place(fields)) for name, value, fields in found]


def additions_property(additions: Sequence[Addition]) -> dict[str, str]:
    """The property of a target with additions."""
    last = [(one.name, one.value, dict(one.place.fields)) for one in additions[-_MOST:]]
    return {ADDED: json.dumps(last, ensure_ascii=False)}


def with_additions(changes: DataFrame, additions: Sequence[Addition]) -> DataFrame:
    """Give the values of added columns to changes that are older than their additions."""
    from pyspark.sql import functions as f

    by_name = {one.name.lower(): one for one in additions}
    names = changes.select(f"{COLUMNS}.*").columns
    found = {name: by_name[name.lower()] for name in names if name.lower() in by_name}
    if not found:
        return changes
    expr = expressions(changes.sparkSession)
    gets = {name: expr(_gets(name, one)) for name, one in found.items()}

    def value(name: str) -> Any:
        own = f.col(column(COLUMNS, name))
        return f.when(gets[name], expr(found[name].value)).otherwise(own) if name in found else own

    given = [f.when(condition, f.lit(name)) for name, condition in gets.items()]
    values = {
        COLUMNS: f.struct(*(value(name).alias(name) for name in names)),
        "missing": f.array_except("missing", f.array_compact(f.array(*given))),
    }
    return with_order(changes).withColumns(values).drop("order")


def _gets(name: str, addition: Addition) -> Sql:
    is_row = Sql("NOT partial AND op NOT IN ('delete', 'truncate')")
    template = "coalesce(array_contains(missing, {name}), false) AND {is_row} AND {lacks}"
    return sql(
        template, name=string(name), is_row=is_row, lacks=addition.lacks_it(Sql("`order`"), addition.place.literal())
    )
