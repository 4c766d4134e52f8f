"""The order of changes: the source position of each change, and which of two changes is newer.

TiDB's commit timestamps order all changes. Kafka's offsets order the changes of one partition as they arrived; within a
partition, binlog positions identify changes that were delivered again. Changes from different partitions are ordered by
event time, which matters for a key that is in both, as after a change of the number of partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from towpath.spark.lakehouse.columns import POSITION, kafka_column
from towpath.spark.lakehouse.sql import Sql, column, equal_columns, sql, string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_SOURCE = (
    "struct<commit_ts:bigint,server_id:bigint,file:string,position:bigint,handle_key_only:boolean,claim_check:string>"
)
_BINLOG_FILE = "^(.*)[.]([0-9]+)$"

_UNBOUNDED = -(2**63)
"""Spark's `Window.unboundedPreceding`."""


def with_position(changes: DataFrame) -> DataFrame:
    """Add the source position of each change: stream, sequence in the stream, and binlog position if there is one."""
    from pyspark.sql import functions as f

    if "_source" not in changes.columns:
        changes = changes.withColumn("_source", f.lit(None).cast(_SOURCE))
    partition = f.concat_ws("/", kafka_column(changes, "topic"), kafka_column(changes, "partition"))
    has_commit_ts = f.col("_source.commit_ts").isNotNull()
    number = f.expr(sql("try_cast(regexp_extract(_source.file, {file}, 2) AS bigint)", file=string(_BINLOG_FILE)))
    binlog = f.concat_ws("/", "_source.server_id", f.regexp_extract("_source.file", _BINLOG_FILE, 1))
    in_binlog = ~has_commit_ts & number.isNotNull() & f.col("_source.position").isNotNull()
    position = f.struct(
        f.when(has_commit_ts, "").otherwise(partition).alias("stream"),
        f.col("_sequence").alias("sequence"),
        f.when(in_binlog, binlog).alias("binlog"),
        f.when(in_binlog, f.struct(number.alias("file"), f.col("_source.position").alias("position"))).alias("at"),
        f.col("_event_time").alias("event_time"),
    )
    return changes.withColumn(POSITION, position)


def without_position(schema: StructType) -> StructType:
    """The schema of a target table without the position column."""
    from pyspark.sql.types import StructType

    return StructType([field for field in schema if field.name != POSITION])


def is_newer(one: str, other: str) -> Sql:
    """True if the change of one alias is newer than that of the other. A row without a position is the oldest.

    A lower position in the same binlog belongs to a change that was delivered again, unless its event time is later:
    then the server's binlogs were reset.
    """
    return sql(
        "({other} IS NULL OR CASE WHEN {one}.binlog = {other}.binlog AND {one}.at > {other}.at THEN true "
        "WHEN {one}.binlog = {other}.binlog AND {one}.at < {other}.at "
        "THEN coalesce({one}.event_time > {other}.event_time, true) "
        "WHEN {one}.stream = {other}.stream THEN {one}.sequence > {other}.sequence "
        "ELSE coalesce({one}.event_time >= {other}.event_time, true) END)",
        one=column(one, POSITION),
        other=column(other, POSITION),
    )


def newest_by_key(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """One row per key: the newest, without changes that were delivered again."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    key, stream = [f.col(column(name)) for name in keys], f.col(column(POSITION, "stream"))
    in_binlog = Window.partitionBy(*key, stream, f.col(column(POSITION, "binlog"))).orderBy(f"{POSITION}.sequence")
    before = f.max(f.struct(f"{POSITION}.at", f"{POSITION}.event_time")).over(in_binlog.rowsBetween(_UNBOUNDED, -1))
    repeated = f"_before.at > {POSITION}.at AND coalesce(_before.event_time >= {POSITION}.event_time, false)"
    in_stream = Window.partitionBy(*key, stream).orderBy(f.desc(f"{POSITION}.sequence"))
    over_streams = Window.partitionBy(*key).orderBy(f.desc(f"{POSITION}.event_time"), f.desc(f.col("_op") == "delete"))
    # One repartitioning by key serves all three windows.
    newest = changes.repartition(*key).withColumn("_before", before)
    newest = newest.filter(f"NOT coalesce({repeated}, false)").drop("_before")
    for window in (in_stream, over_streams):
        newest = newest.withColumn("_rank", f.row_number().over(window)).filter("_rank = 1").drop("_rank")
    return newest


def with_earlier_values(changes: DataFrame, columns: Sequence[str], keys: Sequence[str]) -> DataFrame:
    """Fill columns that are missing in partial row images (`binlog_row_image=minimal`) from earlier rows of the key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    key = [f.col(column(name)) for name in keys]
    window = Window.partitionBy(*key, f"{POSITION}.stream").orderBy(f"{POSITION}.sequence")
    until_row = window.rowsBetween(_UNBOUNDED, 0)
    is_present = {name: f.expr(sql("NOT coalesce({missing}, false)", missing=is_missing(name))) for name in columns}
    # Wrapped in a struct, since the newest value may be null.
    newest = {
        name: f.last(f.when(is_present[name], f.struct(f.col(column(name)).alias("v"))), ignorenulls=True).over(
            until_row
        )
        for name in columns
        if name not in keys
    }
    found = changes.repartition(*key).select("*", *(value.alias(f"_newest_{name}") for name, value in newest.items()))
    values = {name: f.col(column(f"_newest_{name}")) for name in newest}
    still_missing = f.array(*(f.when(value.isNull(), f.lit(name)) for name, value in values.items()))
    return found.withColumns(
        {**{name: value["v"] for name, value in values.items()}, "_missing_columns": f.array_compact(still_missing)}
    ).drop(*(f"_newest_{name}" for name in newest))


def is_missing(name: str, alias: str | None = None) -> Sql:
    """True if the row image does not have the column."""
    path = [alias, "_missing_columns"] if alias else ["_missing_columns"]
    return sql("array_contains({columns}, {name})", columns=column(*path), name=string(name))


def newer_than_tombstones(changes: DataFrame, tombstones: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Without changes that are older than the deletion of their key, or than a truncation of the table."""
    from pyspark.sql import functions as f

    s, t = changes.alias("s"), tombstones.alias("t")
    # A delete equal to its tombstone is kept: its batch may have failed before the delete reached the table.
    older = sql(
        "NOT ({newer} OR {t} <=> {s})", newer=is_newer("s", "t"), t=column("t", POSITION), s=column("s", POSITION)
    )
    of_key = s.join(t.filter("NOT truncated"), f.expr(equal_columns(keys)) & f.expr(older), "left_anti").alias("s")
    not_newer = sql("NOT {newer}", newer=is_newer("s", "t"))
    return of_key.join(f.broadcast(t.filter("truncated")), f.expr(not_newer), "left_anti")
