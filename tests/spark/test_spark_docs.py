"""The Spark code of the README, of docs/spark/index.md and of docs/spark/source.md runs as printed."""

import gzip
import importlib.util
import re
from decimal import Decimal

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener

import towpath
from canal_messages import change
from documents import ROOT, block, blocks, run, run_block
from towpath import files
from towpath.decoder import PARAMETERS
from towpath.spark import source_options as options

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="pages need matplotlib, which is not in this environment"
)

MESSAGES = [
    change(data=[{"id": "7", "total": "12.50"}]),
    change("UPDATE", data=[{"id": "7", "total": "13.00"}], old=[{"total": "12.50"}]),
    b"{",
]


@pytest.fixture
def names(spark):
    """What the documents presuppose: a session, a DataFrame like that of the Kafka source, a decoder."""
    df = spark.createDataFrame([(value, offset) for offset, value in enumerate(MESSAGES)], "value binary, offset long")
    return {"spark": spark, "df": df, "towpath": towpath, "decoder": towpath.Decoder("canal-json"), "pa": pa}


def test_readme_batch(names, capsys):
    run_block("README.md", "frame.select", names)
    shown = capsys.readouterr().out.strip()
    assert shown.count("|") == 20
    assert f"```text\n{shown}\n```" in (ROOT / "README.md").read_text()


def test_readme_decoder_as_function(names):
    run_block("README.md", "df.mapInArrow", names)
    assert [row.op for row in names["frame"].collect()] == ["insert", "update", "error"]


class KafkaStandIn:
    """A session whose Kafka source reads files, since there is no broker."""

    def __init__(self, spark, path):
        self._reader = spark.readStream.schema(
            "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
        ).format("parquet")
        self._path = path
        self.readStream = self

    def format(self, name):
        assert name == "kafka"
        return self

    def option(self, name, value):
        assert name in ("kafka.bootstrap.servers", "subscribe")
        return self

    def load(self):
        return self._reader.load(self._path)


def test_stream(names, spark, tmp_path):
    kafka = names["df"].selectExpr(
        "cast(null as binary) key", "value", "'t' topic", "0 partition", "offset", "now() timestamp", "0 timestampType"
    )
    kafka.write.parquet(str(tmp_path / "kafka"))
    names["spark"] = KafkaStandIn(spark, str(tmp_path / "kafka"))
    run_block("docs/spark/index.md", "orders = towpath", names)
    query = names["orders"].writeStream.format("memory").queryName("readme").trigger(availableNow=True).start()
    query.awaitTermination(600)
    rows = spark.table("readme").orderBy("offset").collect()
    assert [(row["_op"], row["id"], row["topic"], row["offset"]) for row in rows] == [
        ("insert", 7, "t", 0),
        ("update", 7, "t", 1),
        ("error", None, "t", 2),
    ]


