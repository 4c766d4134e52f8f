"""One local Spark for all tests of this folder."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from local_session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A classic session with small Arrow batches, so that a few hundred messages make several."""
    session = local_session("towpath tests", {"spark.sql.execution.arrow.maxRecordsPerBatch": "100"})
    yield session
    session.stop()
