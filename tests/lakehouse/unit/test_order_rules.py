"""The rules of the order of changes in Rust, against the model in plain Python."""

import random

import pyarrow as pa
import pytest

from order_model import FIELDS, is_certain, is_newer, is_ordered, one_by_one, outcome, some_place
from towpath import _towpath
from towpath.lakehouse.order.order import ORDER_FIELDS
from towpath.lakehouse.order.order_arrays import ORDER


def orders(places):
    return pa.array(places, ORDER)


def keys(values):
    return pa.array([{"k0": value, "k1": f"of {value}"} for value in values], KEY)


KEY = pa.struct([("k0", pa.int64()), ("k1", pa.string())])


def times(array):
    return array.cast(pa.int64()).to_pylist()


def test_all_know_the_same_fields():
    assert _towpath.ORDER_FIELDS == FIELDS == tuple(ORDER_FIELDS) == tuple(field.name for field in ORDER)


def test_the_newer_of_two_changes():
    rng = random.Random(15)
    pairs = [(some_place(rng, rng.randrange(3)), some_place(rng, rng.randrange(3))) for _ in range(20_000)]
    ones, others = zip(*pairs, strict=True)
    found = _towpath.is_newer(orders(ones), orders(others)).to_pylist()
    assert found == [is_newer(one, other) for one, other in pairs]
    back = _towpath.is_newer(orders(others), orders(ones)).to_pylist()
    assert not any(one and other for one, other in zip(found, back, strict=True)), "newer than each other"
    assert set(found) == {True, False}


def test_the_statements_that_a_change_is_after():
    rng = random.Random(17)
    found = set()
    for seed in range(80):
        changes, statements = ([some_place(rng, rng.randrange(3)) for _ in range(count)] for count in (50, seed % 4))
        bounds = _towpath.statement_bounds(orders(changes), orders(statements))
        pairs = list(zip(*(column.to_pylist() for column in bounds.columns), strict=True))
        assert pairs == [model_bounds(change, statements) for change in changes]
        found |= set(pairs)
    assert {(0, 0, 0), (3, 3, 3), (0, 2, 3), (1, 2, 2)} <= found


def model_bounds(change, statements):
    ordered = {at for at, one in enumerate(statements, 1) if is_ordered(one, change)}
    newer = {at for at, one in enumerate(statements, 1) if is_newer(one, change)}
    certain = {at for at, one in enumerate(statements, 1) if is_certain(one, change)}
    last = [ordered & certain - newer, ordered - newer, set(range(1, len(statements) + 1)) - (ordered & newer)]
    return tuple(max(one, default=0) for one in last)


def test_every_change_is_newer_than_none():
    place = some_place(random.Random(1), 1)
    assert _towpath.is_newer(orders([place, None]), orders([None, place])).to_pylist() == [True, False]


def test_the_newest_of_each_key_is_what_is_left_one_by_one():
    """However the changes are ordered in the batch."""
    rng = random.Random(16)
    of_key = [[some_place(rng, offset) for offset in rng.sample(range(9), rng.randrange(1, 6))] for _ in range(3000)]
    changes = [(key, place) for key, places in enumerate(of_key) for place in places]
    rng.shuffle(changes)
    found = _towpath.newest_changes(keys([key for key, _ in changes]), orders([place for _, place in changes]))
    newest = zip(changes, found["is_newest"].to_pylist(), times(found["event_time"]), strict=True)
    left = {key: {**place, "event_time": time} for (key, place), is_newest, time in newest if is_newest}
    assert left == {key: one_by_one(places) for key, places in enumerate(of_key)}


@pytest.mark.parametrize("seed", range(4))
def test_outcomes(seed):
    rng = random.Random(seed)
    count = 1500
    changes = [some_place(rng, rng.randrange(4)) for _ in range(count)]
    deletes = [rng.random() < 0.4 for _ in range(count)]
    rows = [[rng.choice([some_place(rng, rng.randrange(4)), None])] if rng.random() < 0.5 else [] for _ in range(count)]
    gone = [[some_place(rng, rng.randrange(4)) for _ in range(rng.randrange(3))] for _ in range(count)]
    for at in range(0, count, 7):  # a batch that failed between the tombstones and the merge
        changes[at], gone[at] = gone[at][0] if gone[at] else changes[at], gone[at][:1]
    for at in range(3, count, 11):  # a batch that is read again after the merge
        rows[at], gone[at] = [changes[at]], []
    of_rows = [(key, place) for key, known in enumerate(rows) for place in known] + [(-1, changes[0])]
    of_gone = [(key, place) for key, places in enumerate(gone) for place in places] + [(-2, changes[0])]
    rng.shuffle(of_gone)
    found = _towpath.change_outcomes(
        (keys(range(count)), orders(changes), pa.array(deletes)),
        (keys([key for key, _ in of_rows]), orders([place for _, place in of_rows])),
        (keys([key for key, _ in of_gone]), orders([place for _, place in of_gone])),
    )
    wanted = [outcome(*of_key, []) for of_key in zip(changes, deletes, rows, gone, strict=True)]
    assert list(zip(found["is_applied"].to_pylist(), times(found["event_time"]), strict=True)) == wanted
    assert found["is_known"].to_pylist() == [bool(row) for row in rows]


def test_a_change_without_an_order_value_is_an_error():
    place, empty = orders([some_place(random.Random(1), 1)]), (keys([]), orders([]))
    for call in (
        lambda one: _towpath.newest_changes(keys([1]), one),
        lambda one: _towpath.change_outcomes((keys([1]), one, pa.array([False])), empty, empty),
        lambda one: _towpath.statement_bounds(one, place),
    ):
        assert len(call(place)) == 1
        with pytest.raises(ValueError, match="order: value 0 is null"):
            call(orders([None]))


def test_a_field_that_is_missing_is_an_error():
    with pytest.raises(ValueError, match="the field event_time is missing"):
        _towpath.is_newer(pa.array([{"offset": 1}]), pa.array([{"offset": 1}]))


def test_a_set_of_keys():
    rng = random.Random(3)
    wanted = {(rng.choice([None, *range(50)]), rng.choice([None, "", "a", "a\0", "名"])) for _ in range(60)}
    others = [(rng.choice([None, *range(50)]), rng.choice([None, "", "a", "a\0", "名"])) for _ in range(5000)]

    def array(pairs):
        return pa.array([dict(zip(("k0", "k1"), pair, strict=True)) for pair in pairs], KEY)

    found = _towpath.KeySet(array(wanted)).contains(array(others)).to_pylist()
    assert found == [pair in wanted for pair in others]
    assert set(found) == {True, False}
