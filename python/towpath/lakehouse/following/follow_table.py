"""Follows statements that change one table: changes its target, or explains why it is stale."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.lakehouse.following.carried_rows import are_changed, initial_value
from towpath.lakehouse.following.converted_values import relabelled
from towpath.lakehouse.following.small_target import Filled
from towpath.lakehouse.following.stored_rows import StoredRows, stored_rows
from towpath.lakehouse.log.ordered_statements import Place, Statement
from towpath.lakehouse.log.timeline import Columns, Name
from towpath.lakehouse.order.order import is_certain, is_newer
from towpath.lakehouse.rules.rule_names import rule_of
from towpath.lakehouse.seen.status import DROPPED, GONE, OK, QUARANTINED, STALE, STATES, TableStatus, unordered
from towpath.lakehouse.statements import (
    Action,
    AddColumn,
    ChangePrimaryKey,
    Column,
    CreateTable,
    DropColumn,
    DropTable,
    ModifyColumn,
    RenameColumn,
    TruncateTable,
)
from towpath.lakehouse.tables.formats import format_of
from towpath.lakehouse.tables.known_table import KnownTable
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import Sql, any_of, column, sql, string
from towpath.lakehouse.tables.tables import (
    INTEGERS,
    can_store,
    create_or_evolve,
    drop_column,
    exists,
    rename_column,
    schema_of,
)
from towpath.lakehouse.tables.target_properties import KEY, SOURCE
from towpath.lakehouse.tables.target_rows import ALL_ROWS, find_column, has_row
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

Actions = tuple[Action, ...]

_CREATED_TWICE = "the table was created, but its target has older rows: no DROP TABLE was read"
_IGNORED = "ddl_policy is ignore: the table was"
_UNLABELLED = "the target has rows not written by replicate, whose source table is unknown"
_WAITING = "quarantined messages may belong to the recreated table: apply them with reprocess"


@dataclass(frozen=True)
class TableChange:
    """Change of a table: one action, or several that add columns."""

    spark: SparkSession
    known: KnownTargets
    statement: Statement
    actions: Actions
    name: Name
    target: str

    def follow(self) -> Iterator[TableStatus]:
        """Change the target. Yield its states, without the statement."""
        action = self.actions[0]
        if not exists(self.spark, self.target):
            if isinstance(action, CreateTable):
                self.known.status.end(self.spark, self.name, GONE)
        elif isinstance(action, DropTable):
            yield TableStatus(*self.name, None, DROPPED, "the table was dropped")
        else:
            if isinstance(action, CreateTable):
                yield from self._create(action)
            elif reasons := list(self._reasons()):
                yield self._stale("; ".join(reasons))
            if not isinstance(action, DropColumn) and self._is_unlabelled():
                yield self._stale(_UNLABELLED)

    def _stale(self, reason: str) -> TableStatus:
        return TableStatus(*self.name, None, STALE, reason)

    @property
    def _table(self) -> KnownTable:
        return self.known.table(self.target)

    @cached_property
    def _stored(self) -> StoredRows:
        return next(stored_rows(self.spark, self.known, self.name, self.statement.place))

    def _is_unlabelled(self) -> bool:
        """Return whether some rows of the target do not name their table, although tables may share the target."""
        order = self._stored.order if self.known.may_share else None
        if order is None or SOURCE in self._table.properties(self.spark):
            return False
        is_unlabelled = sql("{label} IS NULL", label=column("t", order, "table"))
        return has_row(self.spark, self.target, is_unlabelled, self.known.in_tasks)

    def _reasons(self) -> Iterator[str]:
        """Change the target, as far as the column rules of its table allow. Yield reasons why it is stale."""
        timeline, protection = self.known.log.timeline(self.spark, self.name), self.known.protection(self.spark)
        cut = timeline.cut(self.statement, self.actions[0])
        before, rules = protection.of(self.name, cut), protection.of(self.name, cut + len(self.actions))
        ruled = [rules.in_target(one, before) for one in self.actions]
        yield from (one for one in ruled if isinstance(one, str))
        if added := [one for one in ruled if isinstance(one, AddColumn)]:
            yield from self._add(added, timeline.columns(self.name, cut), timeline.lost(self.name, cut))
            return
        match ruled[0]:
            case TruncateTable():
                yield from self._truncate(self.statement.place, "truncated")
            case ModifyColumn(column=column):
                yield from self._modify(column, timeline.columns(self.name, cut))
            case RenameColumn(old=old, new=new):
                yield from self._rename(old, new)
            case ChangePrimaryKey(columns=columns):
                yield from self._change_key(columns)

    def _change_key(self, columns: Collection[str]) -> Iterator[str]:
        """Yield a reason why the target is stale if its rows are merged by another key than the current one."""
        if rule_of(self.known.options.keys, *self.name):
            return
        key = self._table.key(self.spark) or []
        if {one.lower() for one in key} not in (set(), {one.lower() for one in columns}):
            new = f"is now ({', '.join(columns)})" if columns else "was dropped"
            yield f"the primary key {new}; rows are merged by ({', '.join(key)})"

    def _create(self, action: CreateTable) -> Iterator[TableStatus]:
        """Delete the rows of a former table of the same name.

        A table that was not dropped has no rows either. Then the rows of its target came with the statement, in other
        partitions. They are deleted at the drop's place, since no row lies between the drop and the creation.
        """
        timeline = self.known.log.timeline(self.spark, self.name)
        cut = timeline.cut(self.statement, action)
        gone_at = timeline.ended(self.name, cut)
        if timeline.exists(self.name, cut) is not False or gone_at is None:
            if not action.if_not_exists and self._stored.has(self._stored.before):
                yield self._stale(_CREATED_TWICE)
            return
        if reasons := list(self._truncate(gone_at, "recreated")):
            yield self._stale(*reasons)
            return
        for one in action.columns if self.known.follows else ():
            self._drop_unlike(one.name, _type_of(one))
        if (aside := self.known.quarantine) is not None and aside.has_since(self.spark, self.name, gone_at):
            yield TableStatus(*self.name, None, QUARANTINED, _WAITING, ends=[*GONE, STALE])
        else:  # the target is correct again, unless rows of the new table were read before the statement
            is_in_doubt = self.known.status.reason(self.spark, self.name) and self._stored.has(ALL_ROWS)
            yield TableStatus(*self.name, None, OK, ends=GONE if is_in_doubt else STATES[1:])

    def _truncate(self, place: Place, what: str) -> Iterator[str]:
        """Delete rows of the table that are older than a place. Yield reasons why the target is stale."""
        if not self.known.follows:
            yield f"{_IGNORED} {what}"
        elif kept := self.known.truncate(self.spark, self.target, self.name, place):
            yield unordered(kept)

    def _add(self, actions: Sequence[AddColumn], known: Columns, lost: Collection[str]) -> Iterator[str]:
        """Add columns, and give older rows their values.

        Args:
            actions: The actions of a statement that add the columns.
            known: Columns of the table after earlier statements.
            lost: Lower-case names of former columns.

        Yields:
            Reasons why the target is stale.
        """
        existing = self._schema()
        names = {name.lower() for name in existing.names} if existing is not None else set()
        new: list[Filled] = []
        for action in actions:
            added, name, lower = action.column, action.column.name, action.column.name.lower()
            is_new, is_former = lower not in names, lower in lost
            if added.unknown:
                yield f"the values of the column {name} in older rows are unknown: {added.unknown}"
            elif lower in known.added:
                continue  # the source sent the statement again
            elif not is_new and not is_former and action.if_not_exists:
                empty = sql("{name} IS NULL AND {before}", name=column("t", name), before=self._stored.before)
                if added.initial is not None and self._stored.has(empty):
                    yield f"the column {name} may have existed before: nulls of older rows may be actual values"
            elif self.known.follows:
                value = initial_value(added)
                # MySQL dropped the former column, and its values.
                is_replaced = is_former and not is_new and self._drop_unlike(name, _type_of(added))
                new.append(Filled(name, value, is_new or is_replaced, is_former))
            elif added.initial is not None:
                yield f"ddl_policy is ignore: the column {name} was added"
        if new:  # at most two commits: columns, then values
            self._evolve(struct_type(pa.schema([(one.name, one.value.type) for one in new])))
            yield from self._fill([one for one in new if one.value.is_valid or not one.is_new])

    def _fill(self, new: list[Filled]) -> Iterator[str]:
        """Give older rows the values of added columns. Yield reasons why the target is stale."""
        if self._stored.order is None or not new:
            return
        small = self.known.small(self.spark, self.name, self.target)
        if small is None or not small.fill(self.statement.place, new):
            lacks = {column("t", one.name): self._lacks(one) for one in new}
            template = "IF({lacks}, {value}, {name})"
            values = {
                name: sql(template, lacks=lack, value=_literal(one), name=name)
                for one, (name, lack) in zip(new, lacks.items(), strict=True)
            }
            self._stored.update(values, any_of(lacks.values()))
        for one in new:
            # The target had the column before the source added it.
            unordered = sql("{wants} AND {unordered}", wants=_wants(one), unordered=self._stored.unordered)
            if not one.is_new and self._stored.has(unordered):
                yield f"rows concurrent with the statement may lack the column {one.name}, or have null in it"

    def _drop_unlike(self, name: str, wanted: DataType) -> bool:
        """Drop a column that cannot store values of a type if it only has values of older rows of this table.

        Return whether it was dropped.
        """
        schema = self._schema()
        found = find_column(schema, name)
        if schema is None or found is None or can_store(schema[found].dataType, wanted):
            return False
        others = sql("{name} IS NOT NULL AND NOT {before}", name=column("t", found), before=self._stored.before)
        if self._stored.own != ALL_ROWS or self._stored.has(others):
            return False
        drop_column(self.spark, self.target, found)
        return True

    def _schema(self) -> StructType | None:
        return schema_of(self.spark, self.target, self.known.in_tasks)

    def _evolve(self, columns: StructType) -> None:
        """Add columns to the target, and widen its types to fit."""
        create_or_evolve(self.spark, self.target, columns, in_tasks=self.known.in_tasks)

    def _lacks(self, one: Filled) -> Sql:
        """Return a condition for rows that get the value of a column."""
        # If the target lacked the column, rows get the value unless they are known to be newer.
        older = self._stored.compared(_may_lack) if one.is_new else self._stored.before
        return sql("{wants} AND {older}", wants=_wants(one), older=older)

    def _modify(self, modified: Column, known: Columns) -> Iterator[str]:
        """Change the type of a column. Yield reasons why the target is stale.

        Args:
            modified: The column with its new type.
            known: Columns of the table after earlier statements.
        """
        lower, wanted = modified.name.lower(), _type_of(modified)
        former = known.types.get(lower) or known.added.get(lower)
        is_wider = former is not None and can_store(wanted, _type_of(former))
        found = find_column(self._schema(), modified.name)
        if found is None:
            return
        if self.known.follows:
            self._evolve(struct_type(pa.schema([])).add(modified.name, wanted))
        schema, name = self._schema(), column("t", found)
        own = (schema[found].dataType if schema is not None else wanted).simpleString()
        stored = format_of(self.spark, self.target).stored(wanted.simpleString())
        # Another table of the target, or a former column of this name, may need another type.
        if own != stored and not is_wider and not {own, stored} <= INTEGERS.keys():
            yield f"the column {found} became {modified.type}; rows may have changed without a message"
        elif self._stored.has(are_changed(name, modified)):
            yield f"the column {found} became {modified.type}; rows have changed without a message"
        elif self.known.follows and (value := relabelled(name, modified.type)) is not None:
            # Values of an enum or set get the order and case of the new labels. Newer rows have them already.
            others = sql("NOT {name} <=> {value}", name=name, value=value)
            if self._stored.has(others):
                self._stored.update({name: value}, others)

    def _rename(self, former: str, name: str) -> Iterator[str]:
        """Rename a column, and in the key too: a driver may have ended in between. Yield reasons for staleness."""
        is_alone = self._stored.own == ALL_ROWS
        schema = self._schema()
        old, new = find_column(schema, former), find_column(schema, name)
        if old is not None and old == new:  # only the case differs: the target keeps its spelling
            return
        if not self.known.follows:
            if old is not None:
                yield f"ddl_policy is ignore: the column {old} was renamed to {name}"
            return
        if schema is not None and old and new and self._drop_unlike(new, schema[old].dataType):
            new = None
        # Newer rows keep the column: they may be of a later table of this name.
        if old is not None and (new is not None or not is_alone or self._stored.has(self._stored.after)):
            yield from self._move_values(old, new or name)
            return
        if old is not None:
            rename_column(self.spark, self.target, old, name)
        keys = self._table.key(self.spark) or []
        if former.lower() in map(str.lower, keys):
            renamed = [name if one.lower() == former.lower() else one for one in keys]
            self._table.set_properties(self.spark, {KEY: json.dumps(renamed, ensure_ascii=False)})

    def _move_values(self, old: str, new: str) -> Iterator[str]:
        """Move the values of a column to another column in older rows. Yield reasons why the target is stale.

        Other tables of the target keep the former name. Rows that were read before the statement have the new name.
        """
        schema, order = self._schema(), self._stored.order
        if schema is None or order is None:
            return
        if old.lower() in map(str.lower, self._table.key(self.spark) or []):
            yield f"the key column {old} was renamed to {new}, but other rows of the target may have either name"
            return
        self._evolve(struct_type(pa.schema([])).add(new, schema[old].dataType))
        former, now = column("t", old), column("t", new)
        template = "{former} IS NOT NULL AND ({order} IS NULL OR {before})"
        older = sql(template, former=former, order=column("t", order), before=self._stored.before)
        self._stored.update({now: former, former: Sql("NULL")}, older)
        if self._stored.has(
            sql("{former} IS NOT NULL AND {unordered}", former=former, unordered=self._stored.unordered)
        ):
            yield f"rows concurrent with the statement may have the values of {new} in {old}"


def _type_of(column: Column) -> DataType:
    """Return the type of a column in a new target."""
    [field] = struct_type(pa.schema([(column.name, initial_value(column).type)]))
    return field.dataType


def _may_lack(order: Sql, place: Sql) -> Sql:
    template = "NOT ({certain} AND {newer})"
    return sql(template, certain=is_certain(order, place), newer=is_newer(order, place))


def _wants(one: Filled) -> Sql:
    """Return a condition for rows that get the value of a column if they are older than the statement."""
    name = column("t", one.name)
    # A row with a value has it from its own message, unless the column existed before.
    is_empty = Sql("true" if one.again else f"{name} IS NULL")
    return sql("NOT ({name} <=> {value}) AND {is_empty}", name=name, value=_literal(one), is_empty=is_empty)


def _literal(one: Filled) -> Sql:
    """Return the value of a column as SQL, with its type."""
    value, [field] = one.value.as_py(), struct_type(pa.schema([(one.name, one.value.type)]))
    kind = Sql(field.dataType.simpleString())
    if value is None:
        return sql("CAST(NULL AS {kind})", kind=kind)
    if isinstance(value, bytes):
        return Sql(f"X'{value.hex()}'")
    text = value.isoformat() if isinstance(value, date | datetime) else str(value)
    return sql("CAST({text} AS {kind})", text=string(text), kind=kind)
