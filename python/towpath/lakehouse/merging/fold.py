"""The newest change of each key in a batch: the result of applying the changes one by one as they arrived.

A worker folds all changes of its keys by the rules of `rust/order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from towpath._towpath import newest_changes
from towpath.lakehouse.merging.rows import DELETE, OLD, REJECTED, ROW, TRUNCATE, UNKNOWN
from towpath.lakehouse.order.bounds import Bounds
from towpath.lakehouse.order.order_arrays import ORDER, comparable, order_values, with_event_times
from towpath.lakehouse.reading.arrow_batches import by_name, indices_of
from towpath.lakehouse.reading.changes import COLUMNS, ChangeReader
from towpath.workers import begin_task

ADDED = pa.schema(
    [
        ("order", ORDER),
        ("inherits", pa.bool_()),
        ("lacked", pa.bool_()),
        ("rejected", pa.bool_()),
        ("outcome", pa.string()),
    ]
)
"""Columns that the newest changes have in addition to the columns of changes.

`inherits`: whether columns that a row lacks keep the values of the target. `lacked`: whether the change was partial
before it inherited values from the changes that it replaced. `outcome`: null if it depends on the stored rows.
"""


@dataclass(frozen=True)
class Fold:
    """Function for `mapInArrow` that keeps the newest change of each key, and all changes that are not rows.

    All changes of a key must be in one partition. `Fold` holds the partition in memory.
    """

    keys: tuple[str, ...]
    bounds: Bounds | None = None
    """Bounds of the target, if they are known."""
    decoder: ChangeReader | None = None
    """Decoder of the messages that the function gets. None if it gets changes."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold batches on a worker: `DataFrame.mapInArrow` calls this."""
        begin_task()
        yield from self.newest(batches)

    def newest(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the newest changes in their original order."""
        decoder = self.decoder
        parts = [part for batch in batches for part in (decoder.decode_batches(batch) if decoder else [batch])]
        if parts:
            changes, folded = _with_inherited(pa.Table.from_batches(parts), _fold(parts, self.keys))
            yield from _kept(changes, folded, self.bounds).to_batches()


def _fold(parts: Sequence[pa.RecordBatch], keys: Sequence[str]) -> pa.RecordBatch:
    """Fold the changes that are rows of the table. Keep all other changes.

    Returns:
        A row for each change, with the columns of `ADDED`, and `op`, `key`, `partial`, `is_kept`, and `replaced`: the
        index of the replaced change. The order value has the latest event time of both.
    """
    orders = pa.concat_arrays([order_values(part) for part in parts])
    ops = pa.concat_arrays([part.column("op").cast(pa.string()) for part in parts])
    rejected = pa.concat_arrays([is_rejected(part, keys) for part in parts])
    is_row = pc.invert(pc.or_(rejected, pc.equal(ops, TRUNCATE).fill_null(False)))
    rows = indices_of(ops).filter(is_row)
    values = pa.concat_arrays([key_values(part, keys) for part in parts])
    found = newest_changes(values.filter(is_row), orders.filter(is_row))
    at = pc.index_in(indices_of(ops), rows)
    own = pc.struct_field(orders, "event_time")
    times = pc.if_else(is_row, found.column("event_time").take(at).cast(own.type), own)
    partial = pa.concat_arrays([part.column("partial").fill_null(False) for part in parts])
    folded = {
        "op": ops,
        "key": values,
        "order": with_event_times(orders, times),
        "inherits": pc.equal(ops, "update").fill_null(False),
        "lacked": partial,
        "rejected": rejected,
        "outcome": _first([(rejected, REJECTED), (pc.equal(ops, TRUNCATE), TRUNCATE)]),
        "partial": partial,
        "is_kept": found.column("is_newest").take(at).fill_null(True),
        "replaced": rows.take(found.column("replaced")).take(at),
    }
    return pa.record_batch(folded)


def _with_inherited(changes: pa.Table, folded: pa.RecordBatch) -> tuple[pa.Table, pa.RecordBatch]:
    """Give updates that lack columns the values of the changes that they replaced.

    An insert begins a new row, so nothing before it is inherited. An update after a delete lacks its insert, which may
    have failed to decode: then the delete is applied, and the update is not.
    """
    lists, is_kept = changes["missing"].combine_chunks(), folded.column("is_kept")
    lacks = pc.greater(pc.list_value_length(lists), 0).fill_null(False)
    has_replaced = pc.and_(is_kept, pc.is_valid(folded.column("replaced")))
    heirs = pc.and_(pc.and_(lacks, folded.column("inherits")), has_replaced)
    if not pc.any(heirs).as_py():
        return changes, folded
    found = _Inheritance(folded, lists.to_pylist())
    for row in indices_of(lists).filter(heirs).to_pylist():
        found.inherit(row)
    partial = pa.array(found.partial, pa.bool_())
    inherited = {COLUMNS: _inherited_columns(changes[COLUMNS].combine_chunks(), found.sources)}
    inherited |= {"missing": pa.array(found.missing, lists.type), "partial": partial}
    is_unknown, is_deleted = (
        pc.is_in(indices_of(lists), pa.array(one, pa.int64())) for one in (found.unknown, found.deletes)
    )
    known = {
        "partial": partial,
        "inherits": pa.array(found.inherits, pa.bool_()),
        "outcome": pc.if_else(is_unknown, UNKNOWN, folded.column("outcome")),
        "is_kept": pc.or_(is_kept, pc.or_(is_unknown, is_deleted)),
    }
    return pa.table({**by_name(changes), **inherited}), pa.record_batch({**by_name(folded), **known})


class _Inheritance:
    """Sources of the values that updates lack: an earlier change for each value."""

    def __init__(self, folded: pa.RecordBatch, missing: list[list[str] | None]) -> None:
        names = ("op", "replaced", "partial", "inherits")
        self._ops, self._replaced, self.partial, self.inherits = (folded.column(name).to_pylist() for name in names)
        self.missing = missing
        self.sources: dict[str, dict[int, int]] = {}
        """The change with the value of a row, by column and row."""
        self.unknown: list[int] = []
        self.deletes: list[int] = []
        """Deletes before updates of unknown rows."""

    def inherit(self, row: int) -> None:
        """Find the values that a row lacks in the changes that it replaced."""
        lacking, partial = set(self.missing[row] or ()), self.partial[row]
        earlier, updates = self._replaced[row], [row]
        while earlier is not None and self._ops[earlier] != DELETE:
            lacked = set(self.missing[earlier] or ())
            for name in lacking - lacked:
                self.sources.setdefault(name, {})[row] = earlier
            lacking &= lacked
            partial = partial and self.partial[earlier]
            if self._ops[earlier] != "update":
                self.inherits[row] = False
                break
            updates.append(earlier)
            earlier = self._replaced[earlier]
        if earlier is not None and self._ops[earlier] == DELETE:
            self.inherits[row], partial = False, partial and bool(lacking)
            if partial:
                self.unknown += updates
                self.deletes.append(earlier)
        self.missing[row] = [name for name in self.missing[row] or () if name in lacking]
        self.partial[row] = partial


def _inherited_columns(columns: pa.StructArray, sources: Mapping[str, Mapping[int, int]]) -> pa.StructArray:
    arrays: list[pa.Array] = []
    for one in columns.type:
        array = pc.struct_field(columns, [len(arrays)])
        of_rows = sources.get(one.name)
        arrays.append(array.take(pa.array([of_rows.get(at, at) for at in range(len(array))])) if of_rows else array)
    return pa.StructArray.from_arrays(arrays, fields=list(columns.type))


def key_values(changes: pa.RecordBatch, keys: Sequence[str]) -> pa.StructArray:
    """Return the key of each change in the columns k0, k1 and so on. Keys compare as in MySQL."""
    columns = changes.column(COLUMNS)
    arrays = [column_of(columns, name) for name in keys]
    return comparable(pa.StructArray.from_arrays(arrays, names=[f"k{at}" for at, _ in enumerate(arrays)]))


def column_of(columns: pa.StructArray, name: str) -> pa.Array:
    """Return a column of the table. MySQL compares its name without case."""
    [index] = [at for at, one in enumerate(columns.type) if one.name.lower() == name.lower()]
    return pc.struct_field(columns, [index])


def is_rejected(changes: pa.RecordBatch, keys: Sequence[str]) -> pa.BooleanArray:
    """Return whether each change lacks its key, or values of its row. A delete needs only its key."""
    error, columns = changes.column("error"), changes.column(COLUMNS)
    failed = pc.is_valid(error)
    if not keys:
        return pc.or_(failed, changes.column("key_only").fill_null(False))
    name = pc.struct_field(error, "column")
    hides_key = pc.or_(pc.is_null(name), pc.is_in(pc.utf8_lower(name), _lower(keys, name.type)))
    for key in keys:
        hides_key = pc.or_(hides_key, pc.is_null(column_of(columns, key)))
    is_delete = pc.equal(changes.column("op"), DELETE).fill_null(False)
    lacks_values = pc.if_else(
        is_delete, pc.and_(failed, hides_key), pc.or_(failed, changes.column("key_only").fill_null(False))
    )
    return pc.or_(lacks_values, _names_any(changes.column("missing"), keys))


def _names_any(lists: pa.ListArray, names: Sequence[str]) -> pa.BooleanArray:
    """Return whether each list contains one of these names."""
    items = pc.list_flatten(lists)
    found = pc.is_in(pc.utf8_lower(items), _lower(names, items.type))
    rows = pc.list_parent_indices(lists).filter(found)
    return pc.is_in(indices_of(lists), rows)


def _lower(names: Sequence[str], kind: pa.DataType) -> pa.Array:
    return pa.array([name.lower() for name in names], kind)


def _kept(changes: pa.Table, folded: pa.RecordBatch, bounds: Bounds | None) -> pa.Table:
    """Return the kept changes with the columns of `ADDED`. The bounds decide some outcomes."""
    kept = folded.filter(folded.column("is_kept"))
    added = by_name(kept) if bounds is None else {**by_name(kept), **_decided(kept, bounds)}
    return pa.table(
        {**by_name(changes.filter(folded.column("is_kept"))), **{name: added[name] for name in ADDED.names}}
    )


def _decided(kept: pa.RecordBatch, bounds: Bounds) -> dict[str, pa.Array]:
    """Return the outcomes and order values of changes. The outcome is set if a change is newer than the stored rows."""
    orders, is_delete = kept.column("order"), pc.equal(kept.column("op"), DELETE).fill_null(False)
    depends = pc.and_(kept.column("partial"), kept.column("inherits"))
    is_certain = pc.and_(bounds.are_below(orders), pc.invert(depends))
    is_old = pa.repeat(False, len(is_certain))
    if bounds.recent is not None:
        found = bounds.recent.outcomes(kept.column("key"), orders, is_delete)
        times = pc.struct_field(orders, "event_time")
        orders = with_event_times(orders, pc.if_else(is_certain, found.column("event_time").cast(times.type), times))
        is_old = pc.invert(found.column("is_applied"))
    decided = [(is_old, OLD), (is_delete, DELETE), (pa.repeat(True, len(is_old)), ROW)]
    certain = _first([(pc.and_(is_certain, condition), outcome) for condition, outcome in decided])
    return {"outcome": pc.coalesce(kept.column("outcome"), certain), "order": orders}


def _first(cases: Sequence[tuple[pa.BooleanArray, str]]) -> pa.Array:
    """Return the text of the first true condition, or null."""
    return pc.case_when(pc.make_struct(*(condition for condition, _ in cases)), *(text for _, text in cases))
