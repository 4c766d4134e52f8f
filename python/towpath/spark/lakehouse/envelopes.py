"""Reads only the envelopes of messages: which tables a message changes, and events that change no row.

This is the first of the two passes over a topic with many tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.archives import drop_spark_importers
from towpath.spark.lakehouse.columns import MESSAGE
from towpath.spark.metrics import count_and_observe
from towpath.spark.types import struct_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.decoder import Decoder

ROW_CHANGES = ("insert", "update", "delete", "snapshot", "truncate")
"""The ops that change a table's rows."""

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
_INDEX = "_message"


def read_envelopes(messages: DataFrame, dialect: str, metrics: str | None, **options: Any) -> DataFrame:
    """Each message once for each table that it changes, and once for each event that changes no row.

    Args:
        messages: A DataFrame with the columns of Kafka's source.
        dialect: As for `towpath.Decoder`.
        metrics: Name of an observation, or None.
        **options: As for `towpath.Decoder`.

    Returns:
        A DataFrame with the columns of the event's envelope, followed by Kafka's.

    Raises:
        ValueError: A column is missing, or `towpath.Decoder` rejects an argument.
    """
    from pyspark.sql import functions as f

    from towpath.decoder import Decoder

    decoder = Decoder(dialect, fields=_FIELDS, keep={_INDEX: pa.int64()}, key="key", **options)
    missing = [name for name in MESSAGE if name not in (*messages.columns, "key")]
    if missing:
        raise ValueError(f"the DataFrame lacks Kafka's columns {', '.join(missing)}")
    if "key" not in messages.columns:
        messages = messages.withColumn("key", f.lit(None))
    kafka = struct_type(pa.schema(list(MESSAGE.items())))
    needed = messages.select(*(f.col(field.name).cast(field.dataType) for field in kafka))
    envelopes = EnvelopeDecoder(decoder)
    output = struct_type(envelopes.schema)
    if metrics is None:
        return needed.mapInArrow(envelopes, output)
    return count_and_observe(needed, envelopes, output, metrics)


class EnvelopeDecoder:
    """Decodes envelopes; a function for `mapInArrow`."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `DataFrame.mapInArrow` calls on a worker."""
        drop_spark_importers()
        for batch in batches:
            yield from self.decode_batches(batch)

    @property
    def columns(self) -> list[str]:
        """As `towpath.Decoder.columns`: none."""
        return self._decoder.columns

    @property
    def metrics(self) -> Any:
        """As `towpath.Decoder.metrics`."""
        return self._decoder.metrics

    @property
    def schema(self) -> pa.Schema:
        """The envelope's columns, followed by the message's."""
        envelope = [field for field in self._decoder.schema if field.name != _INDEX]
        return pa.schema([*envelope, *MESSAGE.items()])

    def decode_batches(self, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """One row for each table that a message changes, and for each of its events that changes no row."""
        # The decoder copies the message's index to its rows; copying the message would be expensive.
        indices = pa.array(range(len(messages)), pa.int64())
        for events in self._decoder.decode_batches(messages.append_column(_INDEX, indices)):
            yield self._tables(events, messages)

    def _tables(self, events: pa.RecordBatch, messages: pa.RecordBatch) -> pa.RecordBatch:
        firsts, lasts = _first_and_last_rows(events)
        # The table's declaration may change within a message; the last one is valid for what follows.
        declared = events.column("column_types").take(lasts)
        events = events.take(firsts)
        kept = messages.take(events.column(_INDEX))
        columns = {**_by_name(events), **_by_name(kept), "column_types": declared}
        return pa.record_batch([columns[name] for name in self.schema.names], self.schema)


def _by_name(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _first_and_last_rows(events: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Indices of the first and the last row change of each message and table, and those of all other events."""
    changes = pc.and_(pc.is_in(events.column("op"), pa.array(ROW_CHANGES)), pc.is_null(events.column("error")))
    indices = pa.array(range(len(events)), pa.int64())
    keys = ["message", "database", "table"]
    rows = pa.table([events.column(name) for name in (_INDEX, "database", "table")] + [indices], [*keys, "row"])
    groups = rows.filter(changes).group_by(keys, use_threads=False).aggregate([("row", "min_max")])
    others = indices.filter(pc.invert(changes))
    bounds = groups["row_min_max"].combine_chunks()
    firsts, lasts = (pa.concat_arrays([bounds.field(bound), others]) for bound in ("min", "max"))
    order = pc.sort_indices(firsts)
    return firsts.take(order), lasts.take(order)
