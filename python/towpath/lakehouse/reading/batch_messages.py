"""The messages of a batch. The driver decodes a small batch, the workers decode any other.

A job on the workers costs about as much as decoding ten thousand messages, and a batch has a job for each table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.merging.fold import ADDED, Fold
from towpath.lakehouse.reading.changes import READ, ChangeReader
from towpath.lakehouse.reading.events import BLOCK, CHANGE
from towpath.lakehouse.reading.source_tables import SourceTable, any_of
from towpath.spark.requirements import has_arrow, map_in_arrow
from towpath.spark.types import struct_type
from towpath.workers import EachBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from towpath.lakehouse.reading.blocks import BatchEvents

_TASKS_PER_CORE = 4


Readers = Sequence[tuple[SourceTable, ChangeReader]]
"""Parts of a table, each with the reader of its changes. All readers make the same columns."""


class Messages:
    """Messages of a batch by the tables that they change, in a DataFrame of events."""

    def __init__(self, events: DataFrame) -> None:
        self._events = events

    def changes(self, readers: Readers) -> DataFrame:
        """Return the changes of a table."""
        from pyspark.sql import DataFrame

        return reduce(DataFrame.union, (self._changes_of(table, reader) for table, reader in readers))

    def newest(self, readers: Readers, fold: Fold) -> DataFrame:
        """Return the newest changes of a table of one part. One task reads and folds them."""
        [(table, reader)] = readers
        schema = pa.schema([*reader.schema, *ADDED])
        return map_in_arrow(self._of(table).coalesce(1), replace(fold, decoder=reader), struct_type(schema))

    def _changes_of(self, table: SourceTable, reader: ChangeReader) -> DataFrame:
        read = EachBatch(reader.decode_batches)
        return map_in_arrow(self._of(table).coalesce(table.tasks), read, struct_type(reader.schema))

    def _of(self, table: SourceTable) -> DataFrame:
        return self._events.filter(table.condition()).select(*READ)


class MessagesInDriver(Messages):
    """Messages in the driver's memory."""

    def __init__(self, events: DataFrame) -> None:
        super().__init__(events)
        names = [name for name in ("database", "table", "slice") if name in events.columns]
        found = events.filter(f"kind IN ('{CHANGE}', '{BLOCK}')").select(*names, *READ).toArrow()
        self._messages = found.combine_chunks()
        self._read: dict[object, tuple[ChangeReader, list[pa.RecordBatch]]] = {}

    def changes(self, readers: Readers) -> DataFrame:
        """Return the changes of a table."""
        return self._frame((one for each in readers for one in self._batches_of(*each)), readers[0][1].schema)

    def newest(self, readers: Readers, fold: Fold) -> DataFrame:
        """Return the newest changes of a table of one part."""
        [(table, reader)] = readers
        return self._frame(fold.newest(self._batches_of(table, reader)), pa.schema([*reader.schema, *ADDED]))

    def _frame(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> DataFrame:
        return local_frame(self._events.sparkSession, pa.Table.from_batches(batches, schema), struct_type(schema))

    def _batches_of(self, table: SourceTable, reader: ChangeReader) -> list[pa.RecordBatch]:
        """Read the changes of a table once for each reader."""
        part = table.name_key, table.slices
        if part not in self._read or self._read[part][0] is not reader:
            database, name = table.name_key
            of_database = pc.field("database").is_null() if database is None else pc.field("database") == database
            mask = of_database & (pc.field("table") == name)
            if table.slices:
                mask &= pc.field("slice").isin(list(table.slices))
            messages = self._messages.filter(mask).select(list(READ)).cast(pa.schema(list(READ.items())))
            batches = messages.combine_chunks().to_batches()
            self._read[part] = reader, [one for batch in batches for one in reader.decode_batches(batch)]
        return self._read[part][1]


def in_few_tasks(rows: DataFrame, per_core: int = _TASKS_PER_CORE) -> DataFrame:
    """Limit rows to a number of tasks per core, since Python costs each task about 0.1 s of CPU time.

    Kafka's source has a task for each partition of the topics, even if the batch has few messages.
    """
    context = getattr(rows.sparkSession, "sparkContext", None)  # a Connect client has none
    return rows.coalesce(per_core * context.defaultParallelism) if context is not None else rows


class BatchMessages:
    """Messages of a batch. Each form of them is read once, for the first table that needs it."""

    def __init__(self, events: BatchEvents, tables: Sequence[SourceTable], others: Sequence[SourceTable]) -> None:
        """Read nothing yet. `others` are all other tables of the batch."""
        self._events, self._tables, self._others = events, tables, others
        count, size = (sum(getattr(one, name) for one in tables) for name in ("messages", "size"))
        self._in_driver = fits_in_driver(count, size) and has_arrow(type(events.frame))
        self._found: dict[bool, Messages] = {}
        self._lock = Lock()

    def __call__(self, *, of_blocks: bool = False) -> Messages:
        """Return the messages as they were read, with blocks. `of_blocks` returns all messages instead of blocks."""
        with self._lock:
            if of_blocks not in self._found:
                events = self._events.with_messages() if of_blocks else self._events.frame
                self._found[of_blocks] = MessagesInDriver(self._own(events)) if self._in_driver else Messages(events)
            return self._found[of_blocks]

    def _own(self, events: DataFrame) -> DataFrame:
        """Return the events of the tables, by the shorter of two conditions."""
        if len(self._others) < len(self._tables):
            return events.filter(~any_of(self._others)) if self._others else events
        return events.filter(any_of(self._tables))


def fits_in_driver(count: int, size: int) -> bool:
    """Return whether the driver may hold messages or rows of this number and size in bytes."""
    return count <= 20_000 and size <= 32 << 20


def computed(frame: DataFrame, held: ExitStack, *, in_driver: bool) -> DataFrame:
    """Compute the rows of a DataFrame once, and hold them in the memory of the driver or of the workers.

    Do not use `persist`: when Spark writes a table that the plan reads, it discards the cache and computes the rows
    again. The end of `held` frees the workers' memory.
    """
    if in_driver and has_arrow(type(frame)):
        return local_frame(frame.sparkSession, frame.toArrow(), frame.schema)
    rows = frame.localCheckpoint(eager=False)
    plan = getattr(rows, "_jdf", None)
    if plan is not None:  # on Connect the server frees the memory after the client has released the DataFrame
        held.callback(plan.queryExecution().analyzed().rdd().unpersist, False)
    return rows


def local_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return a DataFrame of one partition with rows of the driver."""
    return spark.createDataFrame(rows, schema).coalesce(1)


def frame_of(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return a DataFrame of a few rows. Each job on a DataFrame of Python objects would start Python workers."""
    from pyspark.sql import DataFrame

    if has_arrow(DataFrame):
        return local_frame(spark, rows, schema)
    return spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], schema)
