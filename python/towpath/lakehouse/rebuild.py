"""Rebuilds a target whose rows are no longer those of its source table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from towpath.lakehouse import arguments
from towpath.lakehouse.batches import Replicator
from towpath.lakehouse.log.statement_log import StatementLog, log_table
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.reading.envelopes import read_envelopes
from towpath.lakehouse.replicate_options import ReplicateOptions
from towpath.lakehouse.rules.protection import Protection
from towpath.lakehouse.seen.aside import Aside
from towpath.lakehouse.seen.status import REBUILT, STALE, TableStatus, read_stale, set_ok, write_status
from towpath.lakehouse.snapshots import as_oldest
from towpath.lakehouse.tables.property_texts import OWN
from towpath.lakehouse.tables.sql import expressions, now, table
from towpath.lakehouse.tables.tables import (
    TableSettings,
    append,
    create_with,
    drop,
    replace_with,
    schema_of,
    settings_of,
)
from towpath.lakehouse.tables.target_properties import (
    KEY,
    NOTHING_FOLLOWED,
    SOURCE,
    stored_properties,
    stored_source,
)
from towpath.lakehouse.tables.target_properties import (
    REBUILT as REBUILT_AFTER,
)
from towpath.lakehouse.tables.target_rows import labelled, order_of_rows
from towpath.lakehouse.tables.targets import Target, Targets, companion, sibling, split_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from typing_extensions import Unpack

    from towpath.arguments import ValueOptions
    from towpath.lakehouse.arguments import Place
    from towpath.literals import Dialect


def rebuild(
    messages: DataFrame,
    source_table: str | tuple[str, str],
    target: Target,
    dialect: Dialect = "auto",
    *,
    snapshot: DataFrame | None = None,
    status: Place | None = None,
    dead_letters: Place | None = None,
    quarantine: Place | None = None,
    keys: Sequence[str] | None = None,
    schema: str | StructType | None = None,
    soft_deletes: str | None = None,
    columns: Mapping[str, Any] | None = None,
    **options: Unpack[ValueOptions],
) -> None:
    """Rebuild a target from its topic, or from a snapshot and its topic, and replace it when that is done.

    The query that maintains the target may continue. The new table is built next to the target and replaces it
    in one transaction. Then the messages are read once more, for the changes that the query has applied since they were
    read first.

    Args:
        messages: A batch DataFrame with the columns of Kafka's source. It begins where the topic begins, or before the
            snapshot was taken, and ends where the topic ends at the time when it is read.
        source_table: The table's name, such as "shop.orders" or "shop.sales.orders", or a tuple of database and table,
            which has its schema unless that is the default one.
        target: As for `replicate`.
        dialect: As for `replicate`.
        snapshot: The rows of the source table, for example from a dump or from JDBC. Needed if the topic does not have
            all rows of the table, or if changes happened that are not in the log. Its columns are cast to the types of
            the target.
        status: The table with the state of each target. It is `stale` meanwhile, then `ok`, or stale again if the
            messages have a statement that cannot be followed.
        dead_letters: As for `replicate`. With a snapshot, what waits there of the table is done: it is older than the
            snapshot, or among the messages.
        quarantine: The query's table of quarantined messages, where the same is done. None: the one next to
            `dead_letters`.
        keys: The columns of the primary key, if the messages do not declare it.
        schema: The columns, if the messages do not declare their types.
        soft_deletes: As for `replicate`. Rows whose deletion is not in the messages are not in the new table.
        columns: The rules of this table, as for `replicate`, with those of its former names. They apply to the snapshot
            too. They need `status`, beside which the query keeps the statements.
        **options: All other arguments of `towpath.Decoder`.

    Raises:
        ValueError: An argument is wrong, the messages are a stream, the table has no target, or what `replicate`
            raises. The target is as it was then, unless the error is in the messages that arrived meanwhile.
    """
    name = _parts(source_table)
    full_name = f"{name[0] or None}.{name[1]}"
    given = ReplicateOptions.of(
        dialect,
        options,
        keys={full_name: arguments.columns("keys", keys)} if keys else {},
        schemas={full_name: schema} if schema else {},
        columns=columns and {full_name: arguments.by_name("columns", columns, '{"exclude": ["phone"]}')},
        dead_letters=dead_letters,
        quarantine=quarantine,
        status=status,
        soft_deletes=soft_deletes,
        parallelism=1,
        optimize_every=None,
    )
    given = replace(given, forget_after=None)  # the query may remember what was deleted for longer
    status, dead_letters = given.status, given.dead_letters
    if arguments.frame("messages", messages).isStreaming:
        raise ValueError("messages: rebuild reads a batch of the topic, from its beginning to its end")
    if snapshot is not None:
        arguments.check_snapshot("snapshot", snapshot)
    spark = messages.sparkSession
    started, put_aside = now(spark), [one for one in (dead_letters, given.quarantined_in) if one]
    targets = Targets(target, filter(None, (status, *put_aside)), given.companions)
    targets.stored = partial(stored_source, spark)
    place = targets(*name)
    if place is None:
        raise ValueError(f"{full_name}: has no target")
    log = StatementLog(log_table(status), TaskMerges("spark"))
    if given.columns:  # for each name that the table had
        names = [f"{of or None}.{one}" for of, one in Protection(spark, {}, log).tables(name)]
        given = replace(given, columns=dict.fromkeys(names, given.columns[full_name]))
    if snapshot is not None:
        known = {one.lower() for one in stored.names} if (stored := schema_of(spark, place)) is not None else None
        rules = Protection(spark, given.columns, log).of(name).denying(full_name, [snapshot.columns], known)
        if rules.left_out:
            raise ValueError(f"snapshot: {full_name}: {rules.why_left_out}")
        snapshot = rules.of_table(snapshot)
    others = _others(spark, name, place) if targets.may_share else None
    if snapshot is not None and others is not None:
        raise ValueError(f"snapshot: {full_name} shares its target, whose rows of a snapshot would be of any table")

    def apply(target: str, status: str | None = None) -> None:
        replicator = Replicator(
            Targets({name: target}, ()),
            replace(given, status=status),
            dead_letters=Aside(dead_letters) if dead_letters else None,
            quarantine=None,
            log=log.in_memory(spark) if given.columns else None,
            rebuilt=place,
        )
        replicator(read_envelopes(messages, dialect, None, **options))
        replicator.delete_gone(spark)

    if status:
        write_status(spark, status, [TableStatus(*name, place, state=STALE, reason=REBUILT)], 0)
    places = log.timeline(spark, name).places(name)
    followed = {REBUILT_AFTER: str(places[-1])} if places else {}
    stale = _build(spark, place, snapshot, apply, followed, others)
    stale += _catch_up(spark, place, apply)
    for one in put_aside if snapshot is not None else ():
        Aside(one).finish(spark, name, started)
    if status:  # what the query says meanwhile may be true of the new target, too
        set_ok(spark, status, [name], (STALE,), reason=REBUILT)
        write_status(spark, status, [replace(one, target=place) for one in stale], 0)


def _build(
    spark: SparkSession,
    target: str,
    snapshot: DataFrame | None,
    apply: Callable[[str, str], None],
    followed: Mapping[str, str],
    others: DataFrame | None,
) -> list[TableStatus]:
    """Build a table beside the target, and replace the target by it. Returns why it is stale, if it is."""
    # A table of the catalog, because SQL cannot remove one that is only a path.
    new = sibling(target, f"towpath_rebuild_{uuid4().hex}")
    status = companion(new, "status")
    try:
        if snapshot is not None:
            create_with(spark, new, as_oldest(snapshot, schema_of(spark, target)), TableSettings())
        apply(new, status)
        if schema_of(spark, new) is None:
            raise ValueError(f"{target}: the messages have no rows of its table")
        _replace(spark, target, new, followed, others)
        return read_stale(spark, status)
    finally:
        for name in (new, companion(new, "tombstones"), status):
            drop(spark, name)


def _catch_up(spark: SparkSession, target: str, apply: Callable[[str, str], None]) -> list[TableStatus]:
    """Apply what came since a target was built. Returns why it is stale, if it is."""
    status = companion(sibling(target, f"towpath_rebuild_{uuid4().hex}"), "status")
    try:
        apply(target, status)
        return read_stale(spark, status)
    finally:
        drop(spark, status)


def _others(spark: SparkSession, name: tuple[str, str], target: str) -> DataFrame | None:
    """The rows of the other tables of a target; None if there are none."""
    order = order_of_rows(spark, target)
    if order is None:
        return None
    own = labelled(order, stored_properties(spark, target).get(SOURCE, ""), name)
    rows = spark.read.table(table(target)).alias("t").filter(~expressions(spark)(own))
    return rows if rows.limit(1).count() else None


def _replace(spark: SparkSession, target: str, new: str, followed: Mapping[str, str], others: DataFrame | None) -> None:
    """Replace a target by another table, in one transaction, and add the tombstones of that one to its own."""
    former = settings_of(spark, target, target) if schema_of(spark, target) is not None else {}
    of_user = {name: text for name, text in former.items() if not name.startswith(OWN)}
    of_table = {name: former[name] for name in (SOURCE, KEY) if name in former}
    # What else the former target says of statements is not true of these rows: they may be older, or newer.
    settings = {**NOTHING_FOLLOWED, **followed, **of_table, **settings_of(spark, new, target), **of_user}
    rows = spark.read.table(table(new))
    rows = rows if others is None else others.unionByName(rows, allowMissingColumns=True)
    replace_with(spark, target, rows, settings)
    found, own = companion(new, "tombstones"), companion(target, "tombstones")
    if schema_of(spark, found) is None:
        return
    tombstones = spark.read.table(table(found))
    if schema_of(spark, own) is not None or not create_with(spark, own, tombstones, TableSettings()):
        append(spark, own, tombstones)


def _parts(name: str | tuple[str, str]) -> tuple[str, str]:
    """The database and the name of a table."""
    if isinstance(name, str):
        return split_name(name)
    if not isinstance(name, tuple) or len(name) != 2 or not all(isinstance(one, str) for one in name):
        raise ValueError(f'source_table: expected "database.table" or a tuple of both, not {name!r}')
    return name
