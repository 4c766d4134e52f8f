"""The table of versions in the README is what the tests run with: `make test` and `make matrix` check their rows."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import astuple
from importlib.metadata import version

import pyspark
import pytest

from documents import ROOT
from server_process import java
from towpath.versions import TESTED, combination_with

TESTED_HERE = combination_with(pyspark.__version__)


def test_the_readmes_table_is_the_packages():
    head = (
        "| Spark | Python | Java | pandas | pyarrow | Delta | Iceberg | Kafka source | tested by |\n"
        + "|---" * 9
        + "|\n"
    )
    rows = ["| " + " | ".join([*astuple(one)[:-1], f"`{one.tested_by}`"]) + " |\n" for one in TESTED]
    assert head + "".join(rows) in (ROOT / "README.md").read_text()


def test_the_installed_versions_are_in_the_table():
    assert TESTED_HERE is not None
    assert TESTED_HERE.spark == pyspark.__version__
    assert version("pandas") in TESTED_HERE.pandas.split(", ")
    assert version("pyarrow") in TESTED_HERE.pyarrow.split(", ")
    lowest, *_, highest = re.findall(r"3\.(\d+)", TESTED_HERE.python)
    assert int(lowest) <= sys.version_info.minor <= int(highest)
    said = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr
    assert re.search(r'version "(\d+)', said)[1] in TESTED_HERE.java.split(", ")


@pytest.mark.parametrize("name", ["3.5", "4.0", "4.1", "4.3"])
def test_each_row_is_a_requirements_file(name):
    pinned = (ROOT / "requirements" / f"spark-{name}.txt").read_text()
    found = combination_with(name)
    assert re.findall(r"^pyspark==([\d.]+)", pinned, re.MULTILINE) == [found.spark]
    assert set(re.findall(r"^pandas==([\d.]+)", pinned, re.MULTILINE)) == set(found.pandas.split(", "))
    assert set(re.findall(r"^pyarrow==([\d.]+)", pinned, re.MULTILINE)) == set(found.pyarrow.split(", "))


@pytest.mark.parametrize(("name", "spark"), [("spark", "4.0"), ("spark-4.1", "4.1")])
def test_the_jars_are_those_of_the_table(name, spark):
    pom = ET.parse(ROOT / "tests" / "lakehouse" / "jars" / f"{name}.pom.xml").getroot()
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    jars = {
        ":".join(jar.find(f"m:{part}", space).text for part in ("groupId", "artifactId", "version"))
        for jar in pom.iterfind("m:dependencies/m:dependency", space)
    }
    assert jars == set(combination_with(spark).jars.values())


def test_every_format_is_tested_with_one_spark():
    [found] = [one for one in TESTED if len(one.jars) == 3]
    assert found.tested_by == "make test"
