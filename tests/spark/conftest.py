"""Small Arrow batches for all tests of this folder, so that a few hundred messages make several."""

from collections.abc import Iterator

import pytest

from towpath.lakehouse.merging.jobs import session_settings


@pytest.fixture(scope="module", autouse=True)
def small_batches(request: pytest.FixtureRequest) -> Iterator[None]:
    """The setting of the session."""
    with session_settings(request.getfixturevalue("spark"), {"spark.sql.execution.arrow.maxRecordsPerBatch": "100"}):
        yield
