"""Columns of decoded changes: which are the table's own, which the envelope's, and which Kafka's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.spark.lakehouse.sql import column
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

POSITION = "_towpath"
"""The column of a target table with the source position of the change that wrote the row."""

MESSAGE = {
    "value": pa.binary(),
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
}
"""The columns of Spark's Kafka source that are read, with their types."""

COORDINATES = ("topic", "partition", "offset")
"""The columns that identify a Kafka record."""

ENVELOPE = frozenset(
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
"""Every envelope column of layout "upsert"."""

_KAFKA = frozenset([*MESSAGE, "timestamp", "timestampType", "headers"])
_NOT_OF_TABLE = ENVELOPE | _KAFKA | {f"_{name}" for name in _KAFKA} | {POSITION}


def table_columns(changes: DataFrame) -> list[str]:
    """The columns to write to the table: those of the decoder's schema, and those that the user appended."""
    end = _schema_end(changes)
    of_schema = [name for name in changes.columns[:end] if name != "_op"]
    return of_schema + [name for name in changes.columns[end:] if name not in _NOT_OF_TABLE]


def _schema_end(changes: DataFrame) -> int:
    """Index after the columns of the schema: layout "upsert" has `_op`, the schema, and the rest of the envelope."""
    return min(at for at, name in enumerate(changes.columns) if name in ENVELOPE and name != "_op")


def kafka_column(changes: DataFrame, name: str) -> Column:
    """A column of Kafka, if it was kept, otherwise nulls. A column of the table with the same name does not count."""
    from pyspark.sql import functions as f

    after_schema = changes.columns[_schema_end(changes) :]
    for kept in (f"_{name}", name):
        if kept in after_schema:
            return f.col(column(kept))
    return f.lit(None).cast(_spark_type(name))


def _spark_type(name: str) -> DataType:
    return struct_type(pa.schema([(name, MESSAGE[name])]))[0].dataType
