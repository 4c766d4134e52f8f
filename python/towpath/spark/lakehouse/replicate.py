"""Whole topics into a lakehouse: every table that the messages name, their DDL, and what could not be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.spark.apply import Applier, run, without_place
from towpath.spark.letters import bury, key_only, letters
from towpath.spark.routing import MESSAGE, routes
from towpath.spark.tables import append_once, columns_of, identifier, prepare, quoted, view, widened
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
    """Keep a Delta table for every table whose changes are in the messages.

    The tables are made with the types that the messages declare, and grow with them: a column that is added at the
    source is added, a type that is widened is widened. What would lose data is refused. A table that is dropped at
    the source stays; its DDL is in the table `ddl`.

    Args:
        messages: A frame with the columns of Kafka's source, batch or streaming.
        target: Where a table goes: a text with `{database}` and `{table}` in it, a catalog's name ("lake.{table}")
            or a path ("/lake/{database}/{table}"); or a mapping from "database.table", of which other tables are
            left out; or a function of database and table that returns the target, or None to leave it out.
        dialect: As for `towpath.decode`.
        checkpoint: The folder of the stream's checkpoint. Only for a stream.
        trigger: What `DataStreamWriter.trigger` takes, such as `{"availableNow": True}`. Only for a stream.
        keys: `{"database.table": [columns]}` for tables whose messages do not say their primary key.
        schemas: `{"database.table": columns}` for tables whose messages do not declare their columns' types, and
            for those whose columns should have others.
        table_options: `{"database.table": {option: value}}`: what `towpath.Decoder` has to be told of one table,
            such as `labels` and `column_types`.
        ddl: Name or path of the table that collects DDL.
        dead_letters: The same for messages and rows that could not be decoded. Without it they stop everything.
        watermarks: The same for TiCDC's watermarks: for each partition the time until which everything has been
            applied. Changes below a watermark are duplicates then, and left out.
        evolve: Whether tables may be changed to hold what the messages declare.
        forget_after: How long deleted keys are remembered.
        metrics: Name of an observation that gets the counts of the reading, as `towpath.spark.decode` has it.
        **options: Everything else that `towpath.Decoder` takes, for all tables; not `layout`, `fields` and `mode`.

    Returns:
        The query that was started, for a stream. A batch has been applied on return.

    Raises:
        ValueError: An argument is wrong, a table's key or its columns' types are not known, a table cannot take
            what is declared without loss, or something could not be decoded and there is no table for dead letters.
    """
    for name in ("layout", "fields", "mode", "schema", "value", "key", "keep"):
        if name in options:
            raise ValueError(f"{name}: replicate chooses it")
    events = routes(messages, dialect, metrics, **options)
    events = events.withColumn("kind", _kind()).filter("kind IS NOT NULL")
    apply = Replica(
        target=_router(target),
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
    return run(events, apply, checkpoint, trigger)


@dataclass(frozen=True)
class Replica:
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
        found = _summary(events)
        if found["dead"]:
            self._bury(events.filter("kind = 'dead'"), sum(row.events for row in found["dead"]))
        if self.ddl and (found["ddl"] or any(row.truncates for row in found["change"])):
            statements = events.filter("kind = 'ddl' OR op = 'truncate'")
            append_once(statements.select(*_statement()), self.ddl, ("topic", "partition", "offset", "row"))
        for (database, table), rows in _by_table(found["change"]).items():
            target = self.target(database, table)
            if target is not None:
                self._apply_table(events, _Table(database, table, target, rows), batch_id)
        if self.watermarks and found["watermark"]:
            _advance(events.filter("kind = 'watermark'"), self.watermarks)

    def _apply_table(self, events: DataFrame, table: _Table, batch_id: int) -> None:
        schema = self._schema(events.sparkSession, table)
        if schema is None:
            return
        changes = self._decoded(events, table, schema)
        if self.watermarks and columns_of(events.sparkSession, self.watermarks) is not None:
            changes = _after_watermark(changes, events.sparkSession.read.table(identifier(self.watermarks)))
        keys = self.keys.get(table.name) or table.declared_key()
        Applier(table.target, keys, self.dead_letters, self.evolve, self.forget_after)(changes, batch_id)

    def _decoded(self, events: DataFrame, table: _Table, schema: StructType) -> DataFrame:
        """The table's changes, typed. Kafka's columns are renamed, as a table may have columns of these names."""
        from pyspark.sql import functions as f

        from towpath.decoder import Decoder

        kept = {f"_{name}": MESSAGE[name] for name in ("value", "topic", "partition", "offset")}
        options = {**self.options, **self.table_options.get(table.name, {}), **_only(table.database, table.table)}
        decoder = Decoder(self.dialect, schema, layout="upsert", fields=_UPSERT_FIELDS, keep=kept, key="key", **options)
        messages = events.filter((f.col("kind") == "change") & table.condition())
        # The upsert rows have a message only where it could not be decoded, and one without its columns can.
        copies = (f.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset"))
        return messages.select(
            "value", "key", "offset", f.when(f.expr(key_only("source")), f.col("value")).alias("_value"), *copies
        ).mapInArrow(decoder, decoder.spark_schema)

    def _schema(self, spark: SparkSession, table: _Table) -> StructType | None:
        """The columns to decode: as given, else as declared, but not narrower than the target has them."""
        given = self.schemas.get(table.name)
        if given is not None:
            return _struct(given)
        existing = columns_of(spark, table.target)
        known = without_place(existing) if existing else None
        declared = table.declared_columns(self.dialect)
        if declared is None and known is None and not table.only_truncates():
            raise ValueError(
                f"{table.name}: the messages do not declare its columns' types; "
                f"give them: schemas={{{table.name!r}: 'id bigint, ...'}}"
            )
        return widened(table.target, known, declared) if declared is not None else known

    def _bury(self, unread: DataFrame, count: int) -> None:
        from pyspark.sql import functions as f

        message = {name: f.col(name) for name in ("topic", "partition", "offset", "row")} | {"message": f.col("value")}
        dead = letters(unread, message, "error", ("envelope", "the message names no table"), None)
        bury(dead, self.dead_letters, f"{count} messages cannot be read")


@dataclass(frozen=True)
class _Table:
    """What the messages of a batch say of one table."""

    database: str
    table: str
    target: str
    rows: list[Row]

    @property
    def name(self) -> str:
        """As users name it."""
        return f"{self.database}.{self.table}"

    def condition(self) -> Column:
        """Whether a row of the events is of this table."""
        from pyspark.sql import functions as f

        return f.col("database").eqNullSafe(self.database) & (f.col("table") == self.table)

    def only_truncates(self) -> bool:
        """Whether no row was changed, so that nothing need be known of its columns."""
        return all(row.truncates == row.events for row in self.rows)

    def declared_key(self) -> list[str]:
        """The primary key that the messages name."""
        found = {tuple(row.primary_key) for row in self.rows if row.primary_key}
        if len(found) != 1:
            said = " and ".join(map(str, sorted(found))) or "no primary key"
            raise ValueError(f"{self.name}: the messages say {said}; give it: keys={{{self.name!r}: [...]}}")
        return list(*found)

    def declared_columns(self, dialect: str) -> StructType | None:
        """The columns with the types that hold what the messages declare; None where they declare nothing."""
        import towpath

        examples = [row.example for row in self.rows if row.declared]
        if not examples:
            return None
        columns = {
            "value": pa.array([bytes(row.value) for row in examples], pa.binary()),
            "key": pa.array([row.key and bytes(row.key) for row in examples], pa.binary()),
        }
        inferred = towpath.infer_schema(pa.record_batch(columns), dialect, **_only(self.database, self.table))
        return struct_type(pa.schema([_storable(field) for field in inferred]))


_UPSERT_FIELDS = ["_op", "_event_time", "_sequence", "_source", "_row", "_missing_columns", "_error", "_corrupt_record"]


def _router(target: Target) -> Callable[[str, str], str | None]:
    if isinstance(target, str):
        if "{table}" not in target:
            raise ValueError(f"target: {target!r} has no {{table}} in it, so that all tables would be one")
        return partial(_formatted, target)
    return partial(_looked_up, dict(target)) if isinstance(target, Mapping) else target


def _formatted(template: str, database: str, table: str) -> str:
    """Only these two are filled in; a name is not read as a format itself. In a catalog's name each part is quoted."""
    names = {"{database}": database, "{table}": table}

    def filled(text: str) -> str:
        return "".join(names.get(part, part) for part in re.split(r"(\{database\}|\{table\})", text))

    if "/" in template:
        return filled(template)
    return ".".join(part if part.startswith("`") else quoted(filled(part)) for part in template.split("."))


