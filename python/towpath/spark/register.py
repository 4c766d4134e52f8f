"""Registers the data source and the function of SQL in a session.

This is a module of its own because `towpath.spark.source` cannot be imported with Spark 3.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register `spark.read.format("towpath")` and the table function `from_cdc` of SQL in a session.

    Spark 4 discovers data sources once, at their first use, among the packages that its own Python can import. A
    session that got towpath later, or in another way, needs this call. Functions are never discovered.

    Raises:
        ValueError: `spark` is not a session.
        NotImplementedError: This is Spark 3.5, which has no Python data sources.
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

    function: Any = udtf(FromCdc, useArrow=False)  # or a decorator, for its type
    spark.udtf.register("from_cdc", function)
    try:
        spark.dataSource.register(TowpathDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # Spark has discovered it
            raise
