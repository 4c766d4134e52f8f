"""Merges tables in tasks of Spark, as far as tasks may merge them. The driver prepares the targets."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from towpath.lakehouse.merging.jobs import SMALL, in_parallel, session_settings, settings_for
from towpath.lakehouse.merging.owned_table import OwnedTable
from towpath.lakehouse.merging.retries import is_interruption
from towpath.lakehouse.merging.rows import DELETE, OLD, REJECTED, ROW, Applied
from towpath.lakehouse.merging.tasks import merge_in_tasks
from towpath.lakehouse.reading.blocks import BatchEvents, BlockReader, LearnedTables
from towpath.lakehouse.reading.source_tables import SourceTable, any_of
from towpath.lakehouse.seen.status import TableResult, TableStatus
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.table_columns import TableColumns
from towpath.lakehouse.tables.targets import companion, is_path
from towpath.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

_log = logging.getLogger("towpath.spark")

_MOST_ROWS, _MOST_BYTES = 1_000_000, 256 << 20
"""Largest changes of a table in a batch that a task holds."""


@dataclass(frozen=True)
class ByTasks:
    """Merge of tables in tasks."""

    known: KnownTargets
    learned: LearnedTables

    def merge(
        self, batch: BatchEvents, tables: list[SourceTable], batch_id: int
    ) -> tuple[list[TableResult], list[SourceTable]]:
        """Merge the tables that tasks may merge. Return the results, and the other tables for Spark."""
        spark, groups = batch.frame.sparkSession, self.known.by_target(tables)
        # Planning these jobs on the driver costs more than running them.
        with session_settings(spark, settings_for(spark, SMALL)):
            prepared = in_parallel(spark, partial(self._owned, spark), groups, self.known.options.parallelism)
            owned = dict(chain.from_iterable(prepared))
            merged = self._merged(batch, owned, [one for one in tables if one not in owned]) if owned else {}
            results = [self._finished(spark, table, result, batch_id) for table, result in merged.items()]
        for table in merged:
            for reader in owned[table].readers.values():
                self.learned.learn(table, reader)
        return results, [one for one in tables if one not in merged]

    def _merged(
        self, batch: BatchEvents, owned: Mapping[SourceTable, OwnedTable], others: Sequence[SourceTable]
    ) -> dict[SourceTable, Row]:
        """Return the results of the merged tables."""
        events, in_tasks = self._decoded(batch, owned)
        try:
            found = merge_in_tasks(events.filter(~any_of(others)) if others else events, in_tasks)
        except Exception as error:  # one table may have killed the workers: it must not stop the others
            if is_interruption(error):
                raise
            for table in owned:
                self._refuse(table, f"the Spark job of the merge tasks failed: {error}", is_lasting=False)
            return {}
        for table, result in found.items():
            if result.refused:
                self._refuse(table, result.refused, is_lasting=result.is_lasting)
        return {table: result for table, result in found.items() if not result.refused}

    def _refuse(self, table: SourceTable, reason: str, *, is_lasting: bool) -> None:
        self.known.in_tasks.refuse(self.known.target(table) or "", reason, is_lasting=is_lasting)

    def _finished(self, spark: SparkSession, table: SourceTable, result: Row, batch_id: int) -> TableResult:
        target = self.known.target(table) or ""
        try:
            applied = finished(spark, self.known, table, target, result, batch_id)
        except Exception as error:  # the task has merged the changes: only this step failed
            return error
        return TableStatus.of(table.database, table.name, target, applied)

    def _owned(self, spark: SparkSession, tables: Sequence[SourceTable]) -> list[tuple[SourceTable, OwnedTable]]:
        """Return the tables that tasks may merge. Create their target, or alter it to fit."""
        found: list[tuple[SourceTable, OwnedTable]] = []
        for table in tables:
            try:
                if one := self._prepared(spark, table):
                    found.append((table, one))
            except Exception as error:  # Spark's way raises it again if the table causes it
                _log.info("%s: left to Spark: %s", table.full_name, printable(str(error)))
        return found

    def _prepared(self, spark: SparkSession, table: SourceTable) -> OwnedTable | None:
        if (target := self.known.target(table)) is None:
            return None
        apply, in_tasks = self.known.applier(target), self.known.in_tasks
        is_new = apply.writer.table.schema(spark) is None
        if not in_tasks.may(spark, target, exists=not is_new):
            return None
        if is_new and self.known.is_removed(spark, target):  # Spark's way writes the reason
            return None
        columns = TableColumns(spark, self.known, table, target)
        if needs_spark(spark, self.known, table, target, columns):
            return None
        keys = columns.key
        if not keys or may_get_old_columns(spark, self.known, table, columns):
            return None
        columns.rules.check_key(table.full_name, keys)
        self.known.sources.add(table.key)
        self.known.configured(table, target, keys)
        if (owned := prepared(spark, self.known, target, columns.schema, keys)) is None:
            return None
        places = () if table.slices else self.known.log.timeline(spark, table.key).places(table.key)
        readers = {part: reader for one, reader in columns.readers() for part in one.events}
        return replace(owned, readers=readers, after=[one.fields for one in places])

    def _decoded(
        self, batch: BatchEvents, owned: Mapping[SourceTable, OwnedTable]
    ) -> tuple[DataFrame, Mapping[SourceTable, OwnedTable]]:
        """Return the events for tasks, and their tables: blocks, unless the columns of a table have changed."""
        in_blocks = {table: one for table, one in owned.items() if table.in_blocks}
        readers = [(table, reader) for table, one in in_blocks.items() for reader in one.readers.values()]
        if not all(self.learned.made_blocks(table, reader) for table, reader in readers):
            return batch.with_messages(), owned
        return batch.frame, {**owned, **{table: _of_blocks(one) for table, one in in_blocks.items()}}


def _of_blocks(table: OwnedTable) -> OwnedTable:
    return replace(table, readers={part: BlockReader(reader) for part, reader in table.readers.items()})


def prepared(
    spark: SparkSession, known: KnownTargets, target: str, columns: StructType, keys: list[str]
) -> OwnedTable | None:
    """Create a target, or alter it to fit the columns. Return None if delta-rs may not write it."""
    apply, in_tasks = known.applier(target), known.in_tasks
    apply.check_columns(columns.names, keys)
    order = apply.writer.prepare(spark, columns)
    if not in_tasks.may(spark, target):
        return None
    if is_path(target):  # delta-rs creates the tombstones
        tombstones = companion(in_tasks.location(spark, target), "tombstones")
    else:
        apply.tombstones.prepare(spark, columns, keys)
        tombstones = in_tasks.location(spark, apply.tombstones.table.name)
    return OwnedTable(
        {},
        tuple(keys),
        in_tasks.location(spark, target),
        tombstones,
        order,
        apply.tombstones.forget_before(spark, apply.writer.settings.forget_after),
        known.dead_letters is not None,
        storage=in_tasks.storage,
        id=in_tasks.id(spark, target),
        optimize_every=apply.writer.settings.optimize_every,
        soft_deletes=apply.writer.settings.soft_deletes,
    )


def finished(
    spark: SparkSession, known: KnownTargets, table: SourceTable, target: str, result: Row, batch_id: int
) -> Applied:
    """Finish a merge by delta-rs, whose result has the columns of `RESULT`."""
    counts = {name: result[name] for name in (ROW, DELETE, OLD, REJECTED) if result[name]}
    if result.properties is not None:  # there were changes
        known.was_merged(target, result.properties)
    known.applier(target).finish(spark, result, batch_id, known.origin(table, target))
    _log.info("%s: batch %d: %s in %.1f s", table.full_name, batch_id, counts, result.seconds)
    return Applied(counts, result.event_time, result.place, seconds=result.seconds)


def may_get_old_columns(spark: SparkSession, known: KnownTargets, table: SourceTable, columns: TableColumns) -> bool:
    """Return whether the target may get new columns of rows that are older than a statement, which dropped them."""
    return bool(columns.new) and not table.slices and bool(known.log.timeline(spark, table.key).about(table.key))


def needs_spark(
    spark: SparkSession, known: KnownTargets, table: SourceTable, target: str, columns: TableColumns
) -> bool:
    """Return whether only Spark can apply the changes of a table to its target."""
    return (
        table.rows > _MOST_ROWS
        or table.size > _MOST_BYTES
        or known.options.keyless == "append"
        or known.may_lack(spark, target)
        or bool(columns.rules.left_out)
        or columns.are_masked
    )
