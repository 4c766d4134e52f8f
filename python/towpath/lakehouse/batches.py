"""Applies a batch of events to all of its tables: the changes, and the statements between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial, reduce
from operator import or_
from typing import TYPE_CHECKING

from towpath.lakehouse.aside import Aside, Origin, write_dead_letters
from towpath.lakehouse.blocks import BatchEvents, KnownTables, LearnedTables, are_insufficient
from towpath.lakehouse.by_spark import BySpark
from towpath.lakehouse.by_tasks import ByTasks
from towpath.lakehouse.changes import PLACE
from towpath.lakehouse.declarations import KnownDeclarations
from towpath.lakehouse.events import DDL, DEAD, WATERMARK
from towpath.lakehouse.follow import Follower
from towpath.lakehouse.followed_targets import FollowedHistories, FollowedTargets
from towpath.lakehouse.jobs import batch_settings, session_settings
from towpath.lakehouse.known_targets import KnownTargets
from towpath.lakehouse.ordered_statements import (
    Statement,
    read_ddl,
    sliced,
    with_other_cases,
    with_others,
    without_databases,
)
from towpath.lakehouse.own_table import LogTable, StatusTable
from towpath.lakehouse.pending import Pending
from towpath.lakehouse.protection import RuleState
from towpath.lakehouse.replicate_options import ReplicateOptions
from towpath.lakehouse.source_tables import SourceTable, any_of, source_tables, summary
from towpath.lakehouse.statements import DropDatabase
from towpath.lakehouse.status import NO_BATCH, TableStatus, Unsound, by_table
from towpath.lakehouse.steps import plan
from towpath.lakehouse.table_result import TableResult
from towpath.lakehouse.tables import schema_of
from towpath.lakehouse.target_properties import stored_source
from towpath.lakehouse.targets import Targets
from towpath.lakehouse.tasks import TaskMerges
from towpath.lakehouse.watermarks import Watermarks, write_watermarks

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession


class Replicator:
    """Applies the events of a topic; a function for `foreachBatch`."""

    def __init__(
        self,
        targets: Targets,
        options: ReplicateOptions,
        dead_letters: Aside | None,
        quarantine: Aside | None,
        *,
        pending: Pending | None = None,
        in_tasks: TaskMerges | None = None,
        remembered: Mapping[tuple[str, str], RuleState] | None = None,
    ) -> None:
        """Know nothing of earlier batches.

        Args:
            targets: The target of each source table.
            options: The arguments.
            dead_letters: The table for what cannot be read or applied.
            quarantine: The table for messages of tables whose changes cannot be applied.
            pending: What statements did to tables that have no target yet.
            in_tasks: Which tables may be merged in tasks.
            remembered: What is remembered for the rules of tables that have no target yet.
        """
        self.options = options
        self._targets, self._dead_letters = targets, dead_letters
        self._pending = pending or Pending()
        self._declarations, self._learned = KnownDeclarations(), LearnedTables()
        self._known = KnownTargets(targets, options, dead_letters, self._pending, remembered or {})
        in_tasks = in_tasks or TaskMerges()
        self._status = StatusTable(options.status, in_tasks) if options.status else None
        self._ddl = LogTable(options.ddl, (*PLACE, "row", "event_time", "sql"), in_tasks) if options.ddl else None
        self._by_tasks = ByTasks(self._known, in_tasks, self._learned, dead_letters is not None)
        self._by_spark = BySpark(self._known, self._learned, dead_letters, quarantine, in_tasks.limits)

    def __call__(self, batch: DataFrame, batch_id: int = 0) -> None:
        """Apply a batch of events."""
        self.apply(batch.sparkSession, lambda _: batch, batch_id)

    def apply(self, spark: SparkSession, read: Callable[[KnownTables], DataFrame], batch_id: int) -> None:
        """Apply a batch of events.

        Args:
            spark: The session.
            read: Reads the events, those of known tables as blocks. A second call reads the same batch.
            batch_id: The number of the batch.
        """
        self._targets.stored = partial(stored_source, spark)
        self._known.begin(batch_id)
        try:
            with ExitStack() as held, session_settings(spark, batch_settings(spark)):
                self._apply(BatchEvents(read, self._tables_in_blocks(), held), batch_id)
        finally:
            self._declarations.forget()

    def delete_gone(self, spark: SparkSession) -> None:
        """Delete rows that a query deleted while older changes of them were applied here: it did not find them yet."""
        for target in sorted(self._known.written):
            applier = self._known.applier(target)
            applier.forget_schemas()
            applier.delete_gone(spark)

    def _tables_in_blocks(self) -> KnownTables:
        """The tables whose messages are decoded as soon as they are read."""
        if self.options.watermarks:  # which rule out single messages
            return {}
        return self._learned.with_declarations(self._declarations.found.keys())

    def _apply(self, batch: BatchEvents, batch_id: int) -> None:
        found = summary(batch.frame)
        if are_insufficient(found):
            batch = BatchEvents.of(batch.with_messages())
            found = summary(batch.frame)
        events = batch.frame
        self._declarations.learn(events, found)
        unread = self._write_dead_letters(events, found)
        self._write_ddl(events, found)
        results = self._apply_in_order(batch, found, batch_id)
        said = self._known.list_shards(events.sparkSession)
        self._pending.write(events.sparkSession)
        said += [status for result in results for status in result.statuses]
        if self._status:
            self._status.write(events.sparkSession, said, batch_id)
        if self.options.report:
            self.options.report(by_table([*said, *unread]))
        errors = [result.error for result in results if result.error]
        if errors:
            raise errors[0]
        if self.options.watermarks and any(row["kind"] == WATERMARK for row in found):
            write_watermarks(events.filter(f"kind = '{WATERMARK}'"), self.options.watermarks)

    def _apply_in_order(self, batch: BatchEvents, found: list[Row], batch_id: int) -> list[TableResult]:
        """Apply all tables. Those that statements change get what is older than a statement, then the statement."""
        events, tables = batch.frame, source_tables(found, self._declarations.found)
        self._known.meet(tables)
        joined = [TableResult(one) for one in self._known.admit(events.sparkSession)]
        statements = read_ddl(events) if any(row["kind"] == DDL for row in found) else []
        statements = self._with_tables(events.sparkSession, statements, [one.key for one in tables])
        changed = {name for one in statements for name in one.tables}
        unchanged = [one for one in tables if one.key not in changed]
        results = joined + self._side_by_side(batch, unchanged, batch_id)
        if not statements:
            return results
        affected = [one for one in tables if one.key in changed]
        divided = batch.with_messages() if any(one.in_blocks for one in affected) else events
        rest = sliced(divided.filter(any_of(affected)), statements, {one.key for one in affected})
        found = summary(rest, "slice")
        unsound = Unsound(events.sparkSession, self.options.status, partial(self._write_ahead, events.sparkSession))
        followers = self._followers(events.sparkSession, unsound)
        # Tables may have the same target, and a copy has the rules of its original.
        one_by_one = self._targets.may_share or bool(self.options.columns)
        for step in plan(statements, one_by_one=one_by_one):
            applied = self._apply_slices(rest, found, step.slices, batch_id)
            results += applied
            # A statement must not come before what is applied again.
            if any(one.error for one in applied):
                break
            unsound.add(status for one in applied for status in one.statuses)
            said = [status for one in followers for status in one.follow(step.statements)]
            unsound.add(said)
            results += map(TableResult, said)
        return results

    def _with_tables(
        self, spark: SparkSession, statements: list[Statement], tables: Iterable[tuple[str, str]]
    ) -> list[Statement]:
        """The statements that do something, with the tables of a database that is dropped."""
        known = cache(partial(self._known.of_tables, spark))  # a statement may name hundreds of tables
        named = cache(lambda: {*tables, *known()})
        statements = [with_others(one, named) for one in statements]
        if any(isinstance(action, DropDatabase) for one in statements for action in one.actions):
            statements = [without_databases(one, named()) for one in statements]
        of_other_case = partial(self._known.of_other_case, spark, known)
        return [with_other_cases(statement, of_other_case) for statement in statements if statement.actions]

    def _apply_slices(
        self,
        events: DataFrame,
        found: list[Row],
        slices: Mapping[tuple[str, str], int],
        batch_id: int,
    ) -> list[TableResult]:
        """Apply the events of tables that are between two statements."""
        rows = [row for row in found if slices.get((row["database"] or "", row["table"])) == row["slice"]]
        tables = source_tables(rows, self._declarations.found)
        of_slices = [one.condition() & (events["slice"] == slices[one.key]) for one in tables]
        if not tables:
            return []
        return self._side_by_side(BatchEvents.of(events.filter(reduce(or_, of_slices))), tables, batch_id)

    def _side_by_side(self, batch: BatchEvents, tables: list[SourceTable], batch_id: int) -> list[TableResult]:
        """Apply tables: in tasks those that may be merged so, all others with Spark's statements."""
        if not tables:
            return []
        former, watermarks = self._learned.take(tables), self._watermarks(batch.frame.sparkSession, tables)
        results = [] if watermarks else self._by_tasks.merge(batch, tables, former, batch_id)
        done = {result.key for result in results}
        merged = [one for one in tables if one.key in done]
        left = [one for one in tables if one.key not in done]
        return results + (self._by_spark.merge(batch, left, merged, former, watermarks, batch_id) if left else [])

    def _watermarks(self, spark: SparkSession, tables: Iterable[SourceTable]) -> Watermarks | None:
        """What is known of TiCDC's watermarks, if it concerns one of the tables."""
        name = self.options.watermarks
        if not name or not any(one.has_commit for one in tables):
            return None
        return Watermarks(spark, name) if schema_of(spark, name) is not None else None

    def _followers(self, spark: SparkSession, unsound: Unsound) -> list[Follower]:
        """For the targets, and for their histories."""
        follower = partial(
            Follower,
            spark,
            follows=self.options.ddl_policy == "follow",
            protection=self._known.protection(spark),
            unsound=unsound,
        )
        of_targets = follower(
            FollowedTargets(spark, self._known),
            pending=self._pending,
            keys=self.options.keys,
            quarantine=self._by_spark.quarantine,
        )
        if not self.options.history:
            return [of_targets]
        return [of_targets, follower(FollowedHistories(spark, self._known), renames=False)]

    def _write_dead_letters(self, events: DataFrame, found: Iterable[Row]) -> list[TableStatus]:
        """Write the messages that cannot be read. Return their count under an empty table name."""
        count = sum(row["messages"] for row in found if row["kind"] == DEAD)
        if not count:
            return []
        rejected = events.filter(f"kind = '{DEAD}'").withColumnsRenamed({"value": "message", "key": "message_key"})
        default = ("envelope", "the message names no table")
        origin = Origin(dialect=self.options.dialect)
        write_dead_letters(rejected, self._dead_letters, origin, default, f"{count} messages cannot be read")
        return [TableStatus(None, "", None, dead_letters=count)]

    def _write_ahead(self, spark: SparkSession, found: Sequence[TableStatus]) -> None:
        if self._status:
            self._status.write(spark, found, NO_BATCH)

    def _write_ddl(self, events: DataFrame, found: Iterable[Row]) -> None:
        if self._ddl and any(row["kind"] == DDL or row["truncates"] for row in found):
            statements = events.filter(f"kind = '{DDL}' OR op = 'truncate'").select(*_statement())
            self._ddl.append(events.sparkSession, statements)


def _statement() -> list[Column]:
    from pyspark.sql import functions as f

    names = [*PLACE, "row", "database", "table", "event_time", "sql", "table_changes"]
    return [*map(f.col, names), f.col("source.operation").alias("operation")]
