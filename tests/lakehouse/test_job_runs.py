"""`towpath replicate job.yml` with a real broker: checked, killed, started again, ended by SIGTERM."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import towpath.cli
import towpath.replicate
from documents import ROOT
from exactly_once import Lake, compare, fill
from lake_session import QUICK, lake_settings
from lake_topic import Topic, canal, of_delta, row
from server_process import ServerProcess
from simulated_source import moved_keys
from towpath.job.exporter import Exporter
from towpath.job.file import read_job
from towpath.job.validation import check

COMMAND = [sys.executable, "-m", "towpath.replicate"]


def job(tmp_path, kafka, topics, **more):
    """Write the file of a job, in JSON, which is YAML too."""
    lake = tmp_path / "lake"
    wanted = {
        "source": {
            "options": {
                "kafka.bootstrap.servers": "${TEST_BROKER}",
                "subscribe": ",".join(topics),
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": 90,
            }
        },
        "target": f"{lake}/{{database}}/{{table}}",
        "dialect": "canal-json",
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": {"processingTime": "0 seconds"},
        **{name: f"{lake}/own/{name}" for name in ("dead_letters", "ddl", "status")},
        "spark": {
            **lake_settings(tmp_path / "warehouse"),
            **QUICK,
            "spark.master": "local[2]",
            "spark.ui.enabled": False,
        },
        **more,
    }
    file = tmp_path / "job.yml"
    file.write_text(json.dumps({name: one for name, one in wanted.items() if one is not None}))
    return file


def environment(kafka):
    return {**os.environ, "TEST_BROKER": kafka.bootstrap, "SPARK_LOCAL_IP": "127.0.0.1"}


def ran(kafka, *arguments):
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, env=environment(kafka), capture_output=True, text=True, timeout=900, check=False)


@pytest.fixture
def ran_here(spark, kafka, monkeypatch, capfd):
    """The same in the session of these tests, which is warm. A job's settings end with the test."""
    before = dict(spark.conf.getAll)
    monkeypatch.setenv("TEST_BROKER", kafka.bootstrap)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)

    def run(*arguments):
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        capfd.readouterr()
        try:
            status = towpath.cli.main(["replicate", *map(str, arguments)])
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return status, capfd.readouterr().out

    yield run
    for name, value in dict(spark.conf.getAll).items():
        if name.startswith("spark.sql.") and value != before.get(name):
            spark.conf.set(name, before[name]) if name in before else spark.conf.unset(name)


def batches(process):
    return process.log().count("\nbatch ")


def metrics(process):
    """The metrics as Prometheus reads them, by name and labels."""
    [port] = re.findall(r"^metrics: port (\d+)$", process.log(), re.MULTILINE)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


@pytest.mark.soak
def test_a_job_that_is_killed_and_ended(spark, kafka, tmp_path, ran_here):
    case = moved_keys(240, tables=2, limit=90, seed=9)
    topics = fill(kafka, case, tmp_path.name, random.Random(9))
    file = job(tmp_path, kafka, topics, metrics={"port": 0, "address": "127.0.0.1"})

    with ServerProcess([*COMMAND, file], tmp_path / "first.log", environment(kafka)) as first:
        first.wait_until(lambda: batches(first) >= 2)
        found = metrics(first)
        assert found["towpath_batches_total"] >= 2
        assert found["towpath_records_total"] >= 90
        tables = {name.partition(".")[2] for name in case.tables}
        for table in tables:
            labels = f'database="shop",table="{table}"'
            assert found[f"towpath_rows_total{{{labels}}}"] > 0
            assert found[f'towpath_table_state{{database="shop",state="ok",table="{table}"}}'] == 1
        assert sum(count for name, count in found.items() if name.startswith("towpath_lag_records{")) > 0
        os.killpg(first.pid, signal.SIGKILL)

    with ServerProcess([*COMMAND, file], tmp_path / "second.log", environment(kafka)) as second:
        second.wait_until(lambda: batches(second) >= 1)
        os.kill(second.pid, signal.SIGTERM)
        with pytest.raises(RuntimeError, match="ended with 0"):
            second.wait_until(lambda: False, 300)
        said = second.log()
        assert said.rstrip().endswith("ended")
        assert re.search(r"^shop\.moved_\d: ok: \d+ applied", said, re.MULTILINE)

    assert ran_here(file, "--once")[0] == 0
    assert compare(spark, Lake(tmp_path), case) > 0
    states = of_delta(str(tmp_path / "lake" / "own" / "status"))
    assert {row["table"]: row["state"] for row in states} == dict.fromkeys(tables, "ok")


