"""Applies a batch of events to all of its tables: changes, and the statements between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING

from towpath.lakehouse.following.follow import Follower
from towpath.lakehouse.log.ordered_statements import Statement, completed, read_ddl
from towpath.lakehouse.log.routed_tables import routed
from towpath.lakehouse.log.statement_log import Appended
from towpath.lakehouse.merging.by_spark import BySpark
from towpath.lakehouse.merging.by_tasks import ByTasks
from towpath.lakehouse.merging.jobs import batch_settings, in_parallel, session_settings
from towpath.lakehouse.reading.batch_messages import BatchMessages, fits_in_driver
from towpath.lakehouse.reading.blocks import BatchEvents, KnownTables, LearnedTables, NewTables
from towpath.lakehouse.reading.declarations import KnownDeclarations, declared_columns
from towpath.lakehouse.reading.divided_events import divided
from towpath.lakehouse.reading.events import DDL, DEAD, WATERMARK
from towpath.lakehouse.reading.source_tables import SourceTable, any_of, source_tables, summary
from towpath.lakehouse.reading.watermarks import Watermarks, write_watermarks
from towpath.lakehouse.rules.rule_names import rule_of
from towpath.lakehouse.seen.aside import Origin, write_dead_letters
from towpath.lakehouse.seen.status import TableResult, TableStatus, by_table
from towpath.lakehouse.statements import CreateTable, TruncateTable
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.own_table import LogTable
from towpath.lakehouse.tables.sql import column
from towpath.lakehouse.tables.tables import schema_of
from towpath.places import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


_LATE = "the statement was read after a later statement on the table: older rows may lack its changes"


class Replicator:
    """Function for `foreachBatch` that applies the events of a topic."""

    def __init__(self, known: KnownTargets) -> None:
        """Start without state of earlier batches."""
        self.options, in_tasks = known.options, known.in_tasks
        self._known, self._log = known, known.log
        self._declarations, self._learned = KnownDeclarations(), LearnedTables(self._new_tables())
        ddl = self.options.ddl
        self._ddl = LogTable(ddl, (*PLACE, "row", "event_time", "sql"), in_tasks) if ddl else None
        self._by_tasks = ByTasks(known, self._learned)

    def __call__(self, batch: DataFrame, batch_id: int = 0) -> None:
        """Apply a batch of events."""
        self.apply(batch.sparkSession, lambda _: batch, batch_id)

    def apply(self, spark: SparkSession, read: Callable[[KnownTables], DataFrame], batch_id: int) -> None:
        """Apply a batch of events.

        Args:
            spark: The session.
            read: Reads the events; events of known tables as blocks. A second call reads the same batch.
            batch_id: The number of the batch.
        """
        self._known.begin(spark, batch_id)
        try:
            with ExitStack() as held, session_settings(spark, batch_settings(spark)):
                self._apply(BatchEvents(read, self._tables_in_blocks(), held), batch_id)
        finally:
            self._declarations.forget()

    def follow(self, spark: SparkSession, statements: Sequence[Statement]) -> None:
        """Follow statements without a batch: a query followed them in the former table before it was replaced."""
        said = self._follow(spark, *self._log.append(spark, statements))
        if self.options.report:
            self.options.report(by_table(said))

    def delete_gone(self, spark: SparkSession) -> None:
        """Delete rows whose older changes were applied here after the query applied the delete without finding them."""
        for statement in self._log.read_new(spark):
            for action in statement.actions:
                for name in statement.tables_of(action) if isinstance(action, TruncateTable | CreateTable) else ():
                    target = self._known.of_names(*name)
                    if target is not None and target in self._known.written:
                        self._known.truncate(spark, target, name, statement.place)
        for target in sorted(self._known.written):
            applier = self._known.applier(target)
            applier.forget_schemas()
            applier.delete_gone(spark)

    def _tables_in_blocks(self) -> KnownTables:
        """Return the tables whose messages are decoded as soon as they are read."""
        if self.options.watermarks:  # watermarks skip single messages
            return KnownTables()
        return self._learned.with_declarations(self._declarations.found.keys())

    def _new_tables(self) -> NewTables | None:
        """Return the maker of decoders for new tables; None if a target may have the columns of other tables."""
        given = self.options
        if self._known.may_share or given.waited:
            return None
        named = dict.fromkeys(chain(given.columns, given.schemas, given.keys, given.table_options), True)
        return NewTables(given.dialect, given.decoder, partial(rule_of, named))

    def _apply(self, batch: BatchEvents, batch_id: int) -> None:
        found = summary(batch.frame)
        events = batch.frame
        self._declarations.learn(events, found)
        unread = self._write_dead_letters(events, found)
        self._write_ddl(events, found)
        results = self._apply_in_order(batch, found, batch_id)
        said = [one for one in results if isinstance(one, TableStatus)]
        self._known.status.write(events.sparkSession, said, batch_id)
        if self.options.report:
            self.options.report(by_table([*said, *unread]))
        errors = [one for one in results if isinstance(one, Exception)]
        if errors:
            raise errors[0]
        if self.options.watermarks and any(row["kind"] == WATERMARK for row in found):
            write_watermarks(events.filter(f"kind = '{WATERMARK}'"), self.options.watermarks)

    def _apply_in_order(self, batch: BatchEvents, found: list[Row], batch_id: int) -> list[TableResult]:
        """Follow the statements, then apply the rows. All later statements also change each row."""
        spark, tables = batch.frame.sparkSession, source_tables(found, self._declarations.found)
        self._learned.begin(tables)
        statements = read_ddl(batch.frame) if any(row["kind"] == DDL for row in found) else []
        statements = self._with_tables(spark, statements, [one.key for one in tables])
        statements, late = self._log.append(spark, statements) if statements else Appended([], [])
        if not self._known.follows:
            return self._apply_rows(batch, tables, batch_id) + self._follow(spark, statements, [])
        results = self._follow(spark, statements, late)
        changed = {name for one in statements for name in one.tables}
        sure = [one for one in tables if one.key not in changed]
        unsure = [one for one in tables if one.key in changed]
        return results + self._apply_rows(batch, sure, batch_id, unsure)

    def _apply_rows(
        self, batch: BatchEvents, tables: list[SourceTable], batch_id: int, changed: Sequence[SourceTable] = ()
    ) -> list[TableResult]:
        """Apply the rows of tables. `changed` are the tables that a statement of the batch changes."""
        follows = self._known.follows
        results, left = self._in_tasks(batch, tables, batch_id)
        unsure = [one for one in left if follows and one.key in self._log.names(batch.frame.sparkSession)]
        results += self._alone(batch, [one for one in left if one not in unsure], tables, batch_id)
        return results + self._route(batch, [*changed, *unsure], batch_id)

    def _follow(
        self, spark: SparkSession, statements: Sequence[Statement], late: Sequence[Statement]
    ) -> list[TableStatus]:
        """Apply statements to the rows of targets."""
        if not statements:
            return []
        said = [status for one in late for status in self._late(one)]
        self._known.status.write(spark, said)
        for one in statements:
            for name in one.tables:
                if history := self._known.history(name):
                    self._known.append_emptied(spark, name, history, one)
        follower = Follower(spark, self._known)
        groups, parallelism = self._independent(spark, statements), self.options.parallelism
        said += chain.from_iterable(in_parallel(spark, follower.follow, groups, parallelism))
        self._log.add_followed(spark, [one.identity for one in statements])
        return said

    def _independent(self, spark: SparkSession, statements: Sequence[Statement]) -> list[list[Statement]]:
        """Group the statements by the targets that they change. Groups share no target, and keep the order."""
        abouts = [self._about(spark, one) for one in statements]
        groups: dict[object, list[int]] = {}
        for at, about in enumerate(abouts):
            group = sorted({at}.union(*(groups.get(one, ()) for one in about)))
            groups |= dict.fromkeys(chain.from_iterable(abouts[one] for one in group), group)
        return [[statements[at] for at in group] for group in {id(one): one for one in groups.values()}.values()]

    def _about(self, spark: SparkSession, statement: Statement) -> set[object]:
        """Return the tables of a statement, the tables that exchanged names with them, and their targets."""
        found: set[object] = {self._log.timeline(spark, name) for name in statement.tables}
        if self._known.may_share:
            found.update(map(self._known.find, statement.tables))
        return found - {None} or {statement.identity}

    def _late(self, statement: Statement) -> list[TableStatus]:
        """Return stale states for the tables of a statement that came after a later one was followed."""
        targets = ((name, self._known.find(name)) for name in sorted(statement.tables))
        return [TableStatus.stale(name, target, _LATE, statement.text) for name, target in targets if target]

    def _route(self, batch: BatchEvents, tables: list[SourceTable], batch_id: int) -> list[TableResult]:
        """Apply rows that may be older than statements about their tables."""
        if not tables:
            return []
        spark = batch.frame.sparkSession
        events = batch.with_messages() if any(one.in_blocks for one in tables) else batch.frame
        timelines = {one.key: self._log.timeline(spark, one.key) for one in tables}
        places = {name: one.places(name) for name, one in timelines.items()}
        parts = batch.held(divided(events.filter(any_of(tables)), places, self.options.dialect, **self.options.decoder))
        self._declarations.learn(parts, counts := summary(parts, "slice"))
        found = routed(counts, self._declarations.found, timelines, self._declared)
        carried = [one for one in found if one.is_carried]
        results = self._alone(batch.of(parts), [one for one in found if not one.is_carried], [], batch_id)
        if not carried:
            return results
        batch = batch.of(parts.filter(any_of(carried)))
        merged, left = self._in_tasks(batch, carried, batch_id)
        return results + merged + self._alone(batch, left, carried, batch_id)

    def _declared(self, table: SourceTable) -> set[str] | None:
        """Return the columns that the messages of a table declare, in lower case."""
        options = {**self.options.decoder, **table.filter_options()}
        found = declared_columns(table.declarations, self.options.dialect, options)
        return None if found is None else {name.lower() for name in found.names}

    def _with_tables(
        self, spark: SparkSession, statements: list[Statement], tables: Iterable[tuple[str, str]]
    ) -> list[Statement]:
        """Return statements that have an effect, with the known tables that they change without naming them."""
        known = cache(partial(self._known.of_tables, spark))  # a statement may name hundreds of tables
        named = cache(lambda: {*tables, *known()})
        found = (completed(one, named, partial(self._known.of_other_case, spark, known)) for one in statements)
        return [one for one in found if one.actions]

    def _in_tasks(
        self, batch: BatchEvents, tables: list[SourceTable], batch_id: int
    ) -> tuple[list[TableResult], list[SourceTable]]:
        """Apply the tables that tasks can merge. Return the results and the other tables."""
        if not tables or self._watermarks(batch.frame.sparkSession, tables):
            return [], tables
        results, left = self._by_tasks.merge(batch, tables, batch_id)
        merged = [one for one in tables if one not in left and self._has_history(one)]
        if merged:
            results += self._by_spark(batch, merged, tables, batch_id).append_to_histories(merged)
        return results, left

    def _has_history(self, table: SourceTable) -> bool:
        """Return whether the table, or an earlier name of it in the messages, has a history."""
        return any(self._known.history(one.written_key) for one in table.parts or (table,))

    def _alone(
        self, batch: BatchEvents, tables: list[SourceTable], among: list[SourceTable], batch_id: int
    ) -> list[TableResult]:
        """Apply tables with Spark's statements. `among` are the tables in the same frame."""
        return self._by_spark(batch, tables, among, batch_id).merge(tables) if tables else []

    def _by_spark(
        self, batch: BatchEvents, tables: list[SourceTable], among: list[SourceTable], batch_id: int
    ) -> BySpark:
        watermarks = self._watermarks(batch.frame.sparkSession, tables)
        late = watermarks.count_late(batch.frame) if watermarks else {}
        messages = BatchMessages(batch, tables, [one for one in among if one not in tables])
        return BySpark(self._known, self._learned, batch, messages, batch_id, watermarks, late)

    def _watermarks(self, spark: SparkSession, tables: Iterable[SourceTable]) -> Watermarks | None:
        """Return TiCDC's watermarks if they concern one of the tables."""
        name = self.options.watermarks
        if not name or not any(one.has_commit for one in tables):
            return None
        return Watermarks(spark, name) if schema_of(spark, name) is not None else None

    def _write_dead_letters(self, events: DataFrame, found: Iterable[Row]) -> list[TableStatus]:
        """Write the messages that cannot be read. Return their count under an empty table name."""
        count, size = (sum(row[name] for row in found if row["kind"] == DEAD) for name in ("messages", "size"))
        if not count:
            return []
        rejected = events.filter(f"kind = '{DEAD}'").withColumnsRenamed({"value": "message", "key": "message_key"})
        default = ("envelope", "the message has no table name")
        origin = Origin(dialect=self.options.dialect)
        problem, are_few = f"{count} messages cannot be read", fits_in_driver(count, size)
        write_dead_letters(rejected, self._known.dead_letters, origin, default, problem, are_few=are_few)
        return [TableStatus(None, "", None, dead_letters=count)]

    def _write_ddl(self, events: DataFrame, found: Iterable[Row]) -> None:
        if self._ddl and any(row["kind"] == DDL for row in found):
            names = [*PLACE, "row", "database", "table", "event_time", "sql", "table_changes"]
            columns = (*map(column, names), "source.operation AS operation")
            self._ddl.append(events.sparkSession, events.filter(f"kind = '{DDL}'").selectExpr(*columns))
