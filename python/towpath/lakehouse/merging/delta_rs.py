"""Opens Delta tables with delta-rs, refuses tables that it might write differently from Spark, and retries commits."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from towpath.lakehouse.order.order_arrays import cast_struct
from towpath.lakehouse.reading.arrow_batches import cast
from towpath.printable import printable

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, WriterProperties
    from deltalake.table import TableMerger

_log = logging.getLogger("towpath.spark")

_Result = TypeVar("_Result")

_FEATURES = frozenset(["appendOnly", "invariants", "timestampNtz", "columnMapping", "deletionVectors"])
"""Delta features with which merges of delta-rs and of Spark were compared."""

_OFF = ("delta.appendOnly", "delta.enableChangeDataFeed", "delta.enableRowTracking", "delta.enableInCommitTimestamps")
"""Table properties that require more of a writer."""

_ATTEMPTS = 12

_EXACT_DIGITS = 15
"""Number of a decimal's digits that are exact in delta-rs' statistics. delta-rs computes them with floats."""


class RefusedError(Exception):
    """Spark has to merge the table. The text is the reason."""

    is_lasting = True


class BatchRefusedError(RefusedError):
    """Spark has to merge this batch of the table."""

    is_lasting = False


@dataclass(frozen=True)
class Size:
    """Size of a table."""

    rows: int
    bytes: int
    """Size of the files."""

    def is_within(self, limits: Size) -> bool:
        """Return whether rows and bytes are within the limits."""
        return self.rows <= limits.rows and self.bytes <= limits.bytes


LIMITS = Size(4_000_000, 256 << 20)
"""Largest target that a task merges. Its memory grows by about 200 bytes with each row."""

SMALL_TABLE = Size(100_000, 16 << 20)
"""Largest table that the driver changes with delta-rs, and that a task overwrites or compacts."""


def attempted(action: Callable[[], _Result]) -> _Result | BaseException:
    """Return the result of an action of delta-rs, or its error."""
    try:
        return action()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in delta-rs is not an Exception
        return error


def open_if_exists(location: str, storage: Mapping[str, str] | None) -> DeltaTable | None:
    """Open the table in a local folder or at a URI. Return None if it does not exist."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError
    except ImportError as error:
        raise RefusedError(f"deltalake is not installed ({error})") from error
    try:
        return DeltaTable(location, storage_options=dict(storage or {}))
    except TableNotFoundError:
        return None


def opened(location: str, storage: Mapping[str, str] | None, id: str | None, limits: Size) -> DeltaTable:
    """Open a table that delta-rs writes like Spark. `id` is the expected id in its metadata, if Spark knows it.

    Raises:
        RefusedError: The table does not exist, or Spark has to write it.
    """
    found = open_if_exists(location, storage)
    if found is None:
        raise BatchRefusedError("the target was removed")
    if id is not None and id != str(found.metadata().id):
        raise BatchRefusedError("delta-rs and Spark opened different tables")
    _check(found, limits)
    return found


def _check(target: DeltaTable, limits: Size) -> None:
    """Refuse a table that is too large, or that delta-rs might write differently from Spark."""
    protocol, settings = target.protocol(), target.metadata().configuration
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    if unknown := sorted(features - _FEATURES):
        raise RefusedError(f"the table has the unsupported Delta features {', '.join(unknown)}")
    if not features and protocol.min_writer_version > 2:
        raise RefusedError(f"the table has the unsupported Delta writer version {protocol.min_writer_version}")
    if on := [name for name in _OFF if settings.get(name, "false").lower() == "true"]:
        raise RefusedError(f"the table has the unsupported properties {', '.join(on)}")
    found = size_of(target)
    if not found.is_within(limits):
        raise RefusedError(f"the table has {found.rows:,} rows in {found.bytes:,} bytes, more than a task can merge")


def size_of(table: DeltaTable) -> Size:
    """Return the size of a table."""
    files = pa.table(table.get_add_actions(flatten=True))
    rows, size = (pc.sum(files[name]).as_py() or 0 for name in ("num_records", "size_bytes"))
    return Size(rows, size)


def is_mapped(table: DeltaTable) -> bool:
    """Return whether a table has column mapping."""
    return table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"


def compact(table: DeltaTable) -> None:
    """Write the small files of a table as one file.

    Raises:
        RefusedError: delta-rs might write the table differently from Spark.
    """
    _check_rewritable(table)
    table.optimize.compact(writer_properties=without_wrong_statistics(table), commit_properties=next_version())


def maintain(table: DeltaTable, since: int, optimize_every: int | None) -> None:
    """Compact a small table with many files, and write a checkpoint of its log after each tenth version.

    Without both, a batch with a few new rows takes four times as long after 40 such batches. `since` is the version
    before the batch. The batch is already written, so an error does not fail it.
    """
    found = attempted(lambda: _maintain(table, since, optimize_every))
    if isinstance(found, BaseException):
        _log.info("%s: not compacted: %s", table.table_uri, printable(str(found)))


