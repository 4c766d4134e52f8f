"""Follows DDL statements: changes a target as its source table was changed, or says that it is stale."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.spark.lakehouse.columns import ColumnRules
from towpath.spark.lakehouse.declarations import storable
from towpath.spark.lakehouse.order import is_newer
from towpath.spark.lakehouse.ordered_statements import Place, Statement
from towpath.spark.lakehouse.sql import column, merge, sql
from towpath.spark.lakehouse.statements import (
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
from towpath.spark.lakehouse.statements import Column as SourceColumn
from towpath.spark.lakehouse.status import STALE, TableStatus
from towpath.spark.lakehouse.tables import (
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
from towpath.spark.lakehouse.targets import source_name
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.spark.lakehouse.statements import Action

_log = logging.getLogger("towpath.spark")

SOURCE = "towpath.source"
"""A property of a target: the table that it was created for."""

_LAST, _DROPPED_COLUMNS, _DROPPED, KEY = "towpath.ddl", "towpath.dropped_columns", "towpath.dropped", "towpath.key"
"""Properties of a target: the place of the last statement that was followed, columns that the source dropped, whether
the source's table is dropped, and the key."""


def stored_source(spark: SparkSession, target: str) -> str | None:
    """The table that a target was created for; None if there is no target, or if towpath did not create it."""
    return table_properties(spark, target).get(SOURCE) if schema_of(spark, target) is not None else None


