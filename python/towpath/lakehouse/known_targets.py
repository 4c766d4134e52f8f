"""The targets of a query, with what it remembers of them from batch to batch, and how each table's target has to be."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from towpath.lakehouse.additions import Addition, additions_property, read_additions
from towpath.lakehouse.aside import Aside, Origin
from towpath.lakehouse.changes import ChangeDecoder
from towpath.lakehouse.column_rules import ColumnRules
from towpath.lakehouse.declarations import Declaration, declared_columns, declared_key
from towpath.lakehouse.formats import format_of
from towpath.lakehouse.history import append_truncate
from towpath.lakehouse.interruption import is_interruption
from towpath.lakehouse.merge import Applier
from towpath.lakehouse.pending import Pending
from towpath.lakehouse.protection import RULES, Protection, RuleState, rule_of
from towpath.lakehouse.renamed_columns import RenamedColumns
from towpath.lakehouse.replicate_options import AS_STORED, ReplicateOptions, columns_of
from towpath.lakehouse.shards import Shards, Sharing
from towpath.lakehouse.source_tables import SourceTable
from towpath.lakehouse.sql import comma_separated, expressions, sql
from towpath.lakehouse.status import STALE, TableStatus, read_tables, read_written, write_ahead
from towpath.lakehouse.tables import (
    TableSettings,
    exists,
    order_column,
    set_properties,
    table_properties,
    widened,
)
from towpath.lakehouse.target_properties import (
    KEY,
    MODIFIED,
    RENAMED,
    SOURCE,
    dropped_columns,
    modifications,
    renamed_columns,
)
from towpath.lakehouse.targets import Targets, companion, source_name
from towpath.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField, StructType

_Rule = TypeVar("_Rule")

_log = logging.getLogger("towpath.spark")

_EMPTIED_BEFORE = (
    "another table of the target was truncated or dropped before this one joined it: its older rows that come later "
    "are not deleted any more"
)


class KnownTargets:
    """What a query knows of its targets, and what its arguments say about them."""

    def __init__(
        self,
        targets: Targets,
        options: ReplicateOptions,
        dead_letters: Aside | None,
        pending: Pending,
        remembered: Mapping[tuple[str, str], RuleState],
    ) -> None:
        """Know nothing yet.

        Args:
            targets: The target of each source table.
            options: The arguments.
            dead_letters: The table for rows that cannot be applied.
            pending: What statements did to tables that have no target yet.
            remembered: What is remembered for the rules of tables that have no target yet.
        """
        self.options = options
        self.pending = pending
        self.sources: set[tuple[str, str]] = set()
        """The tables that this process has applied."""
        self.written: set[str] = set()
        """The targets that this process has written."""
        self._shards = Shards()
        self._targets, self._dead_letters = targets, dead_letters
        self._remembered = dict(remembered)
        self._appliers: dict[str, Applier] = {}
        self._properties: dict[str, Mapping[str, str]] = {}
        self._first_batch: int | None = None
        self._written_before: Collection[str] | None = None

    def target(self, table: SourceTable) -> str | None:
        """The target of a table; None if it is to be skipped.

        Raises:
            ValueError: It has none, or one for each of its topics.
        """
        found = {self._targets(table.database, table.name, one) for one in table.topics}
        if len(found) > 1:
            raise ValueError(
                f"target: {table.full_name} is in the topics {', '.join(sorted(table.topics))}, which have targets of "
                "their own; read each topic with a query of its own"
            )
        return found.pop()

    def applier(self, target: str) -> Applier:
        """What applies changes to a target, and knows it from earlier batches."""
        return self._appliers.setdefault(target, Applier(target, [], self._dead_letters, self.options.settings))

    def properties(self, spark: SparkSession, target: str) -> Mapping[str, str]:
        """The properties of a target that exists."""
        if target not in self._properties:
            self._properties[target] = table_properties(spark, target)
        return self._properties[target]

    def forget(self, target: str) -> None:
        """Read a target's schema and properties again, since they have changed."""
        self.applier(target).forget_schemas()
        self._properties.pop(target, None)

    def of_tables(self, spark: SparkSession) -> set[tuple[str, str]]:
        """The tables that this process has applied, and those in `status`."""
        return {*self.sources, *(read_tables(spark, self.options.status) if self.options.status else ())}

    def of_names(self, database: str, table: str) -> str | None:
        """The target of a table by its names; None if it is to be skipped."""
        return self._targets(database, table)

    def of_other_case(self, spark: SparkSession, database: str, table: str) -> list[tuple[str, str]]:
        """The tables that a name without a target may mean: some servers store names in lower case."""
        if self._has_target(spark, database, table):
            return []
        folded = (database.lower(), table.lower())
        others = (one for one in self.of_tables(spark) if (one[0].lower(), one[1].lower()) == folded)
        return sorted(one for one in others if self._has_target(spark, *one))

    def _has_target(self, spark: SparkSession, database: str, table: str) -> bool:
        try:
            target = self.of_names(database, table)
        except ValueError:  # a template needs what the name does not have
            return False
        return target is not None and exists(spark, target)

    def read_properties(self, target: str) -> Mapping[str, str]:
        """The properties of a target, as far as they have been read."""
        return self._properties.get(target, {})

    def sharing(self, spark: SparkSession, name: tuple[str, str], target: str) -> Sharing:
        """What a table shares its target with."""
        if not self._targets.may_share:
            return Sharing()
        properties = table_properties(spark, target) if exists(spark, target) else {}
        return self._shards.sharing(name, target, properties, self.tables_of(spark, target))

    def sharing_by_name(self, spark: SparkSession, name: tuple[str, str]) -> Sharing:
        """What a table that a statement names shares its target with."""
        target = self.of_names(*name) if self._targets.may_share else None
        return Sharing() if target is None else self.sharing(spark, name, target)

    def tables_of(self, spark: SparkSession, target: str) -> list[tuple[str, str]]:
        """The tables of a target that this process has applied, and those in `status`."""
        found = []
        for name in self.of_tables(spark):
            with suppress(ValueError):  # a template needs what the name does not have
                found += [name] if self.of_names(*name) == target else []
        return found

    def meet(self, tables: Iterable[SourceTable]) -> None:
        """See the tables of a batch."""
        found = []
        for one in tables if self._targets.may_share else ():
            with suppress(Exception):  # it is raised again where the table is applied
                target = self.target(one)
                found += [] if target is None else [(*one.key, target)]
        self._shards.begin(found)

    def admit(self, spark: SparkSession) -> list[TableStatus]:
        """Let no statement about the other tables of a target hide the rows of those that join it.

        Returns:
            The states of tables that join a target of which another table was emptied: late rows of that one stay.
        """
        found: list[TableStatus] = []
        for target in self._shards.unlisted():
            with suppress(Exception):  # it is raised again where the table is applied
                tombstones = self.applier(target).tombstones
                is_there = self.applier(target).writer.schema(spark) is not None
                joining = self._shards.joining(target, self.properties(spark, target)) if is_there else []
                if joining and tombstones.has_truncates(spark):
                    said = [TableStatus(*one, target, STALE, _EMPTIED_BEFORE) for one in joining]
                    write_ahead(spark, self.options.status, said)
                    tombstones.forget_truncates(spark)
                    found += said
        return found

    def list_shards(self, spark: SparkSession) -> None:
        """Let targets name the tables that share them, unless they do not exist."""
        for target in self._shards.unlisted():
            try:
                if self.applier(target).writer.schema(spark) is None:
                    continue
                if new := self._shards.remember(target, self.properties(spark, target)):
                    self.change_properties(spark, target, new)
            except Exception as error:  # one target must not stop the others
                if is_interruption(error):
                    raise
                _log.warning("%s: the tables that share it are not written: %s", target, printable(str(error)))

    def rename_shard(self, spark: SparkSession, old: tuple[str, str], new: tuple[str, str], target: str) -> None:
        """A table that shares a target has another name."""
        names = source_name(*old), source_name(*new)
        if changed := self._shards.rename(*names, target, table_properties(spark, target)):
            self.change_properties(spark, target, changed)

    def was_merged(self, target: str, properties: Mapping[str, str]) -> None:
        """A task has merged changes into a target, and read its properties."""
        self.written.add(target)
        self._properties.setdefault(target, properties)

    def change_properties(self, spark: SparkSession, target: str, values: Mapping[str, str]) -> None:
        """Set properties of a target."""
        set_properties(spark, target, values)
        self._properties.pop(target, None)

    def protection(self, spark: SparkSession) -> Protection:
        """The rules of columns, and where they are remembered."""

        def columns_of(target: str) -> list[str] | None:
            schema = self.applier(target).writer.schema(spark)
            return schema.names if schema is not None else None

        def properties(target: str) -> Mapping[str, str] | None:
            return self.properties(spark, target) if columns_of(target) is not None else None

        own = frozenset({self.options.soft_deletes.lower()} if self.options.soft_deletes else ())
        return Protection(
            self.options.columns,
            self._targets,
            properties,
            partial(self.change_properties, spark),
            self._remembered,
            columns_of,
            partial(self.of_tables, spark),
            own,
        )

    def rules(self, spark: SparkSession, table: SourceTable) -> ColumnRules:
        """The rules of a table's columns."""
        return self.protection(spark).rules(table.database, table.name)

    def history(self, full_name: str, target: str) -> str | None:
        """The history of a target."""
        is_kept = self.options.history if isinstance(self.options.history, bool) else full_name in self.options.history
        return companion(target, "history") if is_kept else None

    def begin(self, batch_id: int) -> None:
        """A batch begins."""
        if self._first_batch is None:
            self._first_batch = batch_id

    def is_gone(self, spark: SparkSession, target: str) -> bool:
        """Whether somebody removed a target that this query has written. What is remembered of it is forgotten then."""
        if exists(spark, target) or not (target in self.written or target in self._read_written(spark)):
            return False
        self.forget(target)
        return True

    def _read_written(self, spark: SparkSession) -> Collection[str]:
        """The targets that former processes have written; none with a new checkpoint, whose batches begin again."""
        if self._written_before is None:
            found = read_written(spark, self.options.status) if self.options.status else {}
            begins_again = (self._first_batch or 0) <= max(found.values(), default=0)
            self._written_before = () if begins_again else found.keys()
        return self._written_before

    def stored_key(self, spark: SparkSession, target: str | None) -> list[str] | None:
        """The key of a target that exists."""
        if target is None:
            return None
        found: list[str] | None = json.loads(self.properties(spark, target).get(KEY, "null"))
        return found

    def has_key(self, spark: SparkSession, table: SourceTable, target: str | None) -> bool:
        """Whether a table has a key."""
        if _given(self.options.keys, table):
            return True
        stored = self.stored_key(spark, target)
        if stored == []:  # its target is a history, and stays one
            return False
        return bool(stored) or any(one.key for one in table.declarations)

    def is_appended(self, spark: SparkSession, table: SourceTable, target: str | None) -> bool:
        """Whether each change of a table is a row of its target, since it has no key."""
        keyless = self.options.keyless
        may_be = keyless == "append" or (keyless == AS_STORED and self.stored_key(spark, target) == [])
        return may_be and not self.has_key(spark, table, target)

    def key(self, spark: SparkSession, table: SourceTable, target: str | None) -> list[str]:
        """The key of a table: as given, or as its messages and its target say.

        Raises:
            ValueError: There is none, there are several, or the target is a history.
        """
        given, stored = _given(self.options.keys, table), self.stored_key(spark, target)
        if stored == []:
            raise ValueError(
                f"{table.full_name}: the target has each change as a row, since the table had no key: name another one"
            )
        if given:  # tombstones have the columns in the stored order
            return stored if stored and _lower(stored) == _lower(given) else list(given)
        declared = self._renamed(spark, table, target).declarations(table.declarations)
        return declared_key(table.full_name, declared, stored)

    def origin(self, table: SourceTable, target: str | None) -> Origin:
        """Whose dead letters, or messages in quarantine, they are."""
        return Origin(table.database, table.name, target, self.options.dialect)

    def settings(self, table: SourceTable, keys: Sequence[str]) -> TableSettings:
        """How the target of a table is created and maintained."""
        own = {KEY: json.dumps(list(keys), ensure_ascii=False), SOURCE: source_name(table.database, table.name)}
        cluster_by = tuple(self.options.cluster_by.get(table.full_name, ()))
        if state := self._remembered.get(table.key):
            own[RULES] = str(state)
        changes = self.pending.of(table.key)
        if changes.additions:
            own |= additions_property(changes.additions)
        if changes.renamed:
            own[RENAMED] = json.dumps(changes.renamed, ensure_ascii=False)
        if changes.modified:
            own[MODIFIED] = json.dumps(changes.modified)
        return replace(
            self.options.settings, cluster_by=cluster_by, properties={**own, **self.options.settings.properties}
        )

    def decoder(self, spark: SparkSession, table: SourceTable, schema: StructType, target: str | None) -> ChangeDecoder:
        """The decoder of a table's messages. `target`: that of the table, if it exists."""
        name, keys = (table.database, table.name), self._undeclared_key(spark, table, target)
        aliases = self._renamed(spark, table, target).aliases_of(schema.names)
        options = {**self._decoder_options(table), **({"aliases": aliases} if aliases else {})}
        return ChangeDecoder(self.options.dialect, schema, options, name, keys)

    def _undeclared_key(self, spark: SparkSession, table: SourceTable, target: str | None) -> list[str]:
        """The key of a table if its messages do not declare it, or another one."""
        keys = self.key(spark, table, target) if self.has_key(spark, table, target) else []
        names, declared = _lower(keys), self._renamed(spark, table, target).declarations(table.declarations)
        return [] if all(_lower(one.key) == names for one in declared) else keys

    def schema(
        self,
        spark: SparkSession,
        existing: StructType | None,
        table: SourceTable,
        target: str,
        additions: list[Addition],
    ) -> StructType:
        """The columns to decode: as given, otherwise as declared but at least as wide as in the target.

        Columns that were added with a value are decoded too, since rows that lack them get it.
        """
        rules = self.rules(spark, table)
        renamed = self._renamed(spark, table, target if existing else None)
        given = _given(self.options.schemas, table)
        known = rules.without_masked(_own_columns(existing, self.options.soft_deletes)) if existing else None
        if given is not None:
            columns = rules.kept(columns_of(given))
            if former := sorted(renamed.aliases.keys() & _lower(columns.names)):
                raise ValueError(
                    f"{table.full_name}: the columns {', '.join(former)} were renamed; give their new names in schemas"
                )
            return self._with_added(table, columns, rules, known, additions)
        declared = self._declared(table.declarations, table)
        if declared is None:
            if known is None or (rules.mask and not table.is_only_emptied):
                raise ValueError(
                    f"{table.full_name}: the messages do not declare its columns' types; "
                    f"give them: schemas={{{table.full_name!r}: 'id bigint, ...'}}"
                )
            return known
        if self.options.columns:
            each = (self._declared([one], table) for one in table.declarations)
            names = [renamed.columns(target, one).names for one in each if one is not None]
            self.protection(spark).check_declared(table.database, table.name, names)
        self._check_renamed(table, renamed)
        columns = widened(target, known, rules.kept(renamed.columns(target, declared)))
        return self._with_added(table, columns, rules, known, additions)

    def _with_added(
        self,
        table: SourceTable,
        columns: StructType,
        rules: ColumnRules,
        known: StructType | None,
        additions: list[Addition],
    ) -> StructType:
        """The columns, and those that statements added to the target, or to the table before it has one."""
        return _with_added(columns, known or rules.kept(_struct_of(self.pending.of(table.key).fields)), additions)

    def additions(
        self, spark: SparkSession, table: SourceTable, target: str, existing: StructType | None
    ) -> list[Addition]:
        """The columns that older rows of a table get a value in."""
        if existing is None:
            self.pending.read(spark)
            return self.pending.of(table.key).additions
        self.pending.forget(table.key)
        return read_additions(self.properties(spark, target))

    def unconverted(
        self, spark: SparkSession, table: SourceTable, target: str, existing: StructType | None, schema: StructType
    ) -> tuple[str, ...]:
        """The columns of which older rows have other values than the type allows that a statement gave to them."""
        if _given(self.options.schemas, table) is not None:
            return ()
        changes, stored = self.pending.of(table.key), format_of(spark, target).stored
        kinds = changes.modified if existing is None else modifications(self.properties(spark, target))
        found = {one.name: one.dataType.simpleString() for one in schema}
        return tuple(name for name, kind in found.items() if stored(kinds.get(name.lower(), kind)) != stored(kind))

    def remember_emptied(
        self, spark: SparkSession, table: SourceTable, target: str, schema: StructType, keys: list[str]
    ) -> None:
        """Write tombstones of what emptied a table before it had a target: older rows may be read later."""
        places = self.pending.of(table.key).emptied
        if places and not self.sharing(spark, table.key, target):
            orders = comma_separated(one.literal() for one in places)
            rows = spark.range(1).select(
                expressions(spark)(sql("explode(array({orders}))", orders=orders)).alias("order")
            )
            self.applier(target).tombstones.write_truncates(rows, schema, keys)

    def append_emptied(
        self, spark: SparkSession, table: SourceTable, history: str, existing: StructType | None
    ) -> None:
        """Append what emptied a table before it had a target to a new history."""
        for place in self.pending.of(table.key).emptied if existing is None else ():
            append_truncate(spark, history, place)

    def _decoder_options(self, table: SourceTable) -> dict[str, Any]:
        return {
            **self.options.decoder,
            **(_given(self.options.table_options, table) or {}),
            **table.filter_options(),
        }

    def _declared(self, declarations: Iterable[Declaration], table: SourceTable) -> StructType | None:
        return declared_columns(declarations, self.options.dialect, {**self.options.decoder, **table.filter_options()})

    def _check_renamed(self, table: SourceTable, renamed: RenamedColumns) -> None:
        """Refuse rows of before a column was renamed that cannot be distinguished from those of another one.

        Raises:
            ValueError: A declaration has such a column.
        """
        each = (self._declared([one], table) for one in table.declarations if renamed.now)
        late = sorted({name for one in each if one is not None for name in renamed.unreadable(one.names)})
        if late:
            raise ValueError(
                f"{table.full_name}: rows of before the columns {', '.join(late)} were renamed came after "
                "other columns got these names; rebuild the target (towpath.spark.rebuild)"
            )

    def _renamed(self, spark: SparkSession, table: SourceTable, target: str | None) -> RenamedColumns:
        """The columns of a table that have other names since a statement. `target`: that of the table, if it exists."""
        if target is None:
            return RenamedColumns(self.pending.of(table.key).renamed)
        schema, properties = self.applier(target).writer.schema(spark), self.properties(spark, target)
        existing = frozenset(_lower(schema.names if schema is not None else ()))
        return RenamedColumns(renamed_columns(properties), existing, dropped_columns(properties))


def _given(rules: Mapping[str, _Rule], table: SourceTable) -> _Rule | None:
    """What an argument says about a table."""
    return rule_of(rules, table.database, table.name)


def _lower(names: Iterable[str]) -> set[str]:
    """Names of columns, which MySQL compares without case."""
    return {name.lower() for name in names}


def _own_columns(schema: StructType, soft_deletes: str | None) -> StructType:
    """The columns of a target that are the source table's."""
    from pyspark.sql.types import StructType

    own = {order_column(schema), soft_deletes}
    return StructType([field for field in schema if field.name not in own])


def _with_added(columns: StructType, known: StructType, additions: Iterable[Addition]) -> StructType:
    """The columns, and those of a target that were added with a value."""
    from pyspark.sql.types import StructType

    names = {one.name.lower() for one in additions} - {name.lower() for name in columns.names}
    return StructType([*columns, *(one for one in known if one.name.lower() in names)])


def _struct_of(fields: Iterable[StructField]) -> StructType:
    """A struct of columns."""
    from pyspark.sql.types import StructType

    return StructType(list(fields))
