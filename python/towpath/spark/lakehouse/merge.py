"""Changes of a table's rows into the table of a lakehouse.

The rule is one: a change is applied if it is newer than what is known of its key. What is known stands beside each row,
in its column `_towpath`, and for rows that were deleted in a table of tombstones. So a change that arrives twice, or a
whole range that is replayed, changes nothing, with or without a checkpoint, and a batch that is run again after a crash
ends where it would have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from towpath.spark.letters import bury, key_only, letters
from towpath.spark.tables import beside, columns_of, identifier, prepare, quoted, view

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

PLACE = "_towpath"
"""The column that says where the change came from that made a row what it is."""

_ENVELOPE = frozenset(
    "_" + name
    for name in [
        "op",
        "database",
        "schema",
        "table",
        "primary_key",
        "changed",
        "missing_columns",
        "event_time",
        "produced_time",
        "sql",
        "table_changes",
        "column_types",
        "jdbc_types",
        "source",
        "row",
        "sequence",
        "error",
        "corrupt_record",
    ]
)
_KAFKA = frozenset(["topic", "partition", "offset", "timestamp", "timestampType", "headers", "key", "value"])
_NOW = "current_timestamp() AS recorded_at"
_REQUIRED = ("_op", "_sequence", "_event_time", "_error", "_corrupt_record")


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
    """Apply the changes of one table to a Delta table, which is made if it is not there.

    Args:
        changes: What `towpath.spark.decode(..., layout="upsert")` gave, batch or streaming. Keep Kafka's `topic`,
            `partition` and `offset`: they order the changes, and dead letters are found again by them. Columns that
            were added to it are written too.
        target: The table's name in a catalog, or its path.
        keys: The primary key's columns. None: as the messages say, if `changes` has the field `_primary_key`.
        dead_letters: Name or path of the table for rows that could not be decoded: the message, its topic,
            partition and offset, and what is wrong with it. Without it such a row stops everything.
        evolve: Whether columns may be added to the target, and types widened, when `changes` has others.
        forget_after: How long deleted keys are remembered, as SQL says intervals. A message that is replayed
            later than this could bring a deleted row back.
        checkpoint: The folder of the stream's checkpoint. Only for a stream.
        trigger: What `DataStreamWriter.trigger` takes, such as `{"availableNow": True}`. Only for a stream.

    Returns:
        The query that was started, for a stream. A batch has been applied on return.

    Raises:
        ValueError: A column is missing, the key is not known, rows could not be decoded and there is no table for
            dead letters, or the target cannot take the columns without loss. A stream's query fails with it.
    """
    apply = applier(target, keys, dead_letters=dead_letters, evolve=evolve, forget_after=forget_after)
    return run(changes, apply, checkpoint, trigger)


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


def run(
    frame: DataFrame, function: Any, checkpoint: str | None, trigger: Mapping[str, Any] | None
) -> StreamingQuery | None:
    """Call a function with a batch, or with each batch of a stream."""
    if not frame.isStreaming:
        function(frame, 0)
        return None
    if checkpoint is None:
        raise ValueError("checkpoint: a stream needs a folder for its checkpoint, or it would begin anew at each start")
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
        self._tombstones = beside(target, "tombstones")
        self._keys = list(keys or ())
        self._dead_letters = dead_letters
        self._evolve = evolve
        self._forget_after = forget_after

    def __call__(self, batch: DataFrame, batch_id: int = 0) -> None:
        """Apply a batch of changes."""
        lacking = [name for name in _REQUIRED if name not in batch.columns]
        if lacking:
            raise ValueError(f'changes lacks the columns {", ".join(lacking)}: decode with layout="upsert"')
        changes = _placed(batch).persist()
        try:
            self._apply(changes, batch_id)
        finally:
            changes.unpersist()

    def _apply(self, changes: DataFrame, batch_id: int) -> None:
        counts = _counts(changes)
        if counts["refused"]:
            self._bury(changes.filter(_REFUSED), counts["refused"])
        if counts["sound"]:
            sound = changes.filter(f"NOT ({_REFUSED})")
            self._bring_in(sound, self._keys or _declared_keys(sound, self._target), counts)
        if batch_id % 100 == 99:
            self._forget(changes.sparkSession)

    def _bring_in(self, sound: DataFrame, keys: list[str], counts: Mapping[str, int]) -> None:
        spark, columns = sound.sparkSession, _table_columns(sound)
        self._prepare(sound, columns, keys)
        if counts["deletes"] or counts["truncates"]:
            self._prepare_tombstones(sound, keys)
        if counts["truncates"]:
            self._truncate(sound.filter("_op = 'truncate'"), keys)
        rows = sound.filter("_op <> 'truncate'")
        rows = _newest(_completed(rows, columns, keys) if counts["partial"] else rows, keys)
        if columns_of(spark, self._tombstones) is not None:
            rows = _unknown_to(spark.read.table(identifier(self._tombstones)), rows, keys)
        rows = rows.persist()
        try:
            # Tombstones first: should the run end between the two, the next one finds the same deletes again.
            if counts["deletes"]:
                self._entomb(rows.filter("_op = 'delete'"), keys)
            self._merge(rows, columns, keys)
        finally:
            rows.unpersist()

    def _prepare(self, sound: DataFrame, columns: list[str], keys: list[str]) -> None:
        from pyspark.sql.types import StructType

        lacking = [name for name in keys if name.lower() not in map(str.lower, columns)]
        if lacking:
            raise ValueError(f"{self._target}: the key's columns {lacking} are not among the columns {columns}")
        fields = StructType([sound.schema[name] for name in (*columns, PLACE)])
        prepare(sound.sparkSession, self._target, fields, evolve=self._evolve)

    def _prepare_tombstones(self, sound: DataFrame, keys: list[str]) -> None:
        from pyspark.sql.types import BooleanType, StructField, StructType, TimestampType

        known = [sound.schema[name] for name in (*keys, PLACE)]
        marks = [StructField("truncated", BooleanType()), StructField("recorded_at", TimestampType())]
        prepare(sound.sparkSession, self._tombstones, StructType([*known, *marks]))

    def _truncate(self, truncates: DataFrame, keys: list[str]) -> None:
        """Takes out what is older, and remembers it."""
        spark = truncates.sparkSession
        nulls = ", ".join(f"NULL AS {quoted(key)}" for key in keys)
        with view(truncates) as name:
            newest = f"SELECT max({PLACE}) AS {PLACE} FROM {name} GROUP BY {PLACE}.stream"
            spark.sql(
                f"MERGE INTO {identifier(self._tombstones)} t "
                f"USING (SELECT {nulls}, {PLACE}, true AS truncated, {_NOW} FROM ({newest})) s "
                f"ON t.truncated AND t.{PLACE}.stream <=> s.{PLACE}.stream "
                f"WHEN MATCHED AND {_newer('s', 't')} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
            spark.sql(
                f"MERGE INTO {identifier(self._target)} t USING ({newest}) s "
                f"ON t.{PLACE} IS NULL OR {_newer('s', 't')} WHEN MATCHED THEN DELETE"
            )

    def _entomb(self, deletes: DataFrame, keys: list[str]) -> None:
        """Remembers which keys were deleted, and when."""
        listed = ", ".join(map(quoted, keys))
        with view(deletes) as name:
            deletes.sparkSession.sql(
                f"MERGE INTO {identifier(self._tombstones)} t "
                f"USING (SELECT {listed}, {PLACE}, false AS truncated, {_NOW} FROM {name}) s "
                f"ON NOT t.truncated AND {_same_key(keys)} "
                f"WHEN MATCHED AND {_newer('s', 't')} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

    def _merge(self, rows: DataFrame, columns: list[str], keys: list[str]) -> None:
        written = [*columns, PLACE]
        # A column that the message does not carry stays as it is.
        lacks = "s._missing_columns" if "_missing_columns" in rows.columns else "NULL"
        kept = {
            name: f"IF(array_contains({lacks}, {_text(name)}), t.{quoted(name)}, s.{quoted(name)})"
            if lacks != "NULL" and name != PLACE
            else f"s.{quoted(name)}"
            for name in written
        }
        updates = ", ".join(f"t.{quoted(name)} = {value}" for name, value in kept.items())
        names, values = ", ".join(map(quoted, written)), ", ".join(f"s.{quoted(name)}" for name in written)
        with view(rows) as name:
            rows.sparkSession.sql(
                f"MERGE INTO {identifier(self._target)} t USING {name} s ON {_same_key(keys)} "
                f"WHEN MATCHED AND {_newer('s', 't')} AND s._op = 'delete' THEN DELETE "
                f"WHEN MATCHED AND {_newer('s', 't')} THEN UPDATE SET {updates} "
                f"WHEN NOT MATCHED AND s._op <> 'delete' THEN INSERT ({names}) VALUES ({values})"
            )

    def _forget(self, spark: SparkSession) -> None:
        if columns_of(spark, self._tombstones) is not None:
            old = f"recorded_at < current_timestamp() - INTERVAL {_text(self._forget_after)}"
            spark.sql(f"DELETE FROM {identifier(self._tombstones)} WHERE {old}")

    def _bury(self, refused: DataFrame, count: int) -> None:
        dead = letters(refused, _message(refused), "_error", _KEY_ONLY, self._target)
        bury(dead, self._dead_letters, f"{self._target}: {count} rows cannot be applied")


def without_place(columns: StructType) -> StructType:
    """The columns of a target that are the table's own."""
    from pyspark.sql.types import StructType

    return StructType([field for field in columns if field.name != PLACE])


