"""The modules that a process imports before its first batch, which is a cost of each Python worker of Spark."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import extras
from all_golden import GOLDEN


def printed(program: str) -> list[str]:
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return ran.stdout.split()


NEW = """
import sys, {before}
before = set(sys.modules)
{program}
new = set(sys.modules) - before
print(*sorted(name for name in new if name.partition(".")[0] not in sys.stdlib_module_names))
"""

DECODES = """
import pickle
import pyarrow as pa
import towpath

message = b'{"type":"INSERT","database":"shop","table":"orders","data":[{"id":"7"}]}'
ends = pa.py_buffer(b"".join(end.to_bytes(4, sys.byteorder) for end in (0, len(message))))
values = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(message)])
batch = pa.RecordBatch.from_arrays([values], ["value"])
decoder = pickle.loads(pickle.dumps(towpath.Decoder("canal-json", schema="id bigint")))
assert [len(rows) for rows in decoder([batch])] == [1]
"""
OURS = [
    "towpath",
    "towpath._towpath",
    "towpath.decoder",
    "towpath.messages",
    "towpath.spark",
    "towpath.spark.decode",
    "towpath.spark.register",
    "towpath.spark.report",
    "towpath.spark.types",
    "towpath.workers",
]


def test_importing_towpath_imports_pyarrow_and_little_else() -> None:
    assert printed(NEW.format(before="pyarrow", program="import towpath")) == OURS


def test_the_command_does_not_import_pandas() -> None:
    """To convert a list, pyarrow would import it if it is installed."""
    capture = GOLDEN / "canal-json/cloudcanal/small.jsonl"
    command = [sys.executable, "-X", "importtime", "-m", "towpath", "tables", capture]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "shop.orders" in ran.stdout
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "pyarrow" in imported
    assert not any(one.startswith("pandas.") for one in imported)


def test_decoding_imports_nothing_more() -> None:
    assert printed(NEW.format(before="pyarrow", program=DECODES)) == OURS


def test_sparks_archives_are_not_read_again_for_each_task(tmp_path: Path) -> None:
    """Before Python 3.12 `invalidate_caches`, which workers of Spark 4.0 call for each task, reads them all."""
    for archive in ("pyspark.zip", "py4j-0.10.9-src.zip", "spark-core_2.13-4.0.0.jar", "theirs.zip"):
        package = re.split(r"\W|_", archive)[0]
        with ZipFile(tmp_path / archive, "w") as written:
            written.writestr(f"archived_{package}/__init__.py", "")
            written.writestr(f"archived_{package}/one.py", "")
            written.writestr(f"archived_{package}/two.py", "")
    program = f"""
import importlib, sys, zipimport
from pathlib import Path
sys.path += [str(archive) for archive in sorted(Path({str(tmp_path)!r}).iterdir())]
import archived_py4j.one, archived_pyspark.one, archived_spark.one, archived_theirs.one
import towpath
list(towpath.Decoder("canal-json")([]))
{{}}
read = []
real = zipimport._read_directory
zipimport._read_directory = lambda archive: read.append(Path(archive).name) or real(archive)
importlib.invalidate_caches()
import archived_py4j.two, archived_pyspark.two, archived_spark.two, archived_theirs.two
print(*sorted(set(read)))
"""
    assert set(printed(program.format(""))) <= {"theirs.zip"}
    if sys.version_info < (3, 12):
        undone = "importlib.invalidate_caches(); import archived_pyspark.two; del sys.modules['archived_pyspark.two']"
        assert "pyspark.zip" in printed(program.format(undone))


def test_the_former_place_of_the_lakehouse():
    code = (
        "import towpath.spark.lakehouse.batches as b; from towpath.spark.lakehouse.statements import read_statements;"
        "from towpath.spark.lakehouse.targets import Targets; import towpath.lakehouse.batches as c; assert b is c"
    )
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert "DeprecationWarning: towpath.spark.lakehouse is deprecated; use towpath.lakehouse" in found.stderr
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


BROUGHT = {"numpy": "pandas", "fsspec": ""}
"""numpy comes with pandas; without fsspec, an error says what it is for."""


def imported(tree: ast.AST) -> Iterator[str]:
    """The packages that are imported, but for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module
            yield node.module
        else:
            yield from imported(node)


def test_each_package_that_is_imported_is_a_requirement_of_an_extra() -> None:
    """Not what another package brings today: Confluent's client brought httpx, and now httpx2."""
    always, by_extra = extras.declared()
    names = {re.split(r"[^\w-]", one)[0] for listed in (always, *by_extra.values()) for one in listed}
    distributions = packages_distributions()
    found = set()
    for file in (extras.ROOT / "python").rglob("*.py"):
        tree = ast.parse(file.read_text())
        found |= {name.partition(".")[0] for name in imported(tree)} - sys.stdlib_module_names - {"towpath"}
    assert {"pyarrow", "yaml", "confluent_kafka"} < found
    for package in found - BROUGHT.keys():
        assert {one.lower().replace("_", "-") for one in distributions[package]} & names, f"{package} is not declared"


def test_each_extra_has_an_example_that_is_tried_without_pins() -> None:
    assert extras.declared()[1].keys() == extras.EXAMPLES.keys()
    assert extras.oldest(["a[b]>=2.8,<3", "c>=1"]) == ["a==2.8", "c==1"]
