"""The outcomes of a batch's changes: what is written, what is older than what is stored, what cannot be applied."""

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
from towpath.spark.requirements import map_in_arrow
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row


@dataclass(frozen=True)
class Changes:
    """The changes of one table in a batch, and what is known of them. What is not known costs a job more."""

    frame: DataFrame
    keys: list[str]
    kinds: Kinds = field(default_factory=Kinds)
    """What the order values may have."""
    jobs: str = UNKNOWN_SIZE
    """The kind of the jobs."""
    tasks: int | None = None
    """How many tasks fold them. None: as many as Spark uses for a shuffle."""
    decoded: Callable[[Fold], DataFrame] | None = None
    """Decodes their messages and folds them at once. None: the frame has more than was decoded, or several tasks."""
    waits: Sql | None = None
    """True for changes that waited and may have values that newer changes of their rows lack. None: none waited."""

    @property
    def is_small(self) -> bool:
        """Whether the driver may hold the changes, which costs less than a cache on the workers."""
        return self.jobs == SMALL

    def newest(self, bounds: Bounds | None) -> DataFrame:
        """The newest change of each key, with the columns of `ADDED`; `bounds` are those of the target."""
        fold = Fold(tuple(self.keys), bounds)
        if self.decoded is not None:
            return self.decoded(fold)
        from pyspark.sql.types import StructType

        spark = self.frame.sparkSession
        schema = StructType([*self.frame.schema, *struct_type(ADDED)])
        if self.is_small and hasattr(self.frame, "toArrow"):  # Spark 3.5 has none
            found = list(fold.newest(self.frame.toArrow().to_batches()))
            if not found:
                return spark.createDataFrame([], schema)
            return local_frame(spark, pa.Table.from_batches(found), schema)
        keys = list(map(expressions(spark), key_columns(self.keys)))
        by_key = self.frame.repartition(self.tasks, *keys) if self.tasks else self.frame.repartition(*keys)
        return map_in_arrow(by_key, fold, schema)


@dataclass(frozen=True)
class Staged:
    """The changes of a batch with their outcomes."""

    batch: Changes
    changes: DataFrame
    """The newest ones."""
    applied: Applied
    bounds: Bounds
    """Those of what is applied."""
    uncertain: int
    """How many changes have no outcome yet, as it depends on the target."""
    partial: bool
    """Whether there are rows that lack columns."""
    lacked: bool
    """Whether a row that is written was an update of some columns."""
    null_keys: int
    """How many changes of rows have a key with NULL."""

    @property
    def rows(self) -> DataFrame:
        """The changes that are applied."""
        return self.changes.filter("outcome IN ('row', 'delete')")

    @property
    def written(self) -> int:
        """How many changes are applied."""
        return self.applied.counts.get(ROW, 0) + self.applied.counts.get(DELETE, 0)


@dataclass(frozen=True)
class Staging:
    """What the changes of a batch are compared with."""

    batch: Changes
    stored: Callable[[], tuple[DataFrame | None, DataFrame | None]]
    """Reads the keys and order values of the target, and its tombstones. None: the table does not exist."""
    held: ExitStack
    """Its end frees the memory of the workers."""

    def stage(self, bounds: Bounds | None) -> Staged:
        """The changes with their outcomes. Those beyond the bounds of what is stored need no look at the target."""
        from pyspark.sql import functions as f

        newest, in_driver = self.batch.newest(bounds), self.batch.is_small
        if bounds is None:
            return self._counted(self._compared(newest, in_driver=in_driver))
        newest = computed(newest.withColumn("unordered", f.lit(False)), self.held, in_driver=in_driver)
        found = self._counted(newest)
        if not found.uncertain or found.applied.counts.get(TRUNCATE):  # the rows are staged after a truncate
            return found
        are_few = found.uncertain <= _FEW
        compared = self._compared(newest.filter("outcome IS NULL"), in_driver=in_driver or are_few, some=True)
        staged = newest.filter("outcome IS NOT NULL").unionByName(compared)
        # A MERGE of many changes has to know how few they are. Those in the driver's memory are not copied.
        return self._counted(staged if in_driver else computed(staged, self.held, in_driver=False))

    def _compared(self, newest: DataFrame, *, in_driver: bool, some: bool = False) -> DataFrame:
        """The newest changes with their outcomes, after a look at the target's rows and tombstones.

        `some`: whether they are few, compared with the target.
        """
        batch, held = self.batch, partial(computed, held=self.held, in_driver=in_driver)
        of_keys = partial(relevant, keys=batch.keys, are_few=in_driver and not batch.is_small)
        rows, tombstones = self.stored()
        if tombstones is not None or some:  # then the newest changes are needed twice
            newest = held(newest)
        if rows is not None and some:
            rows = of_keys(rows, newest)
        if tombstones is not None:
            tombstones = held(of_keys(tombstones, newest))
        return held(with_outcome(newest, batch.keys, rows, tombstones, batch.kinds, batch.waits))

    def _counted(self, staged: DataFrame) -> Staged:
        """Count the changes of each outcome, in one job."""
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
"""How many changes the driver may hold."""


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
    """Sorts groups by when their last change came to Kafka."""
    names = ("highest_timestamp", "of_topic", "of_partition", "highest_offset")
    return tuple((group[name] is not None, group[name]) for name in names)
