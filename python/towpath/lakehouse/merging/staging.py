"""The outcomes of a batch's changes: written, older than the stored rows, or impossible to apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.lakehouse.merging.fold import ADDED, Fold
from towpath.lakehouse.merging.jobs import SMALL, UNKNOWN_SIZE
from towpath.lakehouse.merging.rows import DELETE, REJECTED, ROW, TRUNCATE, Applied, relevant, with_outcome
from towpath.lakehouse.merging.stored import bounds_of, groups, highest
from towpath.lakehouse.order.bounds import Bounds
from towpath.lakehouse.order.order import Kinds, key_columns
from towpath.lakehouse.reading.batch_messages import computed, local_frame
from towpath.lakehouse.tables.sql import Sql, any_of, expressions, sql
from towpath.spark.requirements import has_arrow, map_in_arrow
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row


@dataclass(frozen=True)
class Changes:
    """Changes of one table in a batch, with facts that save jobs."""

    frame: DataFrame
    keys: list[str]
    kinds: Kinds = field(default_factory=Kinds)
    """Kinds of the order values."""
    jobs: str = UNKNOWN_SIZE
    """Kind of the jobs."""
    tasks: int | None = None
    """Number of tasks that fold the changes. Defaults to Spark's number of shuffle partitions."""
    decoded: Callable[[Fold], DataFrame] | None = None
    """Function that decodes the messages and folds the changes at once. None if that is not possible."""
    waits: Sql | None = None
    """Condition for changes that waited and may have values that newer changes of their rows lack. None without any."""

    @property
    def is_small(self) -> bool:
        """Whether the driver may hold the changes, which costs less than caching them on the workers."""
        return self.jobs == SMALL

    def newest(self, bounds: Bounds | None) -> DataFrame:
        """Return the newest change of each key, with the columns of `ADDED`. `bounds` are the target's bounds."""
        fold = Fold(tuple(self.keys), bounds)
        if self.decoded is not None:
            return self.decoded(fold)
        from pyspark.sql.types import StructType

        spark = self.frame.sparkSession
        schema = StructType([*self.frame.schema, *struct_type(ADDED)])
        if self.is_small and has_arrow(type(self.frame)):
            found = list(fold.newest(self.frame.toArrow().to_batches()))
            if not found:
                return spark.createDataFrame([], schema)
            return local_frame(spark, pa.Table.from_batches(found), schema)
        keys = list(map(expressions(spark), key_columns(self.keys)))
        by_key = self.frame.repartition(self.tasks, *keys) if self.tasks else self.frame.repartition(*keys)
        return map_in_arrow(by_key, fold, schema)


@dataclass(frozen=True)
class Staged:
    """Changes of a batch with their outcomes."""

    batch: Changes
    changes: DataFrame
    """Newest changes."""
    applied: Applied
    bounds: Bounds
    """Bounds of the applied changes."""
    uncertain: int
    """Number of changes without an outcome yet, since it depends on the target."""
    partial: bool
    """Whether some rows lack columns."""
    lacked: bool
    """Whether a written row was an update of some columns."""
    null_keys: int
    """Number of row changes whose key contains NULL."""

    @property
    def rows(self) -> DataFrame:
        """Applied changes."""
        return self.changes.filter("outcome IN ('row', 'delete')")

    @property
    def written(self) -> int:
        """Number of applied changes."""
        return self.applied.counts.get(ROW, 0) + self.applied.counts.get(DELETE, 0)


@dataclass(frozen=True)
class Staging:
    """Comparison of a batch's changes with the target."""

    batch: Changes
    stored: Callable[[], tuple[DataFrame | None, DataFrame | None]]
    """Function that reads the target's keys and order values, and its tombstones. None stands for a missing table."""
    held: ExitStack
    """Stack whose end frees the workers' memory."""

    def stage(self, bounds: Bounds | None) -> Staged:
        """Return the changes with their outcomes. Skip reading the target for changes beyond its bounds."""
        from pyspark.sql import functions as f

        newest = self.batch.newest(bounds)
        if bounds is None:
            return self._counted(self._compared(newest, in_driver=self.batch.is_small))
        newest = computed(newest.withColumn("unordered", f.lit(False)), self.held, in_driver=False)
        found = self._counted(newest)
        if not found.uncertain or found.applied.counts.get(TRUNCATE):  # a truncate stages the rows again
            return found
        are_few = found.uncertain <= _FEW
        compared = self._compared(newest.filter("outcome IS NULL"), in_driver=are_few, some=True)
        # A MERGE of many changes must know how few they are.
        staged = newest.filter("outcome IS NOT NULL").unionByName(compared)
        return self._counted(computed(staged, self.held, in_driver=False))

    def _compared(self, newest: DataFrame, *, in_driver: bool, some: bool = False) -> DataFrame:
        """Return the newest changes with their outcomes, compared with the target's rows and tombstones.

        `some` says whether they are few compared with the target.
        """
        batch, held = self.batch, partial(computed, held=self.held, in_driver=in_driver)
        of_keys = partial(relevant, keys=batch.keys, are_few=in_driver and some)
        rows, tombstones = self.stored()
        if tombstones is not None or some:  # the newest changes are needed twice
            newest = held(newest)
        if rows is not None and some:
            rows = of_keys(rows, newest)
        if tombstones is not None:
            tombstones = held(of_keys(tombstones, newest))
        return held(with_outcome(newest, batch.keys, rows, tombstones, batch.kinds, batch.waits))

    def _counted(self, staged: DataFrame) -> Staged:
        """Count the changes of each outcome in one job."""
        found = staged.groupBy("outcome", *groups()).agg(*_statistics(self.batch.keys)).collect()
        counts = Counter({row["outcome"]: 0 for row in found})
        for row in found:
            counts[row["outcome"]] += row["count"]
        last = max(found, key=_last_of, default=None)
        applied = Applied(
            counts,
            max((row["event_time"] for row in found if row["event_time"]), default=None),
            f"{last['of_topic']}/{last['of_partition']}/{last['highest_offset']}" if last else None,
            unordered=sum(row["unordered"] for row in found),
        )
        return Staged(
            self.batch,
            staged,
            applied,
            bounds_of(row for row in found if row["outcome"] in (ROW, DELETE)),
            uncertain=counts.pop(None, 0),
            partial=any(row["partial"] for row in found),
            lacked=any(row["lacked"] for row in found if row["outcome"] == ROW),
            null_keys=sum(row["null_keys"] for row in found if row["outcome"] != REJECTED),
        )


_FEW = 20_000
"""Number of changes that the driver may hold."""


def _statistics(keys: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as f

    null_key = any_of(sql("{key} IS NULL", key=key) for key in key_columns(keys))
    return [
        f.count("*").alias("count"),
        f.max("event_time").alias("event_time"),
        f.max(f.expr("op = 'update' AND coalesce(size(missing), 0) > 0")).alias("partial"),
        f.max("lacked").alias("lacked"),
        f.count_if("unordered").alias("unordered"),
        f.count_if(f.expr(sql("op <> 'truncate' AND ({null})", null=null_key))).alias("null_keys"),
        *highest(),
    ]


def _last_of(group: Row) -> tuple[Any, ...]:
    """Return a sort key for groups: the arrival of their last change in Kafka."""
    names = ("highest_timestamp", "of_topic", "of_partition", "highest_offset")
    return tuple((group[name] is not None, group[name]) for name in names)