def _maintain(table: DeltaTable, since: int, optimize_every: int | None) -> None:
    _check_rewritable(table)
    if table.version() // _CHECKPOINT_EVERY > since // _CHECKPOINT_EVERY:
        table.create_checkpoint()
    if optimize_every and len(table.file_uris()) > most_files(optimize_every):
        _check(table, SMALL_TABLE)
        compact(table)


_CHECKPOINT_EVERY = 10
"""Number of versions between two checkpoints: Spark's default. The default of delta-rs is 100."""


def most_files(optimize_every: int) -> int:
    """Return the number of files that a table of few rows may have, if each batch adds one."""
    return min(optimize_every, 10)


def is_rewritable(table: DeltaTable) -> bool:
    """Return whether delta-rs replaces whole files of a table as Spark does."""
    return not is_mapped(table) and "deletionVectors" not in (table.protocol().writer_features or ())


def _check_rewritable(table: DeltaTable) -> None:
    if not is_rewritable(table):
        raise RefusedError("delta-rs does not compact tables with column mapping or deletion vectors")


def names_in(target: DeltaTable, wanted: Iterable[str]) -> list[str]:
    """Return the names of columns in the target's spelling."""
    known = {one.name.lower(): one.name for one in target.schema().fields}
    return [known[name.lower()] for name in wanted]


def quoted(name: str) -> str:
    """Quote a name for an expression."""
    return '"' + name.replace('"', '""') + '"'


def are_same(values: Iterable[str]) -> str:
    """Return the condition that rows `t` and `s` have the same values. Null is the same as null."""
    return " AND ".join(f"(t.{one} IS NOT DISTINCT FROM s.{one})" for one in values)


def select(table: DeltaTable, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield the values of expressions over a table's rows, in parts. Keys are the names of the result."""
    from deltalake import QueryBuilder

    listed = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    yield from pa.RecordBatchReader.from_stream(QueryBuilder().register("t", table).execute(f"SELECT {listed} FROM t"))


def all_rows(table: DeltaTable) -> pa.Table:
    """Return all rows with the types in the table's schema. Filters and Spark do not take view types."""
    schema = pa.schema(table.schema().to_arrow())
    parts = select(table, {quoted(name): quoted(name) for name in schema.names})
    return pa.Table.from_batches(
        (pa.record_batch(list(map(_plain, one.columns, schema)), schema) for one in parts), schema
    )


def _plain(array: pa.Array, field: pa.Field) -> pa.Array:
    return cast_struct(array, field.type) if pa.types.is_struct(field.type) else cast(array, field.type)


def next_version() -> CommitProperties:
    """Return properties that commit only the next version. delta-rs would otherwise retry some commits by itself."""
    from deltalake import CommitProperties

    return CommitProperties(max_commit_retries=0)


def begun_merge(target: DeltaTable, source: pa.Table, same: str) -> TableMerger:
    """Begin a MERGE of rows `s` into a table `t` that commits only the next version.

    `same` is the condition in delta-rs' SQL that matches rows `t` and `s`.
    """
    return target.merge(
        source,
        predicate=same,
        source_alias="s",
        target_alias="t",
        writer_properties=without_wrong_statistics(target),
        commit_properties=next_version(),
    )


def without_wrong_statistics(target: DeltaTable) -> WriterProperties:
    """Return properties without statistics that would make readers skip matching rows."""
    from deltalake import ColumnProperties, WriterProperties

    unknown = ColumnProperties(statistics_enabled="NONE")
    columns = {
        str(one.metadata.get(_PHYSICAL_NAME, one.name)): unknown
        for one in target.schema().fields
        if (found := _DECIMAL.fullmatch(str(getattr(one.type, "type", "")))) and int(found[1]) > _EXACT_DIGITS
    }
    return WriterProperties(compression="SNAPPY", column_properties=columns or None)


_DECIMAL = re.compile(r"decimal\((\d+),\s*\d+\)")
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def retried(attempt: Callable[[], _Result]) -> _Result:
    """Retry an attempt, beginning with reading the target, while other writers commit first.

    Raises:
        BatchRefusedError: Other writers committed first each time.
    """
    for number in range(_ATTEMPTS):
        try:
            return attempt()
        except Exception as error:
            if not is_conflict(error):
                raise
            time.sleep(random.uniform(0, 0.02 * 2 ** min(number, 6)))
    raise BatchRefusedError(f"{_ATTEMPTS} commit conflicts with other writers")


def is_conflict(error: Exception) -> bool:
    """Return whether another writer has committed the version that this writer tried to commit."""
    return type(error).__name__ == "CommitFailedError" and "Failed to commit transaction" in str(error)
