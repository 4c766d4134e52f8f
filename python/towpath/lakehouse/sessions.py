"""What differs between the sessions of Spark: classic ones, and clients of Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm_of(spark: SparkSession) -> Any:
    """The JVM of a classic session; None for a client of Connect, which has none, and may be on another machine."""
    return getattr(spark, "_jvm", None)
