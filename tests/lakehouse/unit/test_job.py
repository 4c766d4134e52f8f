"""The file of a job: its schema has the arguments of `replicate`, and a mistake is one line with its cure."""

import inspect
import json
import os
import random
import re
import socket
import threading
import time
import urllib.request
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

import towpath
from towpath.cli import main
from towpath.job import exporter as exporter_module
from towpath.job.exporter import Exporter
from towpath.job.file import read_job
from towpath.job.run import _check_submitted, _kept_errors
from towpath.job.schema import job_schema
from towpath.lakehouse.seen.status import TableStatus
from towpath.printable import printable

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
    assert job.metrics == ("127.0.0.1", 0)
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
    "- a": "line 1, column 1: expected a mapping such as target",
    "a: [": "invalid YAML: line 1, column 5: unclosed quote or bracket",
    "a:\n\tb: c": "line 2, column 1: a tab; indent with spaces",
    'a: "\\d"': "line 1, column 4: a backslash in double quotes; use single quotes",
    "a: b\n---\na: c": "expected one document",
    "a: \0": "control characters",
    "a: @b": "line 1, column 4: quote a string that",
    "a: !b c": "line 1, column 4: unsupported anchor, alias or tag",
    "a: &b c\nd: *b": "line 1, column 4: unsupported anchor, alias or tag",
    "[" * 9999: "nested too deeply",
    "a: " + "{a: " * 3000 + "}" * 3000: "nested too deeply",
    SMALL + "target: x": "target: line 6, column 1: duplicate key, first in line 4",
    SMALL + "options: {a: {b: 1, b: 2}}": "options.a.b: line 6, column 21: duplicate key, first in line 6",
    SMALL + "[a]: b": ": line 6, column 1: expected a string as key",
    SMALL + "5: y": ": line 6, column 1: unknown key; towpath replicate --schema prints the keys",
    SMALL + "query_name: ${A-b}": "query_name: line 6, column 13: expected ${NAME} or ${NAME:-default}; write $${",
    SMALL + "\n".join(f"q{number}: x" for number in range(99)): "; and 79 more problems",
    SMALL + "query_name: ": "query_name: line 6, column 12: expected a string",
    SMALL + "dead_leters: x": "dead_leters: line 6, column 1: unknown key; did you mean dead_letters?",
    SMALL + "Status: x": "Status: line 6, column 1: unknown key; did you mean status?",
    SMALL + "columns: {a.b: {exlude: [c]}}": "columns.a.b.exlude: line 6, column 17: unknown key; did you mean ex",
    SMALL + "trigger: {processingtime: 1 second}": "did you mean processingTime?",
    SMALL + "trigger: availableNow": "trigger: line 6, column 10: expected a mapping (processingTime, availableNow)",
    SMALL + "keys: [id]": "keys: line 6, column 7: expected a mapping",
    SMALL + "keys: {t: id}": "keys.t: line 6, column 11: expected a list",
    SMALL + "parallelism: 0": "parallelism: line 6, column 14: expected an integer of at least 1",
    SMALL + "merge: tasks": "merge: line 6, column 8: expected auto, spark or task",
    SMALL
    + "trigger: {processingTime: 1 second, availableNow: true}": "trigger: line 6, column 10: expected exactly one key",
    SMALL + "trigger: {availableNow: false}": "trigger.availableNow: line 6, column 25: expected true",
    SMALL + "metrics: {}": "metrics: missing: port",
    SMALL + "metrics: {port: 09464}": "metrics.port: line 6, column 17: expected an integer from 0 to 65535",
    SMALL + "optimize_every: 0": "optimize_every: line 6, column 17: expected an integer of at least 1 or null",
    SMALL + "history: x": "history: line 6, column 10: expected true or false or a list",
    SMALL + "metrics: {port: x}": "metrics.port: line 6, column 17: expected an integer from 0 to 65535",
    SMALL + "snapshots: {shop.a: {}}": "snapshots: missing: tables",
    SMALL + "snapshots: {tables: {}}": "snapshots.tables: line 6, column 21: expected at least one key",
    SMALL + "snapshots: {tables: {a.b: x}}": "snapshots.tables.a.b: line 6, column 27: expected a mapping or null",
    SMALL + "snapshots: {tabels: {a.b: }, tables: {a.b: }}": "did you mean tables?",
    SMALL + "options: {keys: {}}": "options: keys: keys of the job",
    SMALL + 'dialect: "${NO_SUCH_VARIABLE}"': "the environment variable NO_SUCH_VARIABLE is not set",
    SMALL + "spark: {master: yarn}": "spark.master: line 6, column 9: expected a Spark setting such as spark.master",
    SMALL.replace("maxOffsetsPerTrigger", "startingOffset"): "did you mean startingOffsets?",
    SMALL.replace("kafka.boot", "boot"): "did you mean kafka.bootstrap.servers?",
    "source: {format: file, options: {}}\ntarget: x": "source.format: line 1, column 18: expected kafka or towpath",
}


