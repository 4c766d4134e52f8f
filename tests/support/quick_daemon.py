"""The process that Spark's Python workers are forks of, with less to do for each of them and for each task.

Workers have the packages that Spark would import, but not towpath, which a test hides from them. Before each task
Spark 4.0 makes Python read the directories of its zip files and of a jar again, and after it every object is looked
at: 0.13 s of CPU time, more than the tasks of most tests.
"""

import gc
import zipimport

import pandas  # noqa: F401
import pyarrow.compute
import pyarrow.dataset  # noqa: F401
from pyspark.daemon import manager
from pyspark.sql.pandas import serializers, types  # noqa: F401

if __name__ == "__main__":
    # Spark does not change its own files while it runs.
    zipimport.zipimporter.invalidate_caches = lambda _: None
    gc.collect()
    gc.freeze()
    manager()
