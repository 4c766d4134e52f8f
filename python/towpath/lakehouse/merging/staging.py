"""The outcomes of a batch's changes: what is written, what is older than what is stored, what cannot be applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from towpath.lakehouse.merging.fold import Fold
from towpath.lakehouse.merging.newest import Changes
from towpath.lakehouse.merging.rows import DELETE, REJECTED, ROW, TRUNCATE, Applied, relevant, with_outcome
from towpath.lakehouse.merging.stored import bounds_of, groups, highest
from towpath.lakehouse.order.bounds import Bounds
from towpath.lakehouse.order.order import Kinds, key_columns
from towpath.lakehouse.reading.batch_messages import computed
from towpath.lakehouse.tables.sql import any_of, sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

Stored = tuple["DataFrame | None", "DataFrame | None"]
"""The keys and order values of a target, and its tombstones: None where the table does not exist."""


@dataclass(frozen=True)
class Hints:
    """What is known of a batch before its rows are decoded. What is not known is found out, and costs a job more."""

    kinds: Kinds = field(default_factory=Kinds)
    """What the order values may have."""
    is_small: bool = False
    """Whether the driver may hold the changes, which costs less than a cache on the workers."""
    are_few: bool = False
    """Whether they are few, compared with the target."""
    are_most: bool = False
    """Whether they are more than the rows of the target, as far as is known."""
    waited: bool = False
    """Whether no change was applied before, though newer ones may have been."""
    lacked: bool = False
    """Whether changes that were applied may have been updates of some columns."""


@dataclass(frozen=True)
class Staged:
    """The changes of a batch with their outcomes."""

    changes: DataFrame
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

    @staticmethod
    def of(staged: DataFrame, keys: Sequence[str]) -> Staged:
        """Count the changes of each outcome, in one job."""
        found = staged.groupBy("outcome", *groups()).agg(*_statistics(keys)).collect()
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
            staged,
            applied,
            bounds_of(row for row in found if row["outcome"] in (ROW, DELETE)),
            uncertain=counts.pop(None, 0),
            partial=any(row["partial"] for row in found),
            lacked=any(row["lacked"] for row in found if row["outcome"] == ROW),
            null_keys=sum(row["null_keys"] for row in found if row["outcome"] != REJECTED),
        )

    @property
    def written(self) -> int:
        """How many changes are applied."""
        return self.applied.counts.get(ROW, 0) + self.applied.counts.get(DELETE, 0)

    def after_truncate(self, truncates: int, unordered: int) -> Staged:
        """The changes that were staged again after truncates."""
        counts = {**self.applied.counts, TRUNCATE: truncates}
        applied = replace(self.applied, counts=counts, unordered=self.applied.unordered + unordered)
        return replace(self, applied=applied)


@dataclass(frozen=True)
class Staging:
    """What the changes of a batch are compared with, and how."""

    keys: list[str]
    hints: Hints
    held: ExitStack
    """Its end frees the memory of the workers."""
    stored: Callable[[], Stored]

    def stage(self, changes: Changes, bounds: Bounds | None) -> Staged:
        """The changes with their outcomes.

        Args:
            changes: The changes of a batch.
            bounds: Of what is stored, if they are known. Changes beyond them are newer without a look at the target.
        """
        from pyspark.sql import functions as f

        hints = self.hints
        newest = changes.newest(Fold(tuple(self.keys), bounds), in_driver=hints.is_small)
        if bounds is None:
            return Staged.of(self._compared(newest, hints), self.keys)
        newest = self._computed(newest.withColumn("unordered", f.lit(False)))
        found = Staged.of(newest, self.keys)
        if not found.uncertain:
            return found
        if found.applied.counts.get(TRUNCATE):
            return Staged.of(self._compared(newest, hints), self.keys)
        are_few = found.uncertain <= _FEW and not hints.is_small
        few = replace(hints, is_small=hints.is_small or are_few, are_few=are_few)
        compared = self._compared(newest.filter("outcome IS NULL"), few, some=True)
        staged = newest.filter("outcome IS NOT NULL").unionByName(compared)
        # A MERGE of many changes has to know how few they are. Those in the driver's memory are not copied.
        return Staged.of(staged if hints.is_small else self._computed(staged), self.keys)

    def _compared(self, newest: DataFrame, hints: Hints, *, some: bool = False) -> DataFrame:
        """The newest changes with their outcomes, after a look at the target's rows and tombstones.

        Args:
            newest: The changes.
            hints: What is known of them.
            some: Whether they are few, compared with the target.
        """
        rows, tombstones = self.stored()
        if tombstones is not None or some:  # then the newest changes are needed twice
            newest = self._computed(newest, hints)
        if rows is not None and some:
            rows = relevant(rows, newest, self.keys, are_few=hints.are_few)
        if tombstones is not None:
            tombstones = self._computed(relevant(tombstones, newest, self.keys, are_few=hints.are_few), hints)
        found = with_outcome(newest, self.keys, rows, tombstones, hints.kinds, waited=hints.waited, lacked=hints.lacked)
        return self._computed(found, hints)

    def _computed(self, frame: DataFrame, hints: Hints | None = None) -> DataFrame:
        return computed(frame, self.held, in_driver=(hints or self.hints).is_small)


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