def _looked_up(targets: dict[str, str], database: str, table: str) -> str | None:
    return targets.get(f"{database}.{table}")


def _kind() -> Column:
    """What becomes of an event; null for those that leave nothing behind, such as a heartbeat."""
    from pyspark.sql import functions as f

    op = f.col("op")
    change = op.isin("insert", "update", "delete", "snapshot", "truncate")
    return (
        f.when(f.col("error").isNotNull() | (change & f.col("table").isNull()), "dead")
        .when(change, "change")
        .when(op.isin("ddl", "query"), "ddl")
        .when(op == "watermark", "watermark")
    )


def _summary(events: DataFrame) -> dict[str, list[Row]]:
    """What the batch has, with an example of each way in which a table is declared."""
    from pyspark.sql import functions as f

    # Sorted, as some producers write the columns in another order each time.
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


def _only(database: str | None, table: str) -> dict[str, str]:
    """Options for a decoder that lets this table pass alone."""
    return {"table": re.escape(table), **({"database": re.escape(database)} if database else {})}


def _storable(field: pa.Field) -> pa.Field:
    """MySQL's TIME goes beyond a day and below zero. Tables store no interval, so it is kept as MySQL prints it."""
    return field.with_type(pa.string()) if pa.types.is_duration(field.type) else field


