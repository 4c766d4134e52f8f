"""The bounds of a target and its tombstones, as long as no other writer changes them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from towpath.lakehouse.order.bounds import MOST_RECENT, OF_GROUP, Bounds, Recent
from towpath.lakehouse.order.order import key_columns
from towpath.lakehouse.order.order_arrays import ORDER, cast_struct, comparable
from towpath.lakehouse.tables.formats import ICEBERG, delta_detail, format_of
from towpath.lakehouse.tables.sessions import iceberg_table, jvm_of, may_exist
from towpath.lakehouse.tables.sql import Sql, column, comma_separated, execute, sql, table
from towpath.printable import printable
from towpath.spark.requirements import has_arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_log = logging.getLogger("towpath.spark")

# Spark sorts all rows for the maximum of a struct, but not of a number. 10^19 is above each position.
_POSITIONS = 10**19
_HIGHEST = {
    "offset": "`order`.offset",
    "timestamp": "unix_micros(`order`.timestamp)",
    "event_time": "unix_micros(`order`.event_time)",
    "commit_ts": "`order`.commit_ts",
    # Damaged messages have negative positions. A bound that is too high only costs a comparison.
    "place": f"CAST(`order`.file AS decimal(38, 0)) * {_POSITIONS}BD + greatest(`order`.at, 0L)",
}


class StoredBounds:
    """Bounds of a target across batches. They only save time, so their errors do not fail a batch."""

    def __init__(self, target: str, tombstones: str) -> None:
        self._target, self._tombstones = target, tombstones
        self._commits: tuple[Commits, Commits] | None = None
        self._bounds: Bounds | None = None

    def known(self, spark: SparkSession, order: str | None, exist: tuple[bool, bool]) -> Bounds | None:
        """Return the bounds, or None if unknown or useless. `exist`: whether the target and its tombstones exist."""
        try:
            # Reading the bounds takes as long as comparing the changes of one batch with all rows.
            if self._bounds is None or not self._are_known(spark, exist):
                self._bounds = self._read(spark, order, exist)
        except Exception as error:
            self._give_up(error)
        return None if self._bounds is None or self._bounds.has_truncates else self._bounds

    def add(self, batch: Bounds, applied: DataFrame, count: int, keys: Sequence[str], written: Sequence[bool]) -> None:
        """Add the changes that a batch has applied.

        Args:
            batch: Bounds of the changes.
            applied: Applied changes.
            count: Number of the changes.
            keys: Columns of the key.
            written: Whether the target and its tombstones have new commits.
        """
        if self._bounds is None or self._commits is None:
            return
        try:
            for commits, is_written in zip(self._commits, written, strict=True):
                commits.add(applied.sparkSession, written=is_written)
            # With truncates the bounds are useless. They are read again when the truncates are forgotten.
            if batch.highest and not self._bounds.has_truncates:
                self._bounds = _after(self._bounds, batch, applied, keys, count)
        except Exception as error:  # the batch is already written
            self._give_up(error)

    def forget(self) -> None:
        """Read the bounds again."""
        self._bounds = None

    def _give_up(self, error: Exception) -> None:
        _log.info("%s: the bounds of its rows are unknown: %s", self._target, printable(str(error)))
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
    """Return the bounds after a batch that applied `count` changes."""
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
    """Return the bounds of all order values in a frame."""
    return bounds_of(frame.groupBy(*groups()).agg(*highest()).collect())


def _recent(changes: DataFrame, keys: Sequence[str]) -> Recent:
    """Return changes in the memory of the driver."""
    of_key = (sql("{key} AS k{at}", key=key, at=Sql(str(at))) for at, key in enumerate(key_columns(keys)))
    values = sql("struct({key}) AS key", key=comma_separated(of_key)), "`order`", "outcome = 'delete' AS is_delete"
    found = changes.selectExpr(*values).toArrow()
    key, orders, is_delete = (found.column(at).combine_chunks() for at in range(3))
    return Recent(comparable(key), cast_struct(orders, ORDER), is_delete)


def bounds_of(rows: Iterable[Row]) -> Bounds:
    """Return the bounds of order values from rows with `groups` and `highest`."""
    return Bounds.of({**row.asDict(), "highest_place": _place(row["highest_place"])} for row in rows)


def _place(number: Decimal | None) -> tuple[int, int] | None:
    """Return file and position."""
    return divmod(int(number), _POSITIONS) if number is not None else None


def groups() -> list[Column]:
    """Return the fields by which order values are grouped for bounds."""
    from pyspark.sql import functions as f

    return [f.col(f"order.{name}").alias(f"of_{name}") for name in OF_GROUP]


def highest() -> list[Column]:
    """Return the aggregates of order values from which bounds are made."""
    from pyspark.sql import functions as f

    return [f.max(f.expr(value)).alias(f"highest_{name}") for name, value in _HIGHEST.items()]


_NO_VERSION = -1
_MANAGED = ("delta.coordinatedCommits", "coordinatedCommits", "catalogManaged", "catalogOwned")


class DeltaCommits:
    """Last known version of a Delta table. Each version has a file in the table's log."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._log = f"{target}/_delta_log"
        self._version: int | None = None

    def read(self, spark: SparkSession, *, exists: bool) -> None:
        """Read the current version. A table that does not exist has no commits."""
        self._version = _NO_VERSION
        if not exists:
            return
        detail = delta_detail(spark, self._target)
        self._log = f"{detail['location']}/_delta_log"
        [last] = execute(spark, sql("DESCRIBE HISTORY {table} LIMIT 1", table=table(self._target))).collect()
        # A catalog that manages a table's commits writes them to other files first.
        settings = (*detail["properties"], *(detail.asDict().get("tableFeatures") or ()))
        is_managed = any(name.startswith(_MANAGED) for name in settings)
        self._version = None if is_managed else last["version"]

    def are_known(self, spark: SparkSession) -> bool:
        """Return whether no other commit followed the known version of an existing table."""
        # Delta removes old files of the log after some time.
        return self._version is not None and self._has(spark, self._version) and not self._has(spark, self._version + 1)

    def add(self, spark: SparkSession, *, written: bool) -> None:
        """Count the commit of this query if it made one. A commit of another writer makes the version unknown."""
        if self._version is not None:
            self._version += written
        # The folder of a named table is unknown when it is created: the next batch reads it.
        if self._version != _NO_VERSION and not self.are_known(spark):
            self._version = None

    def _has(self, spark: SparkSession, version: int) -> bool:
        return may_exist(spark, f"{self._log}/{version:020}.json")


