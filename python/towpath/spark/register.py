"""Making the data source known to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("towpath")` known to a session that does not find it by itself.

    Spark 4 looks for data sources once, when it is first asked for one, in what its own Python can import. A session
    that got towpath later, or by other ways, has to be told.

    Raises:
        NotImplementedError: This is Spark 3.5, which has no data sources in Python.
    """
    from pyspark.errors import AnalysisException

    try:
        from towpath.spark.source import TowpathDataSource
    except ModuleNotFoundError as error:
        raise NotImplementedError('format("towpath") needs Spark 4 or later; use towpath.spark.decode') from error
    try:
        spark.dataSource.register(TowpathDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # it was found by itself
            raise
