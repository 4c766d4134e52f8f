"""The newest change of each key in a batch: what is left if the changes are applied one by one as they arrived.

A worker folds all changes of its keys, with the rules of `rust/order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate

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
"""The columns that the newest changes have more than other changes.

`inherits`: whether the columns that a row lacks have the values of the target. `lacked`: whether the change was partial
before it got the values of those that it replaced. `outcome`: null if it depends on what the target stores.
"""


@dataclass(frozen=True)
class Fold:
    """Keeps the newest change of each key, and all changes that are not rows of the table; a function for `mapInArrow`.

    All changes of a key have to be in one partition, which it holds in memory.
    """

    keys: tuple[str, ...]
    bounds: Bounds | None = None
    """Those of the target, if they are known."""
    decoder: ChangeReader | None = None
    """Decodes the messages that the function gets. None: it gets changes."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the newest changes of a decoder.

        Raises:
            ValueError: There is no decoder.
        """
        if self.decoder is None:
            raise ValueError("decoder: only decoded changes have columns that are known here")
        return pa.schema([*self.decoder.schema, *ADDED])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `DataFrame.mapInArrow` calls on a worker."""
        begin_task()
        yield from self.newest(batches)

    def newest(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The newest changes, as they were in the batches."""
        decoder = self.decoder
        parts = [part for batch in batches for part in (decoder.decode_batches(batch) if decoder else [batch])]
        if not parts:
            return
        parts, folded = _with_inherited(parts, _fold(parts, self.keys))
        yield from _kept(parts, folded, self.bounds)


@dataclass(frozen=True)
class _Folded:
    """What is known of each change after the fold."""

    ops: pa.StringArray
    keys: pa.StructArray
    rejected: pa.BooleanArray
    orders: pa.StructArray
    """Order values, with the latest event time of those that a change replaced."""
    is_kept: pa.BooleanArray
    replaced: pa.Int64Array
    """The index of the change that a change replaced."""
    partial: pa.BooleanArray
    lacked: pa.BooleanArray
    """Whether a change was partial before the fold."""
    inherits: pa.BooleanArray
    is_unknown: pa.BooleanArray
    """Whether a change is an update of a row that was deleted: the insert before it is not among the changes."""

    def kept(self) -> _Folded:
        """The changes that are kept."""
        return replace(self, **{one.name: getattr(self, one.name).filter(self.is_kept) for one in fields(self)})


def _fold(parts: Sequence[pa.RecordBatch], keys: Sequence[str]) -> _Folded:
    """Fold the changes that are rows of the table. All others are kept."""
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
    return _Folded(
        ops,
        values,
        rejected,
        with_event_times(orders, times),
        found.column("is_newest").take(at).fill_null(True),
        rows.take(found.column("replaced")).take(at),
        partial,
        partial,
        pc.equal(ops, "update").fill_null(False),
        pa.repeat(False, len(ops)),
    )


def _with_inherited(parts: list[pa.RecordBatch], folded: _Folded) -> tuple[list[pa.RecordBatch], _Folded]:
    """Give updates that lack columns the values of the changes that they replaced.

    An insert begins another row, so nothing is inherited from before it. An update after a delete lacks its insert,
    which may be one that could not be decoded: then the delete is applied, and the update is not.
    """
    lists = pa.concat_arrays([part.column("missing") for part in parts])
    lacks = pc.greater(pc.list_value_length(lists), 0).fill_null(False)
    heirs = pc.and_(pc.and_(lacks, folded.inherits), pc.and_(folded.is_kept, pc.is_valid(folded.replaced)))
    if not pc.any(heirs).as_py():
        return parts, folded
    found = _Inheritance(folded, lists.to_pylist())
    for row in indices_of(lists).filter(heirs).to_pylist():
        found.inherit(row)
    starts = [0, *accumulate(map(len, parts))]
    columns = _inherited_columns(parts, found.sources)
    partial = pa.array(found.partial, pa.bool_())
    changed = {COLUMNS: columns, "missing": pa.array(found.missing, lists.type), "partial": partial}
    parts = [_replaced(part, changed, start) for part, start in zip(parts, starts, strict=False)]
    is_unknown, is_deleted = (
        pc.is_in(indices_of(lists), pa.array(one, pa.int64())) for one in (found.unknown, found.deletes)
    )
    return parts, replace(
        folded,
        partial=partial,
        inherits=pa.array(found.inherits, pa.bool_()),
        is_unknown=is_unknown,
        is_kept=pc.or_(folded.is_kept, pc.or_(is_unknown, is_deleted)),
    )


class _Inheritance:
    """From which change each value of an update is that lacks columns."""

    def __init__(self, folded: _Folded, missing: list[list[str] | None]) -> None:
        self._ops = folded.ops.to_pylist()
        self._replaced = folded.replaced.to_pylist()
        self.missing = missing
        self.partial = folded.partial.to_pylist()
        self.inherits = folded.inherits.to_pylist()
        self.sources: dict[str, dict[int, int]] = {}
        """By column: the change that has the value of a row."""
        self.unknown: list[int] = []
        self.deletes: list[int] = []
        """The deletes before what is unknown."""

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


def _inherited_columns(parts: Sequence[pa.RecordBatch], sources: Mapping[str, Mapping[int, int]]) -> pa.StructArray:
    columns = pa.concat_arrays([part.column(COLUMNS) for part in parts])
    arrays: list[pa.Array] = []
    for one in columns.type:
        array = pc.struct_field(columns, [len(arrays)])
        of_rows = sources.get(one.name)
        arrays.append(array.take(pa.array([of_rows.get(at, at) for at in range(len(array))])) if of_rows else array)
    return pa.StructArray.from_arrays(arrays, fields=list(columns.type))


def _replaced(part: pa.RecordBatch, columns: Mapping[str, pa.Array], start: int) -> pa.RecordBatch:
    """A part with other columns, which are of all parts."""
    own = {name: array.slice(start, len(part)) for name, array in columns.items()}
    return pa.RecordBatch.from_pydict({**by_name(part), **own})


def key_values(changes: pa.RecordBatch, keys: Sequence[str]) -> pa.StructArray:
    """The key of each change, with columns k0, k1 and so on, as MySQL compares it."""
    columns = changes.column(COLUMNS)
    arrays = [column_of(columns, name) for name in keys]
    return comparable(pa.StructArray.from_arrays(arrays, names=[f"k{at}" for at, _ in enumerate(arrays)]))


def column_of(columns: pa.StructArray, name: str) -> pa.Array:
    """A column of the table, whose name MySQL compares without case."""
    [index] = [at for at, one in enumerate(columns.type) if one.name.lower() == name.lower()]
    return pc.struct_field(columns, [index])


def is_rejected(changes: pa.RecordBatch, keys: Sequence[str]) -> pa.BooleanArray:
    """Whether each change lacks values of its row, or its key. A delete needs its key only."""
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
    """Whether each list has one of these names."""
    items = pc.list_flatten(lists)
    found = pc.is_in(pc.utf8_lower(items), _lower(names, items.type))
    rows = pc.list_parent_indices(lists).filter(found)
    return pc.is_in(indices_of(lists), rows)


def _lower(names: Sequence[str], kind: pa.DataType) -> pa.Array:
    return pa.array([name.lower() for name in names], kind)


def _kept(parts: Sequence[pa.RecordBatch], folded: _Folded, bounds: Bounds | None) -> Iterator[pa.RecordBatch]:
    """The changes that are kept, with the columns of `ADDED`."""
    kept = folded.kept()
    outcomes, orders = _outcomes(kept, bounds)
    added = {"order": orders, "inherits": kept.inherits, "lacked": kept.lacked, "rejected": kept.rejected}
    added["outcome"] = outcomes
    start = done = 0
    for part in parts:
        found = part.filter(folded.is_kept.slice(start, len(part)))
        yield _replaced(found, added, done)
        start, done = start + len(part), done + len(found)


def _outcomes(kept: _Folded, bounds: Bounds | None) -> tuple[pa.Array, pa.StructArray]:
    """The outcome of each change where the bounds decide it, and order values."""
    is_delete, is_truncate = (pc.equal(kept.ops, op).fill_null(False) for op in (DELETE, TRUNCATE))
    alone = [(kept.rejected, REJECTED), (is_truncate, TRUNCATE), (kept.is_unknown, UNKNOWN)]
    if bounds is None:
        return _first(alone), kept.orders
    is_certain = pc.and_(bounds.are_below(kept.orders), pc.invert(pc.and_(kept.partial, kept.inherits)))
    is_old, orders = pa.repeat(False, len(is_certain)), kept.orders
    if bounds.recent is not None:
        found = bounds.recent.outcomes(kept.keys, orders, is_delete)
        times = pc.struct_field(orders, "event_time")
        orders = with_event_times(orders, pc.if_else(is_certain, found.column("event_time").cast(times.type), times))
        is_old = pc.invert(found.column("is_applied"))
    certain = [(is_old, OLD), (is_delete, DELETE), (pa.repeat(True, len(is_old)), ROW)]
    return _first([*alone, *((pc.and_(is_certain, condition), outcome) for condition, outcome in certain)]), orders


def _first(cases: Sequence[tuple[pa.BooleanArray, str]]) -> pa.Array:
    """The text of the first condition that is true; null if none is."""
    return pc.case_when(pc.make_struct(*(condition for condition, _ in cases)), *(text for _, text in cases))