class IcebergCommits:
    """Last known snapshot of an Iceberg table."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._is_known = False
        self._snapshot: int | None = None

    def read(self, spark: SparkSession, *, exists: bool) -> None:
        """Read the current snapshot."""
        found = self._current(spark) if exists else None
        self._is_known, self._snapshot = True, found.snapshotId() if found else None

    def are_known(self, spark: SparkSession) -> bool:
        """Return whether the known snapshot is current."""
        found = self._current(spark)
        return self._is_known and self._snapshot == (found.snapshotId() if found else None)

    def add(self, spark: SparkSession, *, written: bool) -> None:
        """Accept the snapshot of this query if it made one. A snapshot of another writer makes the state unknown."""
        if self._snapshot is None and not written:
            return
        found = self._current(spark)
        if found is not None and found.snapshotId() != self._snapshot:
            is_ours = written and found.summary().get("spark.app.id") == spark.sparkContext.applicationId
            self._is_known = self._is_known and is_ours and found.parentId() == self._snapshot
            self._snapshot = found.snapshotId()

    def _current(self, spark: SparkSession) -> Any:
        return iceberg_table(spark, self._target).currentSnapshot()


Commits = DeltaCommits | IcebergCommits


def commits_of(spark: SparkSession, target: str) -> Commits | None:
    """Return an unread commit tracker for a table. Return None on Connect and on Spark 3.5, which cannot track."""
    from pyspark.sql import DataFrame

    if jvm_of(spark) is None or not has_arrow(DataFrame):
        return None
    return IcebergCommits(target) if format_of(spark, target) is ICEBERG else DeltaCommits(target)
