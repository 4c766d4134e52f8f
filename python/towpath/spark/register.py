"""Registers the data source and the SQL function in a session.

This is a separate module because `towpath.spark.source` cannot be imported with Spark 3.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register `spark.read.format("towpath")` and the SQL table function `from_cdc` in a session.

    Spark 4 discovers data sources once, at their first use, in the packages that its own Python can import. A session
    that got towpath later or in another way needs this call. Spark never discovers functions.

    Raises:
        ValueError: `spark` is not a session.
        NotImplementedError: Spark 3.5 has no Python data sources.
    """
    from pyspark.errors import AnalysisException

    if not hasattr(spark, "readStream"):
        raise ValueError(f"spark: expected a SparkSession, not {type(spark).__name__}")
    try:
        from towpath.spark.source import TowpathDataSource
        from towpath.spark.table_function import FromCdc
    except ModuleNotFoundError as error:
        raise NotImplementedError('format("towpath") needs Spark 4 or later; use towpath.spark.decode') from error
    from pyspark.sql.functions import udtf

    function: Any = udtf(FromCdc, useArrow=False)  # its declared type includes a decorator
    spark.udtf.register("from_cdc", function)
    try:
        spark.dataSource.register(TowpathDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # Spark has discovered it
            raise
