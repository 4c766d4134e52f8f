"""Merges the changes of a table's rows into a Delta table.

There is one rule: a change is applied if it is newer than the last known change of its key. The position of that change
is stored next to each row, in the column `_towpath`, and for deleted rows in a table of tombstones. So a change that is
delivered again, or a range that is replayed, has no effect, with or without a checkpoint, and a batch that is retried
after a failure ends in the same state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from towpath.spark.lakehouse.columns import COORDINATES, POSITION, kafka_column, table_columns
from towpath.spark.lakehouse.dead_letters import dead_letter_rows, is_key_only, write_dead_letters
from towpath.spark.lakehouse.order import (
    is_missing,
    is_newer,
    newer_than_tombstones,
    newest_by_key,
    with_earlier_values,
    with_position,
)
from towpath.spark.lakehouse.sql import (
    Sql,
    column,
    comma_separated,
    equal_columns,
    execute,
    merge,
    sql,
    string,
    table,
)
from towpath.spark.lakehouse.tables import create_or_evolve, schema_of, temporary_view
from towpath.spark.lakehouse.targets import companion

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_REQUIRED = ("_op", "_sequence", "_event_time", "_error", "_corrupt_record")

_REJECTED = sql("(_error IS NOT NULL OR ({key_only} AND _op <> 'delete'))", key_only=is_key_only("_source"))
"""Rows without all values of the database's row. None of their values is written."""

_KEY_ONLY = (
    "missing",
    "the message has only the row's key (TiCDC's handle-key-only or claim-check): the rest is not in Kafka",
)


