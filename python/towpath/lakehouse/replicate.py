"""Replicates whole topics to Delta or Iceberg tables: each table in the messages, their DDL, and dead letters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from towpath.lakehouse import arguments
from towpath.lakehouse.batches import Replicator
from towpath.lakehouse.queries import for_each_batch
from towpath.lakehouse.reading.batch_messages import in_few_tasks
from towpath.lakehouse.reading.envelopes import read_envelopes
from towpath.lakehouse.replicate_options import ReplicateOptions
from towpath.lakehouse.snapshots import create_targets
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.targets import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType
    from typing_extensions import Unpack

    from towpath.arguments import ValueOptions
    from towpath.lakehouse.arguments import Place, Snapshot
    from towpath.lakehouse.replicate_options import (
        DdlPolicy,
        Keyless,
        Merge,
        OfStreamsOfTopics,
        OfTopics,
        OnTableError,
    )
    from towpath.lakehouse.seen.status import TableStatus
    from towpath.literals import Dialect


@overload
def replicate(
    messages: DataFrame,
    target: Target,
    dialect: Dialect = "auto",
    *,
    checkpoint: Place,
    **arguments: Unpack[OfStreamsOfTopics],
) -> StreamingQuery: ...


@overload
def replicate(
    messages: DataFrame,
    target: Target,
    dialect: Dialect = "auto",
    *,
    checkpoint: None = None,
    **arguments: Unpack[OfTopics],
) -> None: ...


def replicate(
    messages: DataFrame,
    target: Target,
    dialect: Dialect = "auto",
    *,
    checkpoint: Place | None = None,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    writer_options: Mapping[str, str] | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    schemas: Mapping[str, str | StructType] | None = None,
    table_options: Mapping[str, Mapping[str, Any]] | None = None,
    snapshots: Mapping[str, Snapshot] | None = None,
    ddl: Place | None = None,
    dead_letters: Place | None = None,
    quarantine: Place | None = None,
    status: Place | None = None,
    watermarks: Place | None = None,
    on_table_error: OnTableError = "quarantine",
    ddl_policy: DdlPolicy = "follow",
    keyless: Keyless = "quarantine",
    history: bool | Collection[str] = False,
    soft_deletes: str | None = None,
    columns: Mapping[str, Mapping[str, Any]] | None = None,
    evolve: bool = True,
    forget_after: str = "7 days",
    parallelism: int = 4,
    merge: Merge = "auto",
    storage_options: Mapping[str, str] | None = None,
    table_properties: Mapping[str, str] | None = None,
    cluster_by: Mapping[str, Sequence[str]] | None = None,
    optimize_every: int | None = 50,
    metrics: str | None = None,
    report: Callable[[Sequence[TableStatus]], object] | None = None,
    **options: Unpack[ValueOptions],
) -> StreamingQuery | None:
    """Maintain a Delta or Iceberg table for every table whose changes are in the messages.

    New targets get the types that the messages declare. Targets follow the declarations: they gain the columns that the
    source adds, and their types are widened as at the source. A table is quarantined if applying a change would lose
    data or the key is unknown; the other tables continue.

    Args:
        messages: A DataFrame with the columns of Kafka's source, batch or streaming.
        target: The target of each table: a text or `pathlib.Path` with `{database}`, `{table}` and `{topic}`, either a
            catalog name ("lake.{table}", an Iceberg table if the catalog is an Iceberg catalog) or the path of a Delta
            table ("/lake/{database}/{table}"); or a mapping from "database.table" to the target, which skips other
            tables; or a function of database and table that returns the target, or None to skip it. A key of the
            mapping may be a compiled regular expression that matches the whole name: its target may contain the
            placeholders, and the expression's named groups as placeholders too.
        dialect: As for `towpath.Decoder`.
        checkpoint: Checkpoint folder of the stream. Only for a stream.
        trigger: Arguments of `DataStreamWriter.trigger`, such as `{"availableNow": True}`. Only for a stream.
        query_name: Name of the streaming query.
        writer_options: Options of the `DataStreamWriter`.
        keys: `{"database.table": [columns]}` for tables whose messages do not declare their primary key.
        schemas: `{"database.table": columns}` for tables whose messages do not declare column types, or whose types you
            want to override.
        table_options: `{"database.table": {option: value}}`: arguments of `towpath.Decoder` for one table, such as
            `labels` and `column_types`.
        snapshots: `{"database.table": rows}`: DataFrames with the rows of tables, for example from JDBC or a dump, or
            functions that return them. Targets that do not exist are created with these rows before any message is
            read. The messages must begin before the snapshots were taken. Columns get the types in `schemas`, if given.
        ddl: Name or path of the table for DDL statements.
        dead_letters: Name or path of the table for messages and rows that could not be decoded. Without this table the
            first of them raises an error.
        quarantine: Name or path of the table for the messages of tables whose changes cannot be applied. Defaults to a
            table next to `dead_letters`. Without both, such a table raises an error after the others have been applied.
        status: Name or path of the table with the state of each target.
        watermarks: Name or path of the table for TiCDC's watermarks: for each partition the time up to which all
            changes have been applied. A change below the watermark that TiCDC sends again is skipped.
        on_table_error: "quarantine", or "fail": a table whose changes cannot be applied raises an error.
        ddl_policy: "follow": DDL statements change the targets like the source tables; this needs the package sqlglot.
            "ignore": they do not. A target that no longer equals its source is `stale` in `status`.
        keyless: How to handle tables without a primary key: "quarantine", or "append": their targets are histories,
            with a row for each change and the columns of a `history`.
        history: Whether to also append every change to a table next to its target, `<target>__history`: True for all
            tables, or the names of some tables, such as "shop.orders". A history has the table's columns, `_op`,
            `_event_time` and `_missing_columns` (the columns that a row lacks). `towpath.spark.versions` derives the
            versions of each row from it.
        soft_deletes: Name of a timestamp column to add to the targets. Deleted rows then stay, with the event time of
            their deletion in this column. It is null in all other rows.
        columns: `{"database.table": {"include": [names], "exclude": [names], "mask": {name: expression}}}`: the columns
            that a target gets, and SQL expressions of `value` for masked columns, such as "sha2(value, 256)". It needs
            `status`. `dead_letters` and `quarantine` still store whole messages.
        evolve: Whether to alter targets to fit the declared columns.
        forget_after: How long to remember deleted keys.
        parallelism: Number of tables that are merged at the same time.
        merge: "auto": a task of Spark owns and merges a Delta table if the workers' Python has the package deltalake,
            the table is not too large, and nothing needs Spark's MERGE (histories, soft deletes, masks). The table must
            be in a local folder, or on HDFS, ABFS or GCS with `storage_options`. "task": also on S3, where no other
            driver may write the targets at the same time. "spark": Spark's MERGE writes all targets.
        storage_options: Options of delta-rs on the workers to open the targets in a store, such as
            `{"aws_region": "eu-central-1"}`. delta-rs finds others in the environment of the workers.
        table_properties: Properties of new targets, in addition to towpath's own.
        cluster_by: `{"database.table": [columns]}`: clustering columns of new Delta tables.
        optimize_every: Compact a target's files after this number of batches (OPTIMIZE, or Iceberg's
            `rewrite_data_files`), since each batch adds small files. delta-rs compacts a small target when it has more
            than ten files, or more than this number. None means never.
        metrics: Name of the observation with the metrics of reading envelopes, as for `towpath.spark.decode`.
        report: Function that the driver calls at the end of each batch with the `TableStatus` of each changed table:
            the results of the batch, as one row of `status`. A repeated batch is reported again. Dead letters of
            messages that name no table are reported for a table with an empty name.
        **options: Arguments of `towpath.Decoder` that select messages and convert values, such as `time_zone` and
            `zero_date`, for all tables.

    Returns:
        The started query for a stream. None for a batch, which has then been applied.

    Raises:
        ValueError: An argument is wrong; changes of a table cannot be applied and it may not be quarantined; or a
            message or row could not be decoded and no table for dead letters is given.
    """
    given = ReplicateOptions.of(**locals())
    query = arguments.query("messages", messages, checkpoint, trigger, query_name, writer_options)
    arguments.check_age(messages.sparkSession, forget_after)
    # An observation must be in the plan of the stream. Without it, envelopes are read from each batch, in few tasks.
    events = read_envelopes(messages, dialect, metrics, **options)
    known = KnownTargets(given.targets(target, arguments.place("checkpoint", checkpoint)), given)
    if given.snapshots:
        create_targets(messages.sparkSession, known)
    apply = Replicator(known)
    if metrics is not None:
        return for_each_batch(events, apply, query)

    def read_and_apply(batch: DataFrame, batch_id: int) -> None:
        read = partial(read_envelopes, in_few_tasks(batch), dialect, None, **options)
        apply.apply(batch.sparkSession, read, batch_id)

    return for_each_batch(messages, read_and_apply, query)