def _struct(schema: str | StructType) -> StructType:
    from towpath.decoder import Decoder

    if not isinstance(schema, str):
        return schema
    return struct_type(Decoder(schema=schema, layout="upsert", fields=["_op"]).schema.remove(0))


def _statement() -> list[Column]:
    from pyspark.sql import functions as f

    names = ["topic", "partition", "offset", "row", "database", "table", "event_time", "sql", "table_changes"]
    return [*map(f.col, names), f.col("source.operation").alias("operation")]


def _after_watermark(changes: DataFrame, watermarks: DataFrame) -> DataFrame:
    """Without what TiCDC sent again: the partition's watermark said that everything up to it had been sent."""
    from pyspark.sql import functions as f

    c, w = changes.alias("c"), f.broadcast(watermarks).alias("w")
    same = "c._topic = w.topic AND c._partition = w.partition AND c._source.commit_ts <= w.watermark_ts"
    return c.join(w, f.expr(same), "left_anti")


def _advance(watermarks: DataFrame, table: str) -> None:
    """Notes the newest watermark of each partition, once everything before it has been applied."""
    newest = watermarks.groupBy("topic", "partition").agg({"source.watermark_ts": "max"})
    newest = newest.toDF("topic", "partition", "watermark_ts").selectExpr(
        "*", "timestamp_millis(shiftright(watermark_ts, 18)) AS complete_until"
    )
    prepare(watermarks.sparkSession, table, newest.schema)
    with view(newest) as name:
        watermarks.sparkSession.sql(
            f"MERGE INTO {identifier(table)} t USING {name} s ON t.topic = s.topic AND t.partition = s.partition "
            f"WHEN MATCHED AND s.watermark_ts > t.watermark_ts THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
