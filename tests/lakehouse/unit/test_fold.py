"""The newest change of each key, and which of them need no look at the target, against the model in plain Python."""

import random
from collections import Counter
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

from order_model import FIELDS, one_by_one, outcome, sortable
from towpath.lakehouse.merging.fold import Fold, is_rejected
from towpath.lakehouse.order.bounds import Bounds, Recent
from towpath.lakehouse.order.order_arrays import ORDER, order_values
from towpath.lakehouse.reading.changes import change_schema

pytestmark = pytest.mark.slow

COLUMNS = pa.struct([("id", pa.int64()), ("a", pa.string()), ("b", pa.int64())])
SCHEMA = change_schema(COLUMNS)
KEY = pa.struct([("k0", pa.int64())])
EPOCH = datetime(2026, 1, 1, tzinfo=timezone.utc)


def in_parts(rng, changes):
    """The changes in record batches of any size."""
    parts, rest = [], list(changes)
    while rest:
        size = rng.randrange(1, 30)
        parts.append(pa.RecordBatch.from_pylist(rest[:size], SCHEMA))
        rest = rest[size:]
    return parts


def as_places(orders):
    instants = ("event_time", "produced_time", "timestamp")
    rows = pa.StructArray.from_arrays(
        [orders.field(name).cast(pa.int64()) if name in instants else orders.field(name) for name in FIELDS], FIELDS
    )
    return rows.to_pylist()


def place_of(change):
    [place] = as_places(order_values(pa.RecordBatch.from_pylist([change], SCHEMA)))
    return place


def some_change(rng, key, offset, kind):
    """A change whose order value has few different times, so that every rule decides some pairs."""
    second = rng.choice([None, *range(5)])
    source = {"message_id": rng.choice([1, 2])} if kind == "canal" else {}
    if kind == "log":
        source = {"server_id": rng.choice([1, 1, 1, 2]), "file": "bin.000001", "position": rng.randrange(9)}
    if kind == "commit":
        source = {"commit_ts": rng.randrange(9)}
    op = rng.choice(["insert", "update", "update", "delete"])
    return {
        "op": op,
        "columns": {"id": key, "a": f"{offset}", "b": offset},
        "partial": False,
        "key_only": False,
        "event_time": second if second is None else EPOCH + timedelta(seconds=second),
        "produced_time": EPOCH + timedelta(seconds=rng.randrange(5)),
        "source": source,
        "step": rng.randrange(2),
        "topic": "t",
        "partition": rng.randrange(2),
        "offset": offset,
        "timestamp": rng.choice(
            [None, EPOCH + timedelta(milliseconds=offset), EPOCH + timedelta(seconds=rng.randrange(4))]
        ),
    }


@pytest.mark.parametrize("kind", ["canal", "log", "commit", "maxwell"])
def test_a_batch_has_the_result_of_its_changes_one_by_one(kind):
    rng = random.Random(kind)
    changes = [some_change(rng, rng.randrange(120), at, kind) for at in range(600)]
    rng.shuffle(changes)
    found = pa.Table.from_batches(Fold(("ID",)).newest(in_parts(rng, changes)))
    wanted = newest_places(changes)
    keys = [columns["id"] for columns in found["columns"].to_pylist()]
    assert dict(zip(keys, as_places(found["order"].combine_chunks()), strict=True)) == wanted
    assert len(keys) == len(wanted)


def test_what_is_no_row_is_kept_for_itself():
    rng = random.Random(1)
    changes = [some_change(rng, 1, at, "canal") for at in range(4)]
    changes[0]["op"] = changes[1]["op"] = "truncate"
    changes[2]["error"] = {"kind": "type", "message": "a: ..."}
    changes[2]["op"] = None
    found = pa.Table.from_batches(Fold(("id",)).newest(in_parts(rng, changes)))
    assert sorted(found["offset"].to_pylist()) == [0, 1, 2, 3]
    assert found["outcome"].to_pylist() == ["truncate", "truncate", "rejected", None]


