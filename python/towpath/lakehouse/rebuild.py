"""Rebuilds a target whose rows no longer equal the rows of its source table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from towpath.lakehouse import arguments
from towpath.lakehouse.batches import Replicator
from towpath.lakehouse.log.statement_log import StatementLog
from towpath.lakehouse.reading.envelopes import read_envelopes
from towpath.lakehouse.replicate_options import ReplicateOptions
from towpath.lakehouse.seen.aside import Aside, is_of, timestamp
from towpath.lakehouse.seen.status import REBUILT, STALE, TableStatus
from towpath.lakehouse.snapshots import as_oldest
from towpath.lakehouse.tables.formats import format_of
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.sql import now, sql, table
from towpath.lakehouse.tables.tables import (
    TableSettings,
    append,
    create_with,
    replace_with,
    schema_of,
)
from towpath.lakehouse.tables.target_properties import KEY, OWN, PARTIAL, SOURCE, settings_of
from towpath.lakehouse.tables.target_rows import other_rows
from towpath.lakehouse.tables.targets import Target, argument_name, companion, sibling, split_name

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
    """Rebuild a target from its topic, or from a snapshot and its topic, and then replace it.

    The query that maintains the target may continue. The new table is built next to the target and replaces it in one
    transaction. Then the messages are read again, for the changes that the query applied after the first read.

    Args:
        messages: A batch DataFrame with the columns of Kafka's source. It begins where the topic begins, or before the
            snapshot was taken. It ends where the topic ends when it is read.
        source_table: Name of the table, such as "shop.orders" or "shop.sales.orders", or a tuple of database and table.
            The table of a tuple contains its schema, unless it is the default schema.
        target: As for `replicate`.
        dialect: As for `replicate`.
        snapshot: Rows of the source table, for example from a dump or from JDBC. Needed if the topic lacks rows of the
            table, or if the log lacks changes. Its columns are cast to the types of the target.
        status: Table with the state of each target. The state is `stale` during the rebuild, then `ok`, or `stale`
            again if the messages have a statement that cannot be followed. A table that was dropped needs it: the log
            next to it then records that the table was created again, so that the query does not remove the new rows.
        dead_letters: As for `replicate`. With a snapshot, waiting rows of the table are marked done: each is older than
            the snapshot, or among the messages.
        quarantine: The query's table of quarantined messages, whose waiting rows are marked done likewise. Defaults to
            the table next to `dead_letters`.
        keys: Columns of the primary key, if the messages do not declare it.
        schema: Columns, if the messages do not declare their types.
        soft_deletes: As for `replicate`. The new table lacks deleted rows whose deletion is not in the messages.
        columns: Rules of this table, as for `replicate`, including the rules of its former names. They apply to the
            snapshot too. They need `status`, since the query keeps the statements next to it.
        **options: Other arguments of `towpath.Decoder`.

    Raises:
        ValueError: An argument is wrong, the messages are a stream, the table has no target, or `replicate` raises the
            error. The target is then unchanged, unless the error is in messages that arrived meanwhile.
    """
    name = _parts(source_table)
    full_name = argument_name(*name)
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
    if arguments.frame("messages", messages).isStreaming:
        raise ValueError("messages: expected a batch of the whole topic, not a stream")
    if snapshot is not None:
        arguments.check_snapshot("snapshot", snapshot)
    spark = messages.sparkSession
    started, put_aside = now(spark), [one for one in (given.dead_letters, given.quarantined_in) if one]
    known = KnownTargets(given.targets(target), given)
    known.begin(spark)
    place, log = known.of_names(*name), known.log
    if place is None:
        raise ValueError(f"{full_name}: has no target")
    if given.columns:  # for each name that the table ever had
        names = [argument_name(*one) for one in known.protection(spark).tables(name)]
        known.options = given = replace(given, columns=dict.fromkeys(names, given.columns[full_name]))
    if snapshot is not None:
        of_target = known.columns_of(spark, name, place)
        rules = known.protection(spark).of(name).denying(full_name, [snapshot.columns], of_target)
        if rules.left_out:
            raise ValueError(f"snapshot: {full_name}: {rules.why_left_out}")
        snapshot = rules.of_table(snapshot)
    others = other_rows(spark, known.rows_of(spark, name, place), place, known.in_tasks)
    if snapshot is not None and others is not None:
        raise ValueError(f"snapshot: {full_name} shares its target, so its rows would have no source table")
    stale: list[TableStatus] = []

    def report(found: Sequence[TableStatus]) -> None:
        wrong = (one for one in found if one.state == STALE)
        stale.extend(TableStatus(one.database, one.table, place, STALE, one.reason, one.statement) for one in wrong)

    # The new table gets no table of states. Never forget deletes here: the query may remember them for longer.
    of_new = replace(given, forget_after=None, status=None, report=report)
    # Both replicators share this log: a statement that the new table has followed is not followed again in its place.
    of_rows = log.in_memory(spark) if given.columns else StatementLog(None, known.in_tasks)

    def apply(target: str) -> Replicator:
        replicator = Replicator(KnownTargets(of_new.targets({name: target}), of_new, of_rows, rebuilt=place))
        replicator(read_envelopes(messages, dialect, None, **options))
        return replicator

    known.status.write(spark, [TableStatus(*name, place, state=STALE, reason=REBUILT)])
    log.add_created(spark, name)
    _build(spark, place, snapshot, apply, others)
    in_place = apply(place)
    in_place.delete_gone(spark)  # the query may have deleted rows since the messages were read
    in_place.follow(spark, log.read_new(spark))
    for one in put_aside if snapshot is not None else ():
        Aside(one).finish(spark, sql("{own} AND recorded_at < {time}", own=is_of(*name), time=timestamp(started)))
    # A state that the query writes meanwhile may also be true of the new target.
    known.status.set_ok(spark, [name], (STALE,), reason=REBUILT)
    known.status.write(spark, stale)


def _build(
    spark: SparkSession,
    target: str,
    snapshot: DataFrame | None,
    apply: Callable[[str], object],
    others: DataFrame | None,
) -> None:
    """Build a table next to the target, and replace the target with it."""
    # Use a table of the catalog, because SQL cannot drop a table that is only a path.
    new = sibling(target, f"towpath_rebuild_{uuid4().hex}")
    try:
        if snapshot is not None:
            create_with(spark, new, as_oldest(snapshot, schema_of(spark, target)), TableSettings())
        apply(new)
        if schema_of(spark, new) is None:
            raise ValueError(f"{target}: the messages have no rows of the table")
        _replace(spark, target, new, others)
    finally:
        for name in (new, companion(new, "tombstones")):
            format_of(spark, name).drop(spark, name)


def _replace(spark: SparkSession, target: str, new: str, others: DataFrame | None) -> None:
    """Replace a target with a new table in one transaction. Append the new tombstones to the target's."""
    former = settings_of(spark, target, target) if schema_of(spark, target) is not None else {}
    of_user = {name: text for name, text in former.items() if not name.startswith(OWN)}
    of_table = {name: former[name] for name in (SOURCE, KEY) if name in former}
    settings = {PARTIAL: "false", **of_table, **settings_of(spark, new, target), **of_user}
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
    """Return the database and the name of a table."""
    if isinstance(name, str):
        return split_name(name)
    if not isinstance(name, tuple) or len(name) != 2 or not all(isinstance(one, str) for one in name):
        raise ValueError(f'source_table: expected "database.table" or a tuple of both, not {name!r}')
    return name
