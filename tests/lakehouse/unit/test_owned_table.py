"""What a task of Spark does to a table, however often and wherever it ends. It needs no Spark for that."""

import json
import random
import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("deltalake")

from deltalake import DeltaTable

from lake_topic import canal, row
from task_attempts import (
    PART,
    attempts_at_the_same_time,
    batch,
    created,
    inserts,
    owned,
    processes,
    random_batches,
    stored,
)
from towpath.lakehouse.merging import owned_table
from towpath.lakehouse.merging.delta_rs import BatchRefusedError, RefusedError, Size
from towpath.lakehouse.merging.owned_table import apply
from towpath.lakehouse.order.order import ORDER_FIELDS
from towpath.lakehouse.order.order_arrays import ORDER
from towpath.lakehouse.reading.changes import ChangeDecoder

pytestmark = pytest.mark.slow


@pytest.fixture
def target(tmp_path):
    return created(str(tmp_path / "a"))


def test_attempts_at_the_same_time_apply_each_change_once(target):
    """As with speculative execution, and with a retry of a task whose first attempt still runs."""
    assert attempts_at_the_same_time(owned(target, optimize_every=1), inserts(range(1, 200)), 4) == [(0, 199)] * 3 + [
        (199, 0)
    ]
    assert stored(target) == dict.fromkeys(range(200), "x")


def apply_when_told(table, messages, is_ready):
    import deltalake  # noqa: F401 - before the time of the kill begins

    is_ready.set()
    apply(table, [messages])


@pytest.mark.parametrize("kills", [6, pytest.param(150, marks=pytest.mark.soak)])
def test_tasks_that_are_killed_anywhere(target, kills):
    """Each is killed at a random moment, and another attempt reads the same messages, as Spark repeats a task."""
    rng, context = random.Random(kills), processes()
    rows, at, killed = {0: "x"}, 0, 0
    for _ in range(kills):
        messages = []
        for _ in range(30):
            at, key = at + 1, rng.randrange(20)
            kind = rng.choice(["UPDATE", "DELETE"]) if key in rows else "INSERT"
            messages.append(canal(at, kind, "a", row(key, f"v{at}"), second=at))
            rows.pop(key, None)
            rows |= {} if kind == "DELETE" else {key: f"v{at}"}
        is_ready = context.Event()
        task = context.Process(
            target=apply_when_told, args=(owned(target, optimize_every=1), batch(*messages), is_ready)
        )
        task.start()
        assert is_ready.wait(300)
        task.join(rng.uniform(0, 0.08))
        task.kill()
        task.join()
        killed += task.exitcode != 0
        apply(owned(target), [batch(*messages)])
        assert stored(target) == rows
    assert killed, "every task was faster"


