"""Which tables a message changes, and what else it says: the first of the two readings of a topic of many tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.archives import forget_importers
from towpath.spark.counts import Counting, counted, observed
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.decoder import Decoder

MESSAGE = {
    "value": pa.binary(),
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
}
"""What is needed of Kafka's columns."""

_FIELDS = [
    "op",
    "database",
    "table",
    "primary_key",
    "event_time",
    "sql",
    "table_changes",
    "column_types",
    "source",
    "row",
    "error",
]
_NUMBER = "_message"
_ROW_CHANGES = ("insert", "update", "delete", "snapshot", "truncate")


def routes(messages: DataFrame, dialect: str, metrics: str | None, **options: Any) -> DataFrame:
    """The messages, once for each table that they change, and once for each event that changes no row.

    Args:
        messages: A frame with the columns of Kafka's source.
        dialect: As for `towpath.Decoder`.
        metrics: Name of an observation for the counts, or None.
        **options: As for `towpath.Decoder`.

    Returns:
        A frame with the columns of the event's envelope, then Kafka's.

    Raises:
        ValueError: A column is missing, or `towpath.Decoder` refuses an argument.
    """
    from pyspark.sql import functions as f

    from towpath.decoder import Decoder

    decoder = Decoder(dialect, fields=_FIELDS, keep={_NUMBER: pa.int64()}, key="key", **options)
    kafka = struct_type(pa.schema(list(MESSAGE.items())))
    lacking = [name for name in MESSAGE if name not in (*messages.columns, "key")]
    if lacking:
        raise ValueError(f"the DataFrame lacks Kafka's columns {', '.join(lacking)}")
    if "key" not in messages.columns:
        messages = messages.withColumn("key", f.lit(None))
    needed = messages.select(*(f.col(field.name).cast(field.dataType) for field in kafka))
    routing = Routing(decoder)
    output = struct_type(routing.schema)
    if metrics is None:
        return needed.mapInArrow(routing, output)
    return observed(needed.mapInArrow(Counting(routing), counted(output)), metrics)


class Routing:
    """Reads envelopes only; a function for `mapInArrow`."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `DataFrame.mapInArrow` calls on a worker."""
        forget_importers()
        return map(self.decode, batches)

    @property
    def metrics(self) -> Any:
        """The counts of the messages that were read."""
        return self._decoder.metrics

    @property
    def schema(self) -> pa.Schema:
        """The envelope's columns, then the message's."""
        events = [field for field in self._decoder.schema if field.name != _NUMBER]
        return pa.schema([*events, *MESSAGE.items()])

    def decode(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """One row for each table that a message changes, and for each of its events that changes no row."""
        numbers = pa.array(range(len(messages)), pa.int64())
        # Numbers instead of messages: a message of many rows would be copied beside each.
        events = self._decoder.decode(messages.append_column(_NUMBER, numbers))
        firsts, lasts = _ends_of_each(events)
        # A table may change within a message: the last of its rows is declared as it is from then on.
        declared = events.column("column_types").take(lasts)
        events = events.take(firsts)
        kept = messages.take(events.column(_NUMBER))
        columns = {**_by_name(events), **_by_name(kept), "column_types": declared}
        return pa.record_batch([columns[name] for name in self.schema.names], self.schema)


def _by_name(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _ends_of_each(events: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Places of the events to keep: of a message's row changes the first in each table, with the last beside it."""
    changes = pc.and_(pc.is_in(events.column("op"), pa.array(_ROW_CHANGES)), pc.is_null(events.column("error")))
    places = pa.array(range(len(events)), pa.int64())
    named = pa.table([events.column(name) for name in (_NUMBER, "database", "table")] + [places], _GROUPED)
    ends = named.filter(changes).group_by(_GROUPED[:3], use_threads=False).aggregate([("place", "min_max")])
    others = places.filter(pc.invert(changes))
    found = ends["place_min_max"].combine_chunks()
    firsts, lasts = (pa.concat_arrays([found.field(end), others]) for end in ("min", "max"))
    order = pc.sort_indices(firsts)
    return firsts.take(order), lasts.take(order)


_GROUPED = ["message", "database", "table", "place"]
