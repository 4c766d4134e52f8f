"""What differs between the sessions of Spark: classic ones or clients of Spark Connect, and jars that fit or do not."""

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
    """The JVM of a classic session; None for a client of Connect, which has none, and may be on another machine."""
    return getattr(spark, "_jvm", None)


def hadoop_path(spark: SparkSession, path: str) -> tuple[Any, Any] | None:
    """A path and its file system, objects of the driver's JVM; None for a client of Connect."""
    if jvm_of(spark) is None:
        return None
    path_class, configuration = _hadoop(spark)
    found = path_class(path)
    return found, found.getFileSystem(configuration)


def may_exist(spark: SparkSession, path: str) -> bool:
    """Whether something is at a path: asked in a hundredth of the time that a failed reading takes."""
    found = hadoop_path(spark, path)
    if found is None:  # a client of Connect cannot ask
        return True
    at, file_system = found
    return bool(file_system.exists(at))


@lru_cache(maxsize=2)
def _hadoop(spark: SparkSession) -> tuple[Any, Any]:
    """Hadoop's class of paths and the configuration of a session, each of which takes a call of the JVM."""
    # With a dot after each part, Py4J would look for a class of that name, and for each of them in all jars.
    return getattr(jvm_of(spark), "org.apache.hadoop.fs.Path"), spark._jsc.hadoopConfiguration()


class UnfittingJarError(RuntimeError):
    """The session lacks a jar, such as Delta's, or has one for another Spark, which Java says in pages."""


def unfitting_jar(spark: str, error: BaseException) -> UnfittingJarError | None:
    """The error to raise in place of one of Java; None if it has another cause. `spark`: the session's version."""
    text = str(error)
    if missing := _MISSING.search(text):
        name = missing[1]
        return UnfittingJarError(f"the session has no {name.capitalize()}: {_cure(spark, name)}")
    if linkage := _LINKAGE.search(text):
        what = f"a jar of Delta or Iceberg in the session was made for another Spark than {spark}"
        return UnfittingJarError(f"{what}: {_cure(spark, 'delta', 'iceberg')} ({linkage[1][:_MOST_TEXT]})")
    return None


def _cure(spark: str, *names: str) -> str:
    tested = combination_with(spark)
    jars = [tested.jars[name] for name in names if name in tested.jars] if tested else []
    if jars:
        return f"set spark.jars.packages to {','.join(jars)} before the session is created"
    return f'none is tested with Spark {spark}; pip install "towpath[lakehouse]" installs a Spark that has one'


def iceberg_table(spark: SparkSession, target: str) -> Any:
    """Iceberg's own object of a table, with its last commit. Not on Connect."""
    loaded = getattr(jvm_of(spark), "org.apache.iceberg.spark.Spark3Util").loadIcebergTable(
        spark._jsparkSession, target
    )
    loaded.refresh()
    return loaded
