"""Carries rows that are older than statements: they get the columns and values that MySQL gave to older rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.following.converted_values import is_converted, relabelled
from towpath.lakehouse.log.timeline import Columns
from towpath.lakehouse.reading.changes import COLUMNS, ChangeReader
from towpath.lakehouse.reading.declarations import storable
from towpath.lakehouse.statements import GENERATED, NUMBERED, Column
from towpath.lakehouse.tables.sql import Sql, any_of, column, expressions, sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_ROWS = pa.array(["delete", "truncate"])


@lru_cache(1024)  # each call makes a decoder, and each batch asks for the columns of its tables
def initial_value(added: Column, kind: pa.DataType | None = None) -> pa.Scalar:
    """Return the value of a column in rows that are older than the column.

    Args:
        added: The column.
        kind: Type of the value. Defaults to the type of the column in a new target.
    """
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
    inferred = infer_schema(values, "canal-json") if kind is None else [pa.field(added.name, kind)]
    schema = pa.schema([storable(field) for field in inferred])
    decoder = Decoder(
        "canal-json", schema, layout="upsert", row_column="row", fields=["_op", "_error"], mode="FAILFAST"
    )
    return decoder.decode(pa.record_batch({"value": values})).column("row").flatten()[0][0]


@dataclass(frozen=True)
class CarriedReader:
    """`ChangeReader` that carries changes through the statements that came after them."""

    reader: ChangeReader
    """Reader of the changes as their messages have them."""
    schema: pa.Schema
    """Schema of a frame of changes, with the current columns of the table."""
    names: Mapping[str, str]
    """Current names of columns by their names in the messages."""
    added: Sequence[Column] = ()
    """Columns that were added after the changes."""

    def decode_batches(self, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Decode messages to changes with the current columns."""
        return map(self._carried, self.reader.decode_batches(messages))

    @cached_property
    def _fields(self) -> list[pa.Field]:
        return list(self.schema.field(COLUMNS).type)

    @cached_property
    def _initial(self) -> dict[str, pa.Scalar]:
        """Initial values of the added columns, with the columns' current types."""
        types = {one.name.lower(): one.type for one in self._fields}
        added = ((one.name.lower(), one) for one in self.added)
        return {name: initial_value(one, types[name]) for name, one in added}

    def _carried(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        columns, missing = changes.column(COLUMNS), self._missing(changes.column("missing"))
        known = {self.names[one.name].lower(): pc.struct_field(columns, [at]) for at, one in enumerate(columns.type)}
        is_row = pc.invert(pc.or_(changes.column("partial"), pc.is_in(changes.column("op"), _NO_ROWS))).to_pylist()
        arrays = []
        for one in self._fields:
            value, array = self._initial.get(one.name.lower()), known.get(one.name.lower())
            if array is not None and value is not None:
                lacks = [row and one.name in names for row, names in zip(is_row, missing, strict=True)]
                array = pc.if_else(pa.array(lacks, pa.bool_()), value, array)
                missing = [names - {one.name} if lack else names for names, lack in zip(missing, lacks, strict=True)]
            elif array is None and value is not None:
                array = pa.repeat(value, len(changes))
            elif array is None:
                array = pa.nulls(len(changes), one.type)
                missing = [names | {one.name} for names in missing]
            arrays.append(array)
        carried = {
            COLUMNS: pa.StructArray.from_arrays(arrays, fields=self._fields),
            "missing": pa.array(map(sorted, missing), changes.column("missing").type),
        }
        return pa.record_batch([carried.get(name, changes.column(name)) for name in self.schema.names], self.schema)

    def _missing(self, lists: pa.ListArray) -> list[Set[str]]:
        """Return the columns that each change lacks, by their current names."""
        if len(pc.list_flatten(lists)) == 0:
            return [frozenset()] * len(lists)
        return [frozenset(self.names.get(name, name) for name in one or ()) for one in lists.to_pylist()]


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
    """Return a condition that is true if MySQL changed a value when a statement changed the column's type.

    Args:
        value: The column, with its type in the target.
        modified: The column as the statement defines it.
    """
    if modified.unknown == GENERATED:
        return Sql("true")
    changed = [is_converted(value, modified.type)]
    # Without strict mode MySQL replaces NULL. A null date or time may stand for a zero date.
    if not modified.nullable and not pa.types.is_temporal(initial_value(modified).type):
        changed.append(sql("{value} IS NULL", value=value))
    if modified.unknown == NUMBERED:  # MySQL gives rows with 0 the next number
        changed.append(sql("{value} = 0", value=value))
    return any_of(changed)


def converted(changes: DataFrame, columns: Columns, masked: Collection[str]) -> list[str]:
    """Return the columns whose older values MySQL changed together with their types.

    Args:
        changes: The changes.
        columns: The columns after later statements.
        masked: Masked columns, in lower case.
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
