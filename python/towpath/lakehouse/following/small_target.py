"""Changes small targets as a statement does, with delta-rs on the driver.

Spark needs a second of CPU time for the MERGE of a small table, mostly for planning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from towpath._towpath import statement_bounds
from towpath.lakehouse.log.ordered_statements import Place
from towpath.lakehouse.merging.delta_rs import (
    SMALL_TABLE,
    RefusedError,
    begun_merge,
    names_in,
    next_version,
    quoted,
    retried,
    select,
)
from towpath.lakehouse.merging.tasks import TaskMerges
from towpath.lakehouse.order.order_arrays import ORDER, cast_struct
from towpath.lakehouse.reading.arrow_batches import cast

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.table import TableMerger
    from pyspark.sql import SparkSession

_T = TypeVar("_T")

_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
"""View types of delta-rs, and their plain types."""


@dataclass(frozen=True)
class Filled:
    """Column in which older rows get a value."""

    name: str
    value: pa.Scalar
    is_new: bool
    """Whether no row had the column. Then a row that cannot be ordered with the statement lacks it too."""
    again: bool
    """Whether older rows may still have values of a dropped column of this name."""


@dataclass(frozen=True)
class SmallTarget:
    """Small target with a key.

    Args:
        spark: The session.
        in_tasks: Settings that say which targets delta-rs may write.
        target: The target.
        keys: Columns of its key.
        order: Column of its order values, if it has one.

    Each method returns None if Spark must change the target. Spark sets all table properties, since delta-rs changes a
    table's protocol together with them.
    """

    spark: SparkSession
    in_tasks: TaskMerges
    target: str
    keys: Sequence[str]
    order: str | None

    def fill(self, place: Place, columns: Sequence[Filled]) -> bool | None:
        """Give rows that are older than a statement the values of columns."""
        return self._with_table(lambda table: self._fill(table, place, columns))

    def delete_before(self, place: Place) -> int | None:
        """Delete rows that are older than a statement. Return the number of remaining rows that may be older."""
        return self._with_table(lambda table: self._delete_before(table, place))

    def _with_table(self, change: Callable[[DeltaTable], _T]) -> _T | None:
        """Open and change the table. Retry after conflicts. Return None if delta-rs may not or cannot change it."""
        opened = partial(self.in_tasks.open, self.spark, self.target, SMALL_TABLE)
        return self.in_tasks.in_driver(self.spark, self.target, lambda: retried(lambda: change(opened())))

    def _fill(self, table: DeltaTable, place: Place, columns: Sequence[Filled]) -> bool:
        rows = self._rows(table, [one.name for one in columns])
        bounds = _bounds(rows, place)
        updates: dict[str, Any] = {}
        lacks_any = pa.repeat(False, len(rows))
        for at, one in enumerate(columns):
            values = rows.column(f"c{at}")
            value = one.value.cast(values.type)
            older = pc.equal(bounds.column("surely" if one.is_new else "reached"), 0)
            differs = pc.invert(pc.equal(values, value).fill_null(False)) if value.is_valid else pc.is_valid(values)
            lacks = pc.and_(older, differs if one.again else pc.and_(pc.is_null(values), differs))
            updates[f"c{at}"] = pc.if_else(lacks, value, values)
            lacks_any = pc.or_(lacks_any, lacks)
        if pc.any(lacks_any).as_py():
            source = pa.table({**{name: rows.column(name) for name in self._key}, **updates}).filter(lacks_any)
            names = zip(names_in(table, [one.name for one in columns]), updates, strict=True)
            merge = self._merge(table, source).when_matched_update({quoted(name): f"s.{at}" for name, at in names})
            merge.execute()
        return True

    def _delete_before(self, table: DeltaTable, place: Place) -> int:
        rows = self._rows(table, [])
        bounds = _bounds(rows, place)
        is_older = pc.equal(bounds.column("reached"), 0)
        if len(rows) and pc.all(is_older).as_py():
            table.delete(commit_properties=next_version())  # deletes whole files
        elif pc.any(is_older).as_py():
            gone = pa.table({name: rows.column(name) for name in self._key}).filter(is_older)
            self._merge(table, gone).when_matched_delete().execute()
        return int(pc.sum(pc.and_(pc.invert(is_older), pc.equal(bounds.column("after"), 0))).as_py() or 0)

    @property
    def _key(self) -> list[str]:
        return [f"k{at}" for at, _ in enumerate(self.keys)]

    def _rows(self, table: DeltaTable, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the key as k0, k1 and so on, the order value as `known`, and the columns as c0, c1 and so on."""
        if not self.keys or self.order is None:
            raise RefusedError("the table has no primary key")
        named = {**dict(zip(self._key, names_in(table, self.keys), strict=True)), "known": self.order}
        named |= {f"c{at}": name for at, name in enumerate(names_in(table, columns))}
        parts = list(select(table, {name: quoted(column) for name, column in named.items()}))
        arrays = {
            name: pa.concat_arrays([_plain(part.column(name)) for part in parts]) if parts else pa.nulls(0)
            for name in named
        }
        keys = [arrays[name] for name in self._key]
        if any(one.null_count or pa.types.is_floating(one.type) for one in keys):
            raise RefusedError("the key has floats or nulls")
        arrays["known"] = cast_struct(arrays["known"], ORDER) if parts else pa.array([], ORDER)
        if arrays["known"].null_count:
            raise RefusedError("some rows have no order value")
        return pa.record_batch(arrays)

    def _merge(self, table: DeltaTable, source: pa.Table) -> TableMerger:
        names = zip(names_in(table, self.keys), self._key, strict=True)
        return begun_merge(table, source, " AND ".join(f"t.{quoted(name)} = s.{at}" for name, at in names))


def _bounds(rows: pa.RecordBatch, place: Place) -> pa.RecordBatch:
    return statement_bounds(rows.column("known"), pa.array([dict(place.fields)], ORDER))


def _plain(array: pa.Array) -> pa.Array:
    return cast(array, _VIEWS.get(array.type, array.type))