def apply_changes(
    changes: DataFrame,
    target: str,
    keys: Sequence[str] | None = None,
    *,
    dead_letters: str | None = None,
    evolve: bool = True,
    forget_after: str = "7 days",
    checkpoint: str | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery | None:
    """Apply the changes of one table to a Delta table, which is created if it does not exist.

    Args:
        changes: The result of `towpath.spark.decode(..., layout="upsert")`, batch or streaming. Keep Kafka's `topic`,
            `partition` and `offset`: they order the changes and identify dead letters. Columns that were appended to
            it are written too.
        target: The table's catalog name or path.
        keys: The columns of the primary key. None: as declared in the messages, if `changes` has the field
            `_primary_key`.
        dead_letters: Name or path of the table for rows that could not be decoded: the message, its topic,
            partition and offset, and the reason. Without it the first such row is an error.
        evolve: Whether columns may be added to the target, and types widened.
        forget_after: How long deleted keys are remembered, as an SQL interval. A message that is replayed
            later than this could restore a deleted row.
        checkpoint: The checkpoint folder of the stream. Only for a stream.
        trigger: Arguments of `DataStreamWriter.trigger`, such as `{"availableNow": True}`. Only for a stream.

    Returns:
        The started query, for a stream. A batch has been applied on return.

    Raises:
        ValueError: A column is missing, the key is not known, rows could not be decoded and there is no table for
            dead letters, or the target cannot store the columns without loss. A stream's query fails with it.
    """
    apply = applier(target, keys, dead_letters=dead_letters, evolve=evolve, forget_after=forget_after)
    return for_each_batch(changes, apply, checkpoint, trigger)


def applier(
    target: str,
    keys: Sequence[str] | None = None,
    *,
    dead_letters: str | None = None,
    evolve: bool = True,
    forget_after: str = "7 days",
) -> Applier:
    """The function for `DataStreamWriter.foreachBatch` that `apply_changes` uses; the arguments are the same."""
    return Applier(target, keys, dead_letters, evolve, forget_after)


def for_each_batch(
    frame: DataFrame, function: Any, checkpoint: str | None, trigger: Mapping[str, Any] | None
) -> StreamingQuery | None:
    """Call a function with a batch DataFrame, or with each micro-batch of a stream."""
    if not frame.isStreaming:
        function(frame, 0)
        return None
    if checkpoint is None:
        raise ValueError("checkpoint: a stream needs a folder for its checkpoint, or each start would read everything")
    writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", checkpoint)
    return (writer.trigger(**trigger) if trigger else writer).start()


class Applier:
    """Applies the changes of one table; a function for `foreachBatch`."""

    def __init__(
        self,
        target: str,
        keys: Sequence[str] | None,
        dead_letters: str | None = None,
        evolve: bool = True,
        forget_after: str = "7 days",
    ) -> None:
        if isinstance(keys, str):
            raise ValueError(f"keys: expected a sequence of column names, not the text {keys!r}")
        self._target = target
        self._tombstones = companion(target, "tombstones")
        self._keys = list(keys or ())
        self._dead_letters = dead_letters
        self._evolve = evolve
        self._forget_after = forget_after

    def __call__(self, batch: DataFrame, batch_id: int = 0) -> None:
        """Apply a batch of changes."""
        missing = [name for name in _REQUIRED if name not in batch.columns]
        if missing:
            raise ValueError(f'changes lacks the columns {", ".join(missing)}: decode with layout="upsert"')
        changes = with_position(batch).persist()
        try:
            self._apply(changes, batch_id)
        finally:
            changes.unpersist()

    def _apply(self, changes: DataFrame, batch_id: int) -> None:
        counts = _counts(changes)
        if counts["rejected"]:
            self._write_dead_letters(changes.filter(_REJECTED), counts["rejected"])
        if counts["accepted"]:
            accepted = changes.filter(f"NOT ({_REJECTED})")
            self._write(accepted, self._keys or _declared_keys(accepted, self._target), counts)
        if batch_id % 100 == 99:
            self._expire_tombstones(changes.sparkSession)

    def _write(self, accepted: DataFrame, keys: list[str], counts: Mapping[str, int]) -> None:
        spark, columns = accepted.sparkSession, table_columns(accepted)
        self._prepare_target(accepted, columns, keys)
        if counts["deletes"] or counts["truncates"]:
            self._prepare_tombstones(accepted, keys)
        if counts["truncates"]:
            self._truncate(accepted.filter("_op = 'truncate'"), keys)
        rows = accepted.filter("_op <> 'truncate'")
        rows = newest_by_key(with_earlier_values(rows, columns, keys) if counts["partial"] else rows, keys)
        if schema_of(spark, self._tombstones) is not None:
            rows = newer_than_tombstones(rows, spark.read.table(table(self._tombstones)), keys)
        rows = rows.persist()
        try:
            # Tombstones first: if the batch fails between the two writes, the retry finds the same deletes again.
            if counts["deletes"]:
                self._write_tombstones(rows.filter("_op = 'delete'"), keys)
            self._merge(rows, columns, keys)
        finally:
            rows.unpersist()

    def _prepare_target(self, accepted: DataFrame, columns: list[str], keys: list[str]) -> None:
        from pyspark.sql.types import StructType

        missing = [name for name in keys if name.lower() not in map(str.lower, columns)]
        if missing:
            raise ValueError(f"{self._target}: the key's columns {missing} are not among the columns {columns}")
        fields = StructType([accepted.schema[name] for name in (*columns, POSITION)])
        create_or_evolve(accepted.sparkSession, self._target, fields, evolve=self._evolve)

    def _prepare_tombstones(self, accepted: DataFrame, keys: list[str]) -> None:
        from pyspark.sql.types import BooleanType, StructField, StructType, TimestampType

        fields = [accepted.schema[name] for name in (*keys, POSITION)]
        flags = [StructField("truncated", BooleanType()), StructField("recorded_at", TimestampType())]
        create_or_evolve(accepted.sparkSession, self._tombstones, StructType([*fields, *flags]))

    def _truncate(self, truncates: DataFrame, keys: list[str]) -> None:
        """Delete the older rows, and write a tombstone for all keys."""
        spark = truncates.sparkSession
        with temporary_view(truncates) as view:
            position = column(POSITION)
            newest = sql(
                "SELECT max({position}) AS {position} FROM {view} GROUP BY {position}.stream",
                position=position,
                view=view,
            )
            nulls = comma_separated(sql("NULL AS {key}", key=column(key)) for key in keys)
            merge(
                spark,
                self._tombstones,
                _tombstone_rows(nulls, Sql("true"), sql("({newest})", newest=newest)),
                sql("t.truncated AND t.{position}.stream <=> s.{position}.stream", position=position),
                *_REPLACE_IF_NEWER,
            )
            merge(
                spark,
                self._target,
                sql("({newest})", newest=newest),
                sql("t.{position} IS NULL OR {newer}", position=position, newer=is_newer("s", "t")),
                Sql("WHEN MATCHED THEN DELETE"),
            )

    def _write_tombstones(self, deletes: DataFrame, keys: list[str]) -> None:
        with temporary_view(deletes) as view:
            merge(
                deletes.sparkSession,
                self._tombstones,
                _tombstone_rows(comma_separated(map(column, keys)), Sql("false"), view),
                sql("NOT t.truncated AND {same_key}", same_key=equal_columns(keys)),
                *_REPLACE_IF_NEWER,
            )

    def _merge(self, rows: DataFrame, columns: list[str], keys: list[str]) -> None:
        is_partial = "_missing_columns" in rows.columns
        written = [*columns, POSITION]
        updates = (_assignment(name, keep_missing=is_partial and name != POSITION) for name in written)
        with temporary_view(rows) as view:
            merge(
                rows.sparkSession,
                self._target,
                view,
                equal_columns(keys),
                sql("WHEN MATCHED AND {newer} AND s._op = 'delete' THEN DELETE", newer=is_newer("s", "t")),
                sql(
                    "WHEN MATCHED AND {newer} THEN UPDATE SET {updates}",
                    newer=is_newer("s", "t"),
                    updates=comma_separated(updates),
                ),
                sql(
                    "WHEN NOT MATCHED AND s._op <> 'delete' THEN INSERT ({names}) VALUES ({values})",
                    names=comma_separated(map(column, written)),
                    values=comma_separated(column("s", name) for name in written),
                ),
            )

    def _expire_tombstones(self, spark: SparkSession) -> None:
        if schema_of(spark, self._tombstones) is not None:
            template = "DELETE FROM {table} WHERE recorded_at < current_timestamp() - INTERVAL {age}"
            execute(spark, sql(template, table=table(self._tombstones), age=string(self._forget_after)))

    def _write_dead_letters(self, rejected: DataFrame, count: int) -> None:
        rows = dead_letter_rows(rejected, _message(rejected), "_error", _KEY_ONLY, self._target)
        write_dead_letters(rows, self._dead_letters, f"{self._target}: {count} rows cannot be applied")


_REPLACE_IF_NEWER = (
    sql("WHEN MATCHED AND {newer} THEN UPDATE SET *", newer=is_newer("s", "t")),
    Sql("WHEN NOT MATCHED THEN INSERT *"),
)


def _tombstone_rows(keys: Sql, truncated: Sql, source: Sql) -> Sql:
    template = "(SELECT {keys}, {position}, {truncated} AS truncated, current_timestamp() AS recorded_at FROM {source})"
    return sql(template, keys=keys, position=column(POSITION), truncated=truncated, source=source)


def _assignment(name: str, *, keep_missing: bool) -> Sql:
    """Assigns the new value to a column. A column that the row image does not have keeps its value."""
    t, s = column("t", name), column("s", name)
    if not keep_missing:
        return sql("{t} = {s}", t=t, s=s)
    return sql("{t} = IF({missing}, {t}, {s})", t=t, s=s, missing=is_missing(name, "s"))


def _counts(changes: DataFrame) -> dict[str, int]:
    missing = "_missing_columns" if "_missing_columns" in changes.columns else "array()"
    counted = changes.selectExpr(
        f"count_if({_REJECTED}) AS rejected",
        f"count_if(NOT {_REJECTED}) AS accepted",
        f"count_if(NOT {_REJECTED} AND _op = 'delete') AS deletes",
        f"count_if(NOT {_REJECTED} AND _op = 'truncate') AS truncates",
        f"count_if(NOT {_REJECTED} AND size({missing}) > 0) AS partial",
    ).first()
    return counted.asDict() if counted else {}


def _declared_keys(accepted: DataFrame, target: str) -> list[str]:
    if "_primary_key" not in accepted.columns:
        raise ValueError(f"{target}: keys: name the primary key's columns, or decode the field _primary_key too")
    found = [row[0] for row in accepted.filter("_op <> 'truncate'").select("_primary_key").distinct().collect()]
    if len(found) == 1 and found[0]:
        return list(found[0])
    raise ValueError(f"{target}: the messages' primary keys are {found}, not one; name its columns with keys")


def _message(rejected: DataFrame) -> dict[str, Column]:
    from pyspark.sql import functions as f

    value = f.coalesce(f.col("_corrupt_record"), kafka_column(rejected, "value").cast("binary"))
    row = f.col("_row") if "_row" in rejected.columns else f.lit(None).cast("int")
    coordinates = {name: kafka_column(rejected, name) for name in COORDINATES}
    return {"message": value, **coordinates, "row": row}