def test_spark_page_has_the_readmes_blocks():
    """Which the tests above run."""
    for word in ("frame.select", "df.mapInArrow"):
        assert block("docs/spark/index.md", word) == block("README.md", word)
    shown = re.search(r"frame\.select.*?(```text\n.*?```)", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    assert shown in (ROOT / "docs" / "spark" / "index.md").read_text()


def test_spark_page_counts(names, capsys):
    run_block("docs/spark/index.md", "Observation", names)
    assert capsys.readouterr().out == "3 1 1\n"


def test_page_for_beginners(names, capsys):
    """Its session is this one; the messages are those of the block before."""
    first, second = blocks("docs/start.md")
    run("docs/start.md", first, names)
    capsys.readouterr()
    session = names["spark"]
    run("docs/start.md", second, names)
    assert names["spark"] is session
    assert f"```text\n{capsys.readouterr().out.strip()}\n```" in (ROOT / "docs" / "start.md").read_text()


def test_moving_from_from_json(names, spark):
    """Both ways on the page give the same rows, and the rows are those in the messages."""
    by_hand, by_towpath = blocks("docs/migrating/from-json.md")
    values = [
        *MESSAGES[:2],
        change("DELETE", data=[{"id": "7", "total": "13.00"}]),
        change(data=[{"id": "8", "total": "1.00"}], table="others"),
    ]
    names["df"] = spark.createDataFrame(list(enumerate(values)), "offset long, value binary")
    run("docs/migrating/from-json.md", by_hand, names)
    run("docs/migrating/from-json.md", by_towpath, names)
    found = [[tuple(row) for row in names[name].collect()] for name in ("by_hand", "by_towpath")]
    wanted = [("insert", 7, "12.50"), ("update", 7, "13.00"), ("delete", 7, "13.00")]
    assert found[0] == found[1] == [(op, key, Decimal(total)) for op, key, total in wanted]


@pytest.mark.skipif(pyspark.__version__ < "4", reason="data sources in Python came with Spark 4")
def test_source_page(names, tmp_path, capsys):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"\n".join(MESSAGES)))
    [code] = blocks("docs/spark/source.md")
    run("docs/spark/source.md", code.replace("captures/", f"{tmp_path}/"), names)
    shown = capsys.readouterr().out
    assert re.search(r"insert\|\s*7\|\s*12\.50\|\s*0\|", shown)
    assert re.search(rf"error\|\s*NULL\|\s*NULL\|\s*{sum(map(len, MESSAGES[:2])) + 2}\|", shown)
    assert names["orders"].first()["_file"] == f"{tmp_path}/a.jsonl.gz"


def test_options_and_framings_of_the_source_page():
    text = (ROOT / "docs" / "spark" / "source.md").read_text()
    own = re.findall(r"^\| `(\w+)` \| ", text.partition("## Framings")[0], re.MULTILINE)
    assert set(own) == {*options._DEFAULTS, "keep"} - {"path", "paths"}
    assert "Every argument of `towpath.Decoder` except `value` and `key`" in text
    arguments = {*PARAMETERS, *options._DIALECT_OPTIONS} - {"value", "key"}
    assert set(options._PARSERS) == {*arguments, *own, "path", "paths"}
    assert re.findall(r"^\| `([\w-]+)` \| `\.", text, re.MULTILINE) == list(files.FRAMINGS)
    assert all(f"`{suffix}`" in text for suffix in (*files._FRAMINGS, *files._COMPRESSIONS))


def test_spark_page_listener(names, spark):
    run_block("docs/spark/index.md", "progress_listener", names)
    spark.streams.removeListener(names["listener"])
    assert isinstance(names["listener"], StreamingQueryListener)
    assert names["batches"] == []


@needs_matplotlib
def test_report_page(names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_block("docs/report.md", "spark.report", names)
    assert "3 events of 2 tables; 1 with an error." in (tmp_path / "report.html").read_text()


def test_every_block_of_the_documents_is_run_by_some_test():
    words = {
        "README.md": ["towpath.Decoder(", "frame.select", "df.mapInArrow"],
        "docs/spark/source.md": ['format("towpath")'],
        "docs/report.md": ["write_report", "spark.report"],
        "docs/spark/index.md": [
            "PYSPARK_PYTHON",
            "frame.select",
            "df.mapInArrow",
            "orders = towpath",
            "towpath.spark.from_cdc",
            "FROM from_cdc",
            "Observation",
            "progress_listener",
            "Window",
        ],
        "docs/lakehouse/index.md": ['lake + "/{database}/{table}"', "apply_changes", "ice.{database}"],
        "docs/lakehouse/order.md": ["_towpath.offset"],
        "docs/lakehouse/statements.md": ["state <> 'ok'"],
        "docs/lakehouse/operations.md": ["towpath.spark.reprocess"],
        "docs/start.md": ["towpath.Decoder(", "SparkSession"],
        "docs/migrating/from-json.md": ["from_json", "towpath.spark.decode"],
    }
    for document, expected in words.items():
        assert [next(word for word in expected if word in block) for block in blocks(document)] == expected
