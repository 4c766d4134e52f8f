"""Merges the changes of a table with delta-rs in one task of Spark, which owns the table meanwhile.

The task reads the keys and order values of the target and its tombstones, decides the outcome of each change by the
rules of `rust/order`, appends tombstones, and merges. It only commits the version after the one that it read. If
another writer commits first, the task reads again. So neither two attempts of a task (a retry, speculative execution)
nor other writers can apply a change twice, and none of them loses a commit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath._towpath import KeySet, change_outcomes, statement_bounds
from towpath.lakehouse.merging.delta_rs import (
    LIMITS,
    SMALL_TABLE,
    BatchRefusedError,
    RefusedError,
    all_rows,
    attempted,
    begun_merge,
    compact,
    is_conflict,
    is_mapped,
    is_rewritable,
    maintain,
    names_in,
    next_version,
    open_if_exists,
    opened,
    quoted,
    retried,
    select,
    size_of,
    without_wrong_statistics,
)
from towpath.lakehouse.merging.fold import ADDED, Fold, key_values
from towpath.lakehouse.merging.rows import DELETE
from towpath.lakehouse.order.order_arrays import ORDER, cast_struct, order_values, with_event_times
from towpath.lakehouse.reading.arrow_batches import cast, groups_of, taken
from towpath.lakehouse.reading.blocks import stream
from towpath.lakehouse.reading.changes import COLUMNS, ChangeReader
from towpath.places import KAFKA
from towpath.workers import begin_task

if TYPE_CHECKING:
    from deltalake import DeltaTable

RESULT = pa.schema(
    [
        ("number", pa.int32()),
        ("refused", pa.string()),
        ("is_lasting", pa.bool_()),
        ("row", pa.int64()),
        ("delete", pa.int64()),
        ("old", pa.int64()),
        ("rejected", pa.int64()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("place", pa.string()),
        ("seconds", pa.float64()),
        ("rejected_changes", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("files", pa.int64()),
    ]
)
"""Result of a task for a table.

`number` is the index of the table. `refused` is the reason if nothing was merged, and `is_lasting` says whether it
holds for later batches too. `rejected_changes` is an Arrow stream. `properties` and `files` (their number) describe the
target.
"""

_FORGOTTEN = "recorded_at < arrow_cast('{time:%Y-%m-%dT%H:%M:%S.%fZ}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
_MOST_TOMBSTONE_FILES = 20
_MOST_REJECTED = 16 << 20


Part = tuple[str | None, str, str | None]
"""Database, table and slice of events. The slice is null if the events are not sliced."""


@dataclass(frozen=True)
class OwnedTable:
    """Information that a task needs about a table."""

    readers: Mapping[Part, ChangeReader]
    """Readers of its changes. All of them make the same columns."""
    keys: tuple[str, ...]
    target: str
    """Local folder or URI of the target, which exists."""
    tombstones: str
    """Local folder or URI of its tombstones, which may not exist yet."""
    order: str
    """Column of the target with order values."""
    forget_before: datetime | None
    """Time before which tombstones are deleted."""
    has_dead_letters: bool = True
    """Whether a table for dead letters is given."""
    storage: Mapping[str, str] | None = field(default=None, repr=False)
    """Options of delta-rs to open a store."""
    id: str | None = None
    """Id of the target in Delta's metadata, as Spark reads it."""
    optimize_every: int | None = None
    """Argument of `replicate`."""
    soft_deletes: str | None = None
    """Argument of `replicate`."""
    after: Sequence[Mapping[str, Any]] = ()
    """Order values of the statements about the table. Its rows must be newer."""


