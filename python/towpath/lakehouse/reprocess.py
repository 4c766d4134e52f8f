"""Applies dead letters and quarantined messages after the user has removed their cause."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from towpath.lakehouse import arguments
from towpath.lakehouse.batches import Replicator
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.reading.envelopes import read_envelopes
from towpath.lakehouse.replicate_options import ReplicateOptions
from towpath.lakehouse.seen.aside import Aside, Origin, is_of
from towpath.lakehouse.seen.status import NO_BATCH
from towpath.lakehouse.seen.status_table import StatusTable
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import Sql, any_of, column, comma_separated, now, sql, string
from towpath.lakehouse.tables.targets import Target
from towpath.places import MESSAGE, PLACE
from towpath.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from typing_extensions import Unpack

    from towpath.arguments import ValueOptions
    from towpath.lakehouse.arguments import Place
    from towpath.literals import Dialect

_log = logging.getLogger("towpath.spark")


def reprocess(
    spark: SparkSession,
    *,
    dead_letters: Place | None = None,
    quarantine: Place | None = None,
    tables: Sequence[str] | None = None,
    target: Target | None = None,
    dialect: Dialect | None = None,
    status: Place | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    schemas: Mapping[str, str | StructType] | None = None,
    table_options: Mapping[str, Mapping[str, Any]] | None = None,
    evolve: bool = True,
    history: bool | Collection[str] = False,
    soft_deletes: str | None = None,
    columns: Mapping[str, Mapping[str, Any]] | None = None,
    parallelism: int = 4,
    **options: Unpack[ValueOptions],
) -> None:
    """Apply dead letters and quarantined messages in order, and mark them done. Repeated calls are safe.

    A change that is older than the newest change of its row has no effect. It becomes a dead letter if its message has
    only the changed columns, or if the target contains such changes, since the newer change may lack its columns:
    `rebuild` the target. Messages that still cannot be applied stay in their table.

    Args:
        spark: The session.
        dead_letters: Table of dead letters.
        quarantine: Table of messages of quarantined tables. Defaults to the table next to `dead_letters`.
        tables: Names such as "shop.orders". Defaults to all tables.
        target: As for `replicate`. Defaults to the targets that were stored with the changes. Messages that name no
            table are processed only with a `target`.
        dialect: As for `replicate`. Defaults to the dialect of the first attempt.
        status: Table with the state of each target. The state is `ok` again if nothing is left in quarantine. The table
            also counts the applied changes.
        keys: As for `replicate`.
        schemas: As for `replicate`.
        table_options: As for `replicate`.
        evolve: As for `replicate`.
        history: As for `replicate`. Give the same `history`, `soft_deletes` and `columns` as the query.
        soft_deletes: As for `replicate`.
        columns: As for `replicate`. It needs `status`.
        parallelism: As for `replicate`.
        **options: Other arguments of `towpath.Decoder`, for example one that was missing.

    Raises:
        ValueError: Neither table is given, or an argument is wrong.
    """
    if dead_letters is None and quarantine is None:
        raise ValueError("set the table to process: dead_letters, quarantine, or both")
    given = ReplicateOptions.of(**locals())
    # Never forget deletes here: the query may remember them for longer.
    given = replace(given, forget_after=None, waited=now(spark))
    dead_letters, status = given.dead_letters, given.status
    quarantine = given.quarantined_in or ""  # at least one of both is given
    tables = None if tables is None else arguments.columns("tables", tables)
    in_tasks = TaskMerges(given.merge, storage=given.storage_options)
    asides = {one: Aside(one, in_tasks=in_tasks) for one in (dead_letters, quarantine) if one}
    chosen = _chosen(tables, any_table=target is not None)
    waiting = {one: rows for one, aside in asides.items() if (rows := aside.waiting(spark, chosen)) is not None}
    recorded = {one: _recorded(rows) for one, rows in waiting.items()}
    origins = set(chain.from_iterable(recorded.values()))
    left: set[_Name] = set()
    for found in {dialect or origin.dialect for origin in origins}:
        of_dialect = [origin for origin in origins if (dialect or origin.dialect) == found]
        targets = target or _stored_targets(of_dialect)
        known = KnownTargets(given.targets(targets), replace(given, dialect=found or "auto"))
        apply = Replicator(known)
        messages = _union(_messages(rows, None if dialect else found) for rows in waiting.values())
        apply(read_envelopes(messages, found or "auto", None, **options), NO_BATCH)
        apply.delete_gone(spark)
        left |= {_name(one) for one in of_dialect if one.table and known.is_skipped(_name(one))}
    for database, name in left:
        full_name = printable(f"{database}.{name}")
        _log.warning("%s: not applied, since it has no target: set one with target", full_name)
    done = sql("{chosen} AND NOT ({left})", chosen=chosen, left=any_of(is_of(*one) for one in left))
    for one, times in recorded.items():
        _finish(spark, asides[one], done, sorted({*chain.from_iterable(times.values())}))
    # Dead letters quarantine no table, and the messages of another quarantine still wait.
    applied = {_name(one) for one in recorded.get(quarantine, ()) if one.table}
    if status and applied and (waits := asides[quarantine].waiting(spark, Sql("true"))) is not None:
        StatusTable(status, in_tasks).set_ok(spark, applied - {_name(one) for one in _recorded(waits)})


_Name = tuple[str | None, str]
"""Database of a table, if it has one, and its name."""


def _name(origin: Origin) -> _Name:
    return origin.database, origin.table or ""


def _stored_targets(origins: Iterable[Origin]) -> dict[tuple[str, str], str]:
    """Return the target that each table had when its changes were stored. A refused table has none."""
    return {(one.database or "", one.table): one.target for one in origins if one.table and one.target}


def _chosen(tables: Sequence[str] | None, *, any_table: bool) -> Sql:
    """Return a condition for messages of the chosen tables. `any_table` adds messages that name no table."""
    if tables is None:
        return Sql("true" if any_table else "`table` IS NOT NULL")
    return sql("concat_ws('.', database, `table`) IN ({names})", names=Sql(", ".join(map(string, tables)) or "NULL"))


def _recorded(rows: DataFrame) -> dict[Origin, set[int]]:
    """Return the recording times of each origin's rows, in microseconds since 1970. Rows of a commit share one."""
    names = (column(one.name) for one in fields(Origin))
    found: defaultdict[Origin, set[int]] = defaultdict(set)
    for *origin, time in rows.selectExpr(*names, "unix_micros(recorded_at)").distinct().collect():
        found[Origin(*origin)].add(time)
    return found


def _messages(rows: DataFrame, dialect: Dialect | None) -> DataFrame:
    """Return the messages with the columns of Kafka's source."""
    if dialect is not None:
        rows = rows.filter(sql("dialect = {dialect}", dialect=string(dialect)))
    value = "message" if "message" in rows.columns else "value"
    return rows.withColumnRenamed(value, "value").select(*map(column, MESSAGE))


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    united = reduce(lambda one, other: one.unionByName(other), frames)
    return united.dropDuplicates([*PLACE, "value"])


def _finish(spark: SparkSession, aside: Aside, done: Sql, recorded: Sequence[int]) -> None:
    """Mark rows as done by their recording times, since a running query may have committed more rows."""
    for first in range(0, len(recorded), _MOST_TIMES):
        micros = recorded[first : first + _MOST_TIMES]
        times = comma_separated(Sql(f"timestamp_micros({one})") for one in micros)
        aside.finish(spark, sql("{done} AND recorded_at IN ({times})", done=done, times=times))


_MOST_TIMES = 1000
"""Maximum number of times in one statement."""
