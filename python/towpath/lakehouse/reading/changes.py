"""The frame of changes for the merge: the table's columns in one struct, and towpath's own columns beside it.

The table's columns may have any name, since they are never beside towpath's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol, get_args

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.reading.arrow_batches import INDEX, by_name, cast, part_of, row_ids, with_index
from towpath.lakehouse.reading.moved_keys import MovedKeys
from towpath.lakehouse.reading.schemas import table_names
from towpath.lakehouse.tables.sql import column
from towpath.literals import Field
from towpath.places import COLUMNS as KAFKA_COLUMNS
from towpath.places import MESSAGE, PLACE
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from towpath.literals import Dialect

REQUIRED = ("_op", "_sequence", "_event_time", "_error", "_corrupt_record")
"""Columns that `structured` needs."""

COLUMNS = "columns"
"""Struct with the table's columns."""

READ = {**MESSAGE, "rows_read": pa.list_(pa.int32())}
"""Columns from which changes are read: a message, and the numbers of the rows to read. Null means all rows."""

SOURCE = {
    "commit_ts": pa.int64(),
    "server_id": pa.int64(),
    "file": pa.string(),
    "position": pa.int64(),
    "message_id": pa.int64(),
}
"""Fields of `source` that order changes."""

ERROR = {"kind": pa.string(), "message": pa.string(), "column": pa.string(), "byte": pa.int64()}
"""Fields of `error`."""

ENVELOPE = frozenset(name for name in get_args(Field) if name.startswith("_")) - {"_change_type"}
"""Envelope columns of layout "upsert"."""

_NOT_OF_TABLE = ENVELOPE | frozenset(KAFKA_COLUMNS) | {f"_{name}" for name in KAFKA_COLUMNS}

_OMITTING = "dms-json"
"""Dialect that omits columns which are null in each image."""

_FIELDS: tuple[Field, ...] = (
    "_op",
    "_event_time",
    "_produced_time",
    "_sequence",
    "_source",
    "_row",
    "_missing_columns",
    "_error",
    "_schema",
)


def change_schema(columns: pa.DataType) -> pa.Schema:
    """Return the schema of a frame of changes. `columns` is the type of the table's struct."""
    fields: dict[str, pa.DataType] = {
        "op": pa.string(),
        COLUMNS: columns,
        "missing": pa.list_(pa.string()),
        "partial": pa.bool_(),
        "key_only": pa.bool_(),
        "event_time": pa.timestamp("us", "UTC"),
        "produced_time": pa.timestamp("us", "UTC"),
        "source": pa.struct(list(SOURCE.items())),
        "row": pa.int32(),
        "step": pa.int64(),
        "error": pa.struct(list(ERROR.items())),
        "message": pa.binary(),
        "message_key": pa.binary(),
        **{name: MESSAGE[name] for name in PLACE},
        "label": pa.string(),
    }
    return pa.schema(list(fields.items()))


def no_changes(spark: SparkSession, columns: StructType) -> DataFrame:
    """Return an empty frame of changes that has the table's columns only."""
    from pyspark.sql.types import StructField, StructType

    return spark.createDataFrame([], StructType([StructField(COLUMNS, columns)]))