_REFUSED = f"(_error IS NOT NULL OR ({key_only('_source')} AND _op <> 'delete'))"
"""Rows that do not say what the database's row is: some value is missing, so none is written."""
_KEY_ONLY = (
    "missing",
    "the message has only the row's key (TiCDC's handle-key-only or claim-check): the rest is not in Kafka",
)


def _placed(batch: DataFrame) -> DataFrame:
    """The rows with the place each change has: the stream it came in, its order there, and the binlog's position.

    TiDB's commit times order all changes. Kafka's offsets order those of one partition, in the order in which they
    arrived; a position tells of those the ones that arrived again. What comes from different partitions is ordered
    by when it happened, for a key that is in both, as after a change of the number of partitions.
    """
    from pyspark.sql import functions as f

    if "_source" not in batch.columns:
        batch = batch.withColumn("_source", f.lit(None).cast(_SOURCE))
    partition = f.concat_ws("/", kafka_column(batch, "topic"), kafka_column(batch, "partition"))
    by_time = f.col("_source.commit_ts").isNotNull()
    number = f.expr(f"try_cast(regexp_extract(_source.file, '{_BINLOG}', 2) AS bigint)")
    binlog = f.concat_ws("/", "_source.server_id", f.regexp_extract("_source.file", _BINLOG, 1))
    located = ~by_time & number.isNotNull() & f.col("_source.position").isNotNull()
    place = f.struct(
        f.when(by_time, "").otherwise(partition).alias("stream"),
        f.col("_sequence").alias("sequence"),
        f.when(located, binlog).alias("binlog"),
        f.when(located, f.struct(number.alias("file"), f.col("_source.position").alias("position"))).alias("at"),
        f.col("_event_time").alias("event_time"),
    )
    return batch.withColumn(PLACE, place)


