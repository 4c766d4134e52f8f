"""A Kafka broker for all tests of this folder."""

import re
from collections.abc import Iterator
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from kafka_broker import KafkaBroker
from lake_session import lake_jars
from towpath.lakehouse.reading import blocks


@pytest.fixture(scope="session")
def spark(spark: SparkSession) -> SparkSession:
    """Session of all tests. Fails with a hint to `make jars` if the formats are missing."""
    lake_jars()
    return spark


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