@pytest.mark.parametrize("is_overwritten", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_maintenance_changes_no_row(target, seed, is_overwritten, monkeypatch):
    monkeypatch.setattr(owned_table, "_is_overwritten", lambda *_: is_overwritten)
    rng = random.Random(seed)
    batches, rows = random_batches(rng)
    for messages in batches:
        every = rng.choice([None, 1, 2, 50])
        apply(owned(target, optimize_every=every), [batch(*messages)])
        assert every != 1 or len(DeltaTable(target).file_uris()) <= 1
    assert stored(target) == rows


def newest_of(known, messages):
    """The newest message of each key, as a database that sent them in ascending order knows it."""
    read = sorted((json.loads(one["value"]) for one in messages), key=lambda one: one["id"])
    newest = {one["data"][0]["id"]: one for one in read}
    return known | {key: one for key, one in newest.items() if one["id"] > known.get(key, {"id": 0})["id"]}


# In most of these a batch inserts and deletes a row that an earlier batch deleted.
@pytest.mark.parametrize("seed", range(7, 11))
def test_deleted_rows_stay_with_the_time_of_their_last_deletion(tmp_path, seed):
    target = created(str(tmp_path / "marked"), gone_at=pa.timestamp("us", "UTC"))
    batches, rows = random_batches(random.Random(seed))
    found, newest = {"0": ("x", None)}, {}
    for messages in batches:
        apply(owned(target, soft_deletes="gone_at"), [batch(*messages)])
        known, newest = newest, newest_of(newest, messages)
        # A batch writes the newest change of each key. A deleted row keeps the values that it had.
        for key, one in newest.items():
            if known.get(key) != one and one["type"] != "DELETE":
                found[key] = one["data"][0]["name"], None
            elif known.get(key) != one and key in found:
                found[key] = found[key][0], one["es"] / 1000
    assert {int(key): name for key, (name, gone) in found.items() if gone is None} == rows
    stored = DeltaTable(target).to_pyarrow_table().to_pylist()
    assert {str(one["id"]): (one["name"], one["gone_at"] and one["gone_at"].timestamp()) for one in stored} == found


def test_a_table_of_many_batches_has_few_files_and_checkpoints(target):
    for at in range(35):
        inserted = canal(2 * at, "INSERT", "a", row(at + 5, "x"), second=2 * at)
        deleted = canal(2 * at + 1, "DELETE", "a", row(at, "x"), second=2 * at + 1)
        apply(owned(target, optimize_every=50), [batch(inserted, deleted)])
        assert len(DeltaTable(target).file_uris()) <= 10
    assert stored(target) == dict.fromkeys(range(35, 40), "x")
    for folder in (target, f"{target}__tombstones"):
        log, version = Path(folder) / "_delta_log", DeltaTable(folder).version()
        assert version - json.loads((log / "_last_checkpoint").read_text())["version"] < 15


def test_a_table_whose_files_may_have_deletion_vectors_is_not_overwritten(target, tmp_path):
    """Removing a file needs the vector's name, which only Spark was seen to write."""
    marked = {"delta.enableDeletionVectors": "true"}
    other = DeltaTable.create(str(tmp_path / "marked"), pa.schema([("id", pa.int32())]), configuration=marked)
    assert [owned_table._is_overwritten(one, 1) for one in (DeltaTable(target), other)] == [True, False]


def test_limits(tmp_path, monkeypatch):
    target = created(str(tmp_path / "limited"), rows=5)
    for limits in (Size(4, 1 << 20), Size(5, 100)):
        monkeypatch.setattr(owned_table, "LIMITS", limits)
        with pytest.raises(RefusedError, match=r"5 rows in .* more than a task can merge"):
            apply(owned(target), [batch(canal(9, "INSERT", "a", row(9, "y")))])


def test_what_only_sparks_merge_applies(target):
    with pytest.raises(BatchRefusedError, match="opened different tables"):
        apply(owned(target, id="of another one"), [batch(canal(1, "INSERT", "a", row(7, "x")))])
    with pytest.raises(RefusedError, match="key column is null"):
        apply(owned(target), [batch(canal(1, "INSERT", "a", {"id": None, "name": "x"}))])
    partial = canal(1, "UPDATE", "a", {"id": "0"}, {"id": "int", "name": "varchar(9)"}, old={"id": "0"})
    with pytest.raises(RefusedError, match="only the changed columns"):
        apply(owned(target), [batch(partial)])
    after = [dict.fromkeys(ORDER_FIELDS) | {"topic": "t", "partition": 0, "offset": 5, "step": 0}]
    with pytest.raises(BatchRefusedError, match="rows predate ADD COLUMN"):
        apply(owned(target, after=after), [batch(canal(6, "INSERT", "a", {"id": "7"}, {"id": "int"}))])
    with pytest.raises(BatchRefusedError, match="may predate a statement"):
        apply(owned(target, after=after), [batch(canal(4, "INSERT", "a", row(7, "x")))])
    assert apply(owned(target, after=after), [batch(canal(6, "INSERT", "a", row(7, "x")))])["row"] == 1


def test_without_the_package(target, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(RefusedError, match="deltalake is not installed"):
        apply(owned(target), [batch(canal(1, "INSERT", "a", row(1, "x")))])


def test_no_tombstone_has_wrong_statistics(tmp_path):
    """delta-rs computes statistics of wide decimals with floats, and readers skip files by statistics."""
    target, key = str(tmp_path / "unsigned"), {"id": "bigint unsigned", "name": "varchar(9)"}
    fields = {"id": pa.decimal128(20, 0), "name": pa.string(), "_towpath": ORDER}
    DeltaTable.create(target, pa.schema(list(fields.items())))
    decoder = ChangeDecoder("canal-json", "id decimal(20, 0), name string", {"table": "a"})
    table, before = replace(owned(target), readers={PART: decoder}), datetime(2020, 1, 1, tzinfo=timezone.utc)
    for at in range(23):
        deleted = batch(canal(at, "DELETE", "a", row(at, "x"), key))
        apply(replace(table, forget_before=before if at == 22 else None), [deleted])
    tombstones = DeltaTable(table.tombstones)
    assert len(tombstones.file_uris()) < 20
    files = pa.table(tombstones.get_add_actions(flatten=True)).to_pylist()
    assert {(one["min.k0"], one["max.k0"]) for one in files} == {(None, None)}
    assert all(one["max.recorded_at"] for one in files)


def test_tombstones_are_compacted_and_forgotten(tmp_path):
    target = created(str(tmp_path / "compacted"), rows=30)
    for at in range(25):
        apply(owned(target), [batch(canal(100 + at, "DELETE", "a", row(at, "x"), second=40 + at))])
    tombstones = DeltaTable(f"{target}__tombstones")
    assert len(tombstones.file_uris()) < 25
    assert tombstones.to_pyarrow_table().num_rows == 25
    now = datetime.now(timezone.utc)  # most were remembered within this second
    last = batch(canal(200, "DELETE", "a", row(29, "x"), second=99))
    apply(owned(target, forget_before=now), [last])
    assert DeltaTable(f"{target}__tombstones").to_pyarrow_table().column("k0").to_pylist() == [29]