class TableTasks:
    """Function for `mapInArrow` that merges tables. All changes of a table are in one task."""

    def __init__(self, tables: Sequence[OwnedTable]) -> None:
        self._tables = tables
        self._of_parts = {part: number for number, one in enumerate(tables) for part in one.readers}

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merge the events of a task. `PART` are their first columns."""
        begin_task()
        # By default delta-rs starts a thread for each core, in each of Spark's workers.
        os.environ.setdefault("TOKIO_WORKER_THREADS", "2")
        events: dict[int, list[tuple[Part, pa.RecordBatch]]] = {}
        for batch in batches:
            for part, found in _by_part(batch):
                if part in self._of_parts:
                    events.setdefault(self._of_parts[part], []).append((part, found))
        for number, of_table in events.items():
            yield _result(number, self._tables[number], of_table)


PART = ("database", "table", "slice")
"""Columns that identify a part of the events."""


def _by_part(batch: pa.RecordBatch) -> Iterator[tuple[Part, pa.RecordBatch]]:
    events = batch.drop_columns(list(PART))
    for (database, table, of_events), indices in groups_of(batch, *PART):
        yield (database, table, of_events), taken(events, indices)


def _result(number: int, table: OwnedTable, events: list[tuple[Part, pa.RecordBatch]]) -> pa.RecordBatch:
    began = time.monotonic()
    values = attempted(lambda: apply(table, events))
    if isinstance(values, BaseException):
        reason = str(values) if isinstance(values, RefusedError) else f"{type(values).__name__}: {values}"
        values = {"refused": reason[:2000], "is_lasting": getattr(values, "is_lasting", True)}
    values |= {"number": number, "seconds": time.monotonic() - began}
    return pa.RecordBatch.from_pylist([values], RESULT)


def apply(table: OwnedTable, events: Iterable[tuple[Part, pa.RecordBatch]]) -> dict[str, Any]:
    """Decode the events of a table, and apply them like `apply_changes`."""
    found = chain.from_iterable(table.readers[part].decode_batches(batch) for part, batch in events)
    return apply_changes(table, pa.Table.from_batches(found, next(iter(table.readers.values())).schema))


def apply_changes(table: OwnedTable, changes: pa.Table) -> dict[str, Any]:
    """Merge the newest change of each key. Return columns of `RESULT`.

    Raises:
        RefusedError: Spark has to merge these changes.
    """
    if not len(changes):
        return {"row": 0}
    [batch] = changes.combine_chunks().to_batches()
    _check(table, batch)
    [kept] = Fold(table.keys).newest([batch])
    rejected = kept.filter(kept.column("rejected")).drop_columns(ADDED.names)
    if len(rejected) and not table.has_dead_letters:
        raise BatchRefusedError("rows cannot be applied, and dead_letters is not set")
    newest = kept.filter(pc.invert(kept.column("rejected")))
    keys = key_values(newest, table.keys)
    _check_key(keys)
    return {
        **retried(lambda: _merge(table, newest, keys)),
        "rejected": len(rejected),
        "rejected_changes": _stream(rejected) if len(rejected) else None,
        "event_time": pc.max(batch.column("event_time")).as_py(),
        "place": _last_place(batch),
    }


def _check(table: OwnedTable, changes: pa.RecordBatch) -> None:
    """Refuse changes that only Spark's merge can apply."""
    if pc.any(changes.column("partial")).as_py():
        raise RefusedError("updates have only the changed columns (binlog_row_image is not FULL)")
    # Other rows lack columns that were added after them, perhaps with a value.
    is_older = pc.not_equal(changes.column("op"), DELETE) if table.after else pc.equal(changes.column("op"), "update")
    lacks = pc.greater(pc.list_value_length(changes.column("missing")), 0).fill_null(False)
    if pc.any(pc.and_(lacks, is_older)).as_py():
        raise BatchRefusedError("rows predate ADD COLUMN")
    statements = pa.array([dict(one) for one in table.after], ORDER)
    if len(statements) and not _are_after(order_values(changes), statements):
        raise BatchRefusedError("changes may predate a statement")


def _are_after(orders: pa.StructArray, statements: pa.StructArray) -> bool:
    after = statement_bounds(orders, statements).column("after")
    return bool(pc.all(pc.equal(after, len(statements))).as_py())


def _check_key(keys: pa.StructArray) -> None:
    if any(array.null_count for array in keys.flatten()):
        raise RefusedError("a key column is null")
    if any(pa.types.is_floating(one.type) for one in keys.type):
        raise RefusedError("a key column is a float, and delta-rs distinguishes -0.0 from 0.0")


