"""Entry point for Spark 4, which finds data sources in packages named `pyspark_*` with a `DefaultSource`."""

from towpath.spark.source import TowpathDataSource as DefaultSource

__all__ = ["DefaultSource"]
