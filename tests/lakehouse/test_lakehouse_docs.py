"""The code of the README and of docs/lakehouse/ that needs Kafka and Delta runs as printed; so does the example."""

import json
import os
import subprocess
import sys
from decimal import Decimal

import pytest

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


def test_the_readmes_ten_lines(spark, kafka, filled, tmp_path):
    code = block("README.md", "towpath.spark.replicate")
    for printed, here in {"broker:9092": kafka.bootstrap, '"binlog"': f'"{filled}"', "/lake/": f"{tmp_path}/"}.items():
        assert printed in code
        code = code.replace(printed, here)
    names = {"spark": spark, "towpath": towpath}
    run("README.md", code, names)
    names["query"].processAllAvailable()
    names["query"].stop()
    assert rows(spark, f"{tmp_path}/shop/orders") == [{"id": "1", "total": "12.50"}]
    assert rows(spark, f"{tmp_path}/shop/customers") == [{"id": "2", "total": "None"}]
    assert spark.read.load(f"{tmp_path}/own/dead_letters", "delta").count() == 1


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
    run_block("docs/spark.md", "Window", names)
    changes = spark.sql("SELECT 1 AS id, struct(n) AS _sequence FROM VALUES (1), (3), (2) AS v(n)")
    assert [row._sequence.n for row in names["newest"](changes, ["id"]).collect()] == [3]


EXAMPLE = [sys.executable, ROOT / "examples" / "kafka_to_delta.py"]


def run_example(*arguments, settings, folder):
    variables = {**os.environ, "SPARK_CONF_DIR": str(settings)}
    command = [*EXAMPLE, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=900, cwd=folder)


@pytest.mark.parametrize(
    "tables",
    [
        ["--tables", "shop_a.pkmove", "misc_a.客户表", "misc_a.nopk"],
        pytest.param([], marks=pytest.mark.soak),  # takes minutes
    ],
    ids=["some", "all"],
)
def test_the_example_prints_what_its_readme_says(tmp_path, tables):
    """With a broker of its own, a relative path, and a table without a primary key."""
    # Its session has Spark's defaults; these settings make a short run start sooner.
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in QUICK.items()))
    arguments = ["--lake", "lake", *tables]
    ran = run_example(*arguments, settings=tmp_path, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    [shown] = [text for text in blocks("examples/README.md", "text") if "shop_a/pkmove" in text]
    (shown_counts, shown_rows), (counts, rows) = (text.strip().split("\n\n") for text in (shown, ran.stdout))
    assert rows == shown_rows
    assert set(counts.splitlines()) <= set(shown_counts.splitlines())
    assert tables or counts == shown_counts
    # What the source's tables have at the end; of the one without a key, its four changes.
    assert {"shop_a/pkmove: 20 rows", "misc_a/客户表: 2 rows", "misc_a/nopk: 4 rows"} <= set(counts.splitlines())
    again = run_example(*arguments, settings=tmp_path, folder=tmp_path)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert again.stderr.startswith(f"{tmp_path}/lake has the tables of an earlier broker")


@pytest.mark.parametrize("jar", [None, "delta-spark_2.13-9.9.0.jar"])
def test_the_example_names_jars_that_do_not_fit(tmp_path, jar):
    if jar:
        (tmp_path / jar).touch()
    ran = run_example("--jars", tmp_path, settings=tmp_path, folder=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    reason = (
        "Delta 9.9.0 runs on Spark 9.9, not on Spark 4." if jar else f"there is no Delta in {tmp_path}: run `make jars`"
    )
    assert ran.stderr.startswith(reason)
