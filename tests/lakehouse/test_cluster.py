"""A cluster whose nodes have no towpath: the job brings it, in both of the ways in docs/platforms/cluster.md."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet
import pytest

from all_golden import GOLDEN
from fidelity import lines
from kafka_source import decoded_locally, in_order
from server_process import jars
from spark_cluster import QUICK_START, SparkCluster, node_environment
from spark_rows import of_arrow

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "platforms" / "cluster.md").read_text()
FIELDS = ("op", "database", "table", "before", "after", "row", "error")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def sent(kafka):
    """Messages of TiCDC in a topic with more partitions than the cluster has cores."""
    topic = kafka.create_topic("cluster", 8)
    values = lines(GOLDEN / "canal-json" / "ticdc" / "canal_json_stream_ext.jsonl.zst")
    return kafka.produce(topic, [(None, value, at % 8) for at, value in enumerate(values)])


@pytest.fixture(scope="module")
def wheel():
    """The wheel that `make wheel` built, if it has the current files."""
    built = list((ROOT / "dist").glob("towpath-*.whl"))
    assert len(built) == 1, "`make wheel` builds the wheel that the cluster is sent"
    [found] = built
    with zipfile.ZipFile(found) as packed:
        for file in (ROOT / "python" / "towpath").rglob("*.py"):
            name = str(file.relative_to(ROOT / "python"))
            assert packed.read(name) == file.read_bytes(), f"{found.name} has another {name}: `make wheel` renews it"
    return found


def environment(folder: Path, *packages: Path | str) -> Path:
    """A new environment with some packages, in the versions of the tests."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pins = folder.with_suffix(".txt")
    # With hashes pip would accept neither a wheel that was built here, nor a package without its version.
    pinned = re.findall(r"^[^ #].*?(?= \\$)", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    pins.write_text("\n".join(pinned))
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--constraint", pins, *packages]
    subprocess.run(install, check=True)
    return folder


def run_job(cluster, kafka, sent, folder, python, **conf):
    """What cluster_job.py prints, run by a driver that has towpath for workers that run `python`."""
    settings = {
        "master": cluster.url,
        "kafka": kafka.bootstrap,
        "topic": sent[0].topic,
        "folder": str(folder),
        "conf": {
            "spark.jars": ",".join(map(str, jars("spark"))),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # no task before both executors have registered
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            **conf,
        },
    }
    variables = {**node_environment(), "PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": str(python)}
    program = [sys.executable, ROOT / "tests" / "support" / "cluster_job.py", json.dumps(settings)]
    ran = subprocess.run(program, env=variables, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stderr[-6000:]
    return json.loads(ran.stdout.splitlines()[-1])


def check_all(sent, folder, counts):
    """Both jobs decoded all messages. Returns where the rows of the batch were decoded."""
    wanted = decoded_locally(sent, key="key", fields=FIELDS)
    rows = in_order(of_arrow(pyarrow.parquet.read_table(folder / "batch")))
    places = [json.loads(row.pop("where")) for row in rows]
    assert rows == wanted
    assert in_order(of_arrow(pyarrow.parquet.read_table(folder / "stream"))) == wanted
    assert (counts["messages"], counts["rows"], counts["errors"]) == (len(sent), len(rows), 0)
    assert len(sent) == 798
    return places


def check_both_executors(cluster, places):
    """A standalone worker runs each executor in its own folder."""
    assert {Path(place["folder"]).parents[1] for place in places} == set(cluster.work_folders)


@pytest.mark.soak
def test_an_environment_packed_by_venv_pack(cluster, kafka, sent, wheel, tmp_path):
    made, packed = environment(tmp_path / "made", wheel), tmp_path / "environment.tar.gz"
    subprocess.run([sys.executable, "-m", "venv_pack", "--quiet", "-p", made, "-o", packed], check=True)
    made.rename(tmp_path / "gone")  # so that only the copy can run
    archive = {"spark.archives": f"{packed}#environment"}
    assert f"--archives {packed.name}#environment" in DOCUMENT
    counts = run_job(cluster, kafka, sent, tmp_path, "./environment/bin/python", **archive)
    places = check_all(sent, tmp_path, counts)
    check_both_executors(cluster, places)
    for place in places:
        assert Path(place["python"]) == Path(place["folder"], "environment/bin/python")
        assert Path(place["towpath"]).is_relative_to(Path(place["folder"], "environment"))


@pytest.mark.soak
def test_the_wheel_alone_where_nodes_have_pyarrow(cluster, kafka, sent, wheel, tmp_path):
    node = environment(tmp_path / "node", "pyarrow") / "bin" / "python"
    without = subprocess.run([node, "-c", "import towpath"], env=node_environment(), capture_output=True, check=False)
    assert b"No module named 'towpath'" in without.stderr
    archive = tmp_path / "towpath.zip"  # a wheel is a zip file, and Spark unpacks files with this suffix
    archive.write_bytes(wheel.read_bytes())
    conf = {"spark.archives": f"{archive}#towpath", "spark.executorEnv.PYTHONPATH": "towpath"}
    assert f"--archives {archive.name}#towpath --conf spark.executorEnv.PYTHONPATH=towpath" in DOCUMENT
    counts = run_job(cluster, kafka, sent, tmp_path, node, **conf)
    places = check_all(sent, tmp_path, counts)
    check_both_executors(cluster, places)
    for place in places:
        assert Path(place["python"]) == node
        assert Path(place["towpath"]) == Path(place["folder"], "towpath/towpath/__init__.py")
