"""One local Spark for all tests of this folder."""

import os
import sys
import time

import pytest
from pyspark.sql import SparkSession

# Workers have to run the Python that has towpath; collected timestamps are shown in the process's own zone.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["TZ"] = "UTC"
time.tzset()


@pytest.fixture(scope="session")
def spark():
    """A classic session with small Arrow batches, so that a few hundred messages make several."""
    session = (
        SparkSession.builder.master("local[2]")
        .appName("towpath tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