def _merge(table: OwnedTable, newest: pa.RecordBatch, keys: pa.StructArray) -> dict[str, Any]:
    """Merge the newest change of each key."""
    target = opened(table.target, table.storage, table.id, LIMITS)
    orders, is_delete = newest.column("order"), pc.equal(newest.column("op"), DELETE)
    names = names_in(target, table.keys)
    whole = all_rows(target).to_batches() if not table.soft_deletes and _is_overwritten(target, len(newest)) else None
    rows = _stored(_rows(target, [*names, table.order]) if whole is None else whole, names, table.order, keys)
    tombstones, gone = open_if_exists(table.tombstones, table.storage), (keys[:0], orders[:0])
    known_since = tombstones.version() if tombstones is not None else 0
    if tombstones is not None:
        _tidy(tombstones, table.forget_before)
        of_keys = [one.name for one in keys.type]
        gone = _stored(_of_deletes(_rows(tombstones, [*of_keys, "order", "truncated"])), of_keys, "order", keys)
    found = change_outcomes((keys, orders, is_delete), rows, gone)
    is_applied, orders = found.column("is_applied"), with_event_times(orders, found.column("event_time"))
    is_gone = pc.and_(is_applied, is_delete)
    deletes = pc.sum(is_gone).as_py() or 0
    if deletes:
        tombstones = _remember(table, keys.filter(is_gone), orders.filter(is_gone), tombstones)
        maintain(tombstones, known_since, None)
    is_known = found.column("is_known")
    is_written = pc.and_(is_applied, pc.or_(pc.invert(is_delete), is_known))
    if pc.any(is_written).as_py():
        since = target.version()
        replaced = keys.filter(pc.and_(is_written, is_known))
        kept = None if whole is None else [_without(part, names, replaced) for part in whole]
        _write(target, table, newest.filter(is_written), orders.filter(is_written), kept if len(replaced) else [])
        maintain(target, since, table.optimize_every)
    return {
        "row": (pc.sum(is_applied).as_py() or 0) - deletes,
        "delete": deletes,
        "old": pc.sum(pc.invert(is_applied)).as_py() or 0,
        "properties": list(target.metadata().configuration.items()),
        "files": len(target.file_uris()),
    }


