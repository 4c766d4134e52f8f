"""Follows statements about columns: adds, changes and renames those of a target, or says why it is stale."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.lakehouse.following.carried_rows import are_changed, initial_value
from towpath.lakehouse.following.converted_values import relabelled
from towpath.lakehouse.following.small_target import Filled, SmallTarget
from towpath.lakehouse.log.ordered_statements import Place
from towpath.lakehouse.log.timeline import Columns
from towpath.lakehouse.order.order import is_before, is_certain, is_newer, is_ordered
from towpath.lakehouse.statements import AddColumn
from towpath.lakehouse.statements import Column as SourceColumn
from towpath.lakehouse.tables.formats import format_of
from towpath.lakehouse.tables.known_table import KnownTable
from towpath.lakehouse.tables.sql import Sql, any_of, column, comma_separated, execute, merge, sql, string, table
from towpath.lakehouse.tables.tables import (
    INTEGERS,
    create_or_evolve,
    rename_column,
    schema_of,
    temporary_view,
)
from towpath.lakehouse.tables.target_properties import KEY
from towpath.lakehouse.tables.target_rows import ALL_ROWS, find_column, has_row, one_row, order_of_rows
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ColumnChanges:
    """Changes the columns of a target."""

    spark: SparkSession
    target: str
    table: KnownTable
    """What is known of the target."""
    follows: bool
    """Whether targets may be changed."""
    rows: Sql
    """A condition for the rows `t` of the table, if others share the target."""
    small: SmallTarget | None
    """The target as delta-rs changes it."""

    def add(self, actions: Sequence[AddColumn], place: Place, known: Columns, former: Collection[str]) -> list[str]:
        """Add columns, and give their values to older rows. Returns why the target is stale.

        Args:
            actions: The actions of a statement that add the columns.
            place: The place of the statement.
            known: What earlier statements made of the columns of the table.
            former: The columns in lower case that earlier statements added to tables of its name.
        """
        reasons: list[str] = []
        existing = schema_of(self.spark, self.target)
        names = {name.lower() for name in existing.names} if existing is not None else set()
        new: list[Filled] = []
        for action in actions:
            added, name, lower = action.column, action.column.name, action.column.name.lower()
            is_new, is_former = lower not in names, lower in known.names or lower in former
            if added.unknown:
                reasons.append(f"the values of the column {name} in old rows are not known: {added.unknown}")
            elif lower in known.added:
                continue  # the statement was sent again
            elif not is_new and not is_former and action.if_not_exists:
                if self._has_older_nulls(added, place):
                    reasons.append(
                        f"the table may have had the column {name} before: nulls of old rows may be their values"
                    )
            elif self.follows:
                new.append(Filled(name, initial_value(added), is_new, is_former))
            elif added.initial is not None:
                reasons.append(f"ddl_policy is ignore: the column {name}")
        if new:  # in two commits at most: columns, values
            fields = pa.schema([(one.name, one.value.type) for one in new])
            create_or_evolve(self.spark, self.target, struct_type(fields))
            reasons += self._fill(place, [one for one in new if one.value.is_valid or not one.is_new])
        return reasons

    def _has_older_nulls(self, added: SourceColumn, place: Place) -> bool:
        """Whether older rows have null in a column that gives them a value, and may have had the column before."""
        order, name = order_of_rows(self.spark, self.target), column("t", added.name)
        if added.initial is None or order is None:
            return False
        older = sql("{name} IS NULL AND {older}", name=name, older=is_before(order, Sql("s.place")))
        return self._has_row(older, place)

    def _has_row(self, condition: Sql, place: Place | None = None) -> bool:
        """Whether a row of the table meets a condition."""
        own = sql("{rows} AND ({condition})", rows=self.rows, condition=condition)
        return has_row(self.spark, self.target, own, place)

    def _fill(self, place: Place, new: list[Filled]) -> list[str]:
        """Give the values of added columns to the rows that are older. Returns why the target is stale."""
        order = order_of_rows(self.spark, self.target)
        if order is None or not new:
            return []
        if self.small is None or not self.small.fill(place, new):
            self._merge_values(place, new, order)
        ordered, reasons = is_ordered(Sql("s.place"), order), []
        for one in new:
            # The target had the column before it was added.
            unordered = sql("{wants} AND NOT {ordered}", wants=_wants(one, _literal(one)), ordered=ordered)
            if not one.is_new and self._has_row(unordered, place):
                reasons.append(f"rows of the time of the statement may lack the column {one.name}, or have null in it")
        return reasons

    def _merge_values(self, place: Place, new: list[Filled], order: Sql) -> None:
        lacks = [_lacks(one, Sql(f"s.v{at}"), order) for at, one in enumerate(new)]
        template = "{column} = IF({lacks}, s.{v}, {column})"
        sets = (
            sql(template, column=column("t", one.name), lacks=lack, v=Sql(f"v{at}"))
            for at, (one, lack) in enumerate(zip(new, lacks, strict=True))
        )
        update = sql("WHEN MATCHED THEN UPDATE SET {sets}", sets=comma_separated(sets))
        condition = sql("{rows} AND ({lacks})", rows=self.rows, lacks=any_of(lacks))
        with ExitStack() as held, temporary_view(one_row(self.spark, place, map(_literal, new), held)) as view:
            merge(self.spark, self.target, view, condition, update)

    def modify(self, modified: SourceColumn) -> str | None:
        """Change the type of a column. Returns why the target is stale."""
        wanted = struct_type(pa.schema([(modified.name, initial_value(modified).type)]))
        found = find_column(self.spark, self.target, modified.name)
        if found is None:
            return None
        if self.follows:
            create_or_evolve(self.spark, self.target, wanted)
        after = schema_of(self.spark, self.target) or wanted
        own, name = after[found].dataType.simpleString(), column("t", found)
        stored = format_of(self.spark, self.target).stored(wanted[0].dataType.simpleString())
        # Another table of the target, or an earlier type, may need a wider integer.
        if own != stored and not {own, stored} <= INTEGERS.keys():
            return f"the column {found} becomes {modified.type}; rows may have changed without a message"
        if self._has_row(are_changed(name, modified)):
            return f"the column {found} becomes {modified.type}; rows have changed without a message"
        self._relabel(name, modified.type)
        return None

    def _relabel(self, name: Sql, kind: str) -> None:
        """Give the values of an enum or set the order and case of its new labels. Newer rows have them already."""
        value = relabelled(name, kind)
        if value is not None and self.follows:
            others = sql("{rows} AND NOT {name} <=> {value}", rows=self.rows, name=name, value=value)
            if has_row(self.spark, self.target, others):
                template = "UPDATE {target} t SET {name} = {value} WHERE {others}"
                execute(self.spark, sql(template, target=table(self.target), name=name, value=value, others=others))

    def rename(self, former: str, name: str, place: Place) -> str | None:
        """Rename a column, and in the key too: a driver may have ended in between. Returns why the target is stale."""
        old, new = find_column(self.spark, self.target, former), find_column(self.spark, self.target, name)
        if not self.follows:
            return None if old in (None, name) else f"ddl_policy is ignore: the column {old} is {name} now"
        if old is not None and old != name:
            if new != old and (new is not None or self.rows != ALL_ROWS):
                return self._move_values(old, new or name, place)
            if self.rows == ALL_ROWS:  # other tables of the target keep their spelling
                rename_column(self.spark, self.target, old, name)
        keys = self.table.key(self.spark) or []
        if former.lower() in map(str.lower, keys):
            renamed = [name if one.lower() == former.lower() else one for one in keys]
            self.table.set_properties(self.spark, {KEY: json.dumps(renamed, ensure_ascii=False)})
        return None

    def _move_values(self, old: str, new: str, place: Place) -> str | None:
        """Give older rows of the table the values of a column in another one.

        Other tables of the target keep the former name, and rows that were read before the statement have the new one.
        """
        schema, order = schema_of(self.spark, self.target), order_of_rows(self.spark, self.target)
        if schema is None or order is None:
            return None
        if old.lower() in map(str.lower, self.table.key(self.spark) or []):
            return f"the column {old} of the key is {new} now, which other rows of the target have already, or not yet"
        create_or_evolve(self.spark, self.target, struct_type(pa.schema([])).add(new, schema[old].dataType))
        names = {"old": column("t", old), "new": column("t", new), "rows": self.rows, "order": order}
        older = sql(
            "{rows} AND {old} IS NOT NULL AND ({order} IS NULL OR {before})",
            before=is_before(order, Sql("s.place")),
            **names,
        )
        with ExitStack() as held, temporary_view(one_row(self.spark, place, [], held)) as view:
            update = sql("WHEN MATCHED THEN UPDATE SET {new} = {old}, {old} = NULL", **names)
            merge(self.spark, self.target, view, older, update)
        unordered = sql("{old} IS NOT NULL AND NOT {known}", known=is_ordered(Sql("s.place"), order), **names)
        if self._has_row(unordered, place):
            return f"rows of the time of the statement may have {new} in {old}"
        return None


def _lacks(one: Filled, value: Sql, order: Sql) -> Sql:
    """True if a row gets the value `value` of a column by the statement at `s.place`."""
    place = Sql("s.place")
    # A row without a column that the target lacked gets the value, unless it is known to be newer.
    newer = sql("{certain} AND {newer}", certain=is_certain(order, place), newer=is_newer(order, place))
    older = sql("NOT ({newer})", newer=newer) if one.is_new else is_before(order, place)
    return sql("{wants} AND {older}", wants=_wants(one, value), older=older)


def _wants(one: Filled, value: Sql) -> Sql:
    """True if a row gets a value in case that it is older than the statement."""
    name = column("t", one.name)
    # A row with a value has it from its own message, unless the column was there before.
    is_empty = Sql("true" if one.again else f"{name} IS NULL")
    return sql("NOT ({name} <=> {value}) AND {is_empty}", name=name, value=value, is_empty=is_empty)


def _literal(one: Filled) -> Sql:
    """The value of a column in SQL, with its type."""
    value, [field] = one.value.as_py(), struct_type(pa.schema([(one.name, one.value.type)]))
    kind = Sql(field.dataType.simpleString())
    if value is None:
        return sql("CAST(NULL AS {kind})", kind=kind)
    if isinstance(value, bytes):
        return Sql(f"X'{value.hex()}'")
    text = value.isoformat() if isinstance(value, date | datetime) else str(value)
    return sql("CAST({text} AS {kind})", text=string(text), kind=kind)
