"""Creates targets with the rows of snapshots, before the first change is applied.

The rows have an empty order value, so they are older than every change. A target is created in one transaction, and an
existing target stays unchanged, so a failed start can be repeated.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from towpath.lakehouse.arguments import check_snapshot
from towpath.lakehouse.merging.jobs import in_parallel, session_settings
from towpath.lakehouse.order.order import ORDER_TYPE
from towpath.lakehouse.replicate_options import columns_of
from towpath.lakehouse.rules.rule_names import rule_of
from towpath.lakehouse.seen.status import TableStatus
from towpath.lakehouse.tables.jdbc_rows import UNPADDED
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import Sql, column, sql
from towpath.lakehouse.tables.tables import create_with, free_name, schema_of
from towpath.lakehouse.tables.targets import split_name
from towpath.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from towpath.lakehouse.arguments import Snapshot

_log = logging.getLogger("towpath.spark")


def create_targets(spark: SparkSession, known: KnownTargets) -> None:
    """Create the missing targets of tables with a snapshot, and write their states.

    Raises:
        ValueError: A table has no target, or its snapshot lacks a column.
    """
    known.begin(spark)
    snapshots = known.options.snapshots
    places = {name: known.of_names(*split_name(name)) for name in snapshots}
    for name, place in places.items():
        if place is None:
            raise ValueError(f"snapshots: {name}: the table has no target")
    twice = {place for place, count in Counter(places.values()).items() if count > 1}
    if shared := sorted(name for name, place in places.items() if place in twice):
        raise ValueError(
            f"snapshots: {', '.join(shared)}: the tables share a target; create it first, with the rows of all of them"
        )
    wanted = [(name, place) for name, place in places.items() if place and schema_of(spark, place) is None]

    def create(one: tuple[str, str]) -> None:
        name, place = one
        keys = rule_of(known.options.keys, *split_name(name)) or None
        if create_with(spark, place, frames[name], known.settings(split_name(name), keys)):
            _log.info("%s: created %s with the rows of its snapshot", printable(name), printable(place))

    with session_settings(spark, UNPADDED):
        # Check all of them before writing the first one.
        frames = {name: _rows(spark, name, snapshots[name], known) for name, _ in wanted}
        in_parallel(spark, create, wanted, known.options.parallelism)
    known.status.write(spark, [TableStatus(*split_name(name), place) for name, place in wanted])


def _rows(spark: SparkSession, name: str, given: Snapshot, known: KnownTargets) -> DataFrame:
    """Return the rows of a snapshot as the target gets them."""
    options = known.options
    rows = check_snapshot(f"snapshots: {name}", given() if callable(given) else given)
    rules = known.protection(spark).of(split_name(name))
    declared, wanted = rule_of(options.schemas, *split_name(name)), None
    if declared is not None:
        wanted, existing = rules.kept(columns_of(declared)), {one.lower() for one in rows.columns}
        missing = [one for one in wanted.names if one.lower() not in existing]
        if missing:
            raise ValueError(f"snapshots: {name}: the snapshot lacks the columns {', '.join(missing)}")
        rows = rows.select(*map(column, wanted.names))
    return as_oldest(rules.of_table(rows), wanted, options.soft_deletes)


def as_oldest(rows: DataFrame, wanted: StructType | None, soft_deletes: str | None = None) -> DataFrame:
    """Return rows with the types of `wanted` and an empty order value, which makes them older than any change."""
    types = {field.name.lower(): field.dataType.simpleString() for field in wanted or ()}
    columns = (
        sql("CAST({name} AS {type}) AS {name}", name=column(field.name), type=Sql(types[field.name.lower()]))
        if field.name.lower() in types
        else column(field.name)
        for field in rows.schema
    )
    order = sql("CAST(NULL AS {type}) AS {order}", type=Sql(ORDER_TYPE), order=column(free_name(rows.columns)))
    deleted = [sql("CAST(NULL AS timestamp) AS {name}", name=column(soft_deletes))] if soft_deletes else []
    return rows.selectExpr(*columns, *deleted, order)
