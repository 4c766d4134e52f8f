"""Applies the changes of tables with Spark's statements. A table whose changes cannot be applied stops no other one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from towpath.lakehouse.following.carried_rows import converted, relabelled_rows
from towpath.lakehouse.history import append_changes
from towpath.lakehouse.merging.delta_rs import Limits
from towpath.lakehouse.merging.interruption import is_interruption
from towpath.lakehouse.merging.jobs import (
    KINDS,
    MARKING,
    REWRITING,
    SMALL,
    UNKNOWN_SIZE,
    session_settings,
    settings_for,
)
from towpath.lakehouse.merging.merge import KEY_ONLY
from towpath.lakehouse.merging.newest import Changes
from towpath.lakehouse.merging.parallel import in_parallel
from towpath.lakehouse.merging.rows import OLD, REJECTED, Applied, is_rejected
from towpath.lakehouse.merging.staging import Hints
from towpath.lakehouse.merging.table_result import TableResult
from towpath.lakehouse.order.order import Kinds
from towpath.lakehouse.reading.batch_messages import BatchMessages, Messages, Readers
from towpath.lakehouse.reading.blocks import BatchEvents, BlockReader, LearnedTables
from towpath.lakehouse.reading.changes import no_changes
from towpath.lakehouse.reading.source_tables import SourceTable
from towpath.lakehouse.reading.watermarks import Watermarks
from towpath.lakehouse.seen.aside import Aside, write_dead_letters, write_quarantine
from towpath.lakehouse.seen.status import (
    DROPPED,
    OK,
    QUARANTINED,
    REMOVED,
    RENAMED,
    STALE,
    TableStatus,
    by_table,
)
from towpath.lakehouse.statements import TruncateTable
from towpath.lakehouse.tables.formats import format_of
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.table_columns import TableColumns
from towpath.lakehouse.tables.tables import schema_of
from towpath.printable import SHOWN, printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("towpath.spark")

_MOST_ROWS, _MOST_BYTES = 20_000, 16 << 20
"""The largest changes and the largest target of a small job."""

_MOST_REASON = 10 * SHOWN
"""Characters of the text of an error, which may have many names of columns."""

_MOST_IN_BLOCKS = 256 << 20
"""The largest messages whose blocks a task reads at once: Arrow has at most 2 GiB in a column of a record batch."""


@dataclass(frozen=True)
class BySpark:
    """Applies tables with Spark's statements."""

    known: KnownTargets
    learned: LearnedTables
    dead_letters: Aside | None
    quarantine: Aside | None
    limits: Limits
    """Of the targets that tasks merge."""

    def merge(
        self,
        read: BatchEvents,
        tables: Sequence[SourceTable],
        merged: Sequence[SourceTable],
        watermarks: Watermarks | None,
        batch_id: int,
    ) -> list[TableResult]:
        """Apply tables at the same time, those with jobs of one kind after those with another one.

        Args:
            read: The events of the batch.
            tables: The tables.
            merged: The other tables of the batch, which tasks have merged.
            watermarks: Those of TiCDC, if there are any.
            batch_id: The number of the batch.
        """
        spark, parallelism = read.frame.sparkSession, self.known.options.parallelism
        batch = _Batch(read, BatchMessages(read, tables, merged), batch_id)
        if watermarks:
            batch = replace(batch, watermarks=watermarks, late=watermarks.count_late(read.frame))
        results = [TableResult(one) for one in self._of_incomplete_targets(spark, tables)]
        kinds = dict(zip(tables, in_parallel(spark, partial(self._kind, spark), tables, parallelism), strict=True))
        for kind in KINDS:
            of_kind = [one for one in tables if kinds[one] == kind]
            apply = partial(self._one_by_one, replace(batch, is_small=kind == SMALL, are_most=kind == REWRITING))
            with session_settings(spark, settings_for(spark, kind) if of_kind else {}):
                results += chain.from_iterable(in_parallel(spark, apply, self.known.by_target(of_kind), parallelism))
        return results

    def _of_incomplete_targets(self, spark: SparkSession, tables: Sequence[SourceTable]) -> list[TableStatus]:
        """The states of tables whose targets are created without all rows, which are written before that."""

        def incomplete(table: SourceTable) -> list[TableStatus]:
            try:
                target = self.known.target(table)
                reason = None if target is None else self.known.why_incomplete(spark, table, target)
            except Exception:  # it is raised again where the table is applied
                return []
            if target is None or reason is None:
                return []
            names = {table.key, *(self.known.tables_of(spark, target) if reason == REMOVED else ())}
            return [TableStatus(database or None, name, target, STALE, reason) for database, name in sorted(names)]

        parallelism = self.known.options.parallelism
        found = by_table(chain.from_iterable(in_parallel(spark, incomplete, tables, parallelism)))
        self.known.status.write(spark, found)
        return found

    def _one_by_one(self, batch: _Batch, tables: Sequence[SourceTable]) -> list[TableResult]:
        return [self._guarded(batch, one) for one in tables]

    def _kind(self, spark: SparkSession, table: SourceTable) -> str:
        """The kind of a table's jobs."""
        try:
            target = self.known.target(table)
            size = self.known.applier(target).writer.size(spark) if target else 0
        except Exception:  # it is raised again where the table is applied
            return SMALL
        if size is None:
            return UNKNOWN_SIZE
        if table.rows <= _MOST_ROWS and size <= _MOST_BYTES:
            return SMALL
        # A file that mostly consists of changed rows is rewritten sooner than they are marked, and does not pile up.
        return REWRITING if size <= table.size else MARKING

    def _guarded(self, batch: _Batch, table: SourceTable) -> TableResult:
        """Apply a table's changes, or put them aside. An error is returned, so that the other tables go on."""
        target: str | None = None
        try:
            target = self.known.target(table)
            self._append_to_histories(batch, table, target)
            if target is None:
                return TableResult(others=_renamed(table))
            if table.is_put_away and self.known.applier(target).writer.schema(batch.spark) is None:
                return TableResult()  # the rows of a table that a migration puts away are not kept
            self.known.sources.add(table.key)
            applied, moved = self._apply_table(batch, table, target)
            is_there = self.known.applier(target).writer.schema(batch.spark) is not None
            if is_there:
                self.known.written.add(target)
            late = {OLD: batch.late.get((table.database, table.name), 0)}
            applied = replace(applied, counts=Counter(applied.counts) + Counter(late))
            status = TableStatus.of(table.database, table.name, target if is_there else None, applied)
            if table.dropped and status.state == OK:
                status = replace(status, state=DROPPED, reason="the table was dropped", statement=table.dropped)
            return TableResult(status, others=moved)
        except Exception as error:  # whatever it is, it must not stop the other tables
            if self.known.options.on_table_error == "fail" or self.quarantine is None or is_interruption(error):
                return TableResult(error=error)
            reason = printable(str(error), _MOST_REASON, keep="\n\t")
            shown = printable(table.full_name, SHOWN), printable(reason)
            _log.warning("%s: quarantined in %s: %s", shown[0], self.quarantine.table, shown[1])
            try:
                origin = self.known.origin(table, target)
                events = batch.events.with_messages() if table.in_blocks else batch.events.frame
                write_quarantine(events.filter(table.condition()), self.quarantine, origin, reason)
            except Exception as second:  # then the batch has to be read again
                return TableResult(error=second)
            status = TableStatus(table.database, table.name, target, state=QUARANTINED, reason=reason)
            return TableResult(status=status)

    def _apply_table(self, batch: _Batch, table: SourceTable, target: str) -> tuple[Applied, tuple[TableStatus, ...]]:
        """Apply a table's changes. Returns also the state of other tables which lack some of them."""
        spark = batch.spark
        apply = self.known.applier(target)
        existing = apply.writer.schema(spark)
        columns = TableColumns(spark, self.known, table, target)
        if table.is_gone and not columns.are_appended:
            if existing is None:
                self._create_truncated(spark, table, target)
            return Applied({OLD: table.rows}), ()
        readers = columns.readers()
        if existing is not None and (apply.writer.size(spark) or 0) > self.limits.size:
            self._mark_rows(spark, target)
        masked = {name.lower() for name in columns.schema.names if columns.rules.masks([name])}
        with ExitStack() as held:
            changes = self._changes(batch, table, readers, columns, held)
            unconverted = tuple(converted(changes.frame, table.columns, masked))
            kept = self._doubts(spark, table, target, columns)
            if columns.are_appended:
                settings = self.known.settings(table.key, [])
                applied = append_changes(changes.frame, [], target, settings, batch.number)
                if count := applied.counts.get(REJECTED):
                    problem, rows = f"{target}: {count} rows cannot be applied", changes.frame.filter(is_rejected([]))
                    write_dead_letters(rows, self.dead_letters, self.known.origin(table, target), KEY_ONLY, problem)
                if existing is None:
                    self.known.append_emptied(spark, table.key, target)
                return replace(applied, unconverted=unconverted), kept
            keys = columns.key
            settings = self.known.settings(table.key, keys)
            columns.rules.check_key(table.full_name, keys)
            apply.configure(keys, settings, self.known.origin(table, target))
            kinds, waited = Kinds(table.has_commit, table.in_log), self.known.options.waited
            lacked = self.known.may_lack(spark, target)
            hints = Hints(kinds, is_small=batch.is_small, are_most=batch.are_most, waited=waited, lacked=lacked)
            applied = apply.apply(changes, keys, hints, batch.number)
        for part, reader in readers:
            self.learned.learn(part, reader)
        _log.info("%s: batch %d: %s in %.1f s", table.full_name, batch.number, dict(applied.counts), applied.seconds)
        return replace(applied, unconverted=unconverted), kept

    def _append_to_histories(self, batch: _Batch, table: SourceTable, target: str | None) -> None:
        """Append each change as its message has it, to the history of the table that the message names."""
        spark = batch.spark
        for part in table.parts or (table,):
            name = part.written_key
            history, of_columns = self.known.history(name), target or self.known.find(name)
            if history is None or of_columns is None:
                continue
            columns = TableColumns(spark, self.known, part, of_columns)
            if columns.are_appended:  # the target is a history itself
                continue
            reader, rules, keys = columns.as_written()
            rules.check_key(part.full_name, keys)
            is_new, settings = schema_of(spark, history) is None, self.known.settings(name, keys)
            with ExitStack() as held:
                frame = rules.masked(batch.frame(*self._messages(batch, [(part, reader)])))
                append_changes(_held(frame, held), keys, history, settings, batch.number)
            if is_new:
                self.known.append_emptied(spark, name, history)

    def _create_truncated(self, spark: SparkSession, table: SourceTable, target: str) -> None:
        """Create the target of a table whose rows a truncate deleted, if that is the last statement about it."""
        timeline = self.known.log.timeline(spark, table.key)
        if not isinstance(timeline.steps[timeline.about(table.key)[-1]][1], TruncateTable):
            return
        columns, apply = TableColumns(spark, self.known, table, target), self.known.applier(target)
        settings = self.known.settings(table.key, columns.key)
        apply.configure(columns.key, settings, self.known.origin(table, target))
        apply.writer.prepare_for(columns.rules.masked(no_changes(spark, columns.schema)))

    def _doubts(
        self, spark: SparkSession, table: SourceTable, target: str, columns: TableColumns
    ) -> tuple[TableStatus, ...]:
        """The state of a table with rows of which the log does not say what the source made of them."""
        reasons = [table.doubt] if table.doubt else []
        unknown = (one for one in columns.added if one.unknown)
        reasons += [f"the values of the column {one.name} in old rows are not known: {one.unknown}" for one in unknown]
        if not (reason := "; ".join(filter(None, [*reasons, columns.rules.why_left_out]))):
            return ()
        status = TableStatus(table.database, table.name, target, STALE, reason)
        self.known.status.write(spark, [status])
        return (status,)

    def _mark_rows(self, spark: SparkSession, target: str) -> None:
        """Let merges of a large target mark rows as deleted, instead of rewriting its files."""
        known = self.known.table(target)
        properties = known.properties(spark)
        missing = format_of(spark, target).of_new_tables.items() - properties.items()
        if missing and properties.keys().isdisjoint(name for name, _ in missing):
            known.set_properties(spark, dict(missing))

    def _messages(self, batch: _Batch, readers: Readers) -> tuple[Messages, Readers]:
        """The messages of a table with their readers, or the blocks that the same decoder has made of them."""
        table, reader = readers[0]  # a table with blocks has one part
        if self.learned.made_blocks(table, reader) and table.size <= _MOST_IN_BLOCKS:
            return batch.messages(), [(table, BlockReader(reader.schema))]
        return batch.messages(of_blocks=table.in_blocks), readers

    def _changes(
        self,
        batch: _Batch,
        table: SourceTable,
        readers: Readers,
        columns: TableColumns,
        held: ExitStack,
    ) -> Changes:
        messages, readers = self._messages(batch, readers)
        frame = batch.frame(messages, readers)
        if table.columns.types:
            frame = relabelled_rows(frame, table.columns)
        frame = columns.rules.masked(frame)
        if columns.are_appended:
            return Changes(_held(frame, held), table.tasks)
        if table.tasks == len(readers) == 1 and not (batch.watermarks or columns.are_masked or table.columns.types):
            decoded = partial(messages.newest, readers)
            return Changes(frame, table.tasks, decoded)
        return Changes(frame, table.tasks)


