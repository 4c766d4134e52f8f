"""For all tests: a local Spark for each process, with the jars for Kafka and Delta if they were fetched."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from spark_cluster import QUICK_START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark starts each JVM with these options, including the JVMs of programs under test.
os.environ["SPARK_SUBMIT_OPTS"] = QUICK_START


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A session for a whole run of tests, with the formats `kafka`, `delta` and `iceberg` if there are jars."""
    from lake_session import session_of_a_run

    session = session_of_a_run(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()
