"""The file of a job: its schema has the arguments of `replicate`, and a mistake is one line with its cure."""

import inspect
import json
import re
import urllib.request
from pathlib import Path

import jsonschema
import pytest

import towpath
from towpath.cli import main
from towpath.lakehouse.job.exporter import Exporter
from towpath.lakehouse.job.file import read_job
from towpath.lakehouse.job.schema import job_schema
from towpath.lakehouse.status import TableStatus

SMALL = """
source:
  options: {kafka.bootstrap.servers: "localhost:9092", subscribe: cdc, maxOffsetsPerTrigger: 100, includeHeaders: true}
target: /lake/{database}/{table}
checkpoint: /lake/checkpoint
"""


def read(tmp_path, text):
    file = tmp_path / "job.yml"
    file.write_text(text)
    return read_job(file)


def test_the_schema_has_the_arguments_of_replicate():
    parameters = inspect.signature(towpath.spark.replicate).parameters
    of_python = {"messages", "metrics", "report"}
    assert job_schema()["properties"].keys() == (parameters.keys() - of_python) | {"source", "spark", "metrics"}
    for name, rules in job_schema()["properties"].items():
        if "default" in rules and name in parameters:
            assert parameters[name].default == rules["default"], name
        assert rules["description"]
    jsonschema.Draft202012Validator.check_schema(job_schema())


VALUES = {
    "status": ("/lake/status", ""),
    "keys": ({"shop.orders": ["id"]}, {"shop.orders": "id"}),
    "schemas": ({"shop.orders": "id bigint"}, {"shop.orders": 1}),
    "table_options": ({"shop.orders": {"zero_date": "error"}}, {"shop.orders": "zero_date"}),
    "history": (["shop.orders"], "shop.orders"),
    "evolve": (False, "no"),
    "parallelism": (8, True),
    "merge": ("task", "tasks"),
    "optimize_every": (None, 0),
    "soft_deletes": ("deleted_at", None),
    "storage_options": ({"timeout": 5}, {"timeout": []}),
    "columns": ({"shop.orders": {"mask": {"name": "sha2(value, 256)"}}}, {"shop.orders": {"mask": {"name": 1}}}),
}


