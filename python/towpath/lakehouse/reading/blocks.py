"""Blocks of changes: messages of a known table are decoded together with their envelopes.

A block is an Arrow stream that replaces messages. They are read from the source again when they are needed: for a table
whose columns have changed, for a statement between the changes, for quarantine. So most messages are read in one pass
only, and never enter Spark's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.reading.arrow_batches import groups_of, indices_of, taken
from towpath.lakehouse.reading.changes import READ, ChangeDecoder, ChangeReader
from towpath.lakehouse.reading.events import BLOCK, CHANGE, EVENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from towpath.lakehouse.reading.source_tables import SourceTable

_BLOCK_SIZE = 256 << 10
"""Size of a block in bytes. A few blocks make a record batch of usual size."""

BLOCKS_IN_BATCH = 64
"""Number of events in a task's record batch if some of them are blocks."""

_GROUP = ("database", "table", "declared", "topic")


@dataclass(frozen=True)
class KnownTable:
    """Table whose messages are decoded as soon as they are read."""

    decoder: ChangeDecoder
    declared: frozenset[int]
    """Hashes of the declarations for which the decoder was made."""


KnownTables = Mapping[tuple[str | None, str], KnownTable]
"""Known tables by database and name."""

_WORTH_KNOWING = 1_000
"""Number of a table's messages in a batch that justifies a decoder for it in each task that reads envelopes."""


class LearnedTables:
    """Tables with many messages in the last batches."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str | None, str], KnownTable] = {}
        self._former: dict[tuple[str | None, str], KnownTable | None] = {}
        """Known tables before this batch."""

    def with_declarations(self, learned: Set[int]) -> KnownTables:
        """Return the tables for the next batch. `learned` are the hashes of the declarations that are still kept."""
        return {name: replace(one, declared=one.declared & learned) for name, one in self._tables.items()}

    def begin(self, tables: Iterable[SourceTable]) -> None:
        """Begin a batch. Its tables have to be learned again."""
        self._former = {one.name_key: self._tables.pop(one.name_key, None) for one in tables}

    def made_blocks(self, table: SourceTable, reader: ChangeReader) -> bool:
        """Return whether the blocks of a table, if any, contain the changes that a reader makes."""
        return table.in_blocks and self._known_to(table, reader) is not None

    def learn(self, table: SourceTable, reader: ChangeReader) -> None:
        """Decode the next messages of a table with their envelopes if there are many."""
        if table.messages >= _WORTH_KNOWING and not table.slices and isinstance(reader, ChangeDecoder):
            former = self._known_to(table, reader)
            declared = table.declared | former.declared if former else table.declared
            self._tables[table.name_key] = KnownTable(reader, declared)

    def _known_to(self, table: SourceTable, reader: ChangeReader) -> KnownTable | None:
        """Return the known table if its decoder decodes like a reader."""
        known = self._former.get(table.name_key)
        is_same = known and isinstance(reader, ChangeDecoder) and known.decoder.decodes_as == reader.decodes_as
        return known if is_same else None


class BatchEvents:
    """Events of a batch, with blocks or with all messages."""

    def __init__(self, read: Callable[[KnownTables], DataFrame], known: KnownTables, held: ExitStack) -> None:
        """Read a batch, with blocks for known tables. The end of `held` frees the workers' memory."""
        self._read, self._held = read, held
        self._lock = Lock()
        self.frame = self._persisted(known)
        self._with_messages = None if known else self.frame

    def of(self, frame: DataFrame) -> BatchEvents:
        """Return some of the events, without blocks."""
        found = copy(self)
        found.frame = found._with_messages = frame
        return found

    def with_messages(self) -> DataFrame:
        """Return the events without blocks. Read the batch again if there are any."""
        with self._lock:
            if self._with_messages is None:
                self._with_messages = self._persisted({})
            return self._with_messages

    def _persisted(self, known: KnownTables) -> DataFrame:
        return self.held(self._read(known))

    def held(self, frame: DataFrame) -> DataFrame:
        """Keep a DataFrame in the workers' memory until the batch ends."""
        frame = frame.persist()
        self._held.callback(frame.unpersist)
        return frame


def read_blocks(events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the changes of the blocks in the column `value`."""
    for block in events.column("value"):
        yield from pa.ipc.open_stream(block.as_buffer())


@dataclass(frozen=True)
class BlockReader:
    """`ChangeReader` for blocks, in place of the decoder that made them."""

    schema: pa.Schema

    def decode_batches(self, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the changes in blocks."""
        return read_blocks(messages)


def are_insufficient(found: Iterable[Row]) -> bool:
    """Return whether the messages of blocks are needed: other messages declare other columns, or empty the table."""
    kinds: dict[tuple[str | None, str], set[str]] = {}
    for row in found:
        kinds.setdefault((row["database"], row["table"]), set()).add(row["kind"])
    return any({BLOCK, CHANGE} <= one for one in kinds.values())


def with_blocks(events: pa.RecordBatch, known: KnownTables) -> Iterator[pa.RecordBatch]:
    """Yield events, with blocks for row changes of known tables."""
    is_left = pa.repeat(True, len(events))
    for (kind, database, name, declared, _), at in groups_of(events, "kind", *_GROUP):
        table = known.get((database, name))
        if kind != CHANGE or table is None or declared not in table.declared:
            continue
        try:
            blocks = _blocks(taken(events, at), table.decoder)
        except Exception:  # the error occurs again later, where it only affects this table
            continue
        yield from blocks
        is_left = pc.and_(is_left, pc.invert(pc.is_in(indices_of(events), at)))
    if left := pc.sum(is_left).as_py():
        yield events if left == len(events) else events.filter(is_left)


def _blocks(events: pa.RecordBatch, decoder: ChangeDecoder) -> list[pa.RecordBatch]:
    """Return the events of one table as blocks, in batches of bounded size. The first block has all counts."""
    parts = list(decoder.decode_batches(events.select(list(READ))))
    shared = {name: events.column(name)[0].as_py() for name in _GROUP} | {"kind": BLOCK}
    shared |= {name: pc.max(events.column(name)).as_py() for name in ("commit_ts", "in_log")}
    counts = {name: pc.sum(events.column(name)).as_py() for name in ("messages", "rows", "size")}
    found = []
    for changes in parts or [pa.RecordBatch.from_pylist([], decoder.schema)]:
        rows = []
        for block in _streams(changes):
            rows.append({**shared, **counts, "value": block})
            counts = dict.fromkeys(counts, 0)
        found.append(pa.RecordBatch.from_pylist(rows, EVENT))
    return found


def _streams(changes: pa.RecordBatch) -> list[bytes]:
    """Return changes as Arrow streams of bounded size."""
    rows = max(1, _BLOCK_SIZE * len(changes) // max(1, changes.nbytes))
    return [stream(changes.slice(start, rows)) for start in range(0, max(1, len(changes)), rows)]


def stream(changes: pa.RecordBatch) -> bytes:
    """Return changes as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, changes.schema) as writer:
        writer.write_batch(changes)
    return bytes(sink.getvalue())
