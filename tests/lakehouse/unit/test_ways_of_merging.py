"""Which targets tasks merge with delta-rs, and why Spark merges the others."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from towpath.lakehouse.merging import tasks
from towpath.lakehouse.merging.by_tasks import needs_spark
from towpath.lakehouse.merging.delta_rs import BatchRefusedError, RefusedError
from towpath.lakehouse.merging.tasks import TaskMerges, available, why_not_there
from towpath.lakehouse.reading.source_tables import SourceTable
from towpath.lakehouse.replicate_options import ReplicateOptions
from towpath.lakehouse.tables import formats
from towpath.lakehouse.tables.known_targets import KnownTargets
from towpath.lakehouse.tables.tables import has_feed
from towpath.lakehouse.tables.target_properties import PARTIAL
from towpath.lakehouse.tables.targets import Targets

ENCODED = "delta-rs cannot read HDFS with spaces or other encoded characters in folder names"


TABLE = SourceTable("shop", "a", frozenset(["t"]), 1, 1, 1, False, False, (), frozenset(), False)


@pytest.mark.parametrize(
    ("changed", "options", "columns", "needed"),
    [
        ({}, {}, {}, False),
        ({"rows": 10_000_000}, {}, {}, True),
        ({"size": 1 << 40}, {}, {}, True),
        ({}, {"history": True}, {}, False),
        ({}, {"soft_deletes": "deleted_at"}, {}, False),
        ({}, {"waited": True}, {}, True),
        ({}, {}, {"are_masked": True}, True),
        ({}, {"keyless": "append"}, {}, True),
        ({}, {}, {"rules": SimpleNamespace(left_out=["a"])}, True),
    ],
)
def test_what_needs_spark(changed, options, columns, needed):
    known = KnownTargets(Targets("/lake/{table}"), replace(ReplicateOptions.of("auto", {}), **options))
    known.was_merged("/lake/a", {PARTIAL: "true"})
    of_table = SimpleNamespace(**{"are_masked": False, "rules": SimpleNamespace(left_out=[]), **columns})
    assert needs_spark(None, known, replace(TABLE, **changed), "/lake/a", of_table) == needed


def test_tasks_write_no_iceberg_tables(monkeypatch, caplog):
    caplog.set_level("INFO", "towpath.spark")
    monkeypatch.setattr(tasks, "format_of", lambda *_: formats.ICEBERG)
    in_tasks = TaskMerges("task")
    assert not in_tasks.may(None, "lake.shop.a", exists=False)
    assert in_tasks.refused == {"lake.shop.a": "it is an Iceberg table"}
    assert "lake.shop.a: merged by Spark: it is an Iceberg table" in caplog.text


class Panic(BaseException):
    """A panic in delta-rs is not an Exception."""


@pytest.mark.parametrize(
    ("error", "is_remembered"),
    [(RefusedError("x"), True), (BatchRefusedError("x"), False), (OSError("x"), True), (Panic("x"), True)],
)
def test_a_lasting_refusal_of_a_merge_on_the_driver_is_remembered(error, is_remembered):
    def merge():
        raise error

    in_tasks = TaskMerges("auto")
    assert in_tasks.merged_in_driver("/lake/a", merge) is None
    assert in_tasks.refused == ({"/lake/a": "x"} if is_remembered else {})
    assert in_tasks.merged_in_driver("/lake/a", lambda: 1) == 1


def test_an_interruption_of_a_merge_is_no_refusal():
    def interrupt():
        raise KeyboardInterrupt

    in_tasks = TaskMerges("auto")
    with pytest.raises(KeyboardInterrupt):
        in_tasks.merged_in_driver("/lake/a", interrupt)
    assert in_tasks.refused == {}


@pytest.mark.parametrize(
    ("location", "merge", "has_storage", "reason"),
    [
        ("/lake/a", "auto", False, None),
        ("/lake/a%b", "auto", False, None),
        ("/lake/a%25b", "auto", False, "delta-rs decodes % escapes in folder names"),
        ("hdfs://node:8020/a", "auto", False, "it is on hdfs, and storage_options is not set"),
        ("abfss://c@account.dfs.core.windows.net/a", "auto", False, "it is on abfss, and storage_options is not set"),
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
        ("s3a://bucket/50%25", "task", True, "delta-rs cannot read object stores with % in folder names"),
        ("dbfs:/a", "task", True, "tasks cannot write to dbfs"),
        ("wasbs://c@account/a", "task", True, "tasks cannot write to wasbs"),
        ("", "task", True, "tasks cannot write to a place without a scheme"),
    ],
)
def test_where_tasks_write(monkeypatch, location, merge, has_storage, reason):
    monkeypatch.setattr(tasks, "format_of", lambda *_: formats.DELTA)
    assert why_not_there(location, merge, has_storage=has_storage) == reason
    in_tasks = TaskMerges(merge, storage={} if has_storage else None, locations={"a": location})
    assert in_tasks.may(None, "a") == (reason is None)
    assert in_tasks.refused.get("a") == reason


@pytest.mark.parametrize(
    ("default", "properties", "has"),
    [
        (None, {}, False),
        ("true", {}, True),
        ("TRUE", {"delta.enableChangeDataFeed": "false"}, False),
        (None, {"delta.enableChangeDataFeed": "True"}, True),
    ],
)
def test_which_new_tables_have_a_feed(default, properties, has):
    """Of Delta, by the default of the session or the property of the table."""
    conf = {"spark.databricks.delta.properties.defaults.enableChangeDataFeed": default} if default else {}
    assert has_feed(SimpleNamespace(conf=conf), "/lake/a", properties) == has


def test_the_argument(monkeypatch, caplog):
    caplog.set_level("INFO", "towpath.spark")
    pytest.importorskip("deltalake")
    assert [available(one) for one in ("auto", "spark", "task")] == ["auto", "spark", "task"]
    with pytest.raises(ValueError, match='merge: expected "auto" or "spark" or "task", not \'fast\''):
        available("fast")
    monkeypatch.setattr("towpath.lakehouse.merging.tasks.find_spec", lambda name: None)
    assert available("auto") == "spark"
    assert "towpath[delta]" in caplog.text
    with pytest.raises(ValueError, match=r'merge: "task" needs the package deltalake: pip install "towpath\[delta\]"'):
        available("task")
