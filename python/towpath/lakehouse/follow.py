"""Follows DDL statements: changes a target as its source table was changed, or says that it is stale."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.lakehouse.additions import Addition, additions_property, literal, read_additions
from towpath.lakehouse.batch_messages import computed
from towpath.lakehouse.declarations import storable
from towpath.lakehouse.formats import format_of
from towpath.lakehouse.interruption import is_interruption
from towpath.lakehouse.order import is_before, is_ordered
from towpath.lakehouse.ordered_statements import Place, Statement
from towpath.lakehouse.pending import Pending
from towpath.lakehouse.protection import RULES, Protection, RuleState
from towpath.lakehouse.sql import Sql, any_of, column, comma_separated, execute, expressions, merge, sql, table
from towpath.lakehouse.statements import (
    AddColumn,
    ChangeColumn,
    CreateTable,
    DropColumn,
    DropTable,
    ModifyColumn,
    NotFollowed,
    RenameColumn,
    RenameTable,
    TruncateTable,
)
from towpath.lakehouse.statements import Column as SourceColumn
from towpath.lakehouse.status import DROPPED, OK, STALE, STATES, TableStatus, Unsound, unordered
from towpath.lakehouse.status import RENAMED as RENAMED_AWAY
from towpath.lakehouse.tables import (
    TableSettings,
    create_or_evolve,
    order_column,
    rename_column,
    replace_with,
    schema_of,
    set_properties,
    settings_of,
    table_properties,
    temporary_view,
)
from towpath.lakehouse.targets import companion, source_name
from towpath.printable import SHOWN, printable
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from towpath.lakehouse.statements import Action, TableName

_log = logging.getLogger("towpath.spark")

SOURCE = "towpath.source"
"""A property of a target: the table that it was created for."""

_LAST, _DROPPED_COLUMNS, _DROPPED, KEY = "towpath.ddl", "towpath.dropped_columns", "towpath.dropped", "towpath.key"
"""Properties of a target: the place of the last statement of each partition that was followed, columns that the source
dropped, the place of the statement that dropped the source's table, and the key."""

RENAMED, MODIFIED, MOVED = "towpath.renamed", "towpath.modified", "towpath.moved"
"""Properties of a target: former names of columns that were renamed, the types that statements gave to columns (both by
names in lower case), and the table that has the rows since a RENAME TABLE."""

_NOT, _FORMER = "false", "true"
"""Values of `_DROPPED` besides a place: the table is not dropped; it is, as former versions said it."""


def stored_source(spark: SparkSession, target: str) -> str | None:
    """The table that a target was created for; None if there is no target, or if towpath did not create it."""
    return table_properties(spark, target).get(SOURCE) if schema_of(spark, target) is not None else None


@dataclass(frozen=True)
class _AddColumns:
    """The columns that a statement adds to a table one after the other: they are one change of its target."""

    table: TableName
    columns: tuple[SourceColumn, ...]


