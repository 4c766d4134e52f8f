"""Avoids work of Spark's Python workers in every task that takes longer than a small task itself."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING
from zipimport import zipimporter

if TYPE_CHECKING:
    import pyarrow as pa


def begin_task() -> None:
    """Prepare a task. Functions that Spark calls on a worker begin with this call."""
    drop_spark_importers()
    if next(_tasks) == 1 and _is_forked_by_spark():
        # The process collects garbage after each task and visits all objects of all modules, which takes 20 ms. The
        # first task has loaded these objects and collected its garbage, so later collections can skip them.
        gc.freeze()


@dataclass(frozen=True)
class EachBatch:
    """Function for `mapInArrow` that reads each record batch by itself."""

    read: Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read batches on a worker: `DataFrame.mapInArrow` calls this."""
        begin_task()
        for batch in batches:
            yield from self.read(batch)


_tasks = count()


def _is_forked_by_spark() -> bool:
    """Return whether `pyspark.daemon` forked this process."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == "pyspark.daemon"


def drop_spark_importers() -> None:
    """Drop the cached importers of Spark's own archives. Python creates them again from its cache when needed.

    A worker of Spark 3.5 and 4.0 calls `importlib.invalidate_caches()` at the start of each task. Before Python 3.12
    every importer of a zip file, one per package in it, then rereads the file's whole directory: `pyspark.zip` has
    1,600 entries and about 14 imported packages, the jar of Spark's core has 9,000 entries. These files do not change
    while a worker lives. Importers of other archives are kept: files passed with `--py-files` may change.
    """
    if sys.version_info < (3, 12):
        for path, importer in list(sys.path_importer_cache.items()):
            if isinstance(importer, zipimporter) and _is_spark_archive(PurePath(importer.archive).name):
                del sys.path_importer_cache[path]


def _is_spark_archive(name: str) -> bool:
    return name == "pyspark.zip" or _SPARK_ARCHIVE.fullmatch(name) is not None


# Spark also adds the jar of its core to the workers' `sys.path`.
_SPARK_ARCHIVE = re.compile(r"py4j-[\d.]+-src\.zip|spark-core_[\d.]+-.+\.jar")