_SOURCE = (
    "struct<commit_ts:bigint,server_id:bigint,file:string,position:bigint,handle_key_only:boolean,claim_check:string>"
)
_BINLOG = "^(.*)[.]([0-9]+)$"


def kafka_column(frame: DataFrame, name: str) -> Column:
    """One of Kafka's own columns, if it was kept, else nulls. A table's column of that name is not meant."""
    from pyspark.sql import functions as f

    trailing = frame.columns[_first_envelope(frame) :]
    for kept in (f"_{name}", name):
        if kept in trailing:
            return f.col(quoted(kept))
    return f.lit(None).cast(_KAFKA_TYPES[name])


_KAFKA_TYPES = {"topic": "string", "partition": "int", "offset": "bigint", "value": "binary"}


def _first_envelope(frame: DataFrame) -> int:
    """Where the table's own columns end: envelope columns, but `_op`, and what was kept stand behind them."""
    return min(at for at, name in enumerate(frame.columns) if name in _ENVELOPE and name != "_op")


def _table_columns(frame: DataFrame) -> list[str]:
    """The columns to write: the table's own, and those that were added behind."""
    end = _first_envelope(frame)
    own = [name for name in frame.columns[:end] if name != "_op"]
    mine = _ENVELOPE | _KAFKA | {f"_{name}" for name in _KAFKA} | {PLACE}
    return own + [name for name in frame.columns[end:] if name not in mine]


def _counts(changes: DataFrame) -> dict[str, int]:
    missing = "_missing_columns" if "_missing_columns" in changes.columns else "array()"
    counted = changes.selectExpr(
        f"count_if({_REFUSED}) AS refused",
        f"count_if(NOT {_REFUSED}) AS sound",
        f"count_if(NOT {_REFUSED} AND _op = 'delete') AS deletes",
        f"count_if(NOT {_REFUSED} AND _op = 'truncate') AS truncates",
        f"count_if(NOT {_REFUSED} AND size({missing}) > 0) AS partial",
    ).first()
    return counted.asDict() if counted else {}


def _declared_keys(sound: DataFrame, target: str) -> list[str]:
    if "_primary_key" not in sound.columns:
        raise ValueError(f"{target}: keys: name the primary key's columns, or decode the field _primary_key too")
    found = [row[0] for row in sound.filter("_op <> 'truncate'").select("_primary_key").distinct().collect()]
    if len(found) == 1 and found[0]:
        return list(found[0])
    raise ValueError(f"{target}: the messages' primary keys are {found}, not one; name its columns with keys")