def test_no_changes_are_none():
    assert list(Fold(("id",)).newest([])) == []


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_lack_columns(seed):
    """With `binlog_row_image=minimal`, an update has its key and the columns that it changed.

    After a delete an insert is missing, as of a message that could not be decoded. The row is not known then.
    """
    rng = random.Random(seed)
    changes, left = [], {}
    for at in range(800):
        key = rng.randrange(60)
        op = rng.choice(["insert", "update", "update", "update", "delete"])
        missing = [name for name in ("a", "b") if op == "update" and rng.random() < 0.6]
        columns = {"id": key, "a": f"{at}", "b": at} | dict.fromkeys(missing)
        change = some_change(rng, key, at, "canal") | {"op": op, "columns": columns, "missing": missing or None}
        second = EPOCH + timedelta(seconds=at)
        change |= {"partition": 0, "timestamp": second, "event_time": second, "partial": bool(missing)}
        changes.append(change)
        begun = left.get(key)
        if op == "insert" or (op == "update" and begun is None):
            left[key] = {"columns": columns, "missing": missing, "is_begun": op == "insert"}
        elif op == "delete":
            left[key] = {"columns": columns, "missing": [], "is_begun": True, "deleted_at": at}
        elif "deleted_at" in begun:  # the insert before this update is missing
            updates = [*begun.get("updates", []), (at, columns, missing)]
            left[key] = {**begun, "updates": updates}
        else:
            kept = {name: begun["columns"][name] for name in missing}
            still = [name for name in missing if name in begun["missing"]]
            left[key] = {"columns": columns | kept, "missing": still, "is_begun": begun["is_begun"]}
    found = {
        row["offset"]: row for row in pa.Table.from_batches(Fold(("id",)).newest(in_parts(rng, changes))).to_pylist()
    }
    unknown = 0
    for wanted in left.values():
        updates = wanted.pop("updates", [])
        lacking = {"a", "b"}.intersection(*(missing for *_, missing in updates)) if updates else set()
        unknown += len(updates) if lacking else 0
        for at, *_ in updates if lacking else ():
            assert found.pop(at)["outcome"] == "unknown"
        if updates and not lacking:
            wanted["columns"] = {}
            for _, columns, missing in updates:
                wanted["columns"] |= {name: value for name, value in columns.items() if name not in missing}
    assert unknown > 5
    assert len(found) == len(left)
    for row in found.values():
        wanted = left[row["columns"]["id"]]
        assert row["columns"] == wanted["columns"]
        assert (row["missing"] or []) == wanted["missing"]
        assert not row["missing"] or row["inherits"] != wanted["is_begun"]


def group(place):
    """A group of one order value."""
    names = ("offset", "timestamp", "event_time", "commit_ts")
    of_group = {f"of_{name}": place[name] for name in ("topic", "partition", "log")}
    return (
        of_group | {f"highest_{name}": place[name] for name in names} | {"highest_place": (place["file"], place["at"])}
    )


class Target:
    """A table, and its tombstones, of which the bounds are known."""

    def __init__(self):
        self.rows, self.tombstones, self.bounds = {}, {}, Bounds()

    def outcome(self, key, place, is_delete):
        row = [self.rows[key]] if key in self.rows else []
        return outcome(place, is_delete, row, self.tombstones.get(key, []), [])

    def apply(self, applied):
        """Write changes: a key, a place, and whether it is a delete."""
        for key, place, is_delete in applied:
            if is_delete:
                self.rows.pop(key, None)
                self.tombstones.setdefault(key, []).append(place)
            else:
                self.rows[key] = place
        if not applied:
            return
        batch = Bounds.of(group(place) for _, place, _ in applied)
        since = self.bounds.since_after(batch)
        recent = [one for one in applied if one[1]["event_time"] is not None and one[1]["event_time"] >= since]
        settled = Bounds.of(group(one[1]) for one in applied if one not in recent)
        self.bounds = self.bounds.after(batch, settled, as_recent(recent), since)

    def stored(self):
        return [*self.rows.values(), *(place for places in self.tombstones.values() for place in places)]


def as_recent(changes):
    keys = pa.array([{"k0": key} for key, _, _ in changes], KEY)
    orders = pa.array([place for _, place, _ in changes], ORDER)
    return Recent(keys, orders, pa.array([is_delete for _, _, is_delete in changes], pa.bool_()))


