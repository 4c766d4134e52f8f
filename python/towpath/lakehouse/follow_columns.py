"""Follows statements about columns: adds, changes and renames those of a target, or says why it is stale."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.lakehouse.additions import Addition, additions_property, literal, read_additions
from towpath.lakehouse.converted_values import is_converted, relabelled
from towpath.lakehouse.declarations import storable
from towpath.lakehouse.formats import format_of
from towpath.lakehouse.order import is_before, is_ordered
from towpath.lakehouse.ordered_statements import Place
from towpath.lakehouse.sql import Sql, any_of, column, comma_separated, execute, merge, sql, table
from towpath.lakehouse.statements import GENERATED, NUMBERED, ChangeColumn, ModifyColumn, RenameColumn
from towpath.lakehouse.statements import Column as SourceColumn
from towpath.lakehouse.tables import (
    create_or_evolve,
    rename_column,
    schema_of,
    set_properties,
    table_properties,
    temporary_view,
)
from towpath.lakehouse.target_properties import (
    DROPPED_COLUMNS,
    KEY,
    MODIFIED,
    RENAMED,
    dropped_columns,
    modifications,
    renamed_columns,
    with_renamed,
    without_added,
)
from towpath.lakehouse.target_rows import find_column, has_row, one_row, order_of_rows
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

_TIMES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class ColumnChanges:
    """Changes the columns of targets. Each method returns why the target is stale, or None."""

    spark: SparkSession
    follows: bool
    """Whether targets may be changed."""
    has_rows_of_now: bool = True
    """Whether the rows are those of the table. A history has former ones too."""

    def drop(self, name: str, target: str) -> None:
        """What the source drops is kept."""
        dropped = dropped_columns(table_properties(self.spark, target))
        if name.lower() not in dropped:
            text = json.dumps([*dropped, name.lower()], ensure_ascii=False)
            set_properties(self.spark, target, {DROPPED_COLUMNS: text, **self._without(name, target)})

    def _renamed(self, old: str, new: str, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties of a target with its additions and modifications, of which one column has another name."""
        additions = [one.renamed(old, new) for one in read_additions(properties)]
        modified = {new.lower() if one == old.lower() else one: kind for one, kind in modifications(properties).items()}
        return {**additions_property(additions), MODIFIED: json.dumps(modified)}

    def _without(self, name: str, target: str) -> dict[str, str]:
        """The properties of a target with its additions and modifications, but those of one column."""
        properties = table_properties(self.spark, target)
        additions = [one for one in read_additions(properties) if one.name.lower() != name.lower()]
        modified = {one: kind for one, kind in modifications(properties).items() if one != name.lower()}
        return {**additions_property(additions), MODIFIED: json.dumps(modified)}

    def add(
        self,
        columns: Sequence[SourceColumn],
        target: str,
        place: Place,
        conditional: Collection[str] = (),
        *,
        is_shared: bool = False,
    ) -> str | None:
        """Add columns, and give their values to older rows.

        Args:
            columns: The columns.
            target: The target.
            place: That of the statement.
            conditional: The columns in lower case that the statement adds only if the table lacks them.
            is_shared: Whether the target has rows of other tables, to which a column is added by other statements.
        """
        reasons: list[str] = []
        properties = table_properties(self.spark, target)
        self._remember_renamed(target, properties, partial(without_added, added=[one.name for one in columns]))
        dropped = set(dropped_columns(properties))
        known = {one.name.lower(): one for one in read_additions(properties)}
        existing = schema_of(self.spark, target)
        names = {name.lower() for name in existing.names} if existing is not None else set()
        new: list[_NewColumn] = []
        for added in columns:
            name = added.name
            is_new = name.lower() not in names
            if added.unknown:
                reasons.append(f"the values of the column {name} in old rows are not known: {added.unknown}")
            elif not is_new and name.lower() not in dropped and name.lower() in known:
                first = known[name.lower()].place
                if not (is_shared and place.is_newer(first) and self.follows):
                    continue  # the statement was sent again
                reason = self._of_shard(added, target, place, first)
                reasons += [reason] if reason else []
                new += [] if reason else [_of(added, place, is_new=False, gets_value=not added.nullable)]
            elif not is_new and name.lower() not in dropped and name.lower() in conditional:
                reasons += self._undecided(added, target, place)
            elif is_shared and name.lower() in dropped:
                reasons.append(f"the column {name} was dropped and added again in one of the tables of the target")
            elif self.follows:
                again = name.lower() in dropped
                new.append(_of(added, place, is_new=is_new, again=again, gets_value=added.initial is not None or again))
            elif added.initial is not None:
                reasons.append(f"ddl_policy is ignore: the column {name}")
        if new:
            reasons += self._write_columns(new, target, place, properties)
        return "; ".join(reasons) or None

    def _of_shard(self, added: SourceColumn, target: str, place: Place, first: Place) -> str | None:
        """Why a target is stale to whose tables a column was added one after the other.

        Rows between both statements that have null may be of the table which got the column first.
        """
        order, name = order_of_rows(self.spark, target), column("t", added.name)
        if added.initial is None or not added.nullable or order is None:
            return None
        between = sql(
            "{name} IS NULL AND {older} AND NOT {first}",
            name=name,
            older=is_before(order, Sql("s.place")),
            first=is_before(order, first.literal()),
        )
        if not has_row(self.spark, target, between, place):
            return None
        return f"nulls in {added.name} may be of a table that had the column already, or of one that had not"

    def _undecided(self, added: SourceColumn, target: str, place: Place) -> list[str]:
        """Why a target is stale that has a column which its table may have had before the statement, too."""
        order, name = order_of_rows(self.spark, target), column("t", added.name)
        if added.initial is None or order is None:
            return []
        older = sql("{name} IS NULL AND {older}", name=name, older=is_before(order, Sql("s.place")))
        if not has_row(self.spark, target, older, place):
            return []
        return [f"the table may have had the column {added.name} before: nulls of old rows may be their values"]

    def _write_columns(
        self, new: list[_NewColumn], target: str, place: Place, properties: Mapping[str, str]
    ) -> list[str]:
        """Add columns in three commits at most: columns, values, properties. Returns why the target is stale."""
        create_or_evolve(self.spark, target, struct_type(pa.schema([field for one in new for field in one.schema])))
        reasons = self._fill(target, place, [one for one in new if one.gets_value])
        # The others are asked about again, if the driver ends before their states are written.
        done = [one for one in new if one.addition.name not in reasons]
        lower = {one.addition.name.lower() for one in done}
        additions = [one for one in read_additions(properties) if one.name.lower() not in lower]
        written = additions_property([*additions, *(one.addition for one in done)])
        remaining = [one for one in dropped_columns(properties) if one not in lower]
        written[DROPPED_COLUMNS] = json.dumps(remaining, ensure_ascii=False)
        set_properties(self.spark, target, written)
        return list(reasons.values())

    def _fill(self, target: str, place: Place, new: list[_NewColumn]) -> dict[str, str]:
        """Give the values of added columns to the rows that are older. Returns why columns make the target stale."""
        order = order_of_rows(self.spark, target)
        if order is None or not new:
            return {}
        lacks = [one.lacks_it(order, Sql("s.place"), Sql(f"s.v{at}")) for at, one in enumerate(new)]
        sets = (
            sql("{column} = IF({lacks}, s.{v}, {column})", column=one.column, lacks=lack, v=Sql(f"v{at}"))
            for at, (one, lack) in enumerate(zip(new, lacks, strict=True))
        )
        update = sql("WHEN MATCHED THEN UPDATE SET {sets}", sets=comma_separated(sets))
        condition = any_of(lacks)
        values = [one.addition.value for one in new]
        with ExitStack() as held, temporary_view(one_row(self.spark, place, values, held)) as view:
            merge(self.spark, target, view, condition, update)
        reasons = {one.addition.name: self._unfilled(target, one, order) for one in new if not one.is_new}
        return {name: reason for name, reason in reasons.items() if reason}

    def _unfilled(self, target: str, one: _NewColumn, order: Sql) -> str | None:
        """Why a target is stale that had a column before it was added."""
        ordered = is_ordered(Sql("s.place"), order)
        condition = sql("{wants} AND NOT {ordered}", wants=one.wants(one.addition.value), ordered=ordered)
        if not has_row(self.spark, target, condition, one.addition.place):
            return None
        return f"rows of the time of the statement may lack the column {one.addition.name}, or have null in it"

    def modify(self, action: ModifyColumn, target: str) -> str | None:
        """Change the type of a column."""
        wanted = struct_type(typed_value(action.column).schema)
        found, kind = find_column(self.spark, target, action.column.name), wanted[0].dataType.simpleString()
        if found is not None and self.follows:
            create_or_evolve(self.spark, target, wanted)
        after = schema_of(self.spark, target)
        stored = format_of(self.spark, target).stored(kind)
        if found is not None and after is not None and after[found].dataType.simpleString() != stored:
            return f"the column {found} becomes {action.column.type}; rows may have changed without a message"
        if found is not None and self.has_rows_of_now:
            if action.column.unknown == GENERATED and has_row(self.spark, target, Sql("true")):
                return f"the column {found} is generated; rows may have changed without a message"
            name, changed = column("t", found), [is_converted(column("t", found), action.column.type)]
            # Without the strict mode, MySQL replaces nulls. Those of times may be zero dates.
            if not action.column.nullable and kind not in _TIMES:
                changed.append(sql("{name} IS NULL", name=name))
            if action.column.unknown == NUMBERED:  # MySQL gives the next number to a row with 0
                changed.append(sql("{name} = 0", name=name))
            if has_row(self.spark, target, any_of(changed)):
                return f"the column {found} becomes {action.column.type}; rows have changed without a message"
            self._relabel(name, action.column.type, target)
        if self.follows:  # older rows may be read later
            modified = modifications(table_properties(self.spark, target)) | {action.column.name.lower(): kind}
            set_properties(self.spark, target, {MODIFIED: json.dumps(modified)})
        return None

    def _relabel(self, name: Sql, kind: str, target: str) -> None:
        """Give the values of an enum or set the order and case of its new labels. Newer rows have them already."""
        value = relabelled(name, kind)
        if value is not None and self.follows:
            others = sql("NOT {name} <=> {value}", name=name, value=value)
            if has_row(self.spark, target, others):
                template = "UPDATE {target} t SET {name} = {value} WHERE {others}"
                execute(self.spark, sql(template, target=table(target), name=name, value=value, others=others))

    def rename(self, action: RenameColumn, target: str) -> str | None:
        """Rename a column.

        What the properties say of it follows, also if it was renamed before: a driver may have ended in between.
        """
        old, new = find_column(self.spark, target, action.old), find_column(self.spark, target, action.new)
        properties = table_properties(self.spark, target)
        named = partial(with_renamed, old=old or action.old, new=action.new)
        if old is None or old == action.new:
            self._remember_renamed(target, properties, named)
            if self.follows:
                self._rename_in_properties(action.old, action.new, target)
            return None
        if new is not None and new != old:
            return f"rows with the column {new} were read before the statement: older ones have its values in {old}"
        if not self.follows:
            return f"ddl_policy is ignore: the column {old} is {action.new} now"
        self._remember_renamed(target, properties, named)
        rename_column(self.spark, target, old, action.new)
        self._rename_in_properties(old, action.new, target)
        return None

    def _remember_renamed(
        self, target: str, properties: Mapping[str, str], change: Callable[[dict[str, str]], dict[str, str]]
    ) -> None:
        """Let rows of before the statement, which may come later, find their columns."""
        known = renamed_columns(properties)
        if self.follows and (renamed := change(known)) != known:
            set_properties(self.spark, target, {RENAMED: json.dumps(renamed, ensure_ascii=False)})

    def _rename_in_properties(self, old: str, new: str, target: str) -> None:
        """Let the additions, the modifications and the key of a target name a column as it is called now."""
        properties = table_properties(self.spark, target)
        key = [new if name.lower() == old.lower() else name for name in json.loads(properties.get(KEY, "[]"))]
        values = {**self._renamed(old, new, properties), KEY: json.dumps(key, ensure_ascii=False)}
        if changed := {
            name: value for name, value in values.items() if name in properties and properties[name] != value
        }:
            set_properties(self.spark, target, changed)

    def change(self, action: ChangeColumn, target: str) -> str | None:
        """Rename a column and change its type."""
        if action.old.lower() != action.column.name.lower():
            reason = self.rename(RenameColumn(action.table, action.old, action.column.name), target)
            if reason:
                return reason
        return self.modify(ModifyColumn(action.table, action.column), target)


