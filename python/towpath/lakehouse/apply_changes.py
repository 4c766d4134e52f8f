"""Applies decoded changes of one table to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from towpath.lakehouse import arguments
from towpath.lakehouse.merging.jobs import UNKNOWN_SIZE, batch_settings, session_settings, settings_for
from towpath.lakehouse.merging.staging import Changes
from towpath.lakehouse.merging.tasks import SPARK
from towpath.lakehouse.queries import for_each_batch
from towpath.lakehouse.reading.changes import has_offsets, structured
from towpath.lakehouse.replicate_options import OfOneTable, ReplicateOptions
from towpath.lakehouse.seen.status import REMOVED, STALE, TableStatus
from towpath.lakehouse.tables.known_targets import KnownTargets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from typing_extensions import Unpack

    from towpath.lakehouse.arguments import Place
    from towpath.lakehouse.replicate_options import OfOneStream


@overload
def apply_changes(
    changes: DataFrame,
    target: Place,
    keys: Sequence[str] | None = None,
    *,
    checkpoint: Place,
    **arguments: Unpack[OfOneStream],
) -> StreamingQuery: ...


@overload
def apply_changes(
    changes: DataFrame,
    target: Place,
    keys: Sequence[str] | None = None,
    *,
    checkpoint: None = None,
    **arguments: Unpack[OfOneTable],
) -> None: ...


def apply_changes(
    changes: DataFrame,
    target: Place,
    keys: Sequence[str] | None = None,
    *,
    dead_letters: Place | None = None,
    status: Place | None = None,
    evolve: bool = True,
    forget_after: str = "7 days",
    table_properties: Mapping[str, str] | None = None,
    cluster_by: Sequence[str] = (),
    optimize_every: int | None = 50,
    soft_deletes: str | None = None,
    checkpoint: Place | None = None,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    writer_options: Mapping[str, str] | None = None,
) -> StreamingQuery | None:
    """Apply the changes of one table to a Delta or Iceberg table. Create the table if it does not exist.

    Args:
        changes: Result of `towpath.spark.decode(..., layout="upsert")`, batch or streaming. Keep Kafka's `topic`,
            `partition`, `offset` and `timestamp`: they order the changes and identify dead letters. Columns that you
            append are written too.
        target: Catalog name of the table, or path of a Delta table.
        keys: Columns of the primary key. Defaults to the key that the messages declare, if `changes` has the field
            `_primary_key`.
        dead_letters: Name or path of the table for rows that could not be decoded: the message, its topic, partition,
            offset and timestamp, and the reason. Without this table the first such row raises an error.
        status: Name or path of the table with the state of each target, as for `replicate`. The target's row has no
            database, and the target as the table.
        evolve: Whether to add columns to the target and widen its types.
        forget_after: How long to remember deleted keys, as an SQL interval. A message that is replayed later could
            restore a deleted row.
        table_properties: Properties of a new target, in addition to towpath's own.
        cluster_by: Clustering columns of a new Delta table.
        optimize_every: Compact the target's files after this number of batches (OPTIMIZE, or Iceberg's
            `rewrite_data_files`), since each batch adds small files. None means never.
        soft_deletes: Name of a timestamp column to add to the target. Deleted rows then stay, with the event time of
            their deletion in this column. It is null in all other rows.
        checkpoint: Checkpoint folder of the stream. Only for a stream.
        trigger: Arguments of `DataStreamWriter.trigger`, such as `{"availableNow": True}`. Only for a stream.
        query_name: Name of the streaming query.
        writer_options: Options of the `DataStreamWriter`.

    Returns:
        The started query for a stream. None for a batch, which has then been applied.

    Raises:
        ValueError: An argument is wrong, a column is missing, nothing orders a stream's changes, the key is unknown,
            rows could not be decoded and no table for dead letters is given, or the target cannot store the columns
            without loss. Only a batch raises the last two: in a stream the query fails with them.
    """
    given: Any = {name: value for name, value in locals().items() if name in OfOneTable.__annotations__}
    query = arguments.query("changes", changes, checkpoint, trigger, query_name, writer_options)
    apply = applier(target, keys, **given)
    arguments.check_changes(changes, keys or (), soft_deletes)
    arguments.check_age(changes.sparkSession, forget_after)
    return for_each_batch(changes, apply, query)


def applier(target: Place, keys: Sequence[str] | None = None, **options: Unpack[OfOneTable]) -> ForEachBatch:
    """Return the function that `apply_changes` passes to `DataStreamWriter.foreachBatch`, for the same arguments.

    Raises:
        ValueError: An argument is wrong.
        TypeError: An argument is unknown.
    """
    if unknown := options.keys() - OfOneTable.__annotations__.keys():
        raise TypeError(f"applier() got an unexpected keyword argument {min(unknown)!r}")
    cluster_by = arguments.columns("cluster_by", options.pop("cluster_by", ()))
    given = ReplicateOptions.of("auto", {}, merge=SPARK, **options)
    place = arguments.target(target)
    known = KnownTargets(given.targets(lambda *_: place), given)
    known.applier(place).writer.settings = replace(given.settings, cluster_by=tuple(cluster_by))
    return ForEachBatch(known, place, arguments.columns("keys", keys))


class ForEachBatch:
    """Function for `foreachBatch` that applies batches of decoded changes to a target."""

    def __init__(self, known: KnownTargets, target: str, keys: list[str]) -> None:
        self._known, self._target, self._keys = known, target, keys

    def __call__(self, batch: DataFrame, batch_id: int = 0) -> None:
        """Apply a batch of decoded changes."""
        arguments.check_decoded(batch)
        changes = structured(batch)
        if not has_offsets(batch):
            _check_order(changes, self._target)
        spark = batch.sparkSession
        with session_settings(spark, batch_settings(spark)):
            self._apply_batch(spark, changes, batch_id)

    def _apply_batch(self, spark: SparkSession, changes: DataFrame, batch_id: int) -> None:
        status, applier = self._known.status, self._known.applier(self._target)
        self._known.begin(spark, batch_id)
        if self._known.options.status and self._known.is_removed(spark, self._target):
            status.write(spark, [TableStatus(None, self._target, self._target, STALE, REMOVED)])
        changes = changes.persist()
        try:
            keys = self._keys or _declared_keys(changes, self._target)
            with session_settings(spark, settings_for(spark, UNKNOWN_SIZE)):
                applied = applier.apply(Changes(changes, keys), batch_id)
        finally:
            changes.unpersist()
        target = self._target if applier.writer.table.schema(spark) is not None else None
        status.write(spark, [TableStatus.of(None, self._target, target, applied)], batch_id)


def _check_order(changes: DataFrame, target: str) -> None:
    unordered = changes.filter("source.commit_ts IS NULL AND source.position IS NULL").limit(1).collect()
    if unordered:
        raise ValueError(
            f"{target}: these changes have no order across batches; decode with "
            'keep=["topic", "partition", "offset", "timestamp"]'
        )


def _declared_keys(changes: DataFrame, target: str) -> list[str]:
    if "primary_key" not in changes.columns:
        raise ValueError(f"{target}: keys: give the columns of the primary key, or decode the field _primary_key")
    rows = changes.filter("op <> 'truncate' AND primary_key IS NOT NULL")
    found = [row[0] for row in rows.select("primary_key").distinct().collect()]
    if len(found) == 1 and found[0]:
        return list(found[0])
    raise ValueError(f"{target}: expected one primary key in the messages, not {found}; set keys to its columns")
