"""A Kafka broker, and a local Spark with the jars for Kafka and Delta: one of each for all tests of this folder.

Jars are given to a JVM once, so this folder runs in a pytest process of its own: `pytest tests/lakehouse`.
"""

import re
from collections.abc import Iterator
from uuid import uuid4

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from kafka_broker import KafkaBroker
from lake_session import OF_A_WHOLE_RUN, lake_session
from towpath.lakehouse.reading import blocks


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A running broker."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A new topic name with the test's name in it."""
    return f"{re.sub('[^a-zA-Z0-9]+', '-', request.node.name)[:100]}-{uuid4().hex[:8]}"


@pytest.fixture
def known_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of few messages is known after its first batch, as a table of many messages is."""
    monkeypatch.setattr(blocks, "_WORTH_KNOWING", 1)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A classic session with the formats `kafka` and `delta`."""
    assert SparkContext._active_spark_context is None, "pytest tests/lakehouse has to be a run of its own"
    session = lake_session(tmp_path_factory.mktemp("warehouse"), OF_A_WHOLE_RUN)
    yield session
    session.stop()
