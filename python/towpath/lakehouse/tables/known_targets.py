"""The targets of a query: their state across batches, and the settings of each target."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from towpath.lakehouse.following.small_target import SmallTarget
from towpath.lakehouse.history import append_truncate
from towpath.lakehouse.log.ordered_statements import Place, Statement
from towpath.lakehouse.log.statement_log import StatementLog
from towpath.lakehouse.log.timeline import Name
from towpath.lakehouse.merging.merge import Applier
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.reading.source_tables import SourceTable
from towpath.lakehouse.replicate_options import ReplicateOptions
from towpath.lakehouse.rules.protection import Protection
from towpath.lakehouse.seen.aside import Aside, Origin
from towpath.lakehouse.seen.status_table import StatusTable
from towpath.lakehouse.tables.known_table import KnownTable
from towpath.lakehouse.tables.sql import Sql, expressions, sql, string
from towpath.lakehouse.tables.tables import TableSettings, exists, schema_of
from towpath.lakehouse.tables.target_properties import KEY, PARTIAL, SOURCE
from towpath.lakehouse.tables.target_rows import ALL_ROWS, order_of_rows
from towpath.lakehouse.tables.targets import Targets, argument_name, companion, source_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class KnownTargets:
    """Targets of a query, with their state and the arguments of the query."""

    def __init__(
        self,
        targets: Targets,
        options: ReplicateOptions,
        log: StatementLog | None = None,
        rebuilt: str | None = None,
    ) -> None:
        """Start without state.

        Args:
            targets: The target of each source table.
            options: Arguments of the query.
            log: Log of statements. Defaults to the log next to `status`.
            rebuilt: Target next to which this one is rebuilt. Then nothing is quarantined.
        """
        self.options = options
        self.in_tasks = TaskMerges(options.merge, storage=options.storage_options)
        """Settings that say which targets delta-rs may write."""
        self.log = log or StatementLog(options.log, self.in_tasks)
        self.status = StatusTable(options.status, self.in_tasks)
        self.dead_letters = self._aside(options.dead_letters)
        self.quarantine = self._aside(None if rebuilt else options.quarantined_in)
        self.sources: set[tuple[str, str]] = set()
        """Tables that this process has applied."""
        self.written: set[str] = set()
        """Targets that this process has written."""
        self._targets, self._rebuilt = targets, rebuilt
        self._appliers: dict[str, Applier] = {}
        self._first_batch: int | None = None
        self._began = time.time_ns() // 1000
        self._stored: Mapping[str, tuple[int, int]] | None = None

    def _aside(self, name: str | None) -> Aside | None:
        return Aside(name, self.options.waited, self.in_tasks) if name else None

    def target(self, table: SourceTable) -> str | None:
        """Return the target of a table; None to skip it.

        Raises:
            ValueError: The table has no target, or a different one for each of its topics.
        """
        found = {self._targets(table.database, table.name, one) for one in table.topics}
        if len(found) > 1:
            raise ValueError(
                f"target: {table.full_name} is in the topics {', '.join(sorted(table.topics))}, which have different "
                "targets; read each topic with its own query"
            )
        return found.pop()

    def by_target(self, tables: Sequence[SourceTable]) -> list[list[SourceTable]]:
        """Group tables by target. A target's applier is configured for one table at a time."""
        found: dict[object, list[SourceTable]] = {}
        for one in tables:
            try:
                place: object = self.target(one)
            except Exception:  # the error is raised again when the table is applied
                place = one
            found.setdefault(place, []).append(one)
        return list(found.values())

    def applier(self, target: str) -> Applier:
        """Return the applier of a target, which keeps state across batches."""
        if target not in self._appliers:
            settings = self.options.settings
            self._appliers[target] = Applier(target, self.dead_letters, settings, self.status, self.in_tasks)
        return self._appliers[target]

    def configured(self, table: SourceTable, target: str, keys: list[str]) -> Applier:
        """Return the applier of a target, configured for a table."""
        found = self.applier(target)
        found.configure(keys, self.settings(table.key, keys), self.origin(table, target))
        return found

    def table(self, target: str) -> KnownTable:
        """Return the cached table of a target."""
        return self.applier(target).writer.table

    def forget(self, target: str) -> None:
        """Read a target's schema and properties again, since they have changed."""
        self.applier(target).forget_schemas()

    def of_tables(self, spark: SparkSession) -> set[tuple[str, str]]:
        """Return the tables that this process has applied, and those in `status`."""
        return self.sources | self.status.tables(spark)

    def of_names(self, database: str, table: str) -> str | None:
        """Return the target of a table by its names; None to skip it."""
        return self._targets(database, table)

    def find(self, name: Name) -> str | None:
        """Return the target of a table by its names; None also if the name lacks a part that the template needs."""
        try:
            return self.of_names(*name)
        except ValueError:
            return None

    def is_skipped(self, name: tuple[str | None, str]) -> bool:
        """Return whether a table is not replicated. A table whose target is refused or unknown is not skipped."""
        try:
            return self._targets(*name) is None
        except ValueError:
            return False

    def of_other_case(
        self, spark: SparkSession, known: Callable[[], Collection[tuple[str, str]]], database: str, table: str
    ) -> list[tuple[str, str]]:
        """Return the known tables that a name without a target may mean: some servers store names in lower case."""
        if self._has_target(spark, database, table):
            return []
        folded = (database.lower(), table.lower())
        others = (one for one in known() if (one[0].lower(), one[1].lower()) == folded)
        return sorted(one for one in others if self._has_target(spark, *one))

    def _has_target(self, spark: SparkSession, database: str, table: str) -> bool:
        target = self.find((database, table))
        return target is not None and exists(spark, target)

    def may_lack(self, spark: SparkSession, target: str) -> bool:
        """Return whether waiting changes may be older than updates of some columns of a target."""
        return self.options.waited is not None and self.table(target).properties(spark).get(PARTIAL) == "true"

    @property
    def follows(self) -> bool:
        """Whether statements change targets."""
        return self.options.ddl_policy == "follow"

    @property
    def may_share(self) -> bool:
        """Whether tables can share a target."""
        return self._targets.may_share

    def rows_of(self, spark: SparkSession, name: Name, target: str) -> Sql:
        """Return a condition for the rows `t` of a target that belong to a table."""
        order = order_of_rows(schema_of(spark, target, self.in_tasks)) if self.may_share else None
        return ALL_ROWS if order is None else self.labelled(spark, name, target, order)

    def labelled(self, spark: SparkSession, name: Name, target: str, order: Sql) -> Sql:
        """Return a condition for the order values of a target, or of its tombstones, that belong to a table.

        Order values without a label belong to the table for which the target was created.
        """
        if not self.may_share:
            return ALL_ROWS
        source = self.table(target).properties(spark).get(SOURCE, "")
        values = {"source": string(source), "name": string(source_name(*name))}
        return sql("coalesce({order}.`table`, {source}) = {name}", order=order, **values)

    def tables_of(self, spark: SparkSession, target: str) -> list[tuple[str, str]]:
        """Return the tables of a target that this process has applied, and those in `status`."""
        return [name for name in self.of_tables(spark) if self.find(name) == target]

    def was_merged(self, target: str, properties: Mapping[str, str]) -> None:
        """Record that a task has merged changes into a target, and read its properties."""
        self.written.add(target)
        self.table(target).learn(properties)

    def small(self, spark: SparkSession, name: Name, target: str) -> SmallTarget | None:
        """Return the target of a table for changes with delta-rs; None if several tables may share it."""
        table = self.table(target)
        if self.rows_of(spark, name, target) != ALL_ROWS:
            return None
        return SmallTarget(spark, self.in_tasks, target, table.key(spark) or (), table.order(spark))

    def truncate(self, spark: SparkSession, target: str, name: Name, place: Place) -> int:
        """Delete a table's rows that are older than a place. Return the number of remaining rows that may be older."""
        if self.table(target).key(spark) == []:  # the target is a history
            return append_truncate(spark, target, self._labelled(place, name))
        small = None if self.options.soft_deletes else self.small(spark, name, target)
        kept = small.delete_before(place) if small else None
        order = self.table(target).order(spark)
        if kept is not None or order is None:
            return kept or 0
        truncate = spark.range(1).select(expressions(spark)(place.literal()).alias("order"))
        return self.applier(target).writer.truncate(truncate, order, self.rows_of(spark, name, target))

    def protection(self, spark: SparkSession) -> Protection:
        """Return the rules for the columns of tables."""
        return Protection(spark, self.options.columns, self.log, self.follows)

    def columns_of(self, spark: SparkSession, name: Name, target: str) -> set[str] | None:
        """Return the lower-case columns of a table's target, or of the target of its original.

        A rebuild uses the columns of the existing target. Without a target the result is None, or empty if the log has
        the definition of the table, which explains its columns.
        """
        found = [self._rebuilt or target, *map(self.find, self.protection(spark).tables(name))]
        schemas = (self.table(one).schema(spark) for one in found if one)
        schema = next((one for one in schemas if one is not None), None)
        if schema is not None:
            return {one.lower() for one in schema.names}
        return set() if self.log.timeline(spark, name).has_definition(name) else None

    def is_shared(self, spark: SparkSession, name: Name, target: str) -> bool:
        """Return whether another table shares the target."""
        return self.may_share and any(one != name for one in self.tables_of(spark, target))

    def history(self, name: Name) -> str | None:
        """Return the history of a table; None if it has no history."""
        kept = self.options.history
        target = self.find(name) if kept is True or (kept and argument_name(*name) in kept) else None
        return companion(target, "history") if target else None

    def begin(self, spark: SparkSession, batch_id: int | None = None) -> None:
        """Begin a batch. None stands for the time before the first batch."""
        self._targets.stored = lambda target: self.table(target).properties(spark).get(SOURCE)
        if self._first_batch is None:
            self._first_batch = batch_id
        self._stored = None  # `reprocess` may have created targets
        self.status.begin()

    def is_removed(self, spark: SparkSession, target: str) -> bool:
        """Return whether a user removed a target that this query has had. Forget its state in this case."""
        if schema_of(spark, target, self.in_tasks) is not None or not self._was_there(spark, target):
            return False
        # Another query may have created the target meanwhile, and written its state.
        if found := schema_of(spark, target, self.in_tasks) is None:
            self.forget(target)
        return found

    def _was_there(self, spark: SparkSession, target: str) -> bool:
        """Return whether a target existed: through this or an earlier process, a snapshot, RENAME TABLE or `reprocess`.

        With a new checkpoint, whose batches begin again, only targets since the start of this process count.
        """
        if not self.options.status:
            return target in self.written
        if self._stored is None:
            self._stored = self.status.written(spark)
        if target not in self._stored:
            return False
        # Other queries may share the table of states. A query with a new checkpoint begins with batch 0.
        (last, written_at), first = self._stored[target], self._first_batch or 0
        return written_at >= self._began or (first > 0 and last <= first)

    def origin(self, table: SourceTable, target: str | None) -> Origin:
        """Return the origin of a table's dead letters or quarantined messages."""
        return Origin(table.database, table.name, target, self.options.dialect)

    def settings(self, name: Name, keys: Sequence[str] | None) -> TableSettings:
        """Return how a table's target is created and maintained. `keys` is None if the key is unknown."""
        own = {SOURCE: source_name(*name)}
        if keys is not None:
            own[KEY] = json.dumps(list(keys), ensure_ascii=False)
        settings, cluster_by = self.options.settings, self.options.cluster_by.get(argument_name(*name), ())
        return replace(settings, cluster_by=tuple(cluster_by), properties={**own, **settings.properties})

    def _labelled(self, place: Place, name: Name) -> Place:
        """Return the place of a statement, labelled with the name of the table if tables may share its target."""
        return Place({**place.fields, "table": source_name(*name)}) if self.may_share else place

    def append_emptied(self, spark: SparkSession, name: Name, history: str, statement: Statement | None = None) -> None:
        """Append what emptied a table to its history: one statement, or all of the log for a new history."""
        for place in self.log.timeline(spark, name).emptied(name):
            if statement is None or place == statement.place:
                append_truncate(spark, history, self._labelled(place, name))
