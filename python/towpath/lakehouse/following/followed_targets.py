"""The targets that statements change: those of the tables, and their histories."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.lakehouse.following.small_target import SmallTarget
from towpath.lakehouse.history import append_truncate
from towpath.lakehouse.log.ordered_statements import Place, Statement
from towpath.lakehouse.log.timeline import Name
from towpath.lakehouse.merging.tombstones import Tombstones
from towpath.lakehouse.order.order import is_after
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import Sql, expressions, sql
from towpath.lakehouse.tables.tables import exists, schema_of
from towpath.lakehouse.tables.target_properties import SOURCE
from towpath.lakehouse.tables.target_rows import ALL_ROWS, has_row, order_of_rows
from towpath.lakehouse.tables.targets import source_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNLABELLED = "rows that replicate has not written do not say which table of the target they are of"


@dataclass(frozen=True)
class FollowedTargets:
    """The targets of the tables."""

    spark: SparkSession
    known: KnownTargets

    def of(self, database: str, table: str) -> str | None:
        """The target of a table; None if it is not replicated.

        Raises:
            ValueError: The template needs something that a statement does not say.
        """
        return self.known.of_names(database, table)

    def place(self, place: Place, name: Name) -> Place:
        """The place of a statement about a table as its target remembers it."""
        return self.known.place(place, name)

    def of_statement(self, statement: Statement) -> set[str]:
        """The targets of the tables that a statement is about."""
        found = set()
        for name in statement.tables:
            with suppress(ValueError):  # a template needs what the name does not have
                found.add(self.of(*name))
        return {one for one in found if one is not None}

    def rows_of(self, name: Name, target: str) -> Sql:
        """A condition that is true for the rows `t` of a target that are of a table."""
        return self.known.rows_of(self.spark, name, target)

    def small(self, name: Name, target: str) -> SmallTarget | None:
        """The target of a table as delta-rs changes it; None if several tables may share it."""
        return self.known.small(self.spark, target) if self.rows_of(name, target) == ALL_ROWS else None

    def exists(self, target: str) -> bool:
        """Whether a target exists."""
        return exists(self.spark, target)

    def properties(self, target: str) -> Mapping[str, str]:
        """The properties of a target that exists."""
        return self.known.table(target).properties(self.spark)

    def set_properties(self, target: str, values: Mapping[str, str]) -> None:
        """Set properties of a target."""
        self.known.table(target).set_properties(self.spark, values)

    def why_unlabelled(self, target: str) -> str | None:
        """Why it is not known of which table some rows of a target are."""
        order = order_of_rows(self.spark, target) if self.known.may_share else None
        if order is None or SOURCE in self.known.table(target).properties(self.spark):
            return None
        is_unlabelled = sql("{order}.`table` IS NULL", order=order)
        return _UNLABELLED if has_row(self.spark, target, is_unlabelled) else None

    def truncate(self, target: str, name: Name, place: Place) -> int:
        """Delete the rows of a table that are older than a place. Returns how many stay that may be older."""
        if self.known.table(target).key(self.spark) == []:
            return append_truncate(self.spark, target, self.place(place, name))
        small = None if self.known.options.soft_deletes else self.small(name, target)
        kept = small.delete_before(place) if small else None
        if kept is not None:
            return kept
        writer = self.known.applier(target).writer
        order = writer.order(self.spark)
        if order is None:
            return 0
        truncate = self.spark.range(1).select(expressions(self.spark)(place.literal()).alias("order"))
        return writer.truncate(truncate, order, self.rows_of(name, target))

    def labelled(self, name: Name, target: str, order: Sql) -> Sql:
        """A condition that is true for the order values of a target, or of its tombstones, that are of a table."""
        return self.known.labelled(self.spark, name, target, order)

    def copy_deletes(self, old: Name, new: Name, place: Place) -> None:
        """A table that has the rows of another one remembers the deletes of that one, and its own newer ones."""
        source, target = self.of(*old), self.of(*new)
        keys = self.known.table(target).key(self.spark) if target else None
        schema = schema_of(self.spark, target) if target is not None else None
        if source is None or target is None or not keys or schema is None:  # append-only targets have no tombstones
            return
        types = {one.name.lower(): one.dataType for one in schema}
        key = [types[name.lower()] for name in keys]
        order = Sql("`order`")
        newer = is_after(order, place.literal())
        moved = sql("{rows} AND NOT {newer}", rows=self.labelled(old, source, order), newer=newer)
        kept = sql("NOT {rows} OR {newer}", rows=self.labelled(new, target, order), newer=newer)
        label = source_name(*new) if self.known.may_share else None
        tombstones = self.known.applier(target).tombstones
        tombstones.take(self.spark, Tombstones(source), key, moved=moved, kept=kept, label=label)

    def changed(self, target: str) -> None:
        """The columns, the rows or the properties of a target are others now."""
        self.known.forget(target)


@dataclass(frozen=True)
class FollowedHistories(FollowedTargets):
    """The histories of the targets: they keep each change, and no name."""

    def of(self, database: str, table: str) -> str | None:
        """The history of a table's target; None if it has none."""
        target = self.known.of_names(database, table)
        return self.known.history(f"{database}.{table}", target) if target else None

    def truncate(self, target: str, name: Name, place: Place) -> int:
        """Append the truncate. No row is deleted."""
        return append_truncate(self.spark, target, self.place(place, name))

    def changed(self, target: str) -> None:
        """Nothing is known of histories."""
