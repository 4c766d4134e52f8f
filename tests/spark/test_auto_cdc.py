"""The upsert layout feeds AutoCDC of Spark 4.3.

AutoCDC needs a table format that can merge, which pyspark does not carry. docs/spark/auto-cdc.md says how far it was
tried with one. Here the arguments of the example are held against Spark's own signature, its frame against what Spark
demands of it, and the rule by which AutoCDC picks rows against the rows that MySQL had in the end.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

import towpath
from golden_files import truth

EXAMPLE = Path(__file__).parents[2] / "examples" / "auto_cdc"
VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))

needs_auto_cdc = pytest.mark.skipif(VERSION < (4, 3), reason="create_auto_cdc_flow came with Spark 4.3")


def module(path):
    """A file of the example, which is not in a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Pipelines:
    """What the example registers, in place of a pipeline's graph."""

    def __init__(self):
        self.views, self.tables, self.flows = {}, [], []

    def temporary_view(self, query):
        self.views[query.__name__] = query
        return query

    def create_streaming_table(self, name):
        self.tables.append(name)

    def create_auto_cdc_flow(self, **arguments):
        self.flows.append(arguments)


@pytest.fixture
def example(spark, tmp_path, monkeypatch):
    """The example, run on its own messages with a substitute that only records the calls, and has this session."""
    pipelines = Pipelines()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: spark)
    monkeypatch.setattr(pyspark, "pipelines", pipelines, raising=False)
    monkeypatch.setitem(sys.modules, "pyspark.pipelines", pipelines)
    definitions = tmp_path / "transformations" / "pkmove.py"
    definitions.parent.mkdir()
    definitions.write_text((EXAMPLE / "transformations" / "pkmove.py").read_text())
    module(EXAMPLE / "messages.py").write(tmp_path / "messages")
    module(definitions)
    return pipelines


def changes(spark, pipelines):
    """The rows of the view: a stream, which is written to memory."""
    frame = pipelines.views["pkmove_changes"]()
    assert frame.isStreaming
    query = frame.writeStream.format("memory").queryName("pkmove_changes").trigger(availableNow=True).start()
    query.awaitTermination(600)
    return spark.table("pkmove_changes")


def test_the_frame_is_what_auto_cdc_demands(spark, example):
    view = example.views["pkmove_changes"]()
    assert example.tables == [flow["target"] for flow in example.flows] == ["pkmove", "pkmove_history"]
    for flow in example.flows:
        assert flow["source"] == "pkmove_changes"
        assert set(flow["keys"]) <= set(view.columns)
        assert set(flow["except_column_list"]) < set(view.columns)
        kept = [name for name in view.columns if name not in flow["except_column_list"]]
        assert kept == ["id", "uid", "v"]
        resolved = view.selectExpr(f"{flow['sequence_by']} as sequence", f"{flow['apply_as_deletes']} as deletes")
        sequence, deletes = resolved.schema.fields
        assert sequence.dataType.simpleString() == "struct<major:bigint,minor:bigint,row:bigint>"
        assert all(field.nullable for field in sequence.dataType.fields), "the history of Spark 4.3.0 needs this"
        assert not sequence.nullable, "AutoCDC refuses null sequences"
        assert deletes.dataType.simpleString() == "boolean"


def test_the_last_change_of_each_key_is_the_row_that_mysql_has(spark, example):
    rows = changes(spark, example)
    [flow, _] = example.flows
    latest = rows.groupBy(*flow["keys"]).agg(
        *(_max_by(name, flow["sequence_by"]) for name in ("uid", "v")),
        _max_by(flow["apply_as_deletes"], flow["sequence_by"], "deleted"),
    )
    ours = [{"id": row.id, "uid": row.uid, "v": row.v} for row in latest.filter("not deleted").collect()]
    final = [one["row"] for one in truth("canal-mysql/final_mixed.jsonl.zst") if one["table"] == "pkmove"]
    wanted = [{"id": int(row["id"]), "uid": int(row["uid"]), "v": row["v"]} for row in final]
    assert sorted(ours, key=lambda row: row["id"]) == sorted(wanted, key=lambda row: row["id"])
    moved = [one for one in truth("canal-mysql/truth.jsonl.zst") if one["table"] == "pkmove" and one["op"] == "update"]
    assert rows.filter("_op = 'delete'").count() == len(moved) == 12, "a key that changed is deleted and inserted again"


def _max_by(column, sequence, name=None):
    from pyspark.sql import functions

    return functions.max_by(functions.expr(column), functions.expr(sequence)).alias(name or column)


def test_a_truncate_has_no_key():
    decoder = towpath.Decoder("canal-json", "id int", layout="upsert")
    message = json.dumps(
        {"type": "TRUNCATE", "database": "shop_a", "table": "pkmove", "isDdl": True, "sql": "truncate"}
    )
    [row] = decoder.decode(pa.array([message])).to_pylist()
    assert (row["_op"], row["id"]) == ("truncate", None), "so the example filters it out"


@needs_auto_cdc
def test_the_arguments_are_those_of_spark(example):
    """In another process, as `example` replaces Spark's module."""
    ask = "import inspect, pyspark.pipelines as p; print(*inspect.signature(p.create_auto_cdc_flow).parameters)"
    ran = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    parameters = ran.stdout.split()
    assert "apply_as_truncates" not in parameters, "docs/spark/auto-cdc.md says that there is no such thing"
    for flow in example.flows:
        assert set(flow) <= set(parameters)
        assert set(flow) >= {"target", "source", "keys", "sequence_by"}