def some_messages(chance, first):
    """Right and bad messages, with and without the name of a table."""
    bad = [b"garbage", b"\xff\xfe", b"{", b"[]", b"7", b'{"database": "shop", "type": "INSERT", "data": [{"id": "1"}]}']
    bad += [b'{"database": "shop", "table": "a", "type": "NOSUCH", "data": [{"id": "1"}]}']
    for at in range(first, first + 12):
        if chance.random() < 0.4:
            yield {"partition": 0, "offset": at, "value": chance.choice(bad)}
            continue
        table, key = chance.choice(["a", "keyless"]), chance.choice(["x", "", 1, 2, 3])
        more = {"pkNames": None} if table == "keyless" else {}
        yield canal(at, chance.choice(["INSERT", "DELETE"]), table, row(key, f"n{at}"), **more)


def test_the_metric_counts_the_rows_of_dead_letters(spark, tmp_path):
    topic, exporter, chance = Topic(spark, tmp_path), Exporter("127.0.0.1", 0), random.Random(5)
    batches = [list(some_messages(chance, 100 * number)) for number in range(2)]
    topic.replicate_in_turn(batches, report=exporter.count_tables, keyless="append", history=["shop.a"])
    with urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    counted = re.findall(r'^towpath_dead_letters_total\{database="(.*)",table="(.*)"\} (\d+)\.0$', text, re.MULTILINE)
    rows = topic.load("dead").groupBy("database", "table").count().collect()
    assert {(*name,): int(count) for *name, count in counted if int(count)} == {
        (one["database"] or "", one["table"] or ""): one["count"] for one in rows
    }
    assert len(rows) > 2
    assert 'towpath_table_state{database=""' not in text
    assert all(name for name in topic.states())


def submitted(kafka, tmp_path, *jars):
    """Run the example with `spark-submit`, on a topic with a row and a message that cannot be read."""
    topic = kafka.create_topic(f"{tmp_path.name}-submitted", 1)
    kafka.produce(topic, [(None, canal(0, "INSERT", "a", row(1, "x"))["value"], 0), (None, b"none", 0)])
    text = (ROOT / "examples" / "job.yml").read_text().replace("subscribe: binlog", f"subscribe: {topic}")
    (tmp_path / "job.yml").write_text(text.replace("port: 9464", "port: 0"))
    given = [word for name, one in QUICK.items() for word in ("--conf", f"{name}={one}")]
    submit = [Path(sys.executable).with_name("spark-submit"), *given]
    arguments = [towpath.replicate.__file__, "job.yml", "--once"]
    variables = {**os.environ, "KAFKA": kafka.bootstrap, "SPARK_LOCAL_IP": "127.0.0.1"}
    end = {"env": variables, "cwd": tmp_path, "capture_output": True, "text": True, "timeout": 300, "check": False}
    return subprocess.run([*submit, *jars, *arguments], **end)


@pytest.mark.soak  # a unit test has the message
def test_jars_of_a_job_come_too_late_for_spark_submit(kafka, tmp_path):
    late = submitted(kafka, tmp_path)
    assert late.returncode == 2
    assert "spark.jars.packages has no effect, the JVM already runs; use spark-submit --packages org" in late.stdout
    assert not (tmp_path / "lake").exists()


