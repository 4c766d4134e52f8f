"""A Kafka broker, and a local Spark with the jars for Kafka and Delta: one of each for all tests of this folder.

Jars are given to a JVM once, so this folder runs in a pytest process of its own: `pytest tests/lakehouse`.
"""

import os
import re
import sys
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from kafka_broker import KafkaBroker
from server_process import jars

# Workers have to run the Python that has towpath; collected timestamps are shown in the process's own zone.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["TZ"] = "UTC"
time.tzset()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A running broker."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no topic has yet, with the test's name in it."""
    return f"{re.sub('[^a-zA-Z0-9]+', '-', request.node.name)[:100]}-{uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A classic session that knows the formats `kafka` and `delta`."""
    assert SparkContext._active_spark_context is None, "pytest tests/lakehouse has to be a run of its own"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("towpath lakehouse tests")
        .config("spark.jars", ",".join(map(str, jars("spark"))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        # Delta reads its log in 50 tasks by default, which a small table has no work for.
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
