"""The bounds of what a target and its tombstones store, as long as nobody else writes them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from towpath.lakehouse.merging.commits import Commits, commits_of
from towpath.lakehouse.order.bounds import MOST_RECENT, OF_GROUP, Bounds, Recent
from towpath.lakehouse.order.order import key_columns
from towpath.lakehouse.order.order_arrays import ORDER, cast_struct, comparable
from towpath.lakehouse.tables.sql import Sql, column, comma_separated, sql, table
from towpath.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_log = logging.getLogger("towpath.spark")

# Spark sorts all rows for the maximum of a struct, and not for that of a number. 10^19 is above each position.
_POSITIONS = 10**19
_HIGHEST = {
    "offset": "`order`.offset",
    "timestamp": "unix_micros(`order`.timestamp)",
    "event_time": "unix_micros(`order`.event_time)",
    "commit_ts": "`order`.commit_ts",
    # Damaged messages have negative positions. A bound that is too high only costs a comparison.
    "place": f"CAST(`order`.file AS decimal(38, 0)) * {_POSITIONS}BD + greatest(`order`.at, 0L)",
}


@dataclass(frozen=True)
class Written:
    """What a batch committed."""

    target: bool
    tombstones: bool
    changes: int
    """How many changes were applied."""


class StoredBounds:
    """The bounds of a target from batch to batch. Without them a batch takes longer, so no error of theirs fails it."""

    def __init__(self, target: str, tombstones: str) -> None:
        self._target, self._tombstones = target, tombstones
        self._commits: tuple[Commits, Commits] | None = None
        self._bounds: Bounds | None = None

    def known(self, spark: SparkSession, order: str | None, exist: tuple[bool, bool]) -> Bounds | None:
        """The bounds; None if they are not known, or of no use.

        Args:
            spark: The session.
            order: The target's column with order values.
            exist: Whether the target and its tombstones exist.
        """
        try:
            # To read them takes as long as to compare the changes of one batch with all rows.
            if self._bounds is None or not self._are_known(spark, exist):
                self._bounds = self._read(spark, order, exist)
        except Exception as error:
            self._give_up(error)
        return None if self._bounds is None or self._bounds.has_truncates else self._bounds

    def add(
        self, spark: SparkSession, batch: Bounds, written: Written, changes: DataFrame, keys: Sequence[str]
    ) -> None:
        """Add what a batch has written.

        Args:
            spark: The session.
            batch: The bounds of what was applied.
            written: What was committed.
            changes: The newest changes with their outcomes.
            keys: The columns of the key.
        """
        if self._bounds is None or self._commits is None:
            return
        try:
            for commits, is_written in zip(self._commits, (written.target, written.tombstones), strict=True):
                commits.add(spark, written=is_written)
            # With truncates the bounds are not used, and are read again when the truncates are forgotten.
            if batch.highest and not self._bounds.has_truncates:
                applied = changes.filter("outcome IN ('row', 'delete')")
                self._bounds = _after(self._bounds, batch, applied, keys, written.changes)
        except Exception as error:  # the batch was written
            self._give_up(error)

    def forget(self) -> None:
        """Read the bounds again."""
        self._bounds = None

    def _give_up(self, error: Exception) -> None:
        _log.info("%s: the bounds of its rows are not known: %s", self._target, printable(str(error)))
        self._bounds = None

    def _are_known(self, spark: SparkSession, exist: tuple[bool, bool]) -> bool:
        return all(
            commits.are_known(spark) for commits, exists in zip(self._commits or (), exist, strict=True) if exists
        )

    def _read(self, spark: SparkSession, order: str | None, exist: tuple[bool, bool]) -> Bounds | None:
        target, tombstones = (commits_of(spark, name) for name in (self._target, self._tombstones))
        if target is None or tombstones is None:
            return None
        self._commits = target, tombstones
        for commits, exists in zip(self._commits, exist, strict=True):
            commits.read(spark, exists=exists)
        found = Bounds()
        if exist[0] and order:
            rows = spark.read.table(table(self._target))
            found |= _bounds(rows.selectExpr(sql("{order} AS `order`", order=column(order))))
        if exist[1]:
            gone = spark.read.table(table(self._tombstones))
            found |= replace(_bounds(gone), has_truncates=bool(gone.filter("truncated").limit(1).count()))
        return found.without_recent()


def _after(bounds: Bounds, batch: Bounds, applied: DataFrame, keys: Sequence[str], count: int) -> Bounds:
    """The bounds after a batch in which so many changes were applied."""
    since = bounds.since_after(batch)
    latest = applied.filter(_is_since(since))
    if count > MOST_RECENT:
        latest = latest.orderBy("`order`.event_time", ascending=False).limit(MOST_RECENT + 1)
    recent = _recent(latest, keys)
    since = max(since, recent.since_of(MOST_RECENT))
    settled = _bounds(applied.filter(f"NOT {_is_since(since)}")) if batch.has_places else Bounds()
    return bounds.after(batch, settled, recent, since)


def _is_since(micros: int) -> Sql:
    return sql("coalesce(unix_micros(`order`.event_time) >= {since}, false)", since=Sql(str(micros)))


def _bounds(frame: DataFrame) -> Bounds:
    """The bounds of all order values of a frame."""
    return bounds_of(frame.groupBy(*groups()).agg(*highest()).collect())


def _recent(changes: DataFrame, keys: Sequence[str]) -> Recent:
    """Changes in the memory of the driver."""
    of_key = (sql("{key} AS k{at}", key=key, at=Sql(str(at))) for at, key in enumerate(key_columns(keys)))
    values = sql("struct({key}) AS key", key=comma_separated(of_key)), "`order`", "outcome = 'delete' AS is_delete"
    found = changes.selectExpr(*values).toArrow()
    key, orders, is_delete = (found.column(at).combine_chunks() for at in range(3))
    return Recent(comparable(key), cast_struct(orders, ORDER), is_delete)


def bounds_of(rows: Iterable[Row]) -> Bounds:
    """The bounds of order values, of rows with `groups` and `highest`."""
    return Bounds.of({**row.asDict(), "highest_place": _place(row["highest_place"])} for row in rows)


def _place(number: Decimal | None) -> tuple[int, int] | None:
    """File and position."""
    return divmod(int(number), _POSITIONS) if number is not None else None


def groups() -> list[Column]:
    """The fields of order values by which they are grouped for bounds."""
    from pyspark.sql import functions as f

    return [f.col(f"order.{name}").alias(f"of_{name}") for name in OF_GROUP]


def highest() -> list[Column]:
    """The aggregates of order values that bounds are made of."""
    from pyspark.sql import functions as f

    return [f.max(f.expr(value)).alias(f"highest_{name}") for name, value in _HIGHEST.items()]