@pytest.mark.soak
def test_spark_submit_runs_the_example(spark, kafka, tmp_path):
    """Relative paths are in the working directory."""
    ran = submitted(kafka, tmp_path, "--jars", lake_settings(tmp_path)["spark.jars"])
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"^shop\.a: ok: 1 applied", ran.stdout, re.MULTILINE), ran.stdout
    assert ran.stdout.endswith("ended\n")
    found = of_delta(f"{tmp_path}/lake/shop/a")
    assert {one["id"]: one["name"] for one in found} == {1: "x"}
    assert spark.read.format("delta").load(f"{tmp_path}/lake/own/dead_letters").count() == 1
    assert spark.read.format("delta").load(f"{tmp_path}/lake/own/status").count() == 1


def database(spark, folder, **tables):
    """A database in a folder, that the JVM of another process can open, with tables of ids and names."""
    manager = spark._jvm.java.sql.DriverManager
    connection = manager.getConnection(f"jdbc:derby:{folder};create=true")
    statement = connection.createStatement()
    statement.execute("CREATE SCHEMA shop")
    for table, rows in tables.items():
        statement.execute(f'CREATE TABLE shop.{table} ("id" int, "name" varchar(20))')
        for key, name in rows.items():
            statement.execute(f"INSERT INTO shop.{table} VALUES ({key}, '{name}')")
    connection.close()
    with pytest.raises(Exception, match="08006"):  # how Derby says that it has shut down
        manager.getConnection(f"jdbc:derby:{folder};shutdown=true")
    return f"jdbc:derby:{folder}"


def test_the_first_snapshot_of_a_database(spark, kafka, tmp_path, ran_here):
    url = database(spark, tmp_path / "db", a={1: "x", 2: "y"}, quiet={7: "z"})
    topic = kafka.create_topic(f"{tmp_path.name}-snapshot", 1)
    kafka.produce(topic, [(None, canal(0, "DELETE", "a", row(2, "y"))["value"], 0)])
    tables = {"shop.a": None, "shop.quiet": {"fetchsize": 10}}
    file = job(tmp_path, kafka, [topic], snapshots={"options": {"url": url}, "tables": tables})
    status, checked = ran_here(file, "--check", "--json")
    assert status == 0, checked
    found = {one["name"]: one["found"] for one in json.loads(checked) if one["is_ok"]}
    assert found["snapshot of shop.a"] == "jdbc: struct<id:int,name:string>"
    assert found["source"] == f"kafka: {topic}: 1 partitions"
    looked_at = {"arguments", "source", "target", "dead_letters", "ddl", "status", "checkpoint"}
    assert set(found) == {*looked_at, "snapshot of shop.a", "snapshot of shop.quiet"}
    assert not (tmp_path / "lake").exists()
    for _ in range(2):  # the second start does not need the database
        assert ran_here(file, "--once")[0] == 0
        (tmp_path / "db").rename(tmp_path / "gone") if (tmp_path / "db").exists() else None
    found = {
        name: {one["id"]: one["name"] for one in of_delta(f"{tmp_path}/lake/shop/{name}")} for name in ("a", "quiet")
    }
    assert found == {"a": {1: "x"}, "quiet": {7: "z"}}


def test_what_a_check_finds(kafka, tmp_path):
    port = int(kafka.bootstrap.rpartition(":")[2])
    bad = ran(
        kafka,
        job(
            tmp_path,
            kafka,
            ["no-such-topic"],
            target="/proc/lake/{database}/{table}",
            options={"zero_dates": "error"},
            schemas={"shop.a": "id int"},
            dead_letters=None,
            status="no_such_catalog.own.status",
            keys={"orders": ["id"]},
            metrics={"port": port, "address": "127.0.0.1"},
        ),
        "--check",
    )
    assert bad.returncode == 2
    assert re.search(r"arguments +problem +.*zero_dates", bad.stdout), bad.stdout
    assert re.search(r"source +problem +.*no-such-topic", bad.stdout)
    assert re.search(r"target +problem +cannot write to /proc", bad.stdout)
    assert re.search(r"dead_letters +ok +not set: the first message that cannot be read stops the job", bad.stdout)
    assert re.search(r"status +problem +.*no_such_catalog", bad.stdout)
    assert re.search(r"names +ok +orders: expected database\.table", bad.stdout)
    assert re.search(rf"metrics +problem +metrics: cannot listen on 127.0.0.1:{port}: Address already", bad.stdout)
    assert max(map(len, bad.stdout.splitlines())) < 700
    assert bad.stderr == ""


