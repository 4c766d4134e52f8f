"""The arguments that `replicate`, `reprocess` and `rebuild` share: how to apply the changes of topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import pyarrow as pa

from towpath.arguments import ValueOptions
from towpath.decoder import Decoder
from towpath.lakehouse import arguments
from towpath.lakehouse.merging.tasks import AUTO, SPARK, available
from towpath.lakehouse.rules.column_rules import ColumnRules
from towpath.lakehouse.tables.tables import TableSettings
from towpath.lakehouse.tables.targets import COMPANIONS, Target, Targets, suffixed
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from towpath.lakehouse.arguments import Place, Snapshot
    from towpath.lakehouse.seen.status import TableStatus
    from towpath.literals import Dialect

OnTableError = Literal["quarantine", "fail"]
DdlPolicy = Literal["follow", "ignore"]
Keyless = Literal["quarantine", "append"]
Merge = Literal["auto", "spark", "task"]


def _argument(check: arguments.Check, default: Any = None, *, is_secret: bool = False) -> Any:
    """Return a field with the check of its argument."""
    return field(default=default, metadata={"check": check}, repr=not is_secret)


def _one_of(literal: Any) -> arguments.Check:
    return lambda name, value: arguments.one_of(name, value, get_args(literal))


def _by_name(example: str) -> arguments.Check:
    return partial(arguments.by_name, example=example)


def _rules(name: str, value: Any) -> dict[str, ColumnRules]:
    found = arguments.by_name(
        name, value, '{"shop.orders": {"exclude": ["phone"]}}', _by_name('{"exclude": ["phone"]}')
    )
    return {table: ColumnRules.of(table, one) for table, one in found.items()}


@dataclass(frozen=True, kw_only=True)
class ReplicateOptions:
    """Checked arguments. The docstring of `replicate` describes them.

    The keys of each mapping are names of tables, such as "shop.orders".
    """

    dialect: Dialect = "auto"
    decoder: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the decoders of all tables."""
    keys: Mapping[str, Sequence[str]] = _argument(arguments.columns_by_table)
    schemas: Mapping[str, str | StructType] = _argument(_by_name('{"shop.orders": "id bigint"}'))
    table_options: Mapping[str, Mapping[str, Any]] = _argument(_by_name('{"shop.orders": {"zero_date": "error"}}'))
    snapshots: Mapping[str, Snapshot] = _argument(arguments.snapshots)
    columns: Mapping[str, ColumnRules] = _argument(_rules)
    ddl: str | None = _argument(arguments.table)
    dead_letters: str | None = _argument(arguments.table)
    quarantine: str | None = _argument(arguments.table)
    status: str | None = _argument(arguments.table)
    watermarks: str | None = _argument(arguments.table)
    on_table_error: str = _argument(_one_of(OnTableError), "quarantine")
    ddl_policy: str = _argument(_one_of(DdlPolicy), "follow")
    keyless: str = _argument(_one_of(Keyless), "quarantine")
    history: bool | Collection[str] = _argument(arguments.names, default=False)
    soft_deletes: str | None = _argument(arguments.or_none(arguments.text))
    evolve: bool = _argument(arguments.flag, default=True)
    forget_after: str | None = _argument(arguments.text, "7 days")
    """None means never."""
    parallelism: int = _argument(arguments.count, 4)
    merge: str = _argument(lambda _, value: available(value), AUTO)
    storage_options: Mapping[str, str] | None = _argument(arguments.or_none(arguments.texts), is_secret=True)
    table_properties: Mapping[str, str] = _argument(arguments.texts)
    cluster_by: Mapping[str, Sequence[str]] = _argument(arguments.columns_by_table)
    optimize_every: int | None = _argument(arguments.count_or_none, 50)
    report: Callable[[Sequence[TableStatus]], object] | None = None
    waited: datetime | None = None
    """Start of `reprocess`; None in other calls. The changes are older; newer ones may be applied already."""

    @classmethod
    def of(cls, dialect: Dialect | None, options: Mapping[str, Any], **given: Any) -> ReplicateOptions:
        """Check the arguments of a user.

        Args:
            dialect: The dialect. None means "auto".
            options: Arguments of the decoders of all tables.
            **given: Other arguments of a function. Those that are not fields are ignored, and missing fields get their
                defaults.

        Raises:
            ValueError: An argument is wrong. The text begins with its name.
        """
        checks = {one.name: (one.metadata["check"], one.default) for one in fields(cls) if "check" in one.metadata}
        checked = {name: check(name, given.get(name, default)) for name, (check, default) in checks.items()}
        found = cls(dialect=dialect or "auto", decoder=options, report=given.get("report"), **checked)
        if found.columns and not found.status:
            raise ValueError("columns: requires status, since a table next to it records renamed columns")
        arguments.check_names(options, [one.name for one in fields(cls)])
        arguments.check_decoders(found.dialect, options, found.schemas, found.table_options)
        return found

    @property
    def quarantined_in(self) -> str | None:
        """Table of quarantined messages: the given one, or the one next to the dead letters."""
        return self.quarantine or (self.dead_letters and suffixed(self.dead_letters, "_quarantine"))

    @property
    def log(self) -> str | None:
        """Name of the statement log, a table next to `status`."""
        return self.status and suffixed(self.status, "_statements")

    def targets(self, target: Target, *places: str | None) -> Targets:
        """Return the target of each table. No target may equal a table of the query, or one of `places`."""
        own = (self.ddl, self.dead_letters, self.quarantined_in, self.status, self.log, self.watermarks, *places)
        return Targets(target, filter(None, own), COMPANIONS if self.history else ("tombstones",))

    @property
    def settings(self) -> TableSettings:
        """Settings for creating and maintaining targets."""
        return TableSettings(
            self.table_properties,
            optimize_every=self.optimize_every,
            evolve=self.evolve,
            forget_after=self.forget_after,
            in_tasks=self.merge != SPARK,
            soft_deletes=self.soft_deletes,
        )