def _held(frame: DataFrame, held: ExitStack) -> DataFrame:
    """A frame that is needed again."""
    frame = frame.persist()
    held.callback(frame.unpersist)
    return frame


def _renamed(table: SourceTable) -> tuple[TableStatus, ...]:
    """The states of the former names of a table that has a name now which is not replicated."""
    formers = dict.fromkeys(one.former for one in table.parts or (table,) if one.former)
    reason = f"the table was renamed to {'.'.join(table.key)}"
    return tuple(TableStatus(*one, None, RENAMED, reason) for one in formers)


@dataclass(frozen=True)
class _Batch:
    """A batch of events, and what all of its tables share."""

    events: BatchEvents
    messages: BatchMessages
    number: int
    watermarks: Watermarks | None = None
    late: Mapping[tuple[str | None, str], int] = field(default_factory=dict)
    """How many changes of each table are older than a watermark before them."""
    is_small: bool = False
    """Whether one task can merge the changes of each of its tables."""
    are_most: bool = False
    """Whether each of its tables has more changes than the target has rows, as far as is known."""

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.events.frame.sparkSession

    def frame(self, messages: Messages, readers: Readers) -> DataFrame:
        """The changes of a table, but those that are older than watermarks."""
        frame = messages.changes(readers)
        return self.watermarks.without_late(frame, is_small=self.is_small) if self.watermarks else frame
