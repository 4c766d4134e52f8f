"""Replicates whole topics to Delta tables: every table in the messages, their DDL, and dead letters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.spark.lakehouse.columns import COORDINATES, MESSAGE
from towpath.spark.lakehouse.dead_letters import dead_letter_rows, is_key_only, write_dead_letters
from towpath.spark.lakehouse.envelopes import ROW_CHANGES, read_envelopes
from towpath.spark.lakehouse.merge import Applier, for_each_batch
from towpath.spark.lakehouse.order import without_position
from towpath.spark.lakehouse.sql import Sql, column, equal_columns, merge
from towpath.spark.lakehouse.sql import table as table_name
from towpath.spark.lakehouse.tables import append_once, create_or_evolve, schema_of, temporary_view, widened
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

Target = str | Mapping[str, str] | Callable[[str, str], str | None]


def replicate(
    messages: DataFrame,
    target: Target,
    dialect: str = "auto",
    *,
    checkpoint: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    schemas: Mapping[str, str | StructType] | None = None,
    table_options: Mapping[str, Mapping[str, Any]] | None = None,
    ddl: str | None = None,
    dead_letters: str | None = None,
    watermarks: str | None = None,
    evolve: bool = True,
    forget_after: str = "7 days",
    metrics: str | None = None,
    **options: Any,
) -> StreamingQuery | None:
    """Maintain a Delta table for every table whose changes are in the messages.

    The tables are created with the types that the messages declare, and follow them: a column that is added at the
    source is added, a type that is widened is widened. A change that would lose data is an error. A table that is
    dropped at the source is kept; its DDL is written to the table `ddl`.

    Args:
        messages: A DataFrame with the columns of Kafka's source, batch or streaming.
        target: The target of each table: a text with `{database}` and `{table}`, either a catalog name
            ("lake.{table}") or a path ("/lake/{database}/{table}"); or a mapping from "database.table" to the target,
            which skips other tables; or a function of database and table that returns the target, or None to skip it.
        dialect: As for `towpath.Decoder`.
        checkpoint: The checkpoint folder of the stream. Only for a stream.
        trigger: Arguments of `DataStreamWriter.trigger`, such as `{"availableNow": True}`. Only for a stream.
        keys: `{"database.table": [columns]}` for tables whose messages do not declare their primary key.
        schemas: `{"database.table": columns}` for tables whose messages do not declare column types, and for those
            that should have other types.
        table_options: `{"database.table": {option: value}}`: arguments of `towpath.Decoder` for one table, such as
            `labels` and `column_types`.
        ddl: Name or path of the table for DDL statements.
        dead_letters: Name or path of the table for messages and rows that could not be decoded. Without it the first
            of them is an error.
        watermarks: Name or path of the table for TiCDC's watermarks: for each partition the time up to which all
            changes have been applied. Later changes below the watermark are duplicates and are skipped.
        evolve: Whether tables may be altered to fit the declared columns.
        forget_after: How long deleted keys are remembered.
        metrics: Name of an observation for the metrics of reading the envelopes, as for `towpath.spark.decode`.
        **options: All other arguments of `towpath.Decoder`, for all tables; not `layout`, `fields` and `mode`.

    Returns:
        The started query, for a stream. A batch has been applied on return.

    Raises:
        ValueError: An argument is wrong, a table's key or column types are not known, a table cannot store the
            declared types without loss, or something could not be decoded and there is no table for dead letters.
    """
    for name in ("layout", "fields", "mode", "schema", "value", "key", "keep"):
        if name in options:
            raise ValueError(f"{name}: replicate chooses it")
    events = read_envelopes(messages, dialect, metrics, **options)
    events = events.withColumn("kind", _kind()).filter("kind IS NOT NULL")
    apply = Replicator(
        target=_target_function(target),
        dialect=dialect,
        options=options,
        keys=keys or {},
        schemas=schemas or {},
        table_options=table_options or {},
        ddl=ddl,
        dead_letters=dead_letters,
        watermarks=watermarks,
        evolve=evolve,
        forget_after=forget_after,
    )
    return for_each_batch(events, apply, checkpoint, trigger)


@dataclass(frozen=True)
class Replicator:
    """Applies the events of a topic; a function for `foreachBatch`. The fields are the arguments of `replicate`."""

    target: Callable[[str, str], str | None]
    dialect: str
    options: Mapping[str, Any]
    keys: Mapping[str, Sequence[str]]
    schemas: Mapping[str, str | StructType]
    table_options: Mapping[str, Mapping[str, Any]]
    ddl: str | None
    dead_letters: str | None
    watermarks: str | None
    evolve: bool
    forget_after: str

    def __call__(self, batch: DataFrame, batch_id: int = 0) -> None:
        """Apply a batch of events."""
        events = batch.persist()
        try:
            self._apply(events, batch_id)
        finally:
            events.unpersist()

    def _apply(self, events: DataFrame, batch_id: int) -> None:
        found = _events_by_kind(events)
        if found["dead"]:
            self._write_dead_letters(events.filter("kind = 'dead'"), sum(row.events for row in found["dead"]))
        if self.ddl and (found["ddl"] or any(row.truncates for row in found["change"])):
            statements = events.filter("kind = 'ddl' OR op = 'truncate'")
            append_once(statements.select(*_statement()), self.ddl, (*COORDINATES, "row"))
        for (database, table), rows in _by_table(found["change"]).items():
            target = self.target(database, table)
            if target is not None:
                self._apply_table(events, _Table(database, table, target, rows), batch_id)
        if self.watermarks and found["watermark"]:
            _write_watermarks(events.filter("kind = 'watermark'"), self.watermarks)

    def _apply_table(self, events: DataFrame, table: _Table, batch_id: int) -> None:
        schema = self._schema(events.sparkSession, table)
        if schema is None:
            return
        changes = self._decoded(events, table, schema)
        if self.watermarks and schema_of(events.sparkSession, self.watermarks) is not None:
            changes = _after_watermark(changes, events.sparkSession.read.table(table_name(self.watermarks)))
        keys = self.keys.get(table.name) or table.declared_key()
        Applier(table.target, keys, self.dead_letters, self.evolve, self.forget_after)(changes, batch_id)

    def _decoded(self, events: DataFrame, table: _Table, schema: StructType) -> DataFrame:
        """The table's decoded changes. Kafka's columns get a prefix, since the table may have columns named alike."""
        from pyspark.sql import functions as f

        from towpath.decoder import Decoder

        kept = {f"_{name}": MESSAGE[name] for name in ("value", *COORDINATES)}
        options = {
            **self.options,
            **self.table_options.get(table.name, {}),
            **_table_filter(table.database, table.table),
        }
        decoder = Decoder(self.dialect, schema, layout="upsert", keep=kept, key="key", **options)
        messages = events.filter((f.col("kind") == "change") & table.condition())
        # `_corrupt_record` has no message of a key-only row, which is decoded without an error: `_value` does.
        value = f.when(f.expr(is_key_only("source")), f.col("value")).alias("_value")
        coordinates = (f.col(name).alias(f"_{name}") for name in COORDINATES)
        return messages.select("value", "key", "offset", value, *coordinates).mapInArrow(decoder, decoder.spark_schema)

    def _schema(self, spark: SparkSession, table: _Table) -> StructType | None:
        """The columns to decode: as given, otherwise as declared but at least as wide as in the target."""
        given = self.schemas.get(table.name)
        if given is not None:
            return _struct(given)
        existing = schema_of(spark, table.target)
        known = without_position(existing) if existing else None
        declared = table.declared_columns(self.dialect, self.options)
        if declared is None and known is None and not table.only_truncates():
            raise ValueError(
                f"{table.name}: the messages do not declare its columns' types; "
                f"give them: schemas={{{table.name!r}: 'id bigint, ...'}}"
            )
        return widened(table.target, known, declared) if declared is not None else known

    def _write_dead_letters(self, rejected: DataFrame, count: int) -> None:
        from pyspark.sql import functions as f

        message = {name: f.col(name) for name in (*COORDINATES, "row")} | {"message": f.col("value")}
        rows = dead_letter_rows(rejected, message, "error", ("envelope", "the message names no table"), None)
        write_dead_letters(rows, self.dead_letters, f"{count} messages cannot be read")


@dataclass(frozen=True)
class _Table:
    """What the messages of a batch declare about one table."""

    database: str
    table: str
    target: str
    rows: list[Row]

    @property
    def name(self) -> str:
        """The name in `keys`, `schemas` and `table_options`."""
        return f"{self.database}.{self.table}"

    def condition(self) -> Column:
        """True for the events of this table."""
        from pyspark.sql import functions as f

        return f.col("database").eqNullSafe(self.database) & (f.col("table") == self.table)

    def only_truncates(self) -> bool:
        """Whether there are no other changes, so that the column types do not matter."""
        return all(row.truncates == row.events for row in self.rows)

    def declared_key(self) -> list[str]:
        """The primary key in the messages."""
        found = {tuple(row.primary_key) for row in self.rows if row.primary_key}
        if len(found) != 1:
            said = " and ".join(map(str, sorted(found))) or "no primary key"
            raise ValueError(f"{self.name}: the messages say {said}; give it: keys={{{self.name!r}: [...]}}")
        return list(*found)

    def declared_columns(self, dialect: str, options: Mapping[str, Any]) -> StructType | None:
        """The declared columns with types that can store their values; None if nothing is declared."""
        from towpath.decoder import infer_schema

        examples = [row.example for row in self.rows if row.declared]
        if not examples:
            return None
        columns = {
            "value": pa.array([bytes(row.value) for row in examples], pa.binary()),
            "key": pa.array([row.key and bytes(row.key) for row in examples], pa.binary()),
        }
        inferred = infer_schema(
            pa.record_batch(columns),
            dialect,
            **_table_filter(self.database, self.table),
            schema_registry=options.get("schema_registry"),
            writer_schemas=options.get("writer_schemas"),
        )
        return struct_type(pa.schema([_storable(field) for field in inferred]))


def _target_function(target: Target) -> Callable[[str, str], str | None]:
    if isinstance(target, str):
        if "{table}" not in target:
            raise ValueError(f"target: {target!r} has no {{table}} in it, so that all tables would be one")
        return partial(_formatted, target)
    return partial(_looked_up, dict(target)) if isinstance(target, Mapping) else target


def _formatted(template: str, database: str, table: str) -> str:
    """Replace the two placeholders. Braces in a name have no meaning. Each part of a catalog name is quoted."""
    names = {"{database}": database, "{table}": table}

    def filled(text: str) -> str:
        return "".join(names.get(part, part) for part in re.split(r"(\{database\}|\{table\})", text))

    if "/" in template:
        return filled(template)
    return ".".join(part if part.startswith("`") else column(filled(part)) for part in template.split("."))


def _looked_up(targets: dict[str, str], database: str, table: str) -> str | None:
    return targets.get(f"{database}.{table}")


def _kind() -> Column:
    """How an event is handled; null for events that are ignored, such as heartbeats."""
    from pyspark.sql import functions as f

    op = f.col("op")
    change = op.isin(*ROW_CHANGES)
    return (
        f.when(f.col("error").isNotNull() | (change & f.col("table").isNull()), "dead")
        .when(change, "change")
        .when(op.isin("ddl", "query"), "ddl")
        .when(op == "watermark", "watermark")
    )


def _events_by_kind(events: DataFrame) -> dict[str, list[Row]]:
    """The tables in the batch by kind of event, with an example message for each declaration of a table."""
    from pyspark.sql import functions as f

    # Sorted, since some producers write the columns in varying order.
    declared = f.array_sort(f.map_entries("column_types")).cast("string").alias("declared")
    counted = events.groupBy("kind", "database", "table", "primary_key", declared).agg(
        f.count("*").alias("events"),
        f.count_if(f.col("op") == "truncate").alias("truncates"),
        f.first(f.struct("key", "value")).alias("example"),
    )
    found: dict[str, list[Row]] = {"change": [], "ddl": [], "watermark": [], "dead": []}
    for row in counted.collect():
        found[row.kind].append(row)
    return found


def _by_table(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    tables: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        tables.setdefault((row.database, row.table), []).append(row)
    return tables


def _table_filter(database: str | None, table: str) -> dict[str, str]:
    """Options of a decoder that filters for this table."""
    return {"table": re.escape(table), **({"database": re.escape(database)} if database else {})}


def _storable(field: pa.Field) -> pa.Field:
    """A MySQL TIME can be negative or longer than a day. Delta cannot store intervals, so it is stored as text."""
    return field.with_type(pa.string()) if pa.types.is_duration(field.type) else field


def _struct(schema: str | StructType) -> StructType:
    from towpath.decoder import Decoder

    if not isinstance(schema, str):
        return schema
    return struct_type(Decoder(schema=schema, layout="upsert", fields=["_op"]).schema.remove(0))


def _statement() -> list[Column]:
    from pyspark.sql import functions as f

    names = [*COORDINATES, "row", "database", "table", "event_time", "sql", "table_changes"]
    return [*map(f.col, names), f.col("source.operation").alias("operation")]


def _after_watermark(changes: DataFrame, watermarks: DataFrame) -> DataFrame:
    """Without changes that TiCDC sent again: all changes up to the partition's watermark had been sent before it."""
    from pyspark.sql import functions as f

    c, w = changes.alias("c"), f.broadcast(watermarks).alias("w")
    same = "c._topic = w.topic AND c._partition = w.partition AND c._source.commit_ts <= w.watermark_ts"
    return c.join(w, f.expr(same), "left_anti")


def _write_watermarks(watermarks: DataFrame, target: str) -> None:
    """Write the newest watermark of each partition, after all changes before it have been applied."""
    spark = watermarks.sparkSession
    newest = watermarks.groupBy("topic", "partition").agg({"source.watermark_ts": "max"})
    newest = newest.toDF("topic", "partition", "watermark_ts").selectExpr(
        "*", "timestamp_millis(shiftright(watermark_ts, 18)) AS complete_until"
    )
    create_or_evolve(spark, target, newest.schema)
    with temporary_view(newest) as view:
        merge(
            spark,
            target,
            view,
            equal_columns(["topic", "partition"]),
            Sql("WHEN MATCHED AND s.watermark_ts > t.watermark_ts THEN UPDATE SET *"),
            Sql("WHEN NOT MATCHED THEN INSERT *"),
        )
