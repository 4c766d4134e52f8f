"""Applies a batch of events to all of its tables. A table whose changes cannot be applied stops no other one."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeVar

from towpath.lakehouse.additions import Addition, additions_property, read_additions, with_additions
from towpath.lakehouse.aside import Aside, Origin, write_dead_letters, write_quarantine
from towpath.lakehouse.batch_messages import BatchMessages, Messages
from towpath.lakehouse.blocks import BatchEvents, BlockReader, KnownTable, KnownTables, are_insufficient
from towpath.lakehouse.changes import PLACE, ChangeDecoder
from towpath.lakehouse.column_rules import ColumnRules
from towpath.lakehouse.declarations import Declaration, declared_columns, declared_key
from towpath.lakehouse.events import DDL, DEAD, WATERMARK
from towpath.lakehouse.follow import (
    KEY,
    MODIFIED,
    RENAMED,
    SOURCE,
    Follower,
    gone_at,
    modifications,
    moved_to,
    stored_source,
)
from towpath.lakehouse.formats import DELTA, format_of
from towpath.lakehouse.history import append_changes, append_keyless, append_truncate
from towpath.lakehouse.interruption import is_interruption
from towpath.lakehouse.jobs import (
    FEW_ROWS,
    KINDS,
    MARKING,
    REWRITING,
    SMALL,
    UNKNOWN_SIZE,
    batch_settings,
    session_settings,
    settings_for,
)
from towpath.lakehouse.merge import Applier, Hints
from towpath.lakehouse.newest import Changes
from towpath.lakehouse.order import Kinds, is_after, with_order
from towpath.lakehouse.ordered_statements import Place, Statement, places_of, read_ddl, sliced, without_databases
from towpath.lakehouse.owned_table import OwnedTable
from towpath.lakehouse.parallel import in_parallel
from towpath.lakehouse.pending import Pending
from towpath.lakehouse.protection import RULES, Protection, RuleState, rule_of
from towpath.lakehouse.replicate_options import ReplicateOptions, columns_of
from towpath.lakehouse.rows import OLD, Applied
from towpath.lakehouse.source_tables import SourceTable, any_of, source_tables, summary
from towpath.lakehouse.sql import Sql, comma_separated, expressions, sql
from towpath.lakehouse.statements import DropDatabase
from towpath.lakehouse.status import (
    QUARANTINED,
    STALE,
    TableStatus,
    Unsound,
    by_table,
    read_tables,
    write_status,
)
from towpath.lakehouse.tables import (
    TableSettings,
    append_once,
    exists,
    order_column,
    schema_of,
    set_properties,
    table_properties,
    widened,
)
from towpath.lakehouse.targets import Targets, companion, is_path, source_name
from towpath.lakehouse.tasks import Facts, TaskMerges, TaskResult, merge_in_tasks, why_spark
from towpath.lakehouse.watermarks import Watermarks, write_watermarks
from towpath.printable import SHOWN, printable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import StructField, StructType


_log = logging.getLogger("towpath.spark")

_MOST_ROWS, _MOST_BYTES = 20_000, 16 << 20
"""The largest changes and the largest target of a small job."""

_Rule = TypeVar("_Rule")
_FormerlyKnown = Mapping[tuple[str | None, str], KnownTable | None]
"""The tables of a batch that were known before it, by database and name."""

_GONE = "somebody removed the target while its query ran: it has only the rows since then; rebuild it with rebuild"

_MOST_REASON = 10 * SHOWN
"""Characters of the text of an error, which may have many names of columns."""

_WORTH_KNOWING = 1_000
"""How many messages of a table in a batch are worth a decoder for it in each task that reads envelopes."""

_MOST_IN_BLOCKS = 256 << 20
"""The largest messages whose blocks a task reads at once: Arrow has at most 2 GiB in a column of a record batch."""

_MOST_DECLARED = 8 << 20
"""How many bytes of messages with declarations are kept from batch to batch."""


@dataclass(frozen=True)
class Replicator:
    """Applies the events of a topic; a function for `foreachBatch`."""

    targets: Targets
    options: ReplicateOptions
    dead_letters: Aside | None
    quarantine: Aside | None
    pending: Pending = field(default_factory=Pending)
    """What statements did to tables that have no target yet."""
    in_tasks: TaskMerges = field(default_factory=TaskMerges)
    appliers: dict[str, Applier] = field(default_factory=dict)
    """By target: they know the targets of earlier batches."""
    properties: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The properties of each target."""
    sources: set[tuple[str, str]] = field(default_factory=set)
    """The tables that this process has applied."""
    written: set[str] = field(default_factory=set)
    """The targets that this process has written."""
    remembered: dict[tuple[str, str], RuleState] = field(default_factory=dict)
    """What is remembered for the rules of tables that have no target yet."""
    declarations: dict[int, Declaration] = field(default_factory=dict)
    """By hash: what the messages of this and of earlier batches declare, the one that was needed last at the end."""
    known: dict[tuple[str | None, str], KnownTable] = field(default_factory=dict)
    """The tables of the last batches that had many messages."""

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
        self.targets.stored = partial(stored_source, spark)
        try:
            with ExitStack() as held, session_settings(spark, batch_settings(spark)):
                self._apply(BatchEvents(read, self._known(), held), batch_id)
        finally:
            self._forget_declarations()

    def _known(self) -> KnownTables:
        """The tables whose messages are decoded as soon as they are read."""
        if self.options.watermarks:  # which rule out single messages
            return {}
        learned = self.declarations.keys()  # the others have been forgotten
        return {name: replace(one, declared=one.declared & learned) for name, one in self.known.items()}

    def _apply(self, batch: BatchEvents, batch_id: int) -> None:
        found = summary(batch.frame)
        if are_insufficient(found):
            batch = BatchEvents.of(batch.with_messages())
            found = summary(batch.frame)
        events = batch.frame
        self._learn_declarations(events, found)
        self._write_dead_letters(events, found)
        self._write_ddl(events, found)
        results = self._apply_in_order(batch, found, batch_id)
        self.pending.write(events.sparkSession)
        said = [status for result in results for status in result.statuses]
        if self.options.status:
            write_status(events.sparkSession, self.options.status, said, batch_id)
        if self.options.report:
            self.options.report(by_table(said))
        errors = [result.error for result in results if result.error]
        if errors:
            raise errors[0]
        if self.options.watermarks and any(row["kind"] == WATERMARK for row in found):
            write_watermarks(events.filter(f"kind = '{WATERMARK}'"), self.options.watermarks)

    def _apply_in_order(self, batch: BatchEvents, found: list[Row], batch_id: int) -> list[_Result]:
        """Apply all tables. Those that statements change get what is older than a statement, then the statement."""
        events, tables = batch.frame, source_tables(found, self.declarations)
        statements = read_ddl(events) if any(row["kind"] == DDL for row in found) else []
        statements = self._with_tables(events.sparkSession, statements, [one.key for one in tables])
        changed = {name for one in statements for name in one.tables}
        results = self._side_by_side(batch, [one for one in tables if one.key not in changed], batch_id)
        if not statements:
            return results
        affected = [one for one in tables if one.key in changed]
        divided = batch.with_messages() if any(one.in_blocks for one in affected) else events
        rest = sliced(divided.filter(any_of(affected)), statements, {one.key for one in affected})
        found = summary(rest, "slice")
        unsound = Unsound(events.sparkSession, self.options.status)
        followers = self._followers(events.sparkSession, unsound)
        followed = dict.fromkeys(changed, 0)
        for statement in statements:
            reached = {name: followed[name] for name in statement.tables}
            applied = self._apply_slices(rest, found, reached, batch_id)
            if any(one.error for one in applied):  # the statement must not come before what is applied again
                return [*results, *applied]
            unsound.add(status for one in applied for status in one.statuses)
            said = [status for one in followers for status in one.follow(statement)]
            unsound.add(said)
            results += [*applied, *map(_Result, said)]
            followed.update({name: number + 1 for name, number in reached.items()})
        return results + self._apply_slices(rest, found, followed, batch_id)

    def _with_tables(
        self, spark: SparkSession, statements: list[Statement], tables: Iterable[tuple[str, str]]
    ) -> list[Statement]:
        """The statements that do something, with the tables of a database that is dropped."""
        if any(isinstance(action, DropDatabase) for one in statements for action in one.actions):
            known = {*tables, *self.sources, *(read_tables(spark, self.options.status) if self.options.status else ())}
            statements = [without_databases(one, known) for one in statements]
        return [statement for statement in statements if statement.actions]

    def _learn_declarations(self, events: DataFrame, found: Iterable[Row]) -> None:
        """Read the declarations that earlier batches did not have."""
        from pyspark.sql import functions as f

        needed = {row["declared"] for row in found if row["declared"] is not None}
        new = needed - self.declarations.keys()
        for known in needed - new:  # the last one is the one that was needed last
            self.declarations[known] = self.declarations.pop(known)
        if not new:
            return
        declared = events.filter(f.col("declaration").isNotNull() & f.col("declared").isin(list(new)))
        with session_settings(events.sparkSession, FEW_ROWS):
            examples = declared.groupBy("declared").agg(
                f.first("declaration").alias("declaration"), f.first(f.struct("key", "value")).alias("example")
            )
            self.declarations.update({row["declared"]: Declaration.of(row) for row in examples.collect()})

    def _forget_declarations(self) -> None:
        """Keep those that were needed last, of some bytes. A batch that needs another one has a message with it."""
        held = 0
        for declared, one in reversed(list(self.declarations.items())):
            held += one.size
            if held > _MOST_DECLARED:
                del self.declarations[declared]

    def _apply_slices(
        self,
        events: DataFrame,
        found: list[Row],
        slices: Mapping[tuple[str, str], int],
        batch_id: int,
    ) -> list[_Result]:
        """Apply the events of tables that are between two statements."""
        rows = [row for row in found if slices.get((row["database"] or "", row["table"])) == row["slice"]]
        tables = source_tables(rows, self.declarations)
        of_slices = [one.condition() & (events["slice"] == slices[one.key]) for one in tables]
        if not tables:
            return []
        return self._side_by_side(BatchEvents.of(events.filter(reduce(or_, of_slices))), tables, batch_id)

    def _followers(self, spark: SparkSession, unsound: Unsound) -> list[Follower]:
        """For the targets, and for their histories."""

        def changed(target: str) -> None:
            self._applier(target).forget_schemas()
            self.properties.pop(target, None)

        def truncate(target: str, place: Place) -> int:
            keys = self._stored_key(spark, target)
            if keys == []:
                return append_truncate(spark, target, place)
            order = spark.range(1).select(expressions(spark)(place.literal()).alias("order"))
            return self._applier(target).truncate(order, keys or [])

        def history_of(database: str, table: str) -> str | None:
            target = self.targets(database, table)
            return self._history(f"{database}.{table}", target) if target else None

        follows = self.options.ddl_policy == "follow"
        protection = self._protection(spark)
        of_targets = Follower(spark, self.targets, truncate, changed, follows, protection, unsound, self.pending)
        if not self.options.history:
            return [of_targets]
        append = partial(append_truncate, spark)
        return [
            of_targets,
            Follower(spark, history_of, append, lambda _: None, follows, protection, unsound, renames=False),
        ]

    def _protection(self, spark: SparkSession) -> Protection:
        def columns_of(target: str) -> list[str] | None:
            schema = self._applier(target).schema(spark)
            return schema.names if schema is not None else None

        def properties(target: str) -> Mapping[str, str] | None:
            return self._properties(spark, target) if columns_of(target) is not None else None

        def write(target: str, values: Mapping[str, str]) -> None:
            set_properties(spark, target, values)
            self.properties.pop(target, None)

        def tables() -> set[tuple[str, str]]:
            return {*self.sources, *(read_tables(spark, self.options.status) if self.options.status else ())}

        own = frozenset({self.options.soft_deletes.lower()} if self.options.soft_deletes else ())
        return Protection(
            self.options.columns, self.targets, properties, write, self.remembered, columns_of, tables, own
        )

    def _rules(self, spark: SparkSession, table: SourceTable) -> ColumnRules:
        return self._protection(spark).rules(table.database, table.name)

    def _history(self, full_name: str, target: str) -> str | None:
        """The history of a target."""
        is_kept = self.options.history if isinstance(self.options.history, bool) else full_name in self.options.history
        return companion(target, "history") if is_kept else None

    def _applier(self, target: str) -> Applier:
        return self.appliers.setdefault(target, Applier(target, [], self.dead_letters, self.options.settings))

    def _side_by_side(self, read: BatchEvents, tables: list[SourceTable], batch_id: int) -> list[_Result]:
        """Apply tables at the same time, those with jobs of one kind after those with another one."""
        if not tables:
            return []
        spark = read.frame.sparkSession
        watermarks = self._known_watermarks(spark) if any(one.has_commit for one in tables) else None
        known = {one.name_key: self.known.pop(one.name_key, None) for one in tables}
        results = [] if watermarks else self._merge_in_tasks(read, tables, known, batch_id)
        done = {result.key for result in results}
        merged = [one for one in tables if one.key in done]
        tables = [one for one in tables if one.key not in done]
        if not tables:
            return results
        batch = _Batch(read, BatchMessages(read, tables, merged), known, batch_id)
        if watermarks:
            batch = replace(batch, watermarks=watermarks, late=watermarks.count_late(read.frame))
        found = in_parallel(spark, partial(self._kind, spark), tables, self.options.parallelism)
        kinds = dict(zip(tables, found, strict=True))
        for kind in KINDS:
            of_kind = [one for one in tables if kinds[one] == kind]
            apply = partial(self._guarded, replace(batch, is_small=kind == SMALL, are_most=kind == REWRITING))
            with session_settings(spark, settings_for(spark, kind) if of_kind else {}):
                results += in_parallel(spark, apply, of_kind, self.options.parallelism)
        return results

    def _merge_in_tasks(
        self, batch: BatchEvents, tables: list[SourceTable], known: _FormerlyKnown, batch_id: int
    ) -> list[_Result]:
        """Merge those tables that may be merged in tasks. What a task refuses, or cannot do, is left to Spark."""
        spark = batch.frame.sparkSession
        # Plans on the driver cost more than these jobs.
        with session_settings(spark, settings_for(spark, SMALL)):
            return self._merge_owned(batch, tables, known, batch_id)

    def _merge_owned(
        self, batch: BatchEvents, tables: list[SourceTable], known: _FormerlyKnown, batch_id: int
    ) -> list[_Result]:
        spark = batch.frame.sparkSession
        prepared = in_parallel(spark, partial(self._owned, spark), tables, self.options.parallelism)
        owned = {one.name_key: (one, ready) for one, ready in zip(tables, prepared, strict=True) if ready}
        if not owned:
            return []
        others = [one for one in tables if one.name_key not in owned]
        events, in_tasks = _decoded(batch, owned, known)
        of_tasks = events.filter(~any_of(others)) if others else events
        found = merge_in_tasks(of_tasks, in_tasks)
        results = []
        for name, result in found.items():
            table, _ = owned[name]
            target = self.targets(table.database, table.name, table.topic) or ""
            if result.refused:
                self.in_tasks.refuse(target, result.refused, is_lasting=result.is_lasting)
            else:
                self.written.add(target)
                self.properties.setdefault(target, result.properties)
                results.append(self._finished(spark, table, target, result, batch_id))
                self._know(table, owned[name][1].decoder, known)
        return results

    def _know(self, table: SourceTable, decoder: ChangeDecoder, known: _FormerlyKnown) -> None:
        """Decode the next messages of a table with their envelopes, if there are many."""
        if table.messages >= _WORTH_KNOWING:
            former = known.get(table.name_key)
            self.known[table.name_key] = KnownTable(decoder, table.declared).after(former)

    def _finished(
        self, spark: SparkSession, table: SourceTable, target: str, result: TaskResult, batch_id: int
    ) -> _Result:
        applied = result.applied
        try:
            self._applier(target).finish(spark, result.rejected, result.files, batch_id)
        except Exception as error:  # the task has merged the changes: only this is left undone
            return _Result(error=error, key=table.key)
        _log.info("%s: batch %d: %s in %.1f s", table.full_name, batch_id, dict(applied.counts), applied.seconds)
        return _Result(TableStatus.of(table.database, table.name, target, applied), key=table.key)

    def _owned(self, spark: SparkSession, table: SourceTable) -> OwnedTable | None:
        """The table for a task, after its target was created or made to fit. None if it is left to Spark."""
        try:
            return self._prepared(spark, table)
        except Exception as error:  # Spark's way raises it again, if it is the table's fault
            _log.info("%s: left to Spark: %s", table.full_name, printable(str(error)))
            return None

    def _prepared(self, spark: SparkSession, table: SourceTable) -> OwnedTable | None:
        target = self.targets(table.database, table.name, table.topic)
        if target is None or not self.in_tasks.may(spark, target):
            return None
        apply, existing = self._applier(target), self._applier(target).schema(spark)
        additions = self._additions(spark, table, target, existing)
        if why_spark(self._facts(spark, table, target, additions=existing is None and bool(additions))):
            return None
        self._protection(spark).check_renamed(table.database, table.name)
        schema = self._schema(spark, existing, table, target, additions)
        keys = self._key(spark, table, target if existing else None)
        if not keys or self._unconverted(spark, table, target, existing, schema):
            return None
        self._rules(spark, table).check_key(table.full_name, keys)
        self.sources.add(table.key)
        apply.configure(keys, self._settings(table, keys), self._origin(table, target))
        if existing is None:
            self._remember_emptied(spark, table, apply, schema, keys)
        order = apply.prepare(spark, schema)
        if elsewhere := self.in_tasks.why_elsewhere(spark, target):
            self.in_tasks.refuse(target, elsewhere)
            return None
        return OwnedTable(
            self._decoder(table, schema),
            tuple(keys),
            self.in_tasks.location(spark, target),
            self.in_tasks.location(spark, apply.prepare_tombstones(spark, schema)),
            order,
            self.in_tasks.limits,
            apply.forget_before(spark),
            self.dead_letters is not None,
            tuple(one.name.lower() for one in additions),
            storage=self.in_tasks.storage,
        )

    def _facts(self, spark: SparkSession, table: SourceTable, target: str, *, additions: bool) -> Facts:
        is_delta = format_of(spark, target) is DELTA
        return Facts(
            is_delta=is_delta,
            rows=table.rows,
            size=table.size,
            truncates=table.truncates > 0,
            keeps_history=self._history(table.full_name, target) is not None or self.options.keyless == "append",
            soft_deletes=self.options.soft_deletes is not None,
            masks=bool(self._rules(spark, table).mask),
            additions=additions,
            moved=moved_to(self.properties.get(target, {})) is not None,
            # Where the table of a name is, is known when it exists.
            elsewhere=self.in_tasks.why_elsewhere(spark, target) if is_path(target) else None,
        )

    def _kind(self, spark: SparkSession, table: SourceTable) -> str:
        """The kind of a table's jobs."""
        try:
            target = self.targets(table.database, table.name, table.topic)
            size = self._applier(target).size(spark) if target else 0
        except Exception:  # it is raised again where the table is applied
            return SMALL
        if size is None:
            return UNKNOWN_SIZE
        if table.rows <= _MOST_ROWS and size <= _MOST_BYTES:
            return SMALL
        # A file that mostly consists of changed rows is rewritten sooner than they are marked, and does not pile up.
        return REWRITING if size <= table.size else MARKING

    def _known_watermarks(self, spark: SparkSession) -> Watermarks | None:
        name = self.options.watermarks
        return Watermarks(spark, name) if name and schema_of(spark, name) is not None else None

    def _guarded(self, batch: _Batch, table: SourceTable) -> _Result:
        """Apply a table's changes, or put them aside. An error is returned, so that the other tables go on."""
        target: str | None = None
        try:
            target = self.targets(table.database, table.name, table.topic)
            if target is None:
                return _Result()
            self.sources.add(table.key)
            is_gone = self._is_gone(batch.spark, target)
            applied, moved = self._apply_table(batch, table, target)
            self.written.add(target)
            late = {OLD: batch.late.get((table.database, table.name), 0)}
            applied = replace(applied, counts=Counter(applied.counts) + Counter(late))
            status = TableStatus.of(table.database, table.name, target, applied)
            return _Result(replace(status, state=STALE, reason=_GONE) if is_gone else status, others=moved)
        except Exception as error:  # whatever it is, it must not stop the other tables
            if self.options.on_table_error == "fail" or self.quarantine is None or is_interruption(error):
                return _Result(error=error)
            reason = printable(str(error), _MOST_REASON, keep="\n\t")
            shown = printable(table.full_name, SHOWN), printable(reason)
            _log.warning("%s: quarantined in %s: %s", shown[0], self.quarantine.table, shown[1])
            try:
                origin = self._origin(table, target)
                events = batch.events.with_messages() if table.in_blocks else batch.events.frame
                write_quarantine(events.filter(table.condition()), self.quarantine, origin, reason)
            except Exception as second:  # then the batch has to be read again
                return _Result(error=second)
            status = TableStatus(table.database, table.name, target, state=QUARANTINED, reason=reason)
            return _Result(status=status)

    def _is_gone(self, spark: SparkSession, target: str) -> bool:
        """Whether somebody removed a target that this query has written. What is remembered of it is forgotten then."""
        if target not in self.written or exists(spark, target):
            return False
        self._applier(target).forget_schemas()
        self.properties.pop(target, None)
        return True

    def _apply_table(self, batch: _Batch, table: SourceTable, target: str) -> tuple[Applied, tuple[TableStatus, ...]]:
        """Apply a table's changes. Returns also the state of other tables which lack some of them."""
        spark = batch.spark
        apply = self._applier(target)
        existing = apply.schema(spark)
        if existing is None and table.truncates == table.messages:
            self.pending.read(spark)
            events = batch.events.frame
            for place in places_of(events.filter(table.condition() & (events["op"] == "truncate"))):
                self.pending.empty(table.key, place)
            return Applied(), ()
        self._protection(spark).check_renamed(table.database, table.name)
        additions = self._additions(spark, table, target, existing)
        schema = self._schema(spark, existing, table, target, additions)
        unconverted = self._unconverted(spark, table, target, existing, schema)
        if existing is not None and (apply.size(spark) or 0) > self.in_tasks.limits.size:
            self._mark_rows(spark, target)
        with ExitStack() as held:
            decoder = self._decoder(table, schema)
            changes = self._changes(batch, table, decoder, additions, held)
            moved = self._moved(spark, table, target, changes.frame) if existing else ()
            if self.options.keyless == "append" and not self._has_key(spark, table, target if existing else None):
                settings, origin = self._settings(table, []), self._origin(table, target)
                applied = append_keyless(changes.frame, target, self.dead_letters, origin, settings, batch.number)
                self._append_emptied(spark, table, target, existing)
                return replace(applied, unconverted=unconverted), moved
            keys = self._key(spark, table, target if existing else None)
            settings = self._settings(table, keys)
            self._rules(spark, table).check_key(table.full_name, keys)
            history = self._history(table.full_name, target)
            if history is not None:
                append_changes(changes.frame, keys, history, settings, batch.number)
                self._append_emptied(spark, table, history, existing)
            apply.configure(keys, settings, self._origin(table, target))
            if existing is None:
                self._remember_emptied(spark, table, apply, schema, keys)
            hints = Hints(Kinds(table.has_commit, table.in_log), is_small=batch.is_small, are_most=batch.are_most)
            applied = apply.apply(changes, keys, hints, batch.number)
        self._know(table, decoder, batch.known)
        _log.info("%s: batch %d: %s in %.1f s", table.full_name, batch.number, dict(applied.counts), applied.seconds)
        return replace(applied, unconverted=unconverted), moved

    def _unconverted(
        self, spark: SparkSession, table: SourceTable, target: str, existing: StructType | None, schema: StructType
    ) -> tuple[str, ...]:
        """The columns of which older rows have other values than the type allows that a statement gave to them."""
        if self._given(self.options.schemas, table) is not None:
            return ()
        changes, stored = self.pending.of(table.key), format_of(spark, target).stored
        kinds = changes.modified if existing is None else modifications(self._properties(spark, target))
        found = {one.name: one.dataType.simpleString() for one in schema}
        return tuple(name for name, kind in found.items() if stored(kinds.get(name.lower(), kind)) != stored(kind))

    def _moved(
        self, spark: SparkSession, table: SourceTable, target: str, changes: DataFrame
    ) -> tuple[TableStatus, ...]:
        """The tables that lack changes from before they got the rows of this one, which are read after that."""
        properties = self._properties(spark, target)
        other, place = moved_to(properties), gone_at(properties)
        if other is None or place is None:
            return ()
        before = sql("NOT {after}", after=is_after(Sql("`order`"), place.literal()))
        if not with_order(changes).filter(expressions(spark)(before)).limit(1).count():
            return ()
        found: dict[tuple[str, str], TableStatus] = {}
        while other is not None and other not in found:
            path = self.targets(*other)
            reason = f"changes of {table.full_name} that may be older than its RENAME TABLE were read after it"
            found[other] = TableStatus(*other, path, state=STALE, reason=reason)
            has_target = path is not None and exists(spark, path)
            other = moved_to(self._properties(spark, path)) if path is not None and has_target else None
        return tuple(found.values())

    def _additions(
        self, spark: SparkSession, table: SourceTable, target: str, existing: StructType | None
    ) -> list[Addition]:
        """The columns that older rows of a table get a value in."""
        if existing is None:
            self.pending.read(spark)
            return self.pending.of(table.key).additions
        self.pending.forget(table.key)
        return read_additions(self._properties(spark, target))

    def _remember_emptied(
        self, spark: SparkSession, table: SourceTable, apply: Applier, schema: StructType, keys: list[str]
    ) -> None:
        """Write tombstones of what emptied a table before it had a target: older rows may be read later."""
        if places := self.pending.of(table.key).emptied:
            orders = comma_separated(one.literal() for one in places)
            rows = spark.range(1).select(
                expressions(spark)(sql("explode(array({orders}))", orders=orders)).alias("order")
            )
            apply.tombstones.write_truncates(rows, schema, keys)

    def _append_emptied(
        self, spark: SparkSession, table: SourceTable, history: str, existing: StructType | None
    ) -> None:
        """Append what emptied a table before it had a target to a new history."""
        for place in self.pending.of(table.key).emptied if existing is None else ():
            append_truncate(spark, history, place)

    def _mark_rows(self, spark: SparkSession, target: str) -> None:
        """Let merges of a large target mark rows as deleted, instead of rewriting its files."""
        missing = format_of(spark, target).of_new_tables.items() - self._properties(spark, target).items()
        is_chosen = {name for name, _ in missing} & self.properties[target].keys()
        if missing and not is_chosen:
            set_properties(spark, target, dict(missing))
            self.properties.pop(target, None)

    def _changes(
        self, batch: _Batch, table: SourceTable, decoder: ChangeDecoder, additions: list[Addition], held: ExitStack
    ) -> Changes:
        rules = self._rules(batch.spark, table)
        messages, reader = batch.read(table, decoder)
        frame = messages.changes(table, reader)
        if batch.watermarks:
            frame = batch.watermarks.without_late(frame, is_small=batch.is_small)
        frame = rules.masked(with_additions(frame, additions))
        if self.options.history or self.options.keyless == "append":  # then they are needed more than once
            frame = frame.persist()
            held.callback(frame.unpersist)
        elif table.tasks == 1 and not (batch.watermarks or additions or rules.mask):
            decoded = partial(messages.newest, table, reader)
            return Changes(frame, table.tasks, decoded)
        return Changes(frame, table.tasks)

    def _decoder(self, table: SourceTable, schema: StructType) -> ChangeDecoder:
        return ChangeDecoder(self.options.dialect, schema, self._decoder_options(table), (table.database, table.name))

    def _has_key(self, spark: SparkSession, table: SourceTable, target: str | None) -> bool:
        if self._given(self.options.keys, table) or any(one.key for one in table.declarations):
            return True
        return bool(self._stored_key(spark, target))

    def _stored_key(self, spark: SparkSession, target: str | None) -> list[str] | None:
        """The key of a target that exists."""
        if target is None:
            return None
        found: list[str] | None = json.loads(self._properties(spark, target).get(KEY, "null"))
        return found

    def _properties(self, spark: SparkSession, target: str) -> Mapping[str, str]:
        """The properties of a target that exists."""
        if target not in self.properties:
            self.properties[target] = table_properties(spark, target)
        return self.properties[target]

    def _origin(self, table: SourceTable, target: str | None) -> Origin:
        return Origin(table.database, table.name, target, self.options.dialect)

    def _given(self, rules: Mapping[str, _Rule], table: SourceTable) -> _Rule | None:
        """What an argument says about a table."""
        return rule_of(rules, table.database, table.name)

    def _key(self, spark: SparkSession, table: SourceTable, target: str | None) -> list[str]:
        """The key of a table: as given, or as its messages and its target say."""
        given = self._given(self.options.keys, table)
        if given:
            return list(given)
        return declared_key(table.full_name, table.declarations, self._stored_key(spark, target))

    def _settings(self, table: SourceTable, keys: Sequence[str]) -> TableSettings:
        own = {KEY: json.dumps(list(keys), ensure_ascii=False), SOURCE: source_name(table.database, table.name)}
        cluster_by = tuple(self.options.cluster_by.get(table.full_name, ()))
        if state := self.remembered.get(table.key):
            own[RULES] = str(state)
        changes = self.pending.of(table.key)
        if changes.additions:
            own |= additions_property(changes.additions)
        if changes.renamed:
            own[RENAMED] = json.dumps(sorted(changes.renamed))
        if changes.modified:
            own[MODIFIED] = json.dumps(changes.modified)
        return replace(
            self.options.settings, cluster_by=cluster_by, properties={**own, **self.options.settings.properties}
        )

    def _decoder_options(self, table: SourceTable) -> dict[str, Any]:
        return {
            **self.options.decoder,
            **(self._given(self.options.table_options, table) or {}),
            **table.filter_options(),
        }

    def _schema(
        self,
        spark: SparkSession,
        existing: StructType | None,
        table: SourceTable,
        target: str,
        additions: list[Addition],
    ) -> StructType:
        """The columns to decode: as given, otherwise as declared but at least as wide as in the target.

        Columns that were added with a value are decoded too, since rows that lack them get it.
        """
        rules = self._rules(spark, table)
        given = self._given(self.options.schemas, table)
        if given is not None:
            return rules.kept(columns_of(given))
        known = rules.without_masked(_own_columns(existing, self.options.soft_deletes)) if existing else None
        declared = self._declared(table.declarations, table)
        if declared is None:
            if known is None or (rules.mask and table.truncates < table.messages):
                raise ValueError(
                    f"{table.full_name}: the messages do not declare its columns' types; "
                    f"give them: schemas={{{table.full_name!r}: 'id bigint, ...'}}"
                )
            return known
        if self.options.columns:
            each = (self._declared([one], table) for one in table.declarations)
            names = [one.names for one in each if one is not None]
            self._protection(spark).check_declared(table.database, table.name, names)
        self._check_renamed(table, target, declared, known)
        columns = widened(target, known, rules.kept(declared))
        return _with_added(columns, known or rules.kept(_struct_of(self.pending.of(table.key).fields)), additions)

    def _declared(self, declarations: Iterable[Declaration], table: SourceTable) -> StructType | None:
        return declared_columns(declarations, self.options.dialect, {**self.options.decoder, **table.filter_options()})

    def _check_renamed(self, table: SourceTable, target: str, declared: StructType, known: StructType | None) -> None:
        """Refuse rows of before a column was renamed: they would bring the former column back.

        Raises:
            ValueError: A declared column has a former name.
        """
        if known is None:
            former = self.pending.of(table.key).renamed
        else:
            former = set(json.loads(self.properties.get(target, {}).get(RENAMED, "[]")))
            former -= {name.lower() for name in known.names}
        late = sorted(name for name in declared.names if name.lower() in former)
        if late:
            raise ValueError(
                f"{table.full_name}: rows of before the columns {', '.join(late)} were renamed came after the "
                "statement; rebuild the target (towpath.spark.rebuild)"
            )

    def _write_dead_letters(self, events: DataFrame, found: Iterable[Row]) -> None:
        count = sum(row["messages"] for row in found if row["kind"] == DEAD)
        if not count:
            return
        rejected = events.filter(f"kind = '{DEAD}'").withColumnsRenamed({"value": "message", "key": "message_key"})
        default = ("envelope", "the message names no table")
        origin = Origin(dialect=self.options.dialect)
        write_dead_letters(rejected, self.dead_letters, origin, default, f"{count} messages cannot be read")

    def _write_ddl(self, events: DataFrame, found: Iterable[Row]) -> None:
        if self.options.ddl and any(row["kind"] == DDL or row["truncates"] for row in found):
            statements = events.filter(f"kind = '{DDL}' OR op = 'truncate'").select(*_statement())
            append_once(statements, self.options.ddl, (*PLACE, "row", "event_time", "sql"))