@dataclass(frozen=True)
class Follower:
    """Follows the actions of statements.

    Args:
        spark: The session.
        target: The target of a table; None if it is not replicated.
        truncate: Deletes the rows of a target that are older than a place, and remembers it.
        changed: Called with a target whose columns or rows were changed.
        follows: Whether targets may be changed.
        rules: The rules for the columns of a table.
        renames: Whether a target gets the rows of the one whose table got its name. The rows of a history stay.
    """

    spark: SparkSession
    target: Callable[[str, str], str | None]
    truncate: Callable[[str, Place], None]
    changed: Callable[[str], None]
    follows: bool
    rules: Callable[[str, str], ColumnRules]
    renames: bool = True

    def follow(self, statement: Statement) -> list[TableStatus]:
        """Follow a statement. Returns the targets that are stale now."""
        stale: list[TableStatus] = []
        followed: set[str] = set()
        for action in statement.actions:
            try:
                reasons = self._follow(action, statement, followed)
            except Exception as error:  # a target that cannot follow must not stop the others
                reasons = {name: str(error) for name in statement.tables_of(action)}
            stale += [_stale(name, reason, statement, self) for name, reason in reasons.items()]
        for target in followed:
            set_properties(self.spark, target, {_LAST: str(statement.place)})
            self.changed(target)
        return stale

    def _follow(self, action: Action, statement: Statement, followed: set[str]) -> dict[tuple[str, str], str]:
        """Follow an action, and add the target that it changed. Returns why the targets of tables are stale."""
        tables = statement.tables_of(action)
        if isinstance(action, NotFollowed):
            return dict.fromkeys(tables, action.reason)
        if isinstance(action, RenameTable):
            return self._rename_tables(action, statement) if self.renames else {}
        if not tables or (target := self._existing(tables[0], statement.place)) is None:
            return {}
        reason = self.rules(*tables[0]).unfollowed(action)
        if reason is None:
            reason = self._change(action, target, statement)
        if not reason and self.follows and not isinstance(action, DropTable | DropColumn):
            followed.add(target)
        return {tables[0]: reason} if reason else {}

    def _existing(self, name: tuple[str, str], place: Place) -> str | None:
        """The target of a table, if it exists and has not followed this statement already."""
        target = self.target(*name)
        if target is None or schema_of(self.spark, target) is None:
            return None
        last = Place.parse(table_properties(self.spark, target).get(_LAST))
        return target if place.is_newer(last) else None

    def _change(self, action: Action, target: str, statement: Statement) -> str | None:
        """Change a target. Returns why it is stale."""
        if isinstance(action, DropTable | DropColumn):
            self._remember(action, target)
            return None
        changes: Mapping[type, Callable[..., str | None]] = {
            AddColumn: self._add_column,
            ModifyColumn: self._modify_column,
            RenameColumn: self._rename_column,
            ChangeColumn: self._change_column,
            CreateTable: self._create_table,
            TruncateTable: self._truncate_table,
        }
        change = changes.get(type(action))
        return change(action, target, statement.place) if change else None

    def _remember(self, action: DropTable | DropColumn, target: str) -> None:
        """What the source drops is kept, until it creates it again."""
        if isinstance(action, DropTable):
            set_properties(self.spark, target, {_DROPPED: "true"})
            return
        dropped = json.loads(table_properties(self.spark, target).get(_DROPPED_COLUMNS, "[]"))
        if action.name not in dropped:
            text = json.dumps([*dropped, action.name], ensure_ascii=False)
            set_properties(self.spark, target, {_DROPPED_COLUMNS: text})

    def _add_column(self, action: AddColumn, target: str, place: Place) -> str | None:
        added, name = action.column, action.column.name
        if added.unknown:
            return f"the values of the column {name} in old rows are not known: {added.unknown}"
        dropped = json.loads(table_properties(self.spark, target).get(_DROPPED_COLUMNS, "[]"))
        is_new = self._find(target, name) is None
        if not is_new and name not in dropped:
            return None
        if not self.follows:
            return f"ddl_policy is ignore: the column {name}" if added.initial is not None else None
        value = _typed_value(added)
        create_or_evolve(self.spark, target, struct_type(value.schema))
        if added.initial is not None or not is_new:
            self._fill(target, name, value, place)
        remaining = json.dumps([one for one in dropped if one != name], ensure_ascii=False)
        if name in dropped:
            set_properties(self.spark, target, {_DROPPED_COLUMNS: remaining})
        return None

    def _fill(self, target: str, name: str, value: pa.Table, place: Place) -> None:
        """Give a value to the rows that are older than a statement."""
        schema = schema_of(self.spark, target)
        order = order_column(schema) if schema is not None else None
        if order is None:
            return
        names = {"t": column("t", name), "s": column("s", name)}
        condition = sql(
            "NOT ({t} <=> {s}) AND {order} IS NOT NULL AND {newer}",
            **names,
            order=column("t", order),
            newer=is_newer(place.literal(), column("t", order)),
        )
        frame = self.spark.createDataFrame(value.to_pylist(), struct_type(value.schema))
        with temporary_view(frame) as view:
            update = sql("WHEN MATCHED THEN UPDATE SET {t} = {s}", **names)
            merge(self.spark, target, view, condition, update)

    def _modify_column(self, action: ModifyColumn, target: str, place: Place) -> str | None:
        wanted = struct_type(_typed_value(action.column).schema)
        found = self._find(target, action.column.name)
        if found is None:
            return None
        before = schema_of(self.spark, target)
        if self.follows:
            create_or_evolve(self.spark, target, wanted)
        after = schema_of(self.spark, target)
        kind = wanted[0].dataType.simpleString()
        if before is not None and after is not None and after[found].dataType.simpleString() != kind:
            return f"the column {found} becomes {action.column.type}; rows may have changed without a message"
        return None

    def _rename_column(self, action: RenameColumn, target: str, place: Place) -> str | None:
        old, new = self._find(target, action.old), self._find(target, action.new)
        if old is None or (new is not None and new != old) or old == action.new:
            return None
        if not self.follows:
            return f"ddl_policy is ignore: the column {old} is {action.new} now"
        rename_column(self.spark, target, old, action.new)
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

    def _create_table(self, action: CreateTable, target: str, place: Place) -> str | None:
        """A table that is created has no rows."""
        was_dropped = table_properties(self.spark, target).get(_DROPPED) == "true"
        if action.if_not_exists and not was_dropped:
            return None
        if not self.follows:
            return "ddl_policy is ignore: the table was created again"
        self.truncate(target, place)
        set_properties(self.spark, target, {_DROPPED: "false"})
        return None

    def _truncate_table(self, action: TruncateTable, target: str, place: Place) -> str | None:
        if not self.follows:
            return "ddl_policy is ignore: the table was truncated"
        self.truncate(target, place)
        return None

    def _rename_tables(self, action: RenameTable, statement: Statement) -> dict[tuple[str, str], str]:
        """Each table gets the rows of the one that has its name now, as gh-ost's and pt-osc's copies do."""
        pairs = [tuple(statement.full_name(name) for name in pair) for pair in action.pairs]
        replaced = {new for _, new in pairs}
        stale = {}
        for old, new in pairs:
            if old in replaced:
                continue  # another table has this name from now on: the old one is a copy that is put away
            reason = self._rename_table(old, new, statement.place)
            if reason:
                stale[new] = reason
        return stale

    def _rename_table(self, old: tuple[str, str], new: tuple[str, str], place: Place) -> str | None:
        source, target = self.target(*old), self.target(*new)
        if target is None:
            return None
        if source is None or schema_of(self.spark, source) is None:
            return f"renamed from {'.'.join(old)}, which has no target"
        existing = schema_of(self.spark, target)
        of_target = table_properties(self.spark, target) if existing is not None else {}
        if not place.is_newer(Place.parse(of_target.get(_LAST))):
            return None
        if not self.follows:
            return f"ddl_policy is ignore: renamed from {'.'.join(old)}"
        kept = settings_of(self.spark, source, target)
        replace_with(self.spark, target, source, {**kept, SOURCE: source_name(*new), _LAST: str(place)})
        self.changed(target)
        return None

    def _find(self, target: str, name: str) -> str | None:
        """The name of a target's column; MySQL compares names without case."""
        schema = schema_of(self.spark, target)
        return next((one for one in schema.names if one.lower() == name.lower()), None) if schema is not None else None


def _stale(name: tuple[str, str], reason: str, statement: Statement, follower: Follower) -> TableStatus:
    _log.warning("%s is stale: %s: %s", ".".join(name), reason, statement.text)
    try:
        target = follower.target(*name)
    except ValueError:
        target = None
    return TableStatus(*name, target, state=STALE, reason=reason, statement=statement.text)


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
