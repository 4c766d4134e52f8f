"""Creates targets with the rows of snapshots, before the first change is applied.

The rows have an empty order value, so they are older than every change. A target is created in one transaction, and one
that exists is left as it is: a start that failed can be repeated.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from towpath.lakehouse.arguments import by_name, check_snapshot
from towpath.lakehouse.log.statement_log import StatementLog
from towpath.lakehouse.merging.jobs import session_settings
from towpath.lakehouse.merging.parallel import in_parallel
from towpath.lakehouse.order.order import ORDER_TYPE
from towpath.lakehouse.replicate_options import ReplicateOptions, columns_of
from towpath.lakehouse.rules.protection import Protection, rule_of
from towpath.lakehouse.seen.status import TableStatus
from towpath.lakehouse.tables.jdbc_rows import UNPADDED
from towpath.lakehouse.tables.sql import Sql, column, sql
from towpath.lakehouse.tables.tables import TableSettings, create_with, free_name, schema_of
from towpath.lakehouse.tables.target_properties import KEY, SOURCE, stored_source
from towpath.lakehouse.tables.targets import Targets, source_name, split_name
from towpath.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    Snapshot = DataFrame | Callable[[], DataFrame]
    """The rows of a table, or a function that returns them; it is called only if the target does not exist."""

_log = logging.getLogger("towpath.spark")


@dataclass(frozen=True)
class Snapshots:
    """The rows of tables, and how their targets are created."""

    rows: Mapping[str, Snapshot]
    """By the name of the table."""
    options: ReplicateOptions
    log: StatementLog

    def create_targets(self, spark: SparkSession, targets: Targets) -> list[TableStatus]:
        """Create the targets that do not exist.

        Returns:
            The state of each of them.

        Raises:
            ValueError: A table has no target, or its snapshot lacks a column.
        """
        targets.stored = partial(stored_source, spark)
        places = {name: targets(*split_name(name)) for name in self.rows}
        for name, place in places.items():
            if place is None:
                raise ValueError(f"snapshots: {name}: the table has no target")
        twice = {place for place, count in Counter(places.values()).items() if count > 1}
        if shared := sorted(name for name, place in places.items() if place in twice):
            raise ValueError(
                f"snapshots: {', '.join(shared)}: the tables share a target; create it before, with the rows of all"
            )
        wanted = [(name, place) for name, place in places.items() if place and schema_of(spark, place) is None]
        with session_settings(spark, UNPADDED):
            self._create(spark, wanted)
        return [TableStatus(*split_name(name), place) for name, place in wanted]

    def _create(self, spark: SparkSession, wanted: Sequence[tuple[str, str]]) -> None:
        frames = {
            name: self._frame(spark, name) for name, _ in wanted
        }  # each is checked before the first one is written

        def create(one: tuple[str, str]) -> None:
            name, place = one
            if create_with(spark, place, frames[name], self._settings(name)):
                _log.info("%s: created %s with the rows of its snapshot", printable(name), printable(place))

        in_parallel(spark, create, wanted, self.options.parallelism)

    def _frame(self, spark: SparkSession, name: str) -> DataFrame:
        """The rows as the target gets them."""
        given, options = self.rows[name], self.options
        rows = check_snapshot(f"snapshots: {name}", given() if callable(given) else given)
        rules = Protection(spark, options.columns, self.log).of(split_name(name))
        declared = rule_of(options.schemas, *split_name(name))
        if declared is None:
            return as_oldest(rules.of_table(rows), None, options.soft_deletes)
        schema = columns_of(declared)
        known = {one.lower() for one in rows.columns}
        missing = [one for one in rules.kept(schema).names if one.lower() not in known]
        if missing:
            raise ValueError(f"snapshots: {name}: the snapshot lacks the columns {', '.join(missing)}")
        of_schema = rows.select(*map(column, schema.names))
        return as_oldest(rules.of_table(of_schema), rules.kept(schema), options.soft_deletes)

    def _settings(self, name: str) -> TableSettings:
        database, table = split_name(name)
        own = {SOURCE: source_name(database, table)}
        if keys := rule_of(self.options.keys, database, table):
            own[KEY] = json.dumps(list(keys), ensure_ascii=False)
        cluster_by = tuple(self.options.cluster_by.get(f"{database or None}.{table}", ()))
        settings = self.options.settings
        return replace(settings, cluster_by=cluster_by, properties={**own, **settings.properties})


def checked_snapshots(value: Any) -> dict[str, Snapshot]:
    """The argument `snapshots`.

    Raises:
        ValueError: It is not a mapping from tables to batch DataFrames, or functions.
    """
    found: dict[str, Snapshot] = by_name("snapshots", value, '{"shop.orders": frame}')
    for name, rows in found.items():
        if not callable(rows):
            check_snapshot(f"snapshots: {name}", rows)
    return found


def as_oldest(rows: DataFrame, wanted: StructType | None, soft_deletes: str | None = None) -> DataFrame:
    """Rows of a table with an empty order value: they are older than every change.

    Args:
        rows: The table's columns.
        wanted: Columns are cast to the types that they have here.
        soft_deletes: The column for the time of deletions, which is null.
    """
    types = {field.name.lower(): field.dataType.simpleString() for field in wanted or ()}
    columns = (
        sql("CAST({name} AS {type}) AS {name}", name=column(field.name), type=Sql(types[field.name.lower()]))
        if field.name.lower() in types
        else column(field.name)
        for field in rows.schema
    )
    order = sql("CAST(NULL AS {type}) AS {order}", type=Sql(ORDER_TYPE), order=column(free_name(rows.schema, None)))
    deleted = [sql("CAST(NULL AS timestamp) AS {name}", name=column(soft_deletes))] if soft_deletes else []
    return rows.selectExpr(*columns, *deleted, order)
