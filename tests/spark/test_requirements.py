"""Errors of one line: what a worker lacks, with the cure, and where the message is that FAILFAST stops at."""

import sys
import venv

import pyarrow as pa
import pyspark
import pytest

import towpath
from canal_messages import MIXED, SCHEMA
from towpath.spark.requirements import on_worker


@pytest.fixture
def topic(spark):
    rows = [(None, value, "binlog", 3, 100 + at) for at, value in enumerate(MIXED)]
    return spark.createDataFrame(rows, "key binary, value binary, topic string, partition int, offset long").coalesce(1)


BYTE = MIXED[1].index(b"12,50")
PLACE = (
    rf"DecodeError: topic binlog, partition 3, offset 101, row 1 of its batch: "
    rf'canal-json: after\.total: "12,50" is not a decimal\(10,2\) \(byte {BYTE} of the message\)'
)


@pytest.mark.parametrize("metrics", [None, "counts"])
def test_failfast_names_the_place_of_the_message(topic, metrics):
    decoded = towpath.spark.decode(topic, "canal-json", SCHEMA, mode="FAILFAST", metrics=metrics)
    assert "offset" not in decoded.columns
    with pytest.raises(Exception, match=PLACE):
        decoded.collect()


def test_failfast_of_the_decoder_as_the_function(topic):
    decoder = towpath.Decoder("canal-json", SCHEMA, mode="FAILFAST")
    with pytest.raises(Exception, match=PLACE):
        topic.mapInArrow(decoder, decoder.spark_schema).collect()


WITHOUT_TOWPATH = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "towpath":
            raise ModuleNotFoundError("No module named 'towpath'", name="towpath")

sys.meta_path.insert(0, Absent())
"""


def test_a_worker_without_towpath(topic, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TOWPATH)
    worker = tmp_path / "python"
    worker.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    worker.chmod(0o755)
    # What the session takes from PYSPARK_PYTHON when it is created.
    monkeypatch.setattr(topic.sparkSession.sparkContext, "pythonExec", str(worker))
    with pytest.raises(Exception, match="towpath there") as raised:
        towpath.spark.decode(topic, "canal-json").collect()
    said = [line for line in str(raised.value).splitlines() if "towpath there" in line]
    assert len(said) == 1
    assert f"the Python of this worker, {sys.executable}, has no module towpath: " in said[0]
    assert "PYSPARK_PYTHON" in said[0]


def test_a_worker_python_that_does_not_exist(topic, tmp_path, monkeypatch):
    monkeypatch.setattr(topic.sparkSession.sparkContext, "pythonExec", f"{tmp_path}/absent")
    with pytest.raises(ValueError, match=f"workers with {tmp_path}/absent, which is not an executable"):
        towpath.spark.decode(topic, "canal-json")


def test_a_worker_python_without_pyarrow(topic, tmp_path, monkeypatch):
    """As another Python of the machine, which Spark takes without PYSPARK_PYTHON."""
    venv.create(tmp_path / "bare")
    python = tmp_path / "bare" / "bin" / "python"
    monkeypatch.setattr(topic.sparkSession.sparkContext, "pythonExec", str(python))
    with pytest.raises(ValueError, match=f"workers with {python}, which has no pyarrow: set .*PYSPARK_PYTHON"):
        towpath.spark.decode(topic, "canal-json")


@pytest.mark.skipif(pyspark.__version__ >= "4.1", reason="mapInArrow of Spark 4.1 and later needs no pandas")
def test_without_pandas(topic, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'Pandas [^\n]* must be installed[^\n]* pip install "towpath\[spark\]"'):
        towpath.spark.decode(topic, "canal-json")


def test_the_function_that_is_sent_decodes():
    decoder = towpath.Decoder("canal-json", SCHEMA)
    batch = pa.record_batch({"value": pa.array(MIXED)})
    [rows] = on_worker(decoder)([batch])
    assert rows.equals(decoder.decode(batch))
