"""Applies a batch of events to all of its tables. A table that cannot go on stops no other one."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from towpath.spark.lakehouse.changes import MESSAGE, PLACE, ChangeDecoder
from towpath.spark.lakehouse.dead_letters import dead_letter_rows, write_dead_letters
from towpath.spark.lakehouse.declarations import Declaration, declared_columns, declared_key
from towpath.spark.lakehouse.envelopes import CHANGE, DDL, DEAD, WATERMARK
from towpath.spark.lakehouse.merge import Applied, Applier, Hints
from towpath.spark.lakehouse.quarantine import put_aside
from towpath.spark.lakehouse.status import QUARANTINED, TableStatus, write_status
from towpath.spark.lakehouse.tables import TableSettings, append_once, order_column, schema_of, widened
from towpath.spark.lakehouse.targets import Targets
from towpath.spark.lakehouse.watermarks import after_watermark, write_watermarks
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

_log = logging.getLogger("towpath.spark")

_ROWS_PER_TASK = 50_000


@dataclass(frozen=True)
class Replicator:
    """Applies the events of a topic; a function for `foreachBatch`. The fields are the arguments of `replicate`."""

    targets: Targets
    dialect: str
    options: Mapping[str, Any]
    keys: Mapping[str, Sequence[str]]
    schemas: Mapping[str, str | StructType]
    table_options: Mapping[str, Mapping[str, Any]]
    cluster_by: Mapping[str, Sequence[str]]
    settings: TableSettings
    ddl: str | None
    dead_letters: str | None
    quarantine: str | None
    status: str | None
    watermarks: str | None
    on_table_error: str
    parallelism: int

    def __call__(self, batch: DataFrame, batch_id: int = 0) -> None:
        """Apply a batch of events."""
        events = batch.persist()
        try:
            self._apply(events, batch_id)
        finally:
            events.unpersist()

    def _apply(self, events: DataFrame, batch_id: int) -> None:
        found = _summary(events)
        self._write_dead_letters(events, found)
        self._write_ddl(events, found)
        tables = _tables(found)
        watermarks = None
        if self.watermarks and schema_of(events.sparkSession, self.watermarks) is not None:
            watermarks = self.watermarks
        results = self._side_by_side(events, tables, watermarks, batch_id)
        if self.status:
            write_status(events.sparkSession, self.status, [result.status for result in results if result.status], batch_id)
        errors = [result.error for result in results if result.error]
        if errors:
            raise errors[0]
        if self.watermarks and any(row["kind"] == WATERMARK for row in found):
            write_watermarks(events.filter(f"kind = '{WATERMARK}'"), self.watermarks)

    def _side_by_side(
        self, events: DataFrame, tables: list[SourceTable], watermarks: str | None, batch_id: int
    ) -> list[_Result]:
        def apply(table: SourceTable) -> _Result:
            return self._guarded(events, table, watermarks, batch_id)

        if len(tables) <= 1 or self.parallelism <= 1:
            return list(map(apply, tables))
        with ThreadPoolExecutor(self.parallelism, "towpath") as pool:
            return list(pool.map(_inheriting(apply), tables))

    def _guarded(self, events: DataFrame, table: SourceTable, watermarks: str | None, batch_id: int) -> _Result:
        """Apply a table's changes, or put them aside. An error is returned, so that the other tables go on."""
        target: str | None = None
        try:
            target = self.targets(table.database, table.name, table.topic)
            if target is None:
                return _Result()
            applied = self._apply_table(events, table, target, watermarks, batch_id)
            return _Result(status=TableStatus.of(table.database, table.name, target, applied))
        except Exception as error:  # whatever it is, it must not stop the other tables
            if self.on_table_error == "fail" or self.quarantine is None:
                return _Result(error=error)
            _log.warning("%s: put aside in %s: %s", table.full_name, self.quarantine, error)
            reason = str(error)
            try:
                put_aside(events.filter(table.condition()), self.quarantine, target, reason)
            except Exception as second:  # then the batch has to be read again
                return _Result(error=second)
            status = TableStatus(table.database, table.name, target, state=QUARANTINED, reason=reason)
            return _Result(status=status)

    def _apply_table(
        self, events: DataFrame, table: SourceTable, target: str, watermarks: str | None, batch_id: int
    ) -> Applied:
        spark = events.sparkSession
        keys = list(self.keys.get(table.full_name) or ())
        existing = schema_of(spark, target)
        schema = self._schema(existing, table, target)
        if schema is None:
            return Applied()
        keys = keys or declared_key(table.full_name, table.declarations)
        decoder = ChangeDecoder(self.dialect, schema, self._decoder_options(table))
        messages = events.filter(table.condition()).select(*MESSAGE)
        tasks = max(1, -(-table.rows // _ROWS_PER_TASK))
        changes = messages.coalesce(tasks).mapInArrow(decoder, struct_type(decoder.schema))
        if watermarks:
            changes = after_watermark(changes, spark, watermarks)
        cluster_by = tuple(self.cluster_by.get(table.full_name, ()))
        apply = Applier(target, keys, self.dead_letters, replace(self.settings, cluster_by=cluster_by))
        applied = apply.apply(changes, keys, Hints(logs=table.in_log, tasks=tasks), batch_id)
        _log.info("%s: batch %d: %s in %.1f s", table.full_name, batch_id, dict(applied.counts), applied.seconds)
        return applied

    def _decoder_options(self, table: SourceTable) -> dict[str, Any]:
        return {**self.options, **self.table_options.get(table.full_name, {}), **table.filter_options()}

    def _schema(self, existing: StructType | None, table: SourceTable, target: str) -> StructType | None:
        """The columns to decode: as given, otherwise as declared but at least as wide as in the target."""
        given = self.schemas.get(table.full_name)
        if given is not None:
            return _struct(given)
        known = _own_columns(existing) if existing else None
        declared = declared_columns(table.declarations, self.dialect, {**self.options, **table.filter_options()})
        if declared is None and known is None:
            if table.truncates == table.messages:
                return None
            raise ValueError(
                f"{table.full_name}: the messages do not declare its columns' types; "
                f"give them: schemas={{{table.full_name!r}: 'id bigint, ...'}}"
            )
        return widened(target, known, declared) if declared is not None else known

    def _write_dead_letters(self, events: DataFrame, found: Iterable[Row]) -> None:
        count = sum(row["messages"] for row in found if row["kind"] == DEAD)
        if not count:
            return
        rejected = events.filter(f"kind = '{DEAD}'").withColumnsRenamed({"value": "message", "key": "message_key"})
        rows = dead_letter_rows(rejected, ("envelope", "the message names no table"), None)
        write_dead_letters(rows, self.dead_letters, f"{count} messages cannot be read")

    def _write_ddl(self, events: DataFrame, found: Iterable[Row]) -> None:
        if self.ddl and any(row["kind"] == DDL or row["truncates"] for row in found):
            statements = events.filter(f"kind = '{DDL}' OR op = 'truncate'").select(*_statement())
            append_once(statements, self.ddl, (*PLACE, "row", "event_time", "sql"))


@dataclass(frozen=True)
class SourceTable:
    """What the messages of a batch say about one table."""

    database: str | None
    name: str
    topic: str
    messages: int
    rows: int
    truncates: int
    in_log: bool
    declarations: tuple[Declaration, ...]

    @property
    def full_name(self) -> str:
        """The name in `keys`, `schemas` and `table_options`."""
        return f"{self.database}.{self.name}"

    def condition(self) -> Column:
        """True for the events of this table's changes."""
        from pyspark.sql import functions as f

        of_table = f.col("database").eqNullSafe(self.database) & (f.col("table") == self.name)
        return (f.col("kind") == CHANGE) & of_table

    def filter_options(self) -> dict[str, str]:
        """Options of a decoder that filters for this table."""
        database = {"database": re.escape(self.database)} if self.database else {}
        return {"table": re.escape(self.name), **database}


@dataclass(frozen=True)
class _Result:
    status: TableStatus | None = None
    error: Exception | None = None


def _summary(events: DataFrame) -> list[Row]:
    """The tables in the batch by kind of event, with an example message for each declaration of a table."""
    from pyspark.sql import functions as f

    return (
        events.groupBy("kind", "database", "table", "declaration")
        .agg(
            f.count("*").alias("messages"),
            f.sum("rows").alias("rows"),
            f.count_if(f.col("op") == "truncate").alias("truncates"),
            f.max("in_log").alias("in_log"),
            f.min("topic").alias("topic"),
            f.first(f.when(f.col("declaration").isNotNull(), f.struct("key", "value")), ignorenulls=True).alias("example"),
        )
        .collect()
    )


def _tables(found: Iterable[Row]) -> list[SourceTable]:
    """The tables whose rows change, those with the most changes first."""
    groups: dict[tuple[str | None, str], list[Row]] = {}
    for row in found:
        if row["kind"] == CHANGE:
            groups.setdefault((row["database"], row["table"]), []).append(row)
    tables = [_table(database, name, rows) for (database, name), rows in groups.items()]
    return sorted(tables, key=lambda table: -table.rows)


def _table(database: str | None, name: str, rows: list[Row]) -> SourceTable:
    return SourceTable(
        database,
        name,
        min(row["topic"] or "" for row in rows),
        messages=sum(row["messages"] for row in rows),
        rows=sum(row["rows"] for row in rows),
        truncates=sum(row["truncates"] for row in rows),
        in_log=any(row["in_log"] for row in rows),
        declarations=tuple(Declaration.of(row) for row in rows if row["declaration"]),
    )


def _own_columns(schema: StructType) -> StructType:
    """The columns of a target that are the source table's."""
    from pyspark.sql.types import StructType

    order = order_column(schema)
    return StructType([field for field in schema if field.name != order])


def _struct(schema: str | StructType) -> StructType:
    from towpath.decoder import Decoder

    if not isinstance(schema, str):
        return schema
    columns = Decoder(schema=schema, layout="upsert", row_column="row", fields=["_op"]).schema.field("row").type
    return struct_type(pa_schema(columns))


def pa_schema(struct: Any) -> Any:
    """The fields of an Arrow struct as a schema."""
    import pyarrow as pa

    return pa.schema(list(struct))


def _statement() -> list[Column]:
    from pyspark.sql import functions as f

    names = [*PLACE, "row", "database", "table", "event_time", "sql", "table_changes"]
    return [*map(f.col, names), f.col("source.operation").alias("operation")]


def _inheriting(function: Any) -> Any:
    """The function for another thread, with Spark's settings of this one, such as the job group of the query."""
    from pyspark.util import inheritable_thread_target

    return inheritable_thread_target(function)
