"""The stored rows of a table, compared with the place of a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from towpath.lakehouse.log.ordered_statements import Place
from towpath.lakehouse.log.timeline import Name
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.order.order import is_after, is_before, is_ordered
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import Sql, column, comma_separated, execute, sql, table
from towpath.lakehouse.tables.tables import order_column, schema_of
from towpath.lakehouse.tables.target_rows import ALL_ROWS, filtered, has_row
from towpath.lakehouse.tables.targets import companion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class StoredRows:
    """Rows of a table in its target, or their tombstones. Conditions refer to a row `t`."""

    spark: SparkSession
    target: str
    order: str | None
    """Column of the order values; None if towpath did not create the target."""
    own: Sql
    """Condition for the rows of the table, if other tables share the target."""
    place: Place
    """Place of the statement."""
    in_tasks: TaskMerges
    """Settings that say which tables delta-rs may read."""

    @property
    def before(self) -> Sql:
        """Condition for rows that are known to be older than the statement."""
        return self.compared(is_before)

    @property
    def after(self) -> Sql:
        """Condition for rows that are known to be newer."""
        return sql("coalesce({after}, false)", after=self.compared(is_after))

    @property
    def unordered(self) -> Sql:
        """Condition for rows that may be older or newer."""
        return self.compared(lambda order, place: sql("NOT {ordered}", ordered=is_ordered(place, order)))

    def compared(self, condition: Callable[[Sql, Sql], Sql]) -> Sql:
        """Apply a condition to the order value of a row and the place of the statement."""
        if self.order is None:
            return Sql("false")
        # A lambda contains the place once and not as a constant: Iceberg cannot build a filter from a constant struct.
        found = condition(column("t", self.order), Sql("place"))
        return sql("exists(array({place}), place -> {found})", place=self.place.literal(), found=found)

    def rows(self, condition: Sql) -> DataFrame:
        """Return the rows of the table that meet a condition."""
        return filtered(self.spark, self.target, self._own(condition))

    def _own(self, condition: Sql) -> Sql:
        return sql("{own} AND ({condition})", own=self.own, condition=condition)

    def moving(self) -> DataFrame:
        """Return the rows of the table that are not known to be newer."""
        return self.rows(sql("NOT {after}", after=self.after))

    def staying(self) -> DataFrame:
        """Return the other rows of the target: newer rows, and rows of other tables."""
        return filtered(self.spark, self.target, sql("NOT {own} OR {after}", own=self.own, after=self.after))

    def has(self, condition: Sql) -> bool:
        """Return whether a row of the table meets a condition."""
        return has_row(self.spark, self.target, self._own(condition), self.in_tasks)

    def has_unordered(self, later: Place | None = None) -> bool:
        """Return whether a change that was applied may be older or newer than the statement.

        Changes that are known to be older than a later statement at the place `later` do not count.
        """
        if self.order is None:
            return False
        has_order = sql("{order} IS NOT NULL", order=column("t", self.order))
        is_older = replace(self, place=later).before if later else Sql("false")
        template = "{has_order} AND {unordered} AND NOT {is_older}"
        return self.has(sql(template, has_order=has_order, unordered=self.unordered, is_older=is_older))

    def update(self, values: Mapping[Sql, Sql], condition: Sql) -> None:
        """Set columns in the rows of the table that meet a condition."""
        sets = comma_separated(sql("{name} = {value}", name=name, value=value) for name, value in values.items())
        template = "UPDATE {target} t SET {sets} WHERE {own} AND ({condition})"
        target = table(self.target)
        execute(self.spark, sql(template, target=target, sets=sets, own=self.own, condition=condition))


def stored_rows(spark: SparkSession, known: KnownTargets, name: Name, place: Place) -> Iterator[StoredRows]:
    """Yield the rows of a table in its target, and their tombstones, if these tables exist."""
    if (target := known.of_names(*name)) is None:
        return
    for one in (target, companion(target, "tombstones")):
        if (schema := schema_of(spark, one, known.in_tasks)) is None:
            return
        order = order_column(schema) if one == target else "order"
        own = ALL_ROWS if order is None else known.labelled(spark, name, target, column("t", order))
        yield StoredRows(spark, one, order, own, place, known.in_tasks)
