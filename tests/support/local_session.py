"""A local Spark for tests."""

import os
import sys
import time
from collections.abc import Mapping

from pyspark.sql import SparkSession


def local_session(name: str, settings: Mapping[str, str]) -> SparkSession:
    """A session on two cores, with these settings and those that all tests need."""
    # Workers have to run the Python that has towpath; timestamps are collected in the process's time zone.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["TZ"] = "UTC"
    time.tzset()
    builder = (
        SparkSession.builder.master("local[2]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        # Python's stack, for each expression.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for form in ("short", "long"):  # without them, Spark looks through the stack for each RDD
        session.sparkContext.setLocalProperty(f"callSite.{form}", name)
    return session