@dataclass(frozen=True)
class _NewColumn:
    """A column that a statement adds."""

    addition: Addition
    schema: pa.Schema
    """It with its type."""
    is_new: bool
    """Whether the target lacked it."""
    again: bool
    """Whether the source dropped it before."""
    gets_value: bool
    """Whether older rows get another value than null."""

    @property
    def column(self) -> Sql:
        """It in the merge's target."""
        return column("t", self.addition.name)

    def lacks_it(self, order: Sql, place: Sql, value: Sql) -> Sql:
        """True if a row gets the value."""
        older = self.addition.lacks_it(order, place) if self.is_new else is_before(order, place)
        return sql("{wants} AND {older}", wants=self.wants(value), older=older)

    def wants(self, value: Sql) -> Sql:
        """True if a row gets the value in case that it is older than the statement."""
        # A row with a value has it from its own message, unless the column was there before.
        is_empty = Sql("true" if self.again else f"{self.column} IS NULL")
        return sql("NOT ({column} <=> {value}) AND {is_empty}", column=self.column, value=value, is_empty=is_empty)


def _of(added: SourceColumn, place: Place, *, is_new: bool, gets_value: bool, again: bool = False) -> _NewColumn:
    value = typed_value(added)
    return _NewColumn(_addition(value, place), value.schema, is_new, again, gets_value)