def options(**more):
    given = {"kafka.bootstrap.servers": "${TEST_BROKER}", "subscribe": "topic", **more}
    return {"source": {"options": {name: one for name, one in given.items() if one is not None}}}


def snapshots(**more):
    return {"snapshots": {**more, "tables": {"a.b": None}}}


MISTAKES = {
    "source": [
        (options(subscribe=None, subscribePattern="absent.*"), "no topic matches absent.*"),
        (options(subscribe=None), "options must be specified .* subscribe"),
        (options(startingOffsets="first"), "startingOffsets: expected earliest, latest or JSON"),
        (options(maxOffsetsPerTrigger="many"), "maxOffsetsPerTrigger: expected a positive integer, not many"),
        ({"trigger": {"processingTime": "soon"}}, "trigger: processingTime: .*soon"),
        ({"source": {"format": "towpath", "options": {"pth": "x"}}}, "unknown option 'pth'"),
    ],
    "arguments": [
        ({"columns": {"a.b": {"mask": {"c": "sha2(value"}}}}, "a.b: mask: c: .*Syntax error"),
        ({"columns": {"a.b": {"exclude": ["c"]}}, "status": None}, "columns: requires status"),
        ({"forget_after": "7 dayz"}, "forget_after: expected an SQL interval"),
    ],
    "target": [
        ({"target": "s3a://b/{database}/{table}"}, "S3AFileSystem not found: add its package"),
        ({"target": "lake.{database}.{table}"}, "unknown catalog lake"),
        ({"target": "hdfs://no.such:1/{database}/{table}"}, "UnknownHostException: no.such$"),
    ],
    "status": [
        ({"dead_letters": "/tmp/own/y", "status": "/tmp/own/y/"}, "/tmp/own/y/ is already the path of dead_letters")
    ],
    "snapshot of a.b": [
        (snapshots(options={"url": "mysql://u:pass@h"}), "^url: expected a JDBC URL"),
        (snapshots(options={"url": "jdbc:x:y"}), "driver to"),
        (snapshots(format="jbdc", options={"path": "/x"}), "^format: did you mean jdbc?"),
    ],
    "schema_registry": [
        (
            {"dialect": "debezium-avro", "options": {"schema_registry": "http://u:pass@127.0.0.1:1"}},
            "cannot be reached",
        )
    ],
}


@pytest.mark.parametrize("number", range(max(map(len, MISTAKES.values()))))
def test_mistakes_that_a_check_finds(spark, kafka, tmp_path, monkeypatch, number):
    """A job with one mistake in each thing that is checked."""
    mistakes = {name: of_name[number] for name, of_name in MISTAKES.items() if number < len(of_name)}
    monkeypatch.setenv("TEST_BROKER", kafka.bootstrap)
    with contextlib.suppress(Exception):
        kafka.create_topic("topic")
    settings = {name: one for more, _ in mistakes.values() for name, one in more.items()}
    found = list(check(read_job(job(tmp_path, kafka, ["topic"], **settings)), spark))
    problems = {one.name: one.found for one in found if not one.is_ok}
    assert problems.keys() == mistakes.keys()
    for name, text in problems.items():
        assert re.search(mistakes[name][1], text), text
        assert "\n" not in text
        assert "Traceback" not in text
    assert not [one for one in found if "pass" in one.found]


@pytest.mark.soak
def test_a_check_without_delta_and_broker(kafka, tmp_path):
    settings = {"spark.jars": "", "spark.sql.extensions": "", "spark.sql.catalog.spark_catalog": ""}
    settings |= {"spark.master": "local[1]", "spark.ui.enabled": False}
    bad = ran(kafka, job(tmp_path, kafka, ["t"], spark=settings), "--check")
    assert bad.returncode == 2
    assert re.search(r"source +problem +.*(kafka|Kafka)", bad.stdout), bad.stdout
    assert re.search(r"target +problem +the session has no Delta: set spark.jars.packages", bad.stdout)
