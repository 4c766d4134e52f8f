"""Tables in a store, here an S3 that answers on this machine, are merged by tasks as those in a local folder."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from lake_topic import Topic, canal, row
from object_store import ObjectStore
from stored_tables import ROWS, TABLES
from task_attempts import attempts_at_the_same_time, batch, owned, random_batches
from towpath.lakehouse.merging.owned_table import apply
from towpath.lakehouse.merging.tasks import Facts, available, why_not_there, why_spark

SUPPORT = Path(__file__).parents[1] / "support"
ENCODED = "delta-rs does not read HDFS with blanks or other encoded characters in the name of a folder"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with ObjectStore(tmp_path_factory.mktemp("s3")) as running:
        yield running


def test_a_table_in_a_store_is_the_one_of_a_local_folder(spark, tmp_path, store):
    """Spark has created the table, and reads it in the end."""
    topic = Topic(spark, tmp_path)
    topic.replicate(canal(0, "INSERT", "a", row(0, "x")))
    there = store.put(topic.name("shop/a"), "one/a b é")
    batches, rows = random_batches(random.Random(5))
    for messages in batches:
        here, remote = (
            apply(owned(place, storage), [batch(*messages)])
            for place, storage in ((topic.name("shop/a"), None), (there.replace(" ", "%20"), store.storage_options))
        )
        counts = ("row", "delete", "old", "files")
        assert [here[name] for name in counts] == [remote[name] for name in counts]
    assert topic.names("a") == rows
    store.get("one/a b é", topic.name("shop/copy"))
    assert topic.names("copy") == rows
    store.get("one/a b é__tombstones", topic.name("shop/gone"))
    keys = [set(topic.load(f"shop/{name}").select("k0", "order").collect()) for name in ("gone", "a__tombstones")]
    assert keys[0] == keys[1]


def test_attempts_at_the_same_time_apply_each_change_once(spark, tmp_path, store):
    """Two tasks that commit the same version: the store keeps the first one."""
    topic = Topic(spark, tmp_path)
    topic.replicate(canal(0, "INSERT", "a", row(0, "x")))
    table = owned(store.put(topic.name("shop/a"), "two/a"), store.storage_options)
    messages = batch(*(canal(at, "INSERT", "a", row(at, "x"), second=at) for at in range(1, 50)))
    assert attempts_at_the_same_time(table, messages, 3) == [(0, 49)] * 2 + [(49, 0)]
    store.get("two/a", topic.name("shop/copy"))
    assert [one["id"] for one in topic.rows("copy")] == list(range(50))


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


@pytest.mark.parametrize(
    ("location", "merge", "has_storage", "reason"),
    [
        ("/lake/a", "auto", False, None),
        ("/lake/a%b", "auto", False, None),
        ("/lake/a%25b", "auto", False, "delta-rs decodes the escape in the name of its folder"),
        ("hdfs://node:8020/a", "auto", False, "it is on hdfs, and there are no storage_options"),
        ("abfss://c@account.dfs.core.windows.net/a", "auto", False, "it is on abfss, and there are no storage_options"),
        ("hdfs://node:8020/a", "auto", True, None),
        ("hdfs://node:8020/a%20b", "task", True, ENCODED),
        ("hdfs://node:8020/名", "task", True, ENCODED),
        ("abfs://c@account/a", "auto", True, None),
        ("gs://bucket/a", "auto", True, None),
        ("gs://bucket/a", "task", False, None),
        ("s3://bucket/a", "auto", True, "it is on s3, and merge is not 'task'"),
        ("s3a://bucket/a", "auto", True, "it is on s3a, and merge is not 'task'"),
        ("s3a://bucket/a", "task", False, None),
        ("s3a://bucket/a%20b", "task", True, None),
        ("s3a://bucket/50%25", "task", True, "delta-rs does not read stores with % in the name of a folder"),
        ("dbfs:/a", "task", True, "tasks do not write to dbfs"),
        ("wasbs://c@account/a", "task", True, "tasks do not write to wasbs"),
        ("", "task", True, "tasks do not write to a place without a scheme"),
    ],
)
def test_where_tasks_write(location, merge, has_storage, reason):
    assert why_not_there(location, merge, has_storage=has_storage) == reason
    assert why_spark(Facts(is_delta=True, rows=1, size=1, elsewhere=reason)) == reason


def test_the_argument_needs_the_package(monkeypatch):
    assert available("task") == "task"
    monkeypatch.setattr("towpath.lakehouse.merging.tasks.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'merge: "task" needs the package deltalake: pip install "towpath\[delta\]"'):
        available("task")