def _rows(table: DeltaTable, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of all rows in parts, to save memory."""
    return select(table, {quoted(name): quoted(name) for name in names})


def _of_deletes(tombstones: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in tombstones:
        if pc.any(part.column("truncated")).as_py():
            raise RefusedError("apply_changes has truncated the table")
        yield part


def _stored(
    parts: Iterable[pa.RecordBatch], names: Sequence[str], order: str, keys: pa.StructArray
) -> tuple[pa.StructArray, pa.StructArray]:
    """Return the keys and order values of the rows with some keys. `names` are the columns of the key."""
    wanted, found = KeySet(keys), [(keys[:0], pa.array([], ORDER))]
    for part in parts:
        stored = _key_of(part, names, keys.type)
        is_row = wanted.contains(stored)
        if pc.any(is_row).as_py():
            found.append((stored.filter(is_row), cast_struct(part.column(order), ORDER).filter(is_row)))
    stored_keys, orders = (pa.concat_arrays(one) for one in zip(*found, strict=True))
    return stored_keys, orders


def _key_of(rows: pa.RecordBatch, names: Sequence[str], kind: pa.StructType) -> pa.StructArray:
    own = [cast(rows.column(name), one.type) for name, one in zip(names, kind, strict=True)]
    return pa.StructArray.from_arrays(own, fields=list(kind))


def _without(rows: pa.RecordBatch, names: Sequence[str], replaced: pa.StructArray) -> pa.RecordBatch:
    """Return the rows whose keys are not replaced."""
    return rows.filter(pc.invert(KeySet(replaced).contains(_key_of(rows, names, replaced.type))))


def _tidy(tombstones: DeltaTable, forget_before: datetime | None) -> None:
    """Forget old tombstones, and compact their files. If another writer commits first, it does the same."""
    try:
        if forget_before is not None:
            of_writer = without_wrong_statistics(tombstones)
            tombstones.delete(_FORGOTTEN.format(time=forget_before), writer_properties=of_writer)
        if len(tombstones.file_uris()) > _MOST_TOMBSTONE_FILES:
            compact(tombstones)
    except RefusedError:
        pass  # only Spark may compact it
    except Exception as error:
        if not is_conflict(error):
            raise
    tombstones.update_incremental()


def _remember(table: OwnedTable, keys: pa.StructArray, orders: pa.StructArray, known: DeltaTable | None) -> DeltaTable:
    """Append tombstones. Return their table."""
    from deltalake import DeltaTable, write_deltalake

    now = pa.repeat(_now(), len(keys))
    columns = {one.name: keys.field(at) for at, one in enumerate(keys.type)}
    rows = pa.table(columns | {"order": orders, "truncated": pa.repeat(False, len(keys)), "recorded_at": now})
    if known is None:
        # Create the table without rows: two attempts that create it with rows would both keep them.
        storage, commit = dict(table.storage or {}), next_version()
        known = DeltaTable.create(
            table.tombstones, rows.schema, mode="ignore", storage_options=storage, commit_properties=commit
        )
    write_deltalake(known, rows, mode="append", writer_properties=without_wrong_statistics(known))
    return known


def _now() -> pa.Scalar:
    return pa.scalar(datetime.now(timezone.utc), pa.timestamp("us", "UTC"))


def _write(
    target: DeltaTable,
    table: OwnedTable,
    changes: pa.RecordBatch,
    orders: pa.StructArray,
    kept: Sequence[pa.RecordBatch] | None,
) -> None:
    """Write changes: append them, overwrite the target, or merge, which takes three times as long.

    delta-rs casts types, and keeps the values of other columns, only while it merges.

    Args:
        target: The target.
        table: Its table.
        changes: The changes.
        orders: Their order values.
        kept: Rows with which the changes replace the target. Empty if all changes are new rows. None to merge.
    """
    from deltalake import write_deltalake

    columns = changes.column(COLUMNS)
    names = [*names_in(target, [one.name for one in columns.type]), table.order]
    values = dict(zip(names, [*columns.flatten(), orders], strict=True))
    schema = pa.schema(target.schema().to_arrow())
    is_cast = is_mapped(target) or any(values[one.name].type != one.type for one in schema if one.name in values)
    if kept is None or is_cast or (kept and len(values) < len(schema)):
        _merge_rows(target, table, changes, orders)
        return
    arrays = [values.get(one.name, pa.nulls(len(changes), one.type)) for one in schema]
    new = pa.table(arrays, schema).filter(pc.not_equal(changes.column("op"), DELETE))
    write_deltalake(
        target,
        pa.Table.from_batches([*kept, *new.to_batches()], schema),
        mode="overwrite" if kept else "append",
        writer_properties=without_wrong_statistics(target),
        commit_properties=next_version(),
    )


def _is_overwritten(target: DeltaTable, changes: int) -> bool:
    """Return whether a table may be overwritten, and this costs less than merging changes."""
    size = size_of(target)
    return is_rewritable(target) and size.is_within(SMALL_TABLE) and size.rows <= max(_FEW_ROWS, 4 * changes)


_FEW_ROWS = 10_000


def _merge_rows(target: DeltaTable, table: OwnedTable, changes: pa.RecordBatch, orders: pa.StructArray) -> None:
    """Merge rows and deletes. The source's columns get generated names, which never clash with the target's."""
    columns = changes.column(COLUMNS)
    names = names_in(target, [one.name for one in columns.type])
    values = {f"c{at}": pc.struct_field(columns, [at]) for at, _ in enumerate(names)}
    gone = pc.equal(changes.column("op"), DELETE)
    source = values | {"place": orders, "gone": gone}
    marked = {quoted(table.order): "s.place"}
    if table.soft_deletes is not None:
        source["time"] = pc.if_else(gone, pc.coalesce(changes.column("event_time"), _now()), None)
        marked |= dict.fromkeys(map(quoted, names_in(target, [table.soft_deletes])), "s.time")
    assigned = {quoted(name): f"s.c{at}" for at, name in enumerate(names)} | marked
    of_key = {name.lower(): f"s.c{at}" for at, name in enumerate(names)}
    same = " AND ".join(f"t.{quoted(name)} = {of_key[name.lower()]}" for name in names_in(target, table.keys))
    merge = begun_merge(target, pa.table(source), same)
    merge = merge.when_matched_update(marked, "s.gone") if table.soft_deletes else merge.when_matched_delete("s.gone")
    merge.when_matched_update(assigned).when_not_matched_insert(assigned, "NOT s.gone").execute()


def _last_place(changes: pa.RecordBatch) -> str | None:
    """Return topic, partition and offset of the change that reached Kafka last."""
    names = ["timestamp", *KAFKA]
    places = pa.table({name: changes.column(name) for name in names})
    last = pc.sort_indices(places, [(name, "descending") for name in names])[0].as_py()
    return "/".join(str(changes.column(name)[last].as_py()) for name in names[1:])


def _stream(changes: pa.RecordBatch) -> bytes:
    if changes.nbytes > _MOST_REJECTED:
        raise BatchRefusedError("more dead letters than a task can return")
    return stream(changes)