def _completed(changes: DataFrame, columns: list[str], keys: list[str]) -> DataFrame:
    """Rows that lack columns, as of a source that logs only what changed, with these as earlier rows have them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    key = [f.col(quoted(name)) for name in keys]
    so_far = Window.partitionBy(*key, f"{PLACE}.stream").orderBy(f"{PLACE}.sequence").rowsBetween(_START, 0)
    has = {name: f.expr(f"NOT coalesce(array_contains(_missing_columns, {_text(name)}), false)") for name in columns}
    # A struct, as the newest value may be null.
    newest = {
        name: f.last(f.when(has[name], f.struct(f.col(quoted(name)).alias("v"))), ignorenulls=True).over(so_far)
        for name in columns
        if name not in keys
    }
    found = changes.repartition(*key).select("*", *(value.alias(f"_newest_{name}") for name, value in newest.items()))
    values = {name: f.col(quoted(f"_newest_{name}")) for name in newest}
    lacking = f.array(*(f.when(value.isNull(), f.lit(name)) for name, value in values.items()))
    return found.withColumns(
        {**{name: value["v"] for name, value in values.items()}, "_missing_columns": f.array_compact(lacking)}
    ).drop(*(f"_newest_{name}" for name in newest))


def _newest(changes: DataFrame, keys: list[str]) -> DataFrame:
    """One row for each key: the one that arrived last in its stream, of those that did not arrive again."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    columns, stream = [f.col(quoted(key)) for key in keys], f.col(f"{PLACE}.stream")
    in_binlog = Window.partitionBy(*columns, stream, f.col(f"{PLACE}.binlog")).orderBy(f"{PLACE}.sequence")
    before = f.max(f.struct(f"{PLACE}.at", f"{PLACE}.event_time")).over(in_binlog.rowsBetween(_START, -1))
    again = f"_before.at > {PLACE}.at AND coalesce(_before.event_time >= {PLACE}.event_time, false)"
    in_stream = Window.partitionBy(*columns, stream).orderBy(f.desc(f"{PLACE}.sequence"))
    of_all = Window.partitionBy(*columns).orderBy(f.desc(f"{PLACE}.event_time"), f.desc(f.col("_op") == "delete"))
    # Spread by the key once, which serves all three.
    newest = changes.repartition(*columns).withColumn("_before", before)
    newest = newest.filter(f"NOT coalesce({again}, false)").drop("_before")
    for order in (in_stream, of_all):
        newest = newest.withColumn("_rank", f.row_number().over(order)).filter("_rank = 1").drop("_rank")
    return newest


_START = -(2**63)
"""Spark's `Window.unboundedPreceding`."""


def _unknown_to(tombstones: DataFrame, rows: DataFrame, keys: list[str]) -> DataFrame:
    """Without what is older than the deletion of its key, or of the whole table."""
    from pyspark.sql import functions as f

    s, t = rows.alias("s"), tombstones.alias("t")
    # A delete that is found among the tombstones is one whose run ended before it reached the table.
    known = f.expr(f"NOT ({_newer('s', 't')} OR t.{PLACE} <=> s.{PLACE})")
    of_key = s.join(t.filter("NOT truncated"), f.expr(_same_key(keys)) & known, "left_anti").alias("s")
    return of_key.join(f.broadcast(t.filter("truncated")), f.expr(f"NOT {_newer('s', 't')}"), "left_anti")


def _same_key(keys: list[str]) -> str:
    return " AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in keys)


def _newer(one: str, other: str) -> str:
    """Whether the change of one side came after that of the other. A row without a place is older than all.

    A binlog's position that is lower belongs to a change that arrived again, unless it happened later: then the
    server's binlogs began anew.
    """
    one, other = f"{one}.{PLACE}", f"{other}.{PLACE}"
    same_binlog = f"{one}.binlog = {other}.binlog"
    return (
        f"({other} IS NULL OR CASE WHEN {same_binlog} AND {one}.at > {other}.at THEN true "
        f"WHEN {same_binlog} AND {one}.at < {other}.at THEN coalesce({one}.event_time > {other}.event_time, true) "
        f"WHEN {one}.stream = {other}.stream THEN {one}.sequence > {other}.sequence "
        f"ELSE coalesce({one}.event_time >= {other}.event_time, true) END)"
    )


def _text(value: str) -> str:
    """A SQL literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _message(refused: DataFrame) -> dict[str, Column]:
    from pyspark.sql import functions as f

    value = f.coalesce(f.col("_corrupt_record"), kafka_column(refused, "value").cast("binary"))
    row = f.col("_row") if "_row" in refused.columns else f.lit(None).cast("int")
    place = {name: kafka_column(refused, name) for name in ("topic", "partition", "offset")}
    return {"message": value, **place, "row": row}