@pytest.mark.parametrize("name", VALUES)
def test_an_argument_has_the_type_that_replicate_has(name):
    right, wrong = VALUES[name]
    schema = job_schema()["properties"][name]
    jsonschema.validate(right, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_a_file_becomes_arguments(tmp_path, monkeypatch):
    monkeypatch.setenv("PASSWORD", "a'b\n: {")
    text = f"""{SMALL}
dialect: debezium-json
options: {{zero_date: error, labels: {{kind: [a, b]}}}}
keys: {{shop.orders: [id, "2"]}}
spark: {{spark.sql.shuffle.partitions: 2, spark.x: "${{PASSWORD}}"}}
metrics: {{port: 0}}
optimize_every: null
table_properties: {{delta.enableChangeDataFeed: true}}
"""
    job = read(tmp_path, text)
    assert job.source == "kafka"
    assert job.source_options["maxOffsetsPerTrigger"] == "100"
    assert job.source_options["includeHeaders"] == "true"
    assert job.spark == {"spark.sql.shuffle.partitions": "2", "spark.x": "a'b\n: {"}
    assert job.metrics == ("0.0.0.0", 0)
    assert job.replicate == {
        "target": "/lake/{database}/{table}",
        "checkpoint": "/lake/checkpoint",
        "dialect": "debezium-json",
        "zero_date": "error",
        "labels": {"kind": ["a", "b"]},
        "keys": {"shop.orders": ["id", "2"]},
        "optimize_every": None,
        "table_properties": {"delta.enableChangeDataFeed": "true"},
    }


def test_snapshots(tmp_path, monkeypatch):
    monkeypatch.setenv("PASSWORD", "p")
    text = f"""{SMALL}
snapshots:
  options: {{url: "jdbc:mysql://db", password: "${{PASSWORD}}", preferTimestampNTZ: true}}
  tables:
    shop.orders:
    shop.items: {{dbtable: "(SELECT 1) t", fetchsize: 1000}}
"""
    found = read(tmp_path, text).snapshots
    shared = {"url": "jdbc:mysql://db", "password": "p", "preferTimestampNTZ": "true"}
    assert {name: (one.format, one.options) for name, one in found.items()} == {
        "shop.orders": ("jdbc", {**shared, "dbtable": "shop.orders"}),
        "shop.items": ("jdbc", {**shared, "dbtable": "(SELECT 1) t", "fetchsize": "1000"}),
    }
    text = f"{SMALL}\nsnapshots: {{format: parquet, tables: {{shop.a: {{path: /dump/a}}}}}}"
    [one] = read(tmp_path, text).snapshots.values()
    assert (one.format, one.options) == ("parquet", {"path": "/dump/a"})


MISTAKES = {
    "": "missing: source, target, checkpoint",
    "- a": "expected keys and values",
    "a: [": "no YAML",
    SMALL + "dead_leters: x": "dead_leters is not a key of a job; did you mean dead_letters?",
    SMALL + "Status: x": "Status is not a key of a job; did you mean status?",
    SMALL + "columns: {a.b: {exlude: [c]}}": "columns.a.b: exlude is not a key of a job; did you mean exclude?",
    SMALL + "trigger: {processingtime: 1 second}": "did you mean processingTime?",
    SMALL + "trigger: availableNow": "trigger: 'availableNow' is not of type 'object'",
    SMALL + "keys: [id]": "keys: ['id'] is not of type 'object'",
    SMALL + "keys: {t: id}": "keys.t: 'id' is not of type 'array'",
    SMALL + "parallelism: 0": "parallelism: 0 is less than the minimum of 1",
    SMALL + "merge: tasks": "merge: 'tasks' is not one of ['auto', 'spark', 'task']",
    SMALL + "metrics: {port: x}": "metrics.port: 'x' is not of type 'integer'",
    SMALL + "snapshots: {shop.a: {}}": "snapshots: missing: tables",
    SMALL + "snapshots: {tables: {}}": "snapshots.tables: {} should be non-empty",
    SMALL + "snapshots: {tables: {a.b: x}}": "snapshots.tables.a.b: 'x' is not of type 'object', 'null'",
    SMALL + "snapshots: {tabels: {a.b: }, tables: {a.b: }}": "did you mean tables?",
    SMALL + "options: {keys: {}}": "options: keys: these are keys of the job",
    SMALL + 'dialect: "${NO_SUCH_VARIABLE}"': "the environment variable NO_SUCH_VARIABLE is not set",
    SMALL + "spark: {master: yarn}": "spark: master: expected a setting of Spark, such as spark.master",
    SMALL.replace("maxOffsetsPerTrigger", "startingOffset"): "did you mean startingOffsets?",
    SMALL.replace("kafka.boot", "boot"): "did you mean kafka.bootstrap.servers?",
    "source: {format: file, options: {}}\ntarget: x\ncheckpoint: x": "source.format: 'file' is not one of",
}


@pytest.mark.parametrize(("text", "said"), MISTAKES.items())
def test_mistakes(tmp_path, capsys, text, said):
    text = text or "{}"
    with pytest.raises(ValueError, match=re.escape(said)):
        read(tmp_path, text)
    assert main(["replicate", str(tmp_path / "job.yml"), "--check"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "Traceback" not in error


ROOT = Path(__file__).parents[2]


def test_the_documents_have_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA", "broker:9092")
    pages = "".join((ROOT / name).read_text() for name in ("README.md", "docs/job.md"))
    printed = re.findall(r"```yaml\n(.*?)```", pages, re.DOTALL)
    assert len(printed) == 2
    for text in (*printed, (ROOT / "examples" / "job.yml").read_text()):
        assert read(tmp_path, text).source_options["subscribe"] == "binlog"


def test_the_document_names_each_metric():
    pytest.importorskip("prometheus_client")
    exporter = Exporter("127.0.0.1", 0)
    exporter.count_tables([TableStatus("shop", "a", "x")])
    with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics") as answer:
        served = re.findall(r"^# TYPE (\S+) (?:counter|gauge)$", answer.read().decode(), re.MULTILINE)
    names = re.findall(r"`(towpath_\w+)`", (ROOT / "docs" / "job.md").read_text())
    assert {name for name in served if not name.endswith("_created")} == set(names)


def test_the_command_prints_the_schema(capsys):
    assert main(["replicate", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == job_schema()
    assert main(["replicate"]) == 2


def test_without_the_packages(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(ImportError, match=r"towpath\[job\]"):
        read(tmp_path, SMALL)