@pytest.mark.parametrize(("text", "said"), MISTAKES.items(), ids=range(len(MISTAKES)))
def test_mistakes(tmp_path, capsys, text, said):
    text = text or "{}"
    with pytest.raises(ValueError, match=re.escape(said)):
        read(tmp_path, text)
    assert main(["replicate", str(tmp_path / "job.yml"), "--check"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "Traceback" not in error


MARK = "hunter2MARK"
SHAPES = [MARK, [MARK], {"x": MARK}, {"x": {"x": [MARK]}}, [[MARK]], None]
SYNTAX = [
    "@{}",
    "%{}",
    "*{}",
    "&{}",
    "!{}",
    "`{}",
    '"{}',
    "'{}",
    "[{}",
    "{{{}: ",
    "a: b: {}",
    '"{}\\d"',
    "${{{}",
    "${{A?{}}}",
    "- {}: [",
]


def places(schema, path=()):
    """Each place of a schema."""
    yield path
    inner = {**schema.get("properties", {})}
    if isinstance(schema.get("additionalProperties"), dict):
        inner["spark.x" if path == ("spark",) else "a.b"] = schema["additionalProperties"]
    for name, one in inner.items():
        yield from places(one, (*path, name))
    if "items" in schema:
        yield from places(schema["items"], (*path, 0))
    for one in schema.get("anyOf", ()):
        yield from list(places(one, path))[1:]


def document(path, value):
    """A job that is right but for the value in a place."""
    job = {"source": {"options": {}}, "target": "/l/{table}", "checkpoint": "/c"}
    needed = {"snapshots": {"tables": {"c.d": None}}, "metrics": {"port": 0}}
    inner = {**job, **{name: one for name, one in needed.items() if name == path[0]}}
    for name in reversed(path[1:]):
        value = [value] if name == 0 else {name: value}
    [name] = path[:1]
    both = isinstance(value, dict) and len(path) > 1 and isinstance(inner.get(name), dict)
    return {**inner, name: {**inner[name], **value} if both else value}


def refused(tmp_path, capsys, text):
    """What is said of a file that is refused; None of another one."""
    with suppress(ValueError):
        return read(tmp_path, text) and None
    assert main(["replicate", str(tmp_path / "job.yml"), "--check"]) == 2
    said = "".join(capsys.readouterr())
    assert MARK not in said
    return said


def test_no_error_has_a_value(tmp_path, capsys):
    """What is refused is what jsonschema refuses, and none of it is shown."""
    schema, count = job_schema(), 0
    validator = jsonschema.Draft202012Validator(schema)
    for number, path in enumerate(filter(None, places(schema))):
        for value in SHAPES:
            job = document(path, value)
            said = refused(tmp_path, capsys, json.dumps(job))
            assert (said is None) == validator.is_valid(job), (path, value, said)
            count += said is not None
            assert said is None or ".".join(map(str, path)) in said, (path, value, said)
        for form in SYNTAX[number % 4 :: 4]:
            marked = json.dumps(document(path, "PLACE")).replace('"PLACE"', form.format(MARK))
            refused(tmp_path, capsys, marked)
    assert count > 100


def test_a_login_is_refused_before_kafka_shows_a_part_of_it(tmp_path, capsys):
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    right = [f'{module} required username="u" password="a {MARK};";', f" {module} required\n  a=b\n c='d' ;\n"]
    wrong = [f"{module} required password=abc {MARK};", f'{module} required password="{MARK}"', f"{MARK} required", ""]
    for text in (*right, *wrong):
        job = document(("source", "options"), {"kafka.sasl.jaas.config": text})
        said = refused(tmp_path, capsys, json.dumps(job))
        assert ("expected CLASS required" in said) if text in wrong else said is None


def test_a_setting_is_the_text_of_the_file(tmp_path):
    chance = random.Random(8)
    fixed = ["0123", "12:30:45", "1_000", "1e3", "0x1f", "yes", "True", "2024-01-01", ".inf", "1.50", "a b", "=", "<<"]
    made = ["".join(chance.choices("0123456789_:.+eExo-", k=chance.randint(0, 9))) for _ in range(300)]
    texts = [*fixed, *(f"{chance.randint(0, 9)}{one}{chance.randint(0, 9)}" for one in made)]
    lines = "".join(f"\n    k{number}: {text}" for number, text in enumerate(texts))
    job = read(
        tmp_path,
        f"source:\n  options:{lines}\ntarget: 0123\ncheckpoint: 1_0\nspark: {{spark.5: y}}",
    )
    assert list(job.source_options.values()) == texts
    assert (job.replicate["target"], job.replicate["checkpoint"], job.spark) == ("0123", "1_0", {"spark.5": "y"})


def test_an_argument_of_the_decoder_is_a_number_only_as_json_writes_it(tmp_path):
    values = {"1000": 1000, "-1": -1, "2.5": 2.5, "true": True, "TRUE": True, "null": None}
    texts = ["0123", "1_000", "1.50", "1e3", "yes", "no", "12:30", "2024-01-01", "'1'", '"true"']
    written = {f"a{number}": text for number, text in enumerate([*values, *texts])}
    options = ", ".join(f"{name}: {text}" for name, text in written.items())
    found = read(tmp_path, f"{SMALL}options: {{{options}}}").replicate
    assert [found[name] for name in written] == [*values.values(), *(text.strip("\"'") for text in texts)]


def test_environment_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("SET", "a:b # c")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("PORT", "9464")
    monkeypatch.delenv("UNSET", raising=False)
    texts = {"${SET}": "a:b # c", "<${UNSET:-x}${EMPTY:-y}${EMPTY}${SET:-z}>": "<xya:b # c>", "$${SET}": "${SET}"}
    texts |= {"${UNSET:-}": "", "$SET $$": "$SET $$", "$${spark:a}": "${spark:a}"}
    options = ", ".join(f"a{number}: {json.dumps(text)}" for number, text in enumerate(texts))
    job = read(tmp_path, f"{SMALL.replace('{kafka', f'{{{options}, kafka')}metrics: {{port: '${{PORT}}'}}")
    assert [job.source_options[f"a{number}"] for number in range(len(texts))] == list(texts.values())
    assert job.metrics is not None
    assert job.metrics[1] == 9464


def test_passwords_are_hidden_in_texts_of_others(tmp_path):
    """Each is somewhere in a job, and in the text of another library."""
    secrets = ["s3a%2Fkey", "s3a/key", "j dbc", "in@url", "pa/th", "log in;", "json1", "tok3n", "st0rage", "deep7"]
    job = document(("source", "options"), {"kafka.sasl.jaas.config": 'a.B required username="u" password="log in;";'})
    job |= {
        "target": "s3a://AK:pa/th@bucket/{table}",
        "spark": {"spark.hadoop.fs.s3a.secret.key": "s3a%2Fkey", "spark.hadoop.fs.azure.account.key.x": "deep7"},
        "storage_options": {"aws_secret_access_key": "st0rage", "azure_storage_sas_token": "tok3n", "timeout": "30s"},
        "options": {"schema_registry": '{"url": "http://h", "basic.auth.user.info": "u:json1"}'},
        "snapshots": {"options": {"url": "jdbc:x://u:in@url@h/?a=b;password=j dbc;c=d"}, "tables": {"a.b": None}},
    }
    job["snapshots"]["options"]["password"] = "j dbc"
    read(tmp_path, json.dumps(job))
    text = 'h 30s AK: unknown word password=else&a=b Token="x y" ' + " ".join(secrets)
    said = read_job(tmp_path / "job.yml").hidden(text)
    assert not [one for one in (*secrets, "else", "x y") if one in said], said
    assert said.startswith("h 30s AK: unknown")
    assert "&a=b" in said


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_run_prints_no_password(tmp_path, capsys, monkeypatch, form):
    def run(job, say, *, once):
        reason = f'cannot connect: {MARK}, password="x y" token=ab\\"c'
        say(f"shop.a: {reason}", {"reason": reason, "after": [1]})
        raise RuntimeError(f"no {MARK}")

    monkeypatch.setattr("towpath.job.run.run", run)
    job = document(("source", "options"), {"kafka.ssl.key.password": MARK})
    (tmp_path / "job.yml").write_text(json.dumps(job))
    assert main(["replicate", str(tmp_path / "job.yml"), *form]) == 2
    said, error = capsys.readouterr()
    assert error == "towpath: RuntimeError: no ***\n"
    assert not re.search(f"{MARK}|x y|ab", said)
    assert not form or json.loads(said).keys() == {"reason", "after"}


ROOT = Path(__file__).parents[3]


def test_the_documents_have_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA", "broker:9092")
    pages = "".join((ROOT / name).read_text() for name in ("README.md", "docs/lakehouse/job.md"))
    printed = re.findall(r"```yaml\n(.*?)```", pages, re.DOTALL)
    assert len(printed) == 2
    for text in (*printed, (ROOT / "examples" / "job.yml").read_text()):
        assert read(tmp_path, text).source_options["subscribe"] == "binlog"


def test_the_document_names_each_metric():
    pytest.importorskip("prometheus_client")
    exporter = Exporter("127.0.0.1", 0)
    exporter.count_tables([TableStatus("shop", "a", "x")])
    served = re.findall(r"^# TYPE (\S+) (?:counter|gauge)$", scraped(exporter), re.MULTILINE)
    names = re.findall(r"`(towpath_\w+)`", (ROOT / "docs" / "lakehouse" / "job.md").read_text())
    assert {name for name in served if not name.endswith("_created")} == set(names)


def scraped(exporter):
    with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=60) as answer:
        return answer.read().decode()


def test_many_connections_do_not_end_a_job():
    """Half-open requests take few threads and descriptors, and a scrape is answered nevertheless."""
    pytest.importorskip("prometheus_client")
    exporter = Exporter("127.0.0.1", 0)
    before, folder = threading.active_count(), Path("/proc/self/fd")
    kept = []
    for number in range(200):
        kept.append(socket.create_connection(("127.0.0.1", exporter.port), 60))
        kept[-1].sendall(b"GET /metrics HTTP/1.1\r\nX: y\r\n" if number % 2 else b"")
    assert "towpath_batches_total 0.0" in scraped(exporter)
    deadline = time.monotonic() + 60
    while threading.active_count() > before + 16 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before + 16
    assert not folder.exists() or len(list(folder.iterdir())) < 200 + 150
    kept[0].settimeout(60)
    assert kept[0].recv(1) == b""  # the oldest was ended
    with pytest.raises(ValueError, match=rf"metrics: cannot listen on 127\.0\.0\.1:{exporter.port}: Address already"):
        Exporter("127.0.0.1", exporter.port)
    with pytest.raises(ValueError, match=r"metrics: cannot listen on 192\.0\.2\.1:1: "):
        Exporter("192.0.2.1", 1)
    for one in kept:
        one.close()


def test_a_client_that_says_nothing_is_left(monkeypatch):
    monkeypatch.setattr(exporter_module._Handler, "timeout", 0.05)
    exporter = Exporter("127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", exporter.port), 60) as one:
        assert one.recv(1) == b""


