"""Tables on HDFS are merged by tasks, beside a Spark that commits to them too. `make soak` fetches HDFS."""

import random
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from delta_history import commits
from hdfs_server import Hdfs
from lake_topic import canal, row
from stored_tables import ROWS, TABLES, replicated
from task_attempts import attempts_at_the_same_time, batch, owned, random_batches
from towpath.lakehouse.merging.owned_table import apply

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture
def target(spark, hdfs, request):
    """A table with a row, as Spark creates it for `replicate`."""
    lake = f"{hdfs.uri}/{re.sub(r'[^a-z0-9]', '_', request.node.name)}"
    replicated(spark, lake, "spark", {}, [[canal(0, "INSERT", "a", row(0, "x"))]])
    return f"{lake}/shop/a"


def names(spark, target):
    return {one["id"]: one["name"] for one in spark.read.format("delta").load(target).collect()}


def test_spark_and_tasks_write_the_same_tables(spark, hdfs):
    found = {way: replicated(spark, f"{hdfs.uri}/{way}", way, {}) for way in ("spark", "auto", "task")}
    rows = {way: {table: one["rows"] for table, one in tables.items()} for way, tables in found.items()}
    assert rows["spark"] == rows["auto"] == rows["task"] == dict.fromkeys(TABLES, ROWS)
    writers = {way: {table: one["writers"] for table, one in tables.items()} for way, tables in found.items()}
    assert writers["spark"] == dict.fromkeys(TABLES, "spark")
    # delta-rs reads no name that a URI encodes.
    assert writers["auto"] == writers["task"] == {**writers["spark"], "orders": "task"}


@pytest.mark.parametrize("seed", range(3))
def test_random_batches(spark, target, seed):
    batches, rows = random_batches(random.Random(seed))
    for messages in batches:
        apply(owned(target, {}), [batch(*messages)])
    assert names(spark, target) == rows


def test_attempts_at_the_same_time_apply_each_change_once(spark, target):
    messages = batch(*(canal(at, "INSERT", "a", row(at, "x"), second=at) for at in range(1, 50)))
    assert attempts_at_the_same_time(owned(target, {}), messages, 3) == [(0, 49)] * 2 + [(49, 0)]
    assert names(spark, target) == dict.fromkeys(range(50), "x")


def test_commits_of_spark_at_the_same_time(spark, target):
    """Neither replaces a commit of the other: all rows of both are there."""
    columns = spark.read.format("delta").load(target).columns

    def by_spark():
        for key in range(1000, 1015):
            nulls = ", ".join("NULL" for _ in columns[2:])
            spark.sql(f"INSERT INTO delta.`{target}` SELECT {key}, 's', {nulls}")

    with ThreadPoolExecutor() as pool:
        appended = pool.submit(by_spark)
        for at in range(1, 31):
            apply(owned(target, {}), [batch(canal(at, "INSERT", "a", row(at, "t"), second=at))])
        appended.result()
    made = [writer for _, writer in commits(spark, f"delta.`{target}`")]
    assert len({*pairwise(made)}) > 2, "they took turns too seldom"
    by_tasks, others = dict.fromkeys(range(1, 31), "t"), dict.fromkeys(range(1000, 1015), "s")
    assert names(spark, target) == {0: "x", **by_tasks, **others}
