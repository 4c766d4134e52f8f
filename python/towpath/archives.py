"""A cost of each task that Spark's own archives cause in Python workers, and how towpath avoids it."""

from __future__ import annotations

import re
import sys
from pathlib import PurePath
from zipimport import zipimporter


def forget_importers() -> None:
    """Drop the importers of Spark's own archives, which Python makes again from what it has read when they are needed.

    A worker of Spark 3.5 and 4.0 calls `importlib.invalidate_caches()` at the start of each task. Before Python 3.12
    each importer of a zip file, and there is one for each package in it, then reads the whole directory of its file
    again: `pyspark.zip` has 1,600 entries and some 14 packages in use, the jar of Spark's core has 9,000 entries.
    These files do not change while a worker lives. Importers of other archives stay: those of `--py-files` may change.
    """
    if sys.version_info < (3, 12):
        for path, importer in list(sys.path_importer_cache.items()):
            if isinstance(importer, zipimporter) and _is_sparks(PurePath(importer.archive).name):
                del sys.path_importer_cache[path]


def _is_sparks(name: str) -> bool:
    return name == "pyspark.zip" or _SPARKS.fullmatch(name) is not None


# Spark puts the jar of its core onto the workers' path too.
_SPARKS = re.compile(r"py4j-[\d.]+-src\.zip|spark-core_[\d.]+-.+\.jar")
