"""Differences between Spark sessions: classic or Spark Connect, with or without suitable jars."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from towpath.versions import combination_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LINKAGE = re.compile(
    r"java\.lang\.((?:NoSuchMethod|NoSuchField|NoClassDefFound|AbstractMethod|IncompatibleClassChange|Verify)Error[^\n]*)"
)
_MISSING = re.compile(r"Failed to find the data source: (delta|iceberg)")
_MOST_TEXT = 200


def jvm_of(spark: SparkSession) -> Any:
    """Return the JVM of a classic session; None for a Connect client, which may be on another machine."""
    return getattr(spark, "_jvm", None)


def hadoop_path(spark: SparkSession, path: str) -> tuple[Any, Any] | None:
    """Return a path and its file system as JVM objects of the driver; None for a Connect client."""
    if jvm_of(spark) is None:
        return None
    path_class, configuration = _hadoop(spark)
    found = path_class(path)
    return found, found.getFileSystem(configuration)


def may_exist(spark: SparkSession, path: str) -> bool:
    """Return whether a file or folder is at a path. This takes a hundredth of the time of a failed read."""
    found = hadoop_path(spark, path)
    if found is None:  # a Connect client cannot check
        return True
    at, file_system = found
    return bool(file_system.exists(at))


@lru_cache(maxsize=2)
def _hadoop(spark: SparkSession) -> tuple[Any, Any]:
    """Return Hadoop's Path class and the configuration of a session. Each takes a call of the JVM."""
    # With a dot after each part, Py4J would look for a class of each prefix in all jars.
    return getattr(jvm_of(spark), "org.apache.hadoop.fs.Path"), spark._jsc.hadoopConfiguration()


class UnfittingJarError(RuntimeError):
    """Error for a missing jar, such as Delta's, or a jar for another Spark. Java's own error has pages of text."""


def unfitting_jar(spark: str, error: BaseException) -> UnfittingJarError | None:
    """Return an error that replaces Java's; None if it has another cause. `spark` is the session's version."""
    text = str(error)
    if missing := _MISSING.search(text):
        name = missing[1]
        return UnfittingJarError(f"the session has no {name.capitalize()}: {_cure(spark, name)}")
    if linkage := _LINKAGE.search(text):
        what = f"a Delta or Iceberg jar in the session was built for a Spark other than {spark}"
        return UnfittingJarError(f"{what}: {_cure(spark, 'delta', 'iceberg')} ({linkage[1][:_MOST_TEXT]})")
    return None


def _cure(spark: str, *names: str) -> str:
    tested = combination_with(spark)
    jars = [tested.jars[name] for name in names if name in tested.jars] if tested else []
    if jars:
        return f"set spark.jars.packages to {','.join(jars)} before the session is created"
    return f'no version is tested with Spark {spark}; pip install "towpath[lakehouse]" installs a Spark that has one'


def iceberg_table(spark: SparkSession, target: str) -> Any:
    """Return Iceberg's table object with the last commit. Not available on Connect."""
    loaded = getattr(jvm_of(spark), "org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
        spark._jsparkSession, target
    )
    loaded.refresh()
    return loaded
