"""Reports counted by Spark, compared with json.loads and with local counting."""

import importlib.util
import json
from collections import Counter

import pyarrow as pa
import pytest

import towpath
from canal_messages import MIXED, SCHEMA
from golden_files import lines
from towpath.report import FIELDS
from towpath.report.summary import summarize as summarize_locally
from towpath.spark.event_counts import summarize

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="pages need matplotlib, which is not in this environment"
)


def decoded(spark, values, schema=None):
    frame = spark.createDataFrame([(value,) for value in values], "value binary").repartition(2)
    return towpath.spark.decode(frame, "canal-json", schema, fields=[*FIELDS, "after"])


def rows(table):
    return sorted(table.to_pylist(), key=str)


def test_spark_counts_what_json_counts_and_what_is_counted_locally(spark):
    values = [*lines("cloudcanal/small.jsonl"), b"{"]
    summary = summarize(decoded(spark, values))
    changes = [one for one in map(json.loads, values[:-1]) if one["type"] in ("INSERT", "UPDATE", "DELETE")]
    wanted = Counter()
    for one in changes:
        wanted[f"{one['database']}.{one['table']}", one["type"].lower()] += len(one["data"])
    ours = {(row["table"], row["op"]): row["rows"] for row in summary.counts.to_pylist()}
    assert {key: ours[key] for key in wanted} == wanted
    local = summarize_locally([towpath.Decoder("canal-json", fields=FIELDS).decode(pa.array(values))])
    assert summary.width == local.width
    assert rows(summary.counts) == rows(local.counts)
    assert rows(summary.times) == rows(local.times)
    assert [row["kind"] for row in summary.errors.to_pylist()] == ["syntax"]


@needs_matplotlib
def test_the_page(spark, tmp_path):
    towpath.spark.report(decoded(spark, MIXED, SCHEMA), tmp_path / "report.html", "Orders")
    content = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h1>Orders</h1>\n<p>5 events of 3 tables; 3 with an error.</p>" in content
    assert "after.total: &quot;12,50&quot; is not a decimal(10,2)" in content
    towpath.spark.report(decoded(spark, MIXED).filter("false"), tmp_path / "empty.html")
    assert "There are no events" in (tmp_path / "empty.html").read_text(encoding="utf-8")


@needs_matplotlib
def test_what_cannot_be_reported_is_refused(spark, tmp_path):
    frame = decoded(spark, MIXED)
    with pytest.raises(ValueError, match="no op, error"):
        towpath.spark.report(frame.drop("op", "error"), tmp_path / "report.html")
    stream = spark.readStream.format("rate").load().selectExpr("binary(string(value)) as value")
    with pytest.raises(ValueError, match="foreachBatch"):
        towpath.spark.report(towpath.spark.decode(stream), tmp_path / "report.html")
