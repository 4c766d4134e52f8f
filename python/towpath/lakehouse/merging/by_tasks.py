"""Merges the changes of tables in tasks of Spark, those that may be merged so. The driver prepares their targets."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from towpath.lakehouse.merging.interruption import is_interruption
from towpath.lakehouse.merging.jobs import SMALL, session_settings, settings_for
from towpath.lakehouse.merging.owned_table import OwnedTable
from towpath.lakehouse.merging.parallel import in_parallel
from towpath.lakehouse.merging.table_result import TableResult
from towpath.lakehouse.merging.tasks import Facts, TaskMerges, TaskResult, merge_in_tasks, why_spark
from towpath.lakehouse.reading.blocks import BatchEvents, LearnedTables
from towpath.lakehouse.reading.source_tables import SourceTable, any_of
from towpath.lakehouse.seen.status import TableStatus
from towpath.lakehouse.tables.formats import DELTA, format_of
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sessions import jvm_of
from towpath.lakehouse.tables.table_columns import TableColumns
from towpath.lakehouse.tables.targets import is_path
from towpath.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_log = logging.getLogger("towpath.spark")


@dataclass(frozen=True)
class ByTasks:
    """Merges tables in tasks."""

    known: KnownTargets
    in_tasks: TaskMerges
    learned: LearnedTables
    has_dead_letters: bool

    def merge(
        self, batch: BatchEvents, tables: list[SourceTable], batch_id: int
    ) -> tuple[list[TableResult], list[SourceTable]]:
        """Merge those tables that may be merged in tasks. Returns also the others, which are left to Spark."""
        spark = batch.frame.sparkSession
        # Plans on the driver cost more than these jobs.
        with session_settings(spark, settings_for(spark, SMALL)):
            return self._merge_owned(batch, tables, batch_id)

    def _merge_owned(
        self, batch: BatchEvents, tables: list[SourceTable], batch_id: int
    ) -> tuple[list[TableResult], list[SourceTable]]:
        spark = batch.frame.sparkSession
        prepared = in_parallel(
            spark, partial(self._owned, spark), self.known.by_target(tables), self.known.options.parallelism
        )
        owned = [(one, ready) for of_target in prepared for one, ready in of_target if ready]
        if not owned:
            return [], tables
        others = [one for one in tables if one not in [table for table, _ in owned]]
        events, in_tasks = self._decoded(batch, owned)
        of_tasks = events.filter(~any_of(others)) if others else events
        try:
            found = merge_in_tasks(of_tasks, in_tasks)
        except Exception as error:  # one table may have ended the workers: it must not stop the others
            if is_interruption(error):
                raise
            for table, _ in owned:
                self.in_tasks.refuse(
                    self.known.target(table) or "", f"the job of all tasks failed: {error}", is_lasting=False
                )
            return [], tables
        results = []
        for number, (table, ready) in enumerate(owned):
            target, result = self.known.target(table) or "", found.get(number)
            if result is None or result.refused:
                others.append(table)
            if result is not None and result.refused:
                self.in_tasks.refuse(target, result.refused, is_lasting=result.is_lasting)
            elif result is not None:
                self.known.was_merged(target, result.properties)
                results.append(self._finished(spark, table, target, result, batch_id))
                for reader in ready.readers.values():
                    self.learned.learn(table, reader)
        return results, others

    def _finished(
        self, spark: SparkSession, table: SourceTable, target: str, result: TaskResult, batch_id: int
    ) -> TableResult:
        applied = result.applied
        try:
            origin = self.known.origin(table, target)
            self.known.applier(target).finish(spark, result.rejected, result.files, batch_id, origin)
        except Exception as error:  # the task has merged the changes: only this is left undone
            return TableResult(error=error)
        _log.info("%s: batch %d: %s in %.1f s", table.full_name, batch_id, dict(applied.counts), applied.seconds)
        return TableResult(TableStatus.of(table.database, table.name, target, applied))

    def _owned(self, spark: SparkSession, tables: Sequence[SourceTable]) -> list[tuple[SourceTable, OwnedTable | None]]:
        """The tables of a target for tasks, after it was created or made to fit. None for one that is left to Spark."""
        found: list[tuple[SourceTable, OwnedTable | None]] = []
        for table in tables:
            try:
                found.append((table, self._prepared(spark, table)))
            except Exception as error:  # Spark's way raises it again, if it is the table's fault
                _log.info("%s: left to Spark: %s", table.full_name, printable(str(error)))
        return found

    def _prepared(self, spark: SparkSession, table: SourceTable) -> OwnedTable | None:
        target = self.known.target(table)
        if target is None or not self.in_tasks.may(spark, target):
            return None
        apply = self.known.applier(target)
        is_new = apply.writer.schema(spark) is None
        if is_new and self.known.why_incomplete(spark, table, target):  # Spark's way says so
            return None
        columns = TableColumns(spark, self.known, table, target)
        if columns.rules.left_out or why_spark(self._facts(spark, table, target, columns)):
            return None
        timeline = self.known.log.timeline(spark, table.key)
        schema, keys = columns.schema, columns.key
        # Rows from before a statement may have columns that the target must not get.
        may_be_older = bool(timeline.about(table.key)) and not table.slices
        if not keys or (may_be_older and columns.new):
            return None
        columns.rules.check_key(table.full_name, keys)
        self.known.sources.add(table.key)
        apply.configure(keys, self.known.settings(table.key, keys), self.known.origin(table, target))
        order = apply.writer.prepare(spark, schema)
        if elsewhere := self.in_tasks.why_elsewhere(spark, target):
            self.in_tasks.refuse(target, elsewhere)
            return None
        return OwnedTable(
            {part: reader for one, reader in columns.readers() for part in one.events},
            tuple(keys),
            self.in_tasks.location(spark, target),
            self._tombstones(spark, target, schema),
            order,
            self.in_tasks.limits,
            apply.forget_before(spark),
            self.has_dead_letters,
            storage=self.in_tasks.storage,
            id=self.in_tasks.id(spark, target),
            after=[one.fields for one in timeline.places(table.key)] if not table.slices else (),
            added=() if table.slices else tuple(timeline.columns(table.key, len(timeline.steps)).with_values()),
        )

    def _tombstones(self, spark: SparkSession, target: str, schema: StructType) -> str:
        """Where the tombstones of a target are."""
        apply = self.known.applier(target)
        apply.prepare_tombstones(spark, schema)
        return self.in_tasks.location_of(spark, target, "tombstones")

    def _facts(self, spark: SparkSession, table: SourceTable, target: str, columns: TableColumns) -> Facts:
        return Facts(
            is_delta=format_of(spark, target) is DELTA,
            rows=table.rows,
            size=table.size,
            keeps_history=self.known.options.keyless == "append"
            or any(self.known.history(one.written_key) for one in table.parts or (table,)),
            lacked=self.known.may_lack(spark, target),
            soft_deletes=self.known.options.soft_deletes is not None,
            masks=columns.are_masked,
            elsewhere=self._why_elsewhere(spark, target),
        )

    def _why_elsewhere(self, spark: SparkSession, target: str) -> str | None:
        """Where the table of a name is, and any table on Connect, is known when it exists."""
        is_known = is_path(target) and jvm_of(spark) is not None
        return self.in_tasks.why_elsewhere(spark, target) if is_known else None

    def _decoded(
        self, batch: BatchEvents, owned: Sequence[tuple[SourceTable, OwnedTable]]
    ) -> tuple[DataFrame, list[OwnedTable]]:
        """The events for tasks, and what the tasks decode: blocks, unless a table has other columns by now."""
        in_blocks = [(table, reader) for table, one in owned if table.in_blocks for reader in one.readers.values()]
        if not all(self.learned.made_blocks(table, reader) for table, reader in in_blocks):
            return batch.with_messages(), [one for _, one in owned]
        return batch.frame, [replace(one, in_blocks=table.in_blocks) for table, one in owned]
