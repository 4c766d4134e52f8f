"""What a process imports before its first batch: each Python worker of Spark pays for that."""

import subprocess
import sys


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
OURS = ["towpath", "towpath._towpath", "towpath.decoder", "towpath.spark", "towpath.spark.types"]


def test_importing_towpath_imports_pyarrow_and_little_else() -> None:
    assert printed(NEW.format(before="pyarrow", program="import towpath")) == OURS


def test_decoding_imports_nothing_more() -> None:
    assert printed(NEW.format(before="pyarrow", program=DECODES)) == OURS


def test_every_name_of_towpath_spark_is_there_whatever_was_imported_before() -> None:
    """A module with the name of a function would stand in its place."""
    program = """
import importlib, pkgutil
import towpath.spark
for module in pkgutil.iter_modules(towpath.spark.__path__):
    if module.name != "source":  # which needs a pyspark of version 4
        importlib.import_module(f"towpath.spark.{module.name}")
kinds = {name: type(getattr(towpath.spark, name)).__name__ for name in towpath.spark.__all__}
assert set(towpath.spark.__all__) <= set(dir(towpath.spark))
print(*sorted(set(kinds.values())))
"""
    assert printed(program) == ["function", "tuple", "type"]
