"""Merges the changes of a table's rows into a Delta or Iceberg table.

There is one rule: a change is applied if it is newer than the last known change of its key. The order value of that
change is stored next to each row, and for deleted rows in a table of tombstones. Changes that are not newer are taken
out before the merge. So a change that is delivered again, or a range that is replayed, has no effect, with or without a
checkpoint, and a batch that is retried after a failure ends in the same state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from towpath.lakehouse.merging.jobs import UNKNOWN_SIZE, batch_settings, session_settings, settings_for
from towpath.lakehouse.merging.newest import Changes
from towpath.lakehouse.merging.parallel import in_parallel
from towpath.lakehouse.merging.retries import is_being_created, is_lost, with_retries
from towpath.lakehouse.merging.rows import DELETE, REJECTED, ROW, TRUNCATE, UNKNOWN, Applied
from towpath.lakehouse.merging.staging import Hints, Staged, Staging, Stored
from towpath.lakehouse.merging.stored import StoredBounds, Written
from towpath.lakehouse.merging.target_writer import TargetWriter
from towpath.lakehouse.merging.tombstones import Tombstones
from towpath.lakehouse.order.bounds import Bounds
from towpath.lakehouse.reading.batch_messages import local_frame
from towpath.lakehouse.reading.changes import COLUMNS, REQUIRED, has_offsets, structured
from towpath.lakehouse.seen.aside import Aside, Origin, write_dead_letters
from towpath.lakehouse.seen.status import REMOVED, STALE, TableStatus, unordered
from towpath.lakehouse.seen.status_table import StatusTable
from towpath.lakehouse.tables.tables import TableSettings, optimize_in_turn, schema_of
from towpath.lakehouse.tables.target_properties import PARTIAL
from towpath.lakehouse.tables.targets import is_path
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


KEY_ONLY = (
    "missing",
    "the message has only the row's key (TiCDC's handle-key-only or claim-check), an update of the key has not all "
    "columns, or the message has not all columns of the target's key: the rest is not in Kafka",
)
_UNKNOWN_ROW = (
    "missing",
    "the message, or a newer one of its row, has only the changed columns (binlog_row_image is not FULL), and the "
    "target lacks the row, or has the newer change",
)


_NULL_KEYS = (
    "{target}: {count} changes have NULL in the key ({keys}). In MySQL the NULLs of two rows are different, so these "
    "columns are not a key: name other ones with keys"
)


class Applier:
    """Applies the changes of one table; a function for `foreachBatch`."""

    def __init__(
        self,
        target: str,
        keys: list[str],
        dead_letters: Aside | None,
        settings: TableSettings,
        status: StatusTable,
    ) -> None:
        self._target = target
        self.writer = TargetWriter(target, settings)
        self.tombstones = Tombstones(target)
        self._keys = keys
        self._dead_letters = dead_letters
        self._origin = Origin(target=target)
        self._status = status
        self._stored_bounds = StoredBounds(target, self.tombstones.name)
        self.last: Applied | None = None

    def configure(self, keys: list[str], settings: TableSettings, origin: Origin) -> None:
        """Set the key's columns, how the target is created and maintained, and whose changes it gets."""
        self._keys, self.writer.settings, self._origin = keys, settings, origin

    def __call__(self, batch: DataFrame, batch_id: int = 0) -> None:
        """Apply a batch of decoded changes."""
        missing = [name for name in REQUIRED if name not in batch.columns]
        if missing:
            raise ValueError(f'changes lacks the columns {", ".join(missing)}: decode with layout="upsert"')
        changes = structured(batch)
        if not has_offsets(batch):
            _check_order(changes, self._target)
        spark = batch.sparkSession
        with session_settings(spark, batch_settings(spark)):
            self._apply_batch(spark, changes, batch_id)

    def _apply_batch(self, spark: SparkSession, changes: DataFrame, batch_id: int) -> None:
        self._say_removed(spark, batch_id)
        changes = changes.persist()
        try:
            keys = self._keys or _declared_keys(changes, self._target)
            with session_settings(spark, settings_for(spark, UNKNOWN_SIZE)):
                self.last = self.apply(Changes(changes), keys, Hints(), batch_id)
        finally:
            changes.unpersist()
        target = self._target if self.writer.schema(spark) is not None else None
        self._status.write(spark, [TableStatus.of(None, self._target, target, self.last)], batch_id)

    def _say_removed(self, spark: SparkSession, batch_id: int) -> None:
        """Write that somebody removed the target, if an earlier batch of the query has written it."""
        if self._status.target and schema_of(spark, self._target) is None:
            last, _ = self._status.written(spark).get(self._target, (batch_id, 0))
            if last < batch_id:
                self.forget_schemas()
                self._status.write(spark, [TableStatus(None, self._target, self._target, STALE, REMOVED)])

    def apply(self, changes: Changes, keys: list[str], hints: Hints, batch_id: int) -> Applied:
        """Apply changes."""

        def attempt() -> Applied:
            try:
                return self._apply_once(changes, keys, hints, batch_id)
            except Exception:
                self.forget_schemas()  # somebody else may have changed the tables
                raise

        return with_retries(attempt, lambda error: is_lost(error) or is_being_created(error))

    def _apply_once(self, changes: Changes, keys: list[str], hints: Hints, batch_id: int) -> Applied:
        began = time.monotonic()
        self._check_columns(changes.frame, keys)
        spark = changes.frame.sparkSession
        with ExitStack() as held:
            staging = Staging(keys, hints, held, partial(self._stored, spark, keys))
            staged = staging.stage(changes, self._bounds(spark))
            if staged.null_keys:
                raise ValueError(_NULL_KEYS.format(target=self._target, keys=", ".join(keys), count=staged.null_keys))
            if truncates := staged.applied.counts.get(TRUNCATE):
                self.writer.prepare_for(staged.changes)
                kept = self._truncate(staged.changes.filter("outcome = 'truncate'"), keys)
                staged = staging.stage(changes, None).after_truncate(truncates, kept)
            if staged.lacked:
                self._remember_partial(spark)
            written = self._write(staged, keys, hints)
            self._stored_bounds.add(spark, staged.bounds, written, staged.changes, keys)
        self._maintain(spark, batch_id)
        return replace(staged.applied, seconds=time.monotonic() - began)

    def _remember_partial(self, spark: SparkSession) -> None:
        """Let `reprocess` know that a newer change of a row may lack columns of an older one."""
        settings = self.writer.settings
        self.writer.settings = replace(settings, properties={**settings.properties, PARTIAL: "true"})
        if self.writer.schema(spark) is not None and self.writer.table.properties(spark).get(PARTIAL) != "true":
            self.writer.table.set_properties(spark, {PARTIAL: "true"})

    def _check_columns(self, changes: DataFrame, keys: list[str]) -> None:
        columns = changes.select(f"{COLUMNS}.*").columns
        missing = [name for name in keys if name.lower() not in map(str.lower, columns)]
        if missing:
            raise ValueError(f"{self._target}: the key's columns {missing} are not among the columns {columns}")
        deleted = self.writer.settings.soft_deletes
        if deleted is not None and deleted.lower() in map(str.lower, columns):
            raise ValueError(f"{self._target}: soft_deletes: the table has a column {deleted} itself")

    def _stored(self, spark: SparkSession, keys: list[str]) -> Stored:
        return self.writer.keys(spark, keys), self.tombstones.read(spark)

    def _bounds(self, spark: SparkSession) -> Bounds | None:
        if self.writer.settings.soft_deletes:  # a deleted row may be live again
            return None
        exist = self.writer.schema(spark) is not None, self.tombstones.table.schema(spark) is not None
        return self._stored_bounds.known(spark, self.writer.order(spark), exist)

    def _write(self, staged: Staged, keys: list[str], hints: Hints) -> Written:
        """Write what is applied, and what cannot be."""
        changes, counts = staged.changes, staged.applied.counts
        if counts.get(REJECTED):
            self._write_dead_letters(changes.filter("outcome = 'rejected'"), KEY_ONLY, counts[REJECTED])
        if counts.get(UNKNOWN):
            self._write_dead_letters(changes.filter("outcome = 'unknown'"), _UNKNOWN_ROW, counts[UNKNOWN])
        # If one of the two writes fails, a retry of the batch finds the same deletes again.
        writes: list[Callable[[], bool]] = []
        if counts.get(ROW) or counts.get(DELETE):
            writes.append(lambda: self.writer.write(staged, keys, hints))
        if counts.get(DELETE):
            writes.append(lambda: self.tombstones.write(changes.filter("outcome = 'delete'"), keys))
        done = in_parallel(changes.sparkSession, lambda write: write(), writes, len(writes))
        return Written(any(done[:1]), any(done[1:]), staged.written)

    def _truncate(self, truncates: DataFrame, keys: list[str]) -> int:
        """Delete the rows that are older than truncates, and write tombstones. Return how many rows stay in doubt."""
        spark = truncates.sparkSession
        schema, order = self.writer.schema(spark), self.writer.order(spark)
        if schema is None or order is None:
            return 0
        # A truncate with a tombstone counts as applied: if one of the two fails, the batch is applied again.
        kept = self.writer.truncate(truncates, order)
        self._say_unordered(spark, kept)
        self.tombstones.write_truncates(truncates, schema, keys)
        return kept

    def delete_gone(self, spark: SparkSession) -> None:
        """Delete the rows that another writer deleted, before or while changes were applied that are older."""
        tombstones = self.tombstones.read(spark)
        if self._keys and tombstones is not None and self.writer.schema(spark) is not None:
            self.writer.delete_gone(tombstones, self._keys)

    def _say_unordered(self, spark: SparkSession, rows: int) -> None:
        """Write that the target keeps rows which a truncate may have deleted."""
        name = self._origin.database, self._origin.table or self._target
        if rows:
            self._status.write(spark, [TableStatus(*name, self._target, STALE, unordered(rows))])

    def forget_schemas(self) -> None:
        """Read the schemas again, since somebody else changed the tables."""
        self.writer.forget()
        self.tombstones.table.forget()
        self._stored_bounds.forget()

    def forget_before(self, spark: SparkSession) -> datetime | None:
        """The time of before which a task forgets tombstones, if it is due."""
        return self.tombstones.forget_before(spark, self.writer.settings.forget_after)

    def prepare_tombstones(self, spark: SparkSession, columns: StructType) -> None:
        """Create the table of tombstones for a task. That of a path is created by the task that has the first one."""
        if not is_path(self._target):
            self.tombstones.prepare(spark, columns, self._keys)

    def finish(self, spark: SparkSession, rejected: pa.Table | None, files: int, batch_id: int, origin: Origin) -> None:
        """What is left to do after a task has merged changes of a table into a target, which now has so many files."""
        if rejected is not None:
            self._origin = origin  # other tables may share the target
            frame = local_frame(spark, rejected, struct_type(rejected.schema))
            self._write_dead_letters(frame, KEY_ONLY, rejected.num_rows)
        self.tombstones.was_forgotten()
        if files > 1:
            optimize_in_turn(spark, self._target, batch_id, self.writer.settings.optimize_every)
        if not is_path(self._target):  # a task compacts the tombstones of a path
            optimize_in_turn(spark, self.tombstones.name, batch_id, self.writer.settings.optimize_every)

    def _maintain(self, spark: SparkSession, batch_id: int) -> None:
        """Forget old tombstones, and optimize."""
        if batch_id % _SIZE_EVERY == 0:
            self.writer.forget_size()
        optimize_in_turn(spark, self._target, batch_id, self.writer.settings.optimize_every)
        self.tombstones.forget(spark, self.writer.settings.forget_after)

    def _write_dead_letters(self, rejected: DataFrame, default: tuple[str, str], count: int) -> None:
        problem = f"{self._target}: {count} rows cannot be applied"
        write_dead_letters(rejected, self._dead_letters, self._origin, default, problem)


_SIZE_EVERY = 20
"""After how many batches the size of a target is read again."""


def _check_order(changes: DataFrame, target: str) -> None:
    unordered = changes.filter("source.commit_ts IS NULL AND source.position IS NULL").limit(1).collect()
    if unordered:
        raise ValueError(
            f"{target}: nothing orders these changes across batches; decode with "
            'keep=["topic", "partition", "offset", "timestamp"]'
        )


def _declared_keys(changes: DataFrame, target: str) -> list[str]:
    if "primary_key" not in changes.columns:
        raise ValueError(f"{target}: keys: name the primary key's columns, or decode the field _primary_key too")
    rows = changes.filter("op <> 'truncate' AND primary_key IS NOT NULL")
    found = [row[0] for row in rows.select("primary_key").distinct().collect()]
    if len(found) == 1 and found[0]:
        return list(found[0])
    raise ValueError(f"{target}: the messages' primary keys are {found}, not one; name its columns with keys")