@dataclass(frozen=True)
class Follower:
    """Follows the actions of statements.

    Args:
        spark: The session.
        target: The target of a table; None if it is not replicated.
        truncate: Deletes the rows of a target that are older than a place, and remembers it. Returns how many stay,
            although they may be older.
        changed: Called with a target whose columns or rows were changed.
        follows: Whether targets may be changed.
        protection: The rules for the columns of tables.
        unsound: Which targets are not as their tables.
        pending: What statements did to tables without a target.
        renames: Whether a target gets the rows of the one whose table got its name. The rows of a history stay.
    """

    spark: SparkSession
    target: Callable[[str, str], str | None]
    truncate: Callable[[str, Place], int]
    changed: Callable[[str], None]
    follows: bool
    protection: Protection
    unsound: Unsound
    pending: Pending = field(default_factory=Pending)
    renames: bool = True
    _said: list[TableStatus] = field(default_factory=list, init=False)
    """What the current statement has done to tables as a whole."""

    def follow(self, statement: Statement) -> list[TableStatus]:
        """Follow a statement. Returns the targets that have another state now."""
        said: list[TableStatus] = []
        followed: set[str] = set()
        for action in _grouped(statement.actions):
            try:
                reasons = self._follow(action, statement, followed)
            except Exception as error:  # a target that cannot follow must not stop the others
                if is_interruption(error):
                    raise
                reasons = {name: str(error) for name in _tables_of(action, statement)}
            said += [replace(one, statement=printable(statement.text, SHOWN)) for one in self._said]
            self._said.clear()
            said += [_stale(name, reason, statement, self) for name, reason in reasons.items()]
        for target in followed:
            self._remember_place(target, statement.place)
            self.changed(target)
        return said

    def _say(self, name: tuple[str, str], state: str, reason: str | None = None, *, ends: Sequence[str] = ()) -> None:
        """Say that a table is gone, or that there is one again, with the states that this ends."""
        if not self.renames:  # a history has neither
            return
        if ends:
            self.unsound.end(name, ends)
        self._said.append(TableStatus(*name, self.target(*name), state, reason, ends=ends))

    def _remember_place(self, target: str, place: Place) -> None:
        """The statement is not followed again if it is read again."""
        known = Place.parse_all(table_properties(self.spark, target).get(_LAST))
        others = [dict(one.fields) for one in known if not one.is_beside(place)]
        set_properties(self.spark, target, {_LAST: json.dumps([*others, dict(place.fields)])})

    def _follow(
        self, action: Action | _AddColumns, statement: Statement, followed: set[str]
    ) -> dict[tuple[str, str], str]:
        """Follow an action, and add the target that it changed. Returns why the targets of tables are stale."""
        tables = _tables_of(action, statement)
        if isinstance(action, NotFollowed):
            if not tables and self.renames:  # once, not for a history again
                shown = printable(action.reason, SHOWN), printable(statement.text, SHOWN)
                _log.warning("a statement that names no table is not followed: %s: %s", *shown)
            return {name: action.reason for name in tables if not self._is_skipped(name)}
        if isinstance(action, RenameTable):
            return self._rename_tables(action, statement, followed) if self.renames else {}
        if not tables or self._has_followed(tables[0], statement.place):
            return {}
        self._remember_names(action, tables[0])
        target = self.target(*tables[0])
        if target is None:
            return {}
        if schema_of(self.spark, target) is None:
            if self.renames and self.follows:  # a history has each change
                self._wait(action, tables[0], statement.place)
            return {}
        reason = self._unless_ruled_out(action, tables[0], target, statement.place)
        if not reason and self.follows and not isinstance(action, DropTable | DropColumn):
            followed.add(target)
        return {tables[0]: reason} if reason else {}

    def _is_skipped(self, name: tuple[str, str]) -> bool:
        """Whether a table is not replicated, so that no statement makes it stale."""
        try:
            return self.target(*name) is None
        except ValueError:  # a template needs what the statement does not say
            return False

    def _wait(self, action: Action | _AddColumns, name: tuple[str, str], place: Place) -> None:
        """Remember an action for older rows of a table that has no target yet."""
        self.pending.read(self.spark)
        if isinstance(action, TruncateTable | DropTable):
            self.pending.empty(name, place)
        elif isinstance(action, _AddColumns):
            values = [_typed_value(one) for one in action.columns if one.initial is not None and not one.unknown]
            self.pending.add(name, [(_addition(value, place), struct_type(value.schema)[0]) for value in values])
        elif isinstance(action, RenameColumn):
            self.pending.rename(name, action.old, action.new)
        elif isinstance(action, ChangeColumn | ModifyColumn):
            if isinstance(action, ChangeColumn) and action.old.lower() != action.column.name.lower():
                self.pending.rename(name, action.old, action.column.name)
            self.pending.modify(name, action.column.name, _kind(action.column))

    def _remember_names(self, action: Action | _AddColumns, name: tuple[str, str]) -> None:
        if self.renames and not isinstance(action, _AddColumns):  # not for a history, which has no rules of its own
            self.protection.follow(action, name)

    def _unless_ruled_out(
        self, action: Action | _AddColumns, name: tuple[str, str], target: str, place: Place
    ) -> str | None:
        """Change a target, as far as the rules for the columns of its table allow it. Returns why it is stale."""
        rules = self.protection.rules(*name)
        if not isinstance(action, _AddColumns):
            reason = rules.unfollowed(action)
            return self._change(action, name, target, place) if reason is None else reason
        reasons = {one: rules.unfollowed(AddColumn(action.table, one)) for one in action.columns}
        added = self._add_columns([one for one, reason in reasons.items() if reason is None], target, place)
        return "; ".join(filter(None, [*reasons.values(), added]))

    def _has_followed(self, name: tuple[str, str], place: Place) -> bool:
        """Whether the target of a table exists and has followed this statement already."""
        target = self.target(*name)
        if target is None or schema_of(self.spark, target) is None:
            return False
        known = Place.parse_all(table_properties(self.spark, target).get(_LAST))
        return any(place.repeats(one) for one in known)

    def _change(self, action: Action, name: tuple[str, str], target: str, place: Place) -> str | None:
        """Change a target. Returns why it is stale."""
        if isinstance(action, DropTable | DropColumn):
            if isinstance(action, DropTable):
                self._say(name, DROPPED, "the table was dropped")
            self._remember(action, target, place)
            return None
        if isinstance(action, CreateTable):
            return self._create_table(action, name, target, place)
        changes: Mapping[type, Callable[..., str | None]] = {
            ModifyColumn: self._modify_column,
            RenameColumn: self._rename_column,
            ChangeColumn: self._change_column,
            TruncateTable: self._truncate_table,
        }
        change = changes.get(type(action))
        return change(action, target, place) if change else None

    def _remember(self, action: DropTable | DropColumn, target: str, place: Place) -> None:
        """What the source drops is kept, until it creates it again."""
        if isinstance(action, DropTable):
            set_properties(self.spark, target, {_DROPPED: str(place)})
            return
        dropped = json.loads(table_properties(self.spark, target).get(_DROPPED_COLUMNS, "[]"))
        if action.name not in dropped:
            text = json.dumps([*dropped, action.name], ensure_ascii=False)
            set_properties(self.spark, target, {_DROPPED_COLUMNS: text, **self._without(action.name, target)})

    def _without(self, name: str, target: str) -> dict[str, str]:
        """The properties of a target with its additions and modifications, but those of one column."""
        properties = table_properties(self.spark, target)
        additions = [one for one in read_additions(properties) if one.name.lower() != name.lower()]
        modified = {one: kind for one, kind in modifications(properties).items() if one != name.lower()}
        return {**additions_property(additions), MODIFIED: json.dumps(modified)}

    def _add_columns(self, columns: Sequence[SourceColumn], target: str, place: Place) -> str | None:
        reasons: list[str] = []
        properties = table_properties(self.spark, target)
        dropped = set(json.loads(properties.get(_DROPPED_COLUMNS, "[]")))
        known = {one.name.lower(): one for one in read_additions(properties)}
        existing = schema_of(self.spark, target)
        names = {name.lower() for name in existing.names} if existing is not None else set()
        new: list[_NewColumn] = []
        for added in columns:
            name = added.name
            is_new = name.lower() not in names
            if added.unknown:
                reasons.append(f"the values of the column {name} in old rows are not known: {added.unknown}")
            elif not is_new and name not in dropped and name.lower() in known:
                continue  # the statement was sent again
            elif self.follows:
                value = _typed_value(added)
                gets_value = added.initial is not None or name in dropped
                new.append(_NewColumn(_addition(value, place), value.schema, is_new, name in dropped, gets_value))
            elif added.initial is not None:
                reasons.append(f"ddl_policy is ignore: the column {name}")
        if new:
            reasons += self._write_columns(new, target, place, properties)
        return "; ".join(reasons) or None

    def _write_columns(
        self, new: list[_NewColumn], target: str, place: Place, properties: Mapping[str, str]
    ) -> list[str]:
        """Add columns in three commits at most: columns, values, properties. Returns why the target is stale."""
        create_or_evolve(self.spark, target, struct_type(pa.schema([field for one in new for field in one.schema])))
        reasons = self._fill(target, place, [one for one in new if one.gets_value])
        names = {one.addition.name for one in new}
        lower = {name.lower() for name in names}
        additions = [one for one in read_additions(properties) if one.name.lower() not in lower]
        written = additions_property([*additions, *(one.addition for one in new)])
        written[RENAMED] = json.dumps(sorted(_renamed(self.spark, target) - lower))
        remaining = [one for one in json.loads(properties.get(_DROPPED_COLUMNS, "[]")) if one not in names]
        written[_DROPPED_COLUMNS] = json.dumps(remaining, ensure_ascii=False)
        set_properties(self.spark, target, written)
        return reasons

    def _fill(self, target: str, place: Place, new: list[_NewColumn]) -> list[str]:
        """Give the values of added columns to the rows that are older. Returns why the target is stale."""
        schema = schema_of(self.spark, target)
        name = order_column(schema) if schema is not None else None
        if name is None or not new:
            return []
        order = column("t", name)
        lacks = [one.lacks_it(order, Sql("s.place"), Sql(f"s.v{at}")) for at, one in enumerate(new)]
        sets = (
            sql("{column} = IF({lacks}, s.{v}, {column})", column=one.column, lacks=lack, v=Sql(f"v{at}"))
            for at, (one, lack) in enumerate(zip(new, lacks, strict=True))
        )
        update = sql("WHEN MATCHED THEN UPDATE SET {sets}", sets=comma_separated(sets))
        condition = sql("{order} IS NOT NULL AND ({lacks})", order=order, lacks=any_of(lacks))
        with ExitStack() as held, temporary_view(self._one_row(place, new, held)) as view:
            merge(self.spark, target, view, condition, update)
        return [reason for one in new if not one.is_new and (reason := self._unfilled(target, one, order))]

    def _unfilled(self, target: str, one: _NewColumn, order: Sql) -> str | None:
        """Why a target is stale that had a column before it was added."""
        ordered = is_ordered(Sql("s.place"), order)
        condition = sql("{column} IS NULL AND NOT {ordered}", column=one.column, ordered=ordered)
        if not self._exists(target, condition, one.addition.place):
            return None
        return f"rows of the time of the statement may lack the column {one.addition.name}, or have null in it"

    def _one_row(self, place: Place, new: list[_NewColumn], held: ExitStack) -> DataFrame:
        """A row of data: Spark folds a query of constants into a merge, and then fails to make a filter for Iceberg."""
        values = [sql("{value} AS {name}", value=one.addition.value, name=Sql(f"v{at}")) for at, one in enumerate(new)]
        place_of_it = sql("{place} AS place", place=place.literal())
        query = sql("SELECT {values}", values=comma_separated([place_of_it, *values]))
        return computed(execute(self.spark, query), held, in_driver=True)

    def _exists(self, target: str, condition: Sql, place: Place | None = None) -> bool:
        """Whether a row `t` of a target meets a condition, which may use `s.place`."""
        rows = self.spark.read.table(table(target)).alias("t")
        with ExitStack() as held:
            if place is not None:
                rows = rows.crossJoin(self._one_row(place, [], held).alias("s"))
            return rows.filter(expressions(self.spark)(condition)).limit(1).count() > 0

    def _modify_column(self, action: ModifyColumn, target: str, place: Place) -> str | None:
        wanted = struct_type(_typed_value(action.column).schema)
        found, kind = self._find(target, action.column.name), wanted[0].dataType.simpleString()
        if found is not None and self.follows:
            create_or_evolve(self.spark, target, wanted)
        after = schema_of(self.spark, target)
        stored = format_of(self.spark, target).stored(kind)
        if found is not None and after is not None and after[found].dataType.simpleString() != stored:
            return f"the column {found} becomes {action.column.type}; rows may have changed without a message"
        if self.follows:  # older rows may be read later
            modified = modifications(table_properties(self.spark, target)) | {action.column.name.lower(): kind}
            set_properties(self.spark, target, {MODIFIED: json.dumps(modified)})
        return None

    def _rename_column(self, action: RenameColumn, target: str, place: Place) -> str | None:
        old, new = self._find(target, action.old), self._find(target, action.new)
        if old is None or old == action.new:
            return None
        if new is not None and new != old:
            return f"rows with the column {new} were read before the statement: older ones have its values in {old}"
        if not self.follows:
            return f"ddl_policy is ignore: the column {old} is {action.new} now"
        rename_column(self.spark, target, old, action.new)
        gone = {*_renamed(self.spark, target), old.lower()} - {action.new.lower()}
        set_properties(self.spark, target, {**self._without(old, target), RENAMED: json.dumps(sorted(gone))})
        key = json.loads(table_properties(self.spark, target).get(KEY, "[]"))
        if old in key:
            renamed = json.dumps([action.new if name == old else name for name in key], ensure_ascii=False)
            set_properties(self.spark, target, {KEY: renamed})
        return None

    def _change_column(self, action: ChangeColumn, target: str, place: Place) -> str | None:
        if action.old.lower() != action.column.name.lower():
            reason = self._rename_column(RenameColumn(action.table, action.old, action.column.name), target, place)
            if reason:
                return reason
        return self._modify_column(ModifyColumn(action.table, action.column), target, place)

    def _create_table(self, action: CreateTable, name: tuple[str, str], target: str, place: Place) -> str | None:
        """A table that was dropped has no rows when it is created again.

        A table that was not dropped has none either: then the rows of its target came with the statement, in other
        partitions. They are deleted by the drop's place, since no row is between the drop and the creation.
        """
        properties = table_properties(self.spark, target)
        dropped = properties.get(_DROPPED, _NOT)
        if dropped == _NOT:
            return None if action.if_not_exists else self._created_twice(target, place)
        if not self.follows:
            return "ddl_policy is ignore: the table was created again"
        reason = self._truncate(target, place if dropped == _FORMER else Place.parse(dropped) or place)
        reason = reason or self._given_by_former_table(target, read_additions(properties))
        if reason is None:  # nothing is left of what was wrong
            self._say(name, OK, ends=STATES[1:])
        nothing = {RENAMED: "[]", RULES: "{}", MODIFIED: "{}", MOVED: "", **additions_property([])}
        set_properties(self.spark, target, {_DROPPED: _NOT, **nothing})
        return reason

    def _given_by_former_table(self, target: str, additions: Sequence[Addition]) -> str | None:
        """Why a target is stale that has rows of a table which was created again, from before that was read.

        Their messages lacked the columns of the former table, so they may have got the values of its `ADD COLUMN`.
        """
        for one in additions:
            if self._find(target, one.name) and self._exists(
                target, sql("{column} <=> {value}", column=column("t", one.name), value=one.value)
            ):
                return (
                    f"rows of the new table may have the value that the former one's column {one.name} was added with"
                )
        return None

    def _created_twice(self, target: str, place: Place) -> str | None:
        """Why a target is stale whose table was created, although it had rows before."""
        schema = schema_of(self.spark, target)
        order = order_column(schema) if schema is not None else None
        if order is None:
            return None
        if self._exists(target, is_before(column("t", order), Sql("s.place")), place):
            return "the table was created, but has older rows: that it was dropped was not read"
        return None

    def _truncate(self, target: str, place: Place) -> str | None:
        """Delete what is older than a place. Returns why the target is stale."""
        kept = self.truncate(target, place)
        return unordered(kept) if kept else None

    def _truncate_table(self, action: TruncateTable, target: str, place: Place) -> str | None:
        if not self.follows:
            return "ddl_policy is ignore: the table was truncated"
        return self._truncate(target, place)

    def _rename_tables(
        self, action: RenameTable, statement: Statement, followed: set[str]
    ) -> dict[tuple[str, str], str]:
        """Each table gets the rows of the one that has its name now, as gh-ost's and pt-osc's copies do."""
        former: dict[tuple[str, str], tuple[str, str]] = {}
        for pair in action.pairs:
            old, new = map(statement.full_name, pair)
            former[new] = former.pop(old, old)
        # All of them first, since each is what the table has before the statement.
        states = {new: self.protection.of_renamed(old, new) for new, old in former.items()}
        put_away = {new: old for new, old in former.items() if old in former}
        reasons = {
            new: self._put_away(old, new, states[new], is_source=new in former.values())
            for new, old in put_away.items()
        }
        for new, old in former.items():
            if new not in put_away:
                reasons[new] = self._rename_table(old, new, statement.place, states[new], followed)
        return {new: reason for new, reason in reasons.items() if reason}

    def _put_away(self, old: tuple[str, str], new: tuple[str, str], state: RuleState, *, is_source: bool) -> str | None:
        """Why a target is stale whose table was renamed from one whose name another table got in the same statement.

        It is not, if the new name was not known before: such a table is what a migration puts away.
        """
        target = self.target(*new)
        if old == new or target is None:
            return None
        is_known = is_source or schema_of(self.spark, target) is not None
        if not is_known and state.former and self.follows:
            is_known = self._create_empty(old, target)
        self.protection.remember(*new, state)
        return f"renamed from {'.'.join(old)}, whose target has the rows of another table now" if is_known else None

    def _create_empty(self, old: tuple[str, str], target: str) -> bool:
        """Create a target that remembers the rules of its table's former name. Returns whether that was possible."""
        source = self.target(*old)
        schema = schema_of(self.spark, source) if source is not None else None
        if source is None or schema is None:
            return False
        properties = {**settings_of(self.spark, source, target), _DROPPED: _NOT}
        create_or_evolve(self.spark, target, schema, settings=TableSettings(properties))
        self.changed(target)
        return True

    def _rename_table(
        self, old: tuple[str, str], new: tuple[str, str], place: Place, state: RuleState, followed: set[str]
    ) -> str | None:
        source, target = self.target(*old), self.target(*new)
        if target is None:
            return None
        if source is None or schema_of(self.spark, source) is None:
            self.protection.remember(*new, state)
            return f"renamed from {'.'.join(old)}, which has no target"
        if self._has_followed(new, place):
            return None
        if not self.follows:
            self.protection.remember(*new, state)
            return f"ddl_policy is ignore: renamed from {'.'.join(old)}"
        late = self._is_late(target, place)
        reason = self._copy(old, new, state)
        followed.add(target)
        # A change that a stale target lacks may be newer than this.
        self._say(new, OK, ends=(DROPPED, RENAMED_AWAY))
        self._say(old, RENAMED_AWAY, f"the table was renamed to {'.'.join(new)}")
        # The old name has no table now: one that is created under it has none of these rows.
        set_properties(self.spark, source, {_DROPPED: str(place), MOVED: json.dumps(new, ensure_ascii=False)})
        self.changed(source)
        self.changed(target)
        return reason or late

    def _is_late(self, target: str, place: Place) -> str | None:
        """Why a target is stale that has changes of after its table got the rows of another one."""
        schema = schema_of(self.spark, target)
        name = order_column(schema) if schema is not None else None
        if name is None:
            return None
        tombstones = companion(target, "tombstones")
        has_tombstones = schema_of(self.spark, tombstones) is not None
        for one, order in [(target, column("t", name)), (tombstones, column("t", "order"))][: 1 + has_tombstones]:
            older = is_before(order, Sql("s.place"))
            if self._exists(one, sql("{order} IS NOT NULL AND NOT {older}", order=order, older=older), place):
                return "changes that may be newer than the statement were read before it: they may be lost"
        return None

    def _copy(self, old: tuple[str, str], new: tuple[str, str], state: RuleState) -> str | None:
        """Give a target the rows of another one, as far as the rules of its table allow it. Returns why it is stale."""
        source, target = self.target(*old), self.target(*new)
        schema = schema_of(self.spark, source) if source is not None else None
        if source is None or target is None or schema is None:
            return None
        former, rules = self.protection.rules(*old), self.protection.rules_with(new, state)
        kept = settings_of(self.spark, source, target)
        rules.check_key(source_name(*new), json.loads(kept.get(KEY, "[]")))
        order = order_column(schema)
        own = {name for name in schema.names if name == order or name.lower() in self.protection.own}
        columns = rules.of_copy(schema.names, former, own)
        of_new = {SOURCE: source_name(*new), _DROPPED: _NOT, MOVED: "", RULES: str(state)}
        replace_with(self.spark, target, source, {**kept, **of_new}, columns)
        differ = sorted(name for name in former.mask if rules.mask.get(name) != former.mask[name] and rules.keeps(name))
        if differ:
            return f"older rows have {', '.join(differ)} masked as in {'.'.join(old)}"
        reason = self.unsound.reason(old)
        return f"renamed from {'.'.join(old)}: {reason}" if reason else None

    def _find(self, target: str, name: str) -> str | None:
        """The name of a target's column; MySQL compares names without case."""
        schema = schema_of(self.spark, target)
        return next((one for one in schema.names if one.lower() == name.lower()), None) if schema is not None else None


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
        # A row with a value has it from its own message, unless the column was there before.
        is_empty = Sql("true" if self.again else f"{self.column} IS NULL")
        template = "NOT ({column} <=> {value}) AND {is_empty} AND {older}"
        return sql(template, column=self.column, value=value, is_empty=is_empty, older=older)


