"""Merges the changes of a table's rows into a Delta or Iceberg table.

There is one rule: a change is applied if it is newer than the last known change of its key. The order value of the last
change is stored next to each row; for deleted rows it is stored in a table of tombstones. Changes that are not newer
are removed before the merge. A repeated change or a replayed range therefore has no effect, with or without a
checkpoint. A batch that is retried after a failure ends in the same state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.lakehouse.merging.delta_rs import most_files
from towpath.lakehouse.merging.jobs import in_parallel
from towpath.lakehouse.merging.retries import is_being_created, is_lost, with_retries
from towpath.lakehouse.merging.rows import DELETE, REJECTED, TRUNCATE, UNKNOWN, Applied
from towpath.lakehouse.merging.staging import Changes, Staged, Staging
from towpath.lakehouse.merging.stored import StoredBounds
from towpath.lakehouse.merging.target_writer import TargetWriter
from towpath.lakehouse.merging.tombstones import Tombstones
from towpath.lakehouse.order.bounds import Bounds
from towpath.lakehouse.reading.batch_messages import local_frame
from towpath.lakehouse.reading.changes import COLUMNS
from towpath.lakehouse.seen.aside import Aside, Origin, write_dead_letters
from towpath.lakehouse.seen.status import STALE, TableStatus, unordered
from towpath.lakehouse.seen.status_table import StatusTable
from towpath.lakehouse.tables.tables import TableSettings, optimize_in_turn
from towpath.lakehouse.tables.target_properties import PARTIAL
from towpath.lakehouse.tables.targets import is_path
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from towpath.lakehouse.merging.tasks import TaskMerges


KEY_ONLY = (
    "missing",
    "the message lacks columns that are not in Kafka: it has only the row's key (TiCDC's handle-key-only or "
    "claim-check), updates the key without all columns, or lacks columns of the target's key",
)
_UNKNOWN_ROW = (
    "missing",
    "the message, or a newer one of the same row, has only the changed columns (binlog_row_image is not FULL), and "
    "the target lacks the row, or already has the newer change",
)


_NULL_KEYS = (
    "{target}: {count} changes have NULL in the key ({keys}). NULLs are distinct in MySQL, so these columns do not "
    "identify a row: set keys to other columns"
)


class Applier:
    """Applier of changes to a target."""

    def __init__(
        self,
        target: str,
        dead_letters: Aside | None,
        settings: TableSettings,
        status: StatusTable,
        in_tasks: TaskMerges | None = None,
    ) -> None:
        """Create an applier. `in_tasks` says which tables delta-rs may write."""
        self.writer = TargetWriter(target, settings, in_tasks)
        self.tombstones = Tombstones(target, in_tasks)
        self._target, self._dead_letters, self._status = target, dead_letters, status
        self._keys: list[str] = []
        self._origin = Origin(target=target)
        self._stored_bounds = StoredBounds(target, self.tombstones.table.name)

    def configure(self, keys: list[str], settings: TableSettings, origin: Origin) -> None:
        """Set the key's columns, the target's settings, and the origin of the changes."""
        self._keys, self.writer.settings, self._origin = keys, settings, origin

    def apply(self, batch: Changes, batch_id: int) -> Applied:
        """Apply changes."""

        def attempt() -> Applied:
            try:
                return self._apply_once(batch, batch_id)
            except Exception:
                self.forget_schemas()  # another writer may have changed the tables
                raise

        return with_retries(attempt, lambda error: is_lost(error) or is_being_created(error))

    def _apply_once(self, batch: Changes, batch_id: int) -> Applied:
        began, spark = time.monotonic(), batch.frame.sparkSession
        self.check_columns(batch.frame.select(f"{COLUMNS}.*").columns, batch.keys)
        with ExitStack() as held:
            staging = Staging(batch, lambda: (self.writer.keys(spark, batch.keys), self.tombstones.read(spark)), held)
            staged = staging.stage(self._bounds(spark, batch))
            if staged.null_keys:
                keys = ", ".join(batch.keys)
                raise ValueError(_NULL_KEYS.format(target=self._target, keys=keys, count=staged.null_keys))
            if staged.applied.counts.get(TRUNCATE):
                kept = self._truncate(staged)
                staged = staging.stage(None)
                applied = replace(staged.applied, unordered=staged.applied.unordered + kept)
                staged = replace(staged, applied=applied)
            if staged.lacked:
                self._remember_partial(spark)
            written = self._write(staged)
            if not batch.is_small:
                self._stored_bounds.add(staged.bounds, staged.rows, staged.written, batch.keys, written)
        self._maintain(spark, batch_id)
        return replace(staged.applied, seconds=time.monotonic() - began)

    def _remember_partial(self, spark: SparkSession) -> None:
        """Record for `reprocess` that a newer change of a row may lack columns of an older change."""
        settings = self.writer.settings
        self.writer.settings = replace(settings, properties={**settings.properties, PARTIAL: "true"})
        if self.writer.table.schema(spark) is not None and self.writer.table.properties(spark).get(PARTIAL) != "true":
            self.writer.table.set_properties(spark, {PARTIAL: "true"})

    def check_columns(self, columns: Sequence[str], keys: Sequence[str]) -> None:
        """Raise a ValueError if the columns of changes lack a key, or have the name of the column of soft deletes."""
        missing = [name for name in keys if name.lower() not in map(str.lower, columns)]
        if missing:
            raise ValueError(f"{self._target}: unknown key columns {missing}; expected columns of {columns}")
        deleted = self.writer.settings.soft_deletes
        if deleted is not None and deleted.lower() in map(str.lower, columns):
            raise ValueError(f"{self._target}: soft_deletes: the table already has a column {deleted}")

    def _bounds(self, spark: SparkSession, batch: Changes) -> Bounds | None:
        """Return the bounds, or None if unknown or useless."""
        # The bounds of a small target cost more jobs than a look at its rows. A deleted row may become live again.
        if batch.is_small or self.writer.settings.soft_deletes:
            return None
        exist = self.writer.table.schema(spark) is not None, self.tombstones.table.schema(spark) is not None
        return self._stored_bounds.known(spark, self.writer.table.order(spark), exist)

    def _write(self, staged: Staged) -> list[bool]:
        """Write the applied changes and the dead letters. Return whether the target and its tombstones changed."""
        changes, counts = staged.changes, staged.applied.counts
        for outcome, default in ((REJECTED, KEY_ONLY), (UNKNOWN, _UNKNOWN_ROW)):
            if count := counts.get(outcome):
                rejected, are_few = changes.filter(f"outcome = '{outcome}'"), staged.batch.is_small
                self.write_dead_letters(rejected, default, count, are_few=are_few)
        deletes = changes.filter("outcome = 'delete'")
        # If one of the two writes fails, a retry of the batch finds the same deletes again.
        writes: list[Callable[[], bool | None]] = [lambda: staged.written > 0 and self.writer.write(staged)]
        if counts.get(DELETE):
            writes.append(lambda: self.tombstones.write(deletes, staged.batch.keys))
        done = in_parallel(changes.sparkSession, lambda write: write(), writes, len(writes))
        return [bool(done[0]), len(done) > 1]

    def _truncate(self, staged: Staged) -> int:
        """Delete the rows that are older than truncates, and write tombstones. Return the number of doubtful rows."""
        truncates = staged.changes.filter("outcome = 'truncate'")
        # Write the tombstone last: it marks the truncate as applied. If a write fails, the batch is applied again.
        if kept := self.writer.truncate(truncates, self.writer.prepare_for(staged.changes)):
            name = self._origin.database, self._origin.table or self._target
            self._status.write(truncates.sparkSession, [TableStatus(*name, self._target, STALE, unordered(kept))])
        self.tombstones.write(truncates, staged.batch.keys)
        return kept

    def delete_gone(self, spark: SparkSession) -> None:
        """Delete rows that another writer deleted, if older changes of them were applied since."""
        tombstones = self.tombstones.read(spark)
        if self._keys and tombstones is not None and self.writer.table.schema(spark) is not None:
            self.writer.delete_gone(tombstones, self._keys)

    def forget_schemas(self) -> None:
        """Read the schemas again, since another writer changed the tables."""
        self.writer.forget()
        self.tombstones.table.forget()
        self._stored_bounds.forget()

    def finish(self, spark: SparkSession, result: Row, batch_id: int, origin: Origin) -> None:
        """Finish a merge after a task, from its row of `RESULT`."""
        if result.rejected_changes:
            self._origin = origin  # tables may share the target
            rejected = pa.ipc.open_stream(result.rejected_changes).read_all()
            frame = local_frame(spark, rejected, struct_type(rejected.schema))
            self.write_dead_letters(frame, KEY_ONLY, rejected.num_rows, are_few=True)
        every = self.writer.settings.optimize_every
        if every and (result.files or 0) > most_files(every):  # otherwise a task compacts it
            optimize_in_turn(spark, self._target, batch_id, every)
        if not is_path(self._target):  # a task compacts the tombstones of a path
            optimize_in_turn(spark, self.tombstones.table.name, batch_id, every)

    def _maintain(self, spark: SparkSession, batch_id: int) -> None:
        """Forget old tombstones, and compact the target."""
        if batch_id % _SIZE_EVERY == 0:
            self.writer.forget_size()
        optimize_in_turn(spark, self._target, batch_id, self.writer.settings.optimize_every)
        self.tombstones.forget(spark, self.writer.settings.forget_after)

    def write_dead_letters(self, rejected: DataFrame, default: tuple[str, str], count: int, *, are_few: bool) -> None:
        """Append changes that cannot be applied to the dead letters. `default` is the default error."""
        problem = f"{self._target}: {count} rows cannot be applied"
        write_dead_letters(rejected, self._dead_letters, self._origin, default, problem, are_few=are_few)


_SIZE_EVERY = 20
"""Number of batches between two reads of a target's size."""