@pytest.mark.parametrize("kind", ["canal", "log", "commit", "maxwell", "mixed", "in turns"])
@pytest.mark.parametrize("most", [3, 20_000])
@pytest.mark.parametrize("targets", [8, pytest.param(25, marks=pytest.mark.soak)])
def test_what_the_bounds_decide_is_what_the_target_says(kind, most, targets, monkeypatch):
    """In batches of two partitions that are not equally far, with changes that are sent again or late."""
    monkeypatch.setattr("towpath.lakehouse.order.bounds.MOST_RECENT", most)
    rng = random.Random(f"{kind} {most}")
    decided = Counter()
    for _ in range(targets):
        target, offsets, clock = Target(), [0, 0], 0
        sent = []
        for number in range(8):
            if number == 5 and rng.random() < 0.5:  # the query was started again
                target.bounds = Bounds.of(map(group, target.stored())).without_recent()
            batch, of_batch = [], rng.choice(["canal", "log", "commit", "maxwell"])
            for _ in range(rng.randrange(1, 12)):
                partition = rng.randrange(2)
                offsets[partition] += 1
                clock += rng.random() < 0.5
                of_change = rng.choice(["canal", "log", "commit", "maxwell"])
                kind_of = {"mixed": of_change, "in turns": of_batch}.get(kind, kind)
                change = some_change(rng, rng.randrange(6), offsets[partition], kind_of)
                late = rng.choice([0, 0, 0, 0, 0, 1, 4])
                time = EPOCH + timedelta(seconds=clock - late - 2 * partition)
                change |= {"partition": partition, "timestamp": EPOCH + timedelta(seconds=clock), "event_time": time}
                if "position" in change["source"]:
                    change["source"]["position"] = clock - rng.choice([late, late, 5])
                if "commit_ts" in change["source"]:
                    change["source"]["commit_ts"] = clock - rng.choice([late, late, 5])
                batch.append(change)
            sent += batch
            batch += rng.sample(sent, rng.choice([0, 0, 0, 1, 3]) % (len(sent) + 1))
            found = pa.Table.from_batches(Fold(("id",), target.bounds).newest(in_parts(rng, batch)))
            rows = zip(found["columns"].to_pylist(), found["op"].to_pylist(), found["outcome"].to_pylist(), strict=True)
            applied = []
            newest = newest_places(batch)
            for (columns, op, said), place in zip(rows, as_places(found["order"].combine_chunks()), strict=True):
                key, is_delete = columns["id"], op == "delete"
                is_applied, time = target.outcome(key, newest[key], is_delete)
                if said is not None:
                    assert said == (op if is_delete and is_applied else "row" if is_applied else "old")
                    assert place["event_time"] == time
                decided[said] += 1
                if is_applied:
                    applied.append((key, {**newest[key], "event_time": time}, is_delete))
            target.apply(applied)
    assert min(decided[one] for one in ("row", "delete", None)) > 10
    assert decided["row"] > decided[None] or most == 3


def newest_places(changes):
    """What is left of each key. Changes that arrived together are in the order of their places."""
    of_key = {}
    for change in changes:
        of_key.setdefault(change["columns"]["id"], []).append(place_of(change))
    return {key: one_by_one(sorted(places, key=lambda one: sortable(one, *FIELDS))) for key, places in of_key.items()}


def test_the_bounds_of_two_targets():
    one, other = Bounds.of([group(PLACE)]), Bounds.of([group(PLACE | {"partition": 1, "event_time": None})])
    assert {key[1:] for key in (one | other).highest if key[0] == "offset"} == {("t", 0), ("t", 1)}
    assert (one | other).latest == PLACE["event_time"]


PLACE = dict.fromkeys(FIELDS) | {"topic": "t", "partition": 0, "offset": 5, "event_time": 7, "timestamp": 8}


def test_places_are_known_when_their_changes_are_no_longer_recent():
    """A batch without places in a log may end what is recent."""
    place = PLACE | {"log": "1/bin", "file": 1}
    target = Target()
    target.apply([(1, place | {"at": 9}, False)])
    target.apply([(2, PLACE | {"partition": 1, "event_time": 8}, False)])
    assert len(target.bounds.recent.keys) == 1
    later = {"partition": 1, "offset": 6, "event_time": 9}
    orders = pa.array([place | later | {"at": 10}, place | later | {"at": 8}], ORDER)
    assert target.bounds.are_below(orders).to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("op", "missing", "error", "of_a_key", "without_a_key"),
    [
        ("insert", [], None, False, False),
        ("update", ["ID"], None, True, False),
        ("delete", ["id"], None, True, False),
        ("delete", ["b"], None, False, False),
        ("delete", [], {"column": "b"}, False, True),
        ("delete", [], {"column": "Id"}, True, True),
        ("insert", [], {"column": "b"}, True, True),
        ("truncate", None, None, False, False),
    ],
)
def test_what_cannot_be_applied(op, missing, error, of_a_key, without_a_key):
    change = {"op": op, "columns": {"id": 1, "a": "x", "b": 2}, "missing": missing, "key_only": False, "error": error}
    batch = pa.RecordBatch.from_pylist([change], SCHEMA)
    assert [is_rejected(batch, keys).to_pylist() for keys in (["id"], [])] == [[of_a_key], [without_a_key]]
