"""Divides the events of a batch by the statements about their tables.

A message may have rows from before and after a statement, wherever the statement is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath._towpath import statement_bounds
from towpath.lakehouse.log.ordered_statements import Place
from towpath.lakehouse.order.order_arrays import ORDER, order_values
from towpath.lakehouse.reading.arrow_batches import INDEX, by_name, groups_of
from towpath.lakehouse.reading.changes import READ
from towpath.lakehouse.reading.envelopes import ROW_CHANGES, decoded_envelopes, envelope_decoder, events_of
from towpath.lakehouse.reading.events import EVENT
from towpath.places import MESSAGE, PLACE
from towpath.spark.requirements import map_in_arrow
from towpath.spark.types import struct_type
from towpath.workers import EachBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.decoder import Decoder
    from towpath.literals import Dialect

_NAME = ("database", "table")

Statements = Mapping[tuple[str, str], pa.StructArray]
"""Order values of the statements about each table, in their order."""


def divided(
    events: DataFrame, places: Mapping[tuple[str, str], Sequence[Place]], dialect: Dialect, **options: Any
) -> DataFrame:
    """Divide the events of tables, so that the rows of each event are after the same statements.

    Args:
        events: Events without blocks.
        places: Places of the statements about each table, in their order.
        dialect: As for `towpath.Decoder`.
        **options: Other arguments of `towpath.Decoder`.
    """
    statements = {name: pa.array([dict(one.fields) for one in found], ORDER) for name, found in places.items()}
    divide = partial(_divided, envelope_decoder(dialect, **options), statements)
    return map_in_arrow(events.select(*_NAME, *READ), EachBatch(divide), struct_type(EVENT))


def _divided(decoder: Decoder, statements: Statements, events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the events, each divided by the statements about its table."""
    messages = events.select(list(MESSAGE))
    for decoded in decoded_envelopes(decoder, messages):
        rows = decoded.filter(_are_of_event(decoded, events))
        if len(rows):
            yield events_of(rows, messages, _slices(rows, messages, statements))


def _slices(rows: pa.RecordBatch, messages: pa.RecordBatch, statements: Statements) -> pa.Array:
    """Return the slice of each row: its bounds as text."""
    orders = order_values(_ordered(rows, messages))
    parts, indices = [], []
    for (database, name), at in groups_of(rows, *_NAME):
        bounds = statement_bounds(orders.take(at), statements[database or "", name])
        parts.append(pc.binary_join_element_wise(*(one.cast(pa.string()) for one in bounds.columns), "/"))
        indices.append(at)
    return pa.concat_arrays(parts).take(pc.sort_indices(pa.concat_arrays(indices)))


def _are_of_event(decoded: pa.RecordBatch, events: pa.RecordBatch) -> pa.BooleanArray:
    """Return whether each row changes the table of its event."""
    wanted = events.select(list(_NAME)).take(decoded.column(INDEX))
    is_change = pc.is_in(decoded.column("op"), pa.array(ROW_CHANGES))
    is_failed = pc.is_valid(decoded.column("error"))
    one, other = decoded.column("database").cast(pa.string()), wanted.column("database")
    of_database = pc.or_(pc.equal(one, other).fill_null(False), pc.and_(pc.is_null(one), pc.is_null(other)))
    of_table = pc.equal(decoded.column("table"), wanted.column("table")).fill_null(False)
    return pc.and_(pc.and_(is_change.fill_null(False), pc.invert(is_failed)), pc.and_(of_database, of_table))


def _ordered(rows: pa.RecordBatch, messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns from which order values are made."""
    columns = by_name(rows)
    places = {name: messages.column(name).take(columns[INDEX]) for name in PLACE}
    step = pc.multiply(columns["row"].cast(pa.int64()), 2)
    names = ("op", "event_time", "produced_time", "source")
    label = pa.nulls(len(rows), pa.string())
    return pa.record_batch({**{name: columns[name] for name in names}, **places, "step": step, "label": label})
