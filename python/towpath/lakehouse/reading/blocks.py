"""Blocks of changes: messages of a known table are decoded together with their envelopes.

A block is an Arrow stream that replaces messages. They are read from the source again when they are needed: for a table
whose columns have changed, for a statement between the changes, for quarantine. So most messages are read in one pass
only, and never enter Spark's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.reading.arrow_batches import groups_of, indices_of, taken, with_columns
from towpath.lakehouse.reading.changes import READ, ChangeDecoder, ChangeReader
from towpath.lakehouse.reading.declarations import Declaration, declared_columns
from towpath.lakehouse.reading.events import BLOCK, CHANGE, EVENT, EXAMPLE
from towpath.lakehouse.reading.schemas import filter_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.lakehouse.reading.source_tables import SourceTable
    from towpath.literals import Dialect

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


_WORTH_KNOWING = 1_000
"""Number of a table's messages in a batch that justifies a decoder for it in each task that reads envelopes."""

_Name = tuple[str | None, str]
"""Database and name of a table."""


@dataclass(frozen=True)
class NewTables:
    """Makes decoders of tables that the last batches did not have. A new target has the columns of the declaration."""

    dialect: Dialect
    options: Mapping[str, Any]
    """Arguments of the decoders of all tables."""
    has_arguments: Callable[[str | None, str], object]
    """Whether the user gave arguments for a table. Then its columns or its key depend on more than its messages."""
    least: int = field(default_factory=lambda: _WORTH_KNOWING)
    """Number of a table's messages in a record batch that justifies a decoder."""

    def known(self, name: _Name, declared: int, declaration: Declaration) -> KnownTable | None:
        """Return a table with one declaration; None if its messages do not declare its columns and its key."""
        options = {**self.options, **filter_options(*name)}
        has_key = declaration.key and not self.has_arguments(*name)
        columns = declared_columns([declaration], self.dialect, options) if has_key else None
        if columns is None:
            return None
        return KnownTable(ChangeDecoder(self.dialect, columns, options, name), frozenset([declared]))


class KnownTables:
    """Tables whose messages are decoded as soon as they are read."""

    def __init__(self, learned: Mapping[_Name, KnownTable] | None = None, new: NewTables | None = None) -> None:
        """Know tables of earlier batches, and how to decode new ones. Without arguments no table is known."""
        self.learned = dict(learned or {})
        self._new = new

    def __bool__(self) -> bool:
        """Return whether a table may be known."""
        return bool(self.learned) or self._new is not None

    def decoder(
        self, name: _Name, declared: int, events: pa.RecordBatch, indices: pa.Int64Array
    ) -> ChangeDecoder | None:
        """Return the decoder of a table's events with one declaration; None if their messages are kept."""
        if name not in self.learned and self._new is not None and len(indices) >= self._new.least:
            [example, *_] = _declaring(taken(events, indices)).to_pylist()
            if table := self._new.known(name, declared, Declaration.of({**example, "example": example})):
                self.learned[name] = table
        found = self.learned.get(name)
        return found.decoder if found is not None and declared in found.declared else None


class LearnedTables:
    """Tables with many messages in the last batches."""

    def __init__(self, new: NewTables | None = None) -> None:
        """Start without tables. `new` makes decoders of new tables."""
        self._new = new
        self._tables: dict[_Name, KnownTable] = {}
        self._former: dict[_Name, KnownTable | None] = {}
        """Known tables before this batch."""

    def with_declarations(self, learned: Set[int]) -> KnownTables:
        """Return the tables for the next batch. `learned` are the hashes of the declarations that are still kept."""
        found = {name: replace(one, declared=one.declared & learned) for name, one in self._tables.items()}
        return KnownTables(found, self._new)

    def begin(self, tables: Iterable[SourceTable]) -> None:
        """Begin a batch. Its tables have to be learned again."""
        self._former = {one.name_key: self._tables.pop(one.name_key, None) or self._made(one) for one in tables}

    def _made(self, table: SourceTable) -> KnownTable | None:
        """Return a new table as the workers knew it."""
        if self._new is None or not table.in_blocks or len(table.declared) != 1:
            return None
        [declared], [declaration] = table.declared, table.declarations
        return self._new.known(table.name_key, declared, declaration)

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
                self._with_messages = self._persisted(KnownTables())
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
    """`ChangeReader` for blocks and messages, in place of the decoder that made the blocks."""

    decoder: ChangeReader

    @property
    def schema(self) -> pa.Schema:
        """Schema of a frame of changes."""
        return self.decoder.schema

    def decode_batches(self, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the changes in blocks and in messages."""
        is_block = pc.equal(pc.list_value_length(messages.column("rows_read")), 0).fill_null(False)
        blocks, left = (indices_of(messages).filter(one) for one in (is_block, pc.invert(is_block)))
        yield from read_blocks(taken(messages, blocks))
        if len(left):
            yield from self.decoder.decode_batches(taken(messages, left))


def with_blocks(events: pa.RecordBatch, known: KnownTables) -> Iterator[pa.RecordBatch]:
    """Yield events, with blocks for row changes of known tables."""
    is_left = pa.repeat(True, len(events))
    for (kind, database, name, declared, _), at in groups_of(events, "kind", *_GROUP):
        if kind != CHANGE:
            continue
        try:
            if (decoder := known.decoder((database, name), declared, events, at)) is None:
                continue
            of_table = taken(events, at)
            blocks = _blocks(of_table, decoder)
        except Exception:  # the error occurs again later, where it only affects this table
            continue
        yield from blocks
        yield _examples(of_table)
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
            rows.append({**shared, **counts, "value": block, "rows_read": []})
            counts = dict.fromkeys(counts, 0)
        found.append(pa.RecordBatch.from_pylist(rows, EVENT))
    return found


def _examples(events: pa.RecordBatch) -> pa.RecordBatch:
    """Return the events with declarations as examples of these."""
    found = _declaring(events)
    zeros = pa.repeat(0, len(found))
    counts = dict.fromkeys(("messages", "rows", "size"), zeros)
    return with_columns(found, {"kind": pa.repeat(EXAMPLE, len(found)), **counts})


def _declaring(events: pa.RecordBatch) -> pa.RecordBatch:
    """Return the events with declarations."""
    return events.filter(pc.is_valid(events.column("declaration")))


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
