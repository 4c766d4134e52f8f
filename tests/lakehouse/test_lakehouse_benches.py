"""The benches of Spark, Kafka and Delta run over a few messages; they compare what their ways decode."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bench_kafka
import bench_lakehouse
import bench_partitions
import bench_scale
import bench_source
import bench_spark
import corpus
from kafka_broker import KafkaBroker

FEW = 60

pytestmark = pytest.mark.soak


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The corpora of a test, in its own folder."""
    monkeypatch.setattr(corpus, "CACHE", tmp_path)
    return tmp_path


def test_the_bench_of_spark(spark: SparkSession) -> None:
    figures = bench_spark.measure_file(spark, corpus.ensure("wide", FEW), rounds=-1)
    assert set(figures) == set(bench_spark.WAYS)


def test_the_bench_of_files(spark: SparkSession) -> None:
    assert bench_source.measure_files(spark, *bench_source.ensure_lines(FEW), rounds=-1)


def test_the_bench_of_scale(spark: SparkSession) -> None:
    results = bench_scale.measure(spark, cores=2, count=FEW, times=[1, 2], rounds=1)
    assert "towpath rows" in bench_scale.table(results)


def test_the_benches_of_topics(spark: SparkSession, kafka: KafkaBroker, topic: str) -> None:
    bench_kafka.fill(kafka, topic, FEW, partitions=2, compression="lz4")
    measured = bench_kafka.measure_topic(spark, kafka.bootstrap, topic, FEW, rounds=-1)
    assert set(bench_kafka.MEASURED) < set(measured["ways"])


def test_the_bench_of_partitions(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    values = list(corpus.messages("wide", FEW))
    [result] = bench_partitions.measure(spark, kafka, values, [2], 1, str(tmp_path))
    assert result["messages"] == len(values)


@pytest.mark.parametrize(
    "shape",
    [
        bench_lakehouse.Shape(tables=1, changes=20, keys=10, batches=1, rounds=1, is_iceberg=True),
        bench_lakehouse.Shape(tables=1, changes=20, keys=50, batches=2, rounds=1, rows=50, merge="spark"),
    ],
    ids=["Iceberg", "rows"],
)
def test_the_bench_of_replication(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, topic: str, shape: bench_lakehouse.Shape
) -> None:
    measured = bench_lakehouse.run(spark, kafka, topic, shape, str(tmp_path))
    assert set(measured) == set(bench_lakehouse.WAYS)
