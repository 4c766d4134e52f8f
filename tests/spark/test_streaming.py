"""towpath on streaming DataFrames, compared with the same messages in one batch."""

import pytest

import towpath
from golden_files import lines
from spark_rows import of_spark


@pytest.fixture
def files(spark, tmp_path):
    """The messages in several files, which the stream reads one at a time."""
    values = lines("cloudcanal/small.jsonl")
    frame = spark.createDataFrame(list(enumerate(values)), "offset long, value binary")
    frame.repartitionByRange(4, "offset").write.parquet(str(tmp_path / "messages"))
    return str(tmp_path / "messages")


def run(decoded, name):
    query = decoded.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination(600)
    assert not query.isActive
    return query


def stream(spark, files):
    source = spark.readStream.schema("offset long, value binary").option("maxFilesPerTrigger", "1")
    return source.parquet(files)


def by_offset(rows):
    return sorted(of_spark(rows), key=lambda row: (row["offset"], row["row"]))


@pytest.mark.parametrize("layout", ["change", "upsert"])
def test_a_stream_gives_what_the_batch_gives(spark, files, layout):
    schema = "order_id bigint, total_amount decimal(12,2), updated_at timestamp, status string"
    options = {"schema": schema, "table": "orders", "keep": ["offset"], "layout": layout}
    run(towpath.spark.decode(stream(spark, files), "canal-json", **options), f"decoded_{layout}")
    batch = towpath.spark.decode(spark.read.parquet(files), "canal-json", **options)
    key = "_row" if layout == "upsert" else "row"
    rows, wanted = (
        spark.table(f"decoded_{layout}").withColumn("row", _column(key)),
        batch.withColumn("row", _column(key)),
    )
    assert by_offset(rows.collect()) == by_offset(wanted.collect())
    assert wanted.count() == 28


def _column(name):
    from pyspark.sql import functions

    return functions.col(name)


def test_counts_arrive_in_the_queries_progress(spark, files):
    decoded = towpath.spark.decode(stream(spark, files), "canal-json", table="orders", metrics="cdc")
    query = run(decoded, "counted")
    counts = [progress["observedMetrics"]["cdc"] for progress in query.recentProgress if progress["numInputRows"]]
    assert len(counts) == 4
    assert sum(count["messages"] for count in counts) == 56
    assert sum(count["rows"] for count in counts) == 28 == spark.table("counted").count()
    assert sum(count["filtered"] for count in counts) == 28
    assert sum(count["errors"] for count in counts) == 0
