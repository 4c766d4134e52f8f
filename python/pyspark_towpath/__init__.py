"""Where Spark 4 looks for data sources by itself: packages named `pyspark_*` that have a `DefaultSource`."""

from towpath.spark.source import TowpathDataSource as DefaultSource

__all__ = ["DefaultSource"]
