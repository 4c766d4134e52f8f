"""Follows statements about columns: adds, changes and renames those of a target, or says why it is stale."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.lakehouse.following.carried_rows import are_changed, literal, typed_value
from towpath.lakehouse.following.converted_values import relabelled
from towpath.lakehouse.following.small_target import Filled, SmallTarget
from towpath.lakehouse.log.ordered_statements import Place
from towpath.lakehouse.order.order import is_before, is_certain, is_newer, is_ordered
from towpath.lakehouse.statements import Column as SourceColumn
from towpath.lakehouse.statements import ModifyColumn, RenameColumn
from towpath.lakehouse.tables.formats import format_of
from towpath.lakehouse.tables.sql import Sql, any_of, column, comma_separated, execute, merge, sql, table
from towpath.lakehouse.tables.tables import (
    INTEGERS,
    create_or_evolve,
    rename_column,
    schema_of,
    set_properties,
    table_properties,
    temporary_view,
)
from towpath.lakehouse.tables.target_properties import KEY
from towpath.lakehouse.tables.target_rows import ALL_ROWS, find_column, has_row, one_row, order_of_rows
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class KnownColumns:
    """The columns of a table that statements added, dropped or renamed, in lower case."""

    added: Collection[str]
    """Those that it has."""
    former: Collection[str]
    """Those that it had, or a former table of its name."""


@dataclass(frozen=True)
class ColumnChanges:
    """Changes the columns of targets. Each method returns why the target is stale, or None."""

    spark: SparkSession
    follows: bool
    """Whether targets may be changed."""
    has_rows_of_now: bool = True
    """Whether the rows are those of the table. A history has former ones too."""
    rows: Sql = ALL_ROWS
    """A condition for the rows `t` of the table, if others share the target."""
    small: SmallTarget | None = None
    """The target as delta-rs changes it."""

    def add(
        self,
        columns: Sequence[SourceColumn],
        target: str,
        place: Place,
        known: KnownColumns,
        conditional: Collection[str] = (),
    ) -> str | None:
        """Add columns, and give their values to older rows.

        Args:
            columns: The columns.
            target: The target.
            place: The place of the statement.
            known: The columns that earlier statements added.
            conditional: The columns in lower case that the statement adds only if the table lacks them.
        """
        reasons: list[str] = []
        existing = schema_of(self.spark, target)
        names = {name.lower() for name in existing.names} if existing is not None else set()
        new: list[_NewColumn] = []
        for added in columns:
            name = added.name
            is_new, is_dropped = name.lower() not in names, name.lower() in known.former
            if added.unknown:
                reasons.append(f"the values of the column {name} in old rows are not known: {added.unknown}")
            elif name.lower() in known.added:
                continue  # the statement was sent again
            elif not is_new and not is_dropped and name.lower() in conditional:
                if self._has_older_nulls(added, target, place):
                    reasons.append(
                        f"the table may have had the column {name} before: nulls of old rows may be their values"
                    )
            elif self.follows:
                gets_value = added.initial is not None or not is_new
                new.append(_of(added, place, is_new=is_new, again=is_dropped, gets_value=gets_value))
            elif added.initial is not None:
                reasons.append(f"ddl_policy is ignore: the column {name}")
        if new:
            reasons += self._write_columns(new, target, place)
        return "; ".join(reasons) or None

    def _has_older_nulls(self, added: SourceColumn, target: str, place: Place) -> bool:
        """Whether older rows have null in a column that gives them a value, and may have had the column before."""
        order, name = order_of_rows(self.spark, target), column("t", added.name)
        if added.initial is None or order is None:
            return False
        older = sql("{name} IS NULL AND {older}", name=name, older=is_before(order, Sql("s.place")))
        return self._has_row(target, older, place)

    def _has_row(self, target: str, condition: Sql, place: Place | None = None) -> bool:
        """Whether a row of the table meets a condition."""
        own = sql("{rows} AND ({condition})", rows=self.rows, condition=condition)
        return has_row(self.spark, target, own, place)

    def _write_columns(self, new: list[_NewColumn], target: str, place: Place) -> list[str]:
        """Add columns in two commits at most: columns, values. Returns why the target is stale."""
        create_or_evolve(
            self.spark, target, struct_type(pa.schema([field for one in new for field in one.initial.schema]))
        )
        return list(self._fill(target, place, [one for one in new if one.gets_value]).values())

    def _fill(self, target: str, place: Place, new: list[_NewColumn]) -> dict[str, str]:
        """Give the values of added columns to the rows that are older. Returns why columns make the target stale."""
        order = order_of_rows(self.spark, target)
        if order is None or not new:
            return {}
        filled = [Filled(one.name, one.initial.column(0)[0], one.is_new, one.again) for one in new]
        if self.small is None or not self.small.fill(place, filled):
            self._merge_values(target, place, new, order)
        reasons = {one.name: self._unfilled(target, one, order) for one in new if not one.is_new}
        return {name: reason for name, reason in reasons.items() if reason}

    def _merge_values(self, target: str, place: Place, new: list[_NewColumn], order: Sql) -> None:
        lacks = [one.lacks_it(order, Sql("s.place"), Sql(f"s.v{at}")) for at, one in enumerate(new)]
        sets = (
            sql("{column} = IF({lacks}, s.{v}, {column})", column=one.column, lacks=lack, v=Sql(f"v{at}"))
            for at, (one, lack) in enumerate(zip(new, lacks, strict=True))
        )
        update = sql("WHEN MATCHED THEN UPDATE SET {sets}", sets=comma_separated(sets))
        condition = sql("{rows} AND ({lacks})", rows=self.rows, lacks=any_of(lacks))
        values = [one.value for one in new]
        with ExitStack() as held, temporary_view(one_row(self.spark, place, values, held)) as view:
            merge(self.spark, target, view, condition, update)

    def _unfilled(self, target: str, one: _NewColumn, order: Sql) -> str | None:
        """Why a target is stale that had a column before it was added."""
        ordered = is_ordered(Sql("s.place"), order)
        condition = sql("{wants} AND NOT {ordered}", wants=one.wants(one.value), ordered=ordered)
        if not self._has_row(target, condition, one.place):
            return None
        return f"rows of the time of the statement may lack the column {one.name}, or have null in it"

    def modify(self, action: ModifyColumn, target: str) -> str | None:
        """Change the type of a column."""
        wanted = struct_type(typed_value(action.column).schema)
        found, kind = find_column(self.spark, target, action.column.name), wanted[0].dataType.simpleString()
        if found is not None and self.follows:
            create_or_evolve(self.spark, target, wanted)
        after = schema_of(self.spark, target)
        stored = format_of(self.spark, target).stored(kind)
        own = stored if found is None or after is None else after[found].dataType.simpleString()
        # Another table of the target, or an earlier type, may need a wider integer.
        if own != stored and not {own, stored} <= INTEGERS.keys():
            return f"the column {found} becomes {action.column.type}; rows may have changed without a message"
        if found is not None and self.has_rows_of_now:
            if self._has_row(target, are_changed(column("t", found), action.column)):
                return f"the column {found} becomes {action.column.type}; rows have changed without a message"
            self._relabel(column("t", found), action.column.type, target)
        return None

    def _relabel(self, name: Sql, kind: str, target: str) -> None:
        """Give the values of an enum or set the order and case of its new labels. Newer rows have them already."""
        value = relabelled(name, kind)
        if value is not None and self.follows:
            others = sql("{rows} AND NOT {name} <=> {value}", rows=self.rows, name=name, value=value)
            if has_row(self.spark, target, others):
                template = "UPDATE {target} t SET {name} = {value} WHERE {others}"
                execute(self.spark, sql(template, target=table(target), name=name, value=value, others=others))

    def rename(self, action: RenameColumn, target: str, place: Place) -> str | None:
        """Rename a column, and in the key too: a driver may have ended in between."""
        old, new = find_column(self.spark, target, action.old), find_column(self.spark, target, action.new)
        if not self.follows:
            return None if old in (None, action.new) else f"ddl_policy is ignore: the column {old} is {action.new} now"
        if old is not None and old != action.new:
            if self.rows != ALL_ROWS or new not in (None, old):
                return self._move_values(old, new or action.new, target, place)
            rename_column(self.spark, target, old, action.new)
        self._rename_in_key(action, target)
        return None

    def _move_values(self, old: str, new: str, target: str, place: Place) -> str | None:
        """Give older rows of the table the values of a column in another one.

        Other tables of the target keep the former name, and rows that were read before the statement have the new one.
        """
        schema, order = schema_of(self.spark, target), order_of_rows(self.spark, target)
        if schema is None or order is None:
            return None
        if old.lower() in map(str.lower, json.loads(table_properties(self.spark, target).get(KEY, "[]"))):
            return f"the column {old} of the key is {new} now, which other rows of the target have already, or not yet"
        create_or_evolve(self.spark, target, struct_type(pa.schema([])).add(new, schema[old].dataType))
        names = {"old": column("t", old), "new": column("t", new), "rows": self.rows, "order": order}
        older = sql(
            "{rows} AND {old} IS NOT NULL AND ({order} IS NULL OR {before})",
            before=is_before(order, Sql("s.place")),
            **names,
        )
        with ExitStack() as held, temporary_view(one_row(self.spark, place, [], held)) as view:
            update = sql("WHEN MATCHED THEN UPDATE SET {new} = {old}, {old} = NULL", **names)
            merge(self.spark, target, view, older, update)
        unordered = sql("{old} IS NOT NULL AND NOT {known}", known=is_ordered(Sql("s.place"), order), **names)
        if self._has_row(target, unordered, place):
            return f"rows of the time of the statement may have {new} in {old}"
        return None

    def _rename_in_key(self, action: RenameColumn, target: str) -> None:
        known: list[str] = json.loads(table_properties(self.spark, target).get(KEY, "[]"))
        key = [action.new if name.lower() == action.old.lower() else name for name in known]
        if key != known:
            set_properties(self.spark, target, {KEY: json.dumps(key, ensure_ascii=False)})


@dataclass(frozen=True)
class _NewColumn:
    """A column that a statement adds."""

    name: str
    initial: pa.Table
    """Its value in older rows."""
    place: Place
    """The place of the statement."""
    is_new: bool
    """Whether the target lacked it."""
    again: bool
    """Whether the source dropped it before."""
    gets_value: bool
    """Whether older rows get another value than null."""

    @property
    def value(self) -> Sql:
        """Its value in older rows, with its type."""
        [field] = struct_type(self.initial.schema)
        return literal(self.initial.to_pylist()[0][field.name], Sql(field.dataType.simpleString()))

    @property
    def column(self) -> Sql:
        """It in the merge's target."""
        return column("t", self.name)

    def lacks_it(self, order: Sql, place: Sql, value: Sql) -> Sql:
        """True if a row gets the value."""
        # A row without a column that the target lacked gets the value, unless it is known to be newer.
        newer = sql("{certain} AND {newer}", certain=is_certain(order, place), newer=is_newer(order, place))
        older = sql("NOT ({newer})", newer=newer) if self.is_new else is_before(order, place)
        return sql("{wants} AND {older}", wants=self.wants(value), older=older)

    def wants(self, value: Sql) -> Sql:
        """True if a row gets the value in case that it is older than the statement."""
        # A row with a value has it from its own message, unless the column was there before.
        is_empty = Sql("true" if self.again else f"{self.column} IS NULL")
        return sql("NOT ({column} <=> {value}) AND {is_empty}", column=self.column, value=value, is_empty=is_empty)


def _of(added: SourceColumn, place: Place, *, is_new: bool, gets_value: bool, again: bool = False) -> _NewColumn:
    return _NewColumn(added.name, typed_value(added), place, is_new, again, gets_value)