def _tables_of(action: Action | _AddColumns, statement: Statement) -> list[tuple[str, str]]:
    one = AddColumn(action.table, action.columns[0]) if isinstance(action, _AddColumns) else action
    return statement.tables_of(one)


def _grouped(actions: Iterable[Action]) -> Iterator[Action | _AddColumns]:
    """The actions; columns that are added to one table one after the other are one action."""
    for name, group in groupby(actions, lambda action: action.table if isinstance(action, AddColumn) else None):
        if name is None:
            yield from group
        else:
            yield _AddColumns(name, tuple(one.column for one in group if isinstance(one, AddColumn)))


def _stale(name: tuple[str, str], reason: str, statement: Statement, follower: Follower) -> TableStatus:
    reason, text = printable(reason, SHOWN), printable(statement.text, SHOWN)
    _log.warning("%s is stale: %s: %s", printable(".".join(name), SHOWN), reason, text)
    try:
        target = follower.target(*name)
    except ValueError:
        target = None
    return TableStatus(*name, target, state=STALE, reason=reason, statement=text)


def modifications(properties: Mapping[str, str]) -> dict[str, str]:
    """The types that statements gave to columns, by their names in lower case."""
    found: dict[str, str] = json.loads(properties.get(MODIFIED, "{}"))
    return found


def moved_to(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """The table that has the rows of a target's table since a RENAME TABLE, until one is created under the old name."""
    found = properties.get(MOVED)
    return tuple(json.loads(found)) if found else None


def gone_at(properties: Mapping[str, str]) -> Place | None:
    """The place of the statement that dropped or renamed the table of a target, if it is gone."""
    found = properties.get(_DROPPED, _NOT)
    return None if found in (_NOT, _FORMER) else Place.parse(found)


def _kind(one: SourceColumn) -> str:
    """The type of a column in a target."""
    [field] = struct_type(_typed_value(one).schema)
    return field.dataType.simpleString()


def _renamed(spark: SparkSession, target: str) -> set[str]:
    return set(json.loads(table_properties(spark, target).get(RENAMED, "[]")))


def _addition(value: pa.Table, place: Place) -> Addition:
    [field] = struct_type(value.schema)
    kind = Sql(field.dataType.simpleString())
    return Addition(field.name, literal(value.to_pylist()[0][field.name], kind), place)


def _typed_value(added: SourceColumn) -> pa.Table:
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