@dataclass(frozen=True)
class _Batch:
    """A batch of events, and what all of its tables share."""

    events: BatchEvents
    messages: BatchMessages
    known: _FormerlyKnown
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

    def read(self, table: SourceTable, decoder: ChangeDecoder) -> tuple[Messages, ChangeDecoder | BlockReader]:
        """The messages of a table with their decoder, or the blocks that the same decoder has made of them."""
        former = self.known.get(table.name_key)
        is_same = former is not None and former.decoder.decodes_as == decoder.decodes_as
        if table.in_blocks and is_same and table.size <= _MOST_IN_BLOCKS:
            return self.messages(), BlockReader(decoder.schema)
        return self.messages(of_blocks=table.in_blocks), decoder


@dataclass(frozen=True)
class _Result:
    status: TableStatus | None = None
    error: Exception | None = None
    key: tuple[str, str] | None = None
    """The table that a task has merged."""
    others: tuple[TableStatus, ...] = ()
    """Tables that became stale with it."""

    @property
    def statuses(self) -> tuple[TableStatus, ...]:
        """Of all tables."""
        return (self.status, *self.others) if self.status else self.others


def _decoded(
    batch: BatchEvents,
    owned: Mapping[tuple[str | None, str], tuple[SourceTable, OwnedTable]],
    known: _FormerlyKnown,
) -> tuple[DataFrame, dict[tuple[str | None, str], OwnedTable]]:
    """The events for tasks, and what the tasks decode: blocks, unless a table has other columns by now."""
    ready = {name: one for name, (_, one) in owned.items()}
    in_blocks = {name: known[name] for name, (table, _) in owned.items() if table.in_blocks}
    if any(not one or one.decoder.decodes_as != ready[name].decoder.decodes_as for name, one in in_blocks.items()):
        return batch.with_messages(), ready
    return batch.frame, ready | {name: replace(ready[name], in_blocks=True) for name in in_blocks}


def _own_columns(schema: StructType, soft_deletes: str | None) -> StructType:
    """The columns of a target that are the source table's."""
    from pyspark.sql.types import StructType

    own = {order_column(schema), soft_deletes}
    return StructType([field for field in schema if field.name not in own])


def _with_added(columns: StructType, known: StructType, additions: Iterable[Addition]) -> StructType:
    """The columns, and those of a target that were added with a value."""
    from pyspark.sql.types import StructType

    names = {one.name.lower() for one in additions} - {name.lower() for name in columns.names}
    return StructType([*columns, *(one for one in known if one.name.lower() in names)])


def _struct_of(fields: Iterable[StructField]) -> StructType:
    """A struct of columns."""
    from pyspark.sql.types import StructType

    return StructType(list(fields))


def _statement() -> list[Column]:
    from pyspark.sql import functions as f

    names = [*PLACE, "row", "database", "table", "event_time", "sql", "table_changes"]
    return [*map(f.col, names), f.col("source.operation").alias("operation")]
