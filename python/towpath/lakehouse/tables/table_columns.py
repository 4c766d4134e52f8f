"""Columns and key of a table, from its messages, its target, and its statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from towpath.lakehouse.following.carried_rows import CarriedReader, initial_value
from towpath.lakehouse.log.timeline import Columns
from towpath.lakehouse.reading.changes import ChangeDecoder, ChangeReader, change_schema
from towpath.lakehouse.reading.declarations import Declaration, declared_columns, declared_key
from towpath.lakehouse.reading.source_tables import SourceTable
from towpath.lakehouse.replicate_options import columns_of
from towpath.lakehouse.rules.column_rules import TableRules
from towpath.lakehouse.rules.rule_names import rule_of
from towpath.lakehouse.statements import Column
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.tables import order_column, widened
from towpath.lakehouse.tables.targets import source_name
from towpath.spark.types import arrow_schema, struct_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_Rule = TypeVar("_Rule")


class TableColumns:
    """Columns and key of a table in one batch."""

    def __init__(self, spark: SparkSession, known: KnownTargets, table: SourceTable, target: str) -> None:
        """Read the target and its properties, if it exists."""
        self._spark, self._known, self._table, self._target = spark, known, table, target
        self._options = known.options
        self.existing = known.table(target).schema(spark)
        """Columns of the target; None if it does not exist."""
        self._stored_key = known.table(target).key(spark)

    @cached_property
    def rules(self) -> TableRules:
        """Rules for the columns by their current names. Unexplained columns are left out.

        Raises:
            ValueError: A column may have been excluded or masked under another name.
        """
        if self._parts:
            return reduce(TableRules.and_those, (one.rules for one in reversed(self._parts)))
        found = self._known.protection(self._spark).of_rows(self._table)
        if not found.hidden or self._given(self._options.schemas) is not None:
            return found
        each = (self._declared([one]) for one in self._table.declarations)
        names = [self._carried(one, self._table.columns).names for one in each if one is not None]
        key = {*_lower(self._stored_key or ()), *(name.lower() for one in self._declarations for name in one.key)}
        declared = [[one for one in of_each if one.lower() not in key] for of_each in names]
        known = self._known.columns_of(self._spark, self._table.key, self._target)
        is_shared = partial(self._known.is_shared, self._spark, self._table.key, self._target)
        return found.denying(self._table.full_name, declared, known, is_shared)

    @property
    def are_masked(self) -> bool:
        """Whether any of the columns is masked."""
        return bool(self.rules.hidden) and self.rules.masks(self.schema.names)

    @property
    def has_key(self) -> bool:
        """Whether the table has a key."""
        if self._given(self._options.keys):
            return True
        if self._stored_key == []:  # the target is a history, and stays one
            return False
        return bool(self._stored_key) or any(one.key for one in self._table.declarations)

    @property
    def are_appended(self) -> bool:
        """Whether the table has no key and each change becomes a row of its target."""
        if self.has_key:
            return False
        # Waiting messages are applied without the argument `keyless` of their query.
        return self._stored_key == [] if self._options.waited else self._options.keyless == "append"

    @cached_property
    def key(self) -> list[str]:
        """Key from the arguments, or else from the messages and the target.

        Raises:
            ValueError: No key or more than one key is found, or the target is a history.
        """
        name, given, stored = self._table.full_name, self._given(self._options.keys), self._stored_key
        if stored == []:
            raise ValueError(
                f"{name}: the target has each change as a row, since the table had no key: set another target"
            )
        if given:  # tombstones keep the stored order of columns
            return stored if stored and _lower(stored) == _lower(given) else list(given)
        return declared_key(name, self._declarations, stored)

    def readers(self) -> list[tuple[SourceTable, ChangeReader]]:
        """Return the parts of the table, each with a reader whose changes have the columns of the table."""
        return [(one._table, one._reader(self.schema)) for one in self._parts or [self]]

    def as_written(self) -> tuple[ChangeReader, TableRules, list[str]]:
        """Return a reader of changes with the messages' columns, the rules for these columns, and the key's columns."""
        from pyspark.sql.types import StructType

        def now(name: str) -> str:
            return (self._table.columns.now(name) or name).lower()

        is_carried = self._table.columns != Columns() and self._given(self._options.schemas) is None
        declared = self._declared(self._table.declarations) if is_carried else None
        columns = self._of_sources(self.schema) if declared is None else declared
        written = self._known.protection(self._spark).as_written(self._table)
        # Another column may have the name of a dropped one now, so the current rules are not enough.
        rules = replace(self.rules, find=lambda name: self.rules.find(now(name)).and_that(written(name)))
        names = [one for one in columns.names if self.rules.keeps(now(one)) and written(one.lower()).is_kept]
        columns = StructType([columns[name] for name in names])
        key = [one for one in self._in_messages(self.key) if one.lower() in _lower(columns.names)]
        return self._decoder(columns, self._table.written_key), rules, key

    def _reader(self, columns: StructType) -> ChangeReader:
        """Return a reader of changes with these current columns."""
        decoder = self._decoder(self._of_sources(columns), self._table.key)
        if list(self.sources.items()) == [(name, name) for name in columns.names] and not self.added:
            return decoder
        kind = pa.struct(list(arrow_schema(columns)))
        return CarriedReader(decoder, change_schema(kind), self.sources, tuple(self.added))

    def _of_sources(self, now: StructType) -> StructType:
        """Return columns by their names in the messages."""
        from pyspark.sql.types import StructField, StructType

        types = {one.name.lower(): one.dataType for one in now}
        return StructType([StructField(source, types[name.lower()]) for source, name in self.sources.items()])

    def _in_messages(self, names: Iterable[str]) -> list[str]:
        """Return the messages' names of columns."""
        sources = {now.lower(): source for source, now in self.sources.items()}
        return [sources.get(name.lower(), name) for name in names]

    def _decoder(self, columns: StructType, name: tuple[str, str]) -> ChangeDecoder:
        """Return a decoder of the messages' columns that labels rows with this table name."""
        of_table = self._given(self._options.table_options) or {}
        return ChangeDecoder(
            self._options.dialect,
            columns,
            {**self._options.decoder, **of_table, **self._table.filter_options()},
            self._table.name_key,
            self._in_messages(self._undeclared_key()),
            keeps_messages=self._options.waited is not None,
            label=source_name(*name) if self._known.may_share else None,
        )

    @cached_property
    def _parts(self) -> list[TableColumns]:
        return [TableColumns(self._spark, self._known, one, self._target) for one in self._table.parts]

    @cached_property
    def sources(self) -> dict[str, str]:
        """Current names of the columns by their names in the messages."""
        found = {}
        for name in self._of_messages.names:
            source = self._table.columns.source(name)
            if source is not None:
                found[name if source == name.lower() else source] = name
        return found

    def _undeclared_key(self) -> list[str]:
        """Return the key if the messages declare none, or another one."""
        keys = self.key if self.has_key else []
        names = _lower(keys)
        return [] if all(_lower(one.key) == names for one in self._declarations) else keys

    @cached_property
    def _declarations(self) -> list[Declaration]:
        """Declarations, with the key's columns by their current names."""
        if self._parts:
            return [declaration for one in self._parts for declaration in one._declarations]
        now = self._table.columns.now
        return [replace(one, key=tuple(now(name) or name for name in one.key)) for one in self._table.declarations]

    def _carried(self, columns: StructType, carried: Columns) -> StructType:
        """Return the columns of older messages by their current names. A dropped column stays if its name is free."""
        from pyspark.sql.types import StructField, StructType

        found = StructType()
        if not carried.names and len(_lower(columns.names)) == len(columns):  # each name has one spelling
            return columns
        taken = {*carried.added, *(now.lower() for now in carried.names.values() if now)}
        for one in columns:
            name = carried.now(one.name) or (None if one.name.lower() in taken else one.name)
            if name is not None:
                [wide] = widened(self._target, found, StructType([StructField(name, one.dataType)]))
                found = StructType([*(other for other in found if other.name.lower() != name.lower()), wide])
        return found

    @cached_property
    def schema(self) -> StructType:
        """Columns of the changes: as given, or else as declared but at least as wide as in the target.

        Raises:
            ValueError: The columns are unknown.
        """
        if self._parts:  # the newest part decides the order
            return reduce(self._united, (one.schema for one in reversed(self._parts)))
        return self._united(self._of_messages, widened(self._target, self._stored, _types(self.added)))

    def _united(self, columns: StructType, others: StructType) -> StructType:
        """Return the union of columns. A column of both is at least as wide as in each."""
        from pyspark.sql.types import StructType

        names = _lower(columns.names)
        new = (one for one in others if one.name.lower() not in names)
        return StructType([*widened(self._target, others, columns), *new])

    @cached_property
    def _of_messages(self) -> StructType:
        """Columns that the messages may have."""
        given = self._given(self._options.schemas)
        if given is not None:
            return self.rules.kept(self._given_columns(columns_of(given)))
        declared = self._declared(self._table.declarations)
        if declared is None:
            return self._undeclared()
        return widened(self._target, self._stored, self.rules.kept(self._carried(declared, self._table.columns)))

    def _given_columns(self, given: StructType) -> StructType:
        """Return the user's columns after the statements."""
        from pyspark.sql.types import StructType

        timeline = self._known.log.timeline(self._spark, self._table.key)
        known = timeline.columns(self._table.key, len(timeline.steps))
        columns = self._carried(given, known)
        new = _types(one for one in known.added.values() if one.name.lower() not in _lower(columns.names))
        return StructType([*columns, *widened(self._target, self._stored, new)])

    @property
    def new(self) -> set[str]:
        """Columns that the target lacks, in lower case."""
        return _lower(self.schema.names) - _lower(self.existing.names if self.existing is not None else ())

    @property
    def added(self) -> list[Column]:
        """Columns that older rows get with their initial values."""
        return [one for one in self._table.columns.added.values() if self.rules.keeps(one.name)]

    @cached_property
    def _stored(self) -> StructType | None:
        """Columns of the target with the types of the source's values."""
        from pyspark.sql.types import StructType

        if self.existing is None:
            return None
        own = {order_column(self.existing), self._options.soft_deletes}
        return StructType([one for one in self.existing if one.name not in own and not self.rules.masks([one.name])])

    def _undeclared(self) -> StructType:
        if self._stored is None or self.existing is None or self.rules.masks(self.existing.names):
            raise ValueError(
                f"{self._table.full_name}: the messages do not declare the types of its columns; "
                f"set schemas={{{self._table.full_name!r}: 'id bigint, ...'}}"
            )
        return self._stored

    def _declared(self, declarations: Iterable[Declaration]) -> StructType | None:
        options = {**self._options.decoder, **self._table.filter_options()}
        return declared_columns(declarations, self._options.dialect, options)

    def _given(self, rules: Mapping[str, _Rule]) -> _Rule | None:
        """Return an argument's value for the table."""
        return rule_of(rules, self._table.database, self._table.name)


def _types(added: Iterable[Column]) -> StructType:
    """Return the columns that statements added."""
    return struct_type(pa.schema([(one.name, initial_value(one).type) for one in added]))


def _lower(names: Iterable[str]) -> set[str]:
    """Return names in lower case, since MySQL compares names of columns without case."""
    return {name.lower() for name in names}
