"""Tables in a store, here an S3 that answers on this machine, are merged by tasks as those in a local folder."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("deltalake")

from deltalake import DeltaTable

from object_store import ObjectStore
from stored_tables import ROWS, TABLES
from task_attempts import attempts_at_the_same_time, batch, created, inserts, owned, random_batches, stored
from towpath.lakehouse.merging.owned_table import apply

pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[2] / "support"
COUNTS = ("row", "delete", "old", "files")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with ObjectStore(tmp_path_factory.mktemp("s3")) as running:
        yield running


def deleted(target, storage=None):
    """The tombstones of a table."""
    rows = DeltaTable(f"{target}__tombstones", storage_options=storage).to_pyarrow_table().to_pylist()
    return {(one["k0"], str(one["order"])) for one in rows}


def test_a_table_in_a_store_is_the_one_of_a_local_folder(tmp_path, store):
    here, there = created(str(tmp_path / "a")), created("s3://lake/one/a b é", storage=store.storage_options)
    batches, rows = random_batches(random.Random(5))
    for messages in batches:
        places = (here, None), (there.replace(" ", "%20"), store.storage_options)
        local, remote = (apply(owned(place, storage), [batch(*messages)]) for place, storage in places)
        assert [local[name] for name in COUNTS] == [remote[name] for name in COUNTS]
    assert stored(here) == stored(there, store.storage_options) == rows
    tombstones = [deleted(here), deleted(there, store.storage_options)]
    assert tombstones[0] == tombstones[1] != set()


def test_attempts_at_the_same_time_apply_each_change_once(store):
    """Two tasks that commit the same version: the store keeps the first one."""
    target = created("s3://lake/two/a", storage=store.storage_options)
    table = owned(target, store.storage_options)
    assert attempts_at_the_same_time(table, inserts(range(1, 50)), 3) == [(0, 49)] * 2 + [(49, 0)]
    assert stored(target, store.storage_options) == dict.fromkeys(range(50), "x")


@pytest.mark.soak
def test_spark_and_tasks_write_the_same_tables(tmp_path):
    """With Spark's own client of S3: it creates the tables, and reads what the tasks wrote."""
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    command = [sys.executable, str(SUPPORT / "s3_driver.py"), str(tmp_path)]
    found = json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    rows = {way: {table: one["rows"] for table, one in tables.items()} for way, tables in found.items()}
    assert rows["spark"] == {table: [list(one) for one in ROWS] for table in TABLES}
    assert rows["auto"] == rows["task"] == rows["spark"]
    writers = {way: {table: one["writers"] for table, one in tables.items()} for way, tables in found.items()}
    assert writers["spark"] == writers["auto"] == dict.fromkeys(TABLES, "spark")
    assert writers["task"] == dict.fromkeys(TABLES, "task") | {"50%": "spark"}
