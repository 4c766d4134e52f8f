"""Which targets tasks merge with delta-rs, and why Spark merges the others."""

import pytest

from towpath.lakehouse.merging.tasks import Facts, available, why_not_there, why_spark

ENCODED = "delta-rs does not read HDFS with blanks or other encoded characters in the name of a folder"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, None),
        ({"is_delta": False}, "it is an Iceberg table"),
        ({"rows": 10_000_000}, "the batch has too many of its changes"),
        ({"size": 1 << 40}, "the batch has too many of its changes"),
        ({"keeps_history": True}, "it has a history"),
        ({"soft_deletes": True}, "deleted rows stay"),
        ({"masks": True}, "columns are masked"),
    ],
)
def test_why_spark(facts, reason):
    assert why_spark(Facts(**{"is_delta": True, "rows": 1, "size": 1, **facts})) == reason


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
