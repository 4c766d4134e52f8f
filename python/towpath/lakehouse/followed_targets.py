"""The targets that statements change: those of the tables, and their histories."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.lakehouse.history import append_truncate
from towpath.lakehouse.known_targets import KnownTargets
from towpath.lakehouse.ordered_statements import Place, Statement
from towpath.lakehouse.shards import Sharing
from towpath.lakehouse.sql import expressions
from towpath.lakehouse.tables import schema_of
from towpath.lakehouse.tombstones import Tombstones

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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

    def place(self, place: Place, name: tuple[str, str]) -> Place:
        """The place of a statement about a table as its target remembers it."""
        return self.known.place(place, name)

    def places(self, statement: Statement, target: str) -> list[Place]:
        """The same for all tables of a target that a statement is about."""
        if not self.known.may_share:
            return [statement.place]
        names = []
        for name in sorted(statement.tables):
            with suppress(ValueError):  # another table of the statement may have no place for its rows
                names += [name] if self.of(*name) == target else []
        return [self.place(statement.place, name) for name in names]

    def truncate(self, target: str, place: Place) -> int:
        """Delete the rows that are older than a place. Returns how many stay that may be older."""
        if self.known.stored_key(self.spark, target) == []:
            return append_truncate(self.spark, target, place)
        writer = self.known.applier(target).writer
        order = writer.order(self.spark)
        if order is None:
            return 0
        truncate = self.spark.range(1).select(expressions(self.spark)(place.literal()).alias("order"))
        return writer.truncate(truncate, order)

    def copy_deletes(self, source: str, target: str, place: Place) -> None:
        """A target that has the rows of another one remembers the deletes of that one, and none of its former rows."""
        keys = self.known.stored_key(self.spark, target)
        schema = schema_of(self.spark, target)
        if not keys or schema is None:  # it has each change as a row
            return
        types = {one.name.lower(): one.dataType for one in schema}
        key = [types[name.lower()] for name in keys]
        self.known.applier(target).tombstones.replace_by(self.spark, Tombstones(source), key, place)

    def changed(self, target: str) -> None:
        """The columns, the rows or the properties of a target are others now."""
        self.known.forget(target)

    def sharing(self, name: tuple[str, str]) -> Sharing:
        """What a table shares its target with."""
        return self.known.sharing_by_name(self.spark, name)

    def rename_shard(self, old: tuple[str, str], new: tuple[str, str], target: str) -> None:
        """A table that shares a target has another name."""
        self.known.rename_shard(self.spark, old, new, target)


@dataclass(frozen=True)
class FollowedHistories(FollowedTargets):
    """The histories of the targets: they keep each change, and no name."""

    def of(self, database: str, table: str) -> str | None:
        """The history of a table's target; None if it has none."""
        target = self.known.of_names(database, table)
        return self.known.history(f"{database}.{table}", target) if target else None

    def truncate(self, target: str, place: Place) -> int:
        """Append the truncate. No row is deleted."""
        return append_truncate(self.spark, target, place)

    def changed(self, target: str) -> None:
        """Nothing is known of histories."""
