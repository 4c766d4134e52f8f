"""A local Spark that knows the formats `kafka` and `delta`, with what `make jars` fetched."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from server_process import jars
from spark_cluster import QUICK_START

# For small data: compiling each query costs more than it gains, and planning it anew between its stages as well.
QUICK = {
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}


def lake_session(warehouse: Path, settings: Mapping[str, str] = QUICK) -> SparkSession:
    """A classic session on two cores."""
    # Workers have to run the Python that has towpath; collected timestamps are shown in the process's own zone.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["TZ"] = "UTC"
    time.tzset()
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = (
        builder.appName("towpath lakehouse tests")
        .config("spark.jars", ",".join(map(str, jars("spark"))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        # Delta reads its log in 50 tasks by default, which a small table has no work for.
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
