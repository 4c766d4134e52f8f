"""The code of docs/lakehouse/ that needs Kafka and Delta runs as printed; so does the example."""

import json
import os
import runpy
import subprocess
import sys
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

import towpath
from documents import ROOT, block, blocks, run, run_block
from lake_session import QUICK
from spark_rows import of_spark


def message(table, row):
    types = {"id": "bigint", "total": "decimal(10,2)"}
    change = {
        "database": "shop",
        "table": table,
        "type": "INSERT",
        "pkNames": ["id"],
        "data": [row],
        "mysqlType": types,
    }
    return (None, json.dumps(change | {"data": [row], "es": 1_700_000_000_000}).encode(), 0)


@pytest.fixture
def filled(kafka, topic):
    """A topic of two tables, and an invalid message."""
    kafka.create_topic(topic)
    rows = [("orders", {"id": "1", "total": "12.50"}), ("customers", {"id": "2", "total": None})]
    kafka.produce(topic, [message(*row) for row in rows] + [(None, b"none", 0)])
    return topic


def rows(spark, table):
    found = of_spark(spark.read.load(table, "delta").drop("_towpath").collect())
    return [{key: str(cell) for key, cell in row.items()} for row in found]


def test_the_pages_on_lakehouses(spark, kafka, filled, tmp_path, capsys):
    names = {"spark": spark, "towpath": towpath, "broker": kafka.bootstrap, "lake": str(tmp_path)}
    code = block("docs/lakehouse/index.md", 'lake + "/{database}/{table}"')
    run("docs/lakehouse/index.md", code.replace('"binlog"', f'"{filled}"'), names)
    assert rows(spark, f"{tmp_path}/shop/orders") == [{"id": "1", "total": "12.50"}]
    run_block("docs/lakehouse/order.md", "_towpath.offset", names)
    run_block("docs/lakehouse/statements.md", "state <> 'ok'", names)
    assert "|  1|2023-11-14" in capsys.readouterr().out
    run_block("docs/lakehouse/operations.md", "towpath.spark.reprocess", names)
    run_block("docs/lakehouse/index.md", "towpath.spark.apply_changes", names)
    assert rows(spark, f"{tmp_path}/orders") == [{"id": "1", "total": "12.50"}]
    code = block("docs/lakehouse/index.md", "ice.{database}").replace("ice.", f"ice.{tmp_path.name}.")
    run("docs/lakehouse/index.md", code, names)
    table = spark.table(f"ice.{tmp_path.name}.shop.orders").drop("_towpath")
    assert table.collect() == [(1, Decimal("12.50"))]
    assert spark.table(f"ice.{tmp_path.name}.towpath.dead_letters").count() == 1
    run_block("docs/spark/index.md", "Window", names)
    changes = spark.sql("SELECT 1 AS id, struct(n) AS _sequence FROM VALUES (1), (3), (2) AS v(n)")
    assert [row._sequence.n for row in names["newest"](changes, ["id"]).collect()] == [3]


EXAMPLE = str(ROOT / "examples" / "kafka_to_delta.py")
[SHOWN] = [text for text in blocks("examples/README.md", "text") if "shop_a/pkmove" in text]


def test_the_example_prints_what_its_readme_says(spark, kafka, topic, tmp_path, monkeypatch, capsys):
    """In this session, with a relative path, and a table without a primary key."""

    def run_example(*arguments):
        monkeypatch.setattr(sys, "argv", [EXAMPLE, "--lake", "lake", *arguments])
        runpy.run_path(EXAMPLE, run_name="__main__")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    broker = ["--broker", kafka.bootstrap, "--topic", topic, "--fill"]
    run_example(*broker, "--tables", "shop_a.pkmove", "misc_a.客户表", "misc_a.nopk")
    (shown_counts, shown_rows), (counts, rows) = (
        text.strip().split("\n\n") for text in (SHOWN, capsys.readouterr().out)
    )
    assert rows == shown_rows
    assert set(counts.splitlines()) <= set(shown_counts.splitlines())
    # What the source's tables have at the end; of the one without a key, its four changes.
    assert {"shop_a/pkmove: 20 rows", "misc_a/客户表: 2 rows", "misc_a/nopk: 4 rows"} <= set(counts.splitlines())
    with pytest.raises(SystemExit, match=f"^{tmp_path}/lake has the tables of an earlier broker"):
        run_example()


@pytest.mark.soak  # takes minutes
def test_the_example_is_a_program(tmp_path):
    """With a broker of its own, and all tables."""
    # Its session has Spark's defaults; these settings make a short run start sooner.
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in QUICK.items()))
    command, variables = [sys.executable, EXAMPLE, "--lake", "lake"], {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=900, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == SHOWN.strip()


def test_the_example_names_jars_that_do_not_fit(tmp_path):
    check = runpy.run_path(EXAMPLE)["check_spark"]
    with pytest.raises(SystemExit, match=f"^there is no Delta in {tmp_path}: run `make jars`"):
        check(tmp_path)
    (tmp_path / "delta-spark_2.13-9.9.0.jar").touch()
    with pytest.raises(SystemExit, match=r"^Delta 9\.9\.0 runs on Spark 9\.9, not on Spark 4\."):
        check(tmp_path)
