"""What differs between the sessions of Spark: classic ones, and clients of Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm_of(spark: SparkSession) -> Any:
    """The JVM of a classic session; None for a client of Connect, which has none, and may be on another machine."""
    return getattr(spark, "_jvm", None)


def hadoop_path(spark: SparkSession, path: str) -> tuple[Any, Any] | None:
    """A path and its file system, objects of the driver's JVM; None for a client of Connect."""
    jvm = jvm_of(spark)
    if jvm is None:
        return None
    # With a dot after each part, Py4J would look for a class of that name, and for each of them in all jars.
    found = getattr(jvm, "org.apache.hadoop.fs.Path")(path)
    return found, found.getFileSystem(spark._jsc.hadoopConfiguration())
