"""Registers the data source in a session.

This is a module of its own because `towpath.spark.source` cannot be imported with Spark 3.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register `spark.read.format("towpath")` in a session that does not discover it.

    Spark 4 discovers data sources once, at their first use, among the packages that its own Python can import. A
    session that got towpath later, or in another way, needs this call.

    Raises:
        NotImplementedError: This is Spark 3.5, which has no Python data sources.
    """
    from pyspark.errors import AnalysisException

    try:
        from towpath.spark.source import TowpathDataSource
    except ModuleNotFoundError as error:
        raise NotImplementedError('format("towpath") needs Spark 4 or later; use towpath.spark.decode') from error
    try:
        spark.dataSource.register(TowpathDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # Spark has discovered it
            raise
