"""The highest order values that a target stores. They decide whether a change is newer than all that is stored.

So most changes can be written without a look at the target's rows and tombstones, which costs more than the merge. The
bounds are in the memory of the driver, and belong to one version of the target and of its tombstones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from towpath._towpath import KeySet, change_outcomes
from towpath.lakehouse.order.order_arrays import cast_struct
from towpath.lakehouse.reading.changes import indices_of

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

OF_GROUP = ("topic", "partition", "log")
"""The fields of an order value that are the same in a group of them. Groups have them with `of_` before their names."""

_LOWEST = -(2**63)
MOST_RECENT = 20_000
"""How many recent changes the driver holds for a target."""


@dataclass(frozen=True)
class Highest:
    """The highest values in a partition. Those that are null are lower than all."""

    offset: int = _LOWEST
    timestamp: int = _LOWEST
    """In microseconds since 1970, as `event_time`."""
    event_time: int = _LOWEST

    @classmethod
    def of(cls, group: Mapping[str, Any]) -> Highest:
        """Those of a group of order values."""
        numbers = (group[f"highest_{name}"] for name in ("offset", "timestamp", "event_time"))
        return cls(*(_LOWEST if number is None else number for number in numbers))

    def __or__(self, other: Highest) -> Highest:
        """The highest of both."""
        return Highest(
            max(self.offset, other.offset),
            max(self.timestamp, other.timestamp),
            max(self.event_time, other.event_time),
        )


@dataclass(frozen=True)
class Recent:
    """Recent changes that were applied to a target, the later ones after the earlier ones."""

    keys: pa.StructArray
    orders: pa.StructArray
    is_delete: pa.BooleanArray

    def then(self, later: Recent) -> Recent:
        """These and later changes, which replace rows of the same keys. Deletes are tombstones, and stay."""
        is_replaced = pc.and_(KeySet(later.keys).contains(self.keys), pc.invert(self.is_delete))
        kept = self.filter(pc.invert(is_replaced))
        pairs = ((kept.keys, later.keys), (kept.orders, later.orders), (kept.is_delete, later.is_delete))
        return Recent(*map(pa.concat_arrays, pairs))

    @property
    def times(self) -> pa.Int64Array:
        """Event times, in microseconds since 1970."""
        return pc.struct_field(self.orders, "event_time").cast(pa.int64())

    def since_of(self, count: int) -> int:
        """The event time from which on there are at most so many changes."""
        if len(self.times) <= count:
            return _LOWEST
        latest_first = self.times.take(pc.array_sort_indices(self.times, "descending"))
        return int(latest_first[count].as_py()) + 1

    def bounds(self) -> Bounds:
        """The highest commit time, and the highest place in each log."""
        logs, *places = (pc.struct_field(self.orders, name) for name in ("log", "file", "at"))
        in_log = pc.is_valid(logs)
        files, positions = (place.filter(in_log).to_pylist() for place in places)
        pairs = zip(logs.filter(in_log).to_pylist(), zip(files, positions, strict=True), strict=True)
        commit_ts = pc.max(pc.struct_field(self.orders, "commit_ts")).as_py()
        return Bounds(places=_highest(pairs, max), commit_ts=_LOWEST if commit_ts is None else commit_ts)

    def filter(self, mask: pa.BooleanArray) -> Recent:
        """Some of the changes."""
        return Recent(self.keys.filter(mask), self.orders.filter(mask), self.is_delete.filter(mask))

    def outcomes(self, keys: pa.StructArray, orders: pa.StructArray, is_delete: pa.BooleanArray) -> pa.RecordBatch:
        """The outcomes of changes of which the recent changes are all that may be newer: see `change_outcomes`."""
        known = cast_struct(self.keys, keys.type)
        is_row = pc.invert(self.is_delete)
        rows = (known.filter(is_row), self.orders.filter(is_row))
        gone = (known.filter(self.is_delete), self.orders.filter(self.is_delete))
        return change_outcomes((keys, orders, is_delete), rows, gone)


@dataclass(frozen=True)
class Bounds:
    """The highest values of the order values that a target stores, with its rows and in its tombstones."""

    partitions: Mapping[tuple[str | None, int | None], Highest] = field(default_factory=dict)
    """By topic and partition."""
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """File and position by log, of all but recent changes."""
    commit_ts: int = _LOWEST
    """Of all but recent changes."""
    has_truncates: bool = False
    """Whether there are tombstones of truncates, which are compared with changes by other rules."""
    since: int = _LOWEST
    """All changes with this event time or a later one are recent."""
    recent: Recent | None = None

    @classmethod
    def of(cls, groups: Iterable[Mapping[str, Any]]) -> Bounds:
        """The bounds of order values in groups: the fields of a group, and the highest of the other ones."""
        found = list(groups)
        commit_times = (group["highest_commit_ts"] for group in found)
        return cls(
            _highest((((group["of_topic"], group["of_partition"]), Highest.of(group)) for group in found), or_),
            _highest(((group["of_log"], tuple(group["highest_place"])) for group in found if group["of_log"]), max),
            max((time for time in commit_times if time is not None), default=_LOWEST),
        )

    @property
    def latest(self) -> int:
        """The latest event time."""
        return max((one.event_time for one in self.partitions.values()), default=_LOWEST)

    @property
    def has_places(self) -> bool:
        """Whether there are commit times or places in a log."""
        return bool(self.places) or self.commit_ts > _LOWEST

    def __or__(self, other: Bounds) -> Bounds:
        """Those of both, with the recent changes of the first."""
        return replace(
            self,
            partitions=_highest(chain(self.partitions.items(), other.partitions.items()), or_),
            places=_highest(chain(self.places.items(), other.places.items()), max),
            commit_ts=max(self.commit_ts, other.commit_ts),
            has_truncates=self.has_truncates or other.has_truncates,
        )

    def without_recent(self) -> Bounds:
        """The bounds for changes that are later than all that is stored."""
        return replace(self, since=self.latest + 1, recent=None)

    def since_after(self, batch: Bounds) -> int:
        """From when on changes are recent after a batch: its partitions are not equally far."""
        return max(self.since, min((one.event_time for one in batch.partitions.values()), default=_LOWEST))

    def after(self, batch: Bounds, settled: Bounds, applied: Recent, since: int) -> Bounds:
        """The bounds after a batch.

        Args:
            batch: The bounds of what was applied.
            settled: The bounds of what was applied and is not recent.
            applied: What was applied from `since` on.
            since: `since_after` the batch, or later.
        """
        recent = applied if self.recent is None else self.recent.then(applied)
        since = max(since, recent.since_of(MOST_RECENT))
        is_recent = pc.greater_equal(recent.times, since)
        places = settled | recent.filter(pc.invert(is_recent)).bounds()
        found = self | replace(batch, places=places.places, commit_ts=places.commit_ts)
        return replace(found, since=since, recent=recent.filter(is_recent))

    def are_below(self, orders: pa.StructArray) -> pa.BooleanArray:
        """Whether each order value is newer, by every rule of the order, than all that is stored but recent changes.

        Of one partition, the offset decides, if the topic was not recreated; of one log, the place, if the event time
        does not contradict it; otherwise the event time. The event time of a row never decreases, so it may not either.
        """
        names = [*OF_GROUP, "offset", "timestamp", "event_time", "commit_ts", "file", "at"]
        values = pa.table({name: pc.struct_field(orders, name) for name in names})
        rows = values.select(OF_GROUP).append_column("row", indices_of(orders))
        groups = rows.group_by(list(OF_GROUP), use_threads=False).aggregate([("row", "list")])
        lists = groups["row_list"].combine_chunks()
        indices = pc.list_flatten(lists)
        limits = [self._limits(*group) for group in zip(*(groups[name].to_pylist() for name in OF_GROUP), strict=True)]
        of_rows = pa.Table.from_pylist(limits, _LIMITS).take(pc.list_parent_indices(lists))
        found = _is_above(values.take(indices), of_rows, self.commit_ts)
        return pa.chunked_array(found.take(pc.sort_indices(indices)), pa.bool_()).combine_chunks()

    def _limits(self, topic: str | None, partition: int | None, log: str | None) -> dict[str, int]:
        """What a change of a partition and a log has to be above."""
        own = self.partitions.get((topic, partition), Highest())
        file, at = self.places.get(log, (_LOWEST, _LOWEST)) if log is not None else (_LOWEST, _LOWEST)
        times = {"timestamp": own.timestamp, "event_time": max(own.event_time, self.since)}
        return {"offset": own.offset, **times, "file": file, "at": at}


_LIMITS = pa.schema({name: pa.int64() for name in ("offset", "timestamp", "event_time", "file", "at")})


def _is_above(values: pa.Table, limits: pa.Table, commit_ts: int) -> pa.ChunkedArray:
    """Whether each value is above its limits. What is null is not, but for commit times and places in a log."""
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


def _highest(pairs: Iterable[tuple[_Key, _Value]], of_both: Callable[[_Value, _Value], _Value]) -> dict[_Key, _Value]:
    """The highest value of each key."""
    found: dict[_Key, _Value] = {}
    for key, value in pairs:
        found[key] = of_both(found[key], value) if key in found else value
    return found
