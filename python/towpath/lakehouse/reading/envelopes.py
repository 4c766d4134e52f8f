"""Reads only the envelopes of messages: the tables that a message changes, and events that change no row.

This is the first of two passes over a topic. It also counts, so that no other pass has to. It decodes the messages of
known tables, which have no second pass.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.reading.arrow_batches import INDEX, by_name, indices_of, part_of, taken, with_index
from towpath.lakehouse.reading.blocks import KnownTables, with_blocks
from towpath.lakehouse.reading.changes import ERROR
from towpath.lakehouse.reading.events import CHANGE, DDL, DEAD, EVENT, EVENT_SOURCE, WATERMARK
from towpath.lakehouse.reading.schemas import table_names
from towpath.places import MESSAGE
from towpath.spark.metrics import count_and_observe
from towpath.spark.requirements import map_in_arrow
from towpath.spark.types import struct_type
from towpath.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.decoder import Decoder
    from towpath.literals import Dialect, Field

ROW_CHANGES = ("insert", "update", "delete", "snapshot")
"""Operations that change single rows of a table. A truncate is a statement."""

_TSO_BITS = 18
"""Bits by which TiDB shifts its times. The times are milliseconds since 1970."""

_FUTURE_MS = 24 * 60 * 60 * 1000
"""Maximum lead of a watermark over the time of its Kafka record. The clocks may differ by this much."""

_FIELDS: tuple[Field, ...] = (
    "op",
    "database",
    "schema",
    "table",
    "primary_key",
    "event_time",
    "produced_time",
    "sql",
    "table_changes",
    "column_types",
    "source",
    "row",
    "error",
)


def read_envelopes(
    messages: DataFrame, dialect: Dialect, metrics: str | None, known: KnownTables | None = None, **options: Any
) -> DataFrame:
    """Return a row of `EVENT` for each table that a message changes, and for each event that changes no row.

    Args:
        messages: A DataFrame with the columns of Kafka's source.
        dialect: As for `towpath.Decoder`.
        metrics: Name of an observation, or None.
        known: Tables whose events become blocks. Only without metrics.
        **options: Other arguments of `towpath.Decoder`.

    Raises:
        ValueError: A column is missing, or `towpath.Decoder` rejects an argument.
    """
    from pyspark.sql import functions as f

    decoder = envelope_decoder(dialect, **options)
    missing = [name for name in MESSAGE if name not in (*messages.columns, "key", "timestamp")]
    if missing:
        raise ValueError(f"the DataFrame lacks the Kafka columns {', '.join(missing)}")
    kafka = struct_type(pa.schema(list(MESSAGE.items())))
    needed = messages.select(
        *(
            (f.col(one.name) if one.name in messages.columns else f.lit(None)).cast(one.dataType).alias(one.name)
            for one in kafka
        )
    )
    envelopes = EnvelopeDecoder(decoder, known or KnownTables())
    output = struct_type(EVENT)
    if metrics is None:
        return map_in_arrow(needed, envelopes, output)
    return count_and_observe(needed, envelopes, output, metrics)


def envelope_decoder(dialect: Dialect, **options: Any) -> Decoder:
    """Make a decoder of the envelope columns for events, with the index of each message."""
    from towpath.decoder import Decoder

    return Decoder(dialect, fields=_FIELDS, keep={INDEX: pa.int64()}, key="key", **options)


class EnvelopeDecoder:
    """Function for `mapInArrow` that decodes envelopes."""

    def __init__(self, decoder: Decoder, known: KnownTables) -> None:
        self._decoder, self._known = decoder, known

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode messages on a worker: `DataFrame.mapInArrow` calls this."""
        begin_task()
        for batch in batches:
            yield from self.decode_batches(batch)

    @property
    def columns(self) -> list[str]:
        """Columns as in `towpath.Decoder.columns`; empty here."""
        return self._decoder.columns

    @property
    def metrics(self) -> Any:
        """Metrics of the decoder, for the interface of `towpath.Decoder`."""
        return self._decoder.metrics

    def decode_batches(self, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield one row for each table that a message changes, and for each event that changes no row."""
        for decoded in decoded_envelopes(self._decoder, messages):
            events = events_of(decoded, messages)
            if self._known:
                yield from with_blocks(events, self._known)
            else:
                yield events


def decoded_envelopes(decoder: Decoder, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the envelopes of messages."""
    return map(_with_schemas, decoder.decode_batches(with_index(messages)))


def _with_schemas(decoded: pa.RecordBatch) -> pa.RecordBatch:
    """Add the schema to the name of each table outside of the default schema."""
    columns = by_name(decoded)
    names = table_names(*(columns[name] for name in ("table", "schema", "database", "source")))
    return decoded.set_column(decoded.schema.get_field_index("table"), "table", names)


def events_of(decoded: pa.RecordBatch, messages: pa.RecordBatch, slices: pa.Array | None = None) -> pa.RecordBatch:
    """Return the events of messages with these envelopes.

    A slice says which statements about its table a row is after. A message has an event for each table and slice.
    """
    kinds = _kinds(decoded, future := _is_from_the_future(decoded, messages))
    firsts, lasts, rows, read = _first_and_last_rows(decoded, kinds, slices)
    # The table's declaration may change within a message. The last one holds for later messages.
    key, types = (taken(decoded.column(name), lasts) for name in ("primary_key", "column_types"))
    events = taken(decoded, firsts)
    kinds = kinds.take(firsts)
    is_change = pc.equal(kinds, CHANGE)
    source = events.column("source")
    kept = taken(messages, events.column(INDEX))
    declared, declarations = _declarations(events, key, types, is_change)
    columns = {
        **by_name(events),
        **by_name(kept),
        "kind": kinds,
        "messages": pa.repeat(1, len(events)),
        "rows": rows,
        "size": pc.binary_length(kept.column("value")).fill_null(0),
        "commit_ts": pc.struct_field(source, "commit_ts"),
        "in_log": pc.is_valid(pc.struct_field(source, "position")),
        "declared": declared,
        "declaration": declarations,
        "source": part_of(source, EVENT_SOURCE, is_change),  # only statements need it
        "error": _errors(events.column("error"), future.take(firsts)),
        "slice": pa.nulls(len(events)) if slices is None else _of_declaration(slices.take(firsts), declared),
        "rows_read": read,
    }
    return pa.record_batch([columns[field.name].cast(field.type) for field in EVENT], EVENT)


def _of_declaration(slices: pa.Array, declared: pa.Array) -> pa.Array:
    """Divide each slice by declaration."""
    return pc.binary_join_element_wise(slices, declared.cast(pa.string()), "/")


def _errors(errors: pa.StructArray, future: pa.BooleanArray) -> pa.StructArray:
    return pc.if_else(pc.and_(future, pc.is_null(errors)), _FUTURE, part_of(errors, ERROR))


_FUTURE = pa.scalar(
    {"kind": "range", "message": "watermarkTs: more than a day later than the timestamp of its Kafka record"},
    pa.struct(list(ERROR.items())),
)


def _is_from_the_future(events: pa.RecordBatch, messages: pa.RecordBatch) -> pa.BooleanArray:
    """Return whether an event is a watermark with an impossible future time. It would skip all later changes."""
    watermarks = pc.struct_field(events.column("source"), "watermark_ts")
    if watermarks.null_count == len(watermarks):
        return pa.repeat(False, len(watermarks))
    arrived = messages.column("timestamp").take(events.column(INDEX)).cast(pa.timestamp("ms", "UTC"), safe=False)
    latest = pc.add(arrived.cast(pa.int64()).fill_null(int(1000 * time.time())), _FUTURE_MS)
    return pc.greater(pc.shift_right(watermarks, _TSO_BITS), latest).fill_null(False)


def _kinds(events: pa.RecordBatch, future: pa.BooleanArray) -> pa.Array:
    """Return the kind of each event; null for ignored events."""
    op, failed = events.column("op"), pc.is_valid(events.column("error"))
    change, truncate = pc.is_in(op, pa.array(ROW_CHANGES)), pc.equal(op, "truncate").fill_null(False)
    needs_table = pc.or_(change, pc.and_(truncate, pc.is_null(events.column("sql"))))
    return pc.case_when(
        pc.make_struct(
            pc.or_(pc.or_(failed, future), pc.and_(needs_table, pc.is_null(events.column("table")))),
            change,
            pc.or_(truncate, pc.is_in(op, pa.array(["ddl", "query"]))),
            pc.equal(op, "watermark"),
        ),
        DEAD,
        CHANGE,
        DDL,
        WATERMARK,
    )


def _first_and_last_rows(
    events: pa.RecordBatch, kinds: pa.Array, slices: pa.Array | None
) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """Return the indices of the first and last row change of each message, table and slice, and of all other events.

    Return also the number of rows, and with slices the numbers of the rows.
    """
    is_change, indices = pc.equal(kinds, CHANGE).fill_null(False), indices_of(events)
    if pc.count_distinct(events.column(INDEX)).as_py() == len(events):  # each message has one row
        rows = indices.filter(pc.is_valid(kinds))
        return rows, rows, is_change.take(rows).cast(pa.int64()), pa.nulls(len(rows))
    keys = ["message", "database", "table", "slice", "other"]
    columns = [events.column(name) for name in (INDEX, "database", "table")]
    columns.append(pa.nulls(len(events), pa.string()) if slices is None else slices)
    columns.append(pc.if_else(is_change, pa.scalar(None, pa.int64()), indices))
    values = {"row": indices, "change": is_change.cast(pa.int64()), "number": events.column("row")}
    rows = pa.table([*columns, *values.values()], [*keys, *values]).filter(pc.is_valid(kinds))
    wanted = [("row", "min"), ("row", "max"), ("change", "sum"), *([("number", "list")] if slices is not None else [])]
    groups = rows.group_by(keys, use_threads=False).aggregate(wanted).sort_by("row_min")
    found = [groups[f"{name}_{of}"].combine_chunks() for name, of in wanted]
    return found[0], found[1], found[2], found[3] if slices is not None else pa.nulls(len(groups))


def _declarations(
    events: pa.RecordBatch, key: pa.ListArray, types: pa.MapArray, is_change: pa.Array
) -> tuple[pa.Array, pa.Array]:
    """Return the hash of each event's declaration, and the JSON text for the first event of each declaration."""
    pairs = pc.binary_join_element_wise(types.keys, types.items, "\0", null_handling="replace", null_replacement="")
    said = pc.binary_join_element_wise(
        events.column("database"),
        events.column("table"),
        pc.binary_join(key, "\1"),
        pc.binary_join(pa.ListArray.from_arrays(types.offsets, pairs), "\1"),
        "\2",
        null_handling="replace",
        null_replacement="\3",
    )
    encoded = pc.if_else(is_change, said, pa.scalar(None, pa.string())).dictionary_encode()
    firsts = pc.index_in(pa.array(range(len(encoded.dictionary)), pa.int32()), encoded.indices).to_pylist()
    texts: list[str | None] = [None] * len(events)
    hashes = []
    for at in firsts:
        text = _declaration(key[at].as_py(), types[at].as_py())
        texts[at] = text
        hashes.append(_hash(events.column("database")[at].as_py(), events.column("table")[at].as_py(), text))
    return pa.array(hashes, pa.int64()).take(encoded.indices), pa.array(texts, pa.string())


def _hash(*parts: str | None) -> int:
    """Return an integer hash that is the same in each process."""
    return int.from_bytes(blake2b(json.dumps(parts).encode(), digest_size=8).digest(), "big", signed=True)


def _declaration(key: list[str] | None, types: list[tuple[str, str]] | None) -> str:
    # Sort the columns, since some producers write them in varying order.
    return json.dumps({"key": key, "types": sorted(types) if types else None}, ensure_ascii=False)
