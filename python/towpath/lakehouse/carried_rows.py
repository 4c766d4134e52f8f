"""Rows that are older than statements: they get the columns and the values that the statements gave to older rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from towpath.lakehouse.changes import COLUMNS
from towpath.lakehouse.converted_values import is_converted, relabelled
from towpath.lakehouse.declarations import storable
from towpath.lakehouse.sql import Sql, any_of, column, comma_separated, expressions, sql, string
from towpath.lakehouse.statements import GENERATED, NUMBERED, Column
from towpath.lakehouse.timeline import Columns
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIMES = ("date", "timestamp", "timestamp_ntz")


def typed_value(added: Column) -> pa.Table:
    """Return the initial value of a column, with the type that its values have in the target."""
    from towpath.decoder import Decoder, infer_schema

    initial = added.initial.decode("latin-1") if isinstance(added.initial, bytes) else added.initial
    message = {
        "type": "INSERT",
        "database": "d",
        "table": "t",
        "mysqlType": {added.name: added.type},
        "data": [{added.name: initial}],
    }
    values = pa.array([json.dumps(message, ensure_ascii=False).encode()], pa.binary())
    schema = pa.schema([storable(field) for field in infer_schema(values, "canal-json")])
    decoder = Decoder(
        "canal-json", schema, layout="upsert", row_column="row", fields=["_op", "_error"], mode="FAILFAST"
    )
    row = decoder.decode(pa.record_batch({"value": values})).column("row")
    return pa.table(row.flatten(), schema=schema)


def initial_value(added: Column) -> Sql:
    """Return the initial value of a column, with its type."""
    value = typed_value(added)
    [field] = struct_type(value.schema)
    return literal(value.to_pylist()[0][field.name], Sql(field.dataType.simpleString()))


def literal(value: Any, kind: Sql) -> Sql:
    """Return a value of Python as SQL of a type of Spark."""
    if value is None:
        return sql("CAST(NULL AS {kind})", kind=kind)
    if isinstance(value, bytes):
        return Sql(f"X'{value.hex()}'")
    text = value.isoformat() if isinstance(value, date | datetime) else str(value)
    return sql("CAST({text} AS {kind})", text=string(text), kind=kind)


def renamed(changes: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Give the columns of changes their current names.

    Args:
        changes: The changes.
        names: The current names by the names in the messages.
    """
    from pyspark.sql import functions as f

    if all(source == now for source, now in names.items()):
        return changes
    columns = f.struct(*(f.col(column(COLUMNS, source)).alias(now) for source, now in names.items()))
    each = sql("map({pairs})", pairs=comma_separated(string(one) for pair in names.items() for one in pair))
    missing = expressions(changes.sparkSession)(sql("transform(missing, x -> {each}[x])", each=each))
    return changes.withColumn(COLUMNS, columns).withColumn("missing", missing)


def with_added(changes: DataFrame, added: Iterable[Column]) -> DataFrame:
    """Give changes the columns that were added after them, unless their messages have the columns."""
    from pyspark.sql import functions as f

    expr = expressions(changes.sparkSession)
    names = {name.lower(): name for name in changes.select(f"{COLUMNS}.*").columns}
    values = {name: f.col(column(COLUMNS, name)) for name in names.values()}
    given = []
    is_row = f.expr("NOT partial AND op NOT IN ('delete', 'truncate')")
    for one in added:
        name, value = names.get(one.name.lower(), one.name), expr(initial_value(one))
        if name not in values:
            values[name] = value
            continue
        lacks = is_row & f.coalesce(f.array_contains("missing", f.lit(name)), f.lit(False))
        values[name] = f.when(lacks, value).otherwise(values[name])
        given.append(f.when(lacks, f.lit(name)))
    if given:
        changes = changes.withColumn("missing", f.array_except("missing", f.array_compact(f.array(*given))))
    return changes.withColumn(COLUMNS, f.struct(*(value.alias(name) for name, value in values.items())))


def relabelled_rows(changes: DataFrame, columns: Columns) -> DataFrame:
    """Give the values of enums and sets the order and case of their new labels."""
    from pyspark.sql import functions as f

    names = changes.select(f"{COLUMNS}.*").columns
    values = {name: column(COLUMNS, name) for name in names}
    types = {name: columns.types[name.lower()].type for name in names if name.lower() in columns.types}
    found = {name: value for name, kind in types.items() if (value := relabelled(values[name], kind)) is not None}
    if not found:
        return changes
    expr = expressions(changes.sparkSession)
    each = (expr(value).alias(name) for name, value in {**values, **found}.items())
    return changes.withColumn(COLUMNS, f.struct(*each))


def are_changed(value: Sql, modified: Column) -> Sql:
    """Return a condition that is true if MySQL gave a value of a column another one with another type.

    Args:
        value: The column, with the type that it has in the target.
        modified: The column as the statement defines it.
    """
    if modified.unknown == GENERATED:
        return Sql("true")
    [field] = struct_type(typed_value(modified).schema)
    changed = [is_converted(value, modified.type)]
    # Without the strict mode, MySQL replaces nulls. Those of times may be zero dates.
    if not modified.nullable and field.dataType.simpleString() not in _TIMES:
        changed.append(sql("{value} IS NULL", value=value))
    if modified.unknown == NUMBERED:  # MySQL gives the next number to a row with 0
        changed.append(sql("{value} = 0", value=value))
    return any_of(changed)


def converted(changes: DataFrame, columns: Columns, masked: Collection[str]) -> list[str]:
    """Return the columns of which MySQL gave older rows other values when it changed their types.

    Args:
        changes: The changes.
        columns: What later statements made of their columns.
        masked: The columns without their own values, in lower case.
    """
    known = {name.lower() for name in changes.select(f"{COLUMNS}.*").columns}.difference(masked)
    return [
        one.name
        for name, one in columns.types.items()
        if name in known and _has(changes, are_changed(column(COLUMNS, one.name), one))
    ]


def _has(changes: DataFrame, condition: Sql) -> bool:
    is_row = Sql("op NOT IN ('delete', 'truncate') AND error IS NULL")
    meets = expressions(changes.sparkSession)(sql("{is_row} AND ({condition})", is_row=is_row, condition=condition))
    return changes.filter(meets).limit(1).count() > 0
