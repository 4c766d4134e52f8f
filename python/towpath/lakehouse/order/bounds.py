"""The highest order values that a target stores. They decide whether a change is newer than all stored rows.

Most changes can then be written without reading the target's rows and tombstones, which costs more than the merge. The
bounds live in the driver's memory, and belong to one version of the target and its tombstones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towpath._towpath import KeySet, change_outcomes
from towpath.lakehouse.order.order_arrays import cast_struct
from towpath.lakehouse.reading.arrow_batches import fields_of, indices_of

_Key = tuple[Any, ...]
_Pair = tuple[_Key, Any]

OF_GROUP = ("topic", "partition", "log")
"""Fields that all order values of a group share. Groups store them with the prefix `of_`."""

_NUMBERS = ("offset", "timestamp", "event_time")
_LOWEST = -(2**63)
MOST_RECENT = 20_000
"""Number of recent changes that the driver holds for a target."""


@dataclass(frozen=True)
class Recent:
    """Recent changes that were applied to a target, in order."""

    keys: pa.StructArray
    orders: pa.StructArray
    is_delete: pa.BooleanArray

    def then(self, later: Recent) -> Recent:
        """Append later changes, which replace rows of the same keys. Deletes are tombstones, and stay."""
        is_replaced = pc.and_(KeySet(later.keys).contains(self.keys), pc.invert(self.is_delete))
        kept = self.filter(pc.invert(is_replaced))
        pairs = ((kept.keys, later.keys), (kept.orders, later.orders), (kept.is_delete, later.is_delete))
        return Recent(*map(pa.concat_arrays, pairs))

    @property
    def times(self) -> pa.Int64Array:
        """Event times in microseconds since 1970."""
        return pc.struct_field(self.orders, "event_time").cast(pa.int64())

    def since_of(self, count: int) -> int:
        """Return the event time from which on at most `count` changes remain."""
        if len(self.times) <= count:
            return _LOWEST
        latest_first = self.times.take(pc.array_sort_indices(self.times, "descending"))
        return int(latest_first[count].as_py()) + 1

    def bounds(self) -> Bounds:
        """Return the highest commit time, and the highest place in each log."""
        in_log = self.orders.filter(pc.is_valid(pc.struct_field(self.orders, "log")))
        logs, files, positions = (pc.struct_field(in_log, name).to_pylist() for name in ("log", "file", "at"))
        found: list[_Pair] = [
            (("place", log), (file, at)) for log, file, at in zip(logs, files, positions, strict=True)
        ]
        return Bounds(_highest([*found, (("commit_ts",), pc.max(pc.struct_field(self.orders, "commit_ts")).as_py())]))

    def filter(self, mask: pa.BooleanArray) -> Recent:
        """Return the changes that the mask selects."""
        return Recent(self.keys.filter(mask), self.orders.filter(mask), self.is_delete.filter(mask))

    def outcomes(self, keys: pa.StructArray, orders: pa.StructArray, is_delete: pa.BooleanArray) -> pa.RecordBatch:
        """Return the outcomes of changes, if only recent changes may be newer: see `change_outcomes`."""
        known = cast_struct(self.keys, keys.type)
        is_row = pc.invert(self.is_delete)
        rows = (known.filter(is_row), self.orders.filter(is_row))
        gone = (known.filter(self.is_delete), self.orders.filter(self.is_delete))
        return change_outcomes((keys, orders, is_delete), rows, gone)


@dataclass(frozen=True)
class Bounds:
    """Highest order values that a target stores with its rows and in its tombstones."""

    highest: Mapping[_Key, Any] = field(default_factory=dict)
    """Highest values by name and group.

    A partition of a topic has `offset`, `timestamp` and `event_time`, times in microseconds since 1970. A log has
    `place` (file and position). `commit_ts` has no group. `place` and `commit_ts` ignore recent changes. Null is lower
    than all.
    """
    has_truncates: bool = False
    """Whether tombstones of truncates exist. Truncates are compared with changes by other rules."""
    since: int = _LOWEST
    """Event time from which on all changes are recent."""
    recent: Recent | None = None

    @classmethod
    def of(cls, groups: Iterable[Mapping[str, Any]]) -> Bounds:
        """Return the bounds of grouped order values: rows with the fields of a group and the highest other fields."""
        found: list[_Pair] = []
        for group in groups:
            for name in _NUMBERS:
                value = group[f"highest_{name}"]
                found.append(((name, group["of_topic"], group["of_partition"]), _LOWEST if value is None else value))
            found.append((("commit_ts",), group["highest_commit_ts"]))
            found.append((("place", group["of_log"]), group["highest_place"] if group["of_log"] else None))
        return cls(_highest(found))

    @property
    def latest(self) -> int:
        """Latest event time."""
        return max(self._event_times, default=_LOWEST)

    @property
    def _event_times(self) -> list[int]:
        """Latest event time of each partition."""
        return [value for (name, *_), value in self.highest.items() if name == "event_time"]

    @property
    def has_places(self) -> bool:
        """Whether commit times or places in a log exist."""
        return any(name in ("place", "commit_ts") for name, *_ in self.highest)

    def __or__(self, other: Bounds) -> Bounds:
        """Return the bounds of both, with the recent changes of the first."""
        highest = _highest(chain(self.highest.items(), other.highest.items()))
        return replace(self, highest=highest, has_truncates=self.has_truncates or other.has_truncates)

    def without_recent(self) -> Bounds:
        """Return the bounds for changes that are later than all stored rows."""
        return replace(self, since=self.latest + 1, recent=None)

    def since_after(self, batch: Bounds) -> int:
        """Return the time from which on changes are recent after a batch. Its partitions may lag."""
        return max(self.since, min(batch._event_times, default=_LOWEST))

    def after(self, batch: Bounds, settled: Bounds, applied: Recent, since: int) -> Bounds:
        """Return the bounds after a batch.

        Args:
            batch: Bounds of the applied changes.
            settled: Bounds of the applied changes that are not recent.
            applied: Applied changes from `since` on.
            since: `since_after` of the batch, or later.
        """
        recent = applied if self.recent is None else self.recent.then(applied)
        since = max(since, recent.since_of(MOST_RECENT))
        is_recent = pc.greater_equal(recent.times, since)
        numbers = Bounds({key: value for key, value in batch.highest.items() if key[0] in _NUMBERS})
        found = self | numbers | settled | recent.filter(pc.invert(is_recent)).bounds()
        return replace(found, since=since, recent=recent.filter(is_recent))

    def are_below(self, orders: pa.StructArray) -> pa.BooleanArray:
        """Return whether each order value is newer, by every rule of the order, than all except recent changes.

        Within a partition the offset decides, unless the topic was recreated. Within a log the place decides, unless
        the event time contradicts it. Otherwise the event time decides. It may never decrease, since a row's event time
        does not.
        """
        names = [*OF_GROUP, "offset", "timestamp", "event_time", "commit_ts", "file", "at"]
        values = pa.table(fields_of(orders)).select(names)
        rows = values.select(OF_GROUP).append_column("row", indices_of(orders))
        groups = rows.group_by(list(OF_GROUP), use_threads=False).aggregate([("row", "list")])
        lists = groups["row_list"].combine_chunks()
        indices = pc.list_flatten(lists)
        limits = [self._limits(*group) for group in zip(*(groups[name].to_pylist() for name in OF_GROUP), strict=True)]
        of_rows = pa.Table.from_pylist(limits, _LIMITS).take(pc.list_parent_indices(lists))
        found = _is_above(values.take(indices), of_rows, self.highest.get(("commit_ts",), _LOWEST))
        return pa.chunked_array(found.take(pc.sort_indices(indices)), pa.bool_()).combine_chunks()

    def _limits(self, topic: str | None, partition: int | None, log: str | None) -> dict[str, int]:
        """Return the limits that a change of a partition and a log must exceed."""
        numbers = {name: self.highest.get((name, topic, partition), _LOWEST) for name in _NUMBERS}
        file, at = self.highest.get(("place", log), (_LOWEST, _LOWEST))
        return {**numbers, "event_time": max(numbers["event_time"], self.since), "file": file, "at": at}


_LIMITS = pa.schema({name: pa.int64() for name in (*_NUMBERS, "file", "at")})


def _is_above(values: pa.Table, limits: pa.Table, commit_ts: int) -> pa.ChunkedArray:
    """Return whether each value exceeds its limits. Nulls do not, except commit times and places in a log."""
    times = {name: values[name].cast(pa.int64()) for name in ("timestamp", "event_time")}
    same_file = pc.equal(values["file"], limits["file"])
    is_logged_later = pc.or_(
        pc.greater(values["file"], limits["file"]), pc.and_(same_file, pc.greater(values["at"], limits["at"]))
    )
    rules = [
        pc.greater(values["offset"], limits["offset"]),
        *(pc.greater_equal(times[name], limits[name]) for name in times),
        pc.fill_null(pc.greater(values["commit_ts"], commit_ts), True),
        pc.if_else(pc.is_null(values["log"]), True, is_logged_later),
        pc.and_(pc.is_valid(values["topic"]), pc.is_valid(values["partition"])),
    ]
    return pc.fill_null(reduce(pc.and_, rules), False)


def _highest(pairs: Iterable[_Pair]) -> dict[_Key, Any]:
    """Return the highest value of each key that has one."""
    found: dict[_Key, Any] = {}
    for key, value in pairs:
        if value is not None:
            found[key] = max(found.get(key, value), value)
    return found
