"""What the README says works in a clean virtual environment with the wheel and what its extra brings, nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from all_golden import GOLDEN
from documents import block, blocks
from wheels import WHEELS, needs_wheel

CAPTURE = GOLDEN / "canal-json/cloudcanal/small.jsonl"

pytestmark = needs_wheel


class Environment:
    """A virtual environment."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)

    def pip(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [self.python, "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def run(self, program: str | Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program without the variables of this process that concern Python or Spark."""
        clean = {name: value for name, value in os.environ.items() if not re.match("PYTHON|PYSPARK|SPARK", name)}
        command = [program, *arguments]
        environment = {**clean, "SPARK_LOCAL_IP": "127.0.0.1", **variables}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)

    def code(self, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.python, "-c", text, **variables)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """An environment with the wheel."""
    folder = tmp_path_factory.mktemp("clean")
    environment = Environment(folder / "venv")
    if environment.pip("download", "--no-deps", "--dest", folder, "six").returncode:
        pytest.skip("no package index answers: nothing can be installed into a clean environment")
    installed = environment.pip("install", "--no-compile", WHEELS[-1])
    assert installed.returncode == 0, installed.stderr
    return environment


def test_the_ten_lines(bare):
    ran = bare.code(block("README.md", "towpath.Decoder("))
    assert ran.returncode == 0, ran.stderr
    assert "Decimal('12.50')" in ran.stdout


def test_the_command(bare):
    command = bare.python.parent / "towpath"
    decoded = bare.run(command, "decode", CAPTURE)
    assert decoded.returncode == 0, decoded.stderr
    assert decoded.stdout.count("\n") == len(CAPTURE.read_bytes().splitlines())


def test_without_pyspark_and_matplotlib_one_line_says_what_to_install(bare, tmp_path):
    ran = bare.code("import towpath; towpath.Decoder().spark_schema")
    assert ran.stderr.splitlines()[-1].startswith('ImportError: pyspark is not installed: pip install "towpath[spark]"')
    listener = bare.code("import towpath; towpath.spark.progress_listener()")
    assert listener.stderr.splitlines()[-1] == ran.stderr.splitlines()[-1]
    report = bare.run(bare.python.parent / "towpath", "report", CAPTURE, "-o", tmp_path / "report.html")
    assert (report.returncode, report.stderr) == (
        2,
        'towpath: a report needs matplotlib: pip install "towpath[report]"\n',
    )


@pytest.fixture(scope="module")
def spark(bare):
    """The environment with the extra that the README names."""
    assert any('pip install ".[spark]"' in code for code in blocks("README.md", "sh"))
    installed = bare.pip("install", "--no-compile", f"{WHEELS[-1]}[spark]")
    assert installed.returncode == 0, installed.stderr
    return bare


SESSION = """
import os, sys
import towpath
from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
message = b'{"type":"INSERT","database":"shop","table":"orders","data":[{"id":"7","total":"12.50"}]}'
df = spark.createDataFrame([(bytearray(message), 5)], "value binary, offset long")
"""


@pytest.mark.soak
def test_the_extra_spark_decodes_in_spark(spark):
    assert spark.code("import pandas; print(pandas.__version__)").stdout.startswith("2."), "Spark 4.0 needs it"
    ran = spark.code(SESSION + block("README.md", "frame.select"))
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"insert\|\s*7\|\s*12\.50\|\s*5\|", ran.stdout)


def test_without_pandas_one_line_says_what_to_install(spark):
    """On a Spark that needs it: last, since it is taken out."""
    removed = spark.pip("uninstall", "--yes", "pandas")
    assert removed.returncode == 0, removed.stderr
    ran = spark.code(SESSION + block("README.md", "frame.select"))
    version = spark.code("import pyspark; print(pyspark.__version__)").stdout
    if ran.returncode == 0:
        assert version >= "4.1", "newer versions of Spark do without"
        assert "12.50" in ran.stdout
    else:
        last = ran.stderr.splitlines()[-1]
        assert last.startswith("ImportError: [PACKAGE_NOT_INSTALLED]")
        assert 'pip install "towpath[spark]"' in last
