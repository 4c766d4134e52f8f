"""Requirements of towpath on the driver and the workers. A missing one raises a one-line error with a remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_INSTALL = 'pip install "towpath[spark]" in the Python of the driver'


def require_pyspark() -> None:
    """Raise an `ImportError` that says what to install."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise ImportError(f"pyspark is not installed: {_INSTALL}", name="pyspark") from error


def has_arrow(kind: type[DataFrame]) -> bool:
    """Return whether a DataFrame of this class is made from Arrow tables and collected as them. Spark 3.5 lacks it."""
    return hasattr(kind, "toArrow")


def map_in_arrow(df: DataFrame, function: Any, output: StructType) -> DataFrame:
    """Apply `DataFrame.mapInArrow` to a function that needs towpath.

    Raises:
        ImportError: Spark's Python needs a package that is not installed.
        ValueError: The Python that a local Spark would start does not exist.
    """
    _check_worker_python(df)
    try:
        return df.mapInArrow(on_worker(function), output)
    except ImportError as error:  # pandas, for Spark 4.0 and earlier
        raise ImportError(f"{' '.join(str(error).split())} {_INSTALL}") from error


def _check_worker_python(df: DataFrame) -> None:
    """Check Python before a job fails with pages of Java errors. A cluster's executors have their own Python."""
    context = getattr(df.sparkSession, "_sc", None)  # None in Spark Connect
    if context is None or not str(context.master).startswith("local"):
        return
    if problem := _problem_of(context.pythonExec):
        raise ValueError(
            f"Spark would start its workers with {context.pythonExec}, which {problem}: set the environment "
            "variable PYSPARK_PYTHON to sys.executable before the session is created"
        )


@cache
def _problem_of(python: str) -> str | None:
    """Return the problem of a Python, or None. Spark's worker imports pyarrow before it can report towpath's errors."""
    found = shutil.which(python)
    if not found:
        return "is not an executable"
    if os.path.abspath(found) == os.path.abspath(sys.executable):
        return None
    ran = subprocess.run([found, "-c", "import pyarrow"], capture_output=True, check=False)
    return "has no pyarrow" if ran.returncode else None


def on_worker(function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> Any:
    """Return a function for `mapInArrow` that suggests a remedy if a worker's Python lacks towpath.

    Spark pickles it by value, since it is local, with the inner function as bytes. So a worker can load it without
    towpath.
    """
    from pyspark import cloudpickle

    pickled = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]

    def decode_batches(batches: Iterable[Any]) -> Iterator[Any]:
        import pickle
        import sys

        try:
            decode = pickle.loads(pickled)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"the Python of this worker, {sys.executable}, has no module {error.name}: install towpath there, or "
                "set PYSPARK_PYTHON to a Python that has it before the session is created (docs/platforms/cluster.md)",
                name=error.name,
            ) from None
        yield from decode(batches)

    return decode_batches
