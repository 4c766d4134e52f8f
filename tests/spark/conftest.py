"""One local Spark for all tests of this folder."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from local_session import local_session
from spark_cluster import LASTING


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A classic session with small Arrow batches, so that a few hundred messages make several."""
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": "100", "spark.driver.extraJavaOptions": LASTING}
    session = local_session("towpath tests", settings)
    yield session
    session.stop()
