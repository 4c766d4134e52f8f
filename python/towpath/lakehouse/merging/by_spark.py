"""Applies the changes of tables with Spark's statements. The failure of one table does not stop other tables."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from towpath.lakehouse.following.carried_rows import converted, relabelled_rows
from towpath.lakehouse.history import append_changes
from towpath.lakehouse.log.timeline import Name
from towpath.lakehouse.merging.by_tasks import finished, may_get_old_columns, prepared
from towpath.lakehouse.merging.delta_rs import LIMITS
from towpath.lakehouse.merging.jobs import (
    KINDS,
    MARKING,
    REWRITING,
    SMALL,
    UNKNOWN_SIZE,
    in_parallel,
    session_settings,
    settings_for,
)
from towpath.lakehouse.merging.merge import KEY_ONLY
from towpath.lakehouse.merging.owned_table import RESULT, apply_changes
from towpath.lakehouse.merging.retries import is_interruption, may_pass, with_retries
from towpath.lakehouse.merging.rows import OLD, REJECTED, Applied, is_rejected
from towpath.lakehouse.merging.staging import Changes
from towpath.lakehouse.order.order import Kinds
from towpath.lakehouse.reading.batch_messages import BatchMessages, Messages, Readers, fits_in_driver
from towpath.lakehouse.reading.blocks import BatchEvents, BlockReader, LearnedTables
from towpath.lakehouse.reading.changes import COLUMNS, no_changes
from towpath.lakehouse.reading.source_tables import SourceTable
from towpath.lakehouse.reading.watermarks import Watermarks
from towpath.lakehouse.seen.aside import Aside, write_quarantine
from towpath.lakehouse.seen.status import (
    DROPPED,
    OK,
    QUARANTINED,
    REMOVED,
    RENAMED,
    STALE,
    TableResult,
    TableStatus,
)
from towpath.lakehouse.statements import TruncateTable
from towpath.lakehouse.tables.formats import format_of
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import Sql
from towpath.lakehouse.tables.table_columns import TableColumns
from towpath.lakehouse.tables.tables import exists, schema_of
from towpath.printable import SHOWN, printable
from towpath.spark.requirements import has_arrow
from towpath.spark.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("towpath.spark")

_MOST_BYTES = 16 << 20
"""Largest target of a small job."""

_MOST_REASON = 10 * SHOWN
"""Maximum length of an error text in characters. A text may contain many names of columns."""

_MOST_IN_BLOCKS = 256 << 20
"""Maximum bytes of messages whose blocks a task reads at once: a column of an Arrow batch holds at most 2 GiB."""

_UNCONVERTED = (
    "rows that predate a type change of the columns {columns} were read after the statement: the source may have "
    "changed their values without a message"
)


@dataclass(frozen=True)
class BySpark:
    """Merge of a batch's tables with Spark's statements."""

    known: KnownTargets
    learned: LearnedTables
    events: BatchEvents
    messages: BatchMessages
    batch_id: int
    watermarks: Watermarks | None
    """TiCDC's watermarks, if there are any."""
    late: Mapping[tuple[str | None, str], int]
    """Number of changes of each table that are older than an earlier watermark."""
    jobs: str = SMALL
    """Kind of the tables' jobs."""

    @property
    def _spark(self) -> SparkSession:
        return self.events.frame.sparkSession

    def merge(self, tables: Sequence[SourceTable]) -> list[TableResult]:
        """Apply tables."""
        found = in_parallel(self._spark, self._kind, tables, self.known.options.parallelism)
        return self._by_kind(dict(zip(tables, found, strict=True)), BySpark._once)

    def append_to_histories(self, tables: Sequence[SourceTable]) -> list[TableResult]:
        """Append the changes of tables that tasks have merged. Return the results of tables for which this failed."""
        kinds = {one: SMALL if fits_in_driver(one.rows, one.size) else REWRITING for one in tables}
        return self._by_kind(kinds, BySpark._append_to_histories)

    def _by_kind(self, kinds: Mapping[SourceTable, str], step: Step) -> list[TableResult]:
        """Take a step for tables in parallel, grouped by the kind of their jobs."""
        spark, parallelism, results = self._spark, self.known.options.parallelism, list[TableResult]()
        for kind in KINDS:
            of_kind = [one for one in kinds if kinds[one] == kind]
            apply = partial(replace(self, jobs=kind)._one_by_one, step)
            with session_settings(spark, settings_for(spark, kind) if of_kind else {}):
                results += chain.from_iterable(in_parallel(spark, apply, self.known.by_target(of_kind), parallelism))
        return results

    def _kind(self, table: SourceTable) -> str:
        """Return the kind of a table's jobs."""
        try:
            target = self.known.target(table)
            size = self.known.applier(target).writer.size(self._spark) if target else 0
        except Exception:  # the error is raised again when the table is applied
            return SMALL
        if size is None:
            return UNKNOWN_SIZE
        if fits_in_driver(table.rows, table.size) and size <= _MOST_BYTES:
            return SMALL
        # Rewriting a file that mostly consists of changed rows is faster than marking them, and no marks pile up.
        return REWRITING if size <= table.size else MARKING

    def _one_by_one(self, step: Step, tables: Sequence[SourceTable]) -> list[TableResult]:
        return [result for one in tables for result in self._guarded(step, one)]

    def _guarded(self, step: Step, table: SourceTable) -> Sequence[TableResult]:
        """Take a step for a table, or quarantine it. Return an error instead of raising it, so other tables go on."""
        target: str | None = None
        try:
            target = self.known.target(table)
            # A worker or a store can fail briefly. Without a retry the table would wait for `reprocess`.
            return with_retries(partial(step, self, table, target), may_pass, attempts=2)
        except Exception as error:  # no error may stop the other tables
            if self.known.options.on_table_error == "fail" or self.known.quarantine is None or is_interruption(error):
                return [error]
            try:
                return [self._quarantined(table, target, self.known.quarantine, error)]
            except Exception as second:  # the batch has to be read again
                return [second]

    def _once(self, table: SourceTable, target: str | None) -> Sequence[TableResult]:
        doubts = self._written(table.candidates, table.doubt) if table.doubt else []
        said = [*doubts, *self._append_to_histories(table, target)]
        return [*said, *(_renamed(table) if target is None else self._applied(table, target))]

    def _quarantined(self, table: SourceTable, target: str | None, quarantine: Aside, error: Exception) -> TableStatus:
        reason = printable(str(error), _MOST_REASON, keep="\n\t")
        shown = printable(table.full_name, SHOWN), printable(reason)
        _log.warning("%s: quarantined in %s: %s", shown[0], quarantine.table, shown[1])
        events = self.events.with_messages() if table.in_blocks else self.events.frame
        events, origin = events.filter(table.condition()), self.known.origin(table, target)
        write_quarantine(events, quarantine, origin, reason, are_few=fits_in_driver(table.messages, table.size))
        return TableStatus(table.database, table.name, target, state=QUARANTINED, reason=reason)

    def _applied(self, table: SourceTable, target: str) -> list[TableStatus]:
        """Apply a table's changes. Return its state, and the states that were written ahead."""
        writer, said = self.known.applier(target).writer, self._incomplete(table, target)
        self.known.sources.add(table.key)
        applied, doubts = self._apply(table, target)
        is_there = writer.table.schema(self._spark) is not None
        if is_there:
            self.known.written.add(target)
        late = {OLD: self.late.get((table.database, table.name), 0)}
        applied = replace(applied, counts=Counter(applied.counts) + Counter(late))
        status = TableStatus.of(table.database, table.name, target if is_there else None, applied)
        if table.dropped and status.state == OK:
            status = replace(status, state=DROPPED, reason="the table was dropped", statement=table.dropped)
        return [*said, status, *doubts]

    def _incomplete(self, table: SourceTable, target: str) -> list[TableStatus]:
        """Write and return the states of tables whose new target will lack rows."""
        if exists(self._spark, target) or not self.known.is_removed(self._spark, target):
            return []
        return self._written({table.key, *self.known.tables_of(self._spark, target)}, REMOVED)

    def _written(self, names: Collection[Name], reason: str) -> list[TableStatus]:
        """Write ahead that tables do not equal their sources."""
        targets = ((*name, self.known.find(name)) for name in sorted(names))
        found = [TableStatus(database or None, table, one, STALE, reason) for database, table, one in targets if one]
        self.known.status.write(self._spark, found)
        return found

    def _apply(self, table: SourceTable, target: str) -> tuple[Applied, list[TableStatus]]:
        """Apply a table's changes. Return also its states if they are in doubt."""
        spark, apply = self._spark, self.known.applier(target)
        existing = apply.writer.table.schema(spark)
        columns = TableColumns(spark, self.known, table, target)
        if table.is_gone and not columns.are_appended:
            if existing is None:
                self._create_truncated(table, target)
            return Applied({OLD: table.rows}), []
        readers = columns.readers()
        if existing is not None and (apply.writer.size(spark) or 0) > LIMITS.bytes:
            self._mark_rows(target)
        changes = self._changes(table, columns, readers)
        if columns.are_appended:
            with ExitStack() as held:
                frame = _held(changes.frame, held)
                doubts = self._doubts(frame, table, target, columns)
                applied = self._appended(frame, table.key, [], target)
                if count := applied.counts.get(REJECTED):
                    rejected = frame.filter(is_rejected([]))
                    apply, are_few = self.known.configured(table, target, []), self.jobs == SMALL
                    apply.write_dead_letters(rejected, KEY_ONLY, count, are_few=are_few)
            return applied, doubts
        doubts, keys = self._doubts(changes.frame, table, target, columns), columns.key
        columns.rules.check_key(table.full_name, keys)
        apply = self.known.configured(table, target, keys)
        may_lack = Sql("op <> 'delete'" if self.known.may_lack(spark, target) else "partial AND inherits")
        waits = may_lack if self.known.options.waited else None
        changes = replace(changes, keys=keys, waits=waits)
        applied = self._in_driver(table, target, columns, changes) or apply.apply(changes, self.batch_id)
        for part, reader in readers:
            self.learned.learn(part, reader)
        _log.info("%s: batch %d: %s in %.1f s", table.full_name, self.batch_id, dict(applied.counts), applied.seconds)
        return applied, doubts

    def _in_driver(self, table: SourceTable, target: str, columns: TableColumns, changes: Changes) -> Applied | None:
        """Merge a few changes with delta-rs, as a task does. Return None if Spark has to merge them."""
        from pyspark.sql import Row

        spark, known, is_there = self._spark, self.known, columns.existing is not None
        if not changes.is_small or known.may_lack(spark, target):
            return None
        if may_get_old_columns(spark, known, table, columns):
            return None
        if not has_arrow(type(changes.frame)) or not known.in_tasks.may_in_driver(spark, target, exists=is_there):
            return None
        rows = changes.frame.toArrow().cast(arrow_schema(changes.frame.schema))
        schema = changes.frame.select(f"{COLUMNS}.*").schema
        if (owned := prepared(spark, known, target, schema, changes.keys)) is None:
            return None
        began = time.monotonic()
        values = known.in_tasks.merged_in_driver(target, lambda: apply_changes(owned, rows))
        if values is None:
            return None
        values = {**dict.fromkeys(RESULT.names), **values, "seconds": time.monotonic() - began}
        values["properties"] = values["properties"] and dict(values["properties"])
        result = Row(**values)
        return finished(spark, known, table, target, result, self.batch_id)

    def _append_to_histories(self, table: SourceTable, target: str | None) -> Sequence[TableResult]:
        """Append each change as its message has it, to the history of the table that the message names."""
        for part in table.parts or (table,):
            name = part.written_key
            history, of_columns = self.known.history(name), target or self.known.find(name)
            if history is None or of_columns is None:
                continue
            columns = TableColumns(self._spark, self.known, part, of_columns)
            if columns.are_appended:  # the target is a history itself
                continue
            reader, rules, keys = columns.as_written()
            rules.check_key(part.full_name, keys)
            with ExitStack() as held:
                frame = rules.masked(self._frame(*self._read(part, [(part, reader)])))
                self._appended(frame if self.jobs == SMALL else _held(frame, held), name, keys, history)
        return []

    def _appended(self, changes: DataFrame, name: Name, keys: list[str], history: str) -> Applied:
        """Append changes to a history. A new history also gets earlier statements that emptied its table."""
        in_tasks = self.known.in_tasks if self.jobs == SMALL else None
        is_new = schema_of(self._spark, history, in_tasks) is None
        applied = append_changes(changes, keys, history, self.known.settings(name, keys), self.batch_id, in_tasks)
        if is_new:
            self.known.append_emptied(self._spark, name, history)
        return applied

    def _create_truncated(self, table: SourceTable, target: str) -> None:
        """Create the target of a table whose rows a truncate deleted, if this is the last statement about it."""
        timeline = self.known.log.timeline(self._spark, table.key)
        if not isinstance(timeline.steps[timeline.about(table.key)[-1]][1], TruncateTable):
            return
        columns = TableColumns(self._spark, self.known, table, target)
        apply = self.known.configured(table, target, columns.key)
        apply.writer.prepare_for(columns.rules.masked(no_changes(self._spark, columns.schema)))

    def _doubts(self, changes: DataFrame, table: SourceTable, target: str, columns: TableColumns) -> list[TableStatus]:
        """Return the states of a table if the log does not determine the fate of some rows."""
        unknown = (one for one in columns.added if one.unknown)
        reasons = [f"the values of the column {one.name} in older rows are unknown: {one.unknown}" for one in unknown]
        masked = {name.lower() for name in columns.schema.names if columns.rules.masks([name])}
        if of_other_types := converted(changes, table.columns, masked):
            reasons.append(_UNCONVERTED.format(columns=", ".join(of_other_types)))
        reason = "; ".join(filter(None, [*reasons, columns.rules.why_left_out]))
        return self._written([table.key], reason) if reason else []

    def _mark_rows(self, target: str) -> None:
        """Let merges of a large target mark rows as deleted instead of rewriting files."""
        known = self.known.table(target)
        properties = known.properties(self._spark)
        missing = dict(format_of(self._spark, target).of_new_tables.items() - properties.items())
        if missing and missing.keys().isdisjoint(properties):  # the user has set none of them
            known.set_properties(self._spark, missing)

    def _changes(self, table: SourceTable, columns: TableColumns, readers: Readers) -> Changes:
        messages, readers = self._read(table, readers)
        frame = self._frame(messages, readers)
        if table.columns.types:
            frame = relabelled_rows(frame, table.columns)
        is_decoded = not (self.watermarks or columns.are_masked or columns.are_appended or table.columns.types)
        decoded = partial(messages.newest, readers) if is_decoded and table.tasks == len(readers) == 1 else None
        kinds = Kinds(table.has_commit, table.in_log)
        return Changes(columns.rules.masked(frame), [], kinds, self.jobs, table.tasks, decoded)

    def _frame(self, messages: Messages, readers: Readers) -> DataFrame:
        """Return the changes of a table without those older than watermarks."""
        frame = messages.changes(readers)
        return self.watermarks.without_late(frame, is_small=self.jobs == SMALL) if self.watermarks else frame

    def _read(self, table: SourceTable, readers: Readers) -> tuple[Messages, Readers]:
        """Return the messages of a table with their readers, or the blocks that the same decoder made from them."""
        part, reader = readers[0]  # a table with blocks has one part
        if self.learned.made_blocks(part, reader) and part.size <= _MOST_IN_BLOCKS:
            return self.messages(), [(part, BlockReader(reader))]
        return self.messages(of_blocks=table.in_blocks), readers


Step = Callable[[BySpark, SourceTable, "str | None"], Sequence[TableResult]]
"""Function that applies or appends the changes of a table. The text is its target, if it has one."""


def _held(frame: DataFrame, held: ExitStack) -> DataFrame:
    """Hold a frame that is used again."""
    frame = frame.persist()
    held.callback(frame.unpersist)
    return frame


def _renamed(table: SourceTable) -> list[TableStatus]:
    """Return the states of the former names of a table whose current name is not replicated."""
    formers = dict.fromkeys(one.former for one in table.parts or (table,) if one.former)
    reason = f"the table was renamed to {'.'.join(table.key)}"
    return [TableStatus(*one, None, RENAMED, reason) for one in formers]