def test_names_of_tables_in_metrics(capfd):
    """The parser of Prometheus' client reads what hostile names make, and no other samples."""
    parser = pytest.importorskip("prometheus_client.parser")
    exporter, chance = Exporter("127.0.0.1", 0), random.Random(9)
    signs = [*map(chr, range(33)), *'"\\{}=,#', "\x7f", "\x85", "\u2028", "\u202e", "\ud800", "\U000e0041", "a", "中"]
    names = ["".join(chance.choices(signs, k=6)) for _ in range(100)] + ['x"} 9\ntowpath_fake 1', "a\0b"]
    exporter.count_tables([TableStatus(name, name, "x", applied=1) for name in names])
    text = scraped(exporter)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    families = {one.name: one for one in parser.text_string_to_metric_families(text)}
    assert all(name.startswith("towpath_") and name != "towpath_fake" for name in families)
    rows = [one for one in families["towpath_rows"].samples if one.name == "towpath_rows_total"]
    assert [(one.labels["database"], one.labels["table"], one.value) for one in rows] == [
        (printable(name), printable(name), 1) for name in names
    ]
    assert capfd.readouterr().err == ""


def test_what_java_prints_is_kept_unless_it_does_not_start(capfd):
    with _kept_errors():
        os.write(2, b"WARN quiet")
    with suppress(RuntimeError), _kept_errors():
        os.write(2, b"no Java")
        raise RuntimeError
    os.write(2, b"; later")
    assert capfd.readouterr().err == "no Java; later"


@pytest.mark.parametrize("is_given", [False, True])
def test_jars_come_too_late_unless_spark_submit_was_given_them(tmp_path, monkeypatch, is_given):
    pyspark = pytest.importorskip("pyspark")
    job = read(tmp_path, SMALL + "spark: {spark.jars.packages: 'io.delta:delta:4'}")
    _check_submitted(job)  # starts Java itself
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(pyspark.SparkContext, "_ensure_initialized", lambda: None)
    monkeypatch.setattr(pyspark, "SparkConf", lambda: SimpleNamespace(contains=lambda name: is_given))
    late = r"spark\.jars\.packages has no effect, the JVM already runs; use spark-submit --packages io\.delta:delta:4"
    with nullcontext() if is_given else pytest.raises(ValueError, match=late):
        _check_submitted(job)


def test_the_command_prints_the_schema(capsys):
    assert main(["replicate", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == job_schema()
    assert main(["replicate"]) == 2


def test_without_the_packages(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(ImportError, match=r"towpath\[job\]"):
        read(tmp_path, SMALL)