# Types for the overloads: a stream has a checkpoint and a query. A test compares them with the signatures.


class OfTargets(TypedDict, total=False):
    """Arguments for writing targets."""

    dead_letters: Place | None
    status: Place | None
    evolve: bool
    forget_after: str
    table_properties: Mapping[str, str] | None
    optimize_every: int | None
    soft_deletes: str | None


class OfStreams(TypedDict, total=False):
    """Arguments for starting a query."""

    trigger: Mapping[str, Any] | None
    query_name: str | None
    writer_options: Mapping[str, str] | None


class OfOneTable(OfTargets, total=False):
    """Arguments of `apply_changes`."""

    cluster_by: Sequence[str]


class OfOneStream(OfOneTable, OfStreams, total=False):
    """Arguments of `apply_changes` for a stream."""


class OfTopics(OfTargets, ValueOptions, total=False):
    """Arguments of `replicate`."""

    keys: Mapping[str, Sequence[str]] | None
    schemas: Mapping[str, str | StructType] | None
    table_options: Mapping[str, Mapping[str, Any]] | None
    snapshots: Mapping[str, Snapshot] | None
    ddl: Place | None
    quarantine: Place | None
    watermarks: Place | None
    on_table_error: OnTableError
    ddl_policy: DdlPolicy
    keyless: Keyless
    history: bool | Collection[str]
    columns: Mapping[str, Mapping[str, Any]] | None
    parallelism: int
    merge: Merge
    storage_options: Mapping[str, str] | None
    cluster_by: Mapping[str, Sequence[str]] | None
    metrics: str | None
    report: Callable[[Sequence[TableStatus]], object] | None


class OfStreamsOfTopics(OfTopics, OfStreams, total=False):
    """Arguments of `replicate` for a stream."""


def columns_of(schema: str | StructType) -> StructType:
    """Return the columns that the argument `schemas` gives to a table."""
    if not isinstance(schema, str):
        return schema
    columns = Decoder(schema=schema, layout="upsert", row_column="row", fields=["_op"]).schema.field("row").type
    return struct_type(pa.schema(list(columns)))