class ChangeReader(Protocol):
    """Reader of a table's changes from messages, or from blocks of decoded messages."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of a frame of changes."""

    def decode_batches(self, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the changes in messages with the columns of `READ`."""


class ChangeDecoder:
    """Decoder of one table's messages to a frame of changes."""

    def __init__(
        self,
        dialect: Dialect,
        schema: Any,
        options: Mapping[str, Any],
        table: tuple[str | None, str] | None = None,
        keys: Sequence[str] = (),
        *,
        keeps_messages: bool = False,
        label: str | None = None,
    ) -> None:
        """Create the decoder with arguments like `towpath.Decoder`.

        Args:
            dialect: The dialect.
            schema: Columns of the table.
            options: Other arguments of `towpath.Decoder`.
            table: Database and name of the only table, as `table_name` returns it.
            keys: Columns of the key, if the messages do not declare them.
            keeps_messages: Whether each change keeps its message, even if it cannot become a dead letter by itself.
            label: Table name with which rows are labelled. None means no label.
        """
        from towpath.decoder import Decoder

        self._table, self._keeps_messages, self._label = table, keeps_messages, label
        self.decodes_as = repr((dialect, schema, sorted(options.items()), table, list(keys), label))
        """Identity of the decoding: equal for decoders that decode alike."""

        # MySQL compares names of columns without case.
        settings = {"case_sensitive": False, **options, "layout": "upsert", "keep": {INDEX: pa.int64()}, "key": "key"}
        # Without a dot in the name, the decoder's options select the table.
        fields: Sequence[Field] = (*_FIELDS, "_table") if table and "." in table[1] else _FIELDS
        self._decoder = Decoder(dialect, schema, row_column=COLUMNS, fields=fields, **settings)
        self._declarations = Decoder(
            dialect, schema, row_column=COLUMNS, fields=["_missing_columns", "_column_types"], **settings
        )
        self._aliases = {former.lower(): now for former, now in (options.get("aliases") or {}).items()}
        columns = self._decoder.schema.field(COLUMNS)
        self.schema: pa.Schema = change_schema(columns.type)
        names = {one.name.lower() for one in columns.type}
        known = [name for name in keys if name.lower() in names]  # the merge reports other names
        self._moved = MovedKeys(dialect, columns, known, settings) if known else None

    def decode_batches(self, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the changes in messages with the columns of `READ`, in batches of bounded size."""
        indexed = with_index(messages)
        for rows in self._decoder.decode_batches(indexed):
            columns = by_name(rows)
            changes, indices = self._changes(indexed, columns), columns[INDEX]
            masks = (self._is_of_table(columns), _is_read(indexed, columns), _are_rows(columns))
            if found := [one for one in masks if one is not None]:
                is_own = reduce(pc.and_, found)
                changes, indices = changes.filter(is_own), indices.filter(is_own)
            yield self._moved.split(indexed, changes, indices) if self._moved else changes

    def _is_of_table(self, rows: dict[str, pa.Array]) -> pa.BooleanArray | None:
        """Return which changes belong to the table, not to its namesake in another schema. None if it cannot exist."""
        schemas = rows["_schema"]
        if self._table is None or ("_table" not in rows and schemas.null_count == len(schemas)):
            return None
        database, name = self._table
        tables = rows.get("_table", pa.repeat(name, len(schemas)))
        names = table_names(tables, schemas, pa.repeat(pa.scalar(database, pa.string()), len(schemas)), rows["_source"])
        return pc.equal(names, name)

    def _changes(self, messages: pa.RecordBatch, rows: dict[str, pa.Array]) -> pa.RecordBatch:
        index = rows[INDEX]
        missing = _without_omitted(rows)
        lacks = pc.greater(pc.list_value_length(missing).fill_null(0), 0)
        incomplete = self._incomplete(messages, rows, lacks)
        is_update = pc.equal(rows["_op"], "update")
        partial = pc.and_(incomplete, is_update)
        # No message has the rest of a row whose key was changed.
        key_only = pc.or_(_key_only(rows["_source"]), pc.and_(incomplete, pc.invert(is_update)))
        # A delete that lacks columns may lack some of the key's columns.
        is_incomplete_delete = pc.and_(lacks, pc.equal(rows["_op"], "delete"))
        needs_message = reduce(pc.or_, (partial, key_only, is_incomplete_delete, pc.is_valid(rows["_error"])))
        of_message = index if self._keeps_messages else pc.if_else(needs_message, index, pa.scalar(None, pa.int64()))
        columns = {
            "op": rows["_op"],
            COLUMNS: rows[COLUMNS],
            "missing": missing,
            "partial": partial,
            "key_only": key_only,
            "event_time": rows["_event_time"],
            "produced_time": rows["_produced_time"],
            "source": part_of(rows["_source"], SOURCE),
            "row": rows["_row"],
            "step": pc.struct_field(rows["_sequence"], "row"),
            "error": part_of(rows["_error"], ERROR),
            "message": messages.column("value").take(of_message),
            "message_key": messages.column("key").take(of_message),
            **{name: messages.column(name).take(index) for name in PLACE},
            "label": pa.repeat(pa.scalar(self._label, pa.string()), len(rows["_op"])),
        }
        return pa.record_batch([cast(columns[name], self.schema.field(name).type) for name in columns], self.schema)

    def _incomplete(self, messages: pa.RecordBatch, rows: dict[str, pa.Array], lacks: pa.Array) -> pa.Array:
        """Return whether each update row lacks columns that its message declares, or is without declarations.

        PostgreSQL does not log large values that an update of the key leaves unchanged. Debezium writes such an update
        as a delete and an insert. Its messages without declarations may be older than a column.
        """
        is_insert = pc.equal(rows["_op"], "insert")
        # The second half of an update that changes the key.
        is_moved = pc.equal(pc.bit_wise_and(pc.struct_field(rows["_sequence"], "row"), 1), 1)
        of_update = pc.or_(pc.equal(rows["_op"], "update"), pc.and_(is_insert, is_moved))
        of_postgresql = pc.fill_null(pc.equal(pc.struct_field(rows["_source"], "connector"), "postgresql"), False)
        lacks = pc.and_(lacks, pc.or_(of_update, pc.and_(is_insert, of_postgresql)))
        if not pc.any(lacks).as_py():
            return lacks
        # The rows belong to consecutive messages. The rows of one message are never split.
        first, last = rows[INDEX][0].as_py(), rows[INDEX][-1].as_py()
        found = by_name(self._declarations.decode(messages.slice(first, last - first + 1)))
        each = (found["_missing_columns"], found["_column_types"], of_update)
        declared = zip(*(one.to_pylist() for one in each), strict=True)
        return pc.and_(lacks, pa.array([self._is_incomplete(*one) for one in declared], pa.bool_()))

    def _is_incomplete(
        self, missing: Sequence[str] | None, types: Sequence[tuple[str, str]] | None, of_update: bool | None
    ) -> bool:
        """Return whether a row lacks declared columns. The declaration does not have columns that were added later."""
        declared = {self._aliases.get(name.lower(), name).lower() for name, _ in types or ()}
        return any((of_update if not declared else name.lower() in declared) for name in missing or ())


def _are_rows(rows: dict[str, pa.Array]) -> pa.BooleanArray | None:
    """Return which changes are not truncates, which are statements. None means all."""
    are_rows = pc.not_equal(rows["_op"], "truncate")
    return None if pc.all(are_rows).as_py() else are_rows


def _is_read(messages: pa.RecordBatch, rows: dict[str, pa.Array]) -> pa.BooleanArray | None:
    """Return which rows of the messages are read. None means all."""
    read = messages.column("rows_read")
    if read.null_count == len(read):
        return None
    wanted = row_ids(pc.list_parent_indices(read), pc.list_flatten(read))
    return pc.or_(pc.is_null(read).take(rows[INDEX]), pc.is_in(row_ids(rows[INDEX], rows["_row"]), wanted))


def _without_omitted(rows: Mapping[str, pa.Array]) -> pa.Array:
    """Return the missing columns of rows. A DMS update is complete: omitted columns are null or empty text."""
    omits = pc.and_(pc.equal(rows["_op"], "update"), pc.equal(pc.struct_field(rows["_source"], "dialect"), _OMITTING))
    missing = rows["_missing_columns"]
    return pc.if_else(omits, pa.scalar(None, missing.type), missing) if pc.any(omits).as_py() else missing


def _key_only(source: pa.StructArray) -> pa.Array:
    """Return whether TiCDC sent only the key of a row."""
    handle_key_only = pc.fill_null(pc.struct_field(source, "handle_key_only"), False)
    return pc.or_(handle_key_only, pc.is_valid(pc.struct_field(source, "claim_check")))


def structured(changes: DataFrame) -> DataFrame:
    """Return a frame of changes from the result of `towpath.spark.decode(..., layout="upsert")`.

    The table's columns are the columns between `_op` and the rest of the envelope, and the columns that the user
    appended.
    """
    from pyspark.sql import functions as f

    names, after = table_columns(changes), changes.columns[_schema_end(changes) :]
    structs = [one for one in ("_source", "_error") if one in after]
    known = {*after, *(f"{one}.{name}" for one in structs for name in changes.select(f"{one}.*").columns)}
    kinds: dict[str, Any] = {one.name: one.dataType for one in struct_type(change_schema(pa.struct([])))}

    def own(kind: Any, *names: str) -> Column:
        """Return the first existing column, or field of a struct, among the names, or else null."""
        name = next((one for one in names if one in known), None)
        return (f.lit(None) if name is None else f.col(name)).cast(kind)

    def part(name: str) -> Column:
        return f.struct(*(own(one.dataType, f"_{name}.{one.name}").alias(one.name) for one in kinds[name]))

    op = f.col("_op")
    is_whole = f.coalesce((own("string", "_source.dialect") == _OMITTING) & (op == "update"), f.lit(False))
    missing = f.when(~is_whole, own(kinds["missing"], "_missing_columns"))
    lacks = f.coalesce(f.size(missing) > 0, f.lit(False))
    is_key = own("boolean", "_source.handle_key_only") | own("string", "_source.claim_check").isNotNull()
    # The second half of an update that changes the key.
    is_moved = f.expr("_op = 'insert' AND _sequence.row % 2 = 1")
    columns = {
        "op": op,
        COLUMNS: f.struct(*(f.col(column(name)).alias(name) for name in names)),
        "missing": missing,
        "partial": lacks & (op == "update"),
        "key_only": f.coalesce(is_key, f.lit(False)) | (lacks & is_moved),
        "event_time": own(kinds["event_time"], "_event_time"),
        "produced_time": own(kinds["produced_time"], "_produced_time"),
        "source": part("source"),
        "row": own(kinds["row"], "_row"),
        "step": f.col("_sequence.row"),
        "error": f.when(f.col("_error").isNotNull(), part("error")),
        "message": f.coalesce(f.col("_corrupt_record"), own("binary", "_value", "value")),
        "message_key": own("binary", "_key", "key"),
        **{name: own(kinds[name], f"_{name}", name) for name in PLACE},
        "label": f.lit(None).cast("string"),
    }
    declared = [f.col("_primary_key").alias("primary_key")] if "_primary_key" in after else []
    return changes.select(*(value.alias(name) for name, value in columns.items()), *declared)


def has_offsets(changes: DataFrame) -> bool:
    """Return whether a frame that `structured` accepts has Kafka's offsets."""
    after = changes.columns[_schema_end(changes) :]
    return "offset" in after or "_offset" in after


def table_columns(changes: DataFrame) -> list[str]:
    """Return the columns to write to the table: the decoder's schema, and the columns that the user appended."""
    end = _schema_end(changes)
    of_schema = [name for name in changes.columns[:end] if name != "_op"]
    return of_schema + [name for name in changes.columns[end:] if name not in _NOT_OF_TABLE]


def _schema_end(changes: DataFrame) -> int:
    """Return the index after the schema's columns. Layout "upsert" has `_op`, the schema, and the rest."""
    return min(at for at, name in enumerate(changes.columns) if name in ENVELOPE and name != "_op")
