"""Spark Connect: a client without a JVM, and a server with the jars for Kafka and Delta."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from all_golden import GOLDEN
from delta_history import commits
from fidelity import lines
from kafka_source import decoded_locally, ordered
from lake_session import QUICK, lake_settings
from server_process import ServerProcess
from spark_cluster import HOME, node_environment

ROOT = Path(__file__).parents[2]
STARTED = r"Spark Connect server started at: \S*?:(\d+)"


@pytest.fixture
def server(tmp_path):
    """The address of a server, as Spark's own start script starts it."""
    conf = {
        **lake_settings(tmp_path / "warehouse"),
        **QUICK,
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
    }
    options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    program = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *options, "spark-internal"]
    variables = {**node_environment(), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = ServerProcess([HOME / "bin" / "spark-submit", *program], tmp_path / "server.log", variables)
    try:
        running.wait_until(lambda: re.search(STARTED, running.log()) is not None)
        yield f"sc://127.0.0.1:{re.search(STARTED, running.log())[1]}"
    finally:
        running.stop()


@pytest.mark.soak
def test_a_topic_goes_into_delta_tables_through_connect(spark, kafka, topic, server, tmp_path):
    kafka.create_topic(topic, 2)
    values = lines(GOLDEN / "canal-json" / "ticdc" / "canal_json_stream_ext.jsonl.zst")
    sent = kafka.produce(topic, [(None, value, at % 2) for at, value in enumerate(values)])
    settings = {"remote": server, "kafka": kafka.bootstrap, "topic": topic, "folder": str(tmp_path)}
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, ROOT / "tests" / "support" / "connect_client.py", json.dumps(settings)]
    ran = subprocess.run(program, env=variables, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stderr[-6000:]
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["session"] == "pyspark.sql.connect.session"
    assert sum(said["messages"]) == len(sent) == 798
    assert len(said["messages"]) >= 3
    wanted = decoded_locally(sent, key="key")
    for table in ("batch", "stream"):
        assert ordered(spark.read.format("delta").load(str(tmp_path / table))) == wanted
    for table in ("replica", "replica_of_stream"):
        assert replicated(spark, tmp_path / table) == last_rows(values)
        [state] = spark.read.format("delta").load(str(tmp_path / table / "status")).collect()
        assert (state["table"], state["state"]) == ("composite_pk", "dropped")
        found = commits(spark, f"delta.`{tmp_path / table}/composite_pk`")
        assert ("MERGE", "task") in found


def replicated(spark, folder):
    """The rows of the table, as the text that TiCDC writes."""
    rows = spark.read.format("delta").load(str(folder / "composite_pk")).drop("_towpath").collect()
    return {(str(row["order_id"]), row["sku"]): None if row["qty"] is None else str(row["qty"]) for row in rows}


def last_rows(values):
    """The final rows of the table, computed from the messages, which are in commit order."""
    rows = {}
    for message in map(json.loads, values):
        if message["table"] == "composite_pk" and not message["isDdl"] and message["data"]:
            [row], [old] = message["data"], message["old"] or [None]
            for image in filter(None, (old and {**row, **old}, row)):
                rows.pop((image["order_id"], image["sku"]), None)
            if message["type"] != "DELETE":
                rows[row["order_id"], row["sku"]] = row["qty"]
    return rows
