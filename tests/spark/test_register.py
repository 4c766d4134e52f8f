"""Registering the data source."""

import pyspark
import pytest

import towpath


@pytest.mark.skipif(pyspark.__version__ >= "4", reason="this Spark has data sources in Python")
def test_spark_3_is_told_what_it_lacks(spark):
    with pytest.raises(NotImplementedError, match="needs Spark 4"):
        towpath.spark.register(spark)


@pytest.mark.parametrize("value", [None, "spark"])
def test_only_a_session_is_accepted(value):
    with pytest.raises(ValueError, match=f"spark: expected a SparkSession, not {type(value).__name__}"):
        towpath.spark.register(value)
