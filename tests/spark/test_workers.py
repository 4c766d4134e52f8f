"""The overhead of Python workers: each of them imports what its functions need."""

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

MESSAGE = b'{"type":"INSERT","database":"shop","table":"orders","data":[{"id":"7"}]}'
BATCH = f"""
import pyarrow as pa
import sys

message = {MESSAGE!r}
ends = pa.py_buffer(b"".join(end.to_bytes(4, sys.byteorder) for end in (0, len(message))))
values = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(message)])
batch = pa.RecordBatch.from_arrays([values], ["value"])
"""


def imported(program: str) -> set[str]:
    """The modules of a process that ran this, as on a worker."""
    program += "\nimport sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(ran.stdout.split())


def test_counting_imports_no_pandas() -> None:
    program = f"""{BATCH}
import towpath
from towpath.spark.metrics import CountingDecoder
rows, counts = CountingDecoder(towpath.Decoder("canal-json", schema="id bigint"))([batch])
assert counts["_towpath_counts"].to_pylist()[0]["messages"] == 1
assert rows.schema == counts.schema
"""
    modules = imported(program)
    assert "towpath.spark.metrics" in modules
    assert modules.isdisjoint({"pandas", "pyarrow.compute", "pyarrow.fs", "pyspark"})


@pytest.mark.skipif(pyspark.__version__ < "4", reason="Spark 3.5 has no data sources in Python")
@pytest.mark.parametrize("layout", ["change", "upsert"])
def test_reading_files_imports_no_pandas(tmp_path: Path, layout: str) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_bytes(MESSAGE + b"\n")
    program = f"""
from towpath.spark.source import TowpathDataSource
options = {{"dialect": "canal-json", "schema": "id bigint", "layout": {layout!r}, "keep": "_file"}}
source = TowpathDataSource({{**options, "path": {str(file)!r}}})
reader = source.reader(source.schema())
[partition] = reader.partitions()
[rows] = reader.read(partition)
assert rows["_file"].to_pylist() == [{str(file)!r}]
"""
    modules = imported(program)
    assert "towpath.spark.source" in modules
    assert "pandas" not in modules
