"""Lists the installed versions, checks whether they work together, and suggests remedies."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

from towpath import _towpath
from towpath.cli.arguments import add_json
from towpath.cli.exit_status import DECODE_ERRORS, SUCCESS
from towpath.cli.text import print_table
from towpath.versions import TESTED, Versions, combination_with

PURPOSE = "show the installed versions, whether they work together, and what to do if not"

OK, PROBLEM, ABSENT = "ok", "problem", "absent"

_EXTRAS = {
    "sqlglot": "spark",
    "confluent-kafka": "registry",
    "matplotlib": "report",
    "tqdm": "cli",
    "deltalake": "delta",
    "pyyaml": "job",
    "prometheus-client": "job",
}
"""Packages that only some functions need, with the extra of towpath that installs them."""

_JARS = {
    "delta": ("Delta's jar", "replicate cannot write Delta tables"),
    "iceberg": ("Iceberg's jar", "replicate cannot write Iceberg tables"),
    "kafka": ("Kafka's jar", 'only format("towpath") can read topics'),
}
"""Display name of each jar in `Versions.jars`, and the functions that need it."""

_ASK = "import sys, towpath; print('%d.%d' % sys.version_info[:2])"


@dataclass(frozen=True)
class Finding:
    """Result of one check."""

    name: str
    found: str
    verdict: str
    """OK, PROBLEM or ABSENT."""
    cure: str = ""


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_json(verb)


def run(parsed: argparse.Namespace) -> int:
    """Print the findings. Return status 1 if there is a problem."""
    findings = list(examine())
    if parsed.json:
        print(json.dumps([asdict(one) for one in findings], ensure_ascii=False))
    else:
        print_table([[one.name, one.found, one.verdict, one.cure] for one in findings])
    return DECODE_ERRORS if any(one.verdict == PROBLEM for one in findings) else SUCCESS


def examine() -> Iterator[Finding]:
    """Yield findings about everything that towpath works with."""
    yield Finding("towpath", _towpath.__version__, OK)
    yield Finding("Python", ".".join(map(str, sys.version_info[:3])), OK)
    yield Finding("pyarrow", _version("pyarrow") or "none", OK)
    spark = _version("pyspark")
    if spark is None:
        yield Finding("pyspark", "none", ABSENT, 'for Spark: pip install "towpath[spark]"')
    else:
        yield from _spark(spark)
    for package, extra in _EXTRAS.items():
        found = _version(package)
        cure = "" if found else f'pip install "towpath[{extra}]"'
        yield Finding(package, found or "none", OK if found else ABSENT, cure)


def _spark(spark: str) -> Iterator[Finding]:
    tested = combination_with(spark)
    versions = ", ".join(one.spark for one in TESTED)
    yield Finding("pyspark", spark, OK, "" if tested else f"not tested; tested versions: {versions}")
    yield _pandas(spark)
    yield _java(tested.java if tested else TESTED[-1].java)
    yield _worker_python()
    yield from _jars(tested)


def _jars(tested: Versions | None) -> Iterator[Finding]:
    """Yield the jars that were tested with the installed Spark. Only a running session knows whether it has them."""
    for name, (title, cost) in _JARS.items():
        jar = tested.jars.get(name) if tested else None
        if jar is None:
            cure = f'no version is tested with this Spark, so {cost}: pip install "towpath[lakehouse]"'
            yield Finding(title, "none", ABSENT, cure)
        else:
            yield Finding(title, jar.rpartition(":")[2], OK, f"spark.jars.packages: {jar}")


def _pandas(spark: str) -> Finding:
    """Check pandas. `mapInArrow` needs pandas 2 before Spark 4.1."""
    found = _version("pandas")
    needs = tuple(map(int, spark.split(".")[:2])) < (4, 1)
    if found is None:
        return Finding("pandas", "none", PROBLEM if needs else ABSENT, 'pip install "pandas>=2,<3"' if needs else "")
    fits = found.startswith("2.") or not needs
    return Finding(
        "pandas", found, OK if fits else PROBLEM, "" if fits else f'Spark {spark}: pip install "pandas>=2,<3"'
    )


def _java(fitting: str) -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    cure = f"install a JDK {fitting.replace(', ', ' or ')} and set JAVA_HOME to it"
    if not java:
        return Finding("Java", "none", PROBLEM, cure)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    number = re.search(r'version "(\d+)([^"]*)"', said)
    if not number:
        return Finding("Java", "unknown", PROBLEM, cure)
    fits = number[1] in fitting.split(", ")
    return Finding("Java", number[1] + number[2], OK if fits else PROBLEM, "" if fits else cure)


def _worker_python() -> Finding:
    """Check the Python that a local Spark starts for its workers."""
    name = os.environ.get("PYSPARK_PYTHON", "python3")
    cure = f"export PYSPARK_PYTHON={sys.executable}"
    program = shutil.which(name)
    if not program:
        return Finding("Spark's workers", f"{name} is not an executable", PROBLEM, cure)
    ran = subprocess.run([program, "-c", _ASK], capture_output=True, text=True, check=False)
    if ran.returncode:
        return Finding("Spark's workers", f"{program} cannot import towpath", PROBLEM, cure)
    found, here = ran.stdout.strip(), "{}.{}".format(*sys.version_info)
    fits = found == here
    return Finding("Spark's workers", f"{program}, Python {found}", OK if fits else PROBLEM, "" if fits else cure)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
