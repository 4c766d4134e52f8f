"""The columns and the key of a table, as its messages declare them, its target has them, and statements left them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from towpath.lakehouse.additions import Addition, read_additions
from towpath.lakehouse.changes import ChangeDecoder
from towpath.lakehouse.declarations import Declaration, declared_columns, declared_key
from towpath.lakehouse.formats import format_of
from towpath.lakehouse.known_targets import KnownTargets
from towpath.lakehouse.protection import exposed, rule_of
from towpath.lakehouse.renamed_columns import RenamedColumns
from towpath.lakehouse.replicate_options import AS_STORED, columns_of
from towpath.lakehouse.source_tables import SourceTable
from towpath.lakehouse.tables import order_column, widened
from towpath.lakehouse.target_properties import modifications, renamed_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField, StructType

_Rule = TypeVar("_Rule")


class TableColumns:
    """The columns and the key of a table in one batch."""

    def __init__(self, spark: SparkSession, known: KnownTargets, table: SourceTable, target: str) -> None:
        """Read what the target and its properties say.

        Args:
            spark: The session.
            known: The targets of the query.
            table: The table.
            target: Its target, which need not exist.
        """
        self._spark, self._known, self._table, self._target = spark, known, table, target
        self._options, self._rules = known.options, known.rules(spark, table)
        self.existing = known.applier(target).writer.schema(spark)
        """The columns of the target; None if it does not exist."""
        if self.existing is None:
            known.pending.read(spark)
        else:
            known.pending.forget(table.key)
        self._pending = known.pending.of(table.key)
        self._properties = known.properties(spark, target) if self.existing is not None else {}

    @cached_property
    def additions(self) -> list[Addition]:
        """The columns that older rows of the table get a value in."""
        return self._pending.additions if self.existing is None else read_additions(self._properties)

    @cached_property
    def _renamed(self) -> RenamedColumns:
        if self.existing is None:
            return RenamedColumns(self._pending.renamed)
        return RenamedColumns(renamed_columns(self._properties), _lower(self.existing.names))

    @cached_property
    def _stored_key(self) -> list[str] | None:
        found = self._known.stored_key(self._spark, self._target) if self.existing is not None else None
        # The driver may have ended between the column and the property.
        return list(self._renamed.key(found)) if found else found

    @property
    def has_key(self) -> bool:
        """Whether the table has a key."""
        if self._given(self._options.keys):
            return True
        if self._stored_key == []:  # its target is a history, and stays one
            return False
        return bool(self._stored_key) or any(one.key for one in self._table.declarations)

    @property
    def are_appended(self) -> bool:
        """Whether each change of the table is a row of its target, since it has no key."""
        keyless = self._options.keyless
        may_be = keyless == "append" or (keyless == AS_STORED and self._stored_key == [])
        return may_be and not self.has_key

    @cached_property
    def key(self) -> list[str]:
        """The key: as given, or as the messages and the target say.

        Raises:
            ValueError: There is none, there are several, or the target is a history.
        """
        given, stored = self._given(self._options.keys), self._stored_key
        if stored == []:
            raise ValueError(
                f"{self._name}: the target has each change as a row, since the table had no key: name another one"
            )
        if given:  # tombstones have the columns in the stored order
            return stored if stored and _lower(stored) == _lower(given) else list(given)
        return declared_key(self._name, self._renamed.declarations(self._table.declarations), stored)

    def decoder(self) -> ChangeDecoder:
        """The decoder of the table's messages."""
        name, aliases = (self._table.database, self._table.name), self._renamed.aliases_of(self.schema.names)
        options = self._decoder_options()
        if aliases:
            options["aliases"] = {**(options.get("aliases") or {}), **aliases}
        keys, waited = self._undeclared_key(), self._options.waited
        return ChangeDecoder(self._options.dialect, self.schema, options, name, keys, keeps_messages=waited)

    def _decoder_options(self) -> dict[str, Any]:
        of_table = self._given(self._options.table_options) or {}
        return {**self._options.decoder, **of_table, **self._table.filter_options()}

    def _undeclared_key(self) -> list[str]:
        """The key if the messages do not declare it, or another one."""
        keys = self.key if self.has_key else []
        names, declared = _lower(keys), self._renamed.declarations(self._table.declarations)
        return [] if all(_lower(one.key) == names for one in declared) else keys

    @cached_property
    def schema(self) -> StructType:
        """The columns to decode: as given, otherwise as declared but at least as wide as in the target.

        Columns that were added with a value are decoded too, since rows that lack them get it.

        Raises:
            ValueError: They are not known, or not those that the rules of the table were made for.
        """
        self._check_renamed()
        given = self._given(self._options.schemas)
        if given is not None:
            return self._with_added(self._rules.kept(self._renamed.columns(self._target, columns_of(given))))
        declared = self._declared(self._table.declarations)
        if declared is None:
            return self._undeclared()
        if self._options.columns:
            names = [self._renamed.columns(self._target, one).names for one in self._each_declared]
            self._known.protection(self._spark).check_declared(self._table.database, self._table.name, names)
        columns = self._rules.kept(self._renamed.columns(self._target, declared))
        return self._with_added(widened(self._target, self._stored, columns))

    @cached_property
    def _stored(self) -> StructType | None:
        """The columns of the target whose types are those of the source's values."""
        if self.existing is None:
            return None
        return self._rules.without_masked(_own_columns(self.existing, self._options.soft_deletes))

    def _undeclared(self) -> StructType:
        if self._stored is None or (self._rules.mask and not self._table.is_only_emptied):
            raise ValueError(
                f"{self._name}: the messages do not declare its columns' types; "
                f"give them: schemas={{{self._name!r}: 'id bigint, ...'}}"
            )
        return self._stored

    def _check_renamed(self) -> None:
        """Refuse messages of which the columns are not known.

        Raises:
            ValueError: There are some, or a column is named now so that a rule for its former name would be lost.
        """
        if not self._renamed.now:
            return
        for former, now in self._renamed.now.items():
            if now and self._rules.exposes(former, now):
                raise exposed(self._table.database, self._table.name, former, now)
        each = self._each_declared
        if late := sorted({name for one in each for name in self._renamed.unreadable(one.names)}):
            raise ValueError(
                f"{self._name}: the columns {', '.join(late)} were renamed, and messages have both names, or the "
                "current name is not known; rebuild the target (towpath.spark.rebuild)"
            )

    @cached_property
    def _each_declared(self) -> list[StructType]:
        """The columns of each declaration that has types."""
        found = (self._declared([one]) for one in self._table.declarations)
        return [one for one in found if one is not None]

    def _declared(self, declarations: Iterable[Declaration]) -> StructType | None:
        options = {**self._options.decoder, **self._table.filter_options()}
        return declared_columns(declarations, self._options.dialect, options)

    def _with_added(self, columns: StructType) -> StructType:
        """The columns, and those of the target, or of the table before it has one, that were added with a value."""
        from pyspark.sql.types import StructType

        known = self._stored or self._rules.kept(_struct_of(self._pending.fields))
        names = {one.name.lower() for one in self.additions} - _lower(columns.names)
        return StructType([*columns, *(one for one in known if one.name.lower() in names)])

    def unconverted(self) -> tuple[str, ...]:
        """The columns of which older rows have other values than the type allows that a statement gave to them."""
        if self._given(self._options.schemas) is not None:
            return ()
        stored = format_of(self._spark, self._target).stored
        kinds = self._pending.modified if self.existing is None else modifications(self._properties)
        found = {one.name: one.dataType.simpleString() for one in self.schema}
        return tuple(name for name, kind in found.items() if stored(kinds.get(name.lower(), kind)) != stored(kind))

    @property
    def _name(self) -> str:
        return self._table.full_name

    def _given(self, rules: Mapping[str, _Rule]) -> _Rule | None:
        """What an argument says about the table."""
        return rule_of(rules, self._table.database, self._table.name)


def _lower(names: Iterable[str]) -> set[str]:
    """Names of columns, which MySQL compares without case."""
    return {name.lower() for name in names}


def _own_columns(schema: StructType, soft_deletes: str | None) -> StructType:
    """The columns of a target that are the source table's."""
    from pyspark.sql.types import StructType

    own = {order_column(schema), soft_deletes}
    return StructType([field for field in schema if field.name not in own])


def _struct_of(fields: Iterable[StructField]) -> StructType:
    """A struct of columns."""
    from pyspark.sql.types import StructType

    return StructType(list(fields))
