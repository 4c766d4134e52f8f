"""What differs between the sessions of Spark: classic ones, and clients of Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm_of(spark: SparkSession) -> Any:
    """The JVM of a classic session; None for a client of Connect, which has none, and may be on another machine."""
    return getattr(spark, "_jvm", None)


_TASKS_PER_CORE = 4


def most_tasks(spark: SparkSession) -> int:
    """How many tasks keep all cores busy, also if some take longer. Each more costs without a gain."""
    context = getattr(spark, "sparkContext", None)
    if context is None:  # a client of Connect does not know the cores
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return _TASKS_PER_CORE * int(context.defaultParallelism)