def awaited_additions(columns: Sequence[SourceColumn], place: Place) -> list[tuple[Addition, StructField]]:
    """What columns give to older rows of a table that has no target yet, with their types."""
    values = [typed_value(one) for one in columns if one.initial is not None and not one.unknown]
    return [(_addition(value, place), struct_type(value.schema)[0]) for value in values]


def stored_type(one: SourceColumn) -> str:
    """The type of a column in a target."""
    [field] = struct_type(typed_value(one).schema)
    return field.dataType.simpleString()


def _addition(value: pa.Table, place: Place) -> Addition:
    [field] = struct_type(value.schema)
    kind = Sql(field.dataType.simpleString())
    return Addition(field.name, literal(value.to_pylist()[0][field.name], kind), place)


def typed_value(added: SourceColumn) -> pa.Table:
    """The initial value of a column, with the type that its values have in the target."""
    from towpath.decoder import Decoder, infer_schema

    initial = added.initial.decode("latin-1") if isinstance(added.initial, bytes) else added.initial
    message = {
        "type": "INSERT",
        "database": "d",
        "table": "t",
        "mysqlType": {added.name: added.type},
        "data": [{added.name: initial}],
    }
    values = pa.array([json.dumps(message, ensure_ascii=False).encode()], pa.binary())
    schema = pa.schema([storable(field) for field in infer_schema(values, "canal-json")])
    decoder = Decoder(
        "canal-json", schema, layout="upsert", row_column="row", fields=["_op", "_error"], mode="FAILFAST"
    )
    row = decoder.decode(pa.record_batch({"value": values})).column("row")
    return pa.table(row.flatten(), schema=schema)
